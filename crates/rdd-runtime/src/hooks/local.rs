//! Webhooks that the API server calls as functions, because it is in the same process.

use std::{any::Any, sync::Arc};

use futures::future::BoxFuture;

use super::{Answer, Hooks, Reachable};
use crate::Error;

/// Registers what answers a URL, for as long as the returned value lives.
pub type Register = Arc<dyn Fn(&str, Answer) -> Box<dyn Any + Send + Sync> + Send + Sync>;

/// Webhooks of this process.
///
/// Their address is a name that the server looks up before it uses the network; nothing listens there. It does not depend on what
/// was free at the start, so configurations of an earlier run are answered from the first moment on.
#[derive(Clone)]
pub struct Local {
    /// As in `https://127.0.0.1:9443`.
    pub base: String,
    /// Whom to trust there: whoever else listens at that address must not be believed.
    pub ca_bundle: String,
    /// Tells the server.
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

/// The registrations.
struct Held(#[expect(dead_code, reason = "held, not read: dropping them unregisters")] Vec<Box<dyn Any + Send + Sync>>);
