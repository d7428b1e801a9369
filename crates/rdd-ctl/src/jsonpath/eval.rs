//! Evaluates a template on a JSON value.

use std::borrow::Cow;

use serde_json::Value;

use super::{
    Error, Found, RESULTS_MAX, Template, compare,
    parse::{Bound, Node},
};

/// The state of one evaluation. It counts ranges like client-go does, including client-go's behaviour for unbalanced ones.
pub(super) struct Run<'t> {
    template: &'t Template,
    begun: usize,
    inside: usize,
    ended: usize,
    last_end: Option<usize>,
    results: usize,
}

impl<'t> Run<'t> {
    pub(super) fn new(template: &'t Template) -> Self {
        Self { template, begun: 0, inside: 0, ended: 0, last_end: None, results: 0 }
    }

    pub(super) fn find<'v>(&mut self, value: &'v Value) -> Result<Vec<Found<'v>>, Error> {
        self.find_from(0, Cow::Borrowed(value))
    }

    /// Evaluates the nodes from `first` to the end of the current range.
    fn find_from<'v>(&mut self, first: usize, value: Cow<'v, Value>) -> Result<Vec<Found<'v>>, Error> {
        let nodes = &self.template.nodes;
        let mut all = Vec::new();
        let mut index = first;
        while index < nodes.len() {
            let results = self.walk(vec![value.clone()], &nodes[index])?;
            if self.ended > 0 && self.ended <= self.inside {
                self.ended -= 1;
                self.last_end = Some(index);
                break;
            }
            if self.begun > 0 {
                self.begun -= 1;
                self.inside += 1;
                if self.inside > super::DEPTH_MAX {
                    return Err(Error::new("ranges are nested too deeply"));
                }
                if results.is_empty() {
                    self.find_from(index + 1, Cow::Owned(Value::Null))?;
                }
                for result in results {
                    all.extend(self.find_from(index + 1, result)?);
                }
                self.inside -= 1;
                if let Some(end) = self.last_end.filter(|end| *end > index) {
                    index = end;
                }
            } else {
                all.push(results);
            }
            index += 1;
        }
        Ok(all)
    }

    fn walk<'v>(&mut self, input: Found<'v>, node: &Node) -> Result<Found<'v>, Error> {
        let constant = |value: Value, input: &Found<'v>| input.iter().map(|_| Cow::Owned(value.clone())).collect();
        let found = match node {
            Node::Text(text) => vec![Cow::Owned(Value::String(text.clone()))],
            Node::List(nodes) => self.walk_all(input, nodes)?,
            Node::Integer(number) => constant(Value::from(*number), &input),
            Node::Float(number) => constant(Value::from(*number), &input),
            Node::Bool(truth) => constant(Value::from(*truth), &input),
            Node::Identifier(name) => self.identifier(input, name)?,
            Node::Field(name) => self.field(input, name)?,
            Node::Wildcard => input.into_iter().flat_map(children).collect(),
            Node::Recursive => {
                let mut found = Vec::new();
                descend(input, &mut found)?;
                found
            }
            Node::Array(bounds) => array(input, *bounds)?,
            Node::Union(parts) => {
                let mut found = Vec::new();
                for part in parts {
                    found.extend(self.walk_all(input.clone(), part)?);
                }
                found
            }
            Node::Filter { left, operator, right } => self.filter(input, left, operator, right)?,
        };
        self.results = self.results.saturating_add(found.len());
        if self.results > RESULTS_MAX {
            return Err(Error::new("the template gives too many values"));
        }
        Ok(found)
    }

    fn walk_all<'v>(&mut self, input: Found<'v>, nodes: &[Node]) -> Result<Found<'v>, Error> {
        nodes.iter().try_fold(input, |found, node| self.walk(found, node))
    }

    fn identifier<'v>(&mut self, input: Found<'v>, name: &str) -> Result<Found<'v>, Error> {
        match name {
            "range" => {
                self.begun += 1;
                Ok(input)
            }
            "end" if self.inside > 0 => {
                self.ended += 1;
                Ok(Vec::new())
            }
            "end" => Err(Error::new("not in range, nothing to end")),
            name => Err(Error::new(format!("unrecognized identifier {name}"))),
        }
    }

    fn field<'v>(&mut self, input: Found<'v>, name: &str) -> Result<Found<'v>, Error> {
        if input.is_empty() {
            return Ok(input);
        }
        let found: Found<'v> = input.into_iter().filter_map(|value| child(value, name)).collect();
        if found.is_empty() && !self.template.allow_missing_keys {
            return Err(Error::new(format!("{name} is not found")));
        }
        Ok(found)
    }

    fn filter<'v>(
        &mut self,
        input: Found<'v>,
        left: &[Node],
        operator: &str,
        right: &[Node],
    ) -> Result<Found<'v>, Error> {
        let mut found = Vec::new();
        for value in input {
            if !value.is_array() {
                let shown = rdd_meta::go_text::plain(&value);
                return Err(Error::new(format!("{shown} is not array or slice and cannot be filtered")));
            }
            for item in children(value) {
                if self.passes(&item, left, operator, right)? {
                    found.push(item);
                }
            }
        }
        Ok(found)
    }

    fn passes(&mut self, item: &Value, left: &[Node], operator: &str, right: &[Node]) -> Result<bool, Error> {
        let lefts = self.walk_all(vec![Cow::Borrowed(item)], left);
        if operator == "exists" {
            return Ok(lefts.is_ok_and(|lefts| !lefts.is_empty()));
        }
        let Some(left) = one(lefts?)? else { return Ok(false) };
        let Some(right) = one(self.walk_all(vec![Cow::Borrowed(item)], right)?)? else { return Ok(false) };
        compare::holds(&left, operator, &right)
    }
}

fn one(mut found: Found<'_>) -> Result<Option<Cow<'_, Value>>, Error> {
    if found.len() > 1 {
        return Err(Error::new("can only compare one element at a time"));
    }
    Ok(found.pop())
}

fn child<'v>(value: Cow<'v, Value>, name: &str) -> Option<Cow<'v, Value>> {
    match value {
        Cow::Borrowed(value) => value.as_object()?.get(name).map(Cow::Borrowed),
        Cow::Owned(mut value) => value.as_object_mut()?.remove(name).map(Cow::Owned),
    }
}

fn children(value: Cow<'_, Value>) -> Found<'_> {
    match value {
        Cow::Borrowed(Value::Object(fields)) => fields.values().map(Cow::Borrowed).collect(),
        Cow::Borrowed(Value::Array(items)) => items.iter().map(Cow::Borrowed).collect(),
        Cow::Owned(Value::Object(fields)) => fields.into_iter().map(|(_, value)| Cow::Owned(value)).collect(),
        Cow::Owned(Value::Array(items)) => items.into_iter().map(Cow::Owned).collect(),
        _ => Vec::new(),
    }
}

/// Collects every object and list recursively, outermost first. The recursion is bounded, because the JSON parser bounds nesting.
fn descend<'v>(input: Found<'v>, found: &mut Found<'v>) -> Result<(), Error> {
    for value in input {
        let inner = children(value.clone());
        if !inner.is_empty() {
            found.push(value);
            if found.len() > RESULTS_MAX {
                return Err(Error::new("the template gives too many values"));
            }
            descend(inner, found)?;
        }
    }
    Ok(())
}

fn array(input: Found<'_>, bounds: [Bound; 3]) -> Result<Found<'_>, Error> {
    let mut found = Vec::new();
    for value in input {
        if value.is_null() {
            continue;
        }
        if !value.is_array() {
            return Err(Error::new(format!("{} is not array or slice", rdd_meta::go_text::type_name(&value))));
        }
        let items = children(value);
        let Some((from, to, step)) = range(bounds, items.len())? else { return Ok(found) };
        found.extend(items.into_iter().skip(from).take(to - from).step_by(step));
    }
    Ok(found)
}

/// Resolves slice bounds to start, end and step; `None` for an empty slice.
fn range(bounds: [Bound; 3], length: usize) -> Result<Option<(usize, usize, usize)>, Error> {
    let size = i64::try_from(length).unwrap_or(i64::MAX);
    let mut from = if bounds[0].known { bounds[0].value } else { 0 };
    if from < 0 {
        from = from.saturating_add(size);
    }
    let mut to = if bounds[1].known { bounds[1].value } else { size };
    if to < 0 || (to == 0 && bounds[1].derived) {
        to = to.saturating_add(size);
    }
    if from == to {
        return Ok(None);
    }
    let outside = |index: i64| Error::new(format!("array index out of bounds: index {index}, length {length}"));
    if from >= size || from < 0 {
        return Err(outside(from));
    }
    if to > size || to < 0 {
        return Err(outside(to.saturating_sub(1)));
    }
    if from > to {
        return Err(Error::new(format!("starting index {from} is greater than ending index {to}")));
    }
    let step = if bounds[2].known { bounds[2].value } else { 1 };
    if step <= 0 {
        return Err(Error::new("step must be > 0"));
    }
    let place = |index: i64| usize::try_from(index).unwrap_or(length);
    Ok(Some((place(from), place(to), usize::try_from(step).unwrap_or(usize::MAX))))
}
