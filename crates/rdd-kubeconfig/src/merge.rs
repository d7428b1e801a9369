//! Publishes our context in the user's kubeconfig, withdraws it and makes it current.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::Duration,
};

use rdd_stdx::clock::{SharedClock, SystemClock};
use serde_json::Value;
use tokio::sync::OwnedMutexGuard;

use crate::{
    edit::{self, Change, List, Refused},
    entry::{Cluster, User, put},
    file::{self, Error},
    judge::{Keep, Seen, Verdict, judge},
    lock::Patience,
    probe::{Answer, Probe},
    select::{Known, default_file, file_for},
    situation::{Situation, look},
};

/// How long to wait for a lock of another program. kubectl holds one for milliseconds.
const LOCK_WAIT: Duration = Duration::from_secs(5);
/// How often to read a file again that another program is writing, and the pause in between.
const LOOKS: usize = 20;
const PAUSE: Duration = Duration::from_millis(5);

/// The outcome of a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Everything was as requested; no file was touched.
    Unchanged,
    /// These files were replaced.
    Written(Vec<PathBuf>),
}

/// The context of one instance in the kubeconfigs of the user.
///
/// The cluster, user and context entries have the same name.
///
/// # Guarantees
/// - A call changes each file atomically or not at all.
/// - Calls of a `Merge` and its clones run one after the other, including a probe and the switch that follows from it.
///   After `withdraw`, no earlier `switch_current` can add our name again.
/// - A call whose future is dropped completes the file operation that it has begun.
#[derive(Debug, Clone)]
pub struct Merge {
    paths: Vec<PathBuf>,
    name: String,
    patience: Patience,
    turn: Arc<tokio::sync::Mutex<()>>,
    /// The last verdict that was logged.
    said: Arc<Mutex<Option<Verdict>>>,
}

impl Merge {
    /// Manages the context `name` in these files, which are in the order in which kubectl merges them.
    pub fn new(paths: Vec<PathBuf>, name: impl Into<String>) -> Self {
        let (turn, said) = (Arc::default(), Arc::default());
        let patience = Patience { clock: SystemClock::shared(), wait: LOCK_WAIT };
        Self { paths, name: name.into(), patience, turn, said }
    }

    /// Uses another clock, and another timeout for locks of other programs.
    #[must_use]
    pub fn with_patience(mut self, clock: SharedClock, wait: Duration) -> Self {
        self.patience = Patience { clock, wait };
        self
    }

    /// The name of the context.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Creates or updates the cluster, user and context entries. By client-go's rules, each goes into the first file
    /// that has it, otherwise into the first file that exists, otherwise into the last file. The context keeps fields
    /// that the user added.
    ///
    /// # Errors
    /// When a file cannot be read, edited, locked or written. Files before it may have been written.
    pub async fn publish(&self, cluster: &Cluster, user: &User) -> Result<Outcome, Error> {
        let (this, cluster, user) = (self.clone(), cluster.clone(), user.clone());
        self.in_turn(move || this.publish_now(&cluster, &user)).await
    }

    /// Removes the three entries from every file, and `current-context` if it is ours. Creates no file and touches no
    /// file without our entries.
    ///
    /// # Errors
    /// The first failure; the other files are processed nevertheless.
    pub async fn withdraw(&self) -> Result<Outcome, Error> {
        let this = self.clone();
        self.in_turn(move || this.withdraw_now()).await
    }

    /// Makes our context current if it is published and the user's current context is unset, missing or certainly
    /// broken.
    ///
    /// Logs each verdict once, and again when it changes.
    ///
    /// # Errors
    /// When the file cannot be written. A file that cannot be read is not an error: the current context is kept.
    pub async fn switch_current(&self, probe: &impl Probe) -> Result<Verdict, Error> {
        let turn = self.turn.clone().lock_owned().await;
        let this = self.clone();
        let (turn, files) = blocking(turn, move || this.load()).await?;
        let (seen, files) = match files {
            Ok(files) => (self.see(&files, probe).await, files),
            Err(error) => (Seen::Unreadable(rdd_stdx::chain::Chain(&error).to_string()), Vec::new()),
        };
        let verdict = judge(&seen);
        self.say(&verdict);
        if matches!(verdict, Verdict::Switch(_)) {
            let this = self.clone();
            blocking(turn, move || this.switch_now(&files)).await?.1?;
        }
        Ok(verdict)
    }

    async fn see(&self, files: &[(PathBuf, Known)], probe: &impl Probe) -> Seen {
        match look(files, &self.name) {
            Situation::Seen(seen) => seen,
            Situation::Ask(endpoint) => match probe.ask(&endpoint).await {
                Answer::Refused => Seen::Refused { is_loopback: endpoint.is_loopback() },
                Answer::Status(status) => Seen::Answered(status),
                Answer::TimedOut => Seen::TimedOut,
                Answer::Tls(why) => Seen::TlsFailed(why),
                Answer::Unreachable(why) => Seen::Unreachable(why),
            },
        }
    }

    fn say(&self, verdict: &Verdict) {
        let mut said = self.said.lock().expect("nothing panics while holding this");
        if said.as_ref() == Some(verdict) {
            return;
        }
        *said = Some(verdict.clone());
        match verdict {
            Verdict::Keep(Keep::Doubt(doubt)) => {
                tracing::info!(context = %self.name, reason = %doubt, "The current context of the kubeconfig is kept");
            }
            Verdict::Switch(why) => {
                tracing::info!(context = %self.name, reason = %why, "The current context of the kubeconfig is switched");
            }
            Verdict::Keep(Keep::Ours | Keep::Answers | Keep::NotPublished) => {}
        }
    }

    async fn in_turn(&self, act: impl FnOnce() -> Result<Outcome, Error> + Send + 'static) -> Result<Outcome, Error> {
        let turn = self.turn.clone().lock_owned().await;
        blocking(turn, act).await?.1
    }

    /// Loads all files that can be kubeconfigs. A file that another program is writing is read again.
    fn load(&self) -> Result<Vec<(PathBuf, Known)>, Error> {
        let mut files = Vec::new();
        for path in &self.paths {
            match load(path) {
                Err(Error::NotAFile { .. }) => {}
                known => files.push((path.clone(), known?)),
            }
        }
        if files.is_empty() { Err(Error::Nowhere) } else { Ok(files) }
    }

    fn publish_now(&self, cluster: &Cluster, user: &User) -> Result<Outcome, Error> {
        let (paths, files): (Vec<PathBuf>, Vec<Known>) = self.load()?.into_iter().unzip();
        let mut plans: BTreeMap<usize, Vec<Change>> = BTreeMap::new();
        for list in List::ALL {
            let change = put(list, &self.name, cluster, user);
            plans.entry(file_for(&files, list, &self.name)).or_default().push(change);
        }
        let mut written = Vec::new();
        for (at, changes) in plans {
            if file::modify(&paths[at], &self.patience, |_| Ok(changes.clone()))? {
                written.push(paths[at].clone());
            }
        }
        Ok(outcome(written))
    }

    fn withdraw_now(&self) -> Result<Outcome, Error> {
        let (mut written, mut failure) = (Vec::new(), None);
        for path in &self.paths {
            match file::modify(path, &self.patience, |text| self.without_us(text)) {
                Ok(true) => written.push(path.clone()),
                Ok(false) | Err(Error::NotAFile { .. }) => {}
                // One unwritable file must not leave our entries in the others.
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        failure.map_or_else(|| Ok(outcome(written)), Err)
    }

    /// The changes that remove our entries from a text. A text without our name is not parsed, since it may be
    /// malformed.
    fn without_us(&self, text: &str) -> Result<Vec<Change>, Refused> {
        if !text.contains(&self.name) {
            return Ok(Vec::new());
        }
        let value = edit::value_of(text)?;
        let gone = [List::Contexts, List::Users, List::Clusters];
        let mut changes = Vec::from(gone.map(|list| Change::Remove { list, name: self.name.clone() }));
        if current_of(&value) == self.name {
            changes.push(Change::SetCurrent(String::new()));
        }
        Ok(changes)
    }

    /// Switches, unless the current context changed or our entry was removed since the verdict.
    fn switch_now(&self, judged: &[(PathBuf, Known)]) -> Result<bool, Error> {
        let (paths, files): (Vec<PathBuf>, Vec<Known>) = self.load()?.into_iter().unzip();
        let currents = |files: &mut dyn Iterator<Item = &Known>| -> Vec<String> {
            files.map(|file| file.current().to_owned()).collect()
        };
        let is_there = files.iter().any(|file| file.entry(List::Contexts, &self.name).is_some());
        let is_same = currents(&mut files.iter()) == currents(&mut judged.iter().map(|(_, file)| file));
        // The user or another program acted during the probe, so the verdict is outdated.
        if !is_there || !is_same {
            return Ok(false);
        }
        let at = default_file(&files);
        let was_here = files[at].entry(List::Contexts, &self.name).is_some();
        file::modify(&paths[at], &self.patience, |text| {
            let now = Known { exists: true, value: edit::value_of(text)? };
            let is_here = now.entry(List::Contexts, &self.name).is_some();
            // Check again under the lock: the file may have changed since it was loaded.
            let is_due = now.current() == files[at].current() && is_here == was_here;
            Ok(if is_due { vec![Change::SetCurrent(self.name.clone())] } else { Vec::new() })
        })
    }
}

fn load(path: &Path) -> Result<Known, Error> {
    let mut looks = 0;
    loop {
        let snapshot = file::read(path)?;
        let value = edit::value_of(&snapshot.text);
        if (value.is_err() || snapshot.is_doubtful()) && looks < LOOKS {
            looks += 1;
            std::thread::sleep(PAUSE);
            continue;
        }
        let value = value.map_err(|source| Error::Refused { path: path.to_owned(), source })?;
        return Ok(Known { exists: snapshot.exists(), value });
    }
}

fn current_of(value: &Value) -> &str {
    value.get("current-context").and_then(Value::as_str).unwrap_or_default()
}

fn outcome(written: Vec<PathBuf>) -> Outcome {
    if written.is_empty() { Outcome::Unchanged } else { Outcome::Written(written) }
}

/// Runs blocking work on the blocking pool and holds the turn until it ends, even if the caller stops waiting.
async fn blocking<T: Send + 'static>(
    turn: OwnedMutexGuard<()>,
    act: impl FnOnce() -> T + Send + 'static,
) -> Result<(OwnedMutexGuard<()>, T), Error> {
    let done = tokio::task::spawn_blocking(move || {
        let result = act();
        (turn, result)
    });
    done.await.map_err(|_| Error::Ended)
}
