//! CEL types, as the checker uses them and error texts display them.

use std::fmt;
use std::sync::Arc;

/// A CEL type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Type {
    /// Any type; checked at run time.
    Dyn,
    /// The type of an invalid node. It is assignable to every type, so that one mistake gives one message.
    Error,
    /// `null`
    Null,
    /// `true`, `false`
    Bool,
    /// 64 bits, signed
    Int,
    /// 64 bits, unsigned
    Uint,
    /// IEEE 754, 64 bits
    Double,
    /// Unicode text
    String,
    /// Bytes
    Bytes,
    /// A point in time
    Timestamp,
    /// A span of time
    Duration,
    /// A list whose elements have one type
    List(Arc<Type>),
    /// A map from one type to another
    Map(Arc<Type>, Arc<Type>),
    /// An object with declared fields, by the name of its type
    Struct(Arc<str>),
    /// A type that only functions can use, with parameters, such as `optional_type(int)`
    Opaque(Arc<str>, Vec<Type>),
    /// The type of a type
    Type(Option<Arc<Type>>),
    /// A type parameter of a signature or, in the checker, a type variable
    Param(Arc<str>),
}

impl Type {
    /// `list(element)`
    #[must_use]
    pub fn list(element: Type) -> Type {
        Type::List(Arc::new(element))
    }

    /// `map(key, value)`
    #[must_use]
    pub fn map(key: Type, value: Type) -> Type {
        Type::Map(Arc::new(key), Arc::new(value))
    }

    /// `optional_type(value)`
    #[must_use]
    pub fn optional(value: Type) -> Type {
        Type::Opaque("optional_type".into(), vec![value])
    }

    pub(crate) fn object(name: &str) -> Type {
        Type::Struct(name.into())
    }

    pub(crate) fn param(name: &str) -> Type {
        Type::Param(name.into())
    }

    pub(crate) fn type_of(inner: Type) -> Type {
        Type::Type(Some(Arc::new(inner)))
    }

    pub(crate) fn is_dyn_or_error(&self) -> bool {
        matches!(self, Type::Dyn | Type::Error)
    }

    /// The inner type of an optional, or the type itself, and whether it was an optional.
    pub(crate) fn unwrap_optional(&self) -> (&Type, bool) {
        match self {
            Type::Opaque(name, params) if &**name == "optional_type" && params.len() == 1 => (&params[0], true),
            other => (other, false),
        }
    }

    /// The name of the type at run time, without parameters.
    #[must_use]
    pub fn name(&self) -> &str {
        self.runtime_name()
    }

    /// The name of the type at run time, as `type(x)` has it.
    pub(crate) fn runtime_name(&self) -> &str {
        match self {
            Type::Dyn => "dyn",
            Type::Error => "error",
            Type::Null => "null_type",
            Type::Bool => "bool",
            Type::Int => "int",
            Type::Uint => "uint",
            Type::Double => "double",
            Type::String => "string",
            Type::Bytes => "bytes",
            Type::Timestamp => "google.protobuf.Timestamp",
            Type::Duration => "google.protobuf.Duration",
            Type::List(_) => "list",
            Type::Map(..) => "map",
            Type::Struct(name) | Type::Opaque(name, _) | Type::Param(name) => name,
            Type::Type(_) => "type",
        }
    }

    /// Whether two types are equal when all type parameters count as one.
    pub(crate) fn is_equivalent(&self, other: &Type) -> bool {
        match (self, other) {
            (Type::Param(_), Type::Param(_)) => true,
            (Type::List(a), Type::List(b)) => a.is_equivalent(b),
            (Type::Map(ak, av), Type::Map(bk, bv)) => ak.is_equivalent(bk) && av.is_equivalent(bv),
            (Type::Type(Some(a)), Type::Type(Some(b))) => a.is_equivalent(b),
            (Type::Opaque(an, ap), Type::Opaque(bn, bp)) => {
                an == bn && ap.len() == bp.len() && ap.iter().zip(bp).all(|(a, b)| a.is_equivalent(b))
            }
            (a, b) => a == b,
        }
    }
}

/// Displays the type as cel-go's error texts do.
impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Type::Error => f.write_str("!error!"),
            Type::Null => f.write_str("null"),
            Type::Timestamp => f.write_str("timestamp"),
            Type::Duration => f.write_str("duration"),
            Type::List(element) => write!(f, "list({element})"),
            Type::Map(key, value) => write!(f, "map({key}, {value})"),
            Type::Type(Some(inner)) => write!(f, "type({inner})"),
            Type::Opaque(name, params) if !params.is_empty() => {
                write!(f, "{name}(")?;
                for (index, param) in params.iter().enumerate() {
                    write!(f, "{}{param}", if index > 0 { ", " } else { "" })?;
                }
                f.write_str(")")
            }
            other => f.write_str(other.runtime_name()),
        }
    }
}
