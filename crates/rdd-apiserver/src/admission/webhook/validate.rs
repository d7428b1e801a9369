//! Webhooks that only agree or refuse: all at once.

use std::{
    future::{Future, poll_fn},
    pin::Pin,
    sync::Arc,
    task::Poll,
};

use rdd_meta::Status;
use tokio::time::Instant;

use super::{
    super::Attributes,
    call::{Caller, Role},
    choose::Chooser,
    hook::Hook,
    problem, timed_out,
    version::Naming,
};

/// Asks all webhooks at the same time and waits for all of them. Of several refusals the one of the first webhook in order is
/// told; upstream tells whichever came first.
pub(super) async fn run(
    caller: &Caller,
    chooser: &Chooser<'_>,
    hooks: &[Arc<Hook>],
    attributes: &Attributes<'_>,
) -> Result<(), Status> {
    let mut asked = Vec::new();
    for hook in hooks {
        if let Some(naming) = chooser.naming(hook, attributes)? {
            asked.push((hook, naming));
        }
    }
    if asked.is_empty() {
        return Ok(());
    }
    if Instant::now() >= attributes.deadline {
        return Err(timed_out());
    }
    let asking = asked.iter().map(|(hook, naming)| Box::pin(ask(caller, hook, attributes, naming)) as Asking<'_>);
    all(asking.collect()).await.into_iter().collect()
}

type Asking<'f> = Pin<Box<dyn Future<Output = Result<(), Status>> + Send + 'f>>;

async fn ask(caller: &Caller, hook: &Hook, attributes: &Attributes<'_>, naming: &Naming) -> Result<(), Status> {
    let object = attributes.object.as_ref().map(|object| naming.show(object));
    let old = attributes.old.as_deref().map(|object| naming.show(object));
    match caller.ask(hook, Role::Validating, attributes, naming, (object, old)).await {
        Ok(_) => Ok(()),
        Err(problem) => problem::conclude(hook, problem).map_or(Ok(()), Err),
    }
}

/// Waits for all, and gives what came of each, in order.
async fn all(mut futures: Vec<Asking<'_>>) -> Vec<Result<(), Status>> {
    let mut outcomes: Vec<Option<Result<(), Status>>> = futures.iter().map(|_| None).collect();
    poll_fn(|context| {
        for (future, outcome) in futures.iter_mut().zip(&mut outcomes) {
            if outcome.is_none()
                && let Poll::Ready(ready) = future.as_mut().poll(context)
            {
                *outcome = Some(ready);
            }
        }
        if outcomes.iter().all(Option::is_some) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    outcomes.into_iter().flatten().collect()
}
