//! User impersonation by the `Impersonate-*` headers: the request continues as the impersonated user.

use std::{collections::BTreeMap, sync::Arc};

use http::{HeaderMap, HeaderName};
use rdd_meta::{GroupResource, Status, names, status::Denied};

use super::{AUTHENTICATED, Identity, MASTERS};

const USER: HeaderName = HeaderName::from_static("impersonate-user");
const GROUP: HeaderName = HeaderName::from_static("impersonate-group");
const UID: HeaderName = HeaderName::from_static("impersonate-uid");
const EXTRA_PREFIX: &str = "impersonate-extra-";
const PREFIX: &str = "impersonate-";

const ANONYMOUS: &str = "system:anonymous";
const UNAUTHENTICATED: &str = "system:unauthenticated";
const SERVICE_ACCOUNT_PREFIX: &str = "system:serviceaccount:";

/// The content of the `Impersonate-*` headers.
#[derive(Debug, Default)]
struct ImpersonationRequest {
    user: String,
    groups: Vec<String>,
    uid: String,
    extra: BTreeMap<String, Vec<String>>,
}

/// Returns the user that a request acts as: the impersonated user if the headers name one, otherwise the sender. Removes the
/// headers.
///
/// Every authenticated user may do everything in this server, and therefore impersonate any user, with one exception: only
/// members of [`MASTERS`] may impersonate a member of it, because the backup of the datastore requires this group.
///
/// # Errors
/// A `Status` to respond with: 400 if the headers name groups, a uid or extra fields but no user, 403 for the exception.
pub(crate) fn impersonate(requestor: Arc<Identity>, headers: &mut HeaderMap) -> Result<Arc<Identity>, Status> {
    if !headers.keys().any(|name| name.as_str().starts_with(PREFIX)) {
        return Ok(requestor);
    }
    let request = ImpersonationRequest::from_headers(headers);
    // A handler that forwards the headers must not impersonate a second time.
    let names: Vec<HeaderName> = headers.keys().filter(|name| name.as_str().starts_with(PREFIX)).cloned().collect();
    for name in names {
        headers.remove(name);
    }
    if request.user.is_empty() {
        return if request.is_empty() { Ok(requestor) } else { Err(request.without_user()) };
    }
    if request.groups.iter().any(|group| group == MASTERS) && !requestor.is_master() {
        return Err(Status::denied(&Denied {
            user: requestor.name(),
            verb: "impersonate",
            resource: &GroupResource::new("", "groups"),
            subresource: "",
            namespace: "",
            name: MASTERS,
            reason: "",
        }));
    }
    tracing::debug!(user = requestor.name(), acts_as = request.user, "impersonation");
    Ok(Arc::new(request.into_identity()))
}

impl ImpersonationRequest {
    fn from_headers(headers: &HeaderMap) -> Self {
        let all = |name: &HeaderName| headers.get_all(name).iter().map(text).collect::<Vec<_>>();
        // User and uid have one value; as upstream, the first header counts.
        let first = |name: &HeaderName| headers.get(name).map(text).unwrap_or_default();
        let mut extra = BTreeMap::<String, Vec<String>>::new();
        for name in headers.keys() {
            if let Some(key) = name.as_str().strip_prefix(EXTRA_PREFIX) {
                extra.entry(unescape(key)).or_default().extend(all(name));
            }
        }
        Self { user: first(&USER), groups: all(&GROUP), uid: first(&UID), extra }
    }

    fn is_empty(&self) -> bool {
        self.groups.is_empty() && self.uid.is_empty() && self.extra.is_empty()
    }

    /// The 400 for attributes without a user. The message prints them as upstream's Go structures.
    fn without_user(&self) -> Status {
        const VERSION: &str = "authentication.k8s.io/v1";
        let groups = self.groups.iter().map(|group| format!("{{Group  {group}    }}"));
        let extra = self.extra.iter().flat_map(|(key, values)| {
            values.iter().map(move |value| format!("{{UserExtra  {value}  {VERSION}  {key}}}"))
        });
        let uid = (!self.uid.is_empty()).then(|| format!("{{UID  {}  {VERSION}  }}", self.uid));
        let requested: Vec<_> = groups.chain(extra).chain(uid).collect();
        Status::bad_request(format!("requested [{}] without impersonating a user", requested.join(" ")))
    }

    /// Completes the groups as upstream does. Without explicit groups, a service account gets the groups of its namespace. A user
    /// who is not anonymous is authenticated, unless the explicit groups already contain one of the two system groups.
    fn into_identity(self) -> Identity {
        let Self { user, mut groups, uid, extra } = self;
        if groups.is_empty()
            && let Some((namespace, _)) = service_account(&user)
        {
            groups = vec!["system:serviceaccounts".to_owned(), format!("system:serviceaccounts:{namespace}")];
        }
        let has = |wanted: &str| groups.iter().any(|group| group == wanted);
        if user == ANONYMOUS {
            if !has(UNAUTHENTICATED) {
                groups.push(UNAUTHENTICATED.to_owned());
            }
        } else if !has(AUTHENTICATED) && !has(UNAUTHENTICATED) {
            groups.push(AUTHENTICATED.to_owned());
        }
        Identity { user, groups, uid, extra }
    }
}

/// Namespace and name of a service account, if this is its user name.
fn service_account(user: &str) -> Option<(&str, &str)> {
    let (namespace, name) = user.strip_prefix(SERVICE_ACCOUNT_PREFIX)?.split_once(':')?;
    (names::is_dns_1123_label(namespace) && names::is_dns_1123_subdomain(name)).then_some((namespace, name))
}

fn text(value: &http::HeaderValue) -> String {
    String::from_utf8_lossy(value.as_bytes()).into_owned()
}

/// Decodes percent escapes in a key; header names cannot have other characters. A key with an invalid escape stays unchanged.
fn unescape(key: &str) -> String {
    let mut bytes = Vec::with_capacity(key.len());
    let mut rest = key.as_bytes();
    while let [first, tail @ ..] = rest {
        rest = tail;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let digits = tail.get(..2).filter(|digits| digits.iter().all(u8::is_ascii_hexdigit));
        let Some(digits) = digits.and_then(|digits| std::str::from_utf8(digits).ok()) else { return key.to_owned() };
        let Ok(byte) = u8::from_str_radix(digits, 16) else { return key.to_owned() };
        bytes.push(byte);
        rest = &tail[2..];
    }
    String::from_utf8(bytes).unwrap_or_else(|_| key.to_owned())
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use serde_json::json;

    use super::*;

    fn mk_headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let pair = |(name, value): &(&'static str, &'static str)| {
            (HeaderName::from_static(name), HeaderValue::from_static(value))
        };
        pairs.iter().map(pair).collect()
    }

    fn acting(requestor: Identity, pairs: &[(&'static str, &'static str)]) -> Result<serde_json::Value, Status> {
        let mut headers = mk_headers(pairs);
        let identity = impersonate(Arc::new(requestor), &mut headers)?;
        assert!(headers.keys().all(|name| !name.as_str().starts_with(PREFIX)), "{headers:?}");
        Ok(identity.user_info())
    }

    // Finding E-18
    #[test]
    fn the_user_is_the_one_whom_the_headers_name() {
        let who = |pairs: &[(&'static str, &'static str)]| acting(Identity::admin(), pairs).unwrap();
        assert_eq!(who(&[("accept", "*/*")]), Identity::admin().user_info());
        assert_eq!(who(&[("impersonate-user", "")]), Identity::admin().user_info());
        assert_eq!(
            who(&[("impersonate-user", "jane")]),
            json!({"username": "jane", "groups": ["system:authenticated"]})
        );
        let full = who(&[
            ("impersonate-user", "jane"),
            ("impersonate-group", "dev"),
            ("impersonate-group", "ops"),
            ("impersonate-uid", "u-1"),
            ("impersonate-extra-scopes", "view"),
            ("impersonate-extra-scopes", "edit"),
            ("impersonate-extra-acme.com%2fproject", "p"),
            ("impersonate-extra-50%", "q"),
        ]);
        assert_eq!(
            full,
            json!({
                "username": "jane", "groups": ["dev", "ops", "system:authenticated"], "uid": "u-1",
                "extra": {"scopes": ["view", "edit"], "acme.com/project": ["p"], "50%": ["q"]},
            })
        );
        let groups = |pairs: &[(&'static str, &'static str)]| who(pairs)["groups"].clone();
        assert_eq!(
            groups(&[("impersonate-user", "system:serviceaccount:n:a")]),
            json!(["system:serviceaccounts", "system:serviceaccounts:n", "system:authenticated"])
        );
        assert_eq!(
            groups(&[("impersonate-user", "system:serviceaccount:n:a"), ("impersonate-group", "g")]),
            json!(["g", "system:authenticated"])
        );
        assert_eq!(groups(&[("impersonate-user", "system:serviceaccount:N:a")]), json!(["system:authenticated"]));
        assert_eq!(groups(&[("impersonate-user", "system:anonymous")]), json!(["system:unauthenticated"]));
        assert_eq!(
            groups(&[("impersonate-user", "x"), ("impersonate-group", "system:unauthenticated")]),
            json!(["system:unauthenticated"])
        );
    }

    // Finding E-18
    #[test]
    fn what_belongs_to_a_user_is_refused_without_one() {
        let refused = acting(
            Identity::admin(),
            &[("impersonate-group", "dev"), ("impersonate-uid", "u"), ("impersonate-extra-a", "b")],
        );
        let refused = refused.unwrap_err();
        let requested =
            "{Group  dev    } {UserExtra  b  authentication.k8s.io/v1  a} {UID  u  authentication.k8s.io/v1  }";
        assert_eq!(
            (refused.code, refused.message),
            (400, format!("requested [{requested}] without impersonating a user"))
        );
    }

    // Finding E-18
    #[test]
    fn nobody_becomes_a_master_by_impersonation() {
        let masters: &[(&'static str, &'static str)] =
            &[("impersonate-user", "x"), ("impersonate-group", "system:masters")];
        let refused = acting(Identity::user(), masters).unwrap_err();
        let message = "groups \"system:masters\" is forbidden: User \"user\" cannot impersonate resource \"groups\" in API group \"\" \
                       at the cluster scope";
        assert_eq!((refused.code, refused.message.as_str()), (403, message));
        assert_eq!(acting(Identity::admin(), masters).unwrap()["groups"][0], "system:masters");
        let named = acting(Identity::user(), &[("impersonate-user", "system-admin")]).unwrap();
        assert_eq!(named["groups"], json!(["system:authenticated"]), "a name gives nothing");
    }
}
