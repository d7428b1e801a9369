//! The webhooks of a manager: reachable from the first moment on, configured for the controllers that run.

use futures::future::try_join_all;
use kube::Client;

use crate::{
    Error, Registered,
    admission::{Configurations, Webhook},
    hooks::{Hooks, Reachable, answering},
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

    /// Configures the webhooks of these controllers, all at once.
    pub(super) async fn configure(
        &self,
        client: &Client,
        manager: &str,
        controllers: &[Registered],
    ) -> Result<(), Error> {
        let Some(reachable) = &self.reachable else { return Ok(()) };
        let configurations = Configurations { client, manager };
        let webhooks = webhooks_of(controllers);
        try_join_all(webhooks.into_iter().map(|webhook| configurations.apply(webhook, reachable))).await.map(drop)
    }
}

/// Removes configurations of an earlier run of this manager that nobody would answer.
pub(super) async fn remove_stale(client: &Client, manager: &str, controllers: &[Registered]) -> Result<(), Error> {
    Configurations { client, manager }.remove_others(&webhooks_of(controllers)).await
}

fn webhooks_of(controllers: &[Registered]) -> Vec<&Webhook> {
    controllers.iter().flat_map(|controller| &controller.declaration().webhooks).collect()
}
