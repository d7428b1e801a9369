//! The fake engine's objects: containers, images and volumes, with the engine's own clock.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use jiff::{SignedDuration, Timestamp};
use rdd_stdx::clock::SharedClock;

use super::{
    journal::{Event, Journal},
    program::Output,
};

/// The whole state of the engine. Its methods do what the requests of the same names do, and emit the same events.
#[derive(Debug)]
pub struct World {
    pub(super) containers: BTreeMap<String, Container>,
    /// Index from name to ID, because a scan over thousands of containers is slow.
    pub(super) names: HashMap<String, String>,
    pub(super) images: BTreeMap<String, Image>,
    /// Index from tag to ID, for the same reason.
    pub(super) tags: HashMap<String, String>,
    pub(super) volumes: BTreeMap<String, Volume>,
    pub(super) journal: Journal,
    /// The offset of the engine's clock from the machine's.
    pub(super) ahead: SignedDuration,
    clock: SharedClock,
    latest: Timestamp,
    made: u64,
    seed: u64,
}

/// A container.
#[derive(Debug, Clone)]
pub struct Container {
    /// 64 hexadecimal digits.
    pub id: String,
    /// The name, without the leading slash.
    pub name: String,
    /// The image reference of the create request.
    pub image: String,
    /// The image's ID.
    pub image_id: String,
    /// The program.
    pub path: String,
    /// The arguments of the program.
    pub args: Vec<String>,
    /// The labels, including those of the image.
    pub labels: BTreeMap<String, String>,
    /// The ports, such as `80/tcp`, and where they are published while the container runs.
    pub ports: BTreeMap<String, Vec<(String, String)>>,
    /// Whether it has a TTY, and thus one output stream only.
    pub tty: bool,
    /// Whether it is removed when it exits.
    pub auto_remove: bool,
    /// The mounted volumes.
    pub volumes: Vec<Mount>,
    /// The creation time.
    pub created: Timestamp,
    /// The state of the process.
    pub state: State,
    /// The log.
    pub log: Vec<Line>,
}

/// A volume mounted into a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// The volume's name.
    pub volume: String,
    /// The mount point in the container.
    pub destination: String,
    /// Whether the volume is anonymous; removing the container can remove it too.
    pub anonymous: bool,
}

/// A line of a container's log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// The output stream.
    pub output: Output,
    /// The time.
    pub at: Timestamp,
    /// The text without the newline.
    pub text: String,
}

/// The status of a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Status {
    /// Never started.
    #[default]
    Created,
    /// Its process runs.
    Running,
    /// Its process is paused.
    Paused,
    /// Its process exited.
    Exited,
}

impl Status {
    /// Docker's name of the status.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Running => "running",
            Self::Paused => "paused",
            Self::Exited => "exited",
        }
    }

    /// Whether there is a process.
    pub fn is_alive(self) -> bool {
        matches!(self, Self::Running | Self::Paused)
    }
}

/// The state of a container's process.
#[derive(Debug, Clone, Default)]
pub struct State {
    /// The status.
    pub status: Status,
    /// The process ID; 0 without a process.
    pub pid: u32,
    /// The last exit code.
    pub exit_code: i32,
    /// Why the last start failed.
    pub error: String,
    /// When it last started.
    pub started: Option<Timestamp>,
    /// When it last finished.
    pub finished: Option<Timestamp>,
}

/// An image.
#[derive(Debug, Clone)]
pub struct Image {
    /// `sha256:` and 64 hexadecimal digits.
    pub id: String,
    /// The tags, `repository:tag`; empty if the image is dangling.
    pub tags: BTreeSet<String>,
    /// The digests, `repository@digest`.
    pub digests: BTreeSet<String>,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// The creation time.
    pub created: Timestamp,
    /// Its size in bytes.
    pub size: u64,
}

/// A volume.
#[derive(Debug, Clone)]
pub struct Volume {
    /// Its name.
    pub name: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// The options of its driver.
    pub options: BTreeMap<String, String>,
    /// The creation time.
    pub created: Timestamp,
}

impl World {
    /// An empty world whose IDs are derived from the seed.
    pub fn new(clock: SharedClock, seed: u64) -> Self {
        Self {
            containers: BTreeMap::new(),
            names: HashMap::new(),
            images: BTreeMap::new(),
            tags: HashMap::new(),
            volumes: BTreeMap::new(),
            journal: Journal::default(),
            ahead: SignedDuration::ZERO,
            clock,
            latest: Timestamp::UNIX_EPOCH,
            made: 0,
            seed,
        }
    }

    /// The engine's current time.
    pub fn time(&self) -> Timestamp {
        let machine = SignedDuration::try_from(self.clock.wall()).unwrap_or_default();
        Timestamp::UNIX_EPOCH.saturating_add(machine + self.ahead).unwrap_or(Timestamp::MAX)
    }

    /// The engine's current time, strictly increasing unless its clock was set back.
    pub(super) fn now(&mut self) -> Timestamp {
        let time = self.time();
        let next = self.latest.saturating_add(SignedDuration::from_nanos(1)).unwrap_or(time);
        // If the next time is far ahead, the clock was set back since.
        let near = next.duration_since(time) < SignedDuration::from_millis(1);
        self.latest = if time < next && near { next } else { time };
        self.latest
    }

    /// Containers by ID.
    pub fn containers(&self) -> &BTreeMap<String, Container> {
        &self.containers
    }

    /// Images by ID.
    pub fn images(&self) -> &BTreeMap<String, Image> {
        &self.images
    }

    /// Volumes by name.
    pub fn volumes(&self) -> &BTreeMap<String, Volume> {
        &self.volumes
    }

    /// The remembered events.
    pub fn events(&self) -> Vec<Event> {
        self.journal.all().map(|event| (**event).clone()).collect()
    }

    /// Forgets all events, like an engine that restarts.
    pub fn forget_events(&mut self) {
        self.journal.forget();
    }

    pub(super) fn tell(&mut self, kind: &'static str, action: &'static str, id: &str, said: &[(&str, String)]) {
        let at = self.now();
        let attributes = said.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        self.journal.write(Event { kind, action, id: id.to_owned(), attributes, at });
    }

    /// A new ID of 64 hexadecimal digits.
    pub(super) fn next_id(&mut self) -> String {
        self.made += 1;
        let words = (0..4).map(|word| mix(self.seed ^ (self.made * 4 + word)));
        words.map(|word| format!("{word:016x}")).collect()
    }

    pub(super) fn next_pid(&mut self) -> u32 {
        self.made += 1;
        1000 + u32::try_from(self.made % 4_000_000).unwrap_or(0)
    }
}

/// One step of splitmix64, a deterministic pseudo-random generator.
fn mix(number: u64) -> u64 {
    let mut word = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

/// The first twelve digits of an ID, as in messages.
pub(super) fn short(id: &str) -> &str {
    let digits = id.strip_prefix("sha256:").unwrap_or(id);
    digits.get(..12).unwrap_or(digits)
}

/// Whether Docker accepts this name for a container or volume.
pub(super) fn is_name(name: &str) -> bool {
    let mut letters = name.chars();
    letters.next().is_some_and(|first| first.is_ascii_alphanumeric())
        && name.len() > 1
        && letters.all(|letter| letter.is_ascii_alphanumeric() || "_.-".contains(letter))
}
