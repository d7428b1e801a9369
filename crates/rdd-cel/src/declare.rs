//! Declares the types of a schema for the checker: of `self` and everything below it.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::escape::{escape, is_reserved};
use crate::shape::Shape;
use crate::types::Type;

/// Declares object types and their fields to the checker.
pub trait TypeProvider: Send + Sync {
    /// Whether an object type of this name exists.
    fn is_declared(&self, object: &str) -> bool;
    /// The type of a field, by its name in expressions. `None` if the object has no such field.
    fn field(&self, object: &str, field: &str) -> Option<Type>;
}

/// The object types of a schema, by their paths in it.
#[derive(Debug, Clone, Default)]
pub struct Declarations {
    objects: BTreeMap<Arc<str>, BTreeMap<String, Type>>,
}

impl Declarations {
    /// Declares the type of values of `shape`, and of all objects in it, with names that begin with `name`. The type is `None`
    /// if CEL cannot access such values.
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
                        // A property whose name cannot be escaped to an identifier is not accessible.
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
        // A property with the name of a CEL keyword is declared with underscores; the plain name finds it too.
        let keyword = || fields.get(&format!("__{field}__")).filter(|_| is_reserved(field));
        fields.get(field).or_else(keyword).cloned()
    }
}
