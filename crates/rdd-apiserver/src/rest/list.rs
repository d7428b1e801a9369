//! `list`: the objects of a collection as of one revision, at once or in pages.

use std::sync::Arc;

use http::request::Parts;
use rdd_meta::{
    Status,
    continue_token::ContinueToken,
    options::{ListOptions, ListStart, ListVersion},
    resource_version,
};
use rdd_store::Revision;

use super::{Api, Target, get::REVISION_WAIT, selection};
use crate::{
    offload,
    represent::{self, Encoding, ListMetadata},
    respond::Response,
    state::{self, Object, Page, RevisionWant},
};

/// Objects of a collection, and what the list says of itself.
#[derive(Debug)]
pub struct Listed {
    /// What the list says of itself.
    pub metadata: ListMetadata,
    /// The objects, in the order of their keys.
    pub objects: Vec<Arc<Object>>,
}

/// Answers with the objects that the query selects.
pub async fn list(api: &Api, target: &Target, head: &Parts) -> Result<Response, Status> {
    let mut options = selection::options(head)?;
    let representation = represent::negotiate(api, target, head)?;
    selection::complete(target, &mut options)?;
    let Listed { metadata, objects } = listed(api, target, &options).await?;
    if representation.encoding != (Encoding::Json { pretty: false }) {
        offload::announce(objects.iter().map(|object| object.wire().len()).sum()).await;
    }
    represent::list(&representation, target, &metadata, objects)
}

/// The objects that checked options select: one page of them, if they have a limit.
pub async fn listed(api: &Api, target: &Target, options: &ListOptions) -> Result<Listed, Status> {
    let start = options.list_start()?;
    let scope = target.scope()?;
    let want = match start.version {
        ListVersion::Latest => RevisionWant::Latest,
        ListVersion::Any => RevisionWant::Any,
        ListVersion::NotOlderThan(version) => RevisionWant::NotOlderThan(Revision(version)),
        ListVersion::Exact(version) => RevisionWant::Exact(Revision(version)),
    };
    if selection::needs_content(options) {
        // Every object of the collection is parsed.
        offload::announce(offload::UNBOUNDED).await;
    }
    let filter = selection::filter(target, options);
    let prefix = prefix(target);
    let absolute = start.key.as_ref().map(|key| format!("{prefix}{key}"));
    let wait = REVISION_WAIT;
    let page = match single(target, options, &start) {
        Some(key) => {
            let one = state::ListOptions { want, limit: Some(1), start: Some(key.as_str()), filter: None, wait };
            let page = api.state.list(&scope, one).await;
            page.map(|page| only(page, &key, filter.as_deref()))
        }
        None => {
            let limit = usize::try_from(options.limit).ok().filter(|limit| *limit > 0);
            // Who takes whatever is at hand gets all of it, as from upstream's cache.
            let limit = limit.filter(|_| start.version != ListVersion::Any);
            let options =
                state::ListOptions { want, limit, start: absolute.as_deref(), filter: filter.as_deref(), wait };
            api.state.list(&scope, options).await
        }
    };
    let page = page.map_err(|error| expired(error, &start))?;
    let next = page.next.as_deref().and_then(|next| next.strip_prefix(&prefix));
    let token = |next: &str| {
        // Within a namespace upstream's tokens begin with a slash; reading them does not mind.
        let start = if target.namespace.is_some() { format!("/{next}") } else { next.to_owned() };
        ContinueToken { resource_version: i64::try_from(page.revision.0).ok(), start }
    };
    let metadata = ListMetadata {
        resource_version: resource_version::format(page.revision.0),
        continue_token: next.map(|next| token(next).encode()).unwrap_or_default(),
        remaining_item_count: page.remaining.filter(|_| next.is_some()),
    };
    Ok(Listed { metadata, objects: page.objects })
}

/// What the keys of the collection begin with.
fn prefix(target: &Target) -> String {
    let resource = target.def.storage().map(state::Resource::prefix).unwrap_or_default();
    match &target.namespace {
        Some(namespace) => format!("{resource}{namespace}/"),
        None => resource.to_owned(),
    }
}

/// The key of the one object that can be selected, if the name says so and where it would be is known: then nobody has to
/// look through all of them.
fn single(target: &Target, options: &ListOptions, start: &ListStart) -> Option<state::Key> {
    let name = options.field_selector.required_value("metadata.name")?;
    if start.key.is_some() || target.def.namespaced && target.namespace.is_none() {
        return None;
    }
    target.def.storage()?.key(target.namespace.as_deref(), name).ok()
}

/// Of a page that begins where the object would be, the object, if it is there and wanted.
fn only(page: Page, key: &state::Key, filter: Option<&(dyn Fn(&Object) -> bool + Send + Sync)>) -> Page {
    let wanted = |object: &Arc<Object>| object.key() == key && filter.is_none_or(|filter| filter(object));
    let objects = page.objects.into_iter().filter(wanted).collect();
    Page { objects, revision: page.revision, remaining: None, next: None }
}

/// A page whose revision is gone can be had inconsistently; anything else cannot.
fn expired(error: state::Error, start: &ListStart) -> Status {
    match (error, &start.key) {
        (state::Error::Expired { .. }, Some(key)) => {
            let token = ContinueToken { resource_version: None, start: key.clone() };
            Status::expired_continue(Some(token.encode()))
        }
        (error, _) => selection::refused(error),
    }
}
