//! Deletes everything that an object owns: asks the server for all its kinds, lists metadata only, and deletes concurrently.

use std::{pin::pin, sync::Arc};

use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{
    Api, Client, ResourceExt,
    api::{ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, Preconditions},
    core::PartialObjectMeta,
    discovery::{Discovery, Scope, verbs},
};
use serde_json::json;

use crate::{
    Error,
    error::{has_code, is_not_found},
    finalizer::{FIELD_MANAGER, OWNED_BY},
};

/// How many requests run at the same time. The server commits concurrent writes together.
const AT_ONCE: usize = 48;
/// The page size of lists.
const PAGE: u32 = 1000;
/// How many failures the error describes.
const TOLD_MAX: usize = 5;

/// The outcome of a sweep.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Swept {
    /// How many objects of this owner were found.
    pub found: usize,
    /// How many of these were already being deleted; other finalizers still hold them.
    pub ending: usize,
}

impl Swept {
    /// Whether no object of this owner was left.
    pub fn is_clean(&self) -> bool {
        self.found == 0
    }
}

/// Deletes the objects that `owner` owns in `namespace`, in every namespaced kind that the server serves: removes their `owned-by-*`
/// finalizers, then deletes them in the background.
///
/// Objects with other finalizers disappear when the controllers of those are done. A caller that needs an empty namespace calls this
/// until [`Swept::is_clean`].
///
/// # Errors
/// A kind that cannot be listed or an object that cannot be deleted does not stop the others. All failures are returned as one error.
pub async fn owned(client: &Client, owner: &ObjectMeta, namespace: &str) -> Result<Swept, Error> {
    let Some(uid) = owner.uid.as_deref() else { return Err(Error::message("an object without a uid owns nothing")) };
    let kinds = namespaced_kinds(client).await?;
    let lists = kinds.into_iter().map(|kind| list(client, namespace, kind, uid));
    // One stream from the first list to the last deletion, so that no kind and no object waits for another that hangs.
    let items = stream::iter(lists).buffer_unordered(AT_ONCE).flat_map(stream::iter);
    let mut ended = pin!(items.map(Item::let_go).buffer_unordered(AT_ONCE));
    // Failures are collected, so that one object cannot stop the sweep.
    let (mut swept, mut failures) = (Swept::default(), Vec::new());
    while let Some(end) = ended.next().await {
        swept.found += usize::from(end.found);
        swept.ending += usize::from(end.ending);
        failures.extend(end.failure);
    }
    summary(swept, &failures)
}

/// An object to delete, or the reason why a kind could not be listed.
enum Item {
    Child(Arc<Listed>, Box<PartialObjectMeta<DynamicObject>>),
    Unlisted(Error),
}

/// The API of one kind.
struct Listed {
    api: Api<DynamicObject>,
    kind: ApiResource,
}

/// The outcome for one item.
#[derive(Default)]
struct End {
    found: bool,
    ending: bool,
    failure: Option<Error>,
}

impl Item {
    async fn let_go(self) -> End {
        match self {
            Self::Unlisted(error) => End { failure: Some(error), ..End::default() },
            Self::Child(of, object) => End {
                found: true,
                ending: object.metadata.deletion_timestamp.is_some(),
                failure: let_go(&of.api, &of.kind, &object).await.err(),
            },
        }
    }
}

/// Lists the objects of one kind that the owner owns.
async fn list(client: &Client, namespace: &str, kind: ApiResource, uid: &str) -> Vec<Item> {
    let api = Api::<DynamicObject>::namespaced_with(client.clone(), namespace, &kind);
    match children(&api, uid).await {
        Ok(found) => {
            let of = Arc::new(Listed { api, kind });
            let child = |object| Item::Child(Arc::clone(&of), Box::new(object));
            found.into_iter().map(child).collect()
        }
        // 404: the kind was removed since discovery. 405: the kind cannot be listed.
        Err(error) if is_not_found(&error) || has_code(&error, 405) => Vec::new(),
        Err(error) => vec![Item::Unlisted(Error::from(error).context(format!("list {}", kind.plural)))],
    }
}

fn summary(swept: Swept, failures: &[Error]) -> Result<Swept, Error> {
    if failures.is_empty() {
        return Ok(swept);
    }
    let told = failures.iter().take(TOLD_MAX).map(|error| rdd_stdx::chain::Chain(error).to_string());
    let told = told.collect::<Vec<_>>().join("; ");
    Err(Error::message(format!("{} of {} owned objects could not be let go: {told}", failures.len(), swept.found)))
}

async fn namespaced_kinds(client: &Client) -> Result<Vec<ApiResource>, Error> {
    let found = Discovery::new(client.clone()).run_aggregated().await;
    let found = found.map_err(|error| Error::from(error).context("ask the server what it serves"))?;
    let resources = found.groups().flat_map(kube::discovery::ApiGroup::recommended_resources);
    let fit = resources.filter(|(_, about)| {
        about.scope == Scope::Namespaced
            && about.supports_operation(verbs::LIST)
            && about.supports_operation(verbs::DELETE)
    });
    Ok(fit.map(|(resource, _)| resource).collect())
}

async fn children(api: &Api<DynamicObject>, uid: &str) -> Result<Vec<PartialObjectMeta<DynamicObject>>, kube::Error> {
    let mut parameters = ListParams::default().limit(PAGE);
    let mut children = Vec::new();
    loop {
        let page = api.list_metadata(&parameters).await?;
        let is_child =
            |object: &PartialObjectMeta<DynamicObject>| object.owner_references().iter().any(|owner| owner.uid == uid);
        children.extend(page.items.into_iter().filter(is_child));
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => parameters = parameters.continue_token(&token),
            None => return Ok(children),
        }
    }
}

async fn let_go(
    api: &Api<DynamicObject>,
    kind: &ApiResource,
    object: &PartialObjectMeta<DynamicObject>,
) -> Result<(), Error> {
    let name = object.name_any();
    let told = |error: kube::Error, what: &str| Error::from(error).context(format!("{what} {} {name}", kind.kind));
    let kept: Vec<_> = object.finalizers().iter().filter(|finalizer| !finalizer.starts_with(OWNED_BY)).collect();
    // Fails with a conflict if the object changed since the list: the caller sweeps again.
    if kept.len() < object.finalizers().len() {
        let patch = json!({"metadata": {
            "finalizers": kept, "resourceVersion": object.resource_version(), "uid": object.uid(),
        }});
        let parameters = PatchParams::apply(FIELD_MANAGER);
        match api.patch_metadata(&name, &parameters, &Patch::Merge(&patch)).await {
            Err(error) if is_not_found(&error) => return Ok(()),
            other => other.map_err(|error| told(error, "let go of"))?,
        };
    }
    if object.metadata.deletion_timestamp.is_some() {
        return Ok(());
    }
    // An object of the same name with another uid belongs to another owner.
    let preconditions = Preconditions { uid: object.uid(), resource_version: None };
    let parameters = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::background() };
    match api.delete(&name, &parameters).await {
        // Already deleted, or replaced by another object of the same name.
        Err(error) if is_not_found(&error) || has_code(&error, 409) => Ok(()),
        other => other.map(drop).map_err(|error| told(error, "delete")),
    }
}

/// Runs `each` for all `items` concurrently, up to a limit. Tries all of them and returns the first failure.
pub async fn for_all<T, F: Future<Output = Result<(), Error>>>(
    items: impl IntoIterator<Item = T>,
    each: impl Fn(T) -> F,
) -> Result<(), Error> {
    let ended: Vec<_> = stream::iter(items.into_iter().map(each)).buffer_unordered(AT_ONCE).collect().await;
    stream::iter(ended).try_for_each(|()| async { Ok(()) }).await
}
