//! How webhooks are served: as functions inside the API server's process, or over HTTPS from a separate process.

pub mod certificates;
mod https;
mod local;

use std::{any::Any, fmt, sync::Arc};

use futures::future::BoxFuture;
use serde_json::Value;

pub use self::{
    https::Https,
    local::{Local, Register},
};
use crate::{
    Error,
    admission::{Webhook, answer},
};

/// A function that answers an AdmissionReview with an AdmissionReview.
pub type Answer = Arc<dyn Fn(Value) -> BoxFuture<'static, Value> + Send + Sync>;

/// Serves the webhooks of a manager.
pub trait Hooks: Send + Sync {
    /// Serves these webhooks, each under its path, until the returned [`Reachable`] is dropped.
    fn serve(&self, hooks: Vec<(String, Answer)>) -> BoxFuture<'_, Result<Reachable, Error>>;
}

/// The address of served webhooks. Dropping it stops serving them.
pub struct Reachable {
    /// The base URL, which the paths follow, as in `https://127.0.0.1:9443`.
    pub base: String,
    /// The CA certificate of that address, in PEM.
    pub ca_bundle: String,
    /// The guard of the registration or the listener.
    pub held: Box<dyn Any + Send + Sync>,
}

impl fmt::Debug for Reachable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reachable").field("base", &self.base).finish_non_exhaustive()
    }
}

impl Reachable {
    /// An address without a guard, for webhooks that something else serves.
    pub fn at(base: impl Into<String>, ca_bundle: impl Into<String>) -> Self {
        Self { base: base.into(), ca_bundle: ca_bundle.into(), held: Box::new(()) }
    }
}

/// The path of a webhook and the function that answers it.
pub(crate) fn answering(webhook: &Webhook) -> (String, Answer) {
    let handler = Arc::clone(&webhook.handler);
    let answering: Answer = Arc::new(move |review| {
        let handler = Arc::clone(&handler);
        Box::pin(async move { answer(&*handler, review).await })
    });
    (webhook.path(), answering)
}
