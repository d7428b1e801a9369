//! Finalizers: `cleanup` holds an object until its controller has cleaned up, `owned-by-<Kind>` holds it until its owner releases it.
//!
//! # Flow
//! - `cleanup`: the runtime adds it before the first reconcile. When the object is deleted, the controller cleans up and removes it.
//! - `owned-by-<Kind>`: the owner creates its child with this finalizer. While it is there, the
//!   [`guard`](crate::admission::guard) refuses to delete the child. To delete it, the owner removes the finalizer, then deletes.
//!
//! # Guarantees
//! A change applies to one object, identified by its uid, never to a later object of the same name. Finalizers that others add at the
//! same time stay: each write is conditional on the resource version and is retried after a conflict.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{
    Client, ResourceExt,
    api::{Patch, PatchParams},
};
use serde_json::json;

use crate::{
    Error, Kind,
    apply::{api_of, name_of, typed},
    error::{has_code, is_not_found},
};

/// The finalizer of the object's own controller.
pub const CLEANUP: &str = "rdd.rancherdesktop.io/cleanup";
/// The prefix of an owner's finalizer; the owner's kind follows.
pub const OWNED_BY: &str = "rdd.rancherdesktop.io/owned-by-";
/// The field manager of the runtime's own updates.
pub(crate) const FIELD_MANAGER: &str = "rdd";
/// How many conflicts with other writers an update survives.
const ATTEMPTS: u32 = 8;

/// The finalizer with which an owner of this kind holds a child.
pub fn owned_by(kind: &str) -> String {
    format!("{OWNED_BY}{kind}")
}

/// The kind of the owner that holds an object, from its `owned-by` finalizer.
pub fn owner_of(metadata: &ObjectMeta) -> Option<&str> {
    metadata.finalizers.iter().flatten().find_map(|finalizer| finalizer.strip_prefix(OWNED_BY))
}

/// Checks that `finalizer` does not give the object a second owner.
///
/// # Errors
/// When `finalizer` is an `owned-by` finalizer and the object has that of another kind.
pub fn check_single_owner(metadata: &ObjectMeta, finalizer: &str) -> Result<(), Error> {
    match (owner_of(metadata), finalizer.strip_prefix(OWNED_BY)) {
        (Some(known), Some(new)) if known != new => Err(Error::message(format!(
            "cannot add owned-by-{new} finalizer: already owned by {known} (multi-owner not supported)"
        ))),
        _ => Ok(()),
    }
}

/// Adds a finalizer, unless the object has it or is being deleted; returns the current object.
///
/// # Errors
/// When the object is gone, when it already has another owner, or when the API refuses the write.
pub async fn ensure<K: Kind>(client: &Client, object: &K, finalizer: &str) -> Result<K, Error> {
    let changed = change(client, object, |finalizers, metadata| {
        check_single_owner(metadata, finalizer)?;
        if metadata.deletion_timestamp.is_some() || finalizers.iter().any(|known| known == finalizer) {
            return Ok(false);
        }
        finalizers.push(finalizer.to_owned());
        Ok(true)
    });
    changed.await?.ok_or_else(|| Error::message(format!("{} is gone", name_of(object))))
}

/// Removes a finalizer. Returns `None` if the object is gone, whether before the write or because of it.
///
/// # Errors
/// When the API refuses the write, or conflicts persist over all retries.
pub async fn release<K: Kind>(client: &Client, object: &K, finalizer: &str) -> Result<Option<K>, Error> {
    change(client, object, |finalizers, _| {
        let before = finalizers.len();
        finalizers.retain(|known| known != finalizer);
        Ok(finalizers.len() != before)
    })
    .await
}

/// Updates the finalizers of exactly this object, with retries against concurrent writers.
async fn change<K: Kind>(
    client: &Client,
    object: &K,
    decide: impl Fn(&mut Vec<String>, &ObjectMeta) -> Result<bool, Error>,
) -> Result<Option<K>, Error> {
    let (api, name) = (api_of::<K>(client, object.namespace().as_deref()), object.name_any());
    let mut current = object.clone();
    let mut last = None;
    for _ in 0..ATTEMPTS {
        let mut finalizers = current.finalizers().to_vec();
        if !decide(&mut finalizers, current.meta())? {
            return Ok(Some(current));
        }
        // The resource version protects the finalizers of others; the uid makes the write fail on a recreated object.
        let patch = json!({"metadata": {
            "finalizers": finalizers, "resourceVersion": current.resource_version(), "uid": current.uid(),
        }});
        match api.patch(&name, &PatchParams::apply(FIELD_MANAGER), &Patch::Merge(&patch)).await {
            Ok(changed) => return typed(changed).map(Some),
            Err(error) if is_not_found(&error) => return Ok(None),
            Err(error) if has_code(&error, 409) => last = Some(error),
            Err(error) => {
                return Err(Error::from(error).context(format!("change the finalizers of {}", name_of(object))));
            }
        }
        match api.get_opt(&name).await? {
            // An object of the same name with another uid is a different object.
            Some(newer) if newer.metadata.uid == object.uid() => current = typed(newer)?,
            _ => return Ok(None),
        }
    }
    let what = format!("change the finalizers of {}", name_of(object));
    Err(last.map_or_else(|| Error::message(&what), |error| Error::from(error).context(&what)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_has_at_most_one_owner() {
        let metadata =
            ObjectMeta { finalizers: Some(vec![CLEANUP.to_owned(), owned_by("App")]), ..ObjectMeta::default() };
        assert_eq!(owner_of(&metadata), Some("App"));
        check_single_owner(&metadata, &owned_by("App")).unwrap();
        check_single_owner(&metadata, CLEANUP).unwrap();
        let refused = check_single_owner(&metadata, &owned_by("LimaVM")).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "cannot add owned-by-LimaVM finalizer: already owned by App (multi-owner not supported)"
        );
    }
}
