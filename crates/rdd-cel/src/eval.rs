//! The evaluator: walks the nodes of a program, counts their cost, and stops when the cost exceeds the limit.

use std::sync::Arc;

use crate::cost::{self, LIST, MAP, STRUCT};
use crate::libs::{self, lists, operators, regexes};
use crate::program::{Attribute, Body, Call, Evaluation, Fold, Node, Program, Qualifier, QualifierKey, Root};
use crate::value::{Fault, Key, List, ListKind, Map, MapValues, Outcome, Value, equal};

/// Evaluates a program. `limit` bounds the cost.
pub(crate) fn evaluate<'a>(program: &Program, variables: &[(&str, Outcome<'a>)], limit: u64) -> Evaluation<'a> {
    let mut run = Run { variables, slots: (0..program.slots).map(|_| Slot::Empty).collect(), cost: 0, limit };
    let outcome = run.eval(&program.root);
    Evaluation { outcome, cost: run.cost }
}

/// Evaluates a node without variables, for constant folding.
pub(crate) fn evaluate_constant(node: &Node) -> Result<Value<'static>, Fault> {
    Run { variables: &[], slots: Vec::new(), cost: 0, limit: u64::MAX }.eval(node)
}

/// The variable of a comprehension.
enum Slot<'p, 'a> {
    Empty,
    /// Evaluated on first use
    Pending(&'p Node),
    Ready(Outcome<'a>),
}

/// The state of one evaluation.
struct Run<'p, 'v, 'a> {
    variables: &'v [(&'v str, Outcome<'a>)],
    slots: Vec<Slot<'p, 'a>>,
    cost: u64,
    limit: u64,
}

impl<'p, 'a> Run<'p, '_, 'a> {
    /// Adds to the cost; fails when the cost exceeds the limit.
    fn charge(&mut self, cost: u64) -> Result<(), Fault> {
        // Wrapping, because `attribute` may subtract a unit from a cost of 0, as cel-go does.
        self.cost = self.cost.wrapping_add(cost);
        if self.cost > self.limit { Err(Fault::CostLimit) } else { Ok(()) }
    }

    fn eval(&mut self, node: &'p Node) -> Outcome<'a> {
        match node {
            Node::Const(value) => Ok(value.clone()),
            Node::Attribute(attribute) => self.attribute(attribute),
            Node::And(terms) => self.logic(terms, false),
            Node::Or(terms) => self.logic(terms, true),
            Node::Equal(sides, negated) => self.equality(sides, *negated),
            Node::Call(call) => self.call(call),
            Node::InSet(item, keys) => {
                let item = self.eval(item)?;
                Ok(Value::Bool(Key::of(&item).is_ok_and(|key| keys.contains(&key))))
            }
            Node::OptionalOr(sides, unwrap) => match self.eval(&sides[0])? {
                Value::Optional(Some(value)) if *unwrap => Ok((*value).clone()),
                Value::Optional(None) => self.eval(&sides[1]),
                other => Ok(other),
            },
            Node::List(elements) => self.list(elements),
            Node::Map(entries) => self.map(entries),
            Node::Struct(name, values) => {
                for value in values {
                    self.eval(value)?;
                }
                self.charge(STRUCT)?;
                Err(Fault::error(format!("unknown type '{name}'")))
            }
            Node::Fold(fold) => self.fold(fold),
        }
    }

    /// Evaluates `&&` (`decisive` is false) or `||` (`decisive` is true). A decisive operand wins over an error of the other
    /// one.
    fn logic(&mut self, terms: &'p [Node; 2], decisive: bool) -> Outcome<'a> {
        let mut failed = None;
        for term in terms {
            match self.eval(term) {
                Ok(Value::Bool(value)) if value == decisive => return Ok(Value::Bool(decisive)),
                Ok(Value::Bool(_)) => {}
                Err(fault) if fault.is_final() => return Err(fault),
                Err(fault) => failed = failed.or(Some(fault)),
                Ok(_) => failed = failed.or_else(|| Some(Fault::no_such_overload())),
            }
        }
        failed.map_or(Ok(Value::Bool(!decisive)), Err)
    }

    fn equality(&mut self, sides: &'p [Node; 2], negated: bool) -> Outcome<'a> {
        let args = [self.eval_or_limit(&sides[0])?, self.eval_or_limit(&sides[1])?];
        let result = match &args {
            [Ok(left), Ok(right)] => match equal(left, right) {
                Ok(same) => Ok(Value::Bool(same != negated)),
                // `!=` of values that cannot be compared is true; `==` is an error.
                Err(_) if negated => Ok(Value::Bool(true)),
                Err(fault) => Err(fault),
            },
            [Err(fault), _] | [_, Err(fault)] => Err(fault.clone()),
        };
        self.charge(if negated { cost::inequality(&args) } else { cost::equality(&args) })?;
        result
    }

    /// Evaluates a node to a value or an error. Only a final fault, such as the cost limit, ends the evaluation.
    fn eval_or_limit(&mut self, node: &'p Node) -> Result<Outcome<'a>, Fault> {
        match self.eval(node) {
            Err(fault) if fault.is_final() => Err(fault),
            outcome => Ok(outcome),
        }
    }

    fn list(&mut self, elements: &'p [(Node, bool)]) -> Outcome<'a> {
        let mut items = Vec::with_capacity(elements.len());
        let mut failed = None;
        for (element, optional) in elements {
            match self.eval_or_limit(element)? {
                Ok(Value::Optional(value)) if *optional => items.extend(value.map(|value| (*value).clone())),
                Ok(value) if *optional => {
                    let shown = value.shown();
                    failed = Some(Fault::error(format!(
                        "cannot initialize optional list element from non-optional value {shown}"
                    )));
                    break;
                }
                Ok(value) => items.push(value),
                Err(fault) => {
                    failed = Some(fault);
                    break;
                }
            }
        }
        self.charge(LIST)?;
        failed.map_or_else(|| Ok(Value::List(List::new(items))), Err)
    }

    fn map(&mut self, entries: &'p [(Node, Node, bool)]) -> Outcome<'a> {
        let mut values = MapValues::default();
        let result = entries.iter().try_for_each(|(key, value, optional)| {
            let key = self.eval(key)?;
            match self.eval(value)? {
                Value::Optional(Some(value)) if *optional => values.insert(key, (*value).clone()),
                Value::Optional(None) if *optional => values.remove(&key),
                value if *optional => Err(Fault::error(format!(
                    "cannot initialize optional entry '{}' from non-optional value {}",
                    key.shown(),
                    value.shown()
                ))),
                value => values.insert(key, value),
            }
        });
        // Creating the map costs also when an entry failed, but not after a final fault.
        if let Err(fault) = &result
            && fault.is_final()
        {
            return Err(fault.clone());
        }
        self.charge(MAP)?;
        result.map(|()| Value::Map(Map::new(values)))
    }

    // Attributes.

    fn attribute(&mut self, attribute: &'p Attribute) -> Outcome<'a> {
        let resolved = self.resolve(attribute);
        if is_final(&resolved) {
            return resolved;
        }
        match (&attribute.root, attribute.test_only) {
            // As cel-go, which subtracts a unit here that it never added.
            (Root::Conditional(_), true) => self.cost = self.cost.wrapping_sub(1),
            (Root::Conditional(_), false) | (_, true) => {}
            (_, false) => self.charge(1)?,
        }
        resolved
    }

    /// Resolves an attribute, without the unit for the attribute itself.
    fn resolve(&mut self, attribute: &'p Attribute) -> Outcome<'a> {
        let root = match &attribute.root {
            Root::Variable(name) => match self.variables.iter().find(|(known, _)| known == name) {
                Some((_, value)) => value.clone()?,
                None => return Err(Fault::error(format!("no such attribute(s): {name}"))),
            },
            Root::Slot(slot) => self.slot(*slot)?,
            Root::Value(node) => self.eval(node)?,
            Root::Conditional(parts) => {
                let (condition, truthy, falsy) = &**parts;
                match self.eval(condition)? {
                    Value::Bool(true) => self.resolve(truthy)?,
                    Value::Bool(false) => self.resolve(falsy)?,
                    _ => return Err(Fault::no_such_overload()),
                }
            }
        };
        self.qualify(root, attribute)
    }

    /// The value of a comprehension's variable; a pending one is evaluated now and kept.
    fn slot(&mut self, slot: usize) -> Outcome<'a> {
        if let Slot::Pending(init) = self.slots[slot] {
            let value = self.eval(init);
            if is_final(&value) {
                return value;
            }
            self.slots[slot] = Slot::Ready(value);
        }
        match &self.slots[slot] {
            Slot::Ready(value) => value.clone(),
            _ => Err(Fault::error("no such attribute(s)")),
        }
    }

    /// Applies the qualifiers to a value. Once an optional or an optional qualifier occurs, absence gives an optional without
    /// value.
    fn qualify(&mut self, root: Value<'a>, attribute: &'p Attribute) -> Outcome<'a> {
        let (mut object, mut optional) = match root {
            Value::Optional(None) if attribute.test_only => return Ok(Value::Bool(false)),
            Value::Optional(None) => return Ok(Value::Optional(None)),
            Value::Optional(Some(value)) => ((*value).clone().without_shape(), true),
            plain => (plain, false),
        };
        let last = attribute.qualifiers.len().saturating_sub(1);
        for (index, qualifier) in attribute.qualifiers.iter().enumerate() {
            optional |= qualifier.optional;
            let only_test = attribute.test_only && index == last;
            let found = self.step(&object, qualifier, optional, only_test)?;
            match found {
                _ if only_test => return Ok(Value::Bool(found.is_some())),
                Some(value) => object = value,
                None if attribute.test_only => return Ok(Value::Bool(false)),
                None => return Ok(Value::Optional(None)),
            }
        }
        if optional { Ok(Value::optional(Some(object))) } else { Ok(object) }
    }

    /// Applies one qualifier. Returns `None` for an absent part if absence is allowed; otherwise it is an error.
    fn step(
        &mut self,
        object: &Value<'a>,
        qualifier: &'p Qualifier,
        optional: bool,
        only_test: bool,
    ) -> Result<Option<Value<'a>>, Fault> {
        let key = match &qualifier.key {
            QualifierKey::Const(value) => Ok(value.clone()),
            QualifierKey::Dynamic(Node::Attribute(attribute)) => self.resolve(attribute),
            QualifierKey::Dynamic(node) => self.eval(node),
        };
        if let Err(fault) = &key
            && fault.is_final()
        {
            return Err(fault.clone());
        }
        let found = key.and_then(|key| part(object, &key, optional || only_test));
        if !optional || matches!(found, Ok(Some(_))) {
            self.charge(1)?;
        }
        found
    }

    // Calls.

    fn call(&mut self, call: &'p Call) -> Outcome<'a> {
        let mut args: Vec<Outcome<'a>> = Vec::with_capacity(call.args.len());
        let mut complete = true;
        for (index, arg) in call.args.iter().enumerate() {
            let value = match (&call.body, index) {
                // `apply` takes the accumulator from its slot at the end: as the only reference, it can be changed in place.
                (Body::Append(slot) | Body::Insert(slot), 0) => {
                    self.charge(1)?;
                    match self.slot_fault(*slot)? {
                        Some(fault) => Err(fault),
                        None => Ok(Value::Null),
                    }
                }
                _ => self.eval_or_limit(arg)?,
            };
            let failed = value.is_err();
            args.push(value);
            if failed && call.stops_early {
                complete = args.len() == call.args.len();
                // cel-go ends the arguments of variadic functions at the first error, and then charges nothing for the call.
                break;
            }
        }
        if !complete {
            return self.apply(call, &mut args);
        }
        if call.price.follows_from_arguments() {
            // Charged before the call, so that no work is done that the budget does not cover.
            let cost = call.price.cost(&args, &Ok(Value::Null)).map_err(Fault::Internal)?;
            self.charge(cost)?;
            return self.apply(call, &mut args);
        }
        let result = self.apply(call, &mut args);
        if is_final(&result) {
            return result;
        }
        let cost = call.price.cost(&args, &result).map_err(Fault::Internal)?;
        self.charge(cost)?;
        result
    }

    /// The error of a comprehension's variable, if its value is one.
    fn slot_fault(&mut self, slot: usize) -> Result<Option<Fault>, Fault> {
        match self.slot(slot) {
            Ok(_) => Ok(None),
            Err(fault) if fault.is_final() => Err(fault),
            Err(fault) => Ok(Some(fault)),
        }
    }

    /// Makes a call with evaluated arguments; an error in any of them is the result.
    fn apply(&mut self, call: &'p Call, args: &mut [Outcome<'a>]) -> Outcome<'a> {
        // Turns everything but false into true, errors too: a macro's loop ends only when the result is certain.
        if let Body::NotStrictlyFalse = call.body {
            return Ok(match args.first() {
                Some(Ok(Value::Bool(value))) => Value::Bool(*value),
                _ => Value::Bool(true),
            });
        }
        if let Some(fault) = args.iter().find_map(|arg| arg.as_ref().err()) {
            return Err(fault.clone());
        }
        let values: Vec<Value<'a>> = args.iter().filter_map(|arg| arg.as_ref().ok().cloned()).collect();
        match &call.body {
            Body::Overload(overload) => overload.call(&call.function, &values),
            Body::Dispatch(function) => libs::dispatch(&call.function, function, &values),
            Body::Singleton(singleton) => match values.first() {
                Some(first) if (singleton.accepts)(first) => (singleton.native)(&values),
                Some(Value::String(_) | Value::Timestamp(_) | Value::Duration(_)) => Err(Fault::no_such_overload()),
                _ => Err(Fault::error(format!("no such overload: {}", call.function))),
            },
            Body::Matches(pattern) => regexes::matches_compiled(pattern, &values),
            Body::Find(pattern) => regexes::find_compiled(pattern, &values),
            Body::FindAll(pattern) => regexes::find_all_compiled(pattern, &values),
            Body::Append(slot) => self.append(*slot, values),
            Body::Insert(slot) => self.insert(*slot, &values),
            Body::NotStrictlyFalse | Body::Missing => Err(Fault::error(format!("no such overload: {}", call.function))),
        }
    }

    /// Takes a comprehension's variable out of its slot.
    fn take(&mut self, slot: usize) -> Outcome<'a> {
        match std::mem::replace(&mut self.slots[slot], Slot::Empty) {
            Slot::Ready(value) => value,
            _ => Err(Fault::error("no such attribute(s)")),
        }
    }

    /// Appends to the accumulator in place, instead of copying the list in every iteration.
    fn append(&mut self, slot: usize, mut values: Vec<Value<'a>>) -> Outcome<'a> {
        let accumulated = self.take(slot)?;
        match (accumulated, values.pop()) {
            (Value::List(List::Values(mut list)), Some(Value::List(more))) if list.kind == ListKind::Plain => {
                Arc::make_mut(&mut list).items.extend(more.to_vec()?);
                Ok(Value::List(List::Values(list)))
            }
            (accumulated, Some(other)) => operators::add(&[accumulated, other]),
            (_, None) => Err(Fault::no_such_overload()),
        }
    }

    /// Inserts into the accumulator in place.
    fn insert(&mut self, slot: usize, values: &[Value<'a>]) -> Outcome<'a> {
        match self.take(slot)? {
            Value::Map(Map::Values(mut map)) => {
                lists::insert_into(Arc::make_mut(&mut map), &values[1..])?;
                Ok(Value::Map(Map::Values(map)))
            }
            _ => Err(Fault::no_such_overload()),
        }
    }

    // Loops.

    /// Evaluates a comprehension.
    fn fold(&mut self, fold: &'p Fold) -> Outcome<'a> {
        let range = self.eval(&fold.range)?;
        self.slots[fold.accumulator] = Slot::Pending(&fold.init);
        match (&range, fold.second_variable) {
            (Value::List(list), None) => {
                for item in list.iter() {
                    if !self.turn(fold, item, None)? {
                        break;
                    }
                }
            }
            (Value::List(list), Some(_)) => {
                for (index, item) in list.iter().enumerate() {
                    if !self.turn(fold, Ok(Value::Int(index as i64)), Some(item))? {
                        break;
                    }
                }
            }
            (Value::Map(map), second) => {
                for key in map.keys() {
                    let value = second.map(|_| {
                        let missing = || Fault::error(format!("no such key: {}", key.shown()));
                        map.find(&key).and_then(|value| value.ok_or_else(missing))
                    });
                    if !self.turn(fold, Ok(key), value)? {
                        break;
                    }
                }
            }
            (other, None) => {
                let found = go_type(other);
                return Err(Fault::error(format!("got '{found}', expected iterable type")));
            }
            (other, Some(_)) => {
                return Err(Fault::error(format!("unsupported comprehension range type: {}", go_type(other))));
            }
        }
        let result = self.eval(&fold.result);
        // Releases the values; the next run of this comprehension assigns the slots again.
        self.slots[fold.accumulator] = Slot::Empty;
        self.slots[fold.variable] = Slot::Empty;
        result
    }

    /// Runs one iteration. Returns whether the loop continues.
    fn turn(&mut self, fold: &'p Fold, first: Outcome<'a>, second: Option<Outcome<'a>>) -> Result<bool, Fault> {
        self.slots[fold.variable] = Slot::Ready(first);
        if let (Some(slot), Some(value)) = (fold.second_variable, second) {
            self.slots[slot] = Slot::Ready(value);
        }
        if let Ok(Value::Bool(false)) = self.eval_or_limit(&fold.condition)? {
            return Ok(false);
        }
        let value = self.eval_or_limit(&fold.step)?;
        self.slots[fold.accumulator] = Slot::Ready(value);
        Ok(true)
    }
}

fn is_final(outcome: &Outcome<'_>) -> bool {
    outcome.as_ref().is_err_and(Fault::is_final)
}

/// Returns a part of a value by its key or index. With `may_be_absent`, an absent part is `None` instead of an error.
fn part<'a>(object: &Value<'a>, key: &Value<'a>, may_be_absent: bool) -> Result<Option<Value<'a>>, Fault> {
    if !matches!(key, Value::String(_) | Value::Int(_) | Value::Uint(_) | Value::Bool(_) | Value::Double(_)) {
        return Err(Fault::error(format!("invalid qualifier type: {}", go_type(key))));
    }
    let absent = |problem: &str| {
        if may_be_absent { Ok(None) } else { Err(Fault::error(format!("{problem}: {}", key.shown()))) }
    };
    match object {
        Value::Map(map) => match map.find(key)? {
            Some(value) => Ok(Some(value)),
            None => absent("no such key"),
        },
        Value::List(list) => {
            let index = match key {
                Value::Int(index) => Some(*index),
                Value::Uint(index) => i64::try_from(*index).ok(),
                Value::Double(index) => crate::go::whole_int(*index),
                other => {
                    return Err(Fault::error(format!("unsupported index type '{}' in list", other.type_name())));
                }
            };
            let Some(index) = index else {
                return Err(Fault::error(format!("unsupported index value {} in list", key.shown())));
            };
            match usize::try_from(index) {
                Ok(at) if at < list.len() => {
                    // A list of an object accepts only `int` indexes in Kubernetes, unlike a computed one.
                    if matches!(list, List::Json(_, Some(_))) && !matches!(key, Value::Int(_)) {
                        return Err(Fault::error(format!("unsupported index: {}", key.shown())));
                    }
                    list.get(at).map(Some)
                }
                _ => absent("index out of bounds"),
            }
        }
        _ => absent("no such key"),
    }
}

/// The value's type as Go's `%T` prints it.
pub(crate) fn go_type(value: &Value<'_>) -> &'static str {
    match value {
        Value::Null => "types.Null",
        Value::Bool(_) => "types.Bool",
        Value::Int(_) => "types.Int",
        Value::Uint(_) => "types.Uint",
        Value::Double(_) => "types.Double",
        Value::String(_) => "types.String",
        Value::Bytes(_) => "types.Bytes",
        Value::Timestamp(_) => "types.Timestamp",
        Value::Duration(_) => "types.Duration",
        Value::List(List::Json(_, Some(_))) => "*common.unstructuredList",
        Value::List(_) => "*types.baseList",
        Value::Map(Map::Json(_, Some(_))) => "*common.unstructuredMap",
        Value::Map(_) => "*types.baseMap",
        Value::Optional(_) => "*types.Optional",
        Value::Type(_) => "*types.Type",
        Value::Quantity(_) => "cel.Quantity",
        Value::Url(_) => "cel.URL",
        Value::Ip(_) => "cel.IP",
        Value::Cidr(_) => "cel.CIDR",
        Value::Semver(_) => "cel.Semver",
        Value::Format(_) => "cel.Format",
        Value::Authorization(step) => step.go_type(),
        Value::Unknown(_) => "*common.unknownPreserved",
    }
}
