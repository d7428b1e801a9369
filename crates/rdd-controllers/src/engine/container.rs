//! Synchronizes one container with its mirror.

use rdd_docker::map::is_container_name;
use rdd_runtime::Error;

use super::{
    action,
    desk::{Desk, engine_error},
    intent,
    mirror::{Mirror as _, has_finalizer, is_deleting},
    queue::Look,
};

/// Synchronizes one container: deletes it if its mirror is being deleted, removes the mirror if it is gone, updates the mirror otherwise,
/// and then handles a pending request.
pub(super) async fn look(desk: &Desk, id: &str, look: Look) -> Result<(), Error> {
    let known = desk.known(&desk.mirrors.containers, id);
    if let Some(object) = known.as_deref().filter(|object| is_deleting(*object)) {
        if !has_finalizer(object) {
            return Ok(());
        }
        if object.is_ours() {
            desk.remove_thing(desk.engine.remove_container(id)).await?;
        }
        return desk.release(object).await;
    }
    // A change of the object only needs the engine if the mirror is incomplete or has a request.
    let is_needed = look == Look::Engine
        || known.as_deref().is_none_or(|object| !has_finalizer(object) || intent::is_pending(object));
    // Users can create Containers with any name; only a container ID can be looked up.
    if !is_needed || !is_container_name(id) {
        return Ok(());
    }
    let Some(found) = desk.engine.container(id).await.map_err(engine_error)? else {
        return match &known {
            Some(object) => desk.remove(&**object).await,
            None => Ok(()),
        };
    };
    desk.put(id, known.as_deref(), &found.status).await?;
    match desk.known(&desk.mirrors.containers, id) {
        Some(object) if intent::is_pending(&object) => action::attend(desk, &object, found).await,
        _ => Ok(()),
    }
}
