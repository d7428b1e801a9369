//! Decides whether a webhook is called for a request, and in which version: rules, selectors, match conditions.

use std::sync::OnceLock;

use rdd_meta::{Status, gvk::GroupResource, labels::LabelSelector, metadata::Metadata};

use super::{
    super::{Attributes, Operation},
    condition::Variables,
    hook::Hook,
    review,
    rule::Asked,
    version::{self, Naming},
};
use crate::{
    registry::Registry,
    state::{Object, Resource, State},
};

/// Matches webhooks against one request.
#[derive(Debug)]
pub(super) struct Chooser<'a> {
    pub(super) state: &'a State,
    pub(super) registry: &'a Registry,
    namespaces: &'a Resource,
    /// Computed when the first webhook needs it. No webhook can change what the equivalents depend on.
    others: OnceLock<Vec<Naming>>,
}

impl<'a> Chooser<'a> {
    /// A matcher for one request.
    pub(super) fn new(state: &'a State, registry: &'a Registry, namespaces: &'a Resource) -> Self {
        Self { state, registry, namespaces, others: OnceLock::new() }
    }

    /// How to call a webhook for a request; `None` if it is not called. A selector or condition that cannot be
    /// evaluated is an error, but only for a webhook whose rules match.
    ///
    /// Mirrors `ShouldCallHook` of upstream's `webhook/generic`.
    pub(super) fn naming(&self, hook: &Hook, attributes: &Attributes<'_>) -> Result<Option<Naming>, Status> {
        let Some(naming) = self.rules(hook, attributes) else { return Ok(None) };
        let (in_namespace, is_object) = (self.namespace(hook, attributes), object(hook, attributes));
        if matches!(in_namespace, Ok(false)) || matches!(is_object, Ok(false)) {
            return Ok(None);
        }
        in_namespace?;
        is_object?;
        Ok(conditions(hook, attributes, &naming)?.then_some(naming))
    }

    fn rules(&self, hook: &Hook, attributes: &Attributes<'_>) -> Option<Naming> {
        let request = Asked::of(attributes);
        if hook.rules.iter().any(|rule| rule.matches(&request)) {
            return Some(Naming::of(attributes));
        }
        if !hook.equivalent {
            return None;
        }
        let others = self.others.get_or_init(|| version::others(&self.registry.served(), attributes));
        // Rules take precedence in their order, then versions, as upstream.
        hook.rules.iter().find_map(|rule| {
            let matches = |other: &&Naming| {
                let (group, version) = (&*other.resource.group, &*other.resource.version);
                rule.matches(&Asked { group, version, resource: &other.resource.resource, ..request })
            };
            others.iter().find(matches).cloned()
        })
    }

    fn namespace(&self, hook: &Hook, attributes: &Attributes<'_>) -> Result<bool, Status> {
        let is_namespace = attributes.resource.resource == "namespaces";
        let name = attributes.request_namespace();
        if name.is_empty() && !is_namespace {
            return Ok(true);
        }
        let selector = hook.namespaces.as_ref().map_err(Status::internal)?;
        if selector.is_empty() {
            return Ok(true);
        }
        // The labels of a namespace that is being written are those of the new object, not the stored ones.
        let written = matches!(attributes.operation, Operation::Create | Operation::Update);
        if is_namespace && attributes.subresource.is_empty() && written {
            let metadata = attributes.object.as_ref().map(Metadata::of);
            return Ok(selector.matches(|label| metadata?.label(label)));
        }
        let key = self.namespaces.key(None, name).ok();
        let found = key.and_then(|key| self.state.get(&key));
        let found = found.ok_or_else(|| Status::not_found(&GroupResource::new("", "namespaces"), name))?;
        let found: &Object = &found;
        Ok(selector.matches(|label| found.label(label)))
    }
}

fn object(hook: &Hook, attributes: &Attributes<'_>) -> Result<bool, Status> {
    let selector = hook.objects.as_ref().map_err(Status::internal)?;
    let selects = |selector: &LabelSelector, object: &serde_json::Value| {
        let metadata = Metadata::of(object);
        selector.matches(|label| metadata.label(label))
    };
    let mut objects = attributes.object.as_ref().into_iter().chain(attributes.old.as_deref());
    Ok(selector.is_empty() || objects.any(|object| selects(selector, object)))
}

fn conditions(hook: &Hook, attributes: &Attributes<'_>, naming: &Naming) -> Result<bool, Status> {
    if hook.conditions.is_empty() {
        return Ok(true);
    }
    let object = attributes.object.as_ref().map(|object| naming.show(object));
    let old = attributes.old.as_deref().map(|object| naming.show(object));
    // As upstream: the kind is the one that the webhook receives, the resource is that of the request.
    let request = review::request(attributes, &naming.kind, attributes.resource);
    let held = hook.conditions.hold(&Variables { object: object.as_ref(), old: old.as_ref(), request: &request });
    held.or_else(|error| {
        if hook.ignores_failure {
            return Ok(false);
        }
        tracing::warn!(webhook = hook.name, error, "match conditions cannot be evaluated; refusing the request");
        Err(Status::forbidden_resource(&attributes.resource.group_resource(), attributes.name, &error))
    })
}
