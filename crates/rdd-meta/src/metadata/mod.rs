//! Reads, writes and validates the `metadata` of an object in JSON, as upstream does.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::{gvk::GroupVersionKind, time::Timestamp};

mod shape;
mod validate;

pub use shape::{ShapeError, check_shape};

/// The finalizer under which the garbage collector orphans the dependents before the object is removed.
pub const FINALIZER_ORPHAN: &str = "orphan";
/// The finalizer under which the garbage collector deletes the dependents before the object is removed.
pub const FINALIZER_FOREGROUND: &str = "foregroundDeletion";

/// The fields of `ObjectMeta` in Go's order of declaration, which is the order in which Go writes a struct.
pub const FIELDS: [&str; 15] = [
    "name",
    "generateName",
    "namespace",
    "selfLink",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "labels",
    "annotations",
    "ownerReferences",
    "finalizers",
    "managedFields",
];

/// A read-only view of the metadata of an object.
///
/// A field that is absent, null or of the wrong type reads as Go's zero value. [`check_shape`] finds the fields of the
/// wrong type.
#[derive(Debug, Clone, Copy)]
pub struct Metadata<'a>(Option<&'a Map<String, Value>>);

/// A reference from an object to its owner. The fields are in the order in which Kubernetes writes them.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct OwnerReference {
    /// The `apiVersion` of the owner.
    pub api_version: String,
    /// The kind of the owner.
    pub kind: String,
    /// The name of the owner.
    pub name: String,
    /// The uid of the owner, which identifies it; the other fields only help to find it.
    pub uid: String,
    /// Whether the owner is the managing controller of the object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub controller: Option<bool>,
    /// Whether foreground deletion of the owner waits for the deletion of the object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block_owner_deletion: Option<bool>,
}

impl OwnerReference {
    /// The group, version and kind of the owner.
    pub fn group_version_kind(&self) -> GroupVersionKind {
        GroupVersionKind::from_type_meta(&self.api_version, &self.kind)
    }
}

impl<'a> Metadata<'a> {
    /// A view of the metadata of a whole object.
    pub fn of(object: &'a Value) -> Self {
        Self(object.get("metadata").and_then(Value::as_object))
    }

    /// A view of metadata without its object.
    pub fn of_metadata(metadata: &'a Value) -> Self {
        Self(metadata.as_object())
    }

    /// The value of any field; `None` if it is absent or null.
    pub fn get(self, field: &str) -> Option<&'a Value> {
        self.0?.get(field).filter(|value| !value.is_null())
    }

    fn text(self, field: &str) -> &'a str {
        self.get(field).and_then(Value::as_str).unwrap_or_default()
    }

    fn time(self, field: &str) -> Option<Timestamp> {
        Timestamp::parse_time(self.get(field)?.as_str()?).ok()
    }

    fn pairs(self, field: &str) -> impl Iterator<Item = (&'a str, &'a str)> + use<'a> {
        let pairs = self.get(field).and_then(Value::as_object).into_iter().flatten();
        pairs.map(|(key, value)| (key.as_str(), value.as_str().unwrap_or_default()))
    }

    fn list(self, field: &str) -> &'a [Value] {
        self.get(field).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
    }

    /// The name; empty if the object has none yet.
    pub fn name(self) -> &'a str {
        self.text("name")
    }

    /// The prefix from which the server generates a name; empty if there is none.
    pub fn generate_name(self) -> &'a str {
        self.text("generateName")
    }

    /// The namespace; empty for cluster-scoped objects.
    pub fn namespace(self) -> &'a str {
        self.text("namespace")
    }

    /// The uid.
    pub fn uid(self) -> &'a str {
        self.text("uid")
    }

    /// The resource version, unparsed.
    pub fn resource_version(self) -> &'a str {
        self.text("resourceVersion")
    }

    /// The generation of the desired state; 0 if the object has none.
    pub fn generation(self) -> i64 {
        self.get("generation").and_then(Value::as_i64).unwrap_or(0)
    }

    /// The time at which the server created the object.
    pub fn creation_timestamp(self) -> Option<Timestamp> {
        self.time("creationTimestamp")
    }

    /// The time after which the object is to be removed; set once its deletion was requested.
    pub fn deletion_timestamp(self) -> Option<Timestamp> {
        self.time("deletionTimestamp")
    }

    /// Whether the deletion of the object was requested.
    pub fn is_terminating(self) -> bool {
        self.get("deletionTimestamp").is_some()
    }

    /// How long a graceful deletion may take.
    pub fn deletion_grace_period_seconds(self) -> Option<i64> {
        self.get("deletionGracePeriodSeconds").and_then(Value::as_i64)
    }

    /// The value of a label.
    pub fn label(self, key: &str) -> Option<&'a str> {
        self.get("labels")?.get(key)?.as_str()
    }

    /// The labels sorted by key. A value of the wrong type reads as empty.
    pub fn labels(self) -> impl Iterator<Item = (&'a str, &'a str)> + use<'a> {
        self.pairs("labels")
    }

    /// The value of an annotation.
    pub fn annotation(self, key: &str) -> Option<&'a str> {
        self.get("annotations")?.get(key)?.as_str()
    }

    /// The annotations sorted by key. A value of the wrong type reads as empty.
    pub fn annotations(self) -> impl Iterator<Item = (&'a str, &'a str)> + use<'a> {
        self.pairs("annotations")
    }

    /// The finalizers, which must be removed before the object is.
    pub fn finalizers(self) -> Vec<&'a str> {
        self.list("finalizers").iter().filter_map(Value::as_str).collect()
    }

    /// The references to the owners. A reference of the wrong shape is left out.
    pub fn owner_references(self) -> Vec<OwnerReference> {
        self.list("ownerReferences").iter().filter_map(|owner| OwnerReference::deserialize(owner).ok()).collect()
    }

    /// The reference to the managing controller.
    pub fn controller(self) -> Option<OwnerReference> {
        self.owner_references().into_iter().find(|owner| owner.controller == Some(true))
    }

    /// The managed fields as they are stored; `rdd-patch` interprets them.
    pub fn managed_fields(self) -> &'a [Value] {
        self.list("managedFields")
    }
}

/// A view of the metadata of an object for writing. Setting Go's zero value removes the field, like `omitempty` on the
/// wire.
#[derive(Debug)]
pub struct MetadataMut<'a>(&'a mut Map<String, Value>);

impl<'a> MetadataMut<'a> {
    /// A view of the metadata of a whole object, to which an empty `metadata` is added if it is absent. `None` if the
    /// object or its metadata is not a JSON object.
    pub fn of(object: &'a mut Value) -> Option<Self> {
        let metadata = object.as_object_mut()?.entry("metadata").or_insert(Value::Null);
        if metadata.is_null() {
            *metadata = json!({});
        }
        metadata.as_object_mut().map(Self)
    }

    /// A read-only view of the same metadata.
    pub fn view(&self) -> Metadata<'_> {
        Metadata(Some(self.0))
    }

    /// Sets any field; `None` removes it.
    pub fn set(&mut self, field: &str, value: Option<Value>) {
        match value {
            Some(value) => self.0.insert(field.to_owned(), value),
            None => self.0.remove(field),
        };
    }

    fn set_text(&mut self, field: &str, text: &str) {
        self.set(field, (!text.is_empty()).then(|| json!(text)));
    }

    /// Sets the name.
    pub fn set_name(&mut self, name: &str) {
        self.set_text("name", name);
    }

    /// Sets the namespace.
    pub fn set_namespace(&mut self, namespace: &str) {
        self.set_text("namespace", namespace);
    }

    /// Sets the uid.
    pub fn set_uid(&mut self, uid: &str) {
        self.set_text("uid", uid);
    }

    /// Sets the resource version.
    pub fn set_resource_version(&mut self, version: &str) {
        self.set_text("resourceVersion", version);
    }

    /// Sets the generation.
    pub fn set_generation(&mut self, generation: i64) {
        self.set("generation", (generation != 0).then(|| json!(generation)));
    }

    /// Sets the creation time.
    pub fn set_creation_timestamp(&mut self, time: Option<Timestamp>) {
        self.set("creationTimestamp", time.map(|time| json!(time.format_time())));
    }

    /// Sets the deletion time and the grace period; `None` removes the field.
    pub fn set_deletion(&mut self, time: Option<Timestamp>, grace_period_seconds: Option<i64>) {
        self.set("deletionTimestamp", time.map(|time| json!(time.format_time())));
        self.set("deletionGracePeriodSeconds", grace_period_seconds.map(|seconds| json!(seconds)));
    }

    /// Sets the finalizers.
    pub fn set_finalizers<S: AsRef<str>>(&mut self, finalizers: &[S]) {
        let list: Vec<&str> = finalizers.iter().map(AsRef::as_ref).collect();
        self.set("finalizers", (!list.is_empty()).then(|| json!(list)));
    }

    /// Sets the references to the owners.
    pub fn set_owner_references(&mut self, owners: &[OwnerReference]) {
        self.set("ownerReferences", (!owners.is_empty()).then(|| json!(owners)));
    }

    /// Sets a label; `None` removes it.
    pub fn set_label(&mut self, key: &str, value: Option<&str>) {
        self.set_pair("labels", key, value);
    }

    /// Sets an annotation; `None` removes it.
    pub fn set_annotation(&mut self, key: &str, value: Option<&str>) {
        self.set_pair("annotations", key, value);
    }

    fn set_pair(&mut self, field: &str, key: &str, value: Option<&str>) {
        let mut pairs =
            self.0.remove(field).and_then(|pairs| if let Value::Object(map) = pairs { Some(map) } else { None });
        match value {
            Some(value) => {
                pairs.get_or_insert_default().insert(key.to_owned(), json!(value));
            }
            None => {
                pairs.as_mut().map(|pairs| pairs.remove(key));
            }
        }
        self.set(field, pairs.filter(|pairs| !pairs.is_empty()).map(Value::Object));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_reads_as_its_type_and_what_is_absent_as_nothing() {
        let object = json!({"metadata": {
            "name": "a", "generateName": "a-", "namespace": "n", "uid": "u", "resourceVersion": "7", "generation": 3,
            "creationTimestamp": "2026-11-15T10:48:32Z", "deletionTimestamp": "2026-11-15T10:48:33Z",
            "deletionGracePeriodSeconds": 0, "labels": {"b": "1", "a": "2"}, "annotations": {"x": "y"},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "D", "name": "d", "uid": "du", "controller": true}],
            "finalizers": ["f/a", "f/b"], "managedFields": [{"manager": "m"}],
        }});
        let metadata = Metadata::of(&object);
        assert_eq!((metadata.name(), metadata.generate_name(), metadata.namespace()), ("a", "a-", "n"));
        assert_eq!((metadata.uid(), metadata.resource_version(), metadata.generation()), ("u", "7", 3));
        assert_eq!(metadata.creation_timestamp(), Some(Timestamp::new(1_794_739_712, 0)));
        assert_eq!(metadata.deletion_timestamp(), Some(Timestamp::new(1_794_739_713, 0)));
        assert_eq!((metadata.is_terminating(), metadata.deletion_grace_period_seconds()), (true, Some(0)));
        assert_eq!(metadata.labels().collect::<Vec<_>>(), [("a", "2"), ("b", "1")]);
        assert_eq!(
            (metadata.label("b"), metadata.annotation("x"), metadata.annotation("z")),
            (Some("1"), Some("y"), None)
        );
        assert_eq!(metadata.annotations().collect::<Vec<_>>(), [("x", "y")]);
        assert_eq!(metadata.finalizers(), ["f/a", "f/b"]);
        assert_eq!(metadata.controller().unwrap().group_version_kind(), GroupVersionKind::new("apps", "v1", "D"));
        assert_eq!(metadata.managed_fields(), [json!({"manager": "m"})]);

        for empty in
            [json!({}), json!({"metadata": null}), json!(1), json!({"metadata": {"labels": null, "name": null}})]
        {
            let metadata = Metadata::of(&empty);
            assert_eq!((metadata.name(), metadata.generation(), metadata.is_terminating()), ("", 0, false));
            assert_eq!((metadata.labels().count(), metadata.owner_references().len()), (0, 0));
        }
    }

    #[test]
    fn what_is_set_is_written_as_kubernetes_writes_it_and_zero_values_are_removed() {
        let mut object = json!({"kind": "X", "metadata": null});
        let mut metadata = MetadataMut::of(&mut object).unwrap();
        metadata.set_name("a");
        metadata.set_namespace("n");
        metadata.set_uid("u");
        metadata.set_resource_version("5");
        metadata.set_generation(2);
        metadata.set_creation_timestamp(Some(Timestamp::new(0, 5)));
        metadata.set_deletion(Some(Timestamp::new(1, 0)), Some(0));
        metadata.set_finalizers(&["f"]);
        metadata.set_label("l", Some("1"));
        metadata.set_annotation("k", Some("2"));
        metadata.set_owner_references(&[OwnerReference { name: "o".to_owned(), ..OwnerReference::default() }]);
        assert_eq!(metadata.view().name(), "a");
        let written = json!({"kind": "X", "metadata": {
            "name": "a", "namespace": "n", "uid": "u", "resourceVersion": "5", "generation": 2,
            "creationTimestamp": "1970-01-01T00:00:00Z", "deletionTimestamp": "1970-01-01T00:00:01Z",
            "deletionGracePeriodSeconds": 0, "finalizers": ["f"], "labels": {"l": "1"}, "annotations": {"k": "2"},
            "ownerReferences": [{"apiVersion": "", "kind": "", "name": "o", "uid": ""}],
        }});
        assert_eq!(object, written);

        let mut metadata = MetadataMut::of(&mut object).unwrap();
        metadata.set_resource_version("");
        metadata.set_generation(0);
        metadata.set_deletion(None, None);
        metadata.set_finalizers::<&str>(&[]);
        metadata.set_label("l", None);
        metadata.set_annotation("absent", None);
        metadata.set_owner_references(&[]);
        metadata.set_creation_timestamp(None);
        assert_eq!(
            object,
            json!({"kind": "X", "metadata": {"name": "a", "namespace": "n", "uid": "u", "annotations": {"k": "2"}}})
        );
    }

    #[test]
    fn what_is_not_an_object_has_no_metadata_to_write() {
        assert!(MetadataMut::of(&mut json!([])).is_none());
        assert!(MetadataMut::of(&mut json!({"metadata": 1})).is_none());
    }
}
