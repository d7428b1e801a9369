//! Names and paths of the API objects that the commands use.

use rdd_types::names::{annotation, field_manager, finalizer};
pub use rdd_types::{
    app::{APP, K3S_VERSIONS, NAMESPACE as APP_NAMESPACE, VM as APP_VM},
    lima::TEMPLATE_KEY,
};

/// The kind of the App.
pub const APP_KIND: &str = "App";
/// The API version of the App.
pub const APP_VERSION: &str = "app.rancherdesktop.io/v1alpha1";
/// The collection of Apps.
pub const APPS: &str = "/apis/app.rancherdesktop.io/v1alpha1/apps";
/// The definition (CRD) of the App.
pub const APP_DEFINITION: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/apps.app.rancherdesktop.io";

/// The kind of LimaVMs.
pub const VM_KIND: &str = "LimaVM";
/// The API version of LimaVMs.
pub const VM_VERSION: &str = "lima.rancherdesktop.io/v1alpha1";
/// The LimaVMs of all namespaces.
pub const VMS: &str = "/apis/lima.rancherdesktop.io/v1alpha1/limavms";
/// The annotation on a LimaVM that requests a restart, with any new value.
pub const RESTART_REQUESTED: &str = annotation::RESTART_REQUESTED;
/// The annotation on a LimaVM that requests that its VM is recreated.
pub const RESET_REQUESTED: &str = annotation::RESET_REQUESTED;
/// The finalizer on a LimaVM that the App owns. It keeps others from deleting it.
pub const OWNED_BY_APP: &str = finalizer::OWNED_BY_APP;

/// The ConfigMap in which controller managers register.
pub const DISCOVERY: &str = "/api/v1/namespaces/rdd-system/configmaps/rdd-controller-manager";
/// The annotation on that ConfigMap: the registered controllers are ready.
pub const READY_ANNOTATION: &str = annotation::READY;
/// The controller that mirrors the container engine.
pub const ENGINE_CONTROLLER: &str = "engine";
/// The controller that runs Kubernetes.
pub const KUBERNETES_CONTROLLER: &str = "kubernetes";

/// The field manager of our writes.
pub const FIELD_MANAGER: &str = field_manager::RDD;

/// The LimaVMs of one namespace.
pub fn vms_in(namespace: &str) -> String {
    format!("/apis/{VM_VERSION}/namespaces/{}/limavms", encode(namespace))
}

/// The mirrors of one kind in one namespace: `containers`, `images` or `volumes`.
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

/// The query parameter that selects one name of a collection.
pub fn only(name: &str) -> String {
    // A field selector escapes these three characters with a backslash.
    let escaped = name.replace('\\', "\\\\").replace(',', "\\,").replace('=', "\\=");
    format!("fieldSelector=metadata.name%3D{}", encode(&escaped))
}

/// Percent-encodes a text as one segment of a URL path. `.` and `..` are encoded too, as they would be steps in the path.
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
    pub use rdd_types::conditions::{CONTAINER_ENGINE_READY, CREATED, KUBERNETES_READY, RUNNING, SETTLED};

    /// The reason of a VM that was stopped.
    pub const STOPPED: &str = rdd_types::conditions::Reason::Stopped.as_str();
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
