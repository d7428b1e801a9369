//! The function libraries: signatures for the checker, implementations for the evaluator.

pub(crate) mod authz;
pub(crate) mod convert;
pub(crate) mod lists;
pub(crate) mod named;
pub(crate) mod net;
pub(crate) mod operators;
pub(crate) mod optionals;
pub(crate) mod quantity;
pub(crate) mod regexes;
pub(crate) mod semver;
pub(crate) mod sets;
mod signature;
pub(crate) mod string_format;
pub(crate) mod strings;
pub(crate) mod table;
pub(crate) mod time;
pub(crate) mod url;

use std::collections::HashMap;
use std::sync::LazyLock;

use crate::types::Type;
use crate::value::{Fault, Outcome, Value};

/// The implementation of a function. It gets all arguments, the receiver first.
pub(crate) type Native = for<'a> fn(&[Value<'a>]) -> Outcome<'a>;

/// How a call evaluates its arguments. cel-go evaluates both arguments of a binary function, but stops at the first error of a
/// variadic one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    Unary,
    Binary,
    Variadic,
    /// The planner compiles it to a node of its own.
    Planned,
}

/// One signature of a function with its implementation.
#[derive(Debug, Clone)]
pub(crate) struct Overload {
    pub(crate) id: String,
    pub(crate) member: bool,
    pub(crate) params: Vec<Type>,
    pub(crate) result: Type,
    pub(crate) style: Style,
    pub(crate) native: Native,
    /// Whether the types of the arguments are checked before the call.
    pub(crate) guarded: bool,
}

/// One implementation for all overloads of a function, for operands that `accepts` allows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Singleton {
    pub(crate) style: Style,
    pub(crate) native: Native,
    pub(crate) accepts: fn(&Value<'_>) -> bool,
}

/// A function with its overloads.
#[derive(Debug, Clone, Default)]
pub(crate) struct Function {
    pub(crate) overloads: Vec<Overload>,
    pub(crate) singleton: Option<Singleton>,
}

/// All functions by name.
pub(crate) static FUNCTIONS: LazyLock<HashMap<&'static str, Function>> = LazyLock::new(table::functions);

/// Finds an overload by its function and its id.
pub(crate) fn overload(function: &str, id: &str) -> Option<&'static Overload> {
    FUNCTIONS.get(function)?.overloads.iter().find(|overload| overload.id == id)
}

impl Overload {
    /// Calls the implementation if the arguments match.
    pub(crate) fn call<'a>(&self, function: &str, args: &[Value<'a>]) -> Outcome<'a> {
        if self.matches(args) { (self.native)(args) } else { Err(no_such_overload(function, args)) }
    }

    /// Whether the arguments match the parameters in number and, unless the overload is unguarded, in type.
    pub(crate) fn matches(&self, args: &[Value<'_>]) -> bool {
        args.len() == self.params.len()
            && (!self.guarded || args.iter().zip(&self.params).all(|(arg, param)| arg.fits(param)))
    }
}

/// Calls the first overload that matches the arguments.
pub(crate) fn dispatch<'a>(name: &str, function: &Function, args: &[Value<'a>]) -> Outcome<'a> {
    match function.overloads.iter().find(|overload| overload.style != Style::Planned && overload.matches(args)) {
        Some(overload) => (overload.native)(args),
        None => Err(no_such_overload(name, args)),
    }
}

pub(crate) fn no_such_overload(function: &str, args: &[Value<'_>]) -> Fault {
    let types: Vec<&str> = args.iter().map(Value::type_name).collect();
    Fault::error(format!("no such overload: {function}({})", types.join(", ")))
}
