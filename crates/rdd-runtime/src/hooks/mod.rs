//! Where webhooks are answered: in the server's own process, or over HTTPS from another.

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

/// Answers one AdmissionReview with another.
pub type Answer = Arc<dyn Fn(Value) -> BoxFuture<'static, Value> + Send + Sync>;

/// Makes webhooks reachable.
pub trait Hooks: Send + Sync {
    /// Makes these reachable, each below its path.
    fn serve(&self, hooks: Vec<(String, Answer)>) -> BoxFuture<'_, Result<Reachable, Error>>;
}

/// Where webhooks are reachable, for as long as this lives.
pub struct Reachable {
    /// What stands before each path, as in `https://127.0.0.1:9443`.
    pub base: String,
    /// Whom to trust there, in PEM.
    pub ca_bundle: String,
    /// Dropped with this: the registration or the listener.
    pub held: Box<dyn Any + Send + Sync>,
}

impl fmt::Debug for Reachable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reachable").field("base", &self.base).finish_non_exhaustive()
    }
}

impl Reachable {
    /// At this address, whoever answers there.
    pub fn at(base: impl Into<String>, ca_bundle: impl Into<String>) -> Self {
        Self { base: base.into(), ca_bundle: ca_bundle.into(), held: Box::new(()) }
    }
}

/// The path of a webhook, and what answers there.
pub(crate) fn answering(webhook: &Webhook) -> (String, Answer) {
    let handler = Arc::clone(&webhook.handler);
    let answering: Answer = Arc::new(move |review| {
        let handler = Arc::clone(&handler);
        Box::pin(async move { answer(&*handler, review).await })
    });
    (webhook.path(), answering)
}
