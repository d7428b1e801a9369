//! Authentication: identities, credentials, and the chain of authenticators.

mod impersonation;
mod origin;
pub mod serviceaccount;
mod token;

use std::{collections::BTreeMap, fmt, sync::Arc};

use http::{HeaderMap, header::AUTHORIZATION};

pub(crate) use self::impersonation::impersonate;
pub use self::{
    origin::{Refusal, check_origin},
    token::{Token, Tokens},
};
use crate::tls::Holder;

/// The group of administrators, whose members may do everything.
pub const MASTERS: &str = "system:masters";
/// The group of all authenticated users.
pub const AUTHENTICATED: &str = "system:authenticated";
/// The user of the first context in the daemon's kubeconfig, a member of [`MASTERS`].
pub const ADMIN: &str = "system-admin";
/// The user of the second context, who is a member of no other group than [`AUTHENTICATED`].
pub const USER: &str = "user";

/// An authenticated user: the `UserInfo` of Kubernetes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    user: String,
    groups: Vec<String>,
    uid: String,
    extra: BTreeMap<String, Vec<String>>,
}

impl Identity {
    /// A user with these groups, and [`AUTHENTICATED`] if it is not among them.
    pub fn new(user: impl Into<String>, groups: impl IntoIterator<Item = String>) -> Self {
        let mut groups: Vec<String> = groups.into_iter().collect();
        if !groups.iter().any(|group| group == AUTHENTICATED) {
            groups.push(AUTHENTICATED.to_owned());
        }
        Self { user: user.into(), groups, uid: String::new(), extra: BTreeMap::new() }
    }

    /// Sets the uid, and the extra fields that the authenticator provides.
    #[must_use]
    pub fn with(mut self, uid: &str, extra: BTreeMap<String, Vec<String>>) -> Self {
        uid.clone_into(&mut self.uid);
        self.extra = extra;
        self
    }

    /// The user [`ADMIN`], a member of [`MASTERS`].
    pub fn admin() -> Self {
        Self::new(ADMIN, [MASTERS.to_owned()])
    }

    /// The user [`USER`], a member of no other group than [`AUTHENTICATED`].
    pub fn user() -> Self {
        Self::new(USER, [])
    }

    /// The user name.
    pub fn name(&self) -> &str {
        &self.user
    }

    /// The groups, including [`AUTHENTICATED`] unless the user is impersonated.
    pub fn groups(&self) -> &[String] {
        &self.groups
    }

    /// The uid, which distinguishes users of the same name over time; empty if the authenticator provides none.
    pub fn uid(&self) -> &str {
        &self.uid
    }

    /// The extra fields that the authenticator provides.
    pub fn extra(&self) -> &BTreeMap<String, Vec<String>> {
        &self.extra
    }

    /// The identity as a `UserInfo` of `authentication.k8s.io`, without empty fields.
    pub fn user_info(&self) -> serde_json::Value {
        let mut info = serde_json::json!({"username": self.user, "groups": self.groups});
        if !self.uid.is_empty() {
            info["uid"] = self.uid.as_str().into();
        }
        if !self.extra.is_empty() {
            info["extra"] = serde_json::json!(self.extra);
        }
        info
    }

    /// Whether the user is a member of [`MASTERS`].
    pub fn is_master(&self) -> bool {
        self.groups.iter().any(|group| group == MASTERS)
    }
}

impl From<Holder> for Identity {
    fn from(holder: Holder) -> Self {
        Self::new(holder.user, holder.groups)
    }
}

/// The credentials of a request. Tokens in a URL are never accepted. A token among the subprotocols of a WebSocket counts as the
/// bearer token, because a browser cannot set headers there.
#[derive(Clone, Copy)]
pub struct Credentials<'a> {
    /// The identity in the client certificate, if there is one. TLS has verified that our authority signed it.
    pub certificate: Option<&'a Arc<Identity>>,
    /// The bearer token, if there is one.
    pub bearer: Option<&'a str>,
}

impl fmt::Debug for Credentials<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bearer = self.bearer.map(|_| "***");
        f.debug_struct("Credentials").field("certificate", &self.certificate).field("bearer", &bearer).finish()
    }
}

/// One method of authentication.
///
/// Authenticators run on the threads that serve requests, so they must return quickly and must not block.
pub trait Authenticator: Send + Sync {
    /// Returns the identity, or `None` if this method does not know the credentials; then the next authenticator is tried.
    fn authenticate(&self, credentials: &Credentials<'_>) -> Option<Arc<Identity>>;
}

/// Authenticates by client certificates.
#[derive(Debug)]
pub struct ClientCertificates;

impl Authenticator for ClientCertificates {
    fn authenticate(&self, credentials: &Credentials<'_>) -> Option<Arc<Identity>> {
        credentials.certificate.cloned()
    }
}

/// A chain of authenticators, tried in order.
pub struct Authenticators(Vec<Box<dyn Authenticator>>);

impl fmt::Debug for Authenticators {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Authenticators({})", self.0.len())
    }
}

impl Authenticators {
    /// The chain of the daemon: client certificates, then these tokens.
    pub fn standard(tokens: Tokens) -> Self {
        Self(vec![Box::new(ClientCertificates), Box::new(tokens)])
    }

    /// Appends an authenticator to the chain.
    #[must_use]
    pub fn then(mut self, authenticator: impl Authenticator + 'static) -> Self {
        self.0.push(Box::new(authenticator));
        self
    }

    /// Returns the first identity that an authenticator finds. `None` means that the request is unauthenticated.
    pub fn authenticate(&self, credentials: &Credentials<'_>) -> Option<Arc<Identity>> {
        self.0.iter().find_map(|authenticator| authenticator.authenticate(credentials))
    }
}

/// The authentication scheme, in lower case, with the space before the token.
const SCHEME: &[u8] = b"bearer ";

/// The token of an `Authorization: Bearer …` header. `None` if there are several such headers, because choosing one would be a
/// guess.
pub(crate) fn bearer(headers: &HeaderMap) -> Option<&str> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let (Some(value), None) = (values.next(), values.next()) else { return None };
    let (scheme, token) = value.as_bytes().trim_ascii().split_at_checked(SCHEME.len())?;
    let token = token.trim_ascii_start();
    let is_one = scheme.eq_ignore_ascii_case(SCHEME) && !token.is_empty() && token.iter().all(u8::is_ascii_graphic);
    std::str::from_utf8(token).ok().filter(|_| is_one)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bearer_of(values: &[&str]) -> Option<String> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(AUTHORIZATION, http::HeaderValue::from_bytes(value.as_bytes()).unwrap());
        }
        bearer(&headers).map(str::to_owned)
    }

    #[test]
    fn only_one_well_formed_bearer_header_is_a_credential() {
        let found = Some("abc".to_owned());
        assert_eq!(bearer_of(&["Bearer abc"]), found);
        assert_eq!(bearer_of(&["bearer   abc "]), found);
        for values in [
            &["Basic abc"][..],
            &["Bearer"],
            &["Bearer "],
            &["Bearer a b"],
            &["Bearerabc"],
            &["Bearer \u{e4}"],
            &["abc"],
            &[],
            &["Bearer abc"; 2],
        ] {
            assert_eq!(bearer_of(values), None, "{values:?}");
        }
    }

    #[test]
    fn everyone_known_is_authenticated_exactly_once() {
        assert_eq!(Identity::admin().groups(), [MASTERS, AUTHENTICATED]);
        assert_eq!(Identity::user().groups(), [AUTHENTICATED]);
        assert_eq!(Identity::new("x", [AUTHENTICATED.to_owned()]).groups(), [AUTHENTICATED]);
        assert!(Identity::admin().is_master() && !Identity::user().is_master());
    }

    #[test]
    fn a_certificate_counts_before_a_token() {
        let token = Token::random();
        let authenticators = Authenticators::standard(Tokens::new([(token.clone(), Identity::user())]));
        let holder = Arc::new(Identity::new("holder", []));
        let who = |certificate, bearer| {
            let identity = authenticators.authenticate(&Credentials { certificate, bearer });
            identity.map(|identity| identity.name().to_owned())
        };
        assert_eq!(who(Some(&holder), Some(token.reveal())).as_deref(), Some("holder"));
        assert_eq!(who(None, Some(token.reveal())).as_deref(), Some(USER));
        assert_eq!(who(None, Some("wrong")), None);
        assert_eq!(who(None, None), None);
    }

    #[test]
    fn credentials_do_not_print_the_token() {
        let credentials = Credentials { certificate: None, bearer: Some("secret") };
        assert!(!format!("{credentials:?}").contains("secret"));
    }
}
