//! CEL as Kubernetes speaks it in version 1.35: parser, type checker, evaluator under a cost budget, function libraries, and the
//! rules of CustomResourceDefinitions.
//!
//! The way of an expression: [`Environment::compile`] makes a [`Program`]; [`Program::evaluate`] gives a [`Value`] or a [`Fault`]
//! and what it cost. The way of a schema: [`Shape::new`] reads it, [`RuleSet::new`] compiles its rules, [`RuleSet::validate`]
//! runs them. Everything here is pure and bounded: no input makes it panic, recurse without end or work without a price.
//!
//! Later, and kept in mind: the static cost estimate (beside the prices, in `cost`), and the library `jsonpatch` (its signatures and
//! bodies join the table in `libs`).

mod ast;
mod check;
mod cost;
mod declare;
mod env;
mod escape;
mod eval;
mod go;
mod json_schema;
mod libs;
mod parse;
pub mod pattern;
mod plan;
mod program;
pub mod rules;
mod shape;
mod source;
mod stack;
mod types;
mod value;

pub use declare::{Declarations, TypeProvider};
pub use env::{CompileError, Environment};
pub use escape::{escape, is_reserved, unescape};
pub use json_schema::JsonSchema;
pub use libs::regexes::compile as compile_pattern;
pub use libs::{authz::Authorization, named::NamedFormat, net::Cidr, quantity::Quantity, semver::Semver, url::Url};
pub use program::{Evaluation, Program};
pub use rules::{Rule, RuleSet};
pub use shape::{SchemaNode, Shape};
pub use source::{Issue, Issues, Location};
pub use types::Type;
pub use value::{Fault, List, ListValues, Map, MapValues, Outcome, Text, Timestamp, Value};
