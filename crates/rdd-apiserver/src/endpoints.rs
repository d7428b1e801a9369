//! The built-in paths: health, metrics, version, index, and backup. Every other path goes to the next handler.

use std::sync::Arc;

use http::{Method, request::Parts};
use rdd_meta::Status;
use serde::Serialize;

use crate::{
    backup::{self, Backup},
    health::Health,
    metrics::SharedMetrics,
    request::{Answer, Class, Classified, Found, Handler, Request, verb_of},
    respond::{self, Response},
    version::Version,
};

pub(crate) struct Endpoints {
    pub(crate) health: Arc<Health>,
    pub(crate) metrics: SharedMetrics,
    pub(crate) version: Version,
    pub(crate) backup: Option<Arc<dyn Backup>>,
    pub(crate) next: Arc<dyn Handler>,
}

#[derive(Serialize)]
struct RootPaths {
    paths: Vec<String>,
}

const FIXED_PATHS: [&str; 3] = ["/", "/metrics", "/version"];

impl Endpoints {
    /// Returns the response to a GET of a built-in path, or `None` for any other path.
    fn answer(&self, path: &str, query: &str) -> Option<Response> {
        match path {
            "/" | "/index.html" => Some(respond::raw_json(&RootPaths { paths: self.paths() })),
            "/version" | "/version/" => Some(respond::raw_json(&self.version)),
            "/metrics" => Some(self.metrics.answer()),
            _ => self.health.answer(path, query),
        }
    }

    fn answer_backup(&self, request: &Request, backup: &Arc<dyn Backup>) -> Answer {
        if !request.identity.is_master() {
            let verb = request.head.method.as_str().to_ascii_lowercase();
            // A copy of the store contains every Secret.
            let refusal = Status::forbidden_path(request.identity.name(), &verb, backup::PATH);
            return Answer::Now(respond::status(&refusal));
        }
        if request.head.method != Method::GET {
            return Answer::Now(respond::status(&Status::method_not_allowed()));
        }
        tracing::info!(user = request.identity.name(), "backup requested");
        Answer::later(backup::answer(backup.make()))
    }
}

impl Handler for Endpoints {
    fn classify(&self, head: &Parts) -> (Classified, Found) {
        if self.backup.is_some() && head.uri.path() == backup::PATH {
            // A backup of a large store may take longer than the request timeout.
            return (Classified { verb: verb_of(&head.method), class: Class::Unbounded }, None);
        }
        self.next.classify(head)
    }

    fn paths(&self) -> Vec<String> {
        let mut paths: Vec<String> = FIXED_PATHS.map(str::to_owned).into();
        paths.extend(self.backup.iter().map(|_| backup::PATH.to_owned()));
        paths.extend(self.health.paths());
        paths.extend(self.next.paths());
        // Upstream's index is sorted too.
        paths.sort();
        paths.dedup();
        paths
    }

    fn handle(&self, request: Request) -> Answer {
        let path = request.head.uri.path();
        if let Some(backup) = self.backup.as_ref().filter(|_| path == backup::PATH) {
            return self.answer_backup(&request, backup);
        }
        let Some(response) = self.answer(path, request.head.uri.query().unwrap_or_default()) else {
            return self.next.handle(request);
        };
        if matches!(request.head.method, Method::GET | Method::HEAD) {
            return Answer::Now(response);
        }
        Answer::Now(respond::status(&Status::method_not_allowed()))
    }
}
