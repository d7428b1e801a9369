//! Synchronizes one volume with its mirror.

use rdd_docker::map::volume_name;
use rdd_runtime::Error;

use super::{
    desk::{Desk, engine_error},
    mirror::{Mirror as _, has_finalizer, is_deleting},
    queue::Look,
};

/// Synchronizes one volume: deletes it if its mirror is being deleted, removes the mirror if it is gone, and updates the mirror
/// otherwise.
pub(super) async fn look(desk: &Desk, volume: &str, look: Look) -> Result<(), Error> {
    let name = volume_name(volume);
    let known = desk.known(&desk.mirrors.volumes, &name);
    if let Some(object) = known.as_deref().filter(|object| is_deleting(*object)) {
        if !has_finalizer(object) {
            return Ok(());
        }
        if object.is_ours() {
            desk.remove_thing(desk.engine.remove_volume(volume)).await?;
        }
        return desk.release(object).await;
    }
    if look == Look::Object && known.as_deref().is_some_and(has_finalizer) {
        return Ok(());
    }
    match (desk.engine.volume(volume).await.map_err(engine_error)?, known) {
        (Some(status), known) => desk.put(&name, known.as_deref(), &status).await,
        (None, Some(object)) => desk.remove(&*object).await,
        (None, None) => Ok(()),
    }
}
