//! Finding A-2: no request costs more than in proportion to its size. A case for each list of each kind, measured at n items and at a multiple of n.
//!
//! Every case is measured by a create, or by an update where the list is in a part of the object with a path of its own. n is
//! as long as it takes for the request to cost 50 ms of the thread's CPU time, and a list six times as long may cost 1.25 times
//! as much per item. That is the bound of 2.5 for twice the items, further out: validation that compares items with each other
//! may be a tenth of the work at n. The first case of each shape is measured by all kinds of patches and reads, too, with a list
//! twice as long, for their code knows shapes and not kinds. What looks too slow is measured three times, and the best counts.
//!
//! Where not even half of the longest list that fits into a body costs 50 ms, n is that half; if all of it costs less, its
//! growth does not matter. A kind that limits a list is measured below its limit, or above if it refuses all of these lengths.
//!
//! So that no case measures the wrong thing, a test of its own checks the answers to short lists: they have all items, or the
//! case says why not.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "helpers of tests are tests too")]

mod cases;
mod health;
mod measure;
mod server;

use std::{
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
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
    let _alone = measure_alone();
    let resources = run_on_server_thread(|| TestServer::start().find_creatable());
    let cases = cases::all(&resources);
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
    let measured = verdicts.iter().filter(|verdict| verdict.is_measured()).count();
    println!("{measured} of {} requests took 50 ms at n; the others are as long as they can be", verdicts.len());
    let report = |verdicts: &mut dyn Iterator<Item = &Verdict>| {
        verdicts.map(|verdict| format!("\n{verdict}")).collect::<String>()
    };
    let slow = report(&mut verdicts.iter().filter(|verdict| !verdict.is_linear()));
    assert!(slow.is_empty(), "requests that cost more than their size:{slow}");
}

/// Lets one test at a time measure.
fn measure_alone() -> MutexGuard<'static, ()> {
    static MACHINE: Mutex<()> = Mutex::new(());
    MACHINE.lock().unwrap_or_else(PoisonError::into_inner)
}

// Finding A-2
#[test]
fn every_case_is_answered_as_it_expects() {
    let _alone = measure_alone();
    let mistakes = run_on_server_thread(|| {
        let server = TestServer::start();
        let cases = cases::all(&server.find_creatable());
        cases.iter().flat_map(|case| measure::find_mistakes(&server, case)).collect::<Vec<_>>()
    });
    assert!(mistakes.is_empty(), "{} cases measure something else:\n{}", mistakes.len(), mistakes.join("\n"));
}

fn run_on_server_thread<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| {
        thread::Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, work).unwrap().join().unwrap()
    })
}

/// Takes cases until none is left.
fn measure_cases(cases: &[Case], next: &AtomicUsize) -> Vec<Verdict> {
    let server = TestServer::start();
    let mut verdicts = Vec::new();
    while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
        let judged = measure::judge(&server, case);
        judged.iter().for_each(|verdict| println!("{verdict}"));
        verdicts.extend(judged);
    }
    verdicts
}
