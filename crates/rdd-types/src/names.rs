//! Names that several parts must agree on: finalizers, annotations, labels, field managers, and objects that are always called the same.

/// The namespace of the daemon's own objects.
pub const SYSTEM_NAMESPACE: &str = "rdd-system";

/// The ConfigMap in which controller managers say that they are there.
pub const DISCOVERY_CONFIG_MAP: &str = "rdd-controller-manager";

/// Finalizers.
pub mod finalizer {
    /// A controller has to clean up before the object may go.
    pub const CLEANUP: &str = "rdd.rancherdesktop.io/cleanup";
    /// The object belongs to another one, of the kind that follows, and is deleted through it only.
    pub const OWNED_BY: &str = "rdd.rancherdesktop.io/owned-by-";
    /// The object belongs to the App.
    pub const OWNED_BY_APP: &str = "rdd.rancherdesktop.io/owned-by-App";
    /// The object belongs to a LimaVM.
    pub const OWNED_BY_LIMA_VM: &str = "rdd.rancherdesktop.io/owned-by-LimaVM";
    /// The object mirrors something of the container engine, which goes first.
    pub const MIRROR: &str = "engine.rancherdesktop.io/mirror";

    /// The kind of the owner that a list of finalizers names, if it names one.
    pub fn owner<'a>(finalizers: impl IntoIterator<Item = &'a String>) -> Option<&'a str> {
        finalizers.into_iter().find_map(|finalizer| finalizer.strip_prefix(OWNED_BY))
    }
}

/// Annotations.
pub mod annotation {
    /// On the discovery ConfigMap: `true` when controllers and webhooks are there.
    pub const READY: &str = "rdd.rancherdesktop.io/ready";
    /// On a definition: the controller that it came with.
    pub const CONTROLLER: &str = "rdd.rancherdesktop.io/controller";
    /// On a LimaVM, with any value: restart it.
    pub const RESTART_REQUESTED: &str = "lima.rancherdesktop.io/restartRequested";
    /// On a LimaVM, with any value: throw its machine away and make it anew from the same template.
    pub const RESET_REQUESTED: &str = "lima.rancherdesktop.io/resetRequested";
    /// On the App, with any value: forget the Kubernetes cluster and begin with an empty one. Containers stay.
    pub const RESET_KUBERNETES: &str = "app.rancherdesktop.io/resetKubernetes";
    /// On a Container: do this to it.
    pub const ACTION: &str = "containers.rancherdesktop.io/action";
    /// On a Container, by the engine controller: this is being done to it, and is not done twice.
    pub const ACTING: &str = "engine.rancherdesktop.io/acting";
    /// On a mirror, by the engine controller: it goes, and what it stood for does not.
    pub const REMOVED: &str = "engine.rancherdesktop.io/removed";
}

/// Labels.
pub mod label {
    /// What the thing is called.
    pub const NAME: &str = "app.kubernetes.io/name";
    /// Which part of it this is.
    pub const COMPONENT: &str = "app.kubernetes.io/component";
    /// Which one of several it is.
    pub const INSTANCE: &str = "app.kubernetes.io/instance";
    /// Who keeps it.
    pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
    /// On a ConfigMap, with the value `true`: it holds the template of a LimaVM and is checked.
    pub const TEMPLATE_CONFIG_MAP: &str = "lima.rancherdesktop.io/template-configmap";
}

/// Who writes which fields, where fields have owners.
pub mod field_manager {
    /// The program, for what has no better name.
    pub const RDD: &str = "rdd";
    /// The engine controller, on mirrors.
    pub const ENGINE: &str = "engine-controller";
    /// The engine controller, on what became of actions.
    pub const ENGINE_ACTIONS: &str = "engine-controller-actions";
    /// What puts webhook configurations in place.
    pub const WEBHOOKS: &str = "rdd-webhook-manager";
    /// The mock controller.
    pub const MOCK: &str = "mock-controller";
}

#[cfg(test)]
mod tests {
    use super::finalizer;

    #[test]
    fn the_owner_is_read_from_the_finalizers() {
        let owned = ["other".to_owned(), finalizer::OWNED_BY_APP.to_owned()];
        assert_eq!(finalizer::owner(&owned), Some("App"));
        assert_eq!(finalizer::owner(&[finalizer::CLEANUP.to_owned()]), None);
        assert_eq!(finalizer::OWNED_BY_LIMA_VM, format!("{}LimaVM", finalizer::OWNED_BY));
    }
}
