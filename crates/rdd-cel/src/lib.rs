//! CEL as in Kubernetes 1.35: parser, type checker, evaluator with a cost budget, function libraries, and CRD validation rules.
//!
//! # Flow
//! - An expression: [`Environment::compile`] returns a [`Program`]; [`Program::evaluate`] returns a [`Value`] or a [`Fault`],
//!   and the cost.
//! - A schema: [`Shape::new`] reads it, [`RuleSet::new`] compiles its rules, and [`RuleSet::validate`] evaluates them for an
//!   object.
//!
//! # Guarantees
//! Everything here is pure and bounded: no input causes a panic, unbounded recursion, or work that has no cost.
//!
//! # Not implemented
//! The static cost estimate, which belongs into `cost`, and the library `jsonpatch`, whose functions belong into the table in
//! `libs`.

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
