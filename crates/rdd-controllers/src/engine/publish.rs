//! Publishes the engine's socket as a docker context.

use futures::future::BoxFuture;
use rdd_docker::context::DockerContext;
use rdd_runtime::BoxError;

use super::Publisher;

impl Publisher for DockerContext {
    fn publish(&self) -> BoxFuture<'_, Result<(), BoxError>> {
        Box::pin(async { Ok(self.ensure().await?) })
    }

    fn withdraw(&self) -> BoxFuture<'_, Result<(), BoxError>> {
        Box::pin(async { Ok(self.remove().await?) })
    }
}
