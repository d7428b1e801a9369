//! Tests a minute of load in which the engine, the watcher's connection and the daemon are killed at random times.

use std::{
    collections::BTreeMap,
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use rdd_stdx::process::{Process, Signal};
use rdd_testkit::{capability::require, eventually};
use serde_json::Value;

use crate::{
    agree::{until_only_what_is_in_use_lingers, until_they_agree},
    chance::Chance,
    docker::Docker,
    load::{ApiUser, DockerUser, RESERVED},
    product::{ACTION, Api, Product, SOON, asking, mirrors},
    proxy::Proxy,
    walk::until_everything_asked_for_is_done,
};

const LASTS: Duration = Duration::from_secs(60);
const CONVERGES: Duration = Duration::from_secs(120);
/// The minimum number of kills of the engine, the watcher and the daemon each.
const KILLS_MIN: usize = 2;
/// The minimum number of requested restarts; at least half of them must be observed. Killed engines and daemons may lose some, but an
/// almost empty ledger would prove nothing.
const RESTARTS_MIN: usize = 6;
/// The maximum duration, for a busy machine on which the minimums take longer.
const LASTS_MAX: Duration = Duration::from_secs(240);
/// Containers that only one thread acts on, so that the actions can be counted.
const COUNTED: usize = 3;

/// The requests for counted containers and the engine's actions, each with its time in nanoseconds.
#[derive(Debug, Default)]
struct Ledger {
    asked: Mutex<BTreeMap<String, Vec<u64>>>,
    done: Mutex<BTreeMap<String, Vec<u64>>>,
}

impl Ledger {
    /// Checks that the engine restarted a container at most once for each request.
    ///
    /// Events that a killed engine lost make the check weaker, but never wrong, as long as enough of them remain.
    fn check(&self) {
        let (asked, done) = (self.asked.lock().unwrap(), self.done.lock().unwrap());
        for (id, times) in &*done {
            let requests = asked.get(id).cloned().unwrap_or_default();
            if let Some(number) = find_repeated(&requests, times) {
                panic!("request {number} of {id} was carried out more than once: {times:?} of {requests:?}");
            }
            assert!(times.len() <= requests.len(), "{id} was restarted {times:?}, and asked to {requests:?}");
        }
        drop((asked, done));
        let (asked, done) = self.counts();
        eprintln!("{asked} restarts were asked for, {done} were counted");
        assert!(self.is_filled(), "only {asked} restarts were asked for, and {done} were seen");
    }

    /// The number of requested and of observed restarts.
    fn counts(&self) -> (usize, usize) {
        let [asked, done] = [&self.asked, &self.done].map(|times| times.lock().unwrap().values().map(Vec::len).sum());
        (asked, done)
    }

    fn is_filled(&self) -> bool {
        let (asked, done) = self.counts();
        asked >= RESTARTS_MIN && done >= RESTARTS_MIN / 2
    }
}

/// Finds the first request that was carried out more than once.
///
/// A request whose connection to the engine breaks is reported as failed, and the next one follows at once, but the engine may still
/// carry it out. So two restarts after a request are one too many only if the request before it had its own.
fn find_repeated(requests: &[u64], restarts: &[u64]) -> Option<usize> {
    let mut is_overdue = false;
    for (number, from) in requests.iter().enumerate() {
        let to = requests.get(number + 1).copied().unwrap_or(u64::MAX);
        let inside = restarts.iter().filter(|time| (*from..to).contains(time)).count();
        if inside > 1 + usize::from(is_overdue) {
            return Some(number);
        }
        is_overdue = inside == 0;
    }
    None
}

#[test]
fn a_restart_that_comes_after_the_next_request_is_not_a_repeated_one() {
    assert_eq!(find_repeated(&[10, 20, 30], &[12, 22, 32]), None);
    assert_eq!(find_repeated(&[10, 20, 30], &[22, 24, 32]), None, "the first one was late");
    assert_eq!(find_repeated(&[10, 20, 30], &[12, 22, 24]), Some(1));
    assert_eq!(find_repeated(&[10, 20, 30], &[22, 24, 26]), Some(1));
    assert_eq!(find_repeated(&[10], &[12, 14]), Some(0));
}

#[expect(clippy::disallowed_methods, reason = "it is compared with the engine's time, on the same machine")]
fn now() -> u64 {
    let time = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    u64::try_from(time.as_nanos()).unwrap()
}

/// Requests restarts, one after the other, and waits for the result of each.
fn ask_for_restarts(
    api: &Api,
    namespace: &str,
    ids: &[String],
    ledger: &Ledger,
    over: &AtomicBool,
    mut chance: Chance,
) {
    while !over.load(Ordering::Relaxed) {
        let id = chance.pick(ids).unwrap();
        let path = format!("{}/{id}", mirrors(namespace, "containers"));
        let Some((200, _)) = api.call("GET", &path, None) else {
            std::thread::sleep(Duration::from_millis(50));
            continue;
        };
        // Noted before it is sent: a request whose reply is lost may have been received.
        ledger.asked.lock().unwrap().entry(id.clone()).or_default().push(now());
        let asked = api.call("PATCH", &path, Some(&asking("restart")));
        let heard = asked.is_none_or(|(code, _)| code == 200);
        let end = Instant::now() + SOON;
        while heard && !over.load(Ordering::Relaxed) && Instant::now() < end {
            let is_answered = api
                .call("GET", &path, None)
                .is_some_and(|(code, object)| code == 200 && object["metadata"]["annotations"][ACTION].is_null());
            if is_answered {
                break;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Notes the restarts in the engine's events, across restarts of the engine.
fn note_restarts(docker: &Docker, ledger: &Ledger, over: &AtomicBool) {
    let mut since = (now() / 1_000_000_000).to_string();
    while !over.load(Ordering::Relaxed) {
        let heard = docker.follow(&since.clone(), |event| {
            if event["Type"] == "container" && event["Action"] == "restart" {
                let id = event["Actor"]["ID"].as_str().unwrap_or_default().to_owned();
                let is_counted =
                    event["Actor"]["Attributes"]["name"].as_str().unwrap_or_default().starts_with(RESERVED);
                let time = event["timeNano"].as_u64().unwrap_or_default();
                let mut done = ledger.done.lock().unwrap();
                let times = done.entry(id).or_default();
                if is_counted && !times.contains(&time) {
                    times.push(time);
                }
            }
            since = event["time"].to_string();
            !over.load(Ordering::Relaxed)
        });
        if heard.is_err() {
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// The target of a kill.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Victim {
    Engine,
    Watcher,
    Daemon,
}

/// Kills targets and counts the kills.
struct Killer<'a> {
    product: &'a Product,
    proxy: Option<Proxy>,
    killed: BTreeMap<Victim, usize>,
}

impl Killer<'_> {
    /// Puts the proxy in place of the engine's socket, unless it is there already.
    fn stand_between(&mut self) {
        if self.proxy.as_ref().is_some_and(Proxy::is_in_place) {
            return;
        }
        let socket = self.product.docker_socket();
        let answers = Docker::at(&socket).try_send("GET", "/_ping", None).is_ok();
        self.proxy = answers.then(|| Proxy::in_place_of(&socket).ok()).flatten();
    }

    /// Kills a target, after waiting until it exists.
    fn kill(&mut self, victim: Victim) {
        match victim {
            Victim::Engine => eventually("an engine to kill", SOON, || self.try_kill_engine()),
            Victim::Watcher => self.kill_watcher(),
            Victim::Daemon => self.product.kill_and_start(),
        }
        eprintln!("killed the {victim:?}");
        *self.killed.entry(victim).or_default() += 1;
    }

    fn try_kill_engine(&self) -> Result<(), String> {
        let is_engine = |process: &rdd_testkit::processes::Info| process.name == "dockerd" && !process.is_zombie();
        let engine = self.product.processes().into_iter().find(is_engine).ok_or("no engine runs")?;
        let engine = Process::open(engine.pid).map_err(|error| error.to_string())?.ok_or("it has just ended")?;
        let was_there = engine.signal(Signal::KILL).map_err(|error| error.to_string())?;
        if was_there { Ok(()) } else { Err("it ended by itself".to_owned()) }
    }

    /// Breaks the watcher's connection. If the watcher is connected directly, because the engine was restarted meanwhile, the daemon is
    /// restarted and connects through the proxy.
    fn kill_watcher(&mut self) {
        eventually("a place in front of the engine", SOON, || {
            self.stand_between();
            self.proxy.is_some().then_some(())
        });
        if !self.has_watcher_soon() {
            self.kill(Victim::Daemon);
        }
        eventually("a watcher to kill", SOON, || {
            self.stand_between();
            self.proxy.as_ref().is_some_and(Proxy::hang_up).then_some(())
        });
    }

    /// Whether the watcher connects through the proxy within a second.
    fn has_watcher_soon(&self) -> bool {
        let end = Instant::now() + Duration::from_secs(1);
        while Instant::now() < end {
            if self.proxy.as_ref().is_some_and(Proxy::has_watcher) {
                return true;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        false
    }
}

/// Whether every target was killed often enough.
fn is_enough(killed: &BTreeMap<Victim, usize>) -> bool {
    let all = [Victim::Engine, Victim::Watcher, Victim::Daemon];
    all.iter().all(|victim| killed.get(victim).is_some_and(|times| *times >= KILLS_MIN))
}

fn survive(product: &Product, docker: &Docker, chance: &mut Chance) -> BTreeMap<Victim, usize> {
    let ids: Vec<String> =
        (0..COUNTED).map(|number| docker.run(&format!("{RESERVED}{number}"), "walk/kept:1")).collect();
    ids.iter().for_each(|id| product.until_status(id, "running"));
    let (ledger, over) = (Ledger::default(), AtomicBool::new(false));
    let (api, namespace) = (&product.api, product.namespace.as_str());
    let (ledger, over) = (&ledger, &over);
    let mut docker_user = DockerUser::new("chaos", docker.another(), chance.fork());
    let mut api_user = ApiUser::new(api.clone(), namespace, chance.fork());
    let (asking, follower, ids) = (chance.fork(), docker.another(), &ids);
    let mut killer = Killer { product, proxy: None, killed: BTreeMap::new() };
    std::thread::scope(|scope| {
        // Ends the other threads, however this one ends.
        let _ends = Ends(over);
        scope.spawn(move || {
            while !over.load(Ordering::Relaxed) {
                if docker_user.act().is_none() {
                    std::thread::sleep(Duration::from_millis(20));
                }
            }
        });
        scope.spawn(move || {
            while !over.load(Ordering::Relaxed) {
                if api_user.act().is_none() {
                    std::thread::sleep(Duration::from_millis(20));
                }
            }
        });
        scope.spawn(move || ask_for_restarts(api, namespace, ids, ledger, over, asking));
        scope.spawn(move || note_restarts(&follower, ledger, over));
        let began = Instant::now();
        // Targets are drawn without replacement: their order is random, but each is killed within four kills.
        let mut victims = Vec::new();
        // After the first kill of the daemon, its next watcher connects through the proxy.
        killer.stand_between();
        killer.kill(Victim::Daemon);
        while began.elapsed() < LASTS
            || (began.elapsed() < LASTS_MAX && !(is_enough(&killer.killed) && ledger.is_filled()))
        {
            // Sometimes before everything is up again, mostly after.
            std::thread::sleep(Duration::from_millis(200 + chance.below(6000) as u64));
            if victims.is_empty() {
                victims.extend([Victim::Watcher, Victim::Watcher, Victim::Daemon, Victim::Engine]);
            }
            let victim = victims.swap_remove(chance.below(victims.len()));
            killer.kill(victim);
            killer.stand_between();
        }
        over.store(true, Ordering::Relaxed);
        // Causes an event, since a reader of the event stream checks its flag only after one.
        eventually("the engine to answer", SOON, || docker.try_import("walk/last:1"));
    });
    ledger.check();
    killer.killed
}

struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn killed_at_random_it_converges_and_does_nothing_twice() {
    if !require("own-engine") {
        return;
    }
    let mut chance = Chance::new("chaos");
    let product = Product::start();
    let docker = product.docker();
    docker.import("walk/a:1");
    docker.import("walk/kept:1");
    let killed = survive(&product, &docker, &mut chance);
    eprintln!("{killed:?}");
    // Finding A-12
    assert!(is_enough(&killed), "each is killed at least {KILLS_MIN} times: {killed:?}");

    product.until_condition("Running", "True");
    product.until_condition("ContainerEngineReady", "True");
    until_everything_asked_for_is_done(&product);
    until_they_agree(&docker, &product.api, &product.namespace, CONVERGES);
    until_only_what_is_in_use_lingers(&docker, &product.api, &product.namespace, CONVERGES);
    let engines = product.processes().into_iter().filter(|process| process.name == "dockerd" && !process.is_zombie());
    assert_eq!(engines.count(), 1, "one engine, and no orphan of a killed one");
    let list = product.api.list("/api/v1/namespaces").unwrap();
    let stuck: Vec<&Value> = list.iter().filter(|space| space["metadata"]["deletionTimestamp"].is_string()).collect();
    assert!(stuck.is_empty(), "{stuck:?}");
    product.rdd(&["svc", "delete"]).expect_success();
}
