//! The planner: compiles a checked expression to a program, with slots for variables, folded constants and resolved functions.

use std::collections::HashSet;
use std::sync::Arc;

use crate::ast::{ACCUMULATOR, Comprehension, Expr, Kind, Literal};
use crate::check::{Checked, Reference};
use crate::cost::Price;
use crate::eval;
use crate::go;
use crate::libs::{self, FUNCTIONS, Style, regexes};
use crate::program::{Attribute, Body, Call, Fold, Node, Planned, Program, Qualifier, QualifierKey, Root};
use crate::value::{Key, Text, Value};

/// Plans a checked expression. The error is that of a constant part or of an invalid pattern.
pub(crate) fn plan(checked: &Checked) -> Result<Program, String> {
    let mut planner = Planner { checked, scopes: Vec::new(), slots: 0, depth: 0, deepest: 0 };
    let root = planner.plan(&checked.root)?;
    let names = checked.references.iter().flatten().filter_map(|reference| match reference {
        Reference::Variable(name) => Some(name.clone()),
        _ => None,
    });
    let output = checked.type_of(&checked.root).clone();
    Ok(Program { root, slots: planner.slots, output, variables: names.collect(), depth: planner.deepest })
}

struct Planner<'c> {
    checked: &'c Checked,
    /// The variables of the comprehensions around the current node, with their slots.
    scopes: Vec<(String, usize)>,
    slots: usize,
    depth: usize,
    deepest: usize,
}

impl Planner<'_> {
    fn reference(&self, expr: &Expr) -> Option<&Reference> {
        self.checked.references[expr.id as usize].as_ref()
    }

    fn plan(&mut self, expr: &Expr) -> Planned {
        self.depth += 1;
        self.deepest = self.deepest.max(self.depth);
        let planned = self.plan_node(expr);
        self.depth -= 1;
        planned
    }

    fn plan_node(&mut self, expr: &Expr) -> Planned {
        match self.reference(expr).cloned() {
            Some(Reference::Variable(name)) => return Ok(self.variable(&name)),
            Some(Reference::Type(named, name)) if !matches!(expr.kind, Kind::Struct { .. }) => {
                let unknown =
                    matches!(name.as_str(), "duration" | "timestamp") || matches!(named, crate::types::Type::Struct(_));
                if unknown {
                    return Err(format!("reference to undefined type: {name}"));
                }
                return Ok(Node::Const(Value::Type(Arc::new(named))));
            }
            _ => {}
        }
        match &expr.kind {
            Kind::Unspecified => Err("unsupported expr".into()),
            Kind::Literal(literal) => Ok(Node::Const(constant(literal))),
            Kind::Ident(name) => Ok(self.variable(name)),
            Kind::Select { operand, field, test_only } => {
                let mut attribute = self.plan(operand)?.into_attribute();
                let key = QualifierKey::Const(Value::String(Text::Shared(field.as_str().into())));
                // A chain of selections becomes one attribute with many qualifiers.
                attribute.qualifiers.push(Qualifier { key, optional: false });
                attribute.test_only = *test_only;
                Ok(Node::Attribute(Box::new(attribute)))
            }
            Kind::Call { target, function, args } => self.call(expr, target.as_deref(), function, args),
            Kind::List(elements) => {
                let mut items = Vec::with_capacity(elements.len());
                for element in elements {
                    items.push((self.plan(&element.value)?, element.optional));
                }
                let is_constant = items.iter().all(|(item, _)| item.constant().is_some());
                fold_constant(Node::List(items), is_constant)
            }
            Kind::Map(entries) => {
                let mut items = Vec::with_capacity(entries.len());
                for entry in entries {
                    items.push((self.plan(&entry.key)?, self.plan(&entry.value)?, entry.optional));
                }
                let is_constant = items.iter().all(|(k, v, _)| k.constant().is_some() && v.constant().is_some());
                fold_constant(Node::Map(items), is_constant)
            }
            Kind::Struct { name, fields } => {
                let values: Result<Vec<Node>, String> = fields.iter().map(|field| self.plan(&field.value)).collect();
                Ok(Node::Struct(name.clone(), values?))
            }
            Kind::Comprehension(fold) => self.fold(fold),
        }
    }

    fn variable(&self, name: &str) -> Node {
        let slot = self.scopes.iter().rev().find(|(scoped, _)| scoped == name).map(|(_, slot)| *slot);
        let root = match slot {
            Some(slot) => Root::Slot(slot),
            None => Root::Variable(name.to_owned()),
        };
        Node::Attribute(Box::new(Attribute { root, qualifiers: Vec::new(), test_only: false }))
    }

    fn fold(&mut self, fold: &Comprehension) -> Planned {
        let init = self.plan(&fold.init)?;
        let range = self.plan(&fold.range)?;
        let mut slot = || {
            self.slots += 1;
            self.slots - 1
        };
        let (accumulator, variable) = (slot(), slot());
        let second_variable = fold.second_variable.as_ref().map(|_| slot());
        let depth = self.scopes.len();
        // The accumulator hides an iteration variable of the same name.
        self.scopes.push((fold.variable.clone(), variable));
        if let (Some(name), Some(slot)) = (&fold.second_variable, second_variable) {
            self.scopes.push((name.clone(), slot));
        }
        self.scopes.push((fold.accumulator.clone(), accumulator));
        let condition = self.plan(&fold.condition)?;
        let step = self.plan(&fold.step)?;
        // The result sees the accumulator, but not the iteration variables.
        self.scopes.truncate(depth);
        self.scopes.push((fold.accumulator.clone(), accumulator));
        let result = self.plan(&fold.result)?;
        self.scopes.truncate(depth);
        let fold = Fold { range, variable, second_variable, accumulator, init, condition, step, result };
        Ok(Node::Fold(Box::new(fold)))
    }

    fn call(&mut self, expr: &Expr, target: Option<&Expr>, function: &str, args: &[Expr]) -> Planned {
        let (name, overloads, drops_target) = match self.reference(expr) {
            Some(Reference::Function { name, overloads, drops_target }) => {
                (name.clone(), overloads.clone(), *drops_target)
            }
            _ => (function.to_owned(), Vec::new(), false),
        };
        let target = if drops_target { None } else { target };
        let mut nodes = Vec::with_capacity(args.len() + 1);
        for arg in target.into_iter().chain(args) {
            nodes.push(self.plan(arg)?);
        }
        // With several overloads, the evaluator chooses by the types of the arguments.
        let overload = if let [one] = overloads.as_slice() { one } else { "" };
        let pair = |nodes: Vec<Node>| -> Result<Box<[Node; 2]>, String> {
            nodes.try_into().map(Box::new).map_err(|_| format!("no such overload: {name}"))
        };
        match name.as_str() {
            "_&&_" => return Ok(Node::And(pair(nodes)?)),
            "_||_" => return Ok(Node::Or(pair(nodes)?)),
            "_==_" => return Ok(Node::Equal(pair(nodes)?, false)),
            "_!=_" => return Ok(Node::Equal(pair(nodes)?, true)),
            "_?_:_" => return conditional(nodes),
            "_[_]" => return index(*pair(nodes)?, false),
            "_[?_]" | "_?._" => return index(*pair(nodes)?, true),
            "or" if nodes.len() == 2 => return Ok(Node::OptionalOr(pair(nodes)?, false)),
            "orValue" if nodes.len() == 2 => return Ok(Node::OptionalOr(pair(nodes)?, true)),
            _ => {}
        }
        if overload == "in_list"
            && let Some(set) = membership(&nodes)
        {
            return Ok(set(nodes));
        }
        let (body, stops_early) = self.body(&name, overload, &nodes)?;
        let price = Price::of(&name, overload);
        let call = Call { function: name, body, stops_early, price, args: nodes };
        let is_constant = converts(&call.function) && call.args.len() == 1 && call.args[0].constant().is_some();
        fold_constant(Node::Call(Box::new(call)), is_constant)
    }

    /// The body of a call, and whether its arguments stop at the first error.
    fn body(&self, name: &str, overload: &str, args: &[Node]) -> Result<(Body, bool), String> {
        let missing = (Body::Missing, args.len() > 2);
        if name == "@not_strictly_false" {
            return Ok((Body::NotStrictlyFalse, false));
        }
        if let Some(slot) = self.accumulator(args) {
            match name {
                "_+_" => return Ok((Body::Append(slot), false)),
                "cel.@mapInsert" => return Ok((Body::Insert(slot), args.len() > 2)),
                _ => {}
            }
        }
        // A constant pattern is compiled once, with the program.
        if let Some(Value::String(pattern)) = args.get(1).and_then(Node::constant) {
            match name {
                "matches" => return Ok((Body::Matches(regexes::compile(pattern)?), true)),
                "find" => return Ok((Body::Find(regexes::compile(pattern)?), true)),
                "findAll" => return Ok((Body::FindAll(regexes::compile(pattern)?), true)),
                _ => {}
            }
        }
        let Some(function) = FUNCTIONS.get(name) else { return Ok(missing) };
        if let Some(singleton) = function.singleton {
            return Ok((Body::Singleton(singleton), singleton.style == Style::Variadic));
        }
        let only = if function.overloads.len() == 1 { function.overloads.first() } else { None };
        Ok(match libs::overload(name, overload).or(only) {
            Some(found) => (Body::Overload(found), found.style == Style::Variadic || args.len() > 2),
            None => (Body::Dispatch(function), true),
        })
    }

    /// The slot of the accumulator, if the first argument is the accumulator itself.
    fn accumulator(&self, args: &[Node]) -> Option<usize> {
        let Node::Attribute(attribute) = args.first()? else { return None };
        let Root::Slot(slot) = attribute.root else { return None };
        let is_accumulator = self.scopes.iter().any(|(name, scoped)| *scoped == slot && name == ACCUMULATOR);
        (is_accumulator && attribute.qualifiers.is_empty()).then_some(slot)
    }
}

fn constant(literal: &Literal) -> Value<'static> {
    match literal {
        Literal::Null => Value::Null,
        Literal::Bool(value) => Value::Bool(*value),
        Literal::Int(value) => Value::Int(*value),
        Literal::Uint(value) => Value::Uint(*value),
        Literal::Double(value) => Value::Double(*value),
        Literal::String(text) => Value::String(Text::Shared(Arc::clone(text))),
        Literal::Bytes(octets) => Value::Bytes(Arc::clone(octets)),
    }
}

/// Evaluates a node whose operands are constant.
fn fold_constant(node: Node, is_constant: bool) -> Planned {
    if !is_constant {
        return Ok(node);
    }
    eval::evaluate_constant(&node).map(Node::Const).map_err(|fault| fault.to_string())
}

/// Whether calls of a function with a constant argument are evaluated by the planner.
fn converts(function: &str) -> bool {
    matches!(
        function,
        "bool" | "bytes" | "double" | "duration" | "dyn" | "int" | "string" | "timestamp" | "type" | "uint"
    )
}

fn conditional(nodes: Vec<Node>) -> Planned {
    let [condition, truthy, falsy]: [Node; 3] = nodes.try_into().map_err(|_| "no such overload: _?_:_".to_owned())?;
    let root = Root::Conditional(Box::new((condition, truthy.into_attribute(), falsy.into_attribute())));
    Ok(Node::Attribute(Box::new(Attribute { root, qualifiers: Vec::new(), test_only: false })))
}

fn index([operand, index]: [Node; 2], optional: bool) -> Planned {
    let mut attribute = operand.into_attribute();
    let key = match index {
        Node::Const(value) => match value {
            Value::String(_) | Value::Int(_) | Value::Uint(_) | Value::Bool(_) | Value::Double(_) => {
                QualifierKey::Const(value)
            }
            other => return Err(format!("invalid qualifier type: {}", eval::go_type(&other))),
        },
        other => QualifierKey::Dynamic(other),
    };
    attribute.qualifiers.push(Qualifier { key, optional });
    Ok(Node::Attribute(Box::new(attribute)))
}

/// If a hash set can represent a constant list, returns a function that builds the node for `in`.
fn membership(nodes: &[Node]) -> Option<impl FnOnce(Vec<Node>) -> Node + use<>> {
    let Value::List(list) = nodes.get(1)?.constant()? else { return None };
    let mut keys = HashSet::new();
    for item in list.iter() {
        // Numbers equal each other across types, so each is added under every type that can represent it.
        let item = item.ok()?;
        match &item {
            Value::Double(value) => {
                keys.extend(go::whole_int(*value).map(Key::Int));
                keys.extend(go::whole_uint(*value).map(Key::Uint));
            }
            Value::Int(value) => {
                keys.insert(Key::of(&Value::Double(*value as f64)).ok()?);
                keys.extend(u64::try_from(*value).ok().map(Key::Uint));
            }
            Value::Uint(value) => {
                keys.insert(Key::of(&Value::Double(*value as f64)).ok()?);
                keys.extend(i64::try_from(*value).ok().map(Key::Int));
            }
            Value::Bool(_) | Value::String(_) => {}
            _ => return None,
        }
        keys.insert(Key::of(&item).ok()?);
    }
    let is_empty = list.is_empty();
    Some(move |mut nodes: Vec<Node>| match is_empty {
        true => Node::Const(Value::Bool(false)),
        false => Node::InSet(Box::new(nodes.swap_remove(0)), keys),
    })
}
