//! The benchmark of `make bench`: durable writes compared with SQLite and etcd, replay, start-up, the API server, and the engine's mirror.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a tool for developers talks to their terminal")]

mod api;
mod arguments;
mod disk;
mod engine;
mod etcd;
mod grpc;
mod load;
mod plan;
mod report;
mod sqlite;
mod startup;
mod statistics;
mod store;

use std::{path::Path, process::ExitCode};

use anyhow::{Context, Result};
use arguments::{Arguments, Part};
use rdd_stdx::chain::Chain;
use report::Report;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match words.as_slice() {
        [word, folder] if word == api::bare::COMMAND => api::bare::serve(Path::new(folder)).map(|()| true),
        words => Arguments::parse(words).and_then(|arguments| run(&arguments)),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("rdd-bench: {}", Chain(error.as_ref()));
            ExitCode::FAILURE
        }
    }
}

/// Measures and reports. Returns whether every goal is met, with the tolerance of a short run.
fn run(arguments: &Arguments) -> Result<bool> {
    std::fs::create_dir_all(&arguments.folder).with_context(|| format!("make {}", arguments.folder.display()))?;
    let scratch = tempfile::Builder::new().prefix("bench-").tempdir_in(&arguments.folder).context("make a folder")?;
    let mut report = Report::new(arguments.short, arguments.only);

    if report.covers(Part::Store) {
        let (fdatasync, rates) = plan::measure_writes(scratch.path(), arguments.short)?;
        report.fdatasync = Some(fdatasync);
        report.rates = rates;
        eprintln!("replay: {} objects", store::REPLAY_OBJECTS);
        report.replay = Some(store::replay(&scratch.path().join("replay"), store::REPLAY_OBJECTS)?);
    }
    if report.covers(Part::Start) {
        report.startup = Some(startup::measure(&arguments.binary, arguments.short)?);
    }
    if report.covers(Part::Api) {
        report.api = Some(api::measure(&arguments.binary, arguments.short)?);
    }
    if report.covers(Part::Engine) {
        report.engine = Some(engine::measure(&arguments.binary, arguments.short)?);
    }

    print!("{}", if arguments.markdown { report.markdown() } else { report.text() });
    if let Some(path) = &arguments.json {
        let text = serde_json::to_string_pretty(&report.json()).context("write figures as JSON")?;
        std::fs::write(path, text + "\n").with_context(|| format!("write {}", path.display()))?;
    }
    Ok(report.is_good())
}
