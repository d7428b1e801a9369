//! What a task is about, so that every line it logs can say so.
//!
//! This is what a `tracing` span is for; but a span is stored when it begins, for whoever may ask, and a request to the API
//! server is over before anyone does. Here nothing is written down until a line is.

use std::{
    cell::RefCell,
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use pin_project_lite::pin_project;

/// What is being worked on.
pub trait Subject: Send + Sync {
    /// Tells each of its properties by name.
    fn tell(&self, each: &mut dyn FnMut(&'static str, &str));
}

thread_local! {
    static CURRENT: RefCell<Option<Arc<dyn Subject>>> = const { RefCell::new(None) };
}

/// Tells what this thread works on at the moment; nothing if nobody has said.
pub fn tell_current(each: &mut dyn FnMut(&'static str, &str)) {
    let current = CURRENT.with_borrow(Clone::clone);
    if let Some(subject) = current {
        subject.tell(each);
    }
}

/// Does something on behalf of a subject.
pub fn within<T>(subject: &Arc<dyn Subject>, work: impl FnOnce() -> T) -> T {
    let _restored = Restore(CURRENT.replace(Some(Arc::clone(subject))));
    work()
}

/// Puts back who was worked for before, also after a panic.
struct Restore(Option<Arc<dyn Subject>>);

impl Drop for Restore {
    fn drop(&mut self) {
        CURRENT.set(self.0.take());
    }
}

pin_project! {
    /// A future that is polled on behalf of a subject.
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

/// Does the work of a future on behalf of a subject, wherever it is polled.
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
