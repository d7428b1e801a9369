//! What is mounted below a folder, and how it is unmounted; control groups, which are a file system too.

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
}

fn mounts() -> Vec<Mount> {
    fs::read_to_string("/proc/self/mountinfo").unwrap_or_default().lines().filter_map(parse).collect()
}

/// ID, parent, device, root, mount point, options, any number of tags, a hyphen, kind, source, options.
fn parse(line: &str) -> Option<Mount> {
    let (front, back) = line.split_once(" - ")?;
    let at = unescape(front.split(' ').nth(4)?);
    Some(Mount { at, kind: back.split(' ').next()?.to_owned() })
}

/// Blanks, tabs, line ends and backslashes are written as a backslash and three octal digits.
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

/// Unmounts everything at and below these folders, the last mounted first. What is busy goes when its last user does.
pub(super) fn unmount_below(folders: &[&Path]) -> Result<(), Error> {
    let resolved: Vec<PathBuf> =
        folders.iter().map(|folder| folder.canonicalize().unwrap_or_else(|_| (*folder).into())).collect();
    for mount in mounts().iter().rev() {
        if !resolved.iter().any(|folder| mount.at.starts_with(folder)) {
            continue;
        }
        match unmount(&mount.at, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW) {
            // It went with another one.
            Ok(()) | Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOENT) => {}
            Err(errno) => return Err(Error::at("unmount", &mount.at)(errno.into())),
        }
    }
    Ok(())
}

/// The folders of a control group, in each hierarchy there is.
pub(super) fn cgroups(name: &str) -> Vec<PathBuf> {
    let name = name.trim_start_matches('/');
    let hierarchies = mounts().into_iter().filter(|mount| matches!(mount.kind.as_str(), "cgroup" | "cgroup2"));
    hierarchies.map(|mount| mount.at.join(name)).filter(|folder| folder.is_dir()).collect()
}

/// How deep a container may nest groups before we leave them alone.
const DEPTH_MAX: u32 = 16;

/// The processes in a control group and below.
pub(super) fn cgroup_processes(folder: &Path) -> Vec<u32> {
    let mut pids = Vec::new();
    visit(folder, DEPTH_MAX, &mut |group| {
        let text = fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
        pids.extend(text.lines().filter_map(|line| line.parse::<u32>().ok()));
    });
    pids
}

/// Lets processes go on that are paused: a signal reaches them only then, under older kernels even the one that kills.
pub(super) fn thaw_cgroup(folder: &Path) {
    visit(folder, DEPTH_MAX, &mut |group| {
        for (file, word) in [("freezer.state", "THAWED"), ("cgroup.freeze", "0")] {
            // Of the two a hierarchy has one or none; and what is not ours to thaw shows when it does not end.
            let _ = fs::OpenOptions::new()
                .write(true)
                .open(group.join(file))
                .and_then(|mut file| file.write_all(word.as_bytes()));
        }
    });
}

/// Removes an empty control group and those below.
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

/// Calls for the innermost first.
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
        assert_eq!(parse(line), Some(Mount { at: PathBuf::from("/home/a b/x\\y"), kind: "ext3".to_owned() }));
        assert_eq!(parse("36 35 98:0 / /a rw - overlay o rw").unwrap().kind, "overlay");
        assert_eq!(parse("no such line"), None);
        assert_eq!(unescape("a\\04"), PathBuf::from("a\\04"));
        assert!(mounts().iter().any(|mount| mount.at == Path::new("/proc")));
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
