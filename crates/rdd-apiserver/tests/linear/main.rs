//! Finding A-2: the cost of every request is at most proportional to its size. There is a case for each list of each kind,
//! measured at n items and at a multiple of n.
//!
//! Each case is measured by a create, or by an update if a subresource writes the list. n is the length at which the request
//! costs 50 ms of the thread's CPU time. A list six times as long may cost 1.25 times as much per item, which corresponds to a
//! bound of 2.5 for twice the items. The factor of six makes validation visible that compares items with each other and is only a
//! tenth of the work at n. The first case of each shape is also measured by all kinds of patches and reads, with a list twice as
//! long, because their code depends on shapes and not on kinds. A measurement that looks too slow is repeated up to three times,
//! and the best one counts.
//!
//! If half of the longest list that fits into a body costs less than 50 ms, n is that half. If the whole list costs less, its
//! growth does not matter. A kind that limits the length of a list is measured below the limit, or above it if it refuses all of
//! these lengths.
//!
//! To ensure that every case measures the right thing, a separate test checks the responses to short lists: they have all items,
//! or the case declares the reason why not.

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

/// The number of threads with one server each, so that the CPU time of a thread is that of one server.
const THREADS: usize = 2;

/// The stack size of the daemon's threads.
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

/// Takes the lock that lets only one test measure at a time.
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

/// Takes and measures cases until none is left.
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
