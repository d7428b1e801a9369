//! Webhooks of the daemon's own manager: the API server calls them as functions.

use std::{any::Any, sync::Arc};

use futures::future::BoxFuture;

use super::{Answer, Hooks, Reachable};
use crate::Error;

/// Registers a function for a URL with the API server; dropping the returned guard unregisters it.
pub type Register = Arc<dyn Fn(&str, Answer) -> Box<dyn Any + Send + Sync> + Send + Sync>;

/// Serves webhooks inside the process of the API server.
///
/// The server looks up a webhook's URL among the registered functions before it uses the network; nothing listens on that address. The
/// address does not depend on free ports, so webhook configurations of an earlier run work as soon as the functions are registered.
#[derive(Clone)]
pub struct Local {
    /// The base of the URLs, as in `https://127.0.0.1:9443`.
    pub base: String,
    /// The CA in the webhook configurations, so that the server trusts no other listener at that address.
    pub ca_bundle: String,
    /// Registers a function with the API server.
    pub register: Register,
}

impl std::fmt::Debug for Local {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Local").field("base", &self.base).finish_non_exhaustive()
    }
}

impl Hooks for Local {
    fn serve(&self, hooks: Vec<(String, Answer)>) -> BoxFuture<'_, Result<Reachable, Error>> {
        let register = |(path, answer): (String, Answer)| (self.register)(&format!("{}{path}", self.base), answer);
        let held: Vec<_> = hooks.into_iter().map(register).collect();
        let reachable =
            Reachable { base: self.base.clone(), ca_bundle: self.ca_bundle.clone(), held: Box::new(Held(held)) };
        Box::pin(async move { Ok(reachable) })
    }
}

/// Keeps the registrations until it is dropped.
struct Held(#[expect(dead_code, reason = "held, not read: dropping them unregisters")] Vec<Box<dyn Any + Send + Sync>>);
