//! Runs synchronizations concurrently, each isolated from the failures of the others.

use std::{
    collections::HashMap,
    panic::AssertUnwindSafe,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use futures::FutureExt;
use kube::ResourceExt;
use rdd_docker::map::{image_name, volume_name};
use rdd_runtime::Error;
use rdd_stdx::{
    chain::Chain,
    task::{Ended, Group, panic_message},
};

use super::{
    container,
    desk::{Desk, engine_error},
    image,
    mirror::{self, Mirror, has_finalizer, is_deleting, is_held},
    queue::{Item, Kind, Look, Outcome},
    volume,
};
/// How many synchronizations run at the same time. The server commits their writes together.
pub(super) const AT_ONCE: usize = 32;
/// How long a synchronization may take: a stop waits as long as the container's stop timeout.
const PATIENCE: Duration = Duration::from_mins(6);

/// The result of one synchronization.
pub(super) struct Attempt {
    item: Item,
    result: Result<(), Error>,
}

/// The running synchronizations, and the last logged error of each failing item.
#[derive(Debug, Default)]
pub(super) struct Work {
    running: Group<Attempt>,
    told: Mutex<HashMap<Item, String>>,
}

impl std::fmt::Debug for Attempt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Attempt").field("item", &self.item).finish_non_exhaustive()
    }
}

impl Work {
    pub(super) fn has_room(&self) -> bool {
        self.running.len() < AT_ONCE
    }

    pub(super) fn is_idle(&self) -> bool {
        self.running.is_empty()
    }

    pub(super) fn begin(&mut self, desk: &Arc<Desk>, item: Item, look: Look) {
        let desk = Arc::clone(desk);
        self.running.spawn("look", async move {
            let looking = tokio::time::timeout(PATIENCE, at(&desk, &item, look));
            let result = match AssertUnwindSafe(looking).catch_unwind().await {
                Ok(Ok(result)) => result,
                Ok(Err(_)) => Err(Error::TooLong(PATIENCE)),
                Err(panic) => Err(Error::Panicked(panic_message(&*panic))),
            };
            Attempt { item, result }
        });
    }

    pub(super) async fn next(&mut self) -> Option<Ended<Attempt>> {
        self.running.next().await
    }

    /// Gives the item back to the queue, and logs a failure once per error.
    pub(super) fn note(&self, desk: &Desk, ended: Ended<Attempt>) {
        // Panics are caught inside, and single tasks are never cancelled.
        let Ok(Attempt { item, result }) = ended.outcome else { return };
        let outcome = match &result {
            Ok(()) => Outcome::Done,
            Err(error) if is_in_use(error) => Outcome::InUse,
            Err(_) => Outcome::Failed,
        };
        let attempt = desk.link.queue().done(&item, outcome);
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        match result {
            Ok(()) => {
                if told.remove(&item).is_some() {
                    tracing::info!(object = %item, "works again");
                }
            }
            // Another client wrote at the same time. The next synchronization sees the newer object.
            Err(error) if error.is_conflict() && attempt < 6 => {
                tracing::debug!(object = %item, error = %Chain(&error), attempt, "changed meanwhile");
            }
            Err(error) => {
                let text = Chain(&error).to_string();
                if told.insert(item.clone(), text.clone()).as_ref() == Some(&text) {
                    tracing::debug!(object = %item, error = text, attempt, "still fails");
                } else {
                    tracing::warn!(object = %item, error = text, attempt, "failed, and is tried again");
                }
            }
        }
    }
}

/// Whether the engine refused the operation because another thing uses this one.
fn is_in_use(error: &Error) -> bool {
    // The engine's error is wrapped in the errors of the step and the operation.
    let mut next: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = next {
        if error.downcast_ref::<rdd_docker::Error>().is_some_and(rdd_docker::Error::is_conflict) {
            return true;
        }
        next = error.source();
    }
    false
}

async fn at(desk: &Desk, item: &Item, look: Look) -> Result<(), Error> {
    match item {
        Item::Container(id) => container::look(desk, id, look).await,
        Item::Image(id) => image::look(desk, id, look).await,
        Item::Volume(name) => volume::look(desk, name, look).await,
        Item::Namespace => look_at_namespace(desk).await,
        Item::Nameless(Kind::Image, name) => let_go(desk, desk.known(&desk.mirrors.images, name).as_deref()).await,
        Item::Nameless(Kind::Volume, name) => let_go(desk, desk.known(&desk.mirrors.volumes, name).as_deref()).await,
    }
}

/// Releases a mirror without the name of its thing, so that nothing is deleted from the engine.
async fn let_go<K: Mirror>(desk: &Desk, known: Option<&K>) -> Result<(), Error> {
    match known.filter(|object| is_deleting(*object) && has_finalizer(*object)) {
        Some(object) => desk.release(object).await,
        None => Ok(()),
    }
}

/// Creates the container namespace if it does not exist. An object that another client created stays as it is.
async fn look_at_namespace(desk: &Desk) -> Result<(), Error> {
    let known = desk.mirrors.namespaces.get(&desk.key(rdd_types::containers::MOBY));
    match known {
        Some(_) => Ok(()),
        None => desk.cx.step("create-mirror", mirror::create_namespace(&desk.cx, &desk.namespace)).await,
    }
}

/// Enqueues everything that the engine and the mirror have; returns when each was attempted once.
pub(super) async fn everything(desk: &Desk) -> Result<(), Error> {
    let (containers, images, volumes) =
        tokio::try_join!(desk.engine.containers(), desk.engine.images(), desk.engine.volumes())
            .map_err(engine_error)?;
    // After the lists of the engine: a thing that disappears in between is found to be gone.
    let mirrored = mirrored(desk);
    remove_strays(desk, &images, &volumes).await?;
    let queue = desk.link.queue();
    queue.add_all(
        std::iter::once(Item::Namespace)
            .chain(containers.into_iter().map(Item::Container))
            .chain(images.into_iter().map(|image| Item::Image(image.id)))
            .chain(volumes.into_iter().map(|volume| Item::Volume(volume.name)))
            .chain(mirrored),
    );
    queue.attempted().await;
    Ok(())
}

/// The things of all mirrors in the namespace.
fn mirrored(desk: &Desk) -> Vec<Item> {
    let mirrors = &desk.mirrors;
    let containers = mirrors.containers.in_namespace(&desk.namespace).into_iter();
    let containers = containers.filter(|object| is_held(&**object)).map(|object| Item::Container(object.name_any()));
    let images = mirrors.images.in_namespace(&desk.namespace).into_iter();
    let images = images.filter(|object| is_held(&**object));
    let images = images.filter_map(|object| object.status.as_ref().map(|status| Item::Image(status.id.clone())));
    let volumes = mirrors.volumes.in_namespace(&desk.namespace).into_iter();
    let volumes = volumes.filter(|object| is_held(&**object));
    let volumes = volumes.filter_map(|object| object.status.as_ref().map(|status| Item::Volume(status.name.clone())));
    let named = |item: &Item| !matches!(item, Item::Image(name) | Item::Volume(name) if name.is_empty());
    containers.chain(images).chain(volumes).filter(named).collect()
}

/// Removes mirrors without a status whose thing is gone. No other item refers to them.
async fn remove_strays(
    desk: &Desk,
    images: &[rdd_docker::ImageListed],
    volumes: &[rdd_types::containers::VolumeStatus],
) -> Result<(), Error> {
    let strays: Vec<_> = desk.mirrors.images.in_namespace(&desk.namespace);
    let strays: Vec<_> = strays.into_iter().filter(|object| object.status.is_none() && object.is_ours()).collect();
    if !strays.is_empty() {
        let names: std::collections::HashSet<String> = images
            .iter()
            .flat_map(|image| {
                let tags = image.tags.iter().map(|tag| image_name(&image.id, Some(tag)));
                let none = image.tags.is_empty().then(|| image_name(&image.id, None));
                tags.chain(none).collect::<Vec<_>>()
            })
            .collect();
        for object in strays.iter().filter(|object| !names.contains(&object.name_any())) {
            desk.remove(&**object).await?;
        }
    }
    let strays: Vec<_> = desk.mirrors.volumes.in_namespace(&desk.namespace);
    let strays: Vec<_> = strays.into_iter().filter(|object| object.status.is_none() && object.is_ours()).collect();
    for object in strays {
        let is_one = |volume: &rdd_types::containers::VolumeStatus| volume_name(&volume.name) == object.name_any();
        if !volumes.iter().any(is_one) {
            desk.remove(&*object).await?;
        }
    }
    Ok(())
}
