//! OpenID discovery: the two documents with which other services verify service account tokens.

use std::{fmt, sync::Arc};

use http::{HeaderValue, Method, StatusCode, header::CACHE_CONTROL, request::Parts};
use rdd_meta::Status;
use serde_json::json;

use super::{ISSUER, ServiceAccounts};
use crate::{
    request::{Answer, Classified, Found, Handler, Request},
    respond::{self, Response},
};

const CONFIGURATION: &str = "/.well-known/openid-configuration";
const KEYS: &str = "/openid/v1/jwks";

/// Serves the two documents; every other path goes to the next handler.
pub struct OpenId {
    accounts: Arc<ServiceAccounts>,
    server: String,
    next: Arc<dyn Handler>,
}

impl fmt::Debug for OpenId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenId").field("server", &self.server).finish_non_exhaustive()
    }
}

impl OpenId {
    /// `server` is the base URL of this server, as in `https://127.0.0.1:6443`.
    pub fn new(accounts: Arc<ServiceAccounts>, server: impl Into<String>, next: Arc<dyn Handler>) -> Self {
        Self { accounts, server: server.into(), next }
    }

    fn document(&self, path: &str) -> Option<Response> {
        let (kind, document) = match path {
            CONFIGURATION => (
                "application/json",
                json!({
                    "issuer": ISSUER,
                    "jwks_uri": format!("{}{KEYS}", self.server),
                    "response_types_supported": ["id_token"],
                    "subject_types_supported": ["public"],
                    "id_token_signing_alg_values_supported": ["ES256"],
                }),
            ),
            KEYS => ("application/jwk-set+json", json!({"keys": [self.accounts.key.json_web_key()]})),
            _ => return None,
        };
        let mut response = respond::content(StatusCode::OK, HeaderValue::from_static(kind), document.to_string());
        // Clients may cache the documents: the key changes only when its file is lost.
        response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("public, max-age=3600"));
        Some(response)
    }
}

impl Handler for OpenId {
    fn classify(&self, head: &Parts) -> (Classified, Found) {
        self.next.classify(head)
    }

    fn paths(&self) -> Vec<String> {
        let mut paths = self.next.paths();
        paths.extend([CONFIGURATION.to_owned(), KEYS.to_owned()]);
        paths
    }

    fn handle(&self, request: Request) -> Answer {
        match self.document(request.head.uri.path()) {
            None => self.next.handle(request),
            Some(response) if request.head.method == Method::GET => Answer::Now(response),
            Some(_) => Answer::Now(respond::status(&Status::method_not_allowed())),
        }
    }
}
