//! The syntax tree: the parser builds it, the checker annotates it, and the planner compiles it to a program.

use std::sync::Arc;

/// Identifies a node. It is also the index into the positions, types and references of all nodes.
pub(crate) type Id = u32;

/// The variable that macros accumulate into. An expression cannot name it, because `@` does not begin an identifier.
pub(crate) const ACCUMULATOR: &str = "@result";

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Literal {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    String(Arc<str>),
    Bytes(Arc<[u8]>),
}

#[derive(Debug, Clone)]
pub(crate) struct Expr {
    pub(crate) id: Id,
    pub(crate) kind: Kind,
}

#[derive(Debug, Clone)]
pub(crate) enum Kind {
    /// A node in place of invalid source. The parser fails before such a node leaves it.
    Unspecified,
    Literal(Literal),
    Ident(String),
    Select {
        operand: Box<Expr>,
        field: String,
        test_only: bool,
    },
    Call {
        target: Option<Box<Expr>>,
        function: String,
        args: Vec<Expr>,
    },
    List(Vec<Element>),
    Map(Vec<Entry>),
    Struct {
        name: String,
        fields: Vec<Field>,
    },
    Comprehension(Box<Comprehension>),
}

#[derive(Debug, Clone)]
pub(crate) struct Element {
    pub(crate) value: Expr,
    pub(crate) optional: bool,
}

#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) key: Expr,
    pub(crate) value: Expr,
    pub(crate) optional: bool,
}

#[derive(Debug, Clone)]
pub(crate) struct Field {
    pub(crate) id: Id,
    pub(crate) name: String,
    pub(crate) value: Expr,
    pub(crate) optional: bool,
}

/// `for variable in range { if !condition { break }; accumulator = step }; result`
#[derive(Debug, Clone)]
pub(crate) struct Comprehension {
    pub(crate) range: Expr,
    pub(crate) variable: String,
    pub(crate) second_variable: Option<String>,
    pub(crate) accumulator: String,
    pub(crate) init: Expr,
    pub(crate) condition: Expr,
    pub(crate) step: Expr,
    pub(crate) result: Expr,
}

impl Expr {
    /// `a.b.c` as one name, if the expression consists only of names and field selections.
    pub(crate) fn qualified_name(&self) -> Option<String> {
        match &self.kind {
            Kind::Ident(name) => Some(name.clone()),
            Kind::Select { operand, field, test_only: false } => Some(format!("{}.{field}", operand.qualified_name()?)),
            _ => None,
        }
    }

    /// Calls `visit` for every node after its children, with the node's ancestors, outermost first.
    pub(crate) fn walk<'e>(&'e self, ancestors: &mut Vec<&'e Expr>, visit: &mut dyn FnMut(&'e Expr, &[&'e Expr])) {
        ancestors.push(self);
        match &self.kind {
            Kind::Unspecified | Kind::Literal(_) | Kind::Ident(_) => {}
            Kind::Select { operand, .. } => operand.walk(ancestors, visit),
            Kind::Call { target, args, .. } => {
                if let Some(target) = target {
                    target.walk(ancestors, visit);
                }
                args.iter().for_each(|arg| arg.walk(ancestors, visit));
            }
            Kind::List(elements) => elements.iter().for_each(|element| element.value.walk(ancestors, visit)),
            Kind::Map(entries) => {
                for entry in entries {
                    entry.key.walk(ancestors, visit);
                    entry.value.walk(ancestors, visit);
                }
            }
            Kind::Struct { fields, .. } => fields.iter().for_each(|field| field.value.walk(ancestors, visit)),
            Kind::Comprehension(fold) => {
                for part in [&fold.range, &fold.init, &fold.condition, &fold.step, &fold.result] {
                    part.walk(ancestors, visit);
                }
            }
        }
        ancestors.pop();
        visit(self, ancestors);
    }
}
