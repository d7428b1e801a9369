//! The type checker: finds a type for every node and the overloads for every call, or reports issues.

mod literals;
mod unify;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::ast::{Comprehension, Element, Entry, Expr, Field, Id, Kind, Literal};
use crate::env::Environment;
use crate::libs::{FUNCTIONS, Function};
use crate::parse::Parsed;
use crate::source::{Collector, Issues, Source};
use crate::types::Type;
use unify::{Substitutions, most_general};

/// The meaning of a name or a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Reference {
    /// A variable of the environment or of a comprehension
    Variable(String),
    /// A type, with the name that the expression uses
    Type(Type, String),
    /// A function, with the overloads that fit the argument types. `drops_target`: the target is part of the function's name
    Function { name: String, overloads: Vec<&'static str>, drops_target: bool },
}

/// An expression without issues, with the types and references of its nodes.
#[derive(Debug)]
pub(crate) struct Checked {
    pub(crate) root: Expr,
    pub(crate) types: Vec<Option<Type>>,
    pub(crate) references: Vec<Option<Reference>>,
}

impl Checked {
    pub(crate) fn type_of(&self, expr: &Expr) -> &Type {
        self.types[expr.id as usize].as_ref().unwrap_or(&Type::Dyn)
    }
}

/// Checks a parsed expression, then its literals; the latter only if everything else is correct.
pub(crate) fn check(source: &Source, parsed: Parsed, environment: &Environment) -> Result<Checked, Issues> {
    let count = parsed.offsets.len();
    let mut checker = Checker {
        source,
        environment,
        offsets: &parsed.offsets,
        issues: Collector::default(),
        types: vec![None; count],
        references: vec![None; count],
        substitutions: Substitutions::default(),
        scopes: Vec::new(),
    };
    checker.check(&parsed.root);
    let Checker { mut types, references, substitutions, issues, .. } = checker;
    issues.finish(source)?;
    for found in types.iter_mut().flatten() {
        // Type variables without a meaning become `dyn`: the evaluator has no variables.
        *found = substitutions.substitute(found, true);
    }
    let checked = Checked { root: parsed.root, types, references };
    let mut issues = Collector::default();
    literals::validate(&checked, |id, message| issues.report(source.location(parsed.offsets[id as usize]), message));
    issues.finish(source)?;
    Ok(checked)
}

struct Checker<'c> {
    source: &'c Source,
    environment: &'c Environment,
    offsets: &'c [u32],
    issues: Collector,
    types: Vec<Option<Type>>,
    references: Vec<Option<Reference>>,
    substitutions: Substitutions,
    /// The variables of the comprehensions around the current node, outermost first.
    scopes: Vec<HashMap<String, Type>>,
}

impl Checker<'_> {
    fn report(&mut self, id: Id, message: String) {
        self.issues.report(self.source.location(self.offsets[id as usize]), message);
    }

    fn set(&mut self, expr: &Expr, found: Type) {
        self.types[expr.id as usize] = Some(found);
    }

    fn get(&self, expr: &Expr) -> Type {
        self.types[expr.id as usize].clone().unwrap_or(Type::Error)
    }

    fn mismatch(&mut self, id: Id, expected: &Type, found: &Type) {
        self.report(id, format!("expected type '{expected}' but found '{found}'"));
    }

    fn undeclared(&mut self, id: Id, name: &str) {
        self.report(id, format!("undeclared reference to '{name}' (in container '')"));
    }

    fn check(&mut self, expr: &Expr) {
        match &expr.kind {
            Kind::Unspecified => self.set(expr, Type::Error),
            Kind::Literal(literal) => self.set(expr, literal_type(literal)),
            Kind::Ident(name) => self.check_ident(expr, name),
            Kind::Select { operand, field, test_only } => self.check_select(expr, operand, field, *test_only),
            Kind::Call { target, function, args } => self.check_call(expr, target.as_deref(), function, args),
            Kind::List(elements) => self.check_list(expr, elements),
            Kind::Map(entries) => self.check_map(expr, entries),
            Kind::Struct { name, fields } => self.check_struct(expr, name, fields),
            Kind::Comprehension(fold) => self.check_comprehension(expr, fold),
        }
    }

    /// Resolves a name: variables of comprehensions first, then those of the environment, then types.
    fn lookup(&self, name: &str) -> Option<(Type, Reference)> {
        let name = name.strip_prefix('.').unwrap_or(name);
        let local = self.scopes.iter().rev().find_map(|scope| scope.get(name));
        if let Some(found) = local.or_else(|| self.environment.variables.get(name)) {
            return Some((found.clone(), Reference::Variable(name.into())));
        }
        let named = type_by_name(name).or_else(|| {
            let object = || self.environment.types.is_declared(name).then(|| Type::object(name));
            object().or_else(|| scalar_of_schemas(name))
        })?;
        Some((Type::type_of(named.clone()), Reference::Type(named, name.into())))
    }

    fn refer(&mut self, expr: &Expr, reference: Reference) {
        self.references[expr.id as usize] = Some(reference);
    }

    fn check_ident(&mut self, expr: &Expr, name: &str) {
        match self.lookup(name) {
            Some((found, reference)) => {
                self.set(expr, found);
                self.refer(expr, reference);
            }
            None => {
                self.set(expr, Type::Error);
                self.undeclared(expr.id, name);
            }
        }
    }

    fn check_select(&mut self, expr: &Expr, operand: &Expr, field: &str, test_only: bool) {
        if let Some((found, reference)) = expr.qualified_name().and_then(|name| self.lookup(&name)) {
            self.set(expr, found);
            self.refer(expr, reference);
            return;
        }
        // A dotted name can be a variable or a type as a whole; only otherwise is it a field selection.
        let found = self.select_field(expr, operand, field, false);
        let found = if test_only { Type::Bool } else { found };
        let found = self.substitutions.substitute(&found, false);
        self.set(expr, found);
    }

    fn select_field(&mut self, expr: &Expr, operand: &Expr, field: &str, optional: bool) -> Type {
        self.check(operand);
        let operand_type = self.substitutions.substitute(&self.get(operand), false);
        // Selecting from an optional selects from its value, and the result is optional again.
        let (target, was_optional) = operand_type.unwrap_optional();
        let found = match target {
            Type::Map(_, value) => (**value).clone(),
            Type::Struct(name) => self.field_type(expr.id, name, field).unwrap_or(Type::Error),
            Type::Param(_) => {
                self.substitutions.assignable(&Type::Dyn, target);
                Type::Dyn
            }
            Type::Dyn | Type::Error => Type::Dyn,
            other => {
                self.report(expr.id, format!("type '{other}' does not support field selection"));
                Type::Dyn
            }
        };
        if was_optional || optional { Type::optional(found) } else { found }
    }

    fn field_type(&mut self, id: Id, object: &str, field: &str) -> Option<Type> {
        if !self.environment.types.is_declared(object) {
            self.report(id, format!("unexpected failed resolution of '{object}'"));
            return None;
        }
        let found = self.environment.types.field(object, field);
        if found.is_none() {
            self.report(id, format!("undefined field '{field}'"));
        }
        found
    }

    fn check_call(&mut self, expr: &Expr, target: Option<&Expr>, function: &str, args: &[Expr]) {
        if function == "_?._"
            && let [operand, Expr { kind: Kind::Literal(Literal::String(field)), .. }] = args
        // The planner evaluates this operator itself; the checker sees a field selection.
        {
            let found = self.select_field(expr, operand, field, true);
            let found = self.substitutions.substitute(&found, false);
            self.set(expr, found);
            let name = function.to_owned();
            self.refer(
                expr,
                Reference::Function { name, overloads: vec!["select_optional_field"], drops_target: false },
            );
            return;
        }
        args.iter().for_each(|arg| self.check(arg));
        let Some(target) = target else {
            let name = function.strip_prefix('.').unwrap_or(function);
            match FUNCTIONS.get_key_value(name) {
                Some((name, found)) => self.resolve(expr, name, found, None, args, false),
                None => {
                    self.undeclared(expr.id, function);
                    self.set(expr, Type::Error);
                }
            }
            return;
        };
        let qualified = target.qualified_name().map(|prefix| format!("{prefix}.{function}"));
        // `target.function` can be the name of a function with a dot in it, such as `ip.isCanonical`; then there is no target.
        let qualified = qualified.as_deref().map(|name| name.strip_prefix('.').unwrap_or(name));
        if let Some((name, found)) = qualified.and_then(|name| FUNCTIONS.get_key_value(name)) {
            self.resolve(expr, name, found, None, args, true);
            return;
        }
        self.check(target);
        match FUNCTIONS.get_key_value(function) {
            Some((name, found)) => self.resolve(expr, name, found, Some(target), args, false),
            None => {
                self.set(expr, Type::Error);
                self.undeclared(expr.id, function);
            }
        }
    }

    fn resolve(
        &mut self,
        expr: &Expr,
        name: &str,
        function: &'static Function,
        target: Option<&Expr>,
        args: &[Expr],
        drops_target: bool,
    ) {
        let given: Vec<Type> = target.into_iter().chain(args).map(|arg| self.get(arg)).collect();
        if matches!(name, "_&&_" | "_||_") {
            self.resolve_logic(expr, name, args, &given);
            return;
        }
        let mut found: Option<Type> = None;
        let mut overloads = Vec::new();
        // Several overloads may fit when an argument is `dyn`; the evaluator then chooses among them.
        for overload in function.overloads.iter().filter(|overload| overload.member == target.is_some()) {
            let (params, result) = self.instantiate(&overload.params, &overload.result);
            if !self.substitutions.assignable_all(&given, &params) {
                continue;
            }
            overloads.push(overload.id.as_str());
            let result = self.substitutions.substitute(&result, false);
            found = Some(match found {
                None => result,
                Some(before) if before == Type::Dyn || before == result => before,
                Some(_) => Type::Dyn,
            });
        }
        match found {
            Some(found) => {
                self.set(expr, found);
                self.refer(expr, Reference::Function { name: name.into(), overloads, drops_target });
            }
            None => {
                let shown: Vec<String> =
                    given.iter().map(|arg| self.substitutions.substitute(arg, true).to_string()).collect();
                let signature = match target {
                    Some(_) => format!("{}.({})", shown[0], shown[1..].join(", ")),
                    None => format!("({})", shown.join(", ")),
                };
                self.report(expr.id, format!("found no matching overload for '{name}' applied to '{signature}'"));
                self.set(expr, Type::Error);
            }
        }
    }

    fn resolve_logic(&mut self, expr: &Expr, name: &str, args: &[Expr], given: &[Type]) {
        let mut sound = true;
        for (arg, found) in args.iter().zip(given) {
            if !self.substitutions.assignable(found, &Type::Bool) {
                self.mismatch(arg.id, &Type::Bool, found);
                sound = false;
            }
        }
        if !sound {
            self.set(expr, Type::Error);
            return;
        }
        self.set(expr, Type::Bool);
        let id = if name == "_&&_" { "logical_and" } else { "logical_or" };
        self.refer(expr, Reference::Function { name: name.into(), overloads: vec![id], drops_target: false });
    }

    /// Replaces the type parameters of a signature by fresh type variables.
    fn instantiate(&mut self, params: &[Type], result: &Type) -> (Vec<Type>, Type) {
        let mut variables: BTreeMap<Arc<str>, Type> = BTreeMap::new();
        for part in params.iter().chain([result]) {
            collect_params(part, &mut |name| {
                if !variables.contains_key(name) {
                    variables.insert(Arc::clone(name), self.substitutions.fresh());
                }
            });
        }
        let replace = |part: &Type| replace_params(part, &variables);
        (params.iter().map(replace).collect(), replace(result))
    }

    /// The type of an element. An optional element (`?x`) must be an optional or `dyn`.
    fn unwrap_element(&mut self, expr: &Expr, optional: bool) -> Type {
        let found = self.get(expr);
        if !optional {
            return found;
        }
        let (inner, was_optional) = found.unwrap_optional();
        let inner = inner.clone();
        if !was_optional && inner != Type::Dyn {
            self.mismatch(expr.id, &Type::optional(inner.clone()), &inner);
        }
        inner
    }

    /// The type of a list's elements so far and one more. Mixed types give `dyn`; the validation of literals reports them
    /// later.
    fn join(&mut self, before: Option<Type>, current: Type) -> Type {
        match before {
            None => current,
            Some(before) if self.substitutions.assignable(&before, &current) => most_general(&before, &current),
            Some(_) => Type::Dyn,
        }
    }

    fn check_list(&mut self, expr: &Expr, elements: &[Element]) {
        let mut joined = None;
        for element in elements {
            self.check(&element.value);
            let found = self.unwrap_element(&element.value, element.optional);
            joined = Some(self.join(joined, found));
        }
        let item = joined.unwrap_or_else(|| self.substitutions.fresh());
        self.set(expr, Type::list(item));
    }

    fn check_map(&mut self, expr: &Expr, entries: &[Entry]) {
        let (mut keys, mut values) = (None, None);
        for entry in entries {
            self.check(&entry.key);
            let key = self.get(&entry.key);
            keys = Some(self.join(keys, key));
            self.check(&entry.value);
            let value = self.unwrap_element(&entry.value, entry.optional);
            values = Some(self.join(values, value));
        }
        let key = keys.unwrap_or_else(|| self.substitutions.fresh());
        let value = values.unwrap_or_else(|| self.substitutions.fresh());
        self.set(expr, Type::map(key, value));
    }

    fn check_struct(&mut self, expr: &Expr, name: &str, fields: &[Field]) {
        let Some((found, reference)) = self.lookup(name) else {
            self.undeclared(expr.id, name);
            self.set(expr, Type::Error);
            return;
        };
        self.refer(expr, reference);
        let mut object = None;
        match found {
            Type::Type(Some(inner)) => match &*inner {
                Type::Struct(name) => object = Some(Arc::clone(name)),
                other => self.report(expr.id, format!("'{}' is not a message type", other.runtime_name())),
            },
            Type::Error => {}
            other => self.report(expr.id, format!("'{}' is not a type", other.runtime_name())),
        }
        self.set(expr, object.clone().map_or(Type::Error, Type::Struct));
        for field in fields {
            self.check(&field.value);
            let wanted = object.as_ref().and_then(|object| self.field_type(field.id, object, &field.name));
            let wanted = wanted.unwrap_or(Type::Error);
            let given = self.unwrap_element(&field.value, field.optional);
            if !self.substitutions.assignable(&wanted, &given) {
                let message =
                    format!("expected type of field '{}' is '{wanted}' but provided type is '{given}'", field.name);
                self.report(field.id, message);
            }
        }
    }

    fn check_comprehension(&mut self, expr: &Expr, fold: &Comprehension) {
        self.check(&fold.range);
        self.check(&fold.init);
        let range = self.substitutions.substitute(&self.get(&fold.range), false);
        let accumulator = self.get(&fold.init);
        // The accumulator has a scope of its own, because the result sees it but not the iteration variables.
        self.scopes.push(HashMap::from([(fold.accumulator.clone(), accumulator.clone())]));
        let two = fold.second_variable.is_some();
        let (first, second) = match &range {
            Type::List(item) if two => (Type::Int, (**item).clone()),
            Type::List(item) => ((**item).clone(), Type::Dyn),
            Type::Map(key, value) => ((**key).clone(), (**value).clone()),
            Type::Dyn | Type::Error | Type::Param(_) => {
                self.substitutions.assignable(&Type::Dyn, &range);
                (Type::Dyn, Type::Dyn)
            }
            other => {
                let message = format!(
                    "expression of type '{other}' cannot be range of a comprehension (must be list, map, or dynamic)"
                );
                self.report(fold.range.id, message);
                (Type::Error, Type::Error)
            }
        };
        let mut scope = HashMap::from([(fold.variable.clone(), first)]);
        if let Some(name) = &fold.second_variable {
            scope.insert(name.clone(), second);
        }
        self.scopes.push(scope);
        self.check(&fold.condition);
        self.assert(&fold.condition, &Type::Bool);
        self.check(&fold.step);
        self.assert(&fold.step, &accumulator);
        self.scopes.pop();
        self.check(&fold.result);
        self.scopes.pop();
        let found = self.substitutions.substitute(&self.get(&fold.result), false);
        self.set(expr, found);
    }

    fn assert(&mut self, expr: &Expr, wanted: &Type) {
        let found = self.get(expr);
        if !self.substitutions.assignable(wanted, &found) {
            self.mismatch(expr.id, wanted, &found);
        }
    }
}

fn literal_type(literal: &Literal) -> Type {
    match literal {
        Literal::Null => Type::Null,
        Literal::Bool(_) => Type::Bool,
        Literal::Int(_) => Type::Int,
        Literal::Uint(_) => Type::Uint,
        Literal::Double(_) => Type::Double,
        Literal::String(_) => Type::String,
        Literal::Bytes(_) => Type::Bytes,
    }
}

/// The types that an expression can name.
fn type_by_name(name: &str) -> Option<Type> {
    Some(match name {
        "bool" => Type::Bool,
        "bytes" => Type::Bytes,
        "double" => Type::Double,
        "google.protobuf.Duration" => Type::Duration,
        "google.protobuf.Timestamp" => Type::Timestamp,
        "int" => Type::Int,
        "list" => Type::list(Type::param("A")),
        "map" => Type::map(Type::param("A"), Type::param("B")),
        "null_type" => Type::Null,
        "string" => Type::String,
        "type" => Type::Type(None),
        "uint" => Type::Uint,
        "optional_type" | "net.IP" | "net.CIDR" => Type::Opaque(name.into(), Vec::new()),
        _ => return None,
    })
}

/// Names that the checker accepts in Kubernetes although planning then fails.
fn scalar_of_schemas(name: &str) -> Option<Type> {
    match name {
        "duration" => Some(Type::Duration),
        "timestamp" => Some(Type::Timestamp),
        _ => None,
    }
}

fn collect_params(given: &Type, found: &mut dyn FnMut(&Arc<str>)) {
    match given {
        Type::Param(name) => found(name),
        Type::List(item) => collect_params(item, found),
        Type::Map(key, value) => {
            collect_params(key, found);
            collect_params(value, found);
        }
        Type::Opaque(_, params) => params.iter().for_each(|param| collect_params(param, found)),
        Type::Type(Some(inner)) => collect_params(inner, found),
        _ => {}
    }
}

fn replace_params(given: &Type, variables: &BTreeMap<Arc<str>, Type>) -> Type {
    let inner = |part: &Type| replace_params(part, variables);
    match given {
        Type::Param(name) => variables.get(name).cloned().unwrap_or_else(|| given.clone()),
        Type::List(item) => Type::list(inner(item)),
        Type::Map(key, value) => Type::map(inner(key), inner(value)),
        Type::Opaque(name, params) => Type::Opaque(Arc::clone(name), params.iter().map(inner).collect()),
        Type::Type(Some(part)) => Type::type_of(inner(part)),
        other => other.clone(),
    }
}
