//! Finds and removes mounts below a folder; finds, creates, thaws and removes control groups.

use std::{
    fs,
    io::{self, Write as _},
    os::unix::ffi::OsStringExt,
    path::{Path, PathBuf},
};

use rustix::mount::{UnmountFlags, unmount};

use crate::Error;

/// A line of `/proc/self/mountinfo`.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Mount {
    at: PathBuf,
    kind: String,
    /// The options of the file system; for control groups of version 1 they include the controllers.
    options: Vec<String>,
}

fn mounts() -> Vec<Mount> {
    fs::read_to_string("/proc/self/mountinfo").unwrap_or_default().lines().filter_map(parse).collect()
}

/// Parses a line: ID, parent, device, root, mount point, options, tags, a hyphen, type, source, options.
fn parse(line: &str) -> Option<Mount> {
    let (front, back) = line.split_once(" - ")?;
    let at = unescape(front.split(' ').nth(4)?);
    let mut back = back.split(' ');
    let kind = back.next()?.to_owned();
    let options = back.nth(1).unwrap_or_default().split(',').map(str::to_owned).collect();
    Some(Mount { at, kind, options })
}

/// Decodes `\` with three octal digits, which stands for a space, tab, line end or backslash.
fn unescape(text: &str) -> PathBuf {
    let bytes = text.as_bytes();
    let mut path = Vec::with_capacity(bytes.len());
    let mut index = 0;
    while let Some(byte) = bytes.get(index) {
        let digits = bytes.get(index + 1..index + 4).and_then(|digits| std::str::from_utf8(digits).ok());
        let escaped = digits.filter(|_| *byte == b'\\').and_then(|digits| u8::from_str_radix(digits, 8).ok());
        path.push(escaped.unwrap_or(*byte));
        index += if escaped.is_some() { 4 } else { 1 };
    }
    PathBuf::from(std::ffi::OsString::from_vec(path))
}

/// Unmounts everything at and below these folders, the last mount first. A busy mount is detached and disappears when
/// its last user closes it.
pub(super) fn unmount_below(folders: &[&Path]) -> Result<(), Error> {
    let resolved: Vec<PathBuf> =
        folders.iter().map(|folder| folder.canonicalize().unwrap_or_else(|_| (*folder).into())).collect();
    for mount in mounts().iter().rev() {
        if !resolved.iter().any(|folder| mount.at.starts_with(folder)) {
            continue;
        }
        match unmount(&mount.at, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW) {
            // It disappeared together with another mount.
            Ok(()) | Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOENT) => {}
            Err(errno) => return Err(Error::at("unmount", &mount.at)(errno.into())),
        }
    }
    Ok(())
}

/// The folders of a control group in all mounted hierarchies.
pub(super) fn cgroups(name: &str) -> Vec<PathBuf> {
    let name = name.trim_start_matches('/');
    let hierarchies = mounts().into_iter().filter(|mount| matches!(mount.kind.as_str(), "cgroup" | "cgroup2"));
    hierarchies.map(|mount| mount.at.join(name)).filter(|folder| folder.is_dir()).collect()
}

/// The path by which programs detect the version of control groups.
const CGROUP_ROOT: &str = "/sys/fs/cgroup";
/// The controllers that the kubelet uses. In version 2 it refuses a group that lacks one of them which the kernel has.
const KUBELET_CONTROLLERS: &[&str] = &["cpu", "cpuset", "hugetlb", "memory", "pids"];

/// The version of control groups that programs detect on this host, and its controllers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CgroupSupport {
    /// Whether it is version 1; also `true` where version 2 is mounted in addition.
    pub(super) is_v1: bool,
    pub(super) controllers: Vec<String>,
}

/// Reads this host's support of control groups.
pub(super) fn cgroup_support() -> CgroupSupport {
    find_support(&mounts(), |root| fs::read_to_string(root.join("cgroup.controllers")).unwrap_or_default())
}

fn find_support(mounts: &[Mount], controllers: impl Fn(&Path) -> String) -> CgroupSupport {
    // Of several mounts at one path, the last hides the others.
    let root = mounts.iter().rev().find(|mount| mount.at == Path::new(CGROUP_ROOT));
    if root.is_some_and(|mount| mount.kind == "cgroup2") {
        let all = controllers(Path::new(CGROUP_ROOT));
        return CgroupSupport { is_v1: false, controllers: all.split_whitespace().map(str::to_owned).collect() };
    }
    let first = mounts.iter().filter(|mount| mount.kind == "cgroup");
    CgroupSupport { is_v1: true, controllers: first.flat_map(|mount| mount.options.clone()).collect() }
}

/// Creates a control group in all mounted hierarchies, with the controllers that a kubelet needs. Existing groups stay.
///
/// # Errors
/// [`Error::Unsupported`] if the process may not change control groups.
pub(super) fn make_cgroups(name: &str) -> Result<(), Error> {
    let name = name.trim_start_matches('/');
    for mount in mounts().iter().filter(|mount| matches!(mount.kind.as_str(), "cgroup" | "cgroup2")) {
        let group = mount.at.join(name);
        make_cgroup(&mount.at, &group).map_err(|error| Error::Unsupported {
            missing: format!("the control group {} cannot be made: {error}", group.display()),
            remedy: "run rdd where root may change control groups, or choose the backend lima for a virtual machine"
                .to_owned(),
        })?;
    }
    Ok(())
}

fn make_cgroup(parent: &Path, group: &Path) -> io::Result<()> {
    let is_v2 = parent.join("cgroup.controllers").exists();
    if is_v2 {
        enable_controllers(parent)?;
    }
    match fs::create_dir(group) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    if is_v2 { Ok(()) } else { fill_cpuset(parent, group) }
}

/// For version 2: enables the controllers that a parent passes on to its children.
fn enable_controllers(parent: &Path) -> io::Result<()> {
    let words = |file: &str| fs::read_to_string(parent.join(file)).unwrap_or_default();
    let (all, enabled) = (words("cgroup.controllers"), words("cgroup.subtree_control"));
    let has = |text: &str, name: &str| text.split_whitespace().any(|word| word == name);
    for name in KUBELET_CONTROLLERS.iter().filter(|name| has(&all, name) && !has(&enabled, name)) {
        fs::OpenOptions::new()
            .append(true)
            .open(parent.join("cgroup.subtree_control"))?
            .write_all(format!("+{name}\n").as_bytes())?;
    }
    Ok(())
}

/// For version 1: copies the processors and memory nodes of the parent. A new group of cpuset has none and accepts no
/// process until it has.
fn fill_cpuset(parent: &Path, group: &Path) -> io::Result<()> {
    for file in ["cpuset.cpus", "cpuset.mems"] {
        match fs::read_to_string(group.join(file)) {
            Ok(text) if text.trim().is_empty() => fs::write(group.join(file), fs::read(parent.join(file))?)?,
            // The groups of other controllers have no such file.
            _ => {}
        }
    }
    Ok(())
}

/// The maximum depth to which nested groups are visited.
const DEPTH_MAX: u32 = 16;

/// The processes in a control group and in those below it.
pub(super) fn cgroup_processes(folder: &Path) -> Vec<u32> {
    let mut pids = Vec::new();
    visit(folder, DEPTH_MAX, &mut |group| {
        let text = fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
        pids.extend(text.lines().filter_map(|line| line.parse::<u32>().ok()));
    });
    pids
}

/// Resumes paused processes. Paused processes do not receive signals, with older kernels not even SIGKILL.
pub(super) fn thaw_cgroup(folder: &Path) {
    visit(folder, DEPTH_MAX, &mut |group| {
        for (file, word) in [("freezer.state", "THAWED"), ("cgroup.freeze", "0")] {
            // A hierarchy has at most one of the two files. A group that cannot be thawed shows up as processes that do
            // not end.
            let _ = fs::OpenOptions::new()
                .write(true)
                .open(group.join(file))
                .and_then(|mut file| file.write_all(word.as_bytes()));
        }
    });
}

/// Removes a control group and those below it. They must be empty.
pub(super) fn remove_cgroup(folder: &Path) -> io::Result<()> {
    let mut outcome = Ok(());
    visit(folder, DEPTH_MAX, &mut |group| {
        match fs::remove_dir(group) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => outcome = Err(error),
            _ => {}
        };
    });
    outcome
}

/// Calls a function for each group, the innermost first.
fn visit(folder: &Path, depth: u32, call: &mut impl FnMut(&Path)) {
    if depth == 0 {
        return;
    }
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            visit(&entry.path(), depth - 1, call);
        }
    }
    call(folder);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mount_points_are_read_with_their_escapes() {
        let line = "36 35 98:0 /mnt1 /home/a\\040b/x\\134y rw,noatime master:1 shared:2 - ext3 /dev/root rw";
        let expected =
            Mount { at: PathBuf::from("/home/a b/x\\y"), kind: "ext3".to_owned(), options: vec!["rw".to_owned()] };
        assert_eq!(parse(line), Some(expected));
        assert_eq!(parse("36 35 98:0 / /a rw - overlay o rw").unwrap().kind, "overlay");
        assert_eq!(parse("no such line"), None);
        assert_eq!(unescape("a\\04"), PathBuf::from("a\\04"));
        assert!(mounts().iter().any(|mount| mount.at == Path::new("/proc")));
    }

    // Finding E-19
    #[test]
    fn the_version_of_control_groups_is_that_of_their_root() {
        let of = |lines: &[&str]| {
            let mounts: Vec<Mount> = lines.iter().filter_map(|line| parse(line)).collect();
            find_support(&mounts, |_| "cpu memory\n".to_owned())
        };
        let tmpfs = "25 20 0:22 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755";
        let cpu = "26 25 0:23 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct";
        let beside = "27 25 0:24 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw";
        let unified = "25 20 0:22 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate";
        let first = of(&[tmpfs, cpu, beside]);
        assert!(first.is_v1 && first.controllers.contains(&"cpuacct".to_owned()), "{first:?}");
        let second = CgroupSupport { is_v1: false, controllers: vec!["cpu".to_owned(), "memory".to_owned()] };
        assert_eq!(of(&[unified]), second);
        assert_eq!(of(&[tmpfs, unified]), second, "what is mounted last counts");
        assert!(of(&[]).is_v1);
    }

    // Finding E-20
    #[test]
    fn a_new_group_gets_processors_and_controllers_of_its_parent() {
        let dir = tempfile::tempdir().unwrap();
        let (parent, group) = (dir.path().join("v1"), dir.path().join("v1/rdd-1"));
        fs::create_dir_all(&group).unwrap();
        for (file, text) in [("cpuset.cpus", "0-1\n"), ("cpuset.mems", "0\n")] {
            fs::write(parent.join(file), text).unwrap();
            fs::write(group.join(file), "\n").unwrap();
        }
        make_cgroup(&parent, &group).unwrap();
        let read = |path: PathBuf| fs::read_to_string(path).unwrap();
        assert_eq!((read(group.join("cpuset.cpus")), read(group.join("cpuset.mems"))), ("0-1\n".into(), "0\n".into()));
        fs::write(group.join("cpuset.cpus"), "1\n").unwrap();
        make_cgroup(&parent, &group).unwrap();
        assert_eq!(read(group.join("cpuset.cpus")), "1\n", "what somebody has chosen stays");
        let (parent, group) = (dir.path().join("v2"), dir.path().join("v2/rdd-1"));
        fs::create_dir_all(&parent).unwrap();
        fs::write(parent.join("cgroup.controllers"), "cpuset cpu io memory pids misc\n").unwrap();
        fs::write(parent.join("cgroup.subtree_control"), "memory\n").unwrap();
        make_cgroup(&parent, &group).unwrap();
        assert!(group.is_dir());
        assert_eq!(read(parent.join("cgroup.subtree_control")), "memory\n+cpu\n+cpuset\n+pids\n");
    }

    // Finding E-20
    #[test]
    fn a_group_is_made_in_every_hierarchy_of_this_host_and_takes_processes() {
        if !rdd_testkit::capability::require("own-engine") {
            return;
        }
        let name = format!("/rdd-test-{}", std::process::id());
        let hierarchies = mounts().into_iter().filter(|mount| mount.kind.starts_with("cgroup")).count();
        make_cgroups(&name).unwrap();
        make_cgroups(&name).unwrap();
        let groups = cgroups(&name);
        assert_eq!(groups.len(), hierarchies);
        for group in groups {
            for file in ["cpuset.cpus", "cpuset.mems"].map(|file| group.join(file)).iter().filter(|file| file.exists())
            {
                let is_v2 = group.join("cgroup.controllers").exists();
                assert!(is_v2 || !fs::read_to_string(file).unwrap().trim().is_empty(), "{}", file.display());
            }
            remove_cgroup(&group).unwrap();
        }
        assert!(cgroups(&name).is_empty());
    }

    #[test]
    fn groups_are_removed_from_the_inside() {
        let dir = tempfile::tempdir().unwrap();
        let group = dir.path().join("rdd-1");
        fs::create_dir_all(group.join("a/b")).unwrap();
        fs::create_dir_all(group.join("c")).unwrap();
        remove_cgroup(&group).unwrap();
        assert!(!group.exists());
        remove_cgroup(&group).unwrap();
    }

    #[test]
    fn what_is_mounted_below_a_folder_is_unmounted_and_what_is_beside_it_is_not() {
        if !rdd_testkit::capability::require("tmpfs") {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| {
            let path = dir.path().canonicalize().unwrap().join(name);
            fs::create_dir_all(&path).unwrap();
            let mounted = rustix::mount::mount("tmpfs", &path, "tmpfs", rustix::mount::MountFlags::empty(), None);
            mounted.unwrap();
            path
        };
        let (outer, beside) = (at("data root"), at("data root 2"));
        let inner = at("data root/overlay");
        unmount_below(&[&outer]).unwrap();
        let left: Vec<PathBuf> = mounts().into_iter().map(|mount| mount.at).collect();
        assert!(!left.contains(&outer) && !left.contains(&inner) && left.contains(&beside));
        unmount_below(&[&beside]).unwrap();
    }
}
