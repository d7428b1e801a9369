//! `deletecollection`: deletes each object that a list would show.

use std::{future::ready, sync::Arc};

use futures_util::{StreamExt, TryStreamExt, stream};
use rdd_meta::{
    Status,
    options::{DeleteOptions, ListOptions},
};

use super::{
    Api, Context, Target,
    delete::delete_as,
    error,
    list::{Listed, listed},
    selection,
};
use crate::state::Object;

/// How many deletes run at the same time.
const AT_ONCE: usize = 32;

/// Deletes each object that the validated options select, and returns the objects as they were: one page, if there is a limit.
/// An object that is already gone is not an error. Any other error stops the deletion; what is deleted by then stays deleted.
pub async fn delete_collection(
    api: &Api,
    target: &Target,
    context: &Context,
    options: &DeleteOptions,
    list: &ListOptions,
) -> Result<Listed, Status> {
    selection::check_fields(target, &list.field_selector)?;
    let found = listed(api, target, &exactly(list)).await?;
    let deletions = found.objects.iter().cloned().map(|object| delete_one(api, target, context, options, object));
    // The store commits concurrent deletes in one batch.
    stream::iter(deletions).buffer_unordered(AT_ONCE).try_for_each(|()| ready(Ok(()))).await?;
    Ok(found)
}

/// A resourceVersion without resourceVersionMatch means exactly that version: upstream deletes page by page, and all pages are
/// of one version.
fn exactly(list: &ListOptions) -> ListOptions {
    let mut list = list.clone();
    let is_plain = list.resource_version_match.is_empty() && list.continue_token.is_empty();
    if is_plain && !matches!(list.resource_version.as_str(), "" | "0") {
        "Exact".clone_into(&mut list.resource_version_match);
    }
    list
}

async fn delete_one(
    api: &Api,
    target: &Target,
    context: &Context,
    options: &DeleteOptions,
    object: Arc<Object>,
) -> Result<(), Status> {
    if tokio::time::Instant::now() >= context.deadline {
        return Err(Status::timeout("not all objects could be deleted in time; those that were stay deleted"));
    }
    let one = Target {
        namespace: object.namespace().map(str::to_owned),
        name: Some(object.name().to_owned()),
        ..target.clone()
    };
    match delete_as(api, &one, context, options, true).await {
        Err(status) if error::is_not_found(&status) => Ok(()),
        other => other.map(drop),
    }
}
