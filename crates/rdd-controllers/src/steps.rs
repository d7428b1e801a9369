//! Every step that any controller of the product can take: what the tests that kill the daemon have to reach.

use rdd_runtime::{ENSURE_FINALIZER, Step};

use crate::{
    app, configmap_replicaset, containers, demo, engine, hostinfo, k3s_versions, kubernetes, limavm, mock, notary,
};

/// Each controller that the program can run, with the names of its steps, that of the runtime included.
///
/// It needs no instance and no API, so tests of the binary can enumerate what they have to reach. A test of the binary's own crate holds it against
/// the controllers that are registered: one that is added there and not here fails it.
pub fn steps() -> Vec<(&'static str, Vec<&'static str>)> {
    vec![
        (hostinfo::NAME, plain::<hostinfo::Step>()),
        (notary::NAME, held::<notary::Step>()),
        (configmap_replicaset::NAME, held::<configmap_replicaset::Step>()),
        (demo::NAME, plain::<demo::Step>()),
        (k3s_versions::NAME, plain::<k3s_versions::Step>()),
        (containers::CONTAINER, plain::<containers::Step>()),
        (containers::CONTAINER_NAMESPACE, plain::<containers::Nothing>()),
        (containers::IMAGE, plain::<containers::Nothing>()),
        (containers::VOLUME, plain::<containers::Nothing>()),
        (engine::NAME, plain::<engine::plan::Step>()),
        (app::NAME, held::<app::plan::Step>()),
        (kubernetes::NAME, plain::<kubernetes::plan::Step>()),
        (limavm::NAME, held::<limavm::plan::Step>()),
        (mock::NAME, plain::<mock::Step>()),
    ]
}

/// Of a controller without a finalizer.
fn plain<S: Step>() -> Vec<&'static str> {
    S::ALL.to_vec()
}

/// Of a controller that [cleans up](rdd_runtime::Declaration::cleans_up): the runtime puts its finalizer on, which is a step.
fn held<S: Step>() -> Vec<&'static str> {
    std::iter::once(ENSURE_FINALIZER).chain(plain::<S>()).collect()
}
