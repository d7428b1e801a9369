//! The health endpoint of a manager on loopback: 200 or 503, without a body.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use http::StatusCode;

use crate::{listen, supervise::Supervisor};

/// The health of one manager. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Health {
    id: Arc<str>,
    ready: Arc<AtomicBool>,
    supervisor: Supervisor,
}

impl Health {
    /// The health of the manager with this id and these tasks. It starts as not ready.
    pub(crate) fn new(id: &str, supervisor: Supervisor) -> Self {
        Self { id: id.into(), ready: Arc::default(), supervisor }
    }

    pub(crate) fn set_ready(&self, ready: bool) {
        self.ready.store(ready, Ordering::SeqCst);
    }

    /// Whether the manager is ready and all its supervised tasks run.
    pub(crate) fn is_well(&self) -> bool {
        self.ready.load(Ordering::SeqCst) && self.supervisor.down().is_empty()
    }

    /// Answers `/healthz` and `/readyz` by [`is_well`](Self::is_well), and `/alive/<id>` by whether this is the run with that id, healthy
    /// or not. The id prevents that another process on the same port is taken for this manager.
    fn answer(&self, path: &str) -> StatusCode {
        let yes = match path {
            "/healthz" | "/readyz" => self.is_well(),
            other => other.strip_prefix("/alive/").is_some_and(|id| *id == *self.id),
        };
        if yes { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }
    }

    pub(crate) fn handler(&self) -> listen::Handler {
        let health = self.clone();
        Arc::new(move |request| {
            let answer = listen::bare(health.answer(request.uri().path()));
            Box::pin(async move { answer })
        })
    }
}

#[cfg(test)]
mod tests {
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::Error;

    #[tokio::test]
    async fn it_is_well_when_it_is_ready_and_every_task_runs() {
        let supervisor = Supervisor::new(CancellationToken::new());
        let health = Health::new("me", supervisor.clone());
        let code = |path| health.answer(path).as_u16();
        assert_eq!((code("/healthz"), code("/readyz"), code("/alive/me"), code("/alive/you")), (503, 503, 200, 503));
        health.set_ready(true);
        assert_eq!((code("/healthz"), code("/readyz"), code("/metrics"), code("/")), (200, 200, 503, 503));
        supervisor.start("broken".to_owned(), || Box::pin(async { Err(Error::message("no")) }));
        while health.is_well() {
            tokio::task::yield_now().await;
        }
        assert_eq!(code("/healthz"), 503);
    }
}
