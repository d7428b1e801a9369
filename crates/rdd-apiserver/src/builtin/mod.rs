//! The built-in resources: registers the kinds of `rdd-builtin` with their storage, verbs and subresources.

mod events;
mod kind;
mod reviews;
mod table;

use std::{fmt, sync::Arc, time::Duration};

use rdd_builtin::types;
use rdd_stdx::clock::SharedClock;

pub use self::{
    kind::BuiltinKind,
    reviews::{Reviewed, TokenReviewer},
};
use self::{
    reviews::{AccessReview, RulesReview, SelfReview, TokenReview},
    table::{RESOURCES, Row},
};
use crate::{
    registry::{Answerer, Backing, Kind, Manners, Part, Question, ResourceDef, Stored, SubresourceDef, VersionDef},
    state,
};

/// The only version of all built-in kinds.
const VERSION: &str = "v1";
/// The lifetime of Events, as upstream's default.
const EVENT_TTL: Duration = Duration::from_secs(3600);

/// A function that wraps a kind in another one.
pub type WrapKind = dyn FnOnce(Arc<dyn Kind>) -> Arc<dyn Kind>;

/// The dependencies of the built-in resources.
pub struct Parts {
    /// The clock for responses with a timestamp.
    pub clock: SharedClock,
    /// Wraps the generic kind of CustomResourceDefinitions, which decodes, prints and merges them, in one that also validates and
    /// establishes them.
    pub definitions: Box<WrapKind>,
    /// The handler of `serviceaccounts/token`. Without it the subresource does not exist.
    pub tokens: Option<Arc<dyn Question>>,
    /// Authenticates the tokens of TokenReviews.
    pub reviewer: TokenReviewer,
}

impl fmt::Debug for Parts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Parts").field("tokens", &self.tokens).finish_non_exhaustive()
    }
}

/// Creates the definitions of all built-in resources.
pub fn resources(parts: Parts) -> Vec<ResourceDef> {
    let Parts { clock, definitions, tokens, reviewer } = parts;
    let mut definitions = Some(definitions);
    let mut resources = Vec::with_capacity(RESOURCES.len());
    for row in RESOURCES {
        let generic = Arc::new(kind_of(row));
        let kind: Arc<dyn Kind> = match definitions.take_if(|_| row.kind == "CustomResourceDefinition") {
            Some(wrap) => wrap(generic.clone()),
            None => generic.clone(),
        };
        let backing = match answerer(row, &clock, &reviewer) {
            Some(answerer) => Backing::Answered(answerer),
            None => Backing::Stored(storage(row)),
        };
        let subresources = subresources(row, tokens.as_ref());
        resources.push(resource(row, &generic, kind, backing, subresources));
    }
    resources
}

/// Creates the generic kind of a built-in resource.
///
/// # Panics
/// If the kind is not built in.
pub fn generic(group: &str, kind: &str) -> BuiltinKind {
    let row = RESOURCES.iter().find(|row| row.group == group && row.kind == kind);
    kind_of(row.expect("the kind is built in"))
}

fn kind_of(row: &Row) -> BuiltinKind {
    let kind = types::kind(row.group, VERSION, row.kind).expect("every resource has its kind in the table of types");
    BuiltinKind::new(kind, row)
}

/// The storage of a resource. The Events of both groups share one.
fn storage(row: &Row) -> state::Resource {
    let group = if row.group == events::GROUP { "" } else { row.group };
    state::Resource::new(group, row.plural).expect("built-in names are segments of keys")
}

fn answerer(row: &Row, clock: &SharedClock, reviewer: &TokenReviewer) -> Option<Box<dyn Answerer>> {
    let (group, kind) = (row.group, row.kind);
    Some(match (group, kind) {
        ("authentication.k8s.io", "SelfSubjectReview") => Box::new(SelfReview { clock: clock.clone() }),
        ("authentication.k8s.io", "TokenReview") => Box::new(TokenReview { reviewer: reviewer.clone() }),
        ("authorization.k8s.io", "SelfSubjectRulesReview") => Box::new(RulesReview),
        ("authorization.k8s.io", _) => Box::new(AccessReview { kind }),
        _ => return None,
    })
}

fn subresources(row: &Row, tokens: Option<&Arc<dyn Question>>) -> Vec<SubresourceDef> {
    let view =
        |(name, verbs): &(&'static str, &'static [&'static str])| SubresourceDef { name, verbs, part: Part::View };
    let mut subresources: Vec<SubresourceDef> = row.views.iter().map(view).collect();
    if row.kind == "ServiceAccount"
        && let Some(tokens) = tokens
    {
        let part = Part::Question(Arc::clone(tokens));
        subresources.push(SubresourceDef { name: "token", verbs: crate::registry::CREATE_VERBS, part });
    }
    subresources
}

fn resource(
    row: &Row,
    generic: &BuiltinKind,
    kind: Arc<dyn Kind>,
    backing: Backing,
    subresources: Vec<SubresourceDef>,
) -> ResourceDef {
    let owned = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    let is_event = row.kind == "Event";
    let stored =
        if row.group == events::GROUP { Stored::Converted(Box::new(events::Conversion)) } else { Stored::Same };
    ResourceDef {
        group: row.group.to_owned(),
        plural: row.plural.to_owned(),
        singular: row.kind.to_lowercase(),
        kind: row.kind.to_owned(),
        list_kind: format!("{}List", row.kind),
        short_names: owned(row.short_names),
        categories: owned(row.categories),
        namespaced: row.namespaced,
        verbs: row.verbs,
        backing,
        versions: vec![VersionDef { name: VERSION.to_owned(), kind, deprecation: None, stored, subresources }],
        storage_version: VERSION.to_owned(),
        manners: Manners {
            create_on_update: generic.strategy().create_on_update,
            unconditional_update: generic.strategy().unconditional_update,
            returns_deleted: row.returns_deleted,
            ttl: is_event.then_some(EVENT_TTL),
            no_dependents: is_event,
            untyped_items: true,
            own_deletion: matches!(row.kind, "Namespace" | "CustomResourceDefinition"),
            orphan_by_default: false,
            // kube-apiserver stores definitions in a version that it no longer serves, and clients compare the hash of it.
            told_storage_version: (row.kind == "CustomResourceDefinition").then_some("v1beta1"),
        },
        custom: None,
    }
}

#[cfg(test)]
mod tests;
