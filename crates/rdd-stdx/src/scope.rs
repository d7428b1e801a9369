//! The subject of a task, which the log appends to each of the task's lines.
//!
//! It replaces a `tracing` span, whose fields are stored when the span begins. Requests to the API server rarely log a
//! line, so here the properties are read only when a line is written.

use std::{
    cell::RefCell,
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use pin_project_lite::pin_project;

/// The subject of a task.
pub trait Subject: Send + Sync {
    /// Calls `each` with the name and value of every property.
    fn tell(&self, each: &mut dyn FnMut(&'static str, &str));
}

thread_local! {
    static CURRENT: RefCell<Option<Arc<dyn Subject>>> = const { RefCell::new(None) };
}

/// Calls `each` with the properties of the current thread's subject; does nothing if there is none.
pub fn tell_current(each: &mut dyn FnMut(&'static str, &str)) {
    let current = CURRENT.with_borrow(Clone::clone);
    if let Some(subject) = current {
        subject.tell(each);
    }
}

/// Runs a function with this subject.
pub fn within<T>(subject: &Arc<dyn Subject>, work: impl FnOnce() -> T) -> T {
    let _restored = Restore(CURRENT.replace(Some(Arc::clone(subject))));
    work()
}

/// Restores the previous subject on drop, also after a panic.
struct Restore(Option<Arc<dyn Subject>>);

impl Drop for Restore {
    fn drop(&mut self) {
        CURRENT.set(self.0.take());
    }
}

pin_project! {
    /// A future that is polled with a subject.
    #[must_use = "futures do nothing unless polled"]
    pub struct About<F> {
        subject: Arc<dyn Subject>,
        #[pin]
        work: F,
    }
}

impl<F> fmt::Debug for About<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("About")
    }
}

/// Wraps a future so that it is polled with this subject.
pub fn about<F: Future>(subject: Arc<dyn Subject>, work: F) -> About<F> {
    About { subject, work }
}

impl<F: Future> Future for About<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        within(this.subject, || this.work.poll(context))
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    struct Named(&'static str);

    impl Subject for Named {
        fn tell(&self, each: &mut dyn FnMut(&'static str, &str)) {
            each("name", self.0);
        }
    }

    fn named(name: &'static str) -> Arc<dyn Subject> {
        Arc::new(Named(name))
    }

    fn current() -> Vec<String> {
        let mut told = Vec::new();
        tell_current(&mut |key, value| told.push(format!("{key}={value}")));
        told
    }

    #[test]
    fn the_innermost_subject_counts_and_the_outer_one_comes_back() {
        within(&named("outer"), || {
            within(&named("inner"), || assert_eq!(current(), ["name=inner"]));
            assert_eq!(current(), ["name=outer"]);
        });
        assert!(current().is_empty());
    }

    #[test]
    fn a_panic_leaves_no_subject_behind() {
        let panicked = catch_unwind(AssertUnwindSafe(|| within(&named("a"), || panic!("no luck"))));
        assert!(panicked.is_err() && current().is_empty());
    }

    #[tokio::test]
    async fn a_task_is_about_its_own_subject_between_others() {
        let task = |name| {
            about(named(name), async move {
                for _ in 0..3 {
                    assert_eq!(current(), [format!("name={name}")]);
                    tokio::task::yield_now().await;
                }
            })
        };
        tokio::join!(task("a"), task("b"));
        assert!(current().is_empty());
    }
}
