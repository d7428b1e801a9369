//! Shapes: the merge rules of a type, such as which parts are atomic and which fields identify the items of a list.

pub mod openapi;

use serde_json::Value;
use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, LazyLock, OnceLock},
};

/// Upstream's name of the type of values without a schema; [`Shape::deduced`] has it.
const DEDUCED: &str = "__untyped_deduced_";
const UNTYPED: &str = "__untyped_atomic_";

/// The shape of a type: a handle that is cheap to clone and share, and is resolved on first use.
///
/// A recursive type (JSONSchemaProps) is a lazy shape with lazy parts, which unrolls only as deep as the values are.
#[derive(Clone)]
pub struct Shape(Arc<Node>);

struct Node {
    atom: OnceLock<Atom>,
    build: Box<dyn Fn() -> Atom + Send + Sync>,
}

/// The forms that a value of a type may have. Most types have one form; a type without a schema has all three.
#[derive(Debug, Clone, Default)]
pub struct Atom {
    /// The name of the type's definition, as in `io.k8s.api.core.v1.PodSpec`; `None` for an inline type.
    pub name: Option<Arc<str>>,
    pub scalar: Option<Scalar>,
    pub list: Option<List>,
    pub map: Option<Map>,
}

/// The type of a scalar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scalar {
    Numeric,
    String,
    Boolean,
    Untyped,
}

/// The form of a list.
#[derive(Debug, Clone)]
pub struct List {
    pub element: Shape,
    pub kind: ListKind,
}

/// How the items of a list are identified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListKind {
    /// The list is merged as one value.
    Atomic,
    /// Scalars, each identified by its value.
    Set,
    /// Objects, identified by the values of these fields. An absent key field has its default, if the element's shape
    /// has one.
    Map { keys: Vec<Arc<str>> },
}

/// The form of a struct with declared fields, of a map with arbitrary keys, or of both.
#[derive(Debug, Clone, Default)]
pub struct Map {
    pub fields: BTreeMap<Arc<str>, Field>,
    /// The shape of fields that are not in `fields`; `None` if there may be no others.
    pub element: Option<Shape>,
    /// Whether the object is merged as one value.
    pub atomic: bool,
}

/// A declared field of a struct.
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

/// The rule of strategic merge patch for a field: `patchStrategy` and `patchMergeKey` of upstream's types.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PatchRule {
    pub strategy: PatchStrategy,
    /// Whether the strategy has `retainKeys`. Only clients use it, to compute patches; the `$retainKeys` directive
    /// works on any object.
    pub retain_keys: bool,
    pub merge_key: Option<Arc<str>>,
}

/// How strategic merge patch combines the values of a field.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum PatchStrategy {
    /// Objects are merged, lists are replaced.
    #[default]
    Unset,
    Merge,
    Replace,
}

impl Shape {
    /// Creates a shape that is already resolved.
    pub fn new(atom: Atom) -> Self {
        let shape = Self::lazy(Atom::default);
        // The cell is fresh, so setting it cannot fail.
        let _ = shape.0.atom.set(atom);
        shape
    }

    /// Creates a shape that `build` resolves on first use. `build` must always return the same atom.
    pub fn lazy(build: impl Fn() -> Atom + Send + Sync + 'static) -> Self {
        Self(Arc::new(Node { atom: OnceLock::new(), build: Box::new(build) }))
    }

    /// Creates the shape of a scalar.
    pub fn scalar(scalar: Scalar) -> Self {
        Self::new(Atom { scalar: Some(scalar), ..Atom::default() })
    }

    /// Creates the shape of a list.
    pub fn list(element: Shape, kind: ListKind) -> Self {
        Self::new(Atom { list: Some(List { element, kind }), ..Atom::default() })
    }

    /// Creates the shape of an object.
    pub fn map(map: Map) -> Self {
        Self::new(Atom { map: Some(map), ..Atom::default() })
    }

    /// The shape of values without a schema: objects are granular, lists are atomic.
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

    /// The shape of values that are atomic, whatever they contain.
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

    /// The forms of this type. Resolves the shape on the first call.
    pub fn atom(&self) -> &Atom {
        self.0.atom.get_or_init(|| (self.0.build)())
    }

    /// Whether upstream treats a map with this element type as untyped and does not reconcile it after a schema change.
    fn is_untyped_element(&self) -> bool {
        let atom = self.atom();
        match &atom.name {
            Some(name) => &**name == DEDUCED,
            None => atom.scalar == Some(Scalar::Untyped),
        }
    }
}

impl Map {
    /// The shape of a field: of the declared field, or else of the map's elements.
    pub fn field_shape(&self, name: &str) -> Option<&Shape> {
        self.fields.get(name).map(|field| &field.shape).or(self.element.as_ref())
    }

    /// Whether the map has no declared fields and untyped elements, like upstream's `isUntypedDeducedMap`.
    pub(crate) fn is_untyped(&self) -> bool {
        self.fields.is_empty() && self.element.as_ref().is_some_and(Shape::is_untyped_element)
    }
}

impl fmt::Debug for Shape {
    /// Prints one level only, since shapes may be infinite.
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
