//! Measures the databases in rounds: each database in turn with each number of writers, so that noise of the machine affects all.

use std::{collections::BTreeMap, path::Path, sync::Arc, time::Duration};

use anyhow::{Context, Result};
use tokio::runtime::Runtime;

use crate::{
    disk, etcd, load,
    load::{Put, Round},
    sqlite::OneEach,
    statistics::{median, percentile},
    store,
};

pub(crate) const WRITERS: [usize; 3] = [1, 16, 128];

/// A database that is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Database {
    Store,
    OneEach,
    Etcd,
}

impl Database {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Store => "rdd-store",
            Self::OneEach => "SQLite, one transaction each",
            Self::Etcd => "etcd",
        }
    }
}

/// The medians of the rounds of one database with one number of writers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Figure {
    /// Durable writes per second.
    pub(crate) rate: f64,
    /// The rates of the slowest and the fastest round, which show how noisy the machine was.
    pub(crate) slowest: f64,
    pub(crate) fastest: f64,
    /// Latencies in seconds.
    pub(crate) p50: f64,
    pub(crate) p99: f64,
}

/// The figures by database and number of writers.
pub(crate) type Figures = BTreeMap<(Database, usize), Figure>;

struct Plan {
    rounds: usize,
    measured: Duration,
}

impl Plan {
    fn new(short: bool) -> Self {
        if short {
            Self { rounds: 3, measured: Duration::from_secs(1) }
        } else {
            Self { rounds: 5, measured: Duration::from_secs(3) }
        }
    }
}

/// Measures all databases, each in its own folder below `folder`, and in every round an fdatasync of the disk; the goals depend on the
/// median of the latter.
pub(crate) fn measure_writes(folder: &Path, short: bool) -> Result<(Duration, Figures)> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("start the runtime")?;
    let plan = Plan::new(short);
    let one_each = OneEach::open(&folder.join("sqlite"))?;
    let mut server = etcd::Server::start(&folder.join("etcd"))?;
    let clients = runtime.block_on(server.clients())?;
    let opened = [Arc::new(store::open(&folder.join("store"))?)];

    let mut syncs = Vec::new();
    let mut rounds: BTreeMap<(Database, usize), Vec<Round>> = BTreeMap::new();
    for number in 1..=plan.rounds {
        eprintln!("writes: round {number} of {}", plan.rounds);
        for writers in WRITERS {
            syncs.extend(disk::fdatasync_times(folder)?);
            let mut keep = |database, round| rounds.entry((database, writers)).or_default().push(round);
            keep(Database::Store, drive(&runtime, &opened, writers, plan.measured)?);
            keep(Database::OneEach, one_each.drive(writers, plan.measured)?);
            keep(Database::Etcd, drive(&runtime, &clients, writers, plan.measured)?);
        }
    }
    let fdatasync = Duration::from_secs_f64(median(&syncs).context("measure fdatasync")?);
    let figures = rounds.into_iter().filter_map(|(which, rounds)| Some((which, summarize(&rounds)?))).collect();
    Ok((fdatasync, figures))
}

fn drive<P: Put>(runtime: &Runtime, targets: &[Arc<P>], writers: usize, measured: Duration) -> Result<Round> {
    runtime.block_on(load::drive(targets, writers, measured))
}

/// The median of the rounds, separately for each figure; `None` if a round had no write.
fn summarize(rounds: &[Round]) -> Option<Figure> {
    let middle =
        |figure: &dyn Fn(&Round) -> Option<f64>| median(&rounds.iter().map(figure).collect::<Option<Vec<f64>>>()?);
    Some(Figure {
        rate: middle(&|round| Some(round.rate()))?,
        slowest: rounds.iter().map(Round::rate).reduce(f64::min)?,
        fastest: rounds.iter().map(Round::rate).reduce(f64::max)?,
        p50: middle(&|round| percentile(&round.latencies, 50))?,
        p99: middle(&|round| percentile(&round.latencies, 99))?,
    })
}
