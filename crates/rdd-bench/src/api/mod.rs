//! Measures the API server of the real binary: against a bare server, against etcd, and its use of memory and CPU.

pub(crate) mod bare;
mod objects;
pub(crate) mod process;
mod reading;
mod watching;
mod wire;
mod writing;

use std::{
    collections::BTreeMap,
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use rdd_testkit::{Daemon, Sandbox};
use tokio::runtime::Runtime;

use self::{
    bare::Answers,
    reading::{Measured, read},
    writing::Creator,
};
pub(crate) use self::{
    reading::Read,
    wire::{Connection, Endpoint, Protocol},
};
use crate::{
    etcd, load,
    statistics::{median, percentile},
};

/// The number of concurrent connections for reads and creates.
const CONNECTIONS: usize = 16;
/// The number of ConfigMaps on a well-filled server.
const OBJECTS: usize = 10_000;
const WATCHERS: usize = 100;
const DEFINITIONS: usize = 100;
/// How long a daemon is idle before its memory is measured.
const SETTLES: Duration = Duration::from_secs(3);

/// The reads of the daemon and of the baseline, each the median of its rounds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Beside {
    pub(crate) ours: Read,
    pub(crate) bare: Read,
    /// The daemon's figures divided by the baseline's: the median of the ratios of the rounds. A ratio is only taken within a round, since
    /// the machine's speed varies over time.
    pub(crate) ratio: Read,
}

impl Beside {
    /// Computes the medians of rounds, in each of which both servers were read one after the other.
    fn of(ours: &[Read], bare: &[Read]) -> Result<Self> {
        let by = |(ours, bare): (&Read, &Read)| Read {
            rate: ours.rate / bare.rate,
            bytes_per_second: ours.bytes_per_second / bare.bytes_per_second,
            cpu: ours.cpu / bare.cpu,
        };
        let ratios: Vec<_> = ours.iter().zip(bare).map(by).collect();
        Ok(Self { ours: middle(ours)?, bare: middle(bare)?, ratio: middle(&ratios)? })
    }
}

/// All measurements of the API server.
#[derive(Debug)]
pub(crate) struct Api {
    pub(crate) get: BTreeMap<Protocol, Beside>,
    pub(crate) list: BTreeMap<Protocol, Beside>,
    /// The size of the list.
    pub(crate) list_bytes: usize,
    /// Creates and etcd puts per second, and their ratio, computed like [`Beside::ratio`].
    pub(crate) creates: f64,
    pub(crate) puts: f64,
    pub(crate) creates_by_puts: f64,
    /// Seconds until the last watcher received the event: from the request, and from its reply.
    pub(crate) told: Percentiles,
    pub(crate) told_after_answer: Percentiles,
    pub(crate) memory: Memory,
    /// The share of one core that an idle daemon uses.
    pub(crate) idle_cpu: f64,
    /// Seconds from sending a CRD until an object of its kind is stored.
    pub(crate) fresh_definition: Percentiles,
}

/// Percentiles of delays, in seconds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Percentiles {
    pub(crate) p50: f64,
    pub(crate) p99: f64,
}

impl Percentiles {
    pub(crate) fn of(delays: &[f64]) -> Result<Self> {
        let of = |percent| percentile(delays, percent).context("nothing was measured");
        Ok(Self { p50: of(50)?, p99: of(99)? })
    }

    /// The medians over the rounds, so that a single noisy round has no effect.
    fn of_rounds<'a>(rounds: impl Iterator<Item = &'a Vec<f64>>) -> Result<Self> {
        let rounds = rounds.map(|delays| Self::of(delays)).collect::<Result<Vec<_>>>()?;
        let middle = |figure: fn(&Self) -> f64| {
            median(&rounds.iter().map(figure).collect::<Vec<_>>()).context("nothing was measured")
        };
        Ok(Self { p50: middle(|round| round.p50)?, p99: middle(|round| round.p99)? })
    }
}

/// The resident memory of the daemon, in bytes.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Memory {
    pub(crate) idle: u64,
    pub(crate) filled: u64,
    /// After all reads.
    pub(crate) worked: u64,
    /// The increase by the CRDs.
    pub(crate) definitions: u64,
}

struct Plan {
    rounds: usize,
    measured: Duration,
    idle: Duration,
    watched: usize,
    fresh: usize,
}

impl Plan {
    fn new(short: bool) -> Self {
        let seconds = Duration::from_secs;
        if short {
            Self { rounds: 3, measured: seconds(1), idle: seconds(3), watched: 100, fresh: 20 }
        } else {
            Self { rounds: 5, measured: seconds(2), idle: seconds(15), watched: 300, fresh: 50 }
        }
    }
}

/// Measures this binary.
pub(crate) fn measure(binary: &Path, short: bool) -> Result<Api> {
    let binary = std::fs::canonicalize(binary).with_context(|| format!("find {}", binary.display()))?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("start the runtime")?;
    let plan = Plan::new(short);
    let daemon = Daemon::start_bare_in(Sandbox::builder().binary(&binary).build());
    let ours = Measured { endpoint: Endpoint::of_daemon(&daemon.config_path())?, pid: daemon.pid() };
    let mut memory = Memory::default();

    eprintln!("api: idle");
    std::thread::sleep(SETTLES);
    memory.idle = process::resident_bytes(ours.pid)?;
    let idle_cpu = idle_cpu(ours.pid, plan.idle)?;

    eprintln!("api: {OBJECTS} objects");
    runtime.block_on(writing::fill(&ours.endpoint, OBJECTS, CONNECTIONS))?;
    std::thread::sleep(SETTLES);
    memory.filled = process::resident_bytes(ours.pid)?;

    let one = format!("{}/{}", objects::CONFIGMAPS, writing::name(OBJECTS / 2));
    let answers = runtime.block_on(answers(&ours.endpoint, &[&one, objects::CONFIGMAPS]))?;
    let list_bytes = answers[objects::CONFIGMAPS].1.len();
    let server = bare::Server::start(&daemon.home().join("bare"), &answers)?;
    let bare = Measured { endpoint: server.endpoint.clone(), pid: server.pid() };
    let reads = Reads { runtime: &runtime, plan: &plan, ours: &ours, bare: &bare };
    let get = reads.of("get", &one, CONNECTIONS)?;
    let list = reads.of("list", objects::CONFIGMAPS, 1)?;
    drop(server);
    std::thread::sleep(SETTLES);
    memory.worked = process::resident_bytes(ours.pid)?;

    let mut delays = Vec::new();
    for number in 1..=plan.rounds {
        eprintln!("api: {WATCHERS} watchers, round {number} of {}", plan.rounds);
        delays.push(runtime.block_on(watching::measure(&ours.endpoint, WATCHERS, plan.watched, number))?);
    }
    let [creates, puts, creates_by_puts] = measure_creates(&runtime, &plan, &daemon, &ours)?;
    drop(daemon);
    let fresh = measure_definitions(&runtime, &plan, &binary, &mut memory)?;
    Ok(Api {
        get,
        list,
        list_bytes,
        creates,
        puts,
        creates_by_puts,
        told: Percentiles::of_rounds(delays.iter().map(|round| &round.from_request))?,
        told_after_answer: Percentiles::of_rounds(delays.iter().map(|round| &round.from_answer))?,
        memory,
        idle_cpu,
        fresh_definition: Percentiles::of(&fresh)?,
    })
}

/// The share of one core that the threads of an idle process use.
pub(crate) fn idle_cpu(pid: u32, measured: Duration) -> Result<f64> {
    let (begun, before) = (Instant::now(), process::cpu_of_threads(pid)?);
    std::thread::sleep(measured);
    let used = process::cpu_of_threads(pid)?.saturating_sub(before);
    Ok(used.as_secs_f64() / begun.elapsed().as_secs_f64())
}

/// Records the daemon's replies for the baseline.
async fn answers(endpoint: &Endpoint, paths: &[&str]) -> Result<Answers> {
    let mut connection = endpoint.connect(Protocol::Http1).await?;
    let mut answers = Answers::new();
    for path in paths {
        answers.insert((*path).to_owned(), connection.fetch(path).await?);
    }
    Ok(answers)
}

/// Reads from the daemon and the baseline in turn.
struct Reads<'a> {
    runtime: &'a Runtime,
    plan: &'a Plan,
    ours: &'a Measured,
    bare: &'a Measured,
}

impl Reads<'_> {
    fn of(&self, what: &str, path: &str, connections: usize) -> Result<BTreeMap<Protocol, Beside>> {
        let mut figures = BTreeMap::new();
        for protocol in Protocol::ALL {
            let (mut ours, mut bare) = (Vec::new(), Vec::new());
            for number in 1..=self.plan.rounds {
                eprintln!("api: {what} over {}, round {number} of {}", protocol.name(), self.plan.rounds);
                for (server, rounds) in [(self.bare, &mut bare), (self.ours, &mut ours)] {
                    let reading = read(server, protocol, path, connections, self.plan.measured);
                    rounds.push(self.runtime.block_on(reading)?);
                }
            }
            figures.insert(protocol, Beside::of(&ours, &bare)?);
        }
        Ok(figures)
    }
}

/// The median of the rounds, separately for each figure.
fn middle(rounds: &[Read]) -> Result<Read> {
    let of = |figure: fn(&Read) -> f64| {
        median(&rounds.iter().map(figure).collect::<Vec<_>>()).context("nothing was measured")
    };
    Ok(Read {
        rate: of(|read| read.rate)?,
        bytes_per_second: of(|read| read.bytes_per_second)?,
        cpu: of(|read| read.cpu)?,
    })
}

/// Creates per second, puts per second of an etcd on the same disk, measured in turn, and their ratio.
fn measure_creates(runtime: &Runtime, plan: &Plan, daemon: &Daemon, ours: &Measured) -> Result<[f64; 3]> {
    // In the daemon's own folder, so that both use the same disk.
    let mut server = etcd::Server::start(&daemon.home().join("etcd"))?;
    let clients = runtime.block_on(server.clients())?;
    let (mut creates, mut puts) = (Vec::new(), Vec::new());
    for number in 1..=plan.rounds {
        eprintln!("api: creates, round {number} of {}", plan.rounds);
        let creators = runtime.block_on(Creator::several(&ours.endpoint, number, CONNECTIONS))?;
        creates.push(runtime.block_on(load::drive(&creators, CONNECTIONS, plan.measured))?.rate());
        puts.push(runtime.block_on(load::drive(&clients, CONNECTIONS, plan.measured))?.rate());
    }
    let ratios: Vec<_> = creates.iter().zip(&puts).map(|(creates, puts)| creates / puts).collect();
    let middle = |rounds: &[f64]| median(rounds).context("nothing was created");
    Ok([middle(&creates)?, middle(&puts)?, middle(&ratios)?])
}

/// Measures the memory of many CRDs, and how long a new one takes until it is usable.
fn measure_definitions(runtime: &Runtime, plan: &Plan, binary: &Path, memory: &mut Memory) -> Result<Vec<f64>> {
    eprintln!("api: {DEFINITIONS} definitions");
    let daemon = Daemon::start_bare_in(Sandbox::builder().binary(binary).build());
    let (endpoint, pid) = (Endpoint::of_daemon(&daemon.config_path())?, daemon.pid());
    std::thread::sleep(SETTLES);
    let before = process::resident_bytes(pid)?;
    runtime.block_on(async {
        let mut connection = endpoint.connect(Protocol::Http1).await?;
        for number in 0..DEFINITIONS {
            connection.create(objects::DEFINITIONS, objects::definition(number)).await?;
        }
        Ok::<_, anyhow::Error>(())
    })?;
    std::thread::sleep(SETTLES);
    memory.definitions = process::resident_bytes(pid)?.saturating_sub(before);
    runtime.block_on(fresh_definitions(&endpoint, plan.fresh))
}

/// Seconds from sending a CRD until the first object of its kind is stored; the client retries until it is.
async fn fresh_definitions(endpoint: &Endpoint, count: usize) -> Result<Vec<f64>> {
    let mut connection = endpoint.connect(Protocol::Http1).await?;
    let mut times = Vec::new();
    for number in DEFINITIONS..DEFINITIONS + count {
        let (definition, object) = (objects::definition(number), objects::custom_object(number));
        let begun = Instant::now();
        connection.create(objects::DEFINITIONS, definition).await?;
        while let Err(error) = connection.create(&objects::custom_path(number), object.clone()).await {
            ensure!(begun.elapsed() < Duration::from_secs(10), "a kind is not served: {error}");
        }
        times.push(begun.elapsed().as_secs_f64());
    }
    Ok(times)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_that_slows_down_changes_no_ratio() {
        let rounds = |cpu: f64| {
            [1.0, 1.1, 1.5, 2.0, 0.9].map(|slow| Read { rate: 1.0 / slow, bytes_per_second: 1.0, cpu: cpu * slow })
        };
        let (ours, bare) = (rounds(3.0), rounds(2.0));
        // In one round, another program used the machine while the daemon was read.
        let mut disturbed = ours;
        disturbed[0].cpu = 30.0;
        for ours in [ours, disturbed] {
            let ratio = Beside::of(&ours, &bare).unwrap().ratio;
            assert!((ratio.cpu - 1.5).abs() < 1e-9, "{ratio:?}");
        }
    }
}
