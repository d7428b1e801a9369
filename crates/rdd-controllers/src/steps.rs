//! Every step that any controller of the product can take: the kill points that tests of the daemon have to reach.

use rdd_runtime::{ENSURE_FINALIZER, Step};

use crate::{
    app, configmap_replicaset, containers, demo, engine, hostinfo, k3s_versions, kubernetes, limavm, mock, notary,
};

/// Each controller that the program can run, with the names of its steps, that of the runtime included.
///
/// It needs no instance and no API, so that tests of the binary can enumerate the steps. A test in the binary's own crate compares it
/// with the registered controllers and fails if one is missing here.
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

/// The steps of a controller without a finalizer.
fn plain<S: Step>() -> Vec<&'static str> {
    S::ALL.to_vec()
}

/// The steps of a controller that [cleans up](rdd_runtime::Declaration::cleans_up); the runtime's step that adds the finalizer comes first.
fn held<S: Step>() -> Vec<&'static str> {
    std::iter::once(ENSURE_FINALIZER).chain(plain::<S>()).collect()
}
