//! Macros: calls that the parser expands to comprehensions, presence tests and bindings.

use super::{NODES_MAX, Parser};
use crate::ast::{ACCUMULATOR, Comprehension, Element, Entry, Expr, Field, Id, Kind, Literal};

/// The former name of the accumulator, which an iteration variable must not have either.
const OLD_ACCUMULATOR: &str = "__result__";
/// The iteration variable of a comprehension that never iterates.
const UNUSED: &str = "#unused";

/// An invalid argument of a macro: its node and the error text.
type Refusal = (Id, String);

impl Parser<'_> {
    /// Builds a call, or the expansion of a macro.
    pub(super) fn call_or_macro(&mut self, id: Id, target: Option<Expr>, function: String, args: Vec<Expr>) -> Expr {
        let is_macro = match (&target, function.as_str(), args.len()) {
            (None, "has", 1) => true,
            (Some(target), "bind", 3) => {
                self.syntax.bindings && matches!(&target.kind, Kind::Ident(name) if name == "cel")
            }
            (Some(_), "all" | "exists" | "exists_one" | "map", 2 | 3) | (Some(_), "existsOne", 3) => true,
            (Some(_), "filter" | "optMap" | "optFlatMap" | "sortBy", 2) => true,
            (Some(_), "transformList" | "transformMap" | "transformMapEntry", 3 | 4) => true,
            _ => false,
        };
        // Macros match by name and number of arguments; any other call is a function call.
        if !is_macro {
            return Expr { id, kind: Kind::Call { target: target.map(Box::new), function, args } };
        }
        let offset = self.offsets[id as usize];
        let expanded = match target {
            None => self.presence(offset, args),
            Some(target) => self.expand(offset, target, &function, args),
        };
        expanded.unwrap_or_else(|(place, message)| {
            self.report(place, &message);
            Expr { id, kind: Kind::Unspecified }
        })
    }

    fn expand(&mut self, at: u32, target: Expr, function: &str, args: Vec<Expr>) -> Result<Expr, Refusal> {
        match (function, args.len()) {
            ("all", count) => self.quantifier(at, target, args, count == 3, Quantifier::All),
            ("exists", count) => self.quantifier(at, target, args, count == 3, Quantifier::Exists),
            ("exists_one" | "existsOne", count) => self.quantifier(at, target, args, count == 3, Quantifier::ExistsOne),
            ("map", _) => self.map_macro(at, target, args),
            ("filter", _) => self.filter(at, target, args),
            ("transformList", _) => self.transform(at, target, args, Transform::List),
            ("transformMap", _) => self.transform(at, target, args, Transform::Map),
            ("transformMapEntry", _) => self.transform(at, target, args, Transform::Entry),
            ("optMap", _) => self.optional_map(at, target, args, "optMap", true),
            ("optFlatMap", _) => self.optional_map(at, target, args, "optFlatMap", false),
            ("sortBy", _) => self.sort_by(at, target, args),
            _ => self.bind(at, args),
        }
    }

    /// Expands `has(operand.field)`.
    fn presence(&mut self, at: u32, mut args: Vec<Expr>) -> Result<Expr, Refusal> {
        let argument = args.remove(0);
        match argument.kind {
            Kind::Select { operand, field, .. } => Ok(self.node(at, Kind::Select { operand, field, test_only: true })),
            _ => Err((argument.id, "invalid argument to has() macro".into())),
        }
    }

    /// Expands `all`, `exists` and `exists_one`.
    fn quantifier(
        &mut self,
        at: u32,
        range: Expr,
        mut args: Vec<Expr>,
        two: bool,
        which: Quantifier,
    ) -> Result<Expr, Refusal> {
        let variables = variables(&args, two, "argument must be a simple name")?;
        let predicate = args.pop().expect("macros have as many arguments as their key says");
        let (init, condition, step, result);
        match which {
            Quantifier::All => {
                init = self.literal_node(at, Literal::Bool(true));
                // The loop ends when the accumulator is certainly false; an error does not end it, because a later false wins.
                let accumulator = self.accumulator(at);
                condition = self.call(at, "@not_strictly_false", vec![accumulator]);
                let accumulator = self.accumulator(at);
                step = self.call(at, "_&&_", vec![accumulator, predicate]);
                result = self.accumulator(at);
            }
            Quantifier::Exists => {
                init = self.literal_node(at, Literal::Bool(false));
                let accumulator = self.accumulator(at);
                let negated = self.call(at, "!_", vec![accumulator]);
                condition = self.call(at, "@not_strictly_false", vec![negated]);
                let accumulator = self.accumulator(at);
                step = self.call(at, "_||_", vec![accumulator, predicate]);
                result = self.accumulator(at);
            }
            Quantifier::ExistsOne => {
                init = self.literal_node(at, Literal::Int(0));
                condition = self.literal_node(at, Literal::Bool(true));
                let (accumulator, one) = (self.accumulator(at), self.literal_node(at, Literal::Int(1)));
                let more = self.call(at, "_+_", vec![accumulator, one]);
                let accumulator = self.accumulator(at);
                step = self.call(at, "_?_:_", vec![predicate, more, accumulator]);
                let (accumulator, one) = (self.accumulator(at), self.literal_node(at, Literal::Int(1)));
                result = self.call(at, "_==_", vec![accumulator, one]);
            }
        }
        Ok(self.fold(at, range, variables, init, condition, step, result))
    }

    fn map_macro(&mut self, at: u32, range: Expr, mut args: Vec<Expr>) -> Result<Expr, Refusal> {
        let variables = variables(&args, false, "argument is not an identifier")?;
        let value = args.pop().expect("map has two or three arguments");
        // `map(x, filter, value)` has the filter before the value, which is popped already.
        let filter = (args.len() == 2).then(|| args.pop()).flatten();
        let element = self.node(at, Kind::List(vec![Element { value, optional: false }]));
        Ok(self.collect(at, range, variables, filter, "_+_", vec![element], Kind::List(Vec::new())))
    }

    fn filter(&mut self, at: u32, range: Expr, mut args: Vec<Expr>) -> Result<Expr, Refusal> {
        let variables = variables(&args, false, "argument is not an identifier")?;
        let filter = args.pop();
        // The value is the iteration variable itself.
        let value = args.pop().expect("filter has two arguments");
        let element = self.node(at, Kind::List(vec![Element { value, optional: false }]));
        Ok(self.collect(at, range, variables, filter, "_+_", vec![element], Kind::List(Vec::new())))
    }

    /// Expands `transformList`, `transformMap` and `transformMapEntry`.
    fn transform(&mut self, at: u32, range: Expr, mut args: Vec<Expr>, which: Transform) -> Result<Expr, Refusal> {
        let variables = variables(&args, true, "argument must be a simple name")?;
        let value = args.pop().expect("transforms have three or four arguments");
        let filter = (args.len() == 3).then(|| args.pop()).flatten();
        let (function, operands, init) = match which {
            Transform::List => {
                let element = self.node(at, Kind::List(vec![Element { value, optional: false }]));
                ("_+_", vec![element], Kind::List(Vec::new()))
            }
            Transform::Map => {
                let key = self.node(at, Kind::Ident(variables.0.clone()));
                ("cel.@mapInsert", vec![key, value], Kind::Map(Vec::new()))
            }
            Transform::Entry => ("cel.@mapInsert", vec![value], Kind::Map(Vec::new())),
        };
        Ok(self.collect(at, range, variables, filter, function, operands, init))
    }

    /// Builds a comprehension whose step is `function(accumulator, operands…)` for elements that pass the filter.
    #[allow(clippy::too_many_arguments, reason = "the parts of one loop; a struct would only rename them")]
    fn collect(
        &mut self,
        at: u32,
        range: Expr,
        variables: (String, Option<String>),
        filter: Option<Expr>,
        function: &str,
        operands: Vec<Expr>,
        init: Kind,
    ) -> Expr {
        let init = self.node(at, init);
        let condition = self.literal_node(at, Literal::Bool(true));
        let mut args = vec![self.accumulator(at)];
        args.extend(operands);
        let mut step = self.call(at, function, args);
        if let Some(filter) = filter {
            let accumulator = self.accumulator(at);
            step = self.call(at, "_?_:_", vec![filter, step, accumulator]);
        }
        let result = self.accumulator(at);
        self.fold(at, range, variables, init, condition, step, result)
    }

    /// Expands `optMap` and `optFlatMap` to `target.hasValue() ? …target.value()… : optional.none()`.
    fn optional_map(
        &mut self,
        at: u32,
        target: Expr,
        mut args: Vec<Expr>,
        name: &str,
        wrap: bool,
    ) -> Result<Expr, Refusal> {
        let Kind::Ident(variable) = &args[0].kind else {
            return Err((args[0].id, format!("{name}() variable name must be a simple identifier")));
        };
        let variable = variable.clone();
        let body = args.pop().expect("optMap has two arguments");
        // The target is copied, so chained macros double it each time.
        let mut size = 0;
        target.walk(&mut Vec::new(), &mut |_, _| size += 1);
        if self.offsets.len() + size > NODES_MAX {
            return Err((target.id, format!("expression exceeds {NODES_MAX} nodes")));
        }
        let copy = self.copy(&target);
        let present = self.member_call(at, "hasValue", target, Vec::new());
        let value = self.member_call(at, "value", copy, Vec::new());
        let mut bound = self.binding(at, variable, value, body);
        if wrap {
            bound = self.call(at, "optional.of", vec![bound]);
        }
        let none = self.call(at, "optional.none", Vec::new());
        Ok(self.call(at, "_?_:_", vec![present, bound, none]))
    }

    /// Expands `sortBy` to a binding of the list and a list of keys, by which the list is sorted.
    fn sort_by(&mut self, at: u32, target: Expr, args: Vec<Expr>) -> Result<Expr, Refusal> {
        if matches!(target.kind, Kind::Literal(_) | Kind::Map(_) | Kind::Struct { .. } | Kind::Unspecified) {
            let message = "sortBy can only be applied to a list, identifier, comprehension, call or select expression";
            return Err((target.id, message.into()));
        }
        const INPUT: &str = "@__sortBy_input__";
        // The list is bound to a variable, so that it is evaluated once.
        let range = self.node(at, Kind::Ident(INPUT.into()));
        let keys = self.map_macro(at, range, args)?;
        let input = self.node(at, Kind::Ident(INPUT.into()));
        let sorted = self.member_call(at, "@sortByAssociatedKeys", input, vec![keys]);
        Ok(self.binding(at, INPUT.into(), target, sorted))
    }

    /// Expands `cel.bind(variable, value, body)`.
    fn bind(&mut self, at: u32, mut args: Vec<Expr>) -> Result<Expr, Refusal> {
        let Kind::Ident(variable) = &args[0].kind else {
            return Err((args[0].id, "cel.bind() variable names must be simple identifiers".into()));
        };
        let variable = variable.clone();
        let body = args.pop().expect("cel.bind has three arguments");
        let value = args.pop().expect("cel.bind has three arguments");
        Ok(self.binding(at, variable, value, body))
    }

    /// Builds a binding: a comprehension over an empty list, whose accumulator is the bound variable.
    fn binding(&mut self, at: u32, variable: String, value: Expr, body: Expr) -> Expr {
        let range = self.node(at, Kind::List(Vec::new()));
        let condition = self.literal_node(at, Literal::Bool(false));
        let step = self.node(at, Kind::Ident(variable.clone()));
        let comprehension = Comprehension {
            range,
            variable: UNUSED.into(),
            second_variable: None,
            accumulator: variable,
            init: value,
            condition,
            step,
            result: body,
        };
        self.node(at, Kind::Comprehension(Box::new(comprehension)))
    }

    #[allow(clippy::too_many_arguments, reason = "the parts of one loop; a struct would only rename them")]
    fn fold(
        &mut self,
        at: u32,
        range: Expr,
        variables: (String, Option<String>),
        init: Expr,
        condition: Expr,
        step: Expr,
        result: Expr,
    ) -> Expr {
        let (variable, second_variable) = variables;
        let accumulator = ACCUMULATOR.to_owned();
        let comprehension =
            Comprehension { range, variable, second_variable, accumulator, init, condition, step, result };
        self.node(at, Kind::Comprehension(Box::new(comprehension)))
    }

    fn accumulator(&mut self, at: u32) -> Expr {
        self.node(at, Kind::Ident(ACCUMULATOR.into()))
    }

    fn literal_node(&mut self, at: u32, literal: Literal) -> Expr {
        self.node(at, Kind::Literal(literal))
    }

    fn call(&mut self, at: u32, function: &str, args: Vec<Expr>) -> Expr {
        self.node(at, Kind::Call { target: None, function: function.into(), args })
    }

    fn member_call(&mut self, at: u32, function: &str, target: Expr, args: Vec<Expr>) -> Expr {
        self.node(at, Kind::Call { target: Some(Box::new(target)), function: function.into(), args })
    }

    /// Copies a tree with new ids and the same positions.
    fn copy(&mut self, expr: &Expr) -> Expr {
        let kind = match &expr.kind {
            Kind::Select { operand, field, test_only } => {
                Kind::Select { operand: Box::new(self.copy(operand)), field: field.clone(), test_only: *test_only }
            }
            Kind::Call { target, function, args } => Kind::Call {
                target: target.as_ref().map(|target| Box::new(self.copy(target))),
                function: function.clone(),
                args: args.iter().map(|arg| self.copy(arg)).collect(),
            },
            Kind::List(elements) => Kind::List(
                elements
                    .iter()
                    .map(|element| Element { value: self.copy(&element.value), optional: element.optional })
                    .collect(),
            ),
            Kind::Map(entries) => Kind::Map(
                entries
                    .iter()
                    .map(|entry| Entry {
                        key: self.copy(&entry.key),
                        value: self.copy(&entry.value),
                        optional: entry.optional,
                    })
                    .collect(),
            ),
            Kind::Struct { name, fields } => Kind::Struct {
                name: name.clone(),
                fields: fields
                    .iter()
                    .map(|field| Field {
                        id: self.id(self.offsets[field.id as usize]),
                        name: field.name.clone(),
                        value: self.copy(&field.value),
                        optional: field.optional,
                    })
                    .collect(),
            },
            Kind::Comprehension(fold) => Kind::Comprehension(Box::new(Comprehension {
                range: self.copy(&fold.range),
                init: self.copy(&fold.init),
                condition: self.copy(&fold.condition),
                step: self.copy(&fold.step),
                result: self.copy(&fold.result),
                ..(**fold).clone()
            })),
            plain => plain.clone(),
        };
        self.node(self.offsets[expr.id as usize], kind)
    }
}

enum Quantifier {
    All,
    Exists,
    ExistsOne,
}

enum Transform {
    List,
    Map,
    Entry,
}

/// The iteration variables: the names in the first argument, or in the first two.
fn variables(args: &[Expr], two: bool, not_a_name: &str) -> Result<(String, Option<String>), Refusal> {
    let name = |expr: &Expr| match &expr.kind {
        Kind::Ident(name) => Ok(name.clone()),
        _ => Err((expr.id, not_a_name.to_owned())),
    };
    let overwrites = |name: &str| name == ACCUMULATOR || name == OLD_ACCUMULATOR;
    let refusal = |expr: &Expr| (expr.id, "iteration variable overwrites accumulator variable".to_owned());
    let first = name(&args[0])?;
    if !two {
        return if overwrites(&first) { Err(refusal(&args[0])) } else { Ok((first, None)) };
    }
    let second = name(&args[1])?;
    if first == second {
        return Err((args[1].id, format!("duplicate variable name: {first}")));
    }
    if overwrites(&first) {
        return Err(refusal(&args[0]));
    }
    if overwrites(&second) {
        return Err(refusal(&args[1]));
    }
    Ok((first, Some(second)))
}
