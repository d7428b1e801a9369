//! What the API calls the things that these commands speak of.

use rdd_types::names::{annotation, field_manager, finalizer};
pub use rdd_types::{
    app::{APP, K3S_VERSIONS, NAMESPACE as APP_NAMESPACE, VM as APP_VM},
    lima::TEMPLATE_KEY,
};

/// The kind of the App.
pub const APP_KIND: &str = "App";
/// Its group and version.
pub const APP_VERSION: &str = "app.rancherdesktop.io/v1alpha1";
/// All of them.
pub const APPS: &str = "/apis/app.rancherdesktop.io/v1alpha1/apps";
/// The definition of the kind.
pub const APP_DEFINITION: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/apps.app.rancherdesktop.io";

/// The kind of machines.
pub const VM_KIND: &str = "LimaVM";
/// Their group and version.
pub const VM_VERSION: &str = "lima.rancherdesktop.io/v1alpha1";
/// All of them, in every namespace.
pub const VMS: &str = "/apis/lima.rancherdesktop.io/v1alpha1/limavms";
/// On a machine: any value asks for a restart.
pub const RESTART_REQUESTED: &str = annotation::RESTART_REQUESTED;
/// The annotation that asks for a machine to be thrown away and made anew.
pub const RESET_REQUESTED: &str = annotation::RESET_REQUESTED;
/// On a machine: it belongs to the App, and is not to be deleted by anyone else.
pub const OWNED_BY_APP: &str = finalizer::OWNED_BY_APP;

/// Where the managers of controllers are listed.
pub const DISCOVERY: &str = "/api/v1/namespaces/rdd-system/configmaps/rdd-controller-manager";
/// On that list: what is on it can be used.
pub const READY_ANNOTATION: &str = annotation::READY;
/// The controller that mirrors the container engine.
pub const ENGINE_CONTROLLER: &str = "engine";
/// The controller of Kubernetes.
pub const KUBERNETES_CONTROLLER: &str = "kubernetes";

/// Who writes, in the books of the server.
pub const FIELD_MANAGER: &str = field_manager::RDD;

/// The machines of one namespace.
pub fn vms_in(namespace: &str) -> String {
    format!("/apis/{VM_VERSION}/namespaces/{}/limavms", encode(namespace))
}

/// What mirrors the container engine in one namespace: `containers`, `images` or `volumes`.
pub fn mirrors_in(namespace: &str, plural: &str) -> String {
    format!("/apis/{}/v1alpha1/namespaces/{}/{plural}", rdd_types::containers::GROUP, encode(namespace))
}

/// The ConfigMaps of one namespace.
pub fn config_maps_in(namespace: &str) -> String {
    format!("/api/v1/namespaces/{}/configmaps", encode(namespace))
}

/// One object of a collection.
pub fn object(collection: &str, name: &str) -> String {
    format!("{collection}/{}", encode(name))
}

/// The query that leaves one name of a collection.
pub fn only(name: &str) -> String {
    let escaped = name.replace('\\', "\\\\").replace(',', "\\,").replace('=', "\\=");
    format!("fieldSelector=metadata.name%3D{}", encode(&escaped))
}

/// A text that may be anything, as one piece of a URL. A dot alone would be a step in the path.
fn encode(text: &str) -> String {
    let plain = |byte: u8| {
        byte.is_ascii_alphanumeric()
            || matches!(byte, b'-' | b'_' | b'~')
            || (byte == b'.' && !text.trim_matches('.').is_empty())
    };
    text.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

/// Types and reasons of conditions.
pub mod conditions {
    use rdd_types::reasons::{ConditionType, Reason};

    /// The App is as it should be.
    pub const SETTLED: &str = ConditionType::Settled.as_str();
    /// The machine exists.
    pub const CREATED: &str = ConditionType::Created.as_str();
    /// The machine runs.
    pub const RUNNING: &str = ConditionType::Running.as_str();
    /// The engine answers and is mirrored.
    pub const ENGINE_READY: &str = ConditionType::ContainerEngineReady.as_str();
    /// The cluster can be used.
    pub const KUBERNETES_READY: &str = ConditionType::KubernetesReady.as_str();
    /// The reason of a machine that was stopped.
    pub const STOPPED: &str = Reason::Stopped.as_str();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_those_of_the_kinds() {
        use rdd_types::{Kind, VERSION, app::App, lima::LimaVM, names as types};
        let path =
            |definition: &rdd_types::Definition| format!("/apis/{}/{VERSION}/{}", definition.group, definition.plural);
        assert_eq!((path(&App::DEFINITION), path(&LimaVM::DEFINITION)), (APPS.to_owned(), VMS.to_owned()));
        assert!(APP_DEFINITION.ends_with(&format!("/{}", App::DEFINITION.crd_name)));
        assert_eq!(APPS, format!("/apis/{APP_VERSION}/apps"));
        assert_eq!(VMS, format!("/apis/{VM_VERSION}/limavms"));
        let discovery = names_of(types::SYSTEM_NAMESPACE, types::DISCOVERY_CONFIG_MAP);
        assert_eq!(DISCOVERY, discovery);
    }

    fn names_of(namespace: &str, name: &str) -> String {
        object(&config_maps_in(namespace), name)
    }

    #[test]
    fn a_name_is_one_piece_of_the_path_whatever_is_in_it() {
        for (name, path) in [
            ("rd", "/x/rd"),
            ("a.b-c", "/x/a.b-c"),
            ("../secrets", "/x/..%2Fsecrets"),
            ("..", "/x/%2E%2E"),
            ("a?b#c", "/x/a%3Fb%23c"),
            ("ü", "/x/%C3%BC"),
        ] {
            assert_eq!(object("/x", name), path);
        }
        assert_eq!(only("rd"), "fieldSelector=metadata.name%3Drd");
        assert_eq!(only("a,b"), "fieldSelector=metadata.name%3Da%5C%2Cb");
    }
}
