//! Named tasks with an owner, who learns of every end and panic.

use std::{any::Any, collections::HashMap, future::Future};

use tokio::task::{Id, JoinError, JoinSet};

/// The tasks of one owner. Dropping the group cancels them all.
#[derive(Debug)]
pub struct Group<T> {
    running: JoinSet<T>,
    names: HashMap<Id, &'static str>,
}

/// A task that has ended.
#[derive(Debug)]
pub struct Ended<T> {
    /// The task's name.
    pub name: &'static str,
    /// Its result.
    pub outcome: Result<T, Failure>,
}

/// Why a task has no result.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum Failure {
    /// It panicked with this message.
    #[error("task panicked: {0}")]
    Panicked(String),
    /// The owner cancelled it.
    #[error("task was cancelled")]
    Cancelled,
}

impl<T> Default for Group<T> {
    fn default() -> Self {
        Self { running: JoinSet::new(), names: HashMap::new() }
    }
}

impl<T: Send + 'static> Group<T> {
    /// Starts a task. It runs until it ends or panics, or until the group is dropped or [cancelled](Self::cancel).
    pub fn spawn(&mut self, name: &'static str, future: impl Future<Output = T> + Send + 'static) {
        let id = self.running.spawn(future).id();
        // `next` removes the entry; a JoinSet keeps only IDs.
        self.names.insert(id, name);
    }

    /// Waits for the next task to end. `None` if there are no tasks. Every end is returned exactly once.
    pub async fn next(&mut self) -> Option<Ended<T>> {
        let (id, outcome) = match self.running.join_next_with_id().await? {
            Ok((id, value)) => (id, Ok(value)),
            Err(error) => (error.id(), Err(failure(error))),
        };
        Some(Ended { name: self.names.remove(&id).unwrap_or("unnamed"), outcome })
    }

    /// Cancels all tasks at their next await.
    pub fn cancel(&mut self) {
        self.running.abort_all();
    }

    /// The number of tasks whose end was not returned yet.
    pub fn len(&self) -> usize {
        self.running.len()
    }

    /// Whether there are no such tasks.
    pub fn is_empty(&self) -> bool {
        self.running.is_empty()
    }
}

fn failure(error: JoinError) -> Failure {
    match error.try_into_panic() {
        Ok(payload) => Failure::Panicked(panic_message(&*payload)),
        Err(_) => Failure::Cancelled,
    }
}

/// The message of a panic, if it has one.
pub fn panic_message(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_end_a_panic_and_a_cancellation_are_three_events_with_names() {
        let mut group = Group::default();
        group.spawn("fine", async { 7 });
        group.spawn("broken", async { panic!("out of {}", "luck") });
        group.spawn("endless", std::future::pending());
        let mut seen = Vec::new();
        for _ in 0..2 {
            let ended = group.next().await.unwrap();
            seen.push((ended.name, ended.outcome));
        }
        seen.sort_by_key(|(name, _)| *name);
        assert_eq!(seen, [("broken", Err(Failure::Panicked("out of luck".to_owned()))), ("fine", Ok(7))]);
        group.cancel();
        let last = group.next().await.unwrap();
        assert_eq!((last.name, last.outcome), ("endless", Err(Failure::Cancelled)));
        assert!(group.next().await.is_none());
    }
}
