//! Measures commits and a replay on this machine: `cargo run --release -p rdd-store --example measure [folder]`.

#![allow(clippy::print_stdout, reason = "printing is what it is for")]

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use rdd_store::{Action, Error, Expect, Store, Txn, sqlite};

const VALUE: usize = 1_024;
const SPAN: Duration = Duration::from_secs(3);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::args().nth(1).map_or_else(std::env::temp_dir, PathBuf::from);
    let folder = folder.join(format!("rdd-store-measure-{}", std::process::id()));
    for writers in [1, 8, 128] {
        commits(&folder, writers)?;
    }
    replay(&folder)?;
    std::fs::remove_dir_all(&folder)?;
    Ok(())
}

fn commits(folder: &Path, writers: usize) -> Result<(), Box<dyn std::error::Error>> {
    let store = Arc::new(sqlite::open(&folder.join(format!("{writers}.db")), sqlite::Options::default())?);
    let started = Instant::now();
    let threads: Vec<_> = (0..writers)
        .map(|writer| {
            let store = Arc::clone(&store);
            std::thread::spawn(move || -> Result<Vec<Duration>, Error> {
                let mut took = Vec::new();
                while started.elapsed() < SPAN {
                    let key = format!("/registry/configmaps/default/object-{writer}-{}", took.len() % 16);
                    let begun = Instant::now();
                    store.commit(Txn::put(key, Expect::Any, vec![b'x'; VALUE])).wait()?;
                    took.push(begun.elapsed());
                }
                Ok(took)
            })
        })
        .collect();
    let mut took = Vec::new();
    for thread in threads {
        took.extend(thread.join().map_err(|_| "a writer panicked")??);
    }
    let elapsed = started.elapsed();
    took.sort_unstable();
    let counted = store.status().commits;
    println!(
        "{writers:>4} writers: {:>7.0} commits/s, p50 {:?}, p99 {:?}, {:.1} per disk transaction",
        took.len() as f64 / elapsed.as_secs_f64(),
        took[took.len() / 2],
        took[took.len() * 99 / 100],
        counted.transactions as f64 / counted.groups as f64,
    );
    store.close().wait()?;
    Ok(())
}

fn replay(folder: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let path = folder.join("replay.db");
    let store = sqlite::open(&path, sqlite::Options::default())?;
    for group in 0..1_000 {
        let txn = (0..100).fold(Txn::default(), |txn, number| {
            let put = Action::Put { value: vec![b'x'; VALUE].into(), ttl: None };
            txn.with(format!("/registry/configmaps/default/object-{group}-{number}"), Expect::Absent, put)
        });
        store.commit(txn).wait()?;
    }
    store.close().wait()?;
    for _ in 0..3 {
        let started = Instant::now();
        let store = sqlite::open(&path, sqlite::Options::default())?;
        println!("open and verify {} objects of {VALUE} bytes: {:?}", store.status().live_keys, started.elapsed());
        store.close().wait()?;
    }
    Ok(())
}
