//! The bounded queue between callers and the writer, drained in batches.

use std::{
    collections::VecDeque,
    path::PathBuf,
    sync::{Condvar, Mutex, MutexGuard},
    time::Duration,
};

use crate::{Entry, Error, Load, Revision, Subscription, Txn, reader::Piece, reply::Answer};

/// A caller's request to the writer, with the channel for its reply.
#[derive(Debug)]
pub(crate) enum Request {
    Commit { txn: Txn, answer: Answer<Revision> },
    Get { key: String, answer: Answer<Option<Entry>> },
    Events { after: Revision, answer: Answer<Subscription> },
    PullEvents { after: Revision, answer: Answer<Piece> },
    Load { answer: Answer<Load> },
    PullEntries { load: u64, answer: Answer<Vec<Entry>> },
    EndLoad { load: u64 },
    Compact { upto: Revision, answer: Answer<Revision> },
    Progress { answer: Answer<Revision> },
    Backup { target: PathBuf, answer: Answer<Revision> },
    Close { answer: Option<Answer<()>> },
}

impl Request {
    fn bytes(&self) -> usize {
        match self {
            Self::Commit { txn, .. } => txn.bytes(),
            _ => 0,
        }
    }

    /// Whether the request is accepted although the queue is full: requests that free something, or that continue what was
    /// accepted before. Each reader has at most one of them in flight, so their number is bounded.
    fn must_pass(&self) -> bool {
        matches!(self, Self::PullEvents { .. } | Self::PullEntries { .. } | Self::EndLoad { .. } | Self::Close { .. })
    }
}

/// How long the writer waits for a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wait {
    /// Return at once.
    No,
    /// Wait at most this long.
    AtMost(Duration),
    /// Wait until a request arrives.
    Forever,
}

/// The request queue, bounded by count and by bytes. When it is full, it refuses requests with [`Error::Overloaded`].
#[derive(Debug)]
pub(crate) struct Queue {
    state: Mutex<State>,
    arrived: Condvar,
    requests_max: usize,
    bytes_max: usize,
}

#[derive(Debug, Default)]
struct State {
    requests: VecDeque<Request>,
    bytes: usize,
    closed: bool,
    waiting: bool,
}

impl Queue {
    pub(crate) fn new(requests_max: usize, bytes_max: usize) -> Self {
        Self { state: Mutex::default(), arrived: Condvar::new(), requests_max, bytes_max }
    }

    /// Enqueues a request.
    ///
    /// # Errors
    /// [`Error::Closed`] after [`close`](Self::close), [`Error::Overloaded`] when the queue is full.
    pub(crate) fn push(&self, request: Request) -> Result<(), Error> {
        let mut state = self.lock();
        if state.closed {
            return Err(Error::Closed);
        }
        let full = state.requests.len() >= self.requests_max || state.bytes >= self.bytes_max;
        if full && !request.must_pass() {
            return Err(Error::Overloaded);
        }
        state.bytes += request.bytes();
        state.requests.push_back(request);
        // Notify only a waiting writer: most pushes find it busy and need no system call.
        if state.waiting {
            state.waiting = false;
            drop(state);
            self.arrived.notify_one();
        }
        Ok(())
    }

    /// Takes the waiting requests: at most `requests_max`, and none after the one that reaches `bytes_max`.
    pub(crate) fn take(&self, wait: Wait, requests_max: usize, bytes_max: usize) -> Vec<Request> {
        let mut state = self.lock();
        if state.requests.is_empty() && wait != Wait::No {
            state.waiting = true;
            state = match wait {
                Wait::AtMost(time) => {
                    let waited = self.arrived.wait_timeout_while(state, time, |state| state.requests.is_empty());
                    waited.expect("nothing panics while holding the queue").0
                }
                _ => {
                    let waited = self.arrived.wait_while(state, |state| state.requests.is_empty());
                    waited.expect("nothing panics while holding the queue")
                }
            };
            state.waiting = false;
        }
        let mut taken = Vec::with_capacity(state.requests.len().min(requests_max));
        let mut bytes = 0;
        while taken.len() < requests_max && bytes < bytes_max {
            let Some(request) = state.requests.pop_front() else { break };
            bytes += request.bytes();
            taken.push(request);
        }
        state.bytes -= bytes;
        taken
    }

    /// Refuses all further requests and drops the waiting ones, whose callers get [`Error::Closed`].
    pub(crate) fn close(&self) {
        let dropped = {
            let mut state = self.lock();
            state.closed = true;
            state.bytes = 0;
            std::mem::take(&mut state.requests)
        };
        // Outside the lock: dropping a request replies to its caller.
        drop(dropped);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics while holding the queue")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Expect, Reply};

    fn commit(value: &'static str) -> (Request, Reply<Revision>) {
        let (answer, reply) = Reply::pair();
        (Request::Commit { txn: Txn::put("k", Expect::Any, value), answer }, reply)
    }

    #[test]
    fn a_full_queue_refuses_and_a_closed_one_answers_what_it_held() {
        let queue = Queue::new(2, 1_000);
        let (first, reply) = commit("1");
        queue.push(first).unwrap();
        queue.push(commit("2").0).unwrap();
        assert!(matches!(queue.push(commit("3").0), Err(Error::Overloaded)));
        queue.push(Request::EndLoad { load: 1 }).unwrap();
        queue.close();
        assert!(matches!(reply.wait(), Err(Error::Closed)));
        assert!(matches!(queue.push(commit("4").0), Err(Error::Closed)));
    }

    #[test]
    fn bytes_bound_the_queue_and_the_batch() {
        let queue = Queue::new(100, 10);
        for _ in 0..2 {
            queue.push(commit("12345678").0).unwrap();
        }
        assert!(matches!(queue.push(commit("x").0), Err(Error::Overloaded)), "18 bytes are waiting");
        assert_eq!(queue.take(Wait::No, 100, 9).len(), 1);
        queue.push(commit("x").0).unwrap();
        assert_eq!(queue.take(Wait::No, 100, 1_000).len(), 2);
        assert_eq!(queue.take(Wait::AtMost(Duration::from_millis(1)), 1, 1).len(), 0);
    }
}
