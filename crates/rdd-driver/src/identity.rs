//! Decides which processes belong to a machine, with proof from `/proc`.
//!
//! Every process that rdd starts for a machine gets two variables, which its children (userland proxies, containerd
//! shims, QEMU) inherit: a mark ([`MARK`], [`LIMA_MARK`]) with the path of the machine's folder, and [`NONCE`] with a
//! random value that is new for every start and stored in a private file ([`Launch`]).
//!
//! Any user can put a mark into the environment of a process, so a mark alone proves nothing. A process belongs to a
//! machine if
//! - its mark is exactly this folder, so `rd` is never confused with `rd-app`;
//! - it has the nonce of the machine's last start, which other users and containers cannot read;
//! - its real and its effective user are ours;
//! - it is in our PID namespace, which processes of containers are not.
//!
//! The host driver also requires that it is not in a control group of the machine's containers (`host::machine`). The
//! processes inside containers belong to the machine as well; the driver finds them as descendants of the shims and in
//! those control groups.
//!
//! Older versions, without nonces, left processes with only a mark. They are accepted while a [`Record`] of such a
//! version names a process of this boot, and only if they are not older than the recorded process. Such a process is
//! adopted by its record (PID, start time, boot) and never by its mark.

use std::{
    collections::BTreeMap,
    fmt, fs, io,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    process::Command,
};

use rdd_stdx::{
    file::{self, PRIVATE},
    process::{Process, Signal},
};
use serde::{Deserialize, Serialize};

use crate::Error;

/// The variable that marks the processes of an engine on this host.
pub(crate) const MARK: &str = "RDD_HOST_ENGINE";
/// The variable that marks the processes of a VM.
pub(crate) const LIMA_MARK: &str = "RDD_LIMA_MACHINE";
/// The variable that marks the processes of a machine's Kubernetes, with the path of the cluster's data.
pub(crate) const CLUSTER_MARK: &str = "RDD_HOST_CLUSTER";
/// The variable with the nonce of the start that a process belongs to.
const NONCE: &str = "RDD_MACHINE_NONCE";

/// A random value that only the processes of one start have. `Debug` does not print it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
struct Nonce(String);

impl fmt::Debug for Nonce {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Nonce(…)")
    }
}

/// One start of a machine, stored for the next daemon.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Launch {
    nonce: Nonce,
    boot: String,
    pid_namespace: String,
}

impl Launch {
    /// Begins a new start and stores it. Processes of earlier starts no longer belong to the machine.
    pub(crate) fn renew(path: &Path) -> Result<Self, Error> {
        let nonce = Nonce(uuid::Uuid::new_v4().simple().to_string());
        let launch = Self { nonce, boot: boot(), pid_namespace: pid_namespace() };
        let text = serde_json::to_vec(&launch).map_err(|error| Error::at("write", path)(error.into()))?;
        file::write_atomic(path, &text, PRIVATE)?;
        Ok(launch)
    }

    /// The current start. If none is stored, because an older version created the machine, a new one begins.
    pub(crate) fn current(path: &Path) -> Result<Self, Error> {
        Self::read(path).map_or_else(|| Self::renew(path), Ok)
    }

    /// The last start, if its processes can still run: it was in this boot and in this PID namespace.
    fn read(path: &Path) -> Option<Self> {
        let launch: Self = serde_json::from_slice(&rdd_stdx::owned::read(path).ok()?).ok()?;
        (launch.boot == boot() && launch.pid_namespace == pid_namespace()).then_some(launch)
    }

    /// Marks the process that this command starts, and its children, as part of the machine with this folder.
    pub(crate) fn mark(&self, command: &mut Command, mark: &str, folder: &Path) {
        command.env(mark, folder).env(NONCE, &self.nonce.0);
    }
}

/// Finds the processes of one machine, or of its Kubernetes.
#[derive(Debug)]
pub(crate) struct ProcessScope {
    mark: &'static str,
    folder: PathBuf,
    nonce: Option<Nonce>,
    /// The start time of the oldest process that a version without nonces recorded in this boot.
    legacy_since: Option<u64>,
}

impl ProcessScope {
    /// The scope of the processes with this mark and folder. `launch` is the file of the last start, `records` are the
    /// machine's.
    pub(crate) fn new(
        mark: &'static str,
        folder: &Path,
        launch: &Path,
        records: impl IntoIterator<Item = Record>,
    ) -> Self {
        let boot = boot();
        // Only records of this boot count: PIDs and start times restart with each boot.
        let legacy = records.into_iter().filter(|record| record.nonce.is_none() && record.boot == boot);
        Self {
            mark,
            folder: folder.to_owned(),
            nonce: Launch::read(launch).map(|launch| launch.nonce),
            legacy_since: legacy.map(|record| record.started).min(),
        }
    }

    /// Lists all processes in the scope.
    pub(crate) fn list(&self) -> Vec<Seen> {
        // Nothing was started in this boot; skip the scan of /proc.
        if self.nonce.is_none() && self.legacy_since.is_none() {
            return Vec::new();
        }
        all().into_iter().filter(|seen| !seen.is_zombie && self.contains(seen)).collect()
    }

    /// The process of a record, if it runs and is in the scope.
    pub(crate) fn find(&self, record: &Record) -> Option<Seen> {
        let seen = look(record.pid)?;
        (record.describes(&seen) && self.contains(&seen)).then_some(seen)
    }

    /// The process among these that leads its process group and runs this program: the one that rdd started directly.
    /// It has to have the nonce; a process of a version without nonces is found only by its record.
    pub(crate) fn leader<'a>(&self, among: &'a [Seen], program: &str) -> Option<&'a Seen> {
        // rdd starts each process as the leader of a new group; its children are not leaders.
        let is_leader = |seen: &&Seen| seen.pid == seen.group && seen.program() == program;
        among.iter().filter(is_leader).find(|seen| self.proof_of(&seen.environment()) == Proof::Nonce)
    }

    fn contains(&self, seen: &Seen) -> bool {
        let environment = seen.environment();
        let is_marked = has_variable(&environment, self.mark, self.folder.as_os_str().as_bytes());
        // Cheap checks first: `is_ours` reads another file of /proc.
        is_marked && self.admits(&environment, seen.started) && is_ours(seen.pid)
    }

    fn admits(&self, environment: &[u8], started: u64) -> bool {
        match self.proof_of(environment) {
            Proof::Nonce => true,
            Proof::MarkOnly => self.legacy_since.is_some_and(|since| started >= since),
            Proof::OtherNonce => false,
        }
    }

    fn proof_of(&self, environment: &[u8]) -> Proof {
        match (variable(environment, NONCE), &self.nonce) {
            (None, _) => Proof::MarkOnly,
            (Some(found), Some(nonce)) if found == nonce.0.as_bytes() => Proof::Nonce,
            // A process of an earlier start, or one with a forged nonce.
            (Some(_), _) => Proof::OtherNonce,
        }
    }
}

/// The evidence in the environment of a marked process about its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Proof {
    Nonce,
    OtherNonce,
    /// A version without nonces started it, or another process that does not know the nonce.
    MarkOnly,
}

/// A process, as read from `/proc`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) pid: u32,
    pub(crate) parent: u32,
    group: u32,
    /// The start time, in ticks since boot. With the PID it identifies a process until the next boot.
    started: u64,
    is_zombie: bool,
}

impl Seen {
    /// Opens exactly this process; `None` if it has ended.
    pub(crate) fn open(&self) -> io::Result<Option<Process>> {
        let Some(process) = Process::open(self.pid)? else { return Ok(None) };
        // Read again after opening: if the PID was reused in between, the start time differs.
        let same = look(self.pid).is_some_and(|now| now.started == self.started && !now.is_zombie);
        Ok(same.then_some(process))
    }

    /// Sends a signal to exactly this process. Does nothing if it has ended.
    pub(crate) fn signal(&self, signal: Signal) -> io::Result<()> {
        if let Some(process) = self.open()? {
            process.signal(signal)?;
        }
        Ok(())
    }

    /// The file name of its program, from its command line.
    pub(crate) fn program(&self) -> String {
        let arguments = fs::read(format!("/proc/{}/cmdline", self.pid)).unwrap_or_default();
        let first = arguments.split(|byte| *byte == 0).next().unwrap_or_default();
        let path = Path::new(std::ffi::OsStr::from_bytes(first));
        path.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// Its command line, the program first.
    pub(crate) fn arguments(&self) -> Vec<Vec<u8>> {
        let words = fs::read(format!("/proc/{}/cmdline", self.pid)).unwrap_or_default();
        words.split(|byte| *byte == 0).map(<[u8]>::to_vec).collect()
    }

    /// Its environment; empty if it cannot be read.
    fn environment(&self) -> Vec<u8> {
        fs::read(format!("/proc/{}/environ", self.pid)).unwrap_or_default()
    }
}

/// The value of the first variable with this name.
fn variable<'a>(environment: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let variables = environment.split(|byte| *byte == 0);
    variables.filter_map(|text| text.strip_prefix(name.as_bytes())?.strip_prefix(b"=")).next()
}

fn has_variable(environment: &[u8], name: &str, value: &[u8]) -> bool {
    variable(environment, name) == Some(value)
}

/// The user of a process, and the depth of its PID namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Credentials {
    real_uid: u32,
    effective_uid: u32,
    /// The number of PID namespaces between ours and its own.
    nested_namespaces: usize,
}

impl Credentials {
    /// Whether this user runs it, in our PID namespace.
    fn are_of(self, uid: u32) -> bool {
        self.real_uid == uid && self.effective_uid == uid && self.nested_namespaces == 0
    }
}

/// Reports whether a process runs as our user, with its PID in our namespace.
pub(crate) fn is_ours(pid: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    parse_status(&status).is_some_and(|found| found.are_of(rustix::process::geteuid().as_raw()))
}

/// Parses `/proc/<pid>/status`. The program's name comes before these lines, and the kernel escapes line ends in it.
fn parse_status(status: &str) -> Option<Credentials> {
    let line = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::split_ascii_whitespace);
    let mut uids = line("Uid:")?.map(|field| field.parse().ok());
    let (real_uid, effective_uid) = (uids.next()??, uids.next()??);
    // The line has one PID for each namespace from ours down to its own. Kernels without PID namespaces omit it.
    let pids = line("NSpid:").map_or(1, Iterator::count);
    Some(Credentials { real_uid, effective_uid, nested_namespaces: pids.saturating_sub(1) })
}

/// A process of a machine, stored for the next daemon.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    pid: u32,
    started: u64,
    boot: String,
    /// Absent, like the nonce, in records of versions without nonces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pid_namespace: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    nonce: Option<Nonce>,
}

impl Record {
    /// Records a process that was just started; `None` if it has ended already.
    pub(crate) fn new(pid: u32, launch: &Launch) -> Option<Self> {
        let Launch { nonce, boot, pid_namespace } = launch.clone();
        let started = look(pid)?.started;
        Some(Self { pid, started, boot, pid_namespace: Some(pid_namespace), nonce: Some(nonce) })
    }

    /// Whether this is the recorded process: a PID can be reused, but not with the same start time in the same boot.
    fn describes(&self, seen: &Seen) -> bool {
        let same_namespace = self.pid_namespace.as_ref().is_none_or(|namespace| *namespace == pid_namespace());
        self.pid == seen.pid && self.started == seen.started && !seen.is_zombie && self.boot == boot() && same_namespace
    }
}

/// The running process with this PID; `None` if it has ended.
pub(crate) fn alive(pid: u32) -> Option<Seen> {
    look(pid).filter(|seen| !seen.is_zombie)
}

/// All descendants of these processes, without the processes themselves.
pub(crate) fn descendants(of: &[Seen]) -> Vec<Seen> {
    let mut children: BTreeMap<u32, Vec<Seen>> = BTreeMap::new();
    for seen in all().into_iter().filter(|seen| !seen.is_zombie) {
        children.entry(seen.parent).or_default().push(seen);
    }
    let mut found = Vec::new();
    let mut next: Vec<u32> = of.iter().map(|seen| seen.pid).collect();
    // Each parent is removed from the map, so the loop ends even if /proc changed while it was read and shows a cycle.
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

/// Parses `/proc/<pid>/stat`. The name in parentheses can contain any character, so the fields count from the last
/// parenthesis.
fn parse_stat(pid: u32, stat: &str) -> Option<Seen> {
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_ascii_whitespace().collect();
    let number = |index: usize| fields.get(index).and_then(|field| field.parse::<u64>().ok());
    let small = |index: usize| number(index).and_then(|number| u32::try_from(number).ok());
    Some(Seen {
        pid,
        // Field numbers count from the state, which follows the name.
        is_zombie: matches!(*fields.first()?, "Z" | "X"),
        parent: small(1)?,
        group: small(2)?,
        started: number(19)?,
    })
}

fn boot() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}

/// The PID namespace of this process, like `pid:[4026531836]`.
fn pid_namespace() -> String {
    fs::read_link("/proc/self/ns/pid").unwrap_or_default().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use std::{os::unix::fs::PermissionsExt, time::Duration};

    use rdd_stdx::process::background;

    use super::*;

    const SOON: Duration = Duration::from_secs(10);

    // Finding 295-S9
    #[test]
    fn a_mark_is_compared_as_a_whole() {
        let environment = b"PATH=/bin\0RDD_HOST_ENGINE=/home/ann/.rd2/lima/rd-app\0HOME=/root\0";
        assert!(has_variable(environment, MARK, b"/home/ann/.rd2/lima/rd-app"));
        for other in ["/home/ann/.rd2/lima/rd", "/home/ann/.rd2/lima/rd-app/x", "/home/ann/.rd2/lima/rd-app2", ""] {
            assert!(!has_variable(environment, MARK, other.as_bytes()), "{other}");
        }
        assert!(!has_variable(b"X=RDD_HOST_ENGINE=/a\0", MARK, b"/a"));
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

    // Finding A-4
    #[test]
    fn only_a_process_of_our_user_in_our_pid_namespace_is_ours() {
        let of = |uids: &str, pids: &str| {
            let status = format!("Name:\tsleep\nPid:\t7\nUid:\t{uids}\nGid:\t0\t0\t0\t0\n{pids}");
            parse_status(&status).is_some_and(|found| found.are_of(1000))
        };
        assert!(of("1000\t1000\t1000\t1000", "NSpid:\t7\n"));
        assert!(of("1000\t1000\t1000\t1000", ""), "a kernel without PID namespaces");
        for (uids, pids) in [
            ("1001\t1001\t1001\t1001", "NSpid:\t7\n"),
            ("1001\t1000\t1000\t1000", "NSpid:\t7\n"),
            ("1000\t0\t0\t0", "NSpid:\t7\n"),
            ("1000\t1000\t1000\t1000", "NSpid:\t7\t1\n"),
            ("1000", "NSpid:\t7\n"),
            ("", ""),
        ] {
            assert!(!of(uids, pids), "{uids:?} {pids:?}");
        }
        assert!(is_ours(std::process::id()));
        assert!(!is_ours(u32::MAX), "a process that is not there");
    }

    // Finding A-4
    #[test]
    fn a_mark_without_the_nonce_of_the_last_start_proves_nothing() {
        let scope = |legacy_since| ProcessScope {
            mark: MARK,
            folder: PathBuf::from("/m"),
            nonce: Some(Nonce("new".to_owned())),
            legacy_since,
        };
        let (right, stale) = (&b"RDD_HOST_ENGINE=/m\0RDD_MACHINE_NONCE=new\0"[..], &b"RDD_MACHINE_NONCE=old\0"[..]);
        let none = &b"RDD_HOST_ENGINE=/m\0"[..];
        for (environment, legacy_since, admitted) in [
            (right, None, true),
            (right, Some(100), true),
            (stale, None, false),
            (stale, Some(0), false),
            (none, None, false),
            (none, Some(51), false),
            (none, Some(50), true),
        ] {
            let shown = String::from_utf8_lossy(environment);
            assert_eq!(scope(legacy_since).admits(environment, 50), admitted, "{shown} {legacy_since:?}");
        }
        let without = ProcessScope { nonce: None, ..scope(None) };
        assert!(!without.admits(right, 50), "nothing was started");
    }

    /// A process with a mark of this folder, and what else it is given.
    fn marked_sleep(folder: &Path, launch: Option<&Launch>) -> std::process::Child {
        let mut command = background("sleep", Path::new("/"));
        command.arg("600").env(MARK, folder);
        if let Some(launch) = launch {
            launch.mark(&mut command, MARK, folder);
        }
        command.spawn().unwrap()
    }

    #[test]
    fn a_process_is_found_by_its_mark_and_by_its_record_and_not_after_its_end() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("launch.json");
        let launch = Launch::renew(&file).unwrap();
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(!format!("{launch:?}").contains(&launch.nonce.0), "it is not printed");
        let mut child = marked_sleep(dir.path(), Some(&launch));
        let record = Record::new(child.id(), &launch).unwrap();
        let scope = ProcessScope::new(MARK, dir.path(), &file, [record.clone()]);
        // Between fork and exec a child has its parent's environment.
        rdd_testkit::eventually("the mark", SOON, || scope.find(&record));
        let found = scope.list();
        assert_eq!(found.iter().map(|seen| seen.pid).collect::<Vec<_>>(), [child.id()]);
        assert_eq!(scope.leader(&found, "sleep").map(|seen| seen.pid), Some(child.id()));
        assert_eq!(scope.leader(&found, "dockerd"), None);
        assert_eq!(ProcessScope::new(MARK, Path::new("/elsewhere"), &file, []).find(&record), None);
        assert_eq!(scope.find(&Record { started: record.started + 1, ..record.clone() }), None, "a recycled PID");
        assert_eq!(scope.find(&Record { boot: "another".to_owned(), ..record.clone() }), None);
        let elsewhere = Some("pid:[1]".to_owned());
        assert_eq!(scope.find(&Record { pid_namespace: elsewhere, ..record.clone() }), None, "another namespace's PID");
        let me = look(std::process::id()).unwrap();
        assert!(descendants(&[me]).iter().any(|seen| seen.pid == child.id()));
        // Finding A-4: after the next start it is a stranger.
        Launch::renew(&file).unwrap();
        let next = ProcessScope::new(MARK, dir.path(), &file, [record.clone()]);
        assert_eq!((next.list(), next.find(&record)), (Vec::new(), None));
        found[0].signal(Signal::KILL).unwrap();
        rdd_testkit::eventually("its end", SOON, || scope.find(&record).is_none().then_some(()));
        assert!(scope.list().is_empty(), "a zombie has ended");
        assert!(found[0].open().unwrap().is_none());
        child.wait().unwrap();
    }

    // Finding A-4
    #[test]
    fn what_a_version_without_nonces_started_is_found_by_its_record() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("launch.json");
        let mut child = marked_sleep(dir.path(), None);
        let started = look(child.id()).unwrap().started;
        let old = serde_json::json!({ "pid": child.id(), "started": started, "boot": boot() });
        let record: Record = serde_json::from_value(old).unwrap();
        let scope = ProcessScope::new(MARK, dir.path(), &file, [record.clone()]);
        rdd_testkit::eventually("the mark", SOON, || scope.find(&record));
        let found = scope.list();
        assert_eq!(found.iter().map(|seen| seen.pid).collect::<Vec<_>>(), [child.id()]);
        assert_eq!(scope.leader(&found, "sleep"), None, "a mark alone is never adopted");
        // What this version starts beside it has a nonce, and both belong to the machine.
        let launch = Launch::current(&file).unwrap();
        assert_eq!(Launch::current(&file).unwrap(), launch, "one start has one nonce");
        let mut second = marked_sleep(dir.path(), Some(&launch));
        let both = ProcessScope::new(MARK, dir.path(), &file, [record.clone()]);
        rdd_testkit::eventually("both", SOON, || (both.list().len() == 2).then_some(()));
        let stranger = ProcessScope::new(MARK, dir.path(), &dir.path().join("none"), []);
        assert!(stranger.list().is_empty(), "without its record it is nobody's");
        for child in [&mut child, &mut second] {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }
}
