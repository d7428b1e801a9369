//! Server-side apply, one field owner per writer.

use kube::{
    Api, Client, ResourceExt,
    api::{ApiResource, DynamicObject, Patch, PatchParams},
};
use serde::Serialize;
use serde_json::{Value, json};

use crate::{Error, Kind};

/// The API of a kind, in a namespace or in none.
pub fn api_of<K: Kind>(client: &Client, namespace: Option<&str>) -> Api<DynamicObject> {
    let resource = ApiResource::erase::<K>(&());
    match namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    }
}

/// As the type that it is.
pub(crate) fn typed<K: Kind>(object: DynamicObject) -> Result<K, Error> {
    object
        .try_parse()
        .map_err(|error| Error::because(format!("read the {} that the server returned", K::kind(&())), error))
}

/// Applies `status` to `object` as `manager`, over what others say about the same fields.
pub async fn status<K: Kind>(client: &Client, manager: &str, object: &K, status: &impl Serialize) -> Result<K, Error> {
    let status = serde_json::to_value(status).map_err(|error| Error::because("write a status as JSON", error))?;
    let mut body = identity(object);
    body["status"] = status;
    let api = api_of::<K>(client, object.namespace().as_deref());
    let parameters = PatchParams::apply(manager).force();
    let applied = api.patch_status(&object.name_any(), &parameters, &Patch::Apply(&body)).await;
    typed(applied.map_err(|error| Error::from(error).context(format!("apply the status of {}", name_of(object))))?)
}

/// Applies `object` as `manager`, over what others say about the same fields. It is made if it is not there.
pub async fn object<K: Kind + Serialize>(client: &Client, manager: &str, object: &K) -> Result<K, Error> {
    let mut body = serde_json::to_value(object).map_err(|error| Error::because("write an object as JSON", error))?;
    body["apiVersion"] = K::api_version(&()).into();
    body["kind"] = K::kind(&()).into();
    if let Some(metadata) = body["metadata"].as_object_mut() {
        // What the server owns cannot be applied.
        for field in ["managedFields", "creationTimestamp", "generation", "resourceVersion", "selfLink"] {
            metadata.remove(field);
        }
    }
    let api = api_of::<K>(client, object.namespace().as_deref());
    let parameters = PatchParams::apply(manager).force();
    let applied = api.patch(&object.name_any(), &parameters, &Patch::Apply(&body)).await;
    typed(applied.map_err(|error| Error::from(error).context(format!("apply {}", name_of(object))))?)
}

/// What names the object, and this one only: with its uid, nothing is applied to a namesake that took its place.
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

/// `LimaVM/rdd/rd`
pub(crate) fn name_of<K: Kind>(object: &K) -> String {
    format!("{}/{}", K::kind(&()), crate::Key::of(object))
}
