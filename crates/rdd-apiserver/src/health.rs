//! The endpoints `/livez`, `/readyz` and `/healthz`, with the texts of Kubernetes' `healthz` package.

use std::{
    collections::BTreeSet,
    fmt,
    sync::atomic::{AtomicBool, Ordering},
};

use http::StatusCode;

use crate::respond::{self, Response, TEXT};

/// A health check; its error describes the failure. It must return quickly and must not block, because it runs on a thread that
/// serves requests.
pub type Check = Box<dyn Fn() -> Result<(), String> + Send + Sync>;

/// The health checks of a server. Every instance has the check `ping`, and on `/readyz` also `shutdown`.
pub struct Health {
    checks: Vec<Named>,
    shutting_down: AtomicBool,
}

struct Named {
    name: &'static str,
    readiness_only: bool,
    check: Check,
}

/// One of the three endpoints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Question {
    Livez,
    Readyz,
    Healthz,
}

/// The check that fails once shutdown has begun. Only `/readyz` has it.
const SHUTDOWN: &str = "shutdown";
const PING: &str = "ping";

impl fmt::Debug for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.checks.iter().map(|check| check.name)).finish()
    }
}

impl Default for Health {
    fn default() -> Self {
        Self { checks: Vec::new(), shutting_down: AtomicBool::new(false) }.check(PING, || Ok(()))
    }
}

impl Health {
    /// Adds a check to all three endpoints.
    #[must_use]
    pub fn check(self, name: &'static str, check: impl Fn() -> Result<(), String> + Send + Sync + 'static) -> Self {
        self.add(Named { name, readiness_only: false, check: Box::new(check) })
    }

    /// Adds a check to `/readyz` only: for failures that a restart of the process does not fix.
    #[must_use]
    pub fn readiness(self, name: &'static str, check: impl Fn() -> Result<(), String> + Send + Sync + 'static) -> Self {
        self.add(Named { name, readiness_only: true, check: Box::new(check) })
    }

    fn add(mut self, named: Named) -> Self {
        self.checks.push(named);
        self
    }

    pub(crate) fn begin_shutdown(&self) {
        self.shutting_down.store(true, Ordering::SeqCst);
    }

    /// All paths that [`answer`](Self::answer) serves, for the index.
    pub(crate) fn paths(&self) -> Vec<String> {
        [Question::Healthz, Question::Livez, Question::Readyz]
            .into_iter()
            .flat_map(|question| {
                let root = format!("/{}", question.name());
                let checks: Vec<_> = self.names(question).map(|name| format!("{root}/{name}")).collect();
                std::iter::once(root).chain(checks)
            })
            .collect()
    }

    /// Returns the response for a path, or `None` if the path is not a health endpoint.
    pub(crate) fn answer(&self, path: &str, query: &str) -> Option<Response> {
        let path = path.strip_prefix('/')?;
        let (root, check) = path.split_once('/').map_or((path, None), |(root, check)| (root, Some(check)));
        let question = Question::parse(root)?;
        match check {
            None => Some(self.answer_all(question, query)),
            Some(name) => self.names(question).find(|known| *known == name).map(|name| self.answer_one(name)),
        }
    }

    fn answer_one(&self, name: &str) -> Response {
        match self.run(name) {
            Ok(()) => text(StatusCode::OK, "ok".to_owned()),
            Err(why) => text(StatusCode::INTERNAL_SERVER_ERROR, format!("internal server error: {why}\n")),
        }
    }

    fn answer_all(&self, question: Question, query: &str) -> Response {
        let parameters: Vec<_> = crate::request::query_pairs(query).collect();
        let excluded = parameters.iter().filter(|(name, _)| name == "exclude");
        let mut excluded: BTreeSet<&str> = excluded.map(|(_, value)| value.as_ref()).collect();
        let mut report = String::new();
        let mut failed = Vec::new();
        // Excluded checks do not run. Those left in `excluded` at the end match no check, and the report warns about them.
        for name in self.names(question) {
            let line = if excluded.remove(name) {
                format!("[+]{name} excluded: ok\n")
            } else if let Err(why) = self.run(name) {
                failed.push(format!("{name}: {why}"));
                // The reason goes to the log only, as upstream does.
                format!("[-]{name} failed: reason withheld\n")
            } else {
                format!("[+]{name} ok\n")
            };
            report.push_str(&line);
        }
        if !excluded.is_empty() {
            let names: Vec<_> = excluded.iter().map(|name| format!("{name:?}")).collect();
            let names = names.join(",");
            report.push_str(&format!("warn: some health checks cannot be excluded: no matches for {names}\n"));
        }
        let name = question.name();
        if !failed.is_empty() {
            tracing::debug!(check = name, failed = failed.join("; "), "health check failed");
            return text(StatusCode::INTERNAL_SERVER_ERROR, format!("{report}{name} check failed\n"));
        }
        // Upstream ignores the value of `verbose` too.
        if parameters.iter().any(|(name, _)| name == "verbose") {
            return text(StatusCode::OK, format!("{report}{name} check passed\n"));
        }
        text(StatusCode::OK, "ok".to_owned())
    }

    fn names(&self, question: Question) -> impl Iterator<Item = &'static str> {
        let ready = question == Question::Readyz;
        let checks = self.checks.iter().filter(move |check| ready || !check.readiness_only).map(|check| check.name);
        checks.chain(ready.then_some(SHUTDOWN))
    }

    fn run(&self, name: &str) -> Result<(), String> {
        if name == SHUTDOWN {
            let shutting_down = self.shutting_down.load(Ordering::SeqCst);
            return if shutting_down { Err("process is shutting down".to_owned()) } else { Ok(()) };
        }
        self.checks.iter().find(|check| check.name == name).map_or(Ok(()), |check| (check.check)())
    }
}

impl Question {
    fn parse(text: &str) -> Option<Self> {
        [Self::Livez, Self::Readyz, Self::Healthz].into_iter().find(|question| question.name() == text)
    }

    fn name(self) -> &'static str {
        match self {
            Self::Livez => "livez",
            Self::Readyz => "readyz",
            Self::Healthz => "healthz",
        }
    }
}

fn text(code: StatusCode, text: String) -> Response {
    respond::content(code, TEXT, text)
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;

    fn health() -> Health {
        Health::default().check("datastore", || Err("disk full".to_owned())).readiness("controllers", || Ok(()))
    }

    #[track_caller]
    fn check(health: &Health, path: &str, query: &str, expected: Option<(u16, &str)>) {
        let answer = health.answer(path, query).map(|response| {
            let code = response.status().as_u16();
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let body = runtime.block_on(response.into_body().collect()).unwrap().to_bytes();
            (code, String::from_utf8(body.to_vec()).unwrap())
        });
        assert_eq!(answer.as_ref().map(|(code, body)| (*code, body.as_str())), expected, "{path}?{query}");
    }

    #[test]
    fn the_texts_are_those_of_kubernetes() {
        let healthy = Health::default().readiness("controllers", || Ok(()));
        check(&healthy, "/livez", "", Some((200, "ok")));
        check(&healthy, "/livez", "verbose", Some((200, "[+]ping ok\nlivez check passed\n")));
        let all = "[+]ping ok\n[+]controllers ok\n[+]shutdown ok\nreadyz check passed\n";
        check(&healthy, "/readyz", "verbose=true", Some((200, all)));
        check(&healthy, "/readyz/ping", "", Some((200, "ok")));
        let failing = "[+]ping ok\n[-]datastore failed: reason withheld\nhealthz check failed\n";
        check(&health(), "/healthz", "", Some((500, failing)));
        check(&health(), "/livez/datastore", "", Some((500, "internal server error: disk full\n")));
    }

    #[test]
    fn excluded_checks_are_not_run_and_unknown_ones_are_named() {
        check(&health(), "/livez", "exclude=datastore", Some((200, "ok")));
        let report = "[+]ping excluded: ok\n[+]datastore excluded: ok\n\
                      warn: some health checks cannot be excluded: no matches for \"a\",\"b\"\nlivez check passed\n";
        check(&health(), "/livez", "verbose&exclude=b&exclude=ping&exclude=a&exclude=datastore", Some((200, report)));
    }

    #[test]
    fn shutdown_ends_readiness_and_not_liveness() {
        let health = Health::default();
        health.begin_shutdown();
        check(&health, "/livez", "", Some((200, "ok")));
        let report = "[+]ping ok\n[-]shutdown failed: reason withheld\nreadyz check failed\n";
        check(&health, "/readyz", "", Some((500, report)));
        check(&health, "/readyz/shutdown", "", Some((500, "internal server error: process is shutting down\n")));
    }

    #[test]
    fn other_paths_are_not_ours() {
        for path in
            ["/livez/", "/livez/other", "/livez/shutdown", "/livez/controllers", "/livezz", "/", "/readyz/ping/x"]
        {
            check(&health(), path, "", None);
        }
        assert_eq!(
            Health::default().paths(),
            ["/healthz", "/healthz/ping", "/livez", "/livez/ping", "/readyz", "/readyz/ping", "/readyz/shutdown"]
        );
    }
}
