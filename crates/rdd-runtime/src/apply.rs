//! Server-side apply with one field manager per writer.
//!
//! # Guarantees
//! All applies are forced: the writer takes over the fields that it names from any other manager. Fields that the same manager applied
//! before and leaves out now are removed; fields of other managers stay.

use kube::{
    Api, Client, ResourceExt,
    api::{ApiResource, DynamicObject, Patch, PatchParams},
};
use serde::Serialize;
use serde_json::{Value, json};

use crate::{Error, Kind};

/// The untyped API of a kind, in a namespace, or in the cluster scope without one.
pub fn api_of<K: Kind>(client: &Client, namespace: Option<&str>) -> Api<DynamicObject> {
    let resource = ApiResource::erase::<K>(&());
    match namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    }
}

/// Parses the server's answer into its type.
pub(crate) fn typed<K: Kind>(object: DynamicObject) -> Result<K, Error> {
    object
        .try_parse()
        .map_err(|error| Error::because(format!("read the {} that the server returned", K::kind(&())), error))
}

/// Applies `status` to the status subresource of `object` as `manager`, with force. Returns the object as stored.
///
/// # Errors
/// When the API refuses the write, or when `object` has a uid and the stored object has another one.
pub async fn status<K: Kind>(client: &Client, manager: &str, object: &K, status: &impl Serialize) -> Result<K, Error> {
    let status = serde_json::to_value(status).map_err(|error| Error::because("write a status as JSON", error))?;
    let mut body = identity(object);
    body["status"] = status;
    let api = api_of::<K>(client, object.namespace().as_deref());
    let parameters = PatchParams::apply(manager).force();
    let applied = api.patch_status(&object.name_any(), &parameters, &Patch::Apply(&body)).await;
    typed(applied.map_err(|error| Error::from(error).context(format!("apply the status of {}", name_of(object))))?)
}

/// Applies `object` as `manager`, with force, and creates it if it does not exist. Returns the object as stored.
///
/// # Errors
/// When the API refuses the write.
pub async fn object<K: Kind + Serialize>(client: &Client, manager: &str, object: &K) -> Result<K, Error> {
    let mut body = serde_json::to_value(object).map_err(|error| Error::because("write an object as JSON", error))?;
    body["apiVersion"] = K::api_version(&()).into();
    body["kind"] = K::kind(&()).into();
    if let Some(metadata) = body["metadata"].as_object_mut() {
        // The server rejects an apply with `managedFields`; the other fields belong to the server.
        for field in ["managedFields", "creationTimestamp", "generation", "resourceVersion", "selfLink"] {
            metadata.remove(field);
        }
    }
    let api = api_of::<K>(client, object.namespace().as_deref());
    let parameters = PatchParams::apply(manager).force();
    let applied = api.patch(&object.name_any(), &parameters, &Patch::Apply(&body)).await;
    typed(applied.map_err(|error| Error::from(error).context(format!("apply {}", name_of(object))))?)
}

/// The identifying fields of an object. With the uid among them, the server refuses to apply to a recreated object of the same name.
fn identity<K: Kind>(object: &K) -> Value {
    let mut metadata = json!({"name": object.name_any()});
    if let Some(namespace) = object.namespace() {
        metadata["namespace"] = namespace.into();
    }
    if let Some(uid) = object.uid() {
        metadata["uid"] = uid.into();
    }
    json!({"apiVersion": K::api_version(&()), "kind": K::kind(&()), "metadata": metadata})
}

/// Kind, namespace and name for error messages, as in `LimaVM/rdd/rd`.
pub(crate) fn name_of<K: Kind>(object: &K) -> String {
    format!("{}/{}", K::kind(&()), crate::Key::of(object))
}
