//! The webhooks of a manager: reachable from the first moment on, configured for the controllers that run.

use futures::future::try_join_all;
use kube::Client;

use super::{CONFIGURE, MANAGER};
use crate::{
    Error, Registered,
    admission::{Configurations, Webhook},
    hooks::{Hooks, Reachable, answering},
    worker::Tools,
};

/// The webhooks of all controllers that a manager may come to run.
#[derive(Debug)]
pub(super) struct Served {
    reachable: Option<Reachable>,
}

impl Served {
    /// Makes the webhooks of these controllers reachable. Nothing is configured yet.
    pub(super) async fn start(hooks: &dyn Hooks, controllers: &[Registered]) -> Result<Self, Error> {
        let webhooks = controllers.iter().flat_map(|controller| &controller.declaration().webhooks);
        let answers: Vec<_> = webhooks.map(answering).collect();
        if answers.is_empty() {
            return Ok(Self { reachable: None });
        }
        Ok(Self { reachable: Some(hooks.serve(answers).await?) })
    }

    /// Where they are reachable, if there are any.
    pub(super) fn reachable(&self) -> Option<&Reachable> {
        self.reachable.as_ref()
    }

    /// Configures the webhooks of these controllers, all at once.
    pub(super) async fn configure(
        &self,
        tools: &Tools,
        manager: &str,
        controllers: &[Registered],
    ) -> Result<(), Error> {
        let Some(reachable) = &self.reachable else { return Ok(()) };
        let configurations = &Configurations { client: &tools.client, manager };
        let webhooks = webhooks_of(controllers).into_iter();
        let steps = webhooks.map(|webhook| {
            tools.points.around(MANAGER, CONFIGURE, async move { configurations.apply(webhook, reachable).await })
        });
        try_join_all(steps).await.map(drop)
    }
}

/// Removes configurations of an earlier run of this manager that nobody would answer.
pub(super) async fn remove_stale<'a>(
    client: &Client,
    manager: &str,
    controllers: impl IntoIterator<Item = &'a Registered>,
) -> Result<(), Error> {
    Configurations { client, manager }.remove_others(&webhooks_of(controllers)).await
}

fn webhooks_of<'a>(controllers: impl IntoIterator<Item = &'a Registered>) -> Vec<&'a Webhook> {
    controllers.into_iter().flat_map(|controller| &controller.declaration().webhooks).collect()
}
