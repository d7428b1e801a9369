//! The baseline for writes: one SQLite transaction per write, over one connection that all writers share.

use std::{
    path::Path,
    sync::Mutex,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, anyhow};
use rusqlite::{Connection, params};

use crate::load::{Round, Window, Writes};

#[derive(Debug)]
pub(crate) struct OneEach {
    connection: Mutex<Connection>,
}

impl OneEach {
    /// Creates a database with the store's table and durability settings.
    pub(crate) fn open(folder: &Path) -> Result<Self> {
        std::fs::create_dir_all(folder).with_context(|| format!("make {}", folder.display()))?;
        let connection = Connection::open(folder.join("yardstick.db")).context("open the yardstick")?;
        let layout = "PRAGMA page_size = 4096;
            PRAGMA locking_mode = EXCLUSIVE;
            PRAGMA journal_mode = WAL;
            PRAGMA synchronous = FULL;
            CREATE TABLE log (id INTEGER PRIMARY KEY, key TEXT NOT NULL, op INTEGER NOT NULL, at INTEGER NOT NULL,
                              expires INTEGER, sum INTEGER NOT NULL, val BLOB);";
        connection.execute_batch(layout).context("lay out the yardstick")?;
        Ok(Self { connection: Mutex::new(connection) })
    }

    pub(crate) fn drive(&self, writers: usize, measured: Duration) -> Result<Round> {
        let window = Window::starting_now(measured);
        let results = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..writers).map(|writer| scope.spawn(move || self.write(writer, window))).collect();
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap_or_else(|_| Err(anyhow!("a writer panicked"))))
                .collect()
        });
        let results: Result<Vec<Vec<f64>>> = results;
        Ok(window.sum(results?))
    }

    fn write(&self, writer: usize, window: Window) -> Result<Vec<f64>> {
        let mut latencies = Vec::new();
        for (key, value) in Writes::of(writer) {
            let started = Instant::now();
            {
                let connection = self.connection.lock().map_err(|_| anyhow!("another writer panicked"))?;
                // Without BEGIN, each statement is its own transaction, durable when it returns.
                let mut insert = connection
                    .prepare_cached("INSERT INTO log (key, op, at, expires, sum, val) VALUES (?1, 0, 0, NULL, 0, ?2)")
                    .context("prepare a write")?;
                insert.execute(params![key, &value[..]]).context("write")?;
            }
            let acknowledged = Instant::now();
            if window.counts(acknowledged) {
                latencies.push((acknowledged - started).as_secs_f64());
            }
            if window.is_over() {
                break;
            }
        }
        Ok(latencies)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_write_is_a_row_and_the_database_is_durable() {
        let folder = tempfile::tempdir().unwrap();
        let database = OneEach::open(folder.path()).unwrap();
        let round = database.drive(3, Duration::from_millis(200)).unwrap();
        assert!(!round.latencies.is_empty());
        let connection = database.connection.lock().unwrap();
        let number = |sql: &str| connection.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
        assert!(number("SELECT count(*) FROM log") >= i64::try_from(round.latencies.len()).unwrap());
        assert_eq!(number("PRAGMA synchronous"), 2, "FULL");
    }
}
