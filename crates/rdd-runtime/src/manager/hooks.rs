//! The webhooks of a manager: served from the beginning, configured for the controllers that run.

use futures::future::try_join_all;
use kube::Client;

use super::{CONFIGURE, MANAGER};
use crate::{
    Error, Registered,
    admission::{Configurations, Webhook},
    hooks::{Hooks, Reachable, answering},
    worker::Tools,
};

/// The webhooks of all controllers that the manager runs or may take over.
#[derive(Debug)]
pub(super) struct Served {
    reachable: Option<Reachable>,
}

impl Served {
    /// Serves the webhooks of these controllers. It writes no configuration yet.
    pub(super) async fn start(hooks: &dyn Hooks, controllers: &[Registered]) -> Result<Self, Error> {
        let webhooks = controllers.iter().flat_map(|controller| &controller.declaration().webhooks);
        let answers: Vec<_> = webhooks.map(answering).collect();
        // Without webhooks there is no listener and no certificate.
        if answers.is_empty() {
            return Ok(Self { reachable: None });
        }
        Ok(Self { reachable: Some(hooks.serve(answers).await?) })
    }

    /// The address of the webhooks; `None` if no controller has webhooks.
    pub(super) fn reachable(&self) -> Option<&Reachable> {
        self.reachable.as_ref()
    }

    /// Applies the configurations of these controllers' webhooks, concurrently.
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

/// Removes configurations of an earlier run of this manager whose webhooks these controllers do not answer.
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
