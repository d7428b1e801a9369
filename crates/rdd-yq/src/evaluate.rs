//! Evaluates expressions: each part takes a list of nodes and returns a list of nodes.

use std::rc::Rc;

use crate::{
    YqError, functions,
    nodes::{Kind, NodeId, Nodes},
    operators,
    parse::{Node, Operator, TextPart},
};

/// The number of steps that an evaluation may take. A step is a part of the expression applied to one node.
const STEPS_MAX: u64 = 50_000_000;

pub(crate) type Evaluated<T = Vec<NodeId>> = Result<T, YqError>;

/// The input of a part of an expression.
#[derive(Debug, Clone, Default)]
pub(crate) struct Context {
    pub(crate) nodes: Vec<NodeId>,
    /// The variables; of equal names the last one is the innermost and wins.
    pub(crate) variables: Rc<Vec<(String, Vec<NodeId>)>>,
    /// Whether paths to absent nodes return nothing. Otherwise they create the nodes.
    pub(crate) is_read_only: bool,
    /// Whether all documents are one input (`eval-all`), and not one after the other.
    pub(crate) is_together: bool,
}

impl Context {
    pub(crate) fn with_nodes(&self, nodes: Vec<NodeId>) -> Self {
        Self { nodes, ..self.clone() }
    }

    pub(crate) fn single(&self, node: NodeId) -> Self {
        self.with_nodes(vec![node])
    }

    pub(crate) fn read_only(&self) -> Self {
        Self { is_read_only: true, ..self.clone() }
    }

    pub(crate) fn writable(&self) -> Self {
        Self { is_read_only: false, ..self.clone() }
    }

    fn bind(&self, name: &str, value: Vec<NodeId>) -> Self {
        let mut variables = self.variables.as_ref().clone();
        variables.push((name.to_owned(), value));
        Self { variables: Rc::new(variables), ..self.clone() }
    }

    /// One context per node for operators that work on each node separately; a single context if they see all documents
    /// at once.
    pub(crate) fn apart(&self) -> Vec<Self> {
        if self.is_together || self.nodes.is_empty() {
            return vec![self.clone()];
        }
        self.nodes.iter().map(|node| self.single(*node)).collect()
    }
}

/// Evaluates parts of an expression over the nodes of a program.
pub(crate) struct Evaluator<'e> {
    pub(crate) nodes: &'e mut Nodes,
    pub(crate) file_names: &'e [String],
    pub(crate) environment: &'e dyn Fn(&str) -> Option<String>,
    pub(crate) steps: u64,
}

impl Evaluator<'_> {
    /// Evaluates a part of an expression and counts its steps.
    pub(crate) fn evaluate(&mut self, node: &Node, context: &Context) -> Evaluated {
        self.steps += 1 + context.nodes.len() as u64;
        if self.steps > STEPS_MAX {
            return Err(YqError::new("the expression takes too many steps"));
        }
        match node {
            Node::This => Ok(context.nodes.clone()),
            Node::Descend { with_keys } => {
                let mut found = Vec::new();
                for node in &context.nodes {
                    self.descend(*node, *with_keys, &mut found);
                }
                Ok(found)
            }
            Node::Path { name, optional } => {
                let mut found = Vec::new();
                for node in &context.nodes {
                    found.extend(self.traverse(*node, name, *optional, context.is_read_only)?);
                }
                Ok(found)
            }
            Node::Index { of, by, optional } => self.index(of, by.as_deref(), *optional, context),
            Node::Slice { of, from, to } => self.slice(of, from.as_deref(), to.as_deref(), context),
            Node::List(inner) => self.list(inner.as_deref(), context),
            Node::Map(entries) => self.map(entries, context),
            Node::Literal { tag, text } => self.literal(tag, text, context),
            Node::Text(parts) => self.text(parts, context),
            Node::Variable(name) => {
                let known = context.variables.iter().rev().find(|(known, _)| known == name);
                Ok(known.map(|(_, value)| value.clone()).unwrap_or_default())
            }
            Node::Environment { name, is_text } => self.environment_value(name, *is_text, context),
            Node::If { branches, otherwise } => self.condition(branches, otherwise.as_deref(), context),
            Node::Binary { operator, left, right } => self.binary(*operator, left, right, context),
            Node::Call { function, arguments } => functions::call(self, function, arguments, context),
            Node::AssignAttribute { of, function, value, relative } => {
                operators::assign_attribute(self, of, function, value, *relative, context)
            }
        }
    }

    /// Evaluates a part and returns its first result, if it has one.
    pub(crate) fn first(&mut self, node: &Node, context: &Context) -> Evaluated<Option<NodeId>> {
        Ok(self.evaluate(node, context)?.first().copied())
    }

    // An explicit stack: documents may nest deeper than the thread's stack allows.
    fn descend(&mut self, at: NodeId, with_keys: bool, found: &mut Vec<NodeId>) {
        let mut open = vec![at];
        while let Some(node) = open.pop() {
            found.push(node);
            let content = match (self.nodes[node].kind, with_keys) {
                (Kind::Mapping, false) => self.nodes.children(node),
                _ => self.nodes[node].content.clone(),
            };
            open.extend(content.into_iter().rev());
        }
    }

    /// The values under a key, which may be a pattern with `*` and `?`. Creates an absent entry unless the context is
    /// read-only.
    pub(crate) fn traverse(&mut self, at: NodeId, name: &str, optional: bool, is_read_only: bool) -> Evaluated {
        // A path through null creates a mapping, as `.a.b = 1` on an empty document does.
        if self.nodes[at].is_null() && !is_read_only {
            (self.nodes[at].kind, self.nodes[at].tag) = (Kind::Mapping, "!!map".into());
            self.nodes[at].text.clear();
        }
        match self.nodes[at].kind {
            Kind::Mapping => {
                let entries = self.nodes.entries(at).into_iter();
                let found: Vec<NodeId> =
                    entries.filter(|(key, _)| matches(&self.nodes[*key].text, name)).map(|(_, value)| value).collect();
                if !found.is_empty() || is_read_only || name == "*" {
                    return Ok(found);
                }
                let key = self.nodes.scalar("!!str", name, Some(at))?;
                self.create_entry(at, key).map(|value| vec![value])
            }
            Kind::Sequence if name == "*" => Ok(self.nodes[at].content.clone()),
            Kind::Sequence => match name.parse::<i64>() {
                Ok(index) => self.item(at, index).map(|item| vec![item]),
                Err(_) if optional => Ok(Vec::new()),
                Err(_) => Err(cannot_index(name)),
            },
            Kind::Scalar => Ok(Vec::new()),
        }
    }

    fn create_entry(&mut self, map: NodeId, key: NodeId) -> Evaluated<NodeId> {
        let value = self.nodes.scalar("!!null", "null", Some(map))?;
        // yq writes an empty mapping as `{}`; with an entry it becomes a block.
        if self.nodes[map].content.is_empty() {
            self.nodes[map].is_flow = false;
        }
        self.nodes.insert(map, key, value)
    }

    /// The item of a list at an index. A list that is too short is filled up with nulls; a negative index counts from
    /// the end.
    fn item(&mut self, list: NodeId, index: i64) -> Evaluated<NodeId> {
        let length = self.nodes[list].content.len();
        let Some(at) =
            usize::try_from(if index < 0 { index.saturating_add_unsigned(length as u64) } else { index }).ok()
        else {
            return Err(YqError::new(format!("index [{index}] out of range, array size is {length}")));
        };
        if length == 0 {
            self.nodes[list].is_flow = false;
        }
        while self.nodes[list].content.len() <= at {
            let null = self.nodes.scalar("!!null", "null", Some(list))?;
            self.nodes.push(list, null)?;
        }
        Ok(self.nodes[list].content[at])
    }

    fn index(&mut self, of: &Node, by: Option<&Node>, optional: bool, context: &Context) -> Evaluated {
        let targets = self.evaluate(of, context)?;
        let indices = match by {
            Some(by) => {
                // yq evaluates the index against the first node only, not against each target.
                let first = context.nodes.first().map_or_else(|| context.clone(), |first| context.single(*first));
                Some(self.evaluate(by, &first.read_only())?)
            }
            None => None,
        };
        let mut found = Vec::new();
        for target in targets {
            if self.nodes[target].is_null() {
                let is_list =
                    indices.as_ref().is_none_or(|by| by.first().is_none_or(|by| self.nodes[*by].tag == "!!int"));
                // `.[]` over null has no results.
                if is_list && indices.is_none() {
                    continue;
                }
                if context.is_read_only {
                    continue;
                }
                let (kind, tag) = if is_list { (Kind::Sequence, "!!seq") } else { (Kind::Mapping, "!!map") };
                (self.nodes[target].kind, self.nodes[target].tag) = (kind, tag.into());
                self.nodes[target].text.clear();
            }
            let Some(indices) = &indices else {
                found.extend(self.nodes.children(target));
                continue;
            };
            for index in indices {
                found.extend(self.by_index(target, *index, optional, context.is_read_only)?);
            }
        }
        Ok(found)
    }

    fn by_index(&mut self, target: NodeId, index: NodeId, optional: bool, is_read_only: bool) -> Evaluated {
        let text = self.nodes[index].text.clone();
        match self.nodes[target].kind {
            Kind::Sequence => match operators::integer(&text) {
                Some(number) => {
                    let length = self.nodes[target].content.len();
                    if is_read_only && number >= 0 && number.unsigned_abs() >= length as u64 {
                        return Ok(Vec::new());
                    }
                    self.item(target, number).map(|item| vec![item])
                }
                None if optional => Ok(Vec::new()),
                None => Err(cannot_index(&text)),
            },
            Kind::Mapping => {
                let entries = self.nodes.entries(target).into_iter();
                let found: Vec<NodeId> =
                    entries.filter(|(key, _)| matches(&self.nodes[*key].text, &text)).map(|(_, value)| value).collect();
                if !found.is_empty() || is_read_only {
                    return Ok(found);
                }
                self.create_entry(target, index).map(|value| vec![value])
            }
            Kind::Scalar => Ok(Vec::new()),
        }
    }

    fn slice(&mut self, of: &Node, from: Option<&Node>, to: Option<&Node>, context: &Context) -> Evaluated {
        let mut found = Vec::new();
        for target in self.evaluate(of, context)? {
            let is_text = self.nodes[target].kind == Kind::Scalar && self.nodes[target].basic_tag() == "!!str";
            let characters: Vec<char> = if is_text { self.nodes[target].text.chars().collect() } else { Vec::new() };
            let length = if is_text { characters.len() } else { self.nodes[target].content.len() };
            let from = self.slice_bound(from, target, length, 0, context)?;
            let to = self.slice_bound(to, target, length, length, context)?.max(from);
            if is_text {
                let text: String = characters[from..to].iter().collect();
                found.push(self.nodes.text(target, &text)?);
                continue;
            }
            let list = self.nodes.replacement(target, Kind::Sequence, "!!seq", "")?;
            let items = self.nodes[target].content[from..to].to_vec();
            for item in items {
                self.nodes.push(list, item)?;
            }
            found.push(list);
        }
        Ok(found)
    }

    /// Evaluates a bound of a slice and clamps it to the length; a negative bound counts from the end.
    fn slice_bound(
        &mut self,
        bound: Option<&Node>,
        target: NodeId,
        length: usize,
        otherwise: usize,
        context: &Context,
    ) -> Evaluated<usize> {
        let Some(bound) = bound else { return Ok(otherwise) };
        let found = self.first(bound, &context.single(target).read_only())?;
        let number = found.and_then(|found| operators::integer(&self.nodes[found].text));
        let Some(number) = number else { return Err(YqError::new("expected to find 1 number")) };
        let length_signed = i64::try_from(length).unwrap_or(i64::MAX);
        let number = if number < 0 { number.saturating_add(length_signed) } else { number };
        Ok(usize::try_from(number.clamp(0, length_signed)).unwrap_or(length))
    }

    fn list(&mut self, inner: Option<&Node>, context: &Context) -> Evaluated {
        let Some(inner) = inner.filter(|_| !context.nodes.is_empty()) else {
            let owner = context.nodes.first().copied();
            return Ok(vec![self.nodes.create(Kind::Sequence, "!!seq", "", owner)?]);
        };
        let mut lists = Vec::new();
        for context in context.apart() {
            let list = match context.nodes.first() {
                Some(owner) => self.nodes.replacement(*owner, Kind::Sequence, "!!seq", "")?,
                None => self.nodes.create(Kind::Sequence, "!!seq", "", None)?,
                // With all documents as one input, one list collects the results of all of them.
            };
            for node in &context.nodes {
                let seen =
                    Context { is_read_only: context.is_read_only || context.is_together, ..context.single(*node) };
                for item in self.evaluate(inner, &seen)? {
                    self.nodes.push(list, item)?;
                }
            }
            lists.push(list);
        }
        Ok(lists)
    }

    /// Creates mappings for all combinations of the results that keys and values have.
    fn map(&mut self, entries: &[(Node, Node)], context: &Context) -> Evaluated {
        let owners: Vec<Option<NodeId>> =
            if context.nodes.is_empty() { vec![None] } else { context.nodes.iter().copied().map(Some).collect() };
        let mut all = Vec::new();
        for owner in owners {
            let context = context.with_nodes(owner.into_iter().collect());
            let mut maps = vec![self.nodes.create(Kind::Mapping, "!!map", "", owner)?];
            for (key, value) in entries {
                let keys = self.evaluate(key, &context)?;
                let values = self.evaluate(value, &context)?;
                let mut extended = Vec::new();
                for map in &maps {
                    for key in &keys {
                        for value in &values {
                            let map = self.nodes.copy(*map)?;
                            match self.nodes.get(map, &self.nodes[*key].text) {
                                Some(known) => self.nodes.update(known, *value)?,
                                None => {
                                    self.nodes.insert(map, *key, *value)?;
                                }
                            }
                            extended.push(map);
                        }
                    }
                }
                maps = extended;
            }
            all.extend(maps);
        }
        Ok(all)
    }

    fn literal(&mut self, tag: &str, text: &str, context: &Context) -> Evaluated {
        if context.nodes.is_empty() {
            return Ok(vec![self.nodes.scalar(tag, text, None)?]);
        }
        context.nodes.iter().map(|owner| self.nodes.scalar(tag, text, Some(*owner))).collect()
    }

    fn text(&mut self, parts: &[TextPart], context: &Context) -> Evaluated {
        let owners: Vec<Option<NodeId>> =
            if context.nodes.is_empty() { vec![None] } else { context.nodes.iter().copied().map(Some).collect() };
        let mut found = Vec::new();
        for owner in owners {
            let context = context.with_nodes(owner.into_iter().collect());
            let mut text = String::new();
            for part in parts {
                match part {
                    TextPart::Plain(plain) => text.push_str(plain),
                    TextPart::Expression(inner) => {
                        if let Some(value) = self.first(inner, &context.read_only())? {
                            text.push_str(&functions::to_text(self, value)?);
                        }
                    }
                }
            }
            found.push(self.nodes.scalar("!!str", &text, owner)?);
        }
        Ok(found)
    }

    fn environment_value(&mut self, name: &str, is_text: bool, context: &Context) -> Evaluated {
        let Some(value) = (self.environment)(name) else {
            return Err(YqError::new(format!("value for env variable '{name}' not provided in env()")));
        };
        let owner = context.nodes.first().copied();
        if is_text {
            return Ok(vec![self.nodes.scalar("!!str", &value, owner)?]);
        }
        if value.is_empty() {
            return Err(YqError::new(format!("value for env variable '{name}' not provided in env()")));
        }
        let stream = rdd_yaml::read_documents(&value).map_err(|error| YqError::new(error.to_string()))?;
        let Some(tree) = stream.documents.first() else { return Ok(Vec::new()) };
        let (document, file) = owner.map_or((0, 0), |owner| (self.nodes[owner].document, self.nodes[owner].file));
        Ok(vec![self.nodes.load(tree, document, file)?])
    }

    fn condition(&mut self, branches: &[(Node, Node)], otherwise: Option<&Node>, context: &Context) -> Evaluated {
        let mut found = Vec::new();
        for context in context.apart() {
            let mut chosen = otherwise;
            for (test, then) in branches {
                let results = self.evaluate(test, &context.read_only())?;
                if results.iter().any(|result| self.nodes[*result].is_truthy()) {
                    chosen = Some(then);
                    break;
                }
            }
            match chosen {
                Some(chosen) => found.extend(self.evaluate(chosen, &context)?),
                None => found.extend(&context.nodes),
            }
        }
        Ok(found)
    }

    fn binary(&mut self, operator: Operator, left: &Node, right: &Node, context: &Context) -> Evaluated {
        match operator {
            Operator::Pipe => {
                if let Node::Binary { operator: Operator::Bind, left: value, right: name } = left {
                    return self.for_each_value(value, name, right, context);
                }
                let nodes = self.evaluate(left, context)?;
                self.evaluate(right, &context.with_nodes(nodes))
            }
            Operator::Block | Operator::Union => {
                let mut found = self.evaluate(left, context)?;
                let more = self.evaluate(right, context)?;
                // If both sides are assignments, both change the same document, which is then one result.
                if !(is_assignment(left) && is_assignment(right)) {
                    found.extend(more);
                }
                Ok(found)
            }
            Operator::Bind => Err(YqError::new("must use variable with a pipe, e.g. `exp as $x | ...`")),
            Operator::Reduce => self.reduce(left, right, context),
            _ => operators::apply(self, operator, left, right, context),
        }
    }

    /// Evaluates `value as $name | body`: the body once for each value.
    fn for_each_value(&mut self, value: &Node, name: &Node, body: &Node, context: &Context) -> Evaluated {
        let Node::Variable(name) = name else {
            return Err(YqError::new("RHS of 'as' operator must be a variable name e.g. $foo"));
        };
        let mut found = Vec::new();
        for context in context.apart() {
            let values = self.evaluate(value, &context.read_only())?;
            // As in yq, the body is evaluated without the variable if there is no value.
            if values.is_empty() {
                found.extend(self.evaluate(body, &context)?);
            }
            for value in values {
                let value = self.nodes.copy(value)?;
                found.extend(self.evaluate(body, &context.bind(name, vec![value]))?);
            }
        }
        Ok(found)
    }

    /// Evaluates `values as $name ireduce (initial; body)`.
    fn reduce(&mut self, binding: &Node, block: &Node, context: &Context) -> Evaluated {
        let (
            Node::Binary { operator: Operator::Bind, left: values, right: name },
            Node::Binary { operator: Operator::Block | Operator::Union, left: initial, right: body },
        ) = (binding, block)
        else {
            return Err(YqError::new(
                "reduce must be given a variable and a block, e.g. `.[] as $x ireduce (0; . + $x)`",
            ));
        };
        let Node::Variable(name) = name.as_ref() else {
            return Err(YqError::new("RHS of 'as' operator must be a variable name e.g. $foo"));
        };
        let values = self.evaluate(values, context)?;
        let first = context.nodes.first().map_or_else(|| context.clone(), |first| context.single(*first));
        let mut reduced = self.evaluate(initial, &first)?;
        for value in values {
            reduced = self.evaluate(body, &context.bind(name, vec![value]).with_nodes(reduced))?;
        }
        Ok(reduced)
    }
}

fn is_assignment(node: &Node) -> bool {
    match node {
        Node::Binary { operator, .. } => matches!(
            operator,
            Operator::Assign
                | Operator::Update
                | Operator::AddAssign
                | Operator::SubtractAssign
                | Operator::AlternativeAssign
                | Operator::MultiplyAssign(_)
        ),
        Node::AssignAttribute { .. } => true,
        Node::Call { function, .. } => matches!(*function, "del" | "with"),
        _ => false,
    }
}

fn cannot_index(text: &str) -> YqError {
    let reason = format!("strconv.ParseInt: parsing {}: invalid syntax", rdd_meta::go_text::quote(text));
    YqError::new(format!("cannot index array with '{text}' ({reason})"))
}

/// Whether a text matches a pattern with `*` and `?`. Takes time proportional to the product of their lengths at most.
pub(crate) fn matches(text: &str, pattern: &str) -> bool {
    let (text, pattern) = (text.as_bytes(), pattern.as_bytes());
    if pattern.is_empty() {
        return text.is_empty();
    }
    let (mut at, mut next) = (0, 0);
    // The place to resume at if the text after the last star does not match: one more character goes to the star.
    let mut retry: Option<(usize, usize)> = None;
    while at < text.len() || next < pattern.len() {
        match pattern.get(next) {
            Some(b'*') => {
                retry = Some((next, at + 1));
                next += 1;
                continue;
            }
            Some(b'?') if at < text.len() => {
                (at, next) = (at + 1, next + 1);
                continue;
            }
            Some(byte) if text.get(at) == Some(byte) => {
                (at, next) = (at + 1, next + 1);
                continue;
            }
            _ => {}
        }
        match retry {
            Some((star, from)) if from <= text.len() => (next, at) = (star, from),
            _ => return false,
        }
    }
    true
}
