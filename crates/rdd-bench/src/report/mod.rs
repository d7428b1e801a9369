//! Reports the figures and goals as text, as Markdown and as JSON.

mod api;
mod engine;

use std::time::Duration;

use serde_json::{Value, json};

use crate::{
    api::Api,
    arguments::Part,
    engine::Engine,
    plan::{Database, Figures, WRITERS},
    startup::Startup,
};

/// The number of writers for which the goals are stated.
const MANY: usize = 128;
/// Below this, fdatasync is so fast that group commit saves less, and the goal is lower.
const FAST_SYNC: Duration = Duration::from_micros(400);

/// All measurements; a goal that was not measured is missed.
#[derive(Debug, Default)]
pub(crate) struct Report {
    short: bool,
    only: Option<Part>,
    pub(crate) fdatasync: Option<Duration>,
    pub(crate) rates: Figures,
    pub(crate) replay: Option<Duration>,
    pub(crate) startup: Option<Startup>,
    pub(crate) api: Option<Api>,
    pub(crate) engine: Option<Engine>,
}

/// The limit of a goal.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Limit {
    AtLeast(f64),
    Below(f64),
}

/// The unit of memory.
const MEBIBYTES: &str = "MiB";

/// A goal with its measured value.
#[derive(Debug, PartialEq)]
struct Goal {
    name: &'static str,
    unit: &'static str,
    limit: Limit,
    measured: Option<f64>,
}

impl Goal {
    /// Whether the goal is met. A short run is noisy and may miss a goal by a factor of two; memory varies less and may miss it by a fifth.
    fn is_met(&self, short: bool) -> bool {
        let slack = match self.unit {
            _ if !short => 1.0,
            MEBIBYTES => 1.2,
            _ => 2.0,
        };
        match (self.measured, self.limit) {
            (None, _) => false,
            (Some(measured), Limit::AtLeast(limit)) => measured >= limit / slack,
            (Some(measured), Limit::Below(limit)) => measured < limit * slack,
        }
    }

    fn limit_text(&self) -> String {
        match self.limit {
            Limit::AtLeast(limit) => format!("≥ {limit} {}", self.unit),
            Limit::Below(limit) => format!("< {limit} {}", self.unit),
        }
    }

    fn measured_text(&self) -> String {
        self.measured.map_or_else(|| "not measured".to_owned(), |measured| format!("{measured:.2} {}", self.unit))
    }
}

fn goal(name: &'static str, unit: &'static str, limit: Limit, measured: Option<f64>) -> Goal {
    Goal { name, unit, limit, measured }
}

impl Report {
    pub(crate) fn new(short: bool, only: Option<Part>) -> Self {
        Self { short, only, ..Self::default() }
    }

    /// Whether this part is to be measured.
    pub(crate) fn covers(&self, part: Part) -> bool {
        self.only.is_none_or(|only| only == part)
    }

    /// Whether every goal is met.
    pub(crate) fn is_good(&self) -> bool {
        self.goals().iter().all(|goal| goal.is_met(self.short))
    }

    fn rate(&self, database: Database) -> Option<f64> {
        self.rates.get(&(database, MANY)).map(|figure| figure.rate)
    }

    fn goals(&self) -> Vec<Goal> {
        let parts = [
            (Part::Store, self.store_goals()),
            (Part::Start, self.start_goals()),
            (Part::Api, api::goals(self.api.as_ref())),
            (Part::Engine, engine::goals(self.engine.as_ref())),
        ];
        parts.into_iter().filter(|(part, _)| self.covers(*part)).flat_map(|(_, goals)| goals).collect()
    }

    fn store_goals(&self) -> Vec<Goal> {
        let ratio = |other| Some(self.rate(Database::Store)? / self.rate(other)?);
        let is_fast = self.fdatasync.is_some_and(|time| time < FAST_SYNC);
        vec![
            goal(
                "128 writers, beside one transaction each",
                "times",
                Limit::AtLeast(if is_fast { 4.0 } else { 10.0 }),
                ratio(Database::OneEach),
            ),
            goal("128 writers, beside etcd", "times", Limit::AtLeast(2.0), ratio(Database::Etcd)),
            goal("replay of 100,000 objects", "ms", Limit::Below(1000.0), self.replay.map(milliseconds)),
        ]
    }

    fn start_goals(&self) -> Vec<Goal> {
        let started = |time: fn(&Startup) -> Duration| self.startup.as_ref().map(|startup| milliseconds(time(startup)));
        let startup = self.startup.as_ref();
        vec![
            goal("cold start, the API server alone", "ms", Limit::Below(300.0), started(|startup| startup.bare.cold)),
            goal("warm start, the API server alone", "ms", Limit::Below(100.0), started(|startup| startup.bare.warm)),
            goal("cold start, with all controllers", "ms", Limit::Below(400.0), started(|startup| startup.whole.cold)),
            goal("warm start, with all controllers", "ms", Limit::Below(150.0), started(|startup| startup.whole.warm)),
            goal(
                "memory, idle with all controllers",
                MEBIBYTES,
                Limit::Below(35.0),
                startup.map(|startup| mebibytes(startup.whole.idle_bytes)),
            ),
            goal(
                "idle with all controllers, part of a core",
                "%",
                Limit::Below(0.1),
                startup.map(|startup| startup.idle_cpu * 100.0),
            ),
            goal("rdd version", "ms", Limit::Below(10.0), started(|startup| startup.version)),
        ]
    }

    /// The rows of the table of writes.
    fn write_rows(&self) -> Vec<[String; 6]> {
        let row = |((database, writers), figure): (&(Database, usize), &crate::plan::Figure)| {
            let time = |seconds: f64| format!("{:.2} ms", seconds * 1e3);
            let rounds = format!("{:.0}–{:.0}", figure.slowest, figure.fastest);
            let (name, rate) = (database.name().to_owned(), format!("{:.0}", figure.rate));
            [name, writers.to_string(), rate, rounds, time(figure.p50), time(figure.p99)]
        };
        self.rates.iter().map(row).collect()
    }

    fn goal_rows(&self) -> Vec<[String; 4]> {
        let verdict = |goal: &Goal| if goal.is_met(self.short) { "met" } else { "MISSED" }.to_owned();
        self.goals()
            .iter()
            .map(|goal| [goal.name.to_owned(), goal.limit_text(), goal.measured_text(), verdict(goal)])
            .collect()
    }

    /// Figures without a goal.
    fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if let Some(time) = self.fdatasync {
            notes.push(format!("fdatasync of a 4 KiB append, median: {:.3} ms", milliseconds(time)));
        }
        if let Some(startup) = &self.startup {
            notes.push(format!("memory of an idle API server: {:.1} MiB", mebibytes(startup.bare.idle_bytes)));
        }
        notes.extend(self.api.as_ref().map(api::notes).unwrap_or_default());
        notes.extend(self.engine.as_ref().map(engine::notes).unwrap_or_default());
        if self.short {
            notes.push("a short run: goals may be missed by a factor of two, those of memory by a fifth".to_owned());
        }
        notes
    }

    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        for note in self.notes() {
            text.push_str(&format!("{note}\n"));
        }
        let line = |[name, writers, rate, rounds, p50, p99]: [String; 6]| {
            format!("{name:<30} {writers:>8} {rate:>10} {rounds:>15} {p50:>11} {p99:>11}\n")
        };
        text.push('\n');
        if self.covers(Part::Store) {
            text.push_str(&line(["durable writes", "writers", "writes/s", "rounds", "p50", "p99"].map(str::to_owned)));
            text.extend(self.write_rows().into_iter().map(line));
        }
        text.push_str(&format!("\n{:<52} {:>12} {:>14}\n", "goal", "stated", "measured"));
        for [name, limit, measured, verdict] in self.goal_rows() {
            text.push_str(&format!("{name:<52} {limit:>12} {measured:>14}  {verdict}\n"));
        }
        text
    }

    pub(crate) fn markdown(&self) -> String {
        let mut text = String::from(
            "| durable writes | writers | writes/s | rounds | p50 | p99 |\n|---|---:|---:|---:|---:|---:|\n",
        );
        for row in self.write_rows() {
            text.push_str(&format!("| {} |\n", row.join(" | ")));
        }
        text.push_str("\n| goal | stated | measured | |\n|---|---:|---:|---|\n");
        for row in self.goal_rows() {
            text.push_str(&format!("| {} |\n", row.join(" | ")));
        }
        for note in self.notes() {
            text.push_str(&format!("\n- {note}"));
        }
        text + "\n"
    }

    pub(crate) fn json(&self) -> Value {
        let writes: Vec<Value> = self
            .rates
            .iter()
            .map(|((database, writers), figure)| {
                json!({"database": database.name(), "writers": writers, "writesPerSecond": figure.rate,
                       "slowestRound": figure.slowest, "fastestRound": figure.fastest,
                       "p50Seconds": figure.p50, "p99Seconds": figure.p99})
            })
            .collect();
        let goals: Vec<Value> = self
            .goals()
            .iter()
            .map(|goal| json!({"name": goal.name, "stated": goal.limit_text(), "measured": goal.measured, "met": goal.is_met(self.short)}))
            .collect();
        json!({
            "short": self.short,
            "writerCounts": WRITERS,
            "fdatasyncMedianSeconds": self.fdatasync.map(|time| time.as_secs_f64()),
            "idleBytes": self.startup.as_ref().map(|startup| startup.bare.idle_bytes),
            "writes": writes,
            "goals": goals,
            "api": self.api.as_ref().map(api::json),
            "engine": self.engine.as_ref().map(engine::json),
        })
    }
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

#[expect(clippy::cast_precision_loss, reason = "a daemon has less than 2^52 bytes")]
fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / 1_048_576.0
}

#[cfg(test)]
mod tests;
