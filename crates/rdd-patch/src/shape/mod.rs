//! What merging has to know of a type: which of its parts are one value, which are many, and what identifies an item.

pub mod openapi;

use serde_json::Value;
use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, LazyLock, OnceLock},
};

/// The name upstream gives to the type of what no schema describes; [`Shape::deduced`] carries it.
const DEDUCED: &str = "__untyped_deduced_";
const UNTYPED: &str = "__untyped_atomic_";

/// The shape of a type: a handle that is cheap to clone and share, and resolved when first looked at.
///
/// Recursive types (JSONSchemaProps) are lazy shapes whose parts are lazy again: they unroll as deep as values go.
#[derive(Clone)]
pub struct Shape(Arc<Node>);

struct Node {
    atom: OnceLock<Atom>,
    build: Box<dyn Fn() -> Atom + Send + Sync>,
}

/// The forms a value of a type may have. Most types have one; what no schema describes has all three.
#[derive(Debug, Clone, Default)]
pub struct Atom {
    /// The name of the definition this type comes from, `io.k8s.api.core.v1.PodSpec`; none for a type written in place.
    pub name: Option<Arc<str>>,
    pub scalar: Option<Scalar>,
    pub list: Option<List>,
    pub map: Option<Map>,
}

/// What a scalar may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scalar {
    Numeric,
    String,
    Boolean,
    Untyped,
}

#[derive(Debug, Clone)]
pub struct List {
    pub element: Shape,
    pub kind: ListKind,
}

/// How the items of a list relate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListKind {
    /// The list is one value.
    Atomic,
    /// Scalars, each identified by itself.
    Set,
    /// Objects, identified by the values of these fields. A field that is absent counts with its default, if the element's shape has one.
    Map { keys: Vec<Arc<str>> },
}

/// A struct, a map, or both.
#[derive(Debug, Clone, Default)]
pub struct Map {
    pub fields: BTreeMap<Arc<str>, Field>,
    /// The shape of fields that are not in `fields`; none if there may be no others.
    pub element: Option<Shape>,
    /// The whole is one value.
    pub atomic: bool,
}

#[derive(Debug, Clone)]
pub struct Field {
    pub shape: Shape,
    pub default: Option<Value>,
    pub patch: PatchRule,
}

impl From<Shape> for Field {
    fn from(shape: Shape) -> Self {
        Self { shape, default: None, patch: PatchRule::default() }
    }
}

/// What strategic merge patch does with a field: the `patchStrategy` and `patchMergeKey` of upstream's types.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PatchRule {
    pub strategy: PatchStrategy,
    /// Only fields named by `$retainKeys` survive a patch. Clients act on it; the directive works on any object.
    pub retain_keys: bool,
    pub merge_key: Option<Arc<str>>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum PatchStrategy {
    /// Objects are merged, lists are replaced.
    #[default]
    Unset,
    Merge,
    Replace,
}

impl Shape {
    /// A shape that is already known.
    pub fn new(atom: Atom) -> Self {
        let shape = Self::lazy(Atom::default);
        // The cell is fresh, so setting it cannot fail.
        let _ = shape.0.atom.set(atom);
        shape
    }

    /// A shape that is built when first looked at, by a function that gives the same answer each time.
    pub fn lazy(build: impl Fn() -> Atom + Send + Sync + 'static) -> Self {
        Self(Arc::new(Node { atom: OnceLock::new(), build: Box::new(build) }))
    }

    pub fn scalar(scalar: Scalar) -> Self {
        Self::new(Atom { scalar: Some(scalar), ..Atom::default() })
    }

    pub fn list(element: Shape, kind: ListKind) -> Self {
        Self::new(Atom { list: Some(List { element, kind }), ..Atom::default() })
    }

    pub fn map(map: Map) -> Self {
        Self::new(Atom { map: Some(map), ..Atom::default() })
    }

    /// The shape of what no schema describes: objects are granular, lists are one value.
    pub fn deduced() -> Self {
        static SHAPE: LazyLock<Shape> = LazyLock::new(|| {
            Shape::lazy(|| Atom {
                name: Some(DEDUCED.into()),
                scalar: Some(Scalar::Untyped),
                list: Some(List { element: Shape::untyped(), kind: ListKind::Atomic }),
                map: Some(Map { element: Some(Shape::deduced()), ..Map::default() }),
            })
        });
        SHAPE.clone()
    }

    /// The shape of what is one value whatever it holds.
    pub fn untyped() -> Self {
        static SHAPE: LazyLock<Shape> = LazyLock::new(|| {
            Shape::lazy(|| Atom {
                name: Some(UNTYPED.into()),
                scalar: Some(Scalar::Untyped),
                list: Some(List { element: Shape::untyped(), kind: ListKind::Atomic }),
                map: Some(Map { element: Some(Shape::untyped()), atomic: true, ..Map::default() }),
            })
        });
        SHAPE.clone()
    }

    /// The forms of this type.
    pub fn atom(&self) -> &Atom {
        self.0.atom.get_or_init(|| (self.0.build)())
    }

    /// Whether an open map of this element type is one that upstream does not reconcile with a changed schema.
    fn is_untyped_element(&self) -> bool {
        let atom = self.atom();
        match &atom.name {
            Some(name) => &**name == DEDUCED,
            None => atom.scalar == Some(Scalar::Untyped),
        }
    }
}

impl Map {
    /// The shape of a field: its own, or that of fields without one.
    pub fn field_shape(&self, name: &str) -> Option<&Shape> {
        self.fields.get(name).map(|field| &field.shape).or(self.element.as_ref())
    }

    /// No declared fields, anything goes: `isUntypedDeducedMap` upstream.
    pub(crate) fn is_untyped(&self) -> bool {
        self.fields.is_empty() && self.element.as_ref().is_some_and(Shape::is_untyped_element)
    }
}

impl fmt::Debug for Shape {
    /// One level only: shapes may be endless.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(atom) = self.0.atom.get() else { return f.write_str("Shape(unresolved)") };
        f.debug_struct("Shape")
            .field("name", &atom.name)
            .field("scalar", &atom.scalar)
            .field("list", &atom.list.as_ref().map(|list| &list.kind))
            .field("fields", &atom.map.as_ref().map(|map| map.fields.keys().collect::<Vec<_>>()))
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_deduced_shape_describes_itself_at_any_depth() {
        let mut shape = Shape::deduced();
        for _ in 0..1000 {
            shape = shape.atom().map.as_ref().unwrap().field_shape("any").unwrap().clone();
        }
        assert_eq!(shape.atom().name.as_deref(), Some(DEDUCED));
    }

    #[test]
    fn a_lazy_shape_is_built_once() {
        use std::sync::atomic::{AtomicUsize, Ordering};
        static BUILT: AtomicUsize = AtomicUsize::new(0);
        let shape = Shape::lazy(|| {
            BUILT.fetch_add(1, Ordering::SeqCst);
            Atom::default()
        });
        let copy = shape.clone();
        shape.atom();
        copy.atom();
        assert_eq!(BUILT.load(Ordering::SeqCst), 1);
    }
}
