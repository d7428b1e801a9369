//! Connects the store to the server: health checks, metrics and backup.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use rdd_apiserver::{
    backup::{Backup, Making, Snapshot},
    metrics::{Figure, Value},
};
use rdd_stdx::chain::Chain;
use rdd_store::{Error, Reply, Revision, Store};

/// Checks that the store accepts writes. The error is for the log, because health responses withhold reasons.
pub(crate) fn is_writable(store: &dyn Store) -> Result<(), String> {
    store.status().writable.map_err(|error| Chain(&error).to_string())
}

/// The message about a full disk, if the store refuses writes because of it.
pub(crate) fn full_disk(store: &dyn Store) -> Option<String> {
    match store.status().writable {
        Err(error @ Error::DiskFull { .. }) => Some(error.to_string()),
        _ => None,
    }
}

/// The store's metrics for `/metrics`.
#[expect(clippy::cast_precision_loss, reason = "metrics are floating point by their format")]
pub(crate) fn figures(store: &dyn Store) -> Vec<Figure> {
    let status = store.status();
    let gauge = |name, help, value: u64| Figure { name, help, value: Value::Gauge(value as f64) };
    let counter = |name, help, value: f64| Figure { name, help, value: Value::Counter(value) };
    vec![
        gauge("rdd_store_revision", "Newest revision", status.head.0),
        gauge("rdd_store_compacted_revision", "Revision up to which history is gone", status.compacted.0),
        gauge("rdd_store_live_keys", "Keys that have a value", status.live_keys),
        gauge("rdd_store_dead_rows", "Rows kept for history only", status.dead_rows),
        gauge("rdd_store_subscribers", "Subscriptions that receive live events", status.subscribers),
        gauge("rdd_store_file_bytes", "Size of the datastore's files", status.file_bytes),
        gauge("rdd_store_writable", "1 while writes are accepted", u64::from(status.writable.is_ok())),
        counter("rdd_store_lagged_subscribers", "Subscriptions cut off for reading too slowly", status.lagged as f64),
        counter("rdd_store_transactions", "Transactions that changed something", status.commits.transactions as f64),
        counter("rdd_store_conflicts", "Transactions refused by an expectation", status.commits.conflicts as f64),
        counter("rdd_store_commits", "Commits to disk, of one or more transactions", status.commits.groups as f64),
        counter("rdd_store_commit_failures", "Commits to disk that failed", status.commits.failures as f64),
        counter("rdd_store_commit_seconds", "Time spent in commits to disk", status.commits.busy.as_secs_f64()),
    ]
}

/// Copies the store into a file beside it, for `GET /datastore/backup`.
#[derive(Debug)]
pub(crate) struct OnlineBackup {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) folder: PathBuf,
}

/// A temporary copy, removed on drop after it was sent.
#[derive(Debug)]
struct RemoveOnDrop(PathBuf);

impl Drop for RemoveOnDrop {
    fn drop(&mut self) {
        if let Err(error) = rdd_stdx::file::remove_if_present(&self.0) {
            tracing::warn!(error = %Chain(&error), "a copy of the datastore was left behind");
        }
    }
}

/// A copy in progress. If the request is dropped, the copy is removed when it is complete.
struct Copying {
    reply: Option<Reply<Revision>>,
    copy: Option<RemoveOnDrop>,
}

impl Copying {
    async fn finish(mut self) -> Result<(Revision, RemoveOnDrop), rdd_store::Error> {
        let reply = self.reply.as_mut().expect("taken only when it is done");
        let revision = reply.await;
        // The copy is complete: `drop` must not wait for it.
        self.reply = None;
        Ok((revision?, self.copy.take().expect("taken only here")))
    }
}

impl Drop for Copying {
    fn drop(&mut self) {
        if let (Some(reply), Some(copy)) = (self.reply.take(), self.copy.take()) {
            // The store cannot cancel a copy, and the file appears only at its end: wait for it, then remove it.
            std::thread::spawn(move || {
                let _ = reply.wait();
                drop(copy);
            });
        }
    }
}

impl Backup for OnlineBackup {
    fn make(&self) -> Making {
        // A random name, so that concurrent backups do not collide.
        let target = self.folder.join(format!("{COPY_PREFIX}{}", rdd_apiserver::auth::Token::random().reveal()));
        let copying = Copying { reply: Some(self.store.backup(&target)), copy: Some(RemoveOnDrop(target.clone())) };
        Box::pin(async move {
            let (revision, copy) = copying.finish().await?;
            tracing::info!(%revision, "made a copy of the datastore");
            Ok(Snapshot { file: std::fs::File::open(&target)?, keep: Box::new(copy) })
        })
    }
}

/// The prefix of temporary copies.
const COPY_PREFIX: &str = ".sending-";

/// Removes temporary copies that a killed daemon left.
pub(crate) fn remove_stale_copies(folder: &Path) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(COPY_PREFIX) {
            drop(RemoveOnDrop(entry.path()));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use rdd_store::{Expect, Txn, sqlite};

    use super::*;

    fn left_in(folder: &Path) -> usize {
        let names = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
        names.filter(|name| name.to_string_lossy().starts_with(COPY_PREFIX)).count()
    }

    #[test]
    fn a_copy_that_nobody_waits_for_any_more_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let store = Arc::new(sqlite::open(&folder.path().join("state.db"), sqlite::Options::default()).unwrap());
        store.commit(Txn::put("bulk", Expect::Any, vec![0; 4 << 20])).wait().unwrap();
        let backup = OnlineBackup { store: store.clone(), folder: folder.path().to_owned() };
        drop(backup.make());
        // Requests are processed in order: when this copy is complete, the abandoned one is too.
        let other = folder.path().join("other.db");
        store.backup(&other).wait().unwrap();
        let patience = Instant::now() + Duration::from_secs(20);
        while left_in(folder.path()) > 0 {
            assert!(Instant::now() < patience, "the copy was left behind");
            std::thread::yield_now();
        }
    }

    // Finding A-8
    #[test]
    fn a_copy_that_nobody_reads_holds_up_no_other_copy_no_write_no_compaction_and_not_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let store = Arc::new(sqlite::open(&folder.path().join("state.db"), sqlite::Options::default()).unwrap());
        store.commit(Txn::put("bulk", Expect::Any, vec![0; 4 << 20])).wait().unwrap();
        let backup = OnlineBackup { store: store.clone(), folder: folder.path().to_owned() };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let within = Duration::from_secs(20);
        runtime.block_on(async {
            let make = || async { tokio::time::timeout(within, backup.make()).await.unwrap().unwrap() };
            let unread = make().await;
            let read = make().await;
            assert_eq!(read.file.metadata().unwrap().len(), unread.file.metadata().unwrap().len());
            let others = async {
                let revision = store.commit(Txn::put("key", Expect::Any, b"value".to_vec())).await.unwrap();
                assert_eq!(store.compact(revision).await.unwrap(), revision);
                store.close().await.unwrap();
            };
            tokio::time::timeout(within, others).await.expect("nothing is held up");
            assert!(unread.file.metadata().unwrap().len() > 4 << 20, "and the first is whole");
        });
        assert_eq!(left_in(folder.path()), 0, "both are removed");
    }
}
