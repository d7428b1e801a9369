//! The claims of a service account token: their JSON form and their validity.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::ISSUER;
use crate::auth::Identity;

/// The tolerated difference between clocks.
pub(super) const LEEWAY_SECONDS: i64 = 60;
/// The claim with the Kubernetes-specific fields.
const PRIVATE: &str = "kubernetes.io";

/// The claims of a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Claims {
    pub(super) issuer: String,
    pub(super) audiences: Vec<String>,
    pub(super) issued: i64,
    pub(super) expires: i64,
    /// The unique ID of the token (`jti`).
    pub(super) id: String,
    pub(super) namespace: String,
    /// Name and uid of the service account.
    pub(super) account: (String, String),
    /// Name and uid of the Secret that the token is bound to.
    pub(super) secret: Option<(String, String)>,
}

impl Claims {
    pub(super) fn to_value(&self) -> Value {
        let reference = |(name, uid): &(String, String)| json!({"name": name, "uid": uid});
        let mut private = json!({"namespace": self.namespace, "serviceaccount": reference(&self.account)});
        if let Some(secret) = &self.secret {
            private["secret"] = reference(secret);
        }
        json!({
            "aud": self.audiences,
            "exp": self.expires,
            "iat": self.issued,
            "iss": self.issuer,
            "jti": self.id,
            PRIVATE: private,
            "nbf": self.issued,
            "sub": user_name(&self.namespace, &self.account.0),
        })
    }

    /// Parses the claims; `None` if one is missing or has the wrong type.
    pub(super) fn parse(claims: &Value) -> Option<Self> {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let reference = |value: &Value| Some((text(&value["name"])?, text(&value["uid"])?));
        let private = claims.get(PRIVATE)?;
        let secret = match private.get("secret") {
            None | Some(Value::Null) => None,
            Some(secret) => Some(reference(secret)?),
        };
        Some(Self {
            issuer: text(&claims["iss"])?,
            audiences: claims["aud"].as_array()?.iter().filter_map(text).collect(),
            // The start of validity, which `to_value` sets to the time of issue.
            issued: claims["nbf"].as_i64()?,
            expires: claims["exp"].as_i64()?,
            id: text(&claims["jti"])?,
            namespace: text(&private["namespace"])?,
            account: reference(&private["serviceaccount"])?,
            secret,
        })
    }

    /// Whether the token is valid at this time.
    pub(super) fn is_current(&self, now: i64) -> bool {
        self.issued <= now.saturating_add(LEEWAY_SECONDS) && now <= self.expires.saturating_add(LEEWAY_SECONDS)
    }

    /// The identity that the token authenticates.
    pub(super) fn identity(&self) -> Identity {
        let groups = ["system:serviceaccounts".to_owned(), format!("system:serviceaccounts:{}", self.namespace)];
        let credential = vec![format!("JTI={}", self.id)];
        let extra = BTreeMap::from([("authentication.kubernetes.io/credential-id".to_owned(), credential)]);
        Identity::new(user_name(&self.namespace, &self.account.0), groups).with(&self.account.1, extra)
    }
}

fn user_name(namespace: &str, account: &str) -> String {
    format!("system:serviceaccount:{namespace}:{account}")
}

/// Creates the claims of a new token, with a new ID. The two times are those of issue and expiry.
pub(super) fn claims(
    namespace: &str,
    account: (String, String),
    (issued, expires): (i64, i64),
    audiences: Vec<String>,
    secret: Option<(String, String)>,
) -> Claims {
    let id = uuid::Uuid::new_v4().to_string();
    Claims {
        issuer: ISSUER.to_owned(),
        audiences,
        issued,
        expires,
        id,
        namespace: namespace.to_owned(),
        account,
        secret,
    }
}
