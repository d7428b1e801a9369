//! Service accounts: tokens that are signed for them on request, and known again when they are presented.
//!
//! A token is a JWT, signed with ES256 by a key of the instance. It is good as long as it has not expired, its account exists
//! under the same uid, and so does the Secret that it is bound to, if any.

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

/// Who signs, as tokens say it; it is also the audience of tokens for this server.
pub const ISSUER: &str = "https://rdd.default.svc";

/// What is known of an object that a token refers to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known {
    /// Its uid.
    pub uid: String,
    /// When it was marked for deletion, in seconds since the epoch.
    pub deleted: Option<i64>,
}

/// Looks up an object of the core API: plural, namespace, name.
pub type Lookup = dyn Fn(&str, &str, &str) -> Option<Known> + Send + Sync;

/// Signs tokens and knows them again.
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
    /// With this key. It knows nobody until it is told where to [`look`](Self::look_up_in).
    pub fn new(key: SigningKey, clock: SharedClock) -> Self {
        Self { key, clock, lookup: OnceLock::new() }
    }

    /// Looks up accounts and secrets in the state from now on. The first call counts.
    pub fn look_up_in(&self, state: Arc<State>) {
        self.look_up_by(Box::new(move |plural, namespace, name| known(&state, plural, namespace, name)));
    }

    /// Looks them up by this function. The first call counts.
    pub fn look_up_by(&self, lookup: Box<Lookup>) {
        // A second one would be a second state, which there is not.
        let _ = self.lookup.set(lookup);
    }

    /// Answers TokenReviews: by `others`, whose tokens are good for this server alone, then by these accounts.
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

    /// Whom a token stands for, and for which of these audiences; none means this server.
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

    fn exists(&self, claims: &Claims, now: i64) -> bool {
        let is_there = |plural: &str, name: &str, uid: &str| {
            let known = self.find(plural, &claims.namespace, name);
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
