//! Bounded fan-out of committed batches: the hub cuts off a slow subscriber, and the writer never waits.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use tokio::sync::mpsc::{self, error::TrySendError};

use crate::Batch;

/// The live subscribers of one store. The writer owns it.
#[derive(Debug)]
pub(crate) struct Hub {
    subscribers: Vec<mpsc::Sender<Arc<Batch>>>,
    queue_batches: usize,
    closed: Arc<AtomicBool>,
    lagged: u64,
}

/// A subscriber's receiving end.
#[derive(Debug)]
pub(crate) struct Tail {
    pub(crate) receiver: mpsc::Receiver<Arc<Batch>>,
    closed: Arc<AtomicBool>,
}

impl Tail {
    /// Whether the stream ended because the store was closed; otherwise the hub cut the subscriber off.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }
}

impl Hub {
    /// A hub whose subscribers may lag by at most `queue_batches` batches.
    pub(crate) fn new(queue_batches: usize) -> Self {
        Self { subscribers: Vec::new(), queue_batches: queue_batches.max(1), closed: Arc::default(), lagged: 0 }
    }

    /// Adds a subscriber, which receives everything published from now on.
    pub(crate) fn join(&mut self) -> Tail {
        let (sender, receiver) = mpsc::channel(self.queue_batches);
        self.subscribers.push(sender);
        Tail { receiver, closed: Arc::clone(&self.closed) }
    }

    /// Sends a batch to every subscriber. It drops a subscriber whose queue is full; that one still receives what its queue
    /// holds.
    pub(crate) fn publish(&mut self, batch: &Arc<Batch>) {
        self.subscribers.retain(|subscriber| match subscriber.try_send(Arc::clone(batch)) {
            Ok(()) => true,
            Err(TrySendError::Closed(_)) => false,
            Err(TrySendError::Full(_)) => {
                self.lagged += 1;
                false
            }
        });
    }

    /// Sends a bookmark to every subscriber whose queue has room. A full queue already ends with a batch of the newest revision,
    /// so the bookmark would add nothing.
    pub(crate) fn notify(&mut self, batch: &Arc<Batch>) {
        self.subscribers.retain(|subscriber| match subscriber.try_send(Arc::clone(batch)) {
            Ok(()) | Err(TrySendError::Full(_)) => true,
            Err(TrySendError::Closed(_)) => false,
        });
    }

    pub(crate) fn len(&self) -> u64 {
        self.subscribers.len() as u64
    }

    pub(crate) fn lagged(&self) -> u64 {
        self.lagged
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        self.closed.store(true, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Revision;

    fn batch(revision: u64) -> Arc<Batch> {
        Arc::new(Batch { revision: Revision(revision), events: Vec::new() })
    }

    fn drain(tail: &mut Tail) -> Vec<u64> {
        std::iter::from_fn(|| tail.receiver.blocking_recv()).map(|batch| batch.revision.0).collect()
    }

    #[test]
    fn who_is_full_is_cut_off_after_what_it_holds_and_others_go_on() {
        let mut hub = Hub::new(2);
        let (mut slow, mut fast) = (hub.join(), hub.join());
        let mut seen = Vec::new();
        for revision in 1..=4 {
            hub.publish(&batch(revision));
            seen.push(fast.receiver.try_recv().unwrap().revision.0);
        }
        assert_eq!((seen, hub.lagged(), hub.len()), (vec![1, 2, 3, 4], 1, 1));
        assert_eq!(drain(&mut slow), [1, 2]);
        assert!(!slow.is_closed());
        drop(hub);
        assert_eq!(drain(&mut fast), [] as [u64; 0]);
        assert!(fast.is_closed());
    }

    #[test]
    fn a_notice_never_cuts_anyone_off() {
        let mut hub = Hub::new(1);
        let mut tail = hub.join();
        hub.publish(&batch(1));
        hub.notify(&batch(1));
        assert_eq!(hub.len(), 1);
        drop(hub);
        assert_eq!(drain(&mut tail), [1]);
    }
}
