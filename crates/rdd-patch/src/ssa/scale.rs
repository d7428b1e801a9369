//! Maps the ownership of `spec.replicas` between a resource and its scale subresource.

use super::{
    element::{Path, fields_path},
    entry::{DecodeError, Managed, read_entries},
    set::Set,
    updater::VersionedSet,
};
use serde_json::Value;
use std::collections::BTreeMap;

const SCALE_VERSION: &str = "autoscaling/v1";

/// Translates the owners of a resource to those of its scale object, and back.
#[derive(Debug, Clone)]
/// The object whose scale is served.
pub struct ScaleEntries<'a> {
    /// The version of the resource through which its scale is served.
    pub parent: &'a Value,
    pub api_version: &'a str,
    /// The path of the replica count for each version of the resource; `None` for a version without a scale.
    pub replicas: &'a BTreeMap<String, Option<Path>>,
}

impl ScaleEntries<'_> {
    /// The owners of the replica count, as entries of the scale object.
    pub fn to_scale(&self) -> Result<Managed, DecodeError> {
        let parent = Managed::read(self.parent)?;
        let mut scale = Managed::default();
        for (owner, owned) in &parent.owners {
            let Some(Some(path)) = self.replicas.get(&owned.api_version) else { continue };
            if owned.set.contains(path) {
                let set = Set::from_iter([fields_path(&["spec", "replicas"])]);
                let owned = VersionedSet { set, api_version: SCALE_VERSION.to_owned(), applied: owned.applied };
                scale.owners.insert(owner.clone(), owned);
                scale.times.extend(parent.times.get(owner).map(|time| (owner.clone(), *time)));
            }
        }
        Ok(scale)
    }

    /// The owners of the resource after a write to its scale object.
    ///
    /// Like upstream, an owner that is new through the scale has no timestamp.
    pub fn to_parent(&self, scale: &Value) -> Result<Managed, DecodeError> {
        let parent = Managed::read(self.parent)?;
        let mut by_scale = Managed::decode(&read_entries(scale).unwrap_or_default())?.owners;
        let mut merged = Managed::default();
        for (owner, mut owned) in parent.owners {
            let Some(path) = self.replicas.get(&owned.api_version) else { continue };
            if let Some(path) = path.as_ref().filter(|path| owned.set.contains(path))
                && by_scale.remove(&owner).is_none()
            {
                owned.set = owned.set.difference(&Set::from_iter([path.clone()]));
                if owned.set.is_empty() {
                    continue;
                }
            }
            merged.times.extend(parent.times.get(&owner).map(|time| (owner.clone(), *time)));
            merged.owners.insert(owner, owned);
        }
        let replicas = self.replicas.get(self.api_version).cloned().flatten().unwrap_or_default();
        for (owner, owned) in by_scale {
            if owned.set.contains(&fields_path(&["spec", "replicas"])) {
                let set = Set::from_iter([replicas.clone()]);
                merged.times.extend(parent.times.get(&owner).map(|time| (owner.clone(), *time)));
                let owned = VersionedSet { set, api_version: self.api_version.to_owned(), applied: owned.applied };
                merged.owners.insert(owner, owned);
            }
        }
        Ok(merged)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn owned(manager: &str, operation: &str, api_version: &str, fields: Value) -> Value {
        json!({"manager": manager, "operation": operation, "apiVersion": api_version, "fieldsType": "FieldsV1", "fieldsV1": fields,
            "time": "2020-01-01T00:00:00Z"})
    }

    #[test]
    fn the_replica_count_changes_hands_through_the_scale() {
        let fields = json!({"f:spec": {"f:replicas": {}, "f:selector": {}}});
        let parent = json!({"metadata": {"managedFields": [owned("a", "Apply", "apps/v1", fields)]}});
        let replicas = BTreeMap::from([("apps/v1".to_owned(), Some(fields_path(&["spec", "replicas"])))]);
        let entries = ScaleEntries { parent: &parent, api_version: "apps/v1", replicas: &replicas };
        let scale = entries.to_scale().unwrap().to_value();
        assert_eq!(scale, json!([owned("a", "Apply", SCALE_VERSION, json!({"f:spec": {"f:replicas": {}}}))]));

        let taken = owned("b", "Update", SCALE_VERSION, json!({"f:spec": {"f:replicas": {}}}));
        let after = entries.to_parent(&json!({"metadata": {"managedFields": [taken]}})).unwrap().to_value();
        assert_eq!(after[0], owned("a", "Apply", "apps/v1", json!({"f:spec": {"f:selector": {}}})));
        assert_eq!(after[1]["manager"], "b");
        assert_eq!(after[1]["apiVersion"], "apps/v1");
        assert_eq!(after[1]["fieldsV1"], json!({"f:spec": {"f:replicas": {}}}));
    }
}
