//! Our context in the user's kubeconfig: put in, taken out, made current.

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

/// So long a lock of somebody else is waited for. A kubectl holds it for milliseconds.
const LOCK_WAIT: Duration = Duration::from_secs(5);
/// How often, and how long in between, a file is read again that somebody is writing.
const LOOKS: usize = 20;
const PAUSE: Duration = Duration::from_millis(5);

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// All was so already: no file was touched.
    Unchanged,
    /// These files were replaced.
    Written(Vec<PathBuf>),
}

/// The context of one instance in the files that the user's kubectl reads.
///
/// Cluster, user and context have one name. What one call does to one file is done as a whole or not at all. Calls of one
/// `Merge` (and of its clones) come one after the other, a probe and what follows from it included: after `withdraw` no
/// earlier `switch_current` can bring our name back. A call that is dropped ends what it does to the file it is at.
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
    /// The context `name` in these files, in the order in which kubectl reads them.
    pub fn new(paths: Vec<PathBuf>, name: impl Into<String>) -> Self {
        let (turn, said) = (Arc::default(), Arc::default());
        let patience = Patience { clock: SystemClock::shared(), wait: LOCK_WAIT };
        Self { paths, name: name.into(), patience, turn, said }
    }

    /// The same, by another clock and with another wait for the locks of others.
    #[must_use]
    pub fn with_patience(mut self, clock: SharedClock, wait: Duration) -> Self {
        self.patience = Patience { clock, wait };
        self
    }

    /// The name of the context.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Makes cluster, user and context what they should be: each in the first file that has it, or else in the first file
    /// that exists, or else in the last one (client-go's rules). What the user added to the context stays.
    pub async fn publish(&self, cluster: &Cluster, user: &User) -> Result<Outcome, Error> {
        let (this, cluster, user) = (self.clone(), cluster.clone(), user.clone());
        self.in_turn(move || this.publish_now(&cluster, &user)).await
    }

    /// Removes cluster, user and context from every file, and the current context if it is ours. Makes no file, and touches
    /// none that has nothing of ours. Goes on with the other files when one fails; the first failure is returned.
    pub async fn withdraw(&self) -> Result<Outcome, Error> {
        let this = self.clone();
        self.in_turn(move || this.withdraw_now()).await
    }

    /// Makes our context current if it is there and the user's current one is none, not there, or surely broken.
    ///
    /// Each verdict is logged once, and again when it changes.
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

    /// All files that could be kubeconfigs. What kubectl has written half of is read again.
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
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        failure.map_or_else(|| Ok(outcome(written)), Err)
    }

    /// What takes us out of a text. One that nowhere has our name is not even looked at: it may be malformed.
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

    /// Switches, unless somebody chose a context or took ours away since it was looked.
    fn switch_now(&self, judged: &[(PathBuf, Known)]) -> Result<bool, Error> {
        let (paths, files): (Vec<PathBuf>, Vec<Known>) = self.load()?.into_iter().unzip();
        let currents = |files: &mut dyn Iterator<Item = &Known>| -> Vec<String> {
            files.map(|file| file.current().to_owned()).collect()
        };
        let is_there = files.iter().any(|file| file.entry(List::Contexts, &self.name).is_some());
        let is_same = currents(&mut files.iter()) == currents(&mut judged.iter().map(|(_, file)| file));
        if !is_there || !is_same {
            return Ok(false);
        }
        let at = default_file(&files);
        let was_here = files[at].entry(List::Contexts, &self.name).is_some();
        file::modify(&paths[at], &self.patience, |text| {
            let now = Known { exists: true, value: edit::value_of(text)? };
            let is_here = now.entry(List::Contexts, &self.name).is_some();
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

/// Runs what waits for disks and locks where it keeps nobody, and holds the turn until it is over, whoever still waits.
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
