//! Programs: planned expressions that threads can share, evaluated with a cost limit.

use std::collections::HashSet;

use crate::pattern::Matcher;

use crate::cost::Price;
use crate::eval;
use crate::libs::{Function, Overload, Singleton};
use crate::stack;
use crate::types::Type;
use crate::value::{Fault, Key, Outcome, Value};

/// A compiled expression. It is immutable; any number of threads may evaluate it.
#[derive(Debug)]
pub struct Program {
    pub(crate) root: Node,
    pub(crate) slots: usize,
    pub(crate) output: Type,
    pub(crate) variables: HashSet<String>,
    /// The greatest nesting depth of its nodes
    pub(crate) depth: usize,
}

/// Deeper programs are evaluated on a thread with a large stack.
const DEPTH_INLINE_MAX: usize = 48;

/// The result of an evaluation.
#[derive(Debug, Clone)]
pub struct Evaluation<'a> {
    /// The value, or the fault
    pub outcome: Outcome<'a>,
    /// The cost in cel-go's units, also of a failed evaluation
    pub cost: u64,
}

impl Program {
    /// The type of the program's values.
    #[must_use]
    pub fn output_type(&self) -> &Type {
        &self.output
    }

    /// Whether the program refers to a variable of the environment.
    #[must_use]
    pub fn uses(&self, variable: &str) -> bool {
        self.variables.contains(variable)
    }

    /// Evaluates the program with these variables.
    ///
    /// The evaluation ends with [`Fault::CostLimit`] when its cost exceeds `cost_limit`. A variable that the program uses and
    /// that is not given is an error of the expression.
    #[must_use]
    pub fn evaluate<'a>(&self, variables: &[(&str, Outcome<'a>)], cost_limit: u64) -> Evaluation<'a> {
        // The evaluator recurses once for each level of the program.
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
    /// `==`, or `!=` if true
    Equal(Box<[Node; 2]>, bool),
    Call(Box<Call>),
    /// `in` with a list of constants
    InSet(Box<Node>, HashSet<Key>),
    /// `or`, or `orValue` if true
    OptionalOr(Box<[Node; 2]>, bool),
    List(Vec<(Node, bool)>),
    Map(Vec<(Node, Node, bool)>),
    /// An object literal: its values are evaluated, then it fails, because Kubernetes cannot create objects
    Struct(String, Vec<Node>),
    Fold(Box<Fold>),
}

/// A variable or value, and the path from it to a part of it.
#[derive(Debug)]
pub(crate) struct Attribute {
    pub(crate) root: Root,
    pub(crate) qualifiers: Vec<Qualifier>,
    /// `has(…)`: only whether the last part is present
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
    /// The implementation of a call.
    pub(crate) body: Body,
    /// The arguments are evaluated up to the first error.
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
    /// Appends to the accumulator in this slot, in place
    Append(usize),
    /// Inserts into the accumulator in this slot, in place
    Insert(usize),
    /// No implementation; the call fails.
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

    /// Converts the node to an attribute, which qualifiers can be added to.
    pub(crate) fn into_attribute(self) -> Attribute {
        match self {
            Node::Attribute(attribute) => *attribute,
            other => Attribute { root: Root::Value(other), qualifiers: Vec::new(), test_only: false },
        }
    }
}

/// A planned node. The fault of a constant part is an error of the program.
pub(crate) type Planned = Result<Node, String>;
