//! Finding A-2: no request costs more than in proportion to its size. A case for each list of each kind, measured at n items and at 2n.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "helpers of tests are tests too")]

mod cases;
mod measure;
mod server;

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

use cases::Case;
use measure::Verdict;
use server::TestServer;

/// One server a thread: thread CPU time then has one server's work in it and nothing else.
const THREADS: usize = 2;

/// As the daemon's own threads have.
const STACK_BYTES: usize = 8 << 20;

// Finding A-2
#[test]
fn every_list_of_every_kind_is_handled_in_linear_time() {
    let cases = cases::all();
    assert!(cases.len() > 100, "the types have more lists than {}", cases.len());
    let next = AtomicUsize::new(0);
    let verdicts: Vec<Verdict> = thread::scope(|scope| {
        let workers: Vec<_> = (0..THREADS)
            .map(|_| {
                let builder = thread::Builder::new().stack_size(STACK_BYTES);
                builder.spawn_scoped(scope, || measure_cases(&cases, &next)).unwrap()
            })
            .collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    });
    let slow: Vec<String> = verdicts.iter().filter(|verdict| !verdict.is_linear()).map(Verdict::to_string).collect();
    assert!(slow.is_empty(), "{} requests cost more than their size:\n{}", slow.len(), slow.join("\n"));
    let measured = verdicts.iter().filter(|verdict| verdict.is_judged()).count();
    assert!(measured * 2 > verdicts.len(), "only {measured} of {} requests took long enough", verdicts.len());
}

/// Takes cases until none is left.
fn measure_cases(cases: &[Case], next: &AtomicUsize) -> Vec<Verdict> {
    let server = TestServer::start();
    let mut verdicts = Vec::new();
    while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
        let judged = measure::judge(&server, case);
        judged.iter().filter(|verdict| !verdict.is_linear()).for_each(|verdict| println!("{verdict}"));
        verdicts.extend(judged);
    }
    verdicts
}
