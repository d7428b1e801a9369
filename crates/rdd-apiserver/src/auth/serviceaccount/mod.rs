//! Service account tokens: signing them on request and authenticating by them.
//!
//! A token is a JWT that a key of the instance signs with ES256. It is valid until it expires, as long as its account, and the
//! Secret that it is bound to, if any, exist with the same uid.

mod claims;
mod key;
mod openid;
mod request;

use std::{
    fmt,
    sync::{Arc, OnceLock},
};

use rdd_stdx::clock::SharedClock;

pub use self::{
    key::{Error, FILE, SigningKey},
    openid::OpenId,
};
use super::{Authenticator, Credentials, Identity};
use crate::{
    builtin::{Reviewed, TokenReviewer},
    state::{Resource, State},
};
use claims::{Claims, LEEWAY_SECONDS};

/// The issuer in tokens, which is also the audience of tokens for this server.
pub const ISSUER: &str = "https://rdd.default.svc";

/// The facts about an object that a token refers to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known {
    /// The object's uid.
    pub uid: String,
    /// The deletion timestamp, in seconds since the epoch.
    pub deleted: Option<i64>,
}

/// A function that looks up an object of the core API by resource, namespace and name.
pub type Lookup = dyn Fn(&str, &str, &str) -> Option<Known> + Send + Sync;

/// Signs and verifies the tokens of service accounts.
pub struct ServiceAccounts {
    key: SigningKey,
    clock: SharedClock,
    lookup: OnceLock<Box<Lookup>>,
}

impl fmt::Debug for ServiceAccounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServiceAccounts").field("key", &self.key).finish_non_exhaustive()
    }
}

impl ServiceAccounts {
    /// Creates an issuer with this key. It rejects all tokens until [`look_up_in`](Self::look_up_in) connects it to the state,
    /// which exists only later.
    pub fn new(key: SigningKey, clock: SharedClock) -> Self {
        Self { key, clock, lookup: OnceLock::new() }
    }

    /// Uses the state to look up accounts and Secrets. Only the first call has an effect.
    pub fn look_up_in(&self, state: Arc<State>) {
        self.look_up_by(Box::new(move |plural, namespace, name| known(&state, plural, namespace, name)));
    }

    /// Uses this function to look up accounts and Secrets. Only the first call has an effect.
    pub fn look_up_by(&self, lookup: Box<Lookup>) {
        // A later call would connect a second state, and a server has one.
        let _ = self.lookup.set(lookup);
    }

    /// Returns the reviewer for TokenReviews. It asks `others` first, whose tokens are valid for this server's audience only,
    /// then the service accounts.
    pub fn reviewer(self: &Arc<Self>, others: impl Authenticator + 'static) -> TokenReviewer {
        let accounts = Arc::clone(self);
        TokenReviewer::new(move |token, audiences| {
            let is_asked = audiences.is_empty() || audiences.iter().any(|audience| audience == ISSUER);
            let credentials = Credentials { certificate: None, bearer: Some(token) };
            let identity = others.authenticate(&credentials).filter(|_| is_asked);
            let known = identity.map(|identity| Reviewed { identity, audiences: vec![ISSUER.to_owned()] });
            known.or_else(|| accounts.review(token, audiences))
        })
    }

    /// Authenticates a token. Returns the identity and the audiences that the token and the request have in common; no requested
    /// audiences means this server's. `None` if the token is invalid.
    pub fn review(&self, token: &str, audiences: &[String]) -> Option<Reviewed> {
        let claims = Claims::parse(&self.key.verify(token)?)?;
        let own = [ISSUER.to_owned()];
        let asked = if audiences.is_empty() { &own[..] } else { audiences };
        let audiences: Vec<String> = claims.audiences.iter().filter(|name| asked.contains(name)).cloned().collect();
        let now = self.now_seconds();
        let good = claims.issuer == ISSUER && claims.is_current(now) && !audiences.is_empty();
        if !good || !self.exists(&claims, now) {
            return None;
        }
        Some(Reviewed { identity: Arc::new(claims.identity()), audiences })
    }

    /// Whether the account, and the Secret if the token is bound to one, still exist with the uid in the token.
    fn exists(&self, claims: &Claims, now: i64) -> bool {
        let is_there = |plural: &str, name: &str, uid: &str| {
            let known = self.find(plural, &claims.namespace, name);
            // As upstream, an object that is being deleted keeps its tokens valid for the leeway.
            let lives = |known: &Known| known.deleted.is_none_or(|deleted| deleted >= now - LEEWAY_SECONDS);
            known.is_some_and(|known| known.uid == uid && lives(&known))
        };
        let (name, uid) = &claims.account;
        is_there("serviceaccounts", name, uid)
            && claims.secret.as_ref().is_none_or(|(name, uid)| is_there("secrets", name, uid))
    }

    fn find(&self, plural: &str, namespace: &str, name: &str) -> Option<Known> {
        self.lookup.get()?(plural, namespace, name)
    }

    fn now_seconds(&self) -> i64 {
        i64::try_from(self.clock.wall().as_secs()).unwrap_or(i64::MAX)
    }
}

impl Authenticator for Arc<ServiceAccounts> {
    fn authenticate(&self, credentials: &Credentials<'_>) -> Option<Arc<Identity>> {
        self.review(credentials.bearer?, &[]).map(|reviewed| reviewed.identity)
    }
}

fn known(state: &State, plural: &str, namespace: &str, name: &str) -> Option<Known> {
    let key = Resource::new("", plural).ok()?.key(Some(namespace), name).ok()?;
    let object = state.get(&key)?;
    let read: serde_json::Value = serde_json::from_slice(object.wire()).ok()?;
    let deleted = rdd_meta::metadata::Metadata::of(&read).deletion_timestamp();
    Some(Known { uid: object.uid()?.to_owned(), deleted: deleted.map(|time| time.seconds()) })
}

#[cfg(test)]
mod tests;
