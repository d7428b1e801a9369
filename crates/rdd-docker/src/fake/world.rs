//! What the fake engine has: containers, images and volumes, under a clock of its own.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use jiff::{SignedDuration, Timestamp};
use rdd_stdx::clock::SharedClock;

use super::{
    journal::{Event, Journal},
    program::Output,
};

/// Everything that the engine knows. Its methods do what the requests of the same names do, and leave the same events.
#[derive(Debug)]
pub struct World {
    pub(super) containers: BTreeMap<String, Container>,
    /// Names to IDs, since looking through thousands for a name is slow.
    pub(super) names: HashMap<String, String>,
    pub(super) images: BTreeMap<String, Image>,
    /// Tags to IDs, for the same reason.
    pub(super) tags: HashMap<String, String>,
    pub(super) volumes: BTreeMap<String, Volume>,
    pub(super) journal: Journal,
    /// How far the engine's clock is ahead of the machine's.
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
    /// Its name, without the slash.
    pub name: String,
    /// The image as it was asked for.
    pub image: String,
    /// The image's ID.
    pub image_id: String,
    /// Its program.
    pub path: String,
    /// The arguments of its program.
    pub args: Vec<String>,
    /// Its labels, those of its image included.
    pub labels: BTreeMap<String, String>,
    /// Its ports, such as `80/tcp`, and where they are published while it runs.
    pub ports: BTreeMap<String, Vec<(String, String)>>,
    /// Whether it has a terminal, and so only one stream of output.
    pub tty: bool,
    /// Removed when it ends.
    pub auto_remove: bool,
    /// The volumes that it uses.
    pub volumes: Vec<Mount>,
    /// When it was made.
    pub created: Timestamp,
    /// What it is doing.
    pub state: State,
    /// What it wrote.
    pub log: Vec<Line>,
}

/// A volume in a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// The volume's name.
    pub volume: String,
    /// Where it is in the container.
    pub destination: String,
    /// Nobody gave it a name, so it goes with the container if that is asked for.
    pub anonymous: bool,
}

/// What a container wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// Where to.
    pub output: Output,
    /// When.
    pub at: Timestamp,
    /// What, without the end of the line.
    pub text: String,
}

/// What a container is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Status {
    /// Never started.
    #[default]
    Created,
    /// Its program runs.
    Running,
    /// Its program is frozen.
    Paused,
    /// Its program ended.
    Exited,
}

impl Status {
    /// Docker's word for it.
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

/// What is known of a container's program.
#[derive(Debug, Clone, Default)]
pub struct State {
    /// What it is doing.
    pub status: Status,
    /// Its process; 0 if there is none.
    pub pid: u32,
    /// What it ended with last.
    pub exit_code: i32,
    /// Why it could not be started.
    pub error: String,
    /// When it was started last.
    pub started: Option<Timestamp>,
    /// When it ended last.
    pub finished: Option<Timestamp>,
}

/// An image.
#[derive(Debug, Clone)]
pub struct Image {
    /// `sha256:` and 64 hexadecimal digits.
    pub id: String,
    /// `repository:tag`, each; none if it dangles.
    pub tags: BTreeSet<String>,
    /// `repository@digest`, each.
    pub digests: BTreeSet<String>,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// When it was made.
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
    /// When it was made.
    pub created: Timestamp,
}

impl World {
    /// An empty one, whose IDs follow from the seed.
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

    /// The engine's time.
    pub fn time(&self) -> Timestamp {
        let machine = SignedDuration::try_from(self.clock.wall()).unwrap_or_default();
        Timestamp::UNIX_EPOCH.saturating_add(machine + self.ahead).unwrap_or(Timestamp::MAX)
    }

    /// The engine's time, later than all times that it gave before unless its clock was set back.
    pub(super) fn now(&mut self) -> Timestamp {
        let time = self.time();
        let next = self.latest.saturating_add(SignedDuration::from_nanos(1)).unwrap_or(time);
        // One that is far ahead is of a clock that was set back since.
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

    /// The events that are still remembered.
    pub fn events(&self) -> Vec<Event> {
        self.journal.all().map(|event| (**event).clone()).collect()
    }

    /// Forgets all events, as an engine that was started again does.
    pub fn forget_events(&mut self) {
        self.journal.forget();
    }

    pub(super) fn tell(&mut self, kind: &'static str, action: &'static str, id: &str, said: &[(&str, String)]) {
        let at = self.now();
        let attributes = said.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        self.journal.write(Event { kind, action, id: id.to_owned(), attributes, at });
    }

    /// 64 hexadecimal digits that were never given before.
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

/// One step of splitmix64: numbers that look like chance and are the same each time.
fn mix(number: u64) -> u64 {
    let mut word = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

/// The first twelve digits of an ID, which is how messages name it.
pub(super) fn short(id: &str) -> &str {
    let digits = id.strip_prefix("sha256:").unwrap_or(id);
    digits.get(..12).unwrap_or(digits)
}

/// Whether Docker takes this for the name of a container or volume.
pub(super) fn is_name(name: &str) -> bool {
    let mut letters = name.chars();
    letters.next().is_some_and(|first| first.is_ascii_alphanumeric())
        && name.len() > 1
        && letters.all(|letter| letter.is_ascii_alphanumeric() || "_.-".contains(letter))
}
