//! The same server through its HTTP interface, and webhooks that record their requests.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt as _, Full};
use rdd_apiserver::{
    admission::webhook::{Handler, Registration},
    auth::Identity,
    serve::InProcess,
};
use rdd_stdx::clock::SystemClock;
use serde_json::{Value, json};
use tower_service::Service as _;

use crate::support::{World, bounded, version};

pub(crate) const JSON: &str = "application/json";
pub(crate) const YAML: &str = "application/yaml";
pub(crate) const MERGE: &str = "application/merge-patch+json";
pub(crate) const JSON_PATCH: &str = "application/json-patch+json";
pub(crate) const APPLY: &str = "application/apply-patch+yaml";

/// The requests that a webhook received, and the guard of its registration.
pub(crate) type Answering = (Arc<Mutex<Vec<Value>>>, Registration);

/// A complete response.
#[derive(Debug)]
pub(crate) struct Told {
    pub(crate) code: u16,
    pub(crate) warnings: Vec<String>,
    pub(crate) body: Value,
}

impl Told {
    pub(crate) fn message(&self) -> &str {
        self.body["message"].as_str().unwrap_or_default()
    }
}

impl World {
    pub(crate) async fn ask(&self, method: &str, path: &str, content_type: &str, body: impl ToString) -> Told {
        let clock = SystemClock::shared();
        let mut door = InProcess::alone(self.core.endpoints(), Identity::admin(), &version(), clock);
        let request = Request::builder().method(method).uri(path).header("content-type", content_type);
        let request = request.body(Full::new(Bytes::from(body.to_string()))).unwrap();
        let (head, body) = bounded(door.call(request)).await.unwrap().into_parts();
        let body = bounded(body.collect()).await.unwrap().to_bytes();
        Told {
            code: head.status.as_u16(),
            warnings: head.headers.get_all("warning").iter().map(|text| text.to_str().unwrap().to_owned()).collect(),
            body: serde_json::from_slice(&body).unwrap_or_else(|_| String::from_utf8_lossy(&body).into()),
        }
    }

    pub(crate) async fn get(&self, path: &str) -> Told {
        self.ask("GET", path, JSON, "").await
    }

    /// Registers a webhook for writes to these resources that responds by this function; returns the requests it receives.
    pub(crate) async fn hook(
        &self,
        kind: &str,
        resources: &[&str],
        answer: impl Fn(&Value) -> Value + Send + Sync + 'static,
    ) -> Answering {
        let answering = self.rehook(answer);
        let plural = format!("{}s", kind.to_lowercase());
        let configuration = json!({"metadata": {"name": "c"}, "webhooks": [{
            "name": "hook.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "clientConfig": {"service": {"namespace": "default", "name": "hook", "path": "/a"}},
            "rules": [{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": resources}],
        }]});
        let path = format!("/apis/admissionregistration.k8s.io/v1/{plural}");
        let made = self.ask("POST", &path, JSON, configuration).await;
        assert_eq!(made.code, 201, "{made:?}");
        answering
    }

    /// Replaces the function of that webhook.
    pub(crate) fn rehook(&self, answer: impl Fn(&Value) -> Value + Send + Sync + 'static) -> Answering {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let noted = Arc::clone(&asked);
        let handler: Handler = Arc::new(move |review: Value| {
            let mut response = answer(&review["request"]);
            response["uid"] = review["request"]["uid"].clone();
            noted.lock().unwrap().push(review["request"].clone());
            let body = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response});
            Box::pin(async move { body })
        });
        let registration = self.core.webhooks().register("default", "hook", "/a", handler);
        (asked, registration)
    }
}
