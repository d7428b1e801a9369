//! The merge shape of a structural schema, for server-side apply; it is built lazily, part by part.
//!
//! It equals what upstream's `schemaconv` derives from the OpenAPI document of the definition, without building that document.

use std::{
    collections::BTreeMap,
    sync::{Arc, LazyLock},
};

use rdd_patch::shape::{Atom, Field, List, ListKind, Map, PatchRule, Scalar, Shape};
use rdd_schema::{
    Structural,
    structural::{Additional, ListType, MapType, Type},
};

/// The shape of complete objects of a schema.
pub(crate) fn of(schema: &Arc<Structural>) -> Shape {
    Node { root: Arc::clone(schema), steps: Arc::default(), preserve_unknown: false }.shape()
}

/// A node of a schema, as a path from its root. All nodes share the schema.
struct Node {
    root: Arc<Structural>,
    /// The path from the root to the node.
    steps: Arc<[Step]>,
    /// Whether the node or one above it preserves unknown fields.
    preserve_unknown: bool,
}

#[derive(Debug, Clone)]
enum Step {
    Property(Arc<str>),
    Additional,
    Items,
}

impl Node {
    fn shape(self) -> Shape {
        Shape::lazy(move || self.atom())
    }

    /// The shape of a child. Most children have one of a few shapes, which are shared.
    fn child(&self, step: Step, schema: &Structural) -> Shape {
        match scalar(schema) {
            Some(Scalar::String) => TEXT.clone(),
            Some(Scalar::Numeric) => NUMBER.clone(),
            Some(Scalar::Boolean) => FLAG.clone(),
            Some(Scalar::Untyped) => UNTYPED.clone(),
            None if is_anything(schema) => ANYTHING.clone(),
            None => self.below(step),
        }
    }

    fn below(&self, step: Step) -> Shape {
        let steps = self.steps.iter().cloned().chain([step]).collect();
        Self { root: Arc::clone(&self.root), steps, preserve_unknown: self.preserve_unknown }.shape()
    }

    fn schema(&self) -> &Structural {
        // The path was built from this schema, so it exists; the empty schema only avoids a panic.
        static NOTHING: LazyLock<Structural> = LazyLock::new(Structural::empty);
        self.steps
            .iter()
            .try_fold(&*self.root, |schema, step| match step {
                Step::Property(name) => schema.property(name),
                Step::Additional => schema.additional_schema(),
                Step::Items => schema.items.as_deref(),
            })
            .unwrap_or(&NOTHING)
    }

    fn atom(&self) -> Atom {
        let schema = self.schema();
        let inside = Self {
            root: Arc::clone(&self.root),
            steps: Arc::clone(&self.steps),
            preserve_unknown: self.preserve_unknown || schema.preserve_unknown_fields,
        };
        match &schema.kind {
            None => Atom {
                name: None,
                scalar: Some(Scalar::Untyped),
                list: Some(inside.list(schema)),
                map: Some(inside.map(schema)),
            },
            Some(Type::Object) => Atom { map: Some(inside.map(schema)), ..Atom::default() },
            Some(Type::Array) => Atom { list: Some(inside.list(schema)), ..Atom::default() },
            Some(_) => Atom { scalar: scalar(schema), ..Atom::default() },
        }
    }

    fn map(&self, schema: &Structural) -> Map {
        let mut fields: BTreeMap<Arc<str>, Field> = schema
            .properties()
            .map(|(name, property)| {
                let name: Arc<str> = name.into();
                let shape = self.child(Step::Property(Arc::clone(&name)), property);
                let default = property.default.as_deref().filter(|default| !default.is_null()).cloned();
                (name, Field { shape, default, patch: PatchRule::default() })
            })
            .collect();
        // Complete objects have these fields even if the schema does not mention them.
        if self.steps.is_empty() || schema.embedded_resource {
            fields.insert("apiVersion".into(), TEXT.clone().into());
            fields.insert("kind".into(), TEXT.clone().into());
            fields.insert("metadata".into(), OBJECT_META.clone().into());
        }
        let element = match &schema.additional {
            Additional::Unspecified if self.preserve_unknown || fields.is_empty() => Some(Shape::deduced()),
            Additional::Unspecified | Additional::Bool(false) => None,
            Additional::Bool(true) => Some(Shape::deduced()),
            Additional::Schema(below) => Some(self.child(Step::Additional, below)),
        };
        Map { fields, element, atomic: schema.map_type == Some(MapType::Atomic) }
    }

    fn list(&self, schema: &Structural) -> List {
        let element = schema.items.as_deref().map_or_else(Shape::untyped, |items| self.child(Step::Items, items));
        let kind = match schema.list_type {
            None | Some(ListType::Atomic) => ListKind::Atomic,
            Some(ListType::Set) => ListKind::Set,
            Some(ListType::Map) if schema.list_map_keys().is_empty() => ListKind::Set,
            Some(ListType::Map) => ListKind::Map { keys: schema.list_map_keys().to_vec() },
        };
        List { element, kind }
    }
}

/// The type of a scalar, or `None` for other types.
fn scalar(schema: &Structural) -> Option<Scalar> {
    Some(match &schema.kind {
        None | Some(Type::Object | Type::Array) => return None,
        Some(Type::Integer | Type::Number) => Scalar::Numeric,
        Some(Type::Boolean) => Scalar::Boolean,
        Some(Type::String) => match schema.validation.as_ref().and_then(|validation| validation.format.as_deref()) {
            None | Some("byte") => Scalar::String,
            Some(_) => Scalar::Untyped,
        },
        Some(Type::Other(_)) => Scalar::Untyped,
    })
}

/// Whether a schema does not restrict how its values merge.
fn is_anything(schema: &Structural) -> bool {
    schema.kind.is_none()
        && schema.properties().len() == 0
        && !schema.has_additional()
        && schema.items.is_none()
        && schema.list_type.is_none()
        && schema.map_type.is_none()
        && !schema.embedded_resource
}

static TEXT: LazyLock<Shape> = LazyLock::new(|| Shape::scalar(Scalar::String));
static NUMBER: LazyLock<Shape> = LazyLock::new(|| Shape::scalar(Scalar::Numeric));
static FLAG: LazyLock<Shape> = LazyLock::new(|| Shape::scalar(Scalar::Boolean));
static UNTYPED: LazyLock<Shape> = LazyLock::new(|| Shape::scalar(Scalar::Untyped));
static ANYTHING: LazyLock<Shape> = LazyLock::new(|| {
    Shape::new(Atom {
        name: None,
        scalar: Some(Scalar::Untyped),
        list: Some(List { element: Shape::untyped(), kind: ListKind::Atomic }),
        map: Some(Map { element: Some(Shape::deduced()), ..Map::default() }),
    })
});

/// The shape of `io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta`.
static OBJECT_META: LazyLock<Shape> = LazyLock::new(|| {
    let text = || Shape::scalar(Scalar::String);
    let time = || Shape::scalar(Scalar::Untyped);
    let number = || Shape::scalar(Scalar::Numeric);
    let texts = || Shape::map(Map { element: Some(text()), ..Map::default() });
    let owner = || {
        let flag = || Shape::scalar(Scalar::Boolean);
        let fields = [
            ("apiVersion", text()),
            ("blockOwnerDeletion", flag()),
            ("controller", flag()),
            ("kind", text()),
            ("name", text()),
            ("uid", text()),
        ];
        structure(fields, true)
    };
    let manager = || {
        let fields = [
            ("apiVersion", text()),
            ("fieldsType", text()),
            // FieldsV1 is an object without properties.
            ("fieldsV1", Shape::map(Map { element: Some(Shape::deduced()), ..Map::default() })),
            ("manager", text()),
            ("operation", text()),
            ("subresource", text()),
            ("time", time()),
        ];
        structure(fields, false)
    };
    let fields = [
        ("annotations", texts()),
        ("creationTimestamp", time()),
        ("deletionGracePeriodSeconds", number()),
        ("deletionTimestamp", time()),
        ("finalizers", Shape::list(text(), ListKind::Set)),
        ("generateName", text()),
        ("generation", number()),
        ("labels", texts()),
        ("managedFields", Shape::list(manager(), ListKind::Atomic)),
        ("name", text()),
        ("namespace", text()),
        ("ownerReferences", Shape::list(owner(), ListKind::Map { keys: vec!["uid".into()] })),
        ("resourceVersion", text()),
        ("selfLink", text()),
        ("uid", text()),
    ];
    structure(fields, false)
});

fn structure<const N: usize>(fields: [(&str, Shape); N], atomic: bool) -> Shape {
    let fields = fields.into_iter().map(|(name, shape)| (name.into(), shape.into())).collect();
    Shape::map(Map { fields, element: None, atomic })
}

#[cfg(test)]
mod tests {
    use rdd_schema::Props;
    use serde_json::{Value, json};

    use super::*;

    fn shape(schema: Value) -> Shape {
        of(&Structural::compile(&Props::parse(&schema).unwrap()).unwrap())
    }

    fn at(shape: &Shape, path: &[&str]) -> Shape {
        path.iter()
            .fold(shape.clone(), |shape, name| shape.atom().map.as_ref().unwrap().field_shape(name).unwrap().clone())
    }

    #[test]
    fn list_types_and_keys_with_defaults_are_kept() {
        let shape = shape(json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
            "ports": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["port", "protocol"],
                "items": {"type": "object", "properties": {"port": {"type": "integer"}, "protocol": {"type": "string", "default": "TCP"}}}},
            "names": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
            "plain": {"type": "array", "items": {"type": "string"}}}}}}));
        let list = |name| at(&shape, &["spec", name]).atom().list.clone().unwrap();
        assert_eq!(list("ports").kind, ListKind::Map { keys: vec!["port".into(), "protocol".into()] });
        let fields = list("ports").element.atom().map.clone().unwrap().fields;
        assert_eq!(fields["protocol"].default, Some(json!("TCP")));
        assert_eq!((list("names").kind, list("plain").kind), (ListKind::Set, ListKind::Atomic));
        assert!(at(&shape, &["metadata"]).atom().map.as_ref().unwrap().fields.contains_key("ownerReferences"));
    }

    #[test]
    fn what_no_schema_describes_is_open_and_what_one_describes_is_closed() {
        let shape = shape(json!({"type": "object", "properties": {
            "closed": {"type": "object", "properties": {"a": {"type": "string"}}},
            "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": true,
                "properties": {"a": {"type": "object", "properties": {"b": {"type": "string"}}}}},
            "any": {"x-kubernetes-int-or-string": true}}}));
        assert!(at(&shape, &["closed"]).atom().map.as_ref().unwrap().element.is_none());
        assert!(at(&shape, &["open", "a"]).atom().map.as_ref().unwrap().element.is_some());
        let any = at(&shape, &["any"]);
        assert!(any.atom().scalar == Some(Scalar::Untyped) && any.atom().list.is_some() && any.atom().map.is_some());
    }
}
