//! In-process webhooks: functions registered under the address of a service or a URL, called without a network.

use std::{
    collections::HashMap,
    fmt,
    future::Future,
    pin::Pin,
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use rdd_stdx::task::{Failure, Group};
use serde_json::Value;
use tokio::time::timeout;

use super::endpoint::Address;

/// The future of a [`Handler`]: an AdmissionReview with a response.
pub type Reply = Pin<Box<dyn Future<Output = Value> + Send>>;
/// A function that handles an AdmissionReview.
pub type Handler = Arc<dyn Fn(Value) -> Reply + Send + Sync>;

/// The registry of in-process webhooks.
///
/// A webhook whose `clientConfig` names a registered address is called as a function. Everything else is the same:
/// its configuration decides whether it matches, it receives the same review, its response is checked in the same
/// way, the same timeout applies, and its errors have the same texts.
#[derive(Debug, Default)]
pub struct Local {
    handlers: Arc<RwLock<Handlers>>,
}

#[derive(Default)]
struct Handlers {
    by_address: HashMap<Address, (u64, Handler)>,
    count: u64,
}

/// Keeps a handler registered. Dropping it unregisters the handler.
#[derive(Debug)]
#[must_use = "dropping it unregisters the handler"]
pub struct Registration {
    address: Address,
    number: u64,
    handlers: Arc<RwLock<Handlers>>,
}

impl fmt::Debug for Handlers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.by_address.keys()).finish()
    }
}

impl Local {
    /// Registers a handler for a path on a service, for any port. It replaces an earlier one.
    pub fn register(&self, namespace: &str, name: &str, path: &str, handler: Handler) -> Registration {
        self.put(Address::service(namespace, name, path), handler)
    }

    /// Registers a handler for a URL, as written in `clientConfig.url`.
    pub fn register_url(&self, url: &str, handler: Handler) -> Registration {
        self.put(Address::url(url), handler)
    }

    fn put(&self, address: Address, handler: Handler) -> Registration {
        let mut handlers = self.handlers.write().unwrap_or_else(PoisonError::into_inner);
        handlers.count += 1;
        let number = handlers.count;
        handlers.by_address.insert(address.clone(), (number, handler));
        Registration { address, number, handlers: Arc::clone(&self.handlers) }
    }

    /// The handler of an address.
    pub(super) fn get(&self, address: &Address) -> Option<Handler> {
        let handlers = self.handlers.read().unwrap_or_else(PoisonError::into_inner);
        handlers.by_address.get(address).map(|(_, handler)| Arc::clone(handler))
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        let mut handlers = self.handlers.write().unwrap_or_else(PoisonError::into_inner);
        // A later registration of the same address must stay.
        if handlers.by_address.get(&self.address).is_some_and(|(number, _)| *number == self.number) {
            handlers.by_address.remove(&self.address);
        }
    }
}

/// Calls a handler. The error is a text for the client. The handler runs in a task of its own, so that its panic does
/// not reach the caller.
pub(super) async fn call(handler: &Handler, review: Value, time: Duration) -> Result<Value, String> {
    let mut tasks = Group::default();
    let handler = Arc::clone(handler);
    tasks.spawn("answer an admission review", async move { handler(review).await });
    let ended = timeout(time, tasks.next()).await.map_err(|_| "context deadline exceeded".to_owned())?;
    match ended.map(|ended| ended.outcome) {
        Some(Ok(answer)) => Ok(answer),
        Some(Err(Failure::Panicked(why))) => Err(format!("the handler panicked: {why}")),
        Some(Err(Failure::Cancelled)) | None => Err("context canceled".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn says(text: &'static str) -> Handler {
        Arc::new(move |_| Box::pin(async move { json!(text) }))
    }

    async fn ask(local: &Local, address: &Address) -> Option<Value> {
        let handler = local.get(address)?;
        Some(call(&handler, Value::Null, Duration::from_secs(5)).await.unwrap())
    }

    #[tokio::test]
    async fn a_handler_answers_until_its_registration_is_dropped() {
        let local = Local::default();
        let address = Address::service("ns", "hook", "/a");
        let first = local.register("ns", "hook", "a/", says("first"));
        assert_eq!(ask(&local, &address).await, Some(json!("first")));
        let second = local.register("ns", "hook", "/a", says("second"));
        drop(first);
        assert_eq!(ask(&local, &address).await, Some(json!("second")), "the first takes only itself away");
        drop(second);
        assert_eq!(ask(&local, &address).await, None);
        let _url = local.register_url("https://127.0.0.1:9443/x/", says("url"));
        assert_eq!(ask(&local, &Address::url("https://127.0.0.1:9443/x")).await, Some(json!("url")));
    }

    #[tokio::test]
    async fn a_handler_that_panics_or_never_answers_is_told_of() {
        let panics: Handler = Arc::new(|_| Box::pin(async { panic!("no luck") }));
        let answer = call(&panics, Value::Null, Duration::from_secs(5)).await;
        assert_eq!(answer, Err("the handler panicked: no luck".to_owned()));
        let hangs: Handler = Arc::new(|_| Box::pin(std::future::pending()));
        let answer = call(&hangs, Value::Null, Duration::from_millis(1)).await;
        assert_eq!(answer, Err("context deadline exceeded".to_owned()));
    }
}
