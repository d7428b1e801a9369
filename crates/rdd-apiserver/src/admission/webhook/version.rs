//! Equivalent resources: the other versions in which the objects of a request are served, and conversion to them.

use std::sync::Arc;

use rdd_meta::gvk::{GroupVersionKind, GroupVersionResource};
use serde_json::Value;

use super::super::Attributes;
use crate::registry::{Part, ResourceDef, Served, Stored};

/// How a webhook receives a request: under which resource and kind, and in which version the objects are. Mirrors
/// upstream's `WebhookInvocation`.
#[derive(Debug, Clone)]
pub(super) struct Naming {
    pub(super) resource: GroupVersionResource,
    pub(super) kind: GroupVersionKind,
    /// `None` if the webhook receives objects in the version of the request.
    conversion: Option<Conversion>,
}

#[derive(Debug, Clone)]
struct Conversion {
    from: (Arc<ResourceDef>, usize),
    to: (Arc<ResourceDef>, usize),
}

impl Naming {
    /// The resource and kind of the request itself.
    pub(super) fn of(attributes: &Attributes<'_>) -> Self {
        Self { resource: attributes.resource.clone(), kind: attributes.kind.clone(), conversion: None }
    }

    /// Converts an object of the request to the version of the webhook.
    pub(super) fn show(&self, object: &Value) -> Value {
        self.conversion.as_ref().map_or_else(|| object.clone(), |it| convert(object.clone(), &it.from, &it.to))
    }

    /// Converts an object of the webhook to the version of the request.
    pub(super) fn take_back(&self, object: Value) -> Value {
        match &self.conversion {
            None => object,
            Some(conversion) => convert(object, &conversion.to, &conversion.from),
        }
    }
}

/// The equivalents of a request: the same resource in other versions, and other resources with the same storage.
///
/// Mirrors upstream's equivalent resource registry, whose key is the storage prefix.
pub(super) fn others(served: &Served, attributes: &Attributes<'_>) -> Vec<Naming> {
    let (requested, subresource) = (attributes.resource, attributes.subresource);
    let Some(def) = served.get(&requested.group, &requested.resource) else { return Vec::new() };
    let Some(from) = def.versions.iter().position(|version| version.name == requested.version) else {
        return Vec::new();
    };
    let is_same = |other: &&Arc<ResourceDef>| match (def.storage(), other.storage()) {
        (Some(place), Some(other)) => place == other,
        _ => Arc::ptr_eq(def, other),
    };
    let versions = served.all().filter(is_same).flat_map(|other| (0..other.versions.len()).map(move |at| (other, at)));
    let naming = |(other, at): (&Arc<ResourceDef>, usize)| {
        let version = &other.versions[at];
        let resource = other.group_version_resource(&version.name);
        let part = (!subresource.is_empty()).then(|| version.subresource(subresource));
        let kind = match part {
            None => other.group_version_kind(&version.name),
            Some(part) => match &part?.part {
                Part::View => other.group_version_kind(&version.name),
                // These subresources have a kind of their own, which is the same in every version.
                Part::Scale(_) | Part::Question(_) => {
                    return Some(Naming { resource, kind: attributes.kind.clone(), conversion: None });
                }
            },
        };
        let conversion = Conversion { from: (Arc::clone(def), from), to: (Arc::clone(other), at) };
        Some(Naming { resource, kind, conversion: Some(conversion) })
    };
    versions.filter_map(naming).filter(|naming| naming.resource != *requested).collect()
}

fn convert(object: Value, from: &(Arc<ResourceDef>, usize), to: &(Arc<ResourceDef>, usize)) -> Value {
    let mut stored = match &from.0.versions[from.1].stored {
        Stored::Same | Stored::Renamed => object,
        Stored::Converted(conversion) => conversion.stored(object),
    };
    let version = &to.0.versions[to.1];
    match &version.stored {
        Stored::Same | Stored::Renamed => {
            if let Some(members) = stored.as_object_mut() {
                members.insert("apiVersion".to_owned(), to.0.api_version(&version.name).into());
                members.insert("kind".to_owned(), to.0.kind.clone().into());
            }
            stored
        }
        Stored::Converted(conversion) => conversion.shown(stored),
    }
}
