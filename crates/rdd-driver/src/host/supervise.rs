//! Supervises one engine: waits until it answers, checks its health, follows its networks, and tears it down when a
//! part ends.

use std::{fs::Permissions, os::unix::fs::PermissionsExt, path::PathBuf, sync::Arc, time::Duration};

use rdd_instance::Pool;
use rdd_stdx::{backoff::Backoff, chain::Chain, file::PRIVATE, task::Group};
use tokio::{
    sync::Notify,
    time::{Instant, MissedTickBehavior},
};

use super::{
    ask,
    journal::Journal,
    machine::Machine,
    network::{Tools, Wiring, remember},
    parts::{self, Alive, Part},
    rules::Network,
    settings::{Kind, Settings},
    teardown::teardown,
};
use crate::{Error, Health, LogOptions, Reporter, State, log};

/// The start timeout. A large data root after an unclean shutdown takes a while.
const START_TAKES: Duration = Duration::from_secs(180);
/// The grace period for the remaining parts of an engine when one part has ended.
const REMAINS_GRACE: Duration = Duration::from_secs(10);
/// The interval of health checks.
const HEALTH_EVERY: Duration = Duration::from_secs(10);
/// The packet rules are checked at every n-th health check, because each check runs several programs.
const RULES_EVERY: u32 = 6;
/// The minimum time between two updates of the packet rules; each start of a container changes a network.
const CHANGES_EVERY: Duration = Duration::from_millis(200);
/// The delay before the event stream is opened again after it ended.
const LISTEN_AGAIN: Duration = Duration::from_secs(1);
/// The backoff between questions to an engine that starts.
const BACKOFF: Backoff = Backoff::new(Duration::from_millis(10), Duration::from_millis(250));

/// An engine that is starting or running.
#[derive(Debug)]
pub(super) struct Engine {
    pub(super) machine: Machine,
    pub(super) settings: Settings,
    pub(super) alive: Vec<Alive>,
    /// The engine's network; `None` without root, and for an engine that rdd does not own.
    pub(super) network: Option<OwnNetwork>,
    pub(super) log: LogOptions,
    pub(super) journal: Journal,
}

/// The network of an engine of our own.
#[derive(Debug)]
pub(super) struct OwnNetwork {
    pub(super) tools: Tools,
    pub(super) pool: Pool,
    pub(super) mtu: Option<u16>,
}

/// The message of the end of an engine.
type Over = String;

impl Engine {
    /// Supervises the engine until it ends. When this returns, nothing of it runs and [`State::Exited`] was reported.
    ///
    /// If the future is dropped earlier, the engine keeps running; another caller can adopt it or tear it down.
    pub(super) async fn supervise(mut self, reporter: &Reporter) {
        self.tell(reporter, State::Starting);
        let over = match self.bring_up().await {
            Ok(()) => self.watch(reporter).await,
            Err(over) => over,
        };
        self.journal.error(&over);
        let mut last_words = over;
        // The child handles are still held here, so the runtime reaps the children when they end.
        if let Err(error) = teardown(&self.machine, REMAINS_GRACE).await {
            let error = Chain(&error).to_string();
            self.journal.error(&error);
            last_words = format!("{last_words}; then it could not be cleared away: {error}");
        }
        self.tell(reporter, State::Exited { last_words });
    }

    fn tell(&self, reporter: &Reporter, state: State) {
        if reporter.state() != state || state == State::Starting {
            self.journal.state(&state);
        }
        reporter.report(state);
    }

    fn socket(&self) -> PathBuf {
        match &self.settings.engine {
            Kind::Foreign(socket) => socket.clone(),
            _ => self.machine.docker_socket(&self.settings),
        }
    }

    /// Starts the parts that are missing and returns when the engine answers.
    async fn bring_up(&mut self) -> Result<(), Over> {
        let deadline = Instant::now() + START_TAKES;
        if self.has(Part::Containerd) {
            self.until_answered(Part::Containerd.name(), deadline, Question::Containerd).await?;
        }
        if self.settings.engine == Kind::Containerd {
            return Ok(());
        }
        if matches!(self.settings.engine, Kind::Moby) {
            if !self.has(Part::Dockerd) {
                self.start_dockerd().map_err(|error| Chain(&error).to_string())?;
            }
            self.until_answered(Part::Dockerd.name(), deadline, Question::Docker).await?;
            // The folder is already private; the mode protects the socket itself as well.
            let _ = std::fs::set_permissions(self.socket(), Permissions::from_mode(PRIVATE));
            return Ok(());
        }
        self.until_answered("the engine", deadline, Question::Docker).await
    }

    fn has(&self, part: Part) -> bool {
        self.alive.iter().any(|alive| alive.part == part)
    }

    fn start_dockerd(&mut self) -> Result<(), Error> {
        let program = self.machine.host.programs.find("dockerd")?;
        let network = self.network.as_ref().map(|own| parts::Network { pool: &own.pool, mtu: own.mtu });
        let arguments = parts::dockerd_arguments(&self.machine, &self.socket(), network.as_ref(), &self.log);
        let alive = parts::spawn(&self.machine, Part::Dockerd, &program, &arguments, &self.log)?;
        self.journal.info("started dockerd; its log is dockerd.log");
        self.alive.push(alive);
        Ok(())
    }

    async fn until_answered(&mut self, name: &str, deadline: Instant, question: Question) -> Result<(), Over> {
        let mut delays = BACKOFF.delays();
        loop {
            let asked = question.ask(self);
            let answer = tokio::select! {
                // Biased: an answer counts even if a part ended at the same moment; the next wait sees the end.
                biased;
                answer = asked => answer,
                over = first_end(&self.machine, &mut self.alive) => return Err(over),
            };
            match answer {
                Ok(()) => {
                    self.journal.info(&format!("{name} answers"));
                    return Ok(());
                }
                Err(why) if Instant::now() >= deadline => {
                    let silence = format!("{name} does not answer after {START_TAKES:?}: {why}");
                    let last = self.alive.last().and_then(|alive| last_line_of(&self.machine, alive.part));
                    return Err(
                        last.map_or_else(|| silence.clone(), |line| format!("{silence}; its last word is: {line}"))
                    );
                }
                Err(_) => {}
            }
            tokio::select! {
                () = tokio::time::sleep(delays.advance()) => {}
                over = first_end(&self.machine, &mut self.alive) => return Err(over),
            }
        }
    }

    /// Watches the engine and reports its health until it ends.
    async fn watch(&mut self, reporter: &Reporter) -> Over {
        let mut health = Checks::default();
        let (changes, _listening) = self.listen();
        let mut earliest = Instant::now();
        let mut ticks = tokio::time::interval(HEALTH_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut count = 0_u32;
        // The first tick comes at once, so the first state that is reported includes the result of a check.
        loop {
            let changed = async {
                tokio::time::sleep_until(earliest).await;
                changes.notified().await;
            };
            tokio::select! {
                over = first_end(&self.machine, &mut self.alive) => return over,
                _ = ticks.tick() => {
                    if let Err(over) = self.check(&mut health).await {
                        return over;
                    }
                    if count.is_multiple_of(RULES_EVERY) {
                        self.follow_networks(&mut health).await;
                    }
                    count = count.wrapping_add(1);
                }
                () = changed => {
                    self.follow_networks(&mut health).await;
                    earliest = Instant::now() + CHANGES_EVERY;
                }
            }
            let state = State::Running(health.health());
            if let State::Running(Health { errors }) = &state
                && reporter.state() != state
            {
                errors.iter().for_each(|error| self.journal.error(error));
            }
            self.tell(reporter, state);
        }
    }

    /// Checks the engine's health. A foreign engine counts as ended when it failed two checks in a row.
    async fn check(&mut self, health: &mut Checks) -> Result<(), Over> {
        health.containerd = match self.has(Part::Containerd) {
            true => Question::Containerd.ask(self).await.err().map(|why| format!("containerd does not answer: {why}")),
            false => None,
        };
        let docker = match self.settings.engine {
            Kind::Containerd => None,
            Kind::Moby | Kind::Foreign(_) => Question::Docker.ask(self).await.err(),
        };
        let before = health.docker.take();
        match (&self.settings.engine, docker) {
            (Kind::Foreign(socket), Some(why)) if before.is_some() => {
                Err(format!("the engine at {} no longer answers: {why}", socket.display()))
            }
            (_, docker) => {
                health.docker = docker.map(|why| format!("dockerd does not answer: {why}"));
                Ok(())
            }
        }
    }

    /// Subscribes to changes of the engine's networks until the returned group is dropped. Without a network of its
    /// own, the notification never fires.
    fn listen(&self) -> (Arc<Notify>, Group<()>) {
        let (changes, mut listening) = (Arc::new(Notify::new()), Group::default());
        if self.network.is_some() && self.settings.engine == Kind::Moby {
            let (heard, socket) = (Arc::clone(&changes), self.socket());
            listening.spawn("network events", async move {
                loop {
                    // The reason for the end of the stream does not matter here: the health checks notice a dead
                    // engine.
                    let _ = ask::follow_networks(&socket, || heard.notify_one()).await;
                    tokio::time::sleep(LISTEN_AGAIN).await;
                }
            });
        }
        (changes, listening)
    }

    /// Updates the packet rules for the engine's current networks.
    async fn follow_networks(&self, health: &mut Checks) {
        let Some(own) = &self.network else { return };
        if let Err(why) = self.apply_networks(own, &mut health.networks).await {
            // Forget the applied networks, so that the next check applies the rules again.
            health.networks = None;
            health.network = Some(format!("containers may not reach out: {why}"));
        } else {
            health.network = None;
        }
    }

    async fn apply_networks(&self, own: &OwnNetwork, applied: &mut Option<Vec<Network>>) -> Result<(), String> {
        let text = |error: Error| Chain(&error).to_string();
        let wiring = Wiring { engine: &self.machine.engine, tools: &own.tools };
        let networks = match self.settings.engine {
            Kind::Moby => ask::networks(&self.socket(), &self.machine.engine.bridge).await?,
            _ => vec![Network::own(&self.machine.engine.bridge)],
        };
        if applied.as_ref() == Some(&networks) && wiring.is_in_place().await {
            return Ok(());
        }
        // Record the bridges before they are used, so that a teardown after a kill can remove them.
        self.machine.remember_network(&remember(&own.pool, &networks)).map_err(text)?;
        wiring.apply_rules(&own.pool, &networks).await.map_err(text)?;
        *applied = Some(networks);
        Ok(())
    }
}

/// The results of the last checks.
#[derive(Debug, Default)]
struct Checks {
    containerd: Option<String>,
    docker: Option<String>,
    network: Option<String>,
    /// The networks whose rules are in place.
    networks: Option<Vec<Network>>,
}

impl Checks {
    fn health(&self) -> Health {
        let all = [&self.containerd, &self.docker, &self.network];
        Health { errors: all.into_iter().flatten().cloned().collect() }
    }
}

#[derive(Debug, Clone, Copy)]
enum Question {
    Containerd,
    Docker,
}

impl Question {
    fn ask(self, engine: &Engine) -> impl Future<Output = Result<(), String>> + use<> {
        let containerd = engine.machine.engine.containerd_socket.clone();
        let docker = engine.socket();
        async move {
            match self {
                Self::Containerd => ask::containerd_answers(&containerd).await,
                Self::Docker => ask::docker_answers(&docker).await,
            }
        }
    }
}

/// Waits for the first part to end and returns its message.
async fn first_end(machine: &Machine, alive: &mut [Alive]) -> Over {
    let (part, how) = match alive {
        [] => std::future::pending().await,
        [one] => one.ended().await,
        [one, other, ..] => tokio::select! { ended = one.ended() => ended, ended = other.ended() => ended },
    };
    let name = part.name();
    match last_line_of(machine, part) {
        Some(line) => format!("{name} ended ({how}): {line}"),
        None => format!("{name} ended ({how}) and left no word"),
    }
}

fn last_line_of(machine: &Machine, part: Part) -> Option<String> {
    log::last_line(&machine.engine.folder.join(part.log()))
}
