//! A structured fuzzer of the API server.
//!
//! It generates scenarios of requests from the server's own OpenAPI document, mutates them, and sends them to a server in this process. It
//! checks invariants after each request; scenarios that lead to new kinds of replies join the corpus.
#![allow(clippy::print_stdout, reason = "a tool for developers talks to their terminal")]

mod arguments;
mod catalog;
mod corpus;
mod generate;
mod invariants;
mod random;
mod scenario;
mod session;

use std::{
    collections::BTreeSet,
    fs,
    process::ExitCode,
    sync::{
        Once,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};

use anyhow::{Context, Result};
use arguments::Arguments;
use corpus::Corpus;
use generate::Generator;
use scenario::Scenario;
use session::{Finding, Session};

/// The number of scenarios per server, before an empty one is started: enough for state to accumulate, few enough to replay.
const SCENARIOS_PER_SERVER: usize = 300;

/// The number of panics in any thread. The server catches panics of requests, so replies alone do not reveal all of them.
static PANICS: AtomicU64 = AtomicU64::new(0);

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match Arguments::parse(&words).and_then(|arguments| run(&arguments)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            println!("rdd-fuzz: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the fuzzer. Returns whether no invariant was violated.
fn run(arguments: &Arguments) -> Result<bool> {
    count_panics();
    if let Some(file) = &arguments.replay {
        return replay(file);
    }
    fuzz(arguments)
}

fn count_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let report = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            PANICS.fetch_add(1, Ordering::SeqCst);
            report(panic);
        }));
    });
}

/// Sends the scenario of a file to a new server.
fn replay(file: &std::path::Path) -> Result<bool> {
    let text = fs::read_to_string(file).with_context(|| format!("read {}", file.display()))?;
    let scenario = Scenario::parse(&text).with_context(|| format!("read {}", file.display()))?;
    let mut session = Session::start();
    match session.play(&scenario) {
        Ok(_) => {
            println!("fuzz: {} requests of {} were answered properly", scenario.requests.len(), file.display());
            Ok(true)
        }
        Err(finding) => {
            println!("fuzz: {finding}");
            Ok(false)
        }
    }
}

fn fuzz(arguments: &Arguments) -> Result<bool> {
    let started = Instant::now();
    let mut corpus = Corpus::load(&arguments.corpus)?;
    // The corpus grows from run to run: this is what earlier runs found.
    corpus.scenarios.extend(Corpus::load(&arguments.grow)?.scenarios);
    let seeds = corpus.scenarios.len();
    let mut session = Session::start();
    let mut generator = Generator::new(arguments.seed, session.catalog());
    let (mut requests, mut slowest) = (0, session.slowest());
    println!("fuzz: seed {}, {seeds} scenarios in the corpus", arguments.seed);
    // The corpus comes first: what once led to a new kind of reply must still get a proper one.
    let mut pending: Vec<Scenario> = corpus.scenarios.clone();
    pending.reverse();
    let mut signatures = BTreeSet::new();
    while started.elapsed() < arguments.time || !pending.is_empty() {
        if session.history().len() >= SCENARIOS_PER_SERVER {
            requests += session.requests();
            slowest = slowest.max(session.slowest());
            session = Session::start();
        }
        let (scenario, is_seed) = match pending.pop() {
            Some(scenario) => (scenario, true),
            None => (generator.next_scenario(&corpus.scenarios), false),
        };
        match session.play(&scenario) {
            Err(finding) => return report(arguments, &session, &finding),
            Ok(found) => {
                let known = signatures.len();
                signatures.extend(found);
                if signatures.len() > known && !is_seed {
                    corpus.add(scenario, &arguments.grow)?;
                }
            }
        }
    }
    requests += session.requests();
    slowest = slowest.max(session.slowest());
    println!(
        "fuzz: {requests} requests in {} s, {} kinds of answers, {} new scenarios, slowest request {} ms: no finding",
        started.elapsed().as_secs(),
        signatures.len(),
        corpus.scenarios.len() - seeds,
        slowest.as_millis()
    );
    Ok(true)
}

/// Writes the shortest sequence that is known to lead to the finding, and prints how to replay it.
fn report(arguments: &Arguments, session: &Session, finding: &Finding) -> Result<bool> {
    println!("fuzz: {finding}");
    let last = session.history().last().cloned().unwrap_or_default();
    let suffices = Session::start().play(&last).is_err();
    let shown = if suffices { last } else { Scenario::join(session.history()) };
    fs::create_dir_all(&arguments.failures).context("make the folder for failures")?;
    let file = arguments.failures.join(format!("{}.jsonl", shown.name()));
    fs::write(&file, shown.to_text()).with_context(|| format!("write {}", file.display()))?;
    println!("fuzz: replay with: make fuzz REPLAY={}", file.display());
    Ok(false)
}
