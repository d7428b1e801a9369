//! The types of a schema: what the checker knows about `self` and everything below it.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::escape::{escape, is_reserved};
use crate::shape::Shape;
use crate::types::Type;

/// What a checker asks about objects: which fields they have.
pub trait TypeProvider: Send + Sync {
    /// Whether an object type of this name is declared.
    fn is_declared(&self, object: &str) -> bool;
    /// The type of a field, by the name that expressions use.
    fn field(&self, object: &str, field: &str) -> Option<Type>;
}

/// The object types of a schema, by the path at which they stand.
#[derive(Debug, Clone, Default)]
pub struct Declarations {
    objects: BTreeMap<Arc<str>, BTreeMap<String, Type>>,
}

impl Declarations {
    /// The type of values of `shape`, and the object types inside it, named from `name` on. None where CEL cannot see such values.
    #[must_use]
    pub fn of(shape: &Shape, name: &str) -> (Option<Type>, Self) {
        let mut declarations = Self::default();
        let root = declarations.declare(shape, name);
        (root, declarations)
    }

    fn declare(&mut self, shape: &Shape, name: &str) -> Option<Type> {
        if shape.int_or_string {
            return Some(Type::Dyn);
        }
        match shape.kind.as_str() {
            "array" => Some(Type::list(self.declare(shape.items()?, &format!("{name}.@idx"))?)),
            "object" => match &shape.additional {
                Some(additional) => Some(Type::map(Type::String, self.declare(additional, &format!("{name}.@elem"))?)),
                None => {
                    let mut fields = BTreeMap::new();
                    for (property, child) in shape.visible() {
                        let Some(field) = escape(property) else { continue };
                        if let Some(field_type) = self.declare(child, &format!("{name}.{field}")) {
                            fields.insert(field, field_type);
                        }
                    }
                    let name: Arc<str> = name.into();
                    self.objects.insert(Arc::clone(&name), fields);
                    Some(Type::Struct(name))
                }
            },
            "string" => Some(match shape.format.as_str() {
                "byte" => Type::Bytes,
                "duration" => Type::Duration,
                "date" | "date-time" => Type::Timestamp,
                _ => Type::String,
            }),
            "boolean" => Some(Type::Bool),
            "number" => Some(Type::Double),
            "integer" => Some(Type::Int),
            _ => None,
        }
    }
}

impl TypeProvider for Declarations {
    fn is_declared(&self, object: &str) -> bool {
        self.objects.contains_key(object)
    }

    fn field(&self, object: &str, field: &str) -> Option<Type> {
        let fields = self.objects.get(object)?;
        let keyword = || fields.get(&format!("__{field}__")).filter(|_| is_reserved(field));
        fields.get(field).or_else(keyword).cloned()
    }
}
