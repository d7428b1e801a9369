//! Programs: planned expressions, shared between threads, evaluated under a budget.

use std::collections::HashSet;

use crate::pattern::Matcher;

use crate::cost::Price;
use crate::eval;
use crate::libs::{Function, Overload, Singleton};
use crate::stack;
use crate::types::Type;
use crate::value::{Fault, Key, Outcome, Value};

/// A compiled expression.
#[derive(Debug)]
pub struct Program {
    pub(crate) root: Node,
    pub(crate) slots: usize,
    pub(crate) output: Type,
    pub(crate) variables: HashSet<String>,
    /// How deep its nodes are nested
    pub(crate) depth: usize,
}

/// Programs that are nested deeper run on a stack of their own.
const DEPTH_INLINE_MAX: usize = 48;

/// What an evaluation came to.
#[derive(Debug, Clone)]
pub struct Evaluation<'a> {
    /// The value, or why there is none
    pub outcome: Outcome<'a>,
    /// What it cost, in cel-go's units; also where it failed
    pub cost: u64,
}

impl Program {
    /// The type of its values.
    #[must_use]
    pub fn output_type(&self) -> &Type {
        &self.output
    }

    /// Whether it names a variable of the environment.
    #[must_use]
    pub fn uses(&self, variable: &str) -> bool {
        self.variables.contains(variable)
    }

    /// Evaluates with values for variables; stops when the cost exceeds the limit.
    #[must_use]
    pub fn evaluate<'a>(&self, variables: &[(&str, Outcome<'a>)], cost_limit: u64) -> Evaluation<'a> {
        let made = stack::with_room(self.depth > DEPTH_INLINE_MAX, || eval::evaluate(self, variables, cost_limit));
        made.unwrap_or_else(|| Evaluation {
            outcome: Err(Fault::Internal("no thread for a deep expression".into())),
            cost: 0,
        })
    }
}

#[derive(Debug)]
pub(crate) enum Node {
    Const(Value<'static>),
    Attribute(Box<Attribute>),
    And(Box<[Node; 2]>),
    Or(Box<[Node; 2]>),
    /// `==`, or `!=` where negated
    Equal(Box<[Node; 2]>, bool),
    Call(Box<Call>),
    /// Membership in a list of constants
    InSet(Box<Node>, HashSet<Key>),
    /// `or`, or `orValue`
    OptionalOr(Box<[Node; 2]>, bool),
    List(Vec<(Node, bool)>),
    Map(Vec<(Node, Node, bool)>),
    /// An object that no provider can make
    Struct(String, Vec<Node>),
    Fold(Box<Fold>),
}

/// A variable or a value, and the way from it to a part of it.
#[derive(Debug)]
pub(crate) struct Attribute {
    pub(crate) root: Root,
    pub(crate) qualifiers: Vec<Qualifier>,
    /// `has(…)`: only whether the last part is there
    pub(crate) test_only: bool,
}

#[derive(Debug)]
pub(crate) enum Root {
    Variable(String),
    Slot(usize),
    Value(Node),
    Conditional(Box<(Node, Attribute, Attribute)>),
}

#[derive(Debug)]
pub(crate) struct Qualifier {
    pub(crate) key: QualifierKey,
    pub(crate) optional: bool,
}

#[derive(Debug)]
pub(crate) enum QualifierKey {
    Const(Value<'static>),
    Dynamic(Node),
}

#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) function: String,
    pub(crate) body: Body,
    /// Stops at the first argument that fails.
    pub(crate) stops_early: bool,
    pub(crate) price: Price,
    pub(crate) args: Vec<Node>,
}

#[derive(Debug)]
pub(crate) enum Body {
    Overload(&'static Overload),
    Dispatch(&'static Function),
    Singleton(Singleton),
    Matches(Matcher),
    Find(Matcher),
    FindAll(Matcher),
    NotStrictlyFalse,
    /// Adds to the accumulator, in place
    Append(usize),
    /// Inserts into the accumulator, in place
    Insert(usize),
    Missing,
}

#[derive(Debug)]
pub(crate) struct Fold {
    pub(crate) range: Node,
    pub(crate) variable: usize,
    pub(crate) second_variable: Option<usize>,
    pub(crate) accumulator: usize,
    pub(crate) init: Node,
    pub(crate) condition: Node,
    pub(crate) step: Node,
    pub(crate) result: Node,
}

impl Node {
    pub(crate) fn constant(&self) -> Option<&Value<'static>> {
        match self {
            Node::Const(value) => Some(value),
            _ => None,
        }
    }

    /// The node as an attribute, to go on from.
    pub(crate) fn into_attribute(self) -> Attribute {
        match self {
            Node::Attribute(attribute) => *attribute,
            other => Attribute { root: Root::Value(other), qualifiers: Vec::new(), test_only: false },
        }
    }
}

/// A fault of a constant is a fault of the program.
pub(crate) type Planned = Result<Node, String>;
