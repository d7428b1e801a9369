//! Which processes are whose: by descent, and by the exact instance they were started for.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use rdd_stdx::process::{Process, Signal};

/// How long a killed process may take to go; longer means that it hangs in the kernel.
const KILL_TAKES: Duration = Duration::from_secs(5);

/// How often a process without an environment is looked at again before it is believed to have none.
const EXECUTE_LOOKS: u32 = 5;

/// A process as it was when it was looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Info {
    /// Its PID.
    pub pid: u32,
    /// Its parent's PID.
    pub parent: u32,
    /// The kernel's letter for its state: `R`, `S`, `D`, `Z`…
    pub state: char,
    /// When it started, in clock ticks since boot; with the PID this names a process for ever.
    pub started: u64,
    /// Its short name.
    pub name: String,
    /// Its arguments; empty for a zombie or a kernel thread.
    pub arguments: Vec<String>,
    /// Its environment as it was started with. Private, since values may be secrets.
    environment: Environment,
}

impl Info {
    /// Whether it has ended and only its parent's `wait` is missing.
    pub fn is_zombie(&self) -> bool {
        matches!(self.state, 'Z' | 'X')
    }

    /// The names of its environment variables, sorted.
    pub fn variable_names(&self) -> Vec<String> {
        self.environment.0.keys().map(|name| String::from_utf8_lossy(name).into_owned()).collect()
    }

    /// The instance it was started for, if it says so.
    pub fn instance(&self) -> Option<String> {
        self.environment.value("RDD_INSTANCE").map(|value| String::from_utf8_lossy(value).into_owned())
    }

    /// The home folder it was started with.
    pub fn home(&self) -> Option<PathBuf> {
        self.environment.value("HOME").map(|value| PathBuf::from(std::ffi::OsStr::from_bytes(value)))
    }
}

/// An environment as `/proc/<pid>/environ` has it.
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

/// An instance that tests own: a name, and the folder that its home lies in.
///
/// Both must match. The name must be exactly this one: `bats` is not `bats-app`. The home must be this folder or lie
/// below it: a developer's own instance of the same name is left alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owned {
    /// The value of `RDD_INSTANCE`.
    pub instance: String,
    /// The folder.
    pub root: PathBuf,
}

impl Owned {
    /// Whether the process was started for this instance.
    pub fn has(&self, process: &Info) -> bool {
        process.environment.value("RDD_INSTANCE") == Some(self.instance.as_bytes())
            && process.home().is_some_and(|home| home.starts_with(&self.root))
    }
}

/// All processes that could be seen at one moment.
#[derive(Debug, Clone, Default)]
pub struct Table(Vec<Info>);

impl Table {
    /// Looks at every process. One that ends meanwhile is left out.
    pub fn read() -> io::Result<Self> {
        let mut found = Vec::new();
        for entry in fs::read_dir("/proc")? {
            let pid = entry?.file_name().to_str().and_then(|name| name.parse().ok());
            found.extend(pid.and_then(look_at));
        }
        found.sort_by_key(|process: &Info| process.pid);
        Ok(Self(found))
    }

    /// Every process, by PID.
    pub fn iter(&self) -> impl Iterator<Item = &Info> {
        self.0.iter()
    }

    /// The children of `pid`, their children and so on, by PID; not `pid` itself.
    pub fn descendants_of(&self, pid: u32) -> Vec<Info> {
        let mut family = BTreeSet::from([pid]);
        loop {
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

    /// The processes of one instance; not the one that asks.
    pub fn of(&self, owned: &Owned) -> Vec<Info> {
        let me = std::process::id();
        self.0.iter().filter(|process| process.pid != me && owned.has(process)).cloned().collect()
    }
}

/// The process that has this PID now.
pub fn look_at(pid: u32) -> Option<Info> {
    let folder = PathBuf::from(format!("/proc/{pid}"));
    let stat = || parse_stat(&String::from_utf8_lossy(&fs::read(folder.join("stat")).ok()?));
    let mut found = stat()?;
    // Somebody else's environment may not be ours to read; then it is nobody's instance.
    let environment = || fs::read(folder.join("environ")).unwrap_or_default();
    let mut block = environment();
    for _ in 0..EXECUTE_LOOKS {
        if !block.is_empty() || found.is_kernel || matches!(found.state, 'Z' | 'X') {
            break;
        }
        // A program that is just being executed has no environment for a moment, though its parent goes on already.
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

/// What `/proc/<pid>/stat` says, as far as we ask.
#[derive(Debug, PartialEq, Eq)]
struct Stat {
    name: String,
    state: char,
    parent: u32,
    is_kernel: bool,
    started: u64,
}

/// The name may hold anything, parentheses included.
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

/// Ends these processes, politely first, and returns those that are still there.
///
/// Each is held before it is signalled and compared with what was seen, so that a PID that was given away meanwhile is
/// never hit.
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
        // A wait that fails counts as not ended, which the caller finds out below.
        let _ = process.wait(deadline.saturating_duration_since(Instant::now()));
    }
}

/// The instances that tests made under `root`: each [`crate::Sandbox`] has its home there, in a folder of that name.
pub fn owned_instances(root: &Path) -> Vec<Owned> {
    let Ok(entries) = fs::read_dir(root) else { return Vec::new() };
    let folders = entries.filter_map(Result::ok).filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    let names = folders.filter_map(|entry| entry.file_name().into_string().ok());
    let mut owned: Vec<Owned> = names.map(|instance| Owned { instance, root: root.to_owned() }).collect();
    owned.sort_by(|a, b| a.instance.cmp(&b.instance));
    owned
}

/// A process in a few words, for messages.
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
