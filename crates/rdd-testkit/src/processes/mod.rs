//! Finds processes by descent and by the instance they belong to, and ends them safely.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use rdd_stdx::process::{Process, Signal};

/// The timeout of a kill; a process that takes longer hangs in the kernel.
const KILL_TAKES: Duration = Duration::from_secs(5);

/// How often a process without an environment is checked again before it counts as one without.
const EXECUTE_LOOKS: u32 = 5;

/// A process, as it was when it was observed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Info {
    /// Its PID.
    pub pid: u32,
    /// Its parent's PID.
    pub parent: u32,
    /// The kernel's letter for its state: `R`, `S`, `D`, `Z`, …
    pub state: char,
    /// The start time in clock ticks since boot; together with the PID it identifies a process.
    pub started: u64,
    /// Its short name.
    pub name: String,
    /// Its arguments; empty for a zombie or a kernel thread.
    pub arguments: Vec<String>,
    /// Its initial environment. Private, since values may be secrets.
    environment: Environment,
}

impl Info {
    /// Whether it has ended and only has to be reaped by its parent.
    pub fn is_zombie(&self) -> bool {
        matches!(self.state, 'Z' | 'X')
    }

    /// The names of its environment variables, sorted.
    pub fn variable_names(&self) -> Vec<String> {
        self.environment.0.keys().map(|name| String::from_utf8_lossy(name).into_owned()).collect()
    }

    /// The instance in its `RDD_INSTANCE`.
    pub fn instance(&self) -> Option<String> {
        self.environment.value("RDD_INSTANCE").map(|value| String::from_utf8_lossy(value).into_owned())
    }

    /// The home folder in its `HOME`.
    pub fn home(&self) -> Option<PathBuf> {
        self.environment.value("HOME").map(|value| PathBuf::from(std::ffi::OsStr::from_bytes(value)))
    }
}

/// The environment in `/proc/<pid>/environ`.
#[derive(Clone, Default, PartialEq, Eq)]
struct Environment(BTreeMap<Vec<u8>, Vec<u8>>);

impl std::fmt::Debug for Environment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} variables", self.0.len())
    }
}

impl Environment {
    fn parse(block: &[u8]) -> Self {
        let pair = |entry: &[u8]| {
            let equals = entry.iter().position(|byte| *byte == b'=')?;
            Some((entry[..equals].to_vec(), entry[equals + 1..].to_vec()))
        };
        Self(block.split(|byte| *byte == 0).filter_map(pair).collect())
    }

    fn value(&self, name: &str) -> Option<&[u8]> {
        self.0.get(name.as_bytes()).map(Vec::as_slice)
    }
}

/// An instance that a test owns: its name, and the folder that contains its home.
///
/// Both must match exactly. `bats` does not match `bats-app`, and an instance of the same name in another home, such as a developer's own,
/// is never matched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owned {
    /// The value of `RDD_INSTANCE`.
    pub instance: String,
    /// The folder that is the home or contains it.
    pub root: PathBuf,
}

impl Owned {
    /// Whether the process was started for this instance.
    pub fn has(&self, process: &Info) -> bool {
        process.environment.value("RDD_INSTANCE") == Some(self.instance.as_bytes())
            && process.home().is_some_and(|home| home.starts_with(&self.root))
    }
}

/// A snapshot of all visible processes.
#[derive(Debug, Clone, Default)]
pub struct Table(Vec<Info>);

impl Table {
    /// Reads all processes. One that ends meanwhile is left out.
    pub fn read() -> io::Result<Self> {
        let mut found = Vec::new();
        for entry in fs::read_dir("/proc")? {
            let pid = entry?.file_name().to_str().and_then(|name| name.parse().ok());
            found.extend(pid.and_then(look_at));
        }
        found.sort_by_key(|process: &Info| process.pid);
        Ok(Self(found))
    }

    /// All processes, ordered by PID.
    pub fn iter(&self) -> impl Iterator<Item = &Info> {
        self.0.iter()
    }

    /// The descendants of `pid`, ordered by PID, without `pid` itself.
    pub fn descendants_of(&self, pid: u32) -> Vec<Info> {
        let mut family = BTreeSet::from([pid]);
        loop {
            // A child may have a lower PID than its parent, so this repeats until no descendant is added.
            let before = family.len();
            family.extend(
                self.0.iter().filter(|process| family.contains(&process.parent)).map(|p| p.pid).collect::<Vec<_>>(),
            );
            if family.len() == before {
                break;
            }
        }
        family.remove(&pid);
        self.0.iter().filter(|process| family.contains(&process.pid)).cloned().collect()
    }

    /// The processes of one instance, without the calling process.
    pub fn of(&self, owned: &Owned) -> Vec<Info> {
        let me = std::process::id();
        self.0.iter().filter(|process| process.pid != me && owned.has(process)).cloned().collect()
    }
}

/// The process that has this PID now; `None` if there is none.
pub fn look_at(pid: u32) -> Option<Info> {
    let folder = PathBuf::from(format!("/proc/{pid}"));
    let stat = || parse_stat(&String::from_utf8_lossy(&fs::read(folder.join("stat")).ok()?));
    let mut found = stat()?;
    // Another user's environment may be unreadable; such a process belongs to no instance.
    let environment = || fs::read(folder.join("environ")).unwrap_or_default();
    let mut block = environment();
    for _ in 0..EXECUTE_LOOKS {
        if !block.is_empty() || found.is_kernel || matches!(found.state, 'Z' | 'X') {
            break;
        }
        // During exec a program has no environment for a moment, although its parent's spawn has already returned.
        std::thread::sleep(Duration::from_millis(1));
        (found, block) = (stat()?, environment());
    }
    let arguments = fs::read(folder.join("cmdline")).unwrap_or_default();
    let arguments = arguments.split(|byte| *byte == 0).map(|word| String::from_utf8_lossy(word).into_owned());
    let mut arguments: Vec<String> = arguments.collect();
    arguments.pop(); // after the last terminator
    let Stat { name, state, parent, started, .. } = found;
    Some(Info { pid, parent, state, started, name, arguments, environment: Environment::parse(&block) })
}

/// The fields of `/proc/<pid>/stat` that are used here.
#[derive(Debug, PartialEq, Eq)]
struct Stat {
    name: String,
    state: char,
    parent: u32,
    is_kernel: bool,
    started: u64,
}

/// Parses a stat line. The name may contain any character, including parentheses.
fn parse_stat(stat: &str) -> Option<Stat> {
    const KERNEL_THREAD: u32 = 0x0020_0000;
    let (name, rest) = stat.split_once('(')?.1.rsplit_once(") ")?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    Some(Stat {
        name: name.to_owned(),
        state: fields.first()?.chars().next()?,
        parent: fields.get(1)?.parse().ok()?,
        is_kernel: fields.get(6)?.parse::<u32>().ok()? & KERNEL_THREAD != 0,
        started: fields.get(19)?.parse().ok()?,
    })
}

/// Ends these processes, first with SIGTERM, then with SIGKILL, and returns those that remain.
///
/// Each one is opened and compared with what was observed before it is signalled, so a process that reuses the PID is never hit.
pub fn end(processes: &[Info], grace: Duration) -> Vec<Info> {
    let held: Vec<(&Info, Process)> = processes.iter().filter_map(|process| Some((process, hold(process)?))).collect();
    let signal_all = |signal| held.iter().for_each(|(_, process)| drop(process.signal(signal)));
    signal_all(Signal::TERM);
    if !grace.is_zero() {
        wait_all(&held, grace);
    }
    signal_all(Signal::KILL);
    wait_all(&held, KILL_TAKES);
    let remains = |process: &Process| !process.wait(Duration::ZERO).unwrap_or(false);
    held.iter().filter(|(_, process)| remains(process)).map(|(info, _)| (*info).clone()).collect()
}

fn hold(seen: &Info) -> Option<Process> {
    let process = Process::open(seen.pid).ok().flatten()?;
    let now = look_at(seen.pid)?;
    (now.started == seen.started && !now.is_zombie()).then_some(process)
}

fn wait_all(held: &[(&Info, Process)], within: Duration) {
    let deadline = Instant::now() + within;
    for (_, process) in held {
        // A failed wait counts as not ended; `end` checks again.
        let _ = process.wait(deadline.saturating_duration_since(Instant::now()));
    }
}

/// The instances that tests created under `root`: each [`crate::Sandbox`] has its home there, in a folder with its name.
pub fn owned_instances(root: &Path) -> Vec<Owned> {
    let Ok(entries) = fs::read_dir(root) else { return Vec::new() };
    let folders = entries.filter_map(Result::ok).filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    let names = folders.filter_map(|entry| entry.file_name().into_string().ok());
    let mut owned: Vec<Owned> = names.map(|instance| Owned { instance, root: root.to_owned() }).collect();
    owned.sort_by(|a, b| a.instance.cmp(&b.instance));
    owned
}

/// A short form for messages, without secrets.
impl std::fmt::Display for Info {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let command = crate::bundle::redact(&self.arguments.join(" "));
        write!(f, "{} ({}, state {}", self.pid, if command.is_empty() { &self.name } else { &command }, self.state)?;
        match self.instance() {
            Some(instance) => write!(f, ", instance {instance})"),
            None => f.write_str(")"),
        }
    }
}

#[cfg(test)]
mod tests;
