//! Synchronizes one image with its mirrors, one for each tag.

use std::sync::Arc;

use rdd_docker::map::image_name;
use rdd_runtime::Error;
use rdd_types::containers::{Image, ImageStatus};

use super::{
    desk::{Desk, engine_error},
    mirror::{Mirror as _, has_finalizer, is_deleting},
    queue::{Item, Look},
};

/// The prefix of an image ID; a tag cannot have it.
const ID: &str = "sha256:";

/// Synchronizes one image with all its mirrors.
pub(super) async fn look(desk: &Desk, id: &str, look: Look) -> Result<(), Error> {
    if !id.starts_with(ID) {
        // A pull event names the reference that was pulled. Resolve it to the ID, and enqueue that.
        if let Some(found) = desk.engine.image(id).await.map_err(engine_error)? {
            desk.link.queue().add(Item::Image(found.id), Look::Engine);
        }
        return Ok(());
    }
    let known = mirrors(desk, id);
    let deleted = |object: &&Arc<Image>| is_deleting(&***object) && has_finalizer(&***object);
    let has_deleted = known.iter().any(|object| deleted(&object));
    let is_right = |object: &Arc<Image>| has_finalizer(&**object) && !is_deleting(&**object);
    // All mirrors are complete, so a change of an object needs no request to the engine.
    if look == Look::Object && !known.is_empty() && known.iter().all(is_right) {
        return Ok(());
    }
    let mut found = desk.engine.image(id).await.map_err(engine_error)?;
    let mut failure = None;
    for object in known.iter().filter(deleted) {
        let tags = found.iter().flat_map(|found| &found.statuses).map(|status| status.repo_tag.as_deref());
        let ended = delete(desk, object, tags.collect()).await;
        // One mirror that fails does not keep the others from being updated.
        failure = failure.or(ended.err());
    }
    // Deleting a tag changes the image, and may have deleted it.
    if has_deleted {
        found = desk.engine.image(id).await.map_err(engine_error)?;
    }
    let statuses = found.map(|found| found.statuses).unwrap_or_default();
    look_at_losers(desk, id, &statuses);
    for status in &statuses {
        let name = image_name(id, status.repo_tag.as_deref());
        let object = desk.known(&desk.mirrors.images, &name);
        failure = failure.or(desk.put(&name, object.as_deref(), status).await.err());
    }
    for object in known.iter().filter(|object| !deleted(object)) {
        let tag = object.status.as_ref().and_then(|status| status.repo_tag.as_deref());
        if !statuses.iter().any(|status| status.repo_tag.as_deref() == tag) {
            failure = failure.or(desk.remove(&**object).await.err());
        }
    }
    failure.map_or(Ok(()), Err)
}

/// Enqueues the images that had these tags before.
fn look_at_losers(desk: &Desk, id: &str, statuses: &[ImageStatus]) {
    let tags: Vec<&str> = statuses.iter().filter_map(|status| status.repo_tag.as_deref()).collect();
    for loser in desk.tags.note(id, &tags) {
        desk.link.queue().add(Item::Image(loser), Look::Engine);
    }
}

/// The mirrors whose status has this image ID.
fn mirrors(desk: &Desk, id: &str) -> Vec<Arc<Image>> {
    let mut all = desk.mirrors.images.in_namespace(&desk.namespace);
    all.retain(|object| object.status.as_ref().is_some_and(|status| status.id == id));
    all
}

/// Removes the tag of a deleted mirror if the image still has it. The tag may belong to another image by now.
async fn delete(desk: &Desk, object: &Image, tags: Vec<Option<&str>>) -> Result<(), Error> {
    let status = object.status.clone().unwrap_or_default();
    let tag = status.repo_tag.as_deref();
    if object.is_ours() && tags.contains(&tag) {
        desk.remove_thing(desk.engine.remove_image(tag.unwrap_or(&status.id))).await?;
    }
    desk.release(object).await
}
