//! Letting go of everything that an object owns: found by asking the server what there is, many at a time, metadata only.

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

/// How many requests are under way at the same time. The server commits them together.
const AT_ONCE: usize = 48;
/// How many objects of a kind are listed at a time.
const PAGE: u32 = 1000;
/// How many failures are told of in words.
const TOLD_MAX: usize = 5;

/// What a sweep did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Swept {
    /// Objects of this owner that were there.
    pub found: usize,
    /// Of those, the ones that were already on their way out; what still holds them is their own.
    pub ending: usize,
}

impl Swept {
    /// Nothing of this owner was there any more.
    pub fn is_clean(&self) -> bool {
        self.found == 0
    }
}

/// Deletes what `owner` owns in `namespace`, in every namespaced kind that the server serves: takes `owned-by-*` off, then deletes.
///
/// Objects that have finalizers of their own go when their controllers are done; call it until [`Swept::is_clean`] if that
/// matters. A kind that cannot be listed or an object that cannot be deleted does not keep the others: all of it is tried, and
/// the failures are returned together.
pub async fn owned(client: &Client, owner: &ObjectMeta, namespace: &str) -> Result<Swept, Error> {
    let Some(uid) = owner.uid.as_deref() else { return Err(Error::message("an object without a uid owns nothing")) };
    let kinds = namespaced_kinds(client).await?;
    let lists = kinds.into_iter().map(|kind| list(client, namespace, kind, uid));
    // One stream from the first list to the last deletion: no kind waits for another, and no object for one that hangs.
    let items = stream::iter(lists).buffer_unordered(AT_ONCE).flat_map(stream::iter);
    let mut ended = pin!(items.map(Item::let_go).buffer_unordered(AT_ONCE));
    let (mut swept, mut failures) = (Swept::default(), Vec::new());
    while let Some(end) = ended.next().await {
        swept.found += usize::from(end.found);
        swept.ending += usize::from(end.ending);
        failures.extend(end.failure);
    }
    summary(swept, &failures)
}

/// Something to be let go, or why a kind could not be listed.
enum Item {
    Child(Arc<Listed>, Box<PartialObjectMeta<DynamicObject>>),
    Unlisted(Error),
}

/// The objects of one kind.
struct Listed {
    api: Api<DynamicObject>,
    kind: ApiResource,
}

/// What came of it.
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

/// What the owner has of one kind.
async fn list(client: &Client, namespace: &str, kind: ApiResource, uid: &str) -> Vec<Item> {
    let api = Api::<DynamicObject>::namespaced_with(client.clone(), namespace, &kind);
    match children(&api, uid).await {
        Ok(found) => {
            let of = Arc::new(Listed { api, kind });
            let child = |object| Item::Child(Arc::clone(&of), Box::new(object));
            found.into_iter().map(child).collect()
        }
        // It was taken away while we looked, or cannot be listed like this at all.
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
    let preconditions = Preconditions { uid: object.uid(), resource_version: None };
    let parameters = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::background() };
    match api.delete(&name, &parameters).await {
        // Gone, or gone and replaced by another of the same name.
        Err(error) if is_not_found(&error) || has_code(&error, 409) => Ok(()),
        other => other.map(drop).map_err(|error| told(error, "delete")),
    }
}

/// Runs `each` for all of `items`, a bounded number at a time; the first failure is returned, after all were tried.
pub async fn for_all<T, F: Future<Output = Result<(), Error>>>(
    items: impl IntoIterator<Item = T>,
    each: impl Fn(T) -> F,
) -> Result<(), Error> {
    let ended: Vec<_> = stream::iter(items.into_iter().map(each)).buffer_unordered(AT_ONCE).collect().await;
    stream::iter(ended).try_for_each(|()| async { Ok(()) }).await
}
