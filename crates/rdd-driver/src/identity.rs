//! Which processes are a machine's: by a mark in their environment that only they have, and by their age.
//!
//! Everything that we start for a machine has the variable [`MARK`] or [`LIMA_MARK`] with the path of the machine's
//! folder, and hands it down to what it starts itself: proxies of published ports, shims of containers, QEMU. (The processes
//! inside containers have environments of their own; they are found as descendants of the shims.) A mark is compared as a
//! whole, so `rd` is never taken for `rd-app`.

use std::{
    collections::BTreeMap,
    fs, io,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use rdd_stdx::process::{Process, Signal};
use serde::{Deserialize, Serialize};

/// The variable that marks what belongs to an engine of this host.
pub(crate) const MARK: &str = "RDD_HOST_ENGINE";
/// The variable that marks what belongs to a virtual machine.
pub(crate) const LIMA_MARK: &str = "RDD_LIMA_MACHINE";
/// The variable that marks what of a machine belongs to its Kubernetes, with the path of the cluster's data.
pub(crate) const CLUSTER_MARK: &str = "RDD_HOST_CLUSTER";

/// A process as `/proc` showed it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) pid: u32,
    pub(crate) parent: u32,
    group: u32,
    /// When it started, in ticks since boot. With the PID it names a process until the next boot.
    started: u64,
    is_zombie: bool,
}

impl Seen {
    /// Takes hold of exactly this process; `None` if it has ended.
    pub(crate) fn open(&self) -> io::Result<Option<Process>> {
        let Some(process) = Process::open(self.pid)? else { return Ok(None) };
        // Looked at again with the process in hand: a PID that was given away has another age.
        let same = look(self.pid).is_some_and(|now| now.started == self.started && !now.is_zombie);
        Ok(same.then_some(process))
    }

    /// Signals exactly this process.
    pub(crate) fn signal(&self, signal: Signal) -> io::Result<()> {
        if let Some(process) = self.open()? {
            process.signal(signal)?;
        }
        Ok(())
    }

    /// The name of its program, as it was called.
    pub(crate) fn program(&self) -> String {
        let arguments = fs::read(format!("/proc/{}/cmdline", self.pid)).unwrap_or_default();
        let first = arguments.split(|byte| *byte == 0).next().unwrap_or_default();
        let path = Path::new(std::ffi::OsStr::from_bytes(first));
        path.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// Its words, the program first.
    pub(crate) fn arguments(&self) -> Vec<Vec<u8>> {
        let words = fs::read(format!("/proc/{}/cmdline", self.pid)).unwrap_or_default();
        words.split(|byte| *byte == 0).map(<[u8]>::to_vec).collect()
    }

    /// Whether it has this mark of this folder.
    fn is_marked(&self, mark: &str, folder: &Path) -> bool {
        let environment = fs::read(format!("/proc/{}/environ", self.pid)).unwrap_or_default();
        has_mark(&environment, mark, folder)
    }
}

fn has_mark(environment: &[u8], mark: &str, folder: &Path) -> bool {
    let expected = [mark.as_bytes(), b"=", folder.as_os_str().as_bytes()].concat();
    environment.split(|byte| *byte == 0).any(|variable| variable == expected)
}

/// A process of a machine, as it is written down for the next daemon.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    pid: u32,
    started: u64,
    boot: String,
}

impl Record {
    /// What to write down of a process that was just started; `None` if it has ended already.
    pub(crate) fn of(pid: u32) -> Option<Self> {
        look(pid).map(|seen| Self { pid, started: seen.started, boot: boot() })
    }

    /// The process, if it lives and is that of this folder.
    pub(crate) fn find(&self, folder: &Path) -> Option<Seen> {
        self.find_by(MARK, folder)
    }

    /// The process, if it lives and has this mark of this folder.
    pub(crate) fn find_by(&self, mark: &str, folder: &Path) -> Option<Seen> {
        let seen = look(self.pid)?;
        let same = seen.started == self.started && !seen.is_zombie && self.boot == boot();
        (same && seen.is_marked(mark, folder)).then_some(seen)
    }
}

/// The processes that have the mark of this folder.
pub(crate) fn marked(folder: &Path) -> Vec<Seen> {
    marked_by(MARK, folder)
}

/// The processes that have this mark of this folder.
pub(crate) fn marked_by(mark: &str, folder: &Path) -> Vec<Seen> {
    all().into_iter().filter(|seen| !seen.is_zombie && seen.is_marked(mark, folder)).collect()
}

/// The processes of the cluster whose data is here.
pub(crate) fn of_cluster(data: &Path) -> Vec<Seen> {
    marked_by(CLUSTER_MARK, data)
}

/// The leader of a group that runs this program, among marked processes: what we started ourselves.
pub(crate) fn leader<'a>(marked: &'a [Seen], program: &str) -> Option<&'a Seen> {
    marked.iter().find(|seen| seen.pid == seen.group && seen.program() == program)
}

/// The process that has this PID now, unless it has ended.
pub(crate) fn alive(pid: u32) -> Option<Seen> {
    look(pid).filter(|seen| !seen.is_zombie)
}

/// The processes that descend from these, without these.
pub(crate) fn descendants(of: &[Seen]) -> Vec<Seen> {
    let mut children: BTreeMap<u32, Vec<Seen>> = BTreeMap::new();
    for seen in all().into_iter().filter(|seen| !seen.is_zombie) {
        children.entry(seen.parent).or_default().push(seen);
    }
    let mut found = Vec::new();
    let mut next: Vec<u32> = of.iter().map(|seen| seen.pid).collect();
    // Each parent's entry is taken out, so this ends whatever `/proc` showed while it changed.
    while let Some(pid) = next.pop() {
        for child in children.remove(&pid).unwrap_or_default() {
            next.push(child.pid);
            found.push(child);
        }
    }
    found.retain(|seen| of.iter().all(|root| root.pid != seen.pid));
    found
}

fn all() -> Vec<Seen> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str().and_then(|name| name.parse().ok()));
    pids.filter_map(look).collect()
}

fn look(pid: u32) -> Option<Seen> {
    parse_stat(pid, &fs::read_to_string(PathBuf::from(format!("/proc/{pid}/stat"))).ok()?)
}

/// `/proc/<pid>/stat`: the name is in parentheses and may hold any character, so everything is counted from the last one.
fn parse_stat(pid: u32, stat: &str) -> Option<Seen> {
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_ascii_whitespace().collect();
    let number = |index: usize| fields.get(index).and_then(|field| field.parse::<u64>().ok());
    let small = |index: usize| number(index).and_then(|number| u32::try_from(number).ok());
    Some(Seen {
        pid,
        is_zombie: matches!(*fields.first()?, "Z" | "X"),
        parent: small(1)?,
        group: small(2)?,
        started: number(19)?,
    })
}

fn boot() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use rdd_stdx::process::background;

    use super::*;

    // Finding 295-S9
    #[test]
    fn a_mark_is_compared_as_a_whole() {
        let environment = b"PATH=/bin\0RDD_HOST_ENGINE=/home/ann/.rd2/lima/rd-app\0HOME=/root\0";
        assert!(has_mark(environment, MARK, Path::new("/home/ann/.rd2/lima/rd-app")));
        for other in ["/home/ann/.rd2/lima/rd", "/home/ann/.rd2/lima/rd-app/x", "/home/ann/.rd2/lima/rd-app2", ""] {
            assert!(!has_mark(environment, MARK, Path::new(other)), "{other}");
        }
        assert!(!has_mark(b"X=RDD_HOST_ENGINE=/a\0", MARK, Path::new("/a")));
    }

    #[test]
    fn names_cannot_forge_the_line_they_stand_in() {
        let stat = "7 (a) S 1 2 (x) S 10 20 0 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 12345 0";
        let seen = parse_stat(7, stat).unwrap();
        assert_eq!((seen.parent, seen.group, seen.started, seen.is_zombie), (10, 20, 12345, false));
        for broken in ["", "7", "7 (a)", "7 (a) S", "7 (a) S x y"] {
            assert_eq!(parse_stat(7, broken), None, "{broken:?}");
        }
    }

    #[test]
    fn a_process_is_found_by_its_mark_and_by_its_record_and_not_after_its_end() {
        let dir = tempfile::tempdir().unwrap();
        let mut command = background("sleep", Path::new("/"));
        let mut child = command.arg("600").env(MARK, dir.path()).spawn().unwrap();
        let record = Record::of(child.id()).unwrap();
        let find = || record.find(dir.path());
        // Between fork and exec a child has its parent's environment.
        rdd_testkit::eventually("the mark", std::time::Duration::from_secs(10), find);
        let found = marked(dir.path());
        assert_eq!(found.iter().map(|seen| seen.pid).collect::<Vec<_>>(), [child.id()]);
        assert_eq!(leader(&found, "sleep").map(|seen| seen.pid), Some(child.id()));
        assert_eq!(leader(&found, "dockerd"), None);
        assert_eq!(record.find(Path::new("/elsewhere")), None);
        assert_eq!(Record { started: record.started + 1, ..record.clone() }.find(dir.path()), None, "a recycled PID");
        assert_eq!(Record { boot: "another".to_owned(), ..record.clone() }.find(dir.path()), None);
        let me = look(std::process::id()).unwrap();
        assert!(descendants(&[me]).iter().any(|seen| seen.pid == child.id()));
        found[0].signal(Signal::KILL).unwrap();
        rdd_testkit::eventually("its end", std::time::Duration::from_secs(10), || find().is_none().then_some(()));
        assert!(marked(dir.path()).is_empty(), "a zombie has ended");
        assert!(found[0].open().unwrap().is_none());
        child.wait().unwrap();
    }
}
