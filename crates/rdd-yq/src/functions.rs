//! The functions of yq's language.

use std::cmp::Ordering;

use base64::Engine as _;
use rdd_yaml::ScalarStyle;
use regex::Regex;

use crate::{
    YqError,
    evaluate::{Context, Evaluated, Evaluator},
    format::{OutputFormat, write_node},
    nodes::{Key, Kind, NodeId, NodeKey},
    operators::{float, integer},
    parse::{Node, Operator},
};

/// Calls a function. The parser has checked which functions take an argument.
pub(crate) fn call(
    evaluator: &mut Evaluator<'_>,
    function: &'static str,
    arguments: &[Node],
    context: &Context,
) -> Evaluated {
    let argument = arguments.first();
    match (function, argument) {
        ("empty", _) => Ok(Vec::new()),
        ("del", Some(argument)) => del(evaluator, argument, context),
        ("with", Some(argument)) => with(evaluator, argument, context),
        // Aliases are replaced when documents are loaded, so nothing is left to do.
        ("explode", _) => Ok(context.nodes.clone()),
        ("error", Some(argument)) => {
            let message = evaluator.first(argument, &context.read_only())?;
            Err(YqError::new(message.map_or_else(String::new, |message| evaluator.nodes[message].text.clone())))
        }
        _ => {
            let mut found = Vec::new();
            for node in context.nodes.clone() {
                found.extend(call_on(evaluator, function, argument, node, context)?);
            }
            Ok(found)
        }
    }
}

/// Calls a function on one node.
fn call_on(
    evaluator: &mut Evaluator<'_>,
    function: &'static str,
    argument: Option<&Node>,
    node: NodeId,
    context: &Context,
) -> Evaluated {
    if let Some(argument) = argument {
        return call_with(evaluator, function, argument, node, context);
    }
    let kind = evaluator.nodes[node].kind;
    let one = match function {
        "length" => {
            let length = match kind {
                Kind::Mapping => evaluator.nodes[node].content.len() / 2,
                Kind::Sequence => evaluator.nodes[node].content.len(),
                Kind::Scalar if evaluator.nodes[node].is_null() => 0,
                Kind::Scalar => evaluator.nodes[node].text.len(),
            };
            evaluator.nodes.integer(node, length)?
        }
        "keys" => keys(evaluator, node)?,
        "key" => match evaluator.nodes[node].key {
            Key::Node(key) => key,
            Key::Index(index) => evaluator.nodes.integer(node, index)?,
            Key::None => return Ok(Vec::new()),
        },
        "is_key" => {
            let value = evaluator.nodes[node].is_key;
            evaluator.nodes.boolean(node, value)?
        }
        "path" => path(evaluator, node)?,
        "parent" => return Ok(evaluator.nodes[node].parent.into_iter().collect()),
        "root" => {
            let mut root = node;
            while let Some(parent) = evaluator.nodes[root].parent {
                root = parent;
            }
            root
        }
        "not" => {
            let value = !evaluator.nodes[node].is_truthy();
            evaluator.nodes.boolean(node, value)?
        }
        "to_entries" => to_entries(evaluator, node)?,
        "from_entries" => from_entries(evaluator, node, node)?,
        "sort" => sort_by(evaluator, node, &Node::This, context)?,
        "unique" => unique_by(evaluator, node, &Node::This, context)?,
        "reverse" => {
            let items = sequence(evaluator, node, "reverse")?.into_iter().rev().collect();
            list_of(evaluator, node, items)?
        }
        "flatten" => flatten(evaluator, node, usize::MAX)?,
        "first" => return Ok(evaluator.nodes.children(node).first().copied().into_iter().collect()),
        "min" | "max" => return extreme(evaluator, node, function),
        "any" | "all" => {
            let items = sequence(evaluator, node, function)?;
            let value = quantify(function == "any", items.iter().map(|item| evaluator.nodes[*item].is_truthy()));
            evaluator.nodes.boolean(node, value)?
        }
        "upcase" | "downcase" | "trim" => change_text(evaluator, node, function)?,
        "to_string" => {
            let text = to_text(evaluator, node)?;
            evaluator.nodes.text(node, &text)?
        }
        "to_number" => to_number(evaluator, node)?,
        "tag" => {
            let tag = evaluator.nodes[node].tag.to_string();
            evaluator.nodes.text(node, &tag)?
        }
        "kind" => {
            let name = match kind {
                Kind::Scalar => "scalar",
                Kind::Sequence => "seq",
                Kind::Mapping => "map",
            };
            evaluator.nodes.text(node, name)?
        }
        "style" => {
            let name = match evaluator.nodes[node].style {
                _ if evaluator.nodes[node].is_flow => "flow",
                ScalarStyle::DoubleQuoted => "double",
                ScalarStyle::SingleQuoted => "single",
                ScalarStyle::Literal => "literal",
                ScalarStyle::Folded => "folded",
                ScalarStyle::Plain | ScalarStyle::Text => "",
            };
            evaluator.nodes.text(node, name)?
        }
        "document_index" => {
            let index = evaluator.nodes[node].document;
            evaluator.nodes.integer(node, index)?
        }
        "file_index" => {
            let index = evaluator.nodes[node].file;
            evaluator.nodes.integer(node, index)?
        }
        "filename" => {
            let name = evaluator.file_names.get(evaluator.nodes[node].file).cloned().unwrap_or_default();
            evaluator.nodes.text(node, &name)?
        }
        "to_json" => encode(evaluator, node, OutputFormat::Json, 2)?,
        "@json" => encode(evaluator, node, OutputFormat::Json, 0)?,
        "to_yaml" => encode(evaluator, node, OutputFormat::Yaml, 2)?,
        "to_props" => encode(evaluator, node, OutputFormat::Properties, 2)?,
        "from_yaml" => return decode(evaluator, node),
        "@base64" => {
            let text = base64::engine::general_purpose::STANDARD.encode(&scalar(evaluator, node, function)?);
            evaluator.nodes.text(node, &text)?
        }
        "@base64d" => {
            let text = decode_base64(scalar(evaluator, node, function)?.trim())?;
            evaluator.nodes.text(node, &text)?
        }
        _ => return Err(YqError::new(format!("'{function}' expects 1 arg but received none"))),
    };
    Ok(vec![one])
}

/// Calls a function that has an argument on one node.
fn call_with(
    evaluator: &mut Evaluator<'_>,
    function: &'static str,
    argument: &Node,
    node: NodeId,
    context: &Context,
) -> Evaluated {
    let single = context.single(node);
    let one = match function {
        "select" => {
            let found = evaluator.evaluate(argument, &single.read_only())?;
            let chosen = found.iter().any(|result| evaluator.nodes[*result].is_truthy());
            return Ok(if chosen { vec![node] } else { Vec::new() });
        }
        "map" => {
            let list = evaluator.nodes.replacement(node, Kind::Sequence, "!!seq", "")?;
            evaluator.nodes[list].is_flow =
                evaluator.nodes[node].kind == Kind::Sequence && evaluator.nodes[node].is_flow;
            for child in evaluator.nodes.children(node) {
                for item in evaluator.evaluate(argument, &context.single(child))? {
                    evaluator.nodes.push(list, item)?;
                }
            }
            list
        }
        "filter" => {
            let mut kept = Vec::new();
            for item in sequence(evaluator, node, function)? {
                let results = evaluator.evaluate(argument, &context.single(item).read_only())?;
                if results.iter().any(|result| evaluator.nodes[*result].is_truthy()) {
                    kept.push(item);
                }
            }
            list_of(evaluator, node, kept)?
        }
        "map_values" => {
            let copy = evaluator.nodes.copy(node)?;
            for child in evaluator.nodes.children(copy) {
                if let Some(value) = evaluator.first(argument, &context.single(child))? {
                    evaluator.nodes.update(child, value)?;
                }
            }
            copy
        }
        "has" => {
            let wanted = evaluator.first(argument, &single.read_only())?;
            let value = wanted.is_some_and(|wanted| has(evaluator, node, wanted));
            evaluator.nodes.boolean(node, value)?
        }
        "with_entries" => with_entries(evaluator, node, argument, context)?,
        "sort_by" => sort_by(evaluator, node, argument, context)?,
        "sort_keys" => {
            for target in evaluator.evaluate(argument, &single)? {
                let mut entries = evaluator.nodes.entries(target);
                if !entries.is_empty() {
                    entries
                        .sort_by(|(one, _), (other, _)| evaluator.nodes[*one].text.cmp(&evaluator.nodes[*other].text));
                    evaluator.nodes[target].content =
                        entries.into_iter().flat_map(|(key, value)| [key, value]).collect();
                }
            }
            node
        }
        "group_by" => group_by(evaluator, node, argument, context)?,
        "unique_by" => unique_by(evaluator, node, argument, context)?,
        "flatten" => {
            let depth = number_argument(evaluator, argument, &single)?;
            flatten(evaluator, node, usize::try_from(depth).unwrap_or(usize::MAX))?
        }
        "first" => {
            for child in evaluator.nodes.children(node) {
                let results = evaluator.evaluate(argument, &context.single(child))?;
                if results.iter().any(|result| evaluator.nodes[*result].is_truthy()) {
                    return Ok(vec![child]);
                }
            }
            return Ok(Vec::new());
        }
        // The parser appends `_c` for the forms with a condition.
        "any_c" | "all_c" => {
            let mut truths = Vec::new();
            for item in sequence(evaluator, node, &function[..3])? {
                if let Some(result) = evaluator.first(argument, &context.single(item).read_only())? {
                    truths.push(evaluator.nodes[result].is_truthy());
                }
            }
            evaluator.nodes.boolean(node, quantify(function == "any_c", truths.into_iter()))?
        }
        "contains" => {
            let Some(wanted) = evaluator.first(argument, &single.read_only())? else { return Ok(Vec::new()) };
            let value = contains(evaluator, node, wanted)?;
            evaluator.nodes.boolean(node, value)?
        }
        "join" => {
            let separator = text_argument(evaluator, argument, &single)?;
            let items = sequence(evaluator, node, function)?;
            let texts: Vec<String> = items.iter().map(|item| null_as_empty(evaluator, *item)).collect();
            evaluator.nodes.text(node, &texts.join(&separator))?
        }
        "split" => {
            let separator = text_argument(evaluator, argument, &single)?;
            if evaluator.nodes[node].is_null() {
                return Ok(Vec::new());
            }
            let text = text(evaluator, node, "split")?;
            split(evaluator, node, &text, &separator)?
        }
        "test" => {
            let pattern = pattern(&text_argument(evaluator, argument, &single)?)?;
            let text = text(evaluator, node, "match with")?;
            evaluator.nodes.boolean(node, pattern.is_match(&text))?
        }
        "sub" => substitute(evaluator, node, argument, &single)?,
        "pick" | "omit" => pick(evaluator, node, argument, &single, function == "pick")?,
        "parent" => {
            let levels = number_argument(evaluator, argument, &single)?;
            let mut chain = vec![node];
            while let Some(parent) = chain.last().and_then(|last| evaluator.nodes[*last].parent) {
                chain.push(parent);
            }
            let index = if levels < 0 { i64::try_from(chain.len()).unwrap_or(i64::MAX) + levels } else { levels };
            return Ok(usize::try_from(index).ok().and_then(|index| chain.get(index).copied()).into_iter().collect());
        }
        "to_json" => {
            let indent = number_argument(evaluator, argument, &single)?;
            encode(evaluator, node, OutputFormat::Json, usize::try_from(indent).unwrap_or_default())?
        }
        _ => return Err(YqError::new(format!("'{function}' takes no argument"))),
    };
    Ok(vec![one])
}

fn quantify(any: bool, mut truths: impl Iterator<Item = bool>) -> bool {
    if any { truths.any(|truth| truth) } else { truths.all(|truth| truth) }
}

// Arguments.

fn text_argument(evaluator: &mut Evaluator<'_>, argument: &Node, context: &Context) -> Evaluated<String> {
    let found = evaluator.first(argument, &context.read_only())?;
    Ok(found.map(|found| evaluator.nodes[found].text.clone()).unwrap_or_default())
}

fn number_argument(evaluator: &mut Evaluator<'_>, argument: &Node, context: &Context) -> Evaluated<i64> {
    let text = text_argument(evaluator, argument, context)?;
    integer(&text).ok_or_else(|| YqError::new(format!("'{text}' is not a whole number")))
}

/// The items of a list, or an error that names the function.
fn sequence(evaluator: &Evaluator<'_>, node: NodeId, function: &str) -> Evaluated {
    let found = &evaluator.nodes[node];
    match found.kind {
        Kind::Sequence => Ok(found.content.clone()),
        _ => Err(YqError::new(format!("{function} only supports arrays, was {}", found.tag))),
    }
}

fn scalar(evaluator: &Evaluator<'_>, node: NodeId, function: &str) -> Evaluated<String> {
    let found = &evaluator.nodes[node];
    match found.kind {
        Kind::Scalar => Ok(found.text.clone()),
        _ => Err(YqError::new(format!("cannot encode {} as {function}", found.tag))),
    }
}

/// The text of a string node, or an error that names the operation.
fn text(evaluator: &Evaluator<'_>, node: NodeId, doing: &str) -> Evaluated<String> {
    let found = &evaluator.nodes[node];
    match found.basic_tag() {
        "!!str" if found.kind == Kind::Scalar => Ok(found.text.clone()),
        tag => Err(YqError::new(format!("cannot {doing} {tag}, can only {doing} strings"))),
    }
}

fn null_as_empty(evaluator: &Evaluator<'_>, node: NodeId) -> String {
    let found = &evaluator.nodes[node];
    if found.is_null() { String::new() } else { found.text.clone() }
}

/// Creates a list in place of the owner, in the owner's style.
fn list_of(evaluator: &mut Evaluator<'_>, owner: NodeId, items: Vec<NodeId>) -> Evaluated<NodeId> {
    let list = evaluator.nodes.replacement(owner, Kind::Sequence, "!!seq", "")?;
    evaluator.nodes[list].is_flow = evaluator.nodes[owner].is_flow;
    for item in items {
        evaluator.nodes.push(list, item)?;
    }
    Ok(list)
}

// Structure.

fn keys(evaluator: &mut Evaluator<'_>, node: NodeId) -> Evaluated<NodeId> {
    let keys = match evaluator.nodes[node].kind {
        Kind::Mapping => evaluator.nodes.entries(node).into_iter().map(|(key, _)| key).collect(),
        Kind::Sequence => {
            let length = evaluator.nodes[node].content.len();
            (0..length).map(|index| evaluator.nodes.integer(node, index)).collect::<Evaluated>()?
        }
        Kind::Scalar => {
            return Err(YqError::new(format!(
                "cannot get keys of {}, keys only works for maps and arrays",
                evaluator.nodes[node].tag
            )));
        }
    };
    let list = evaluator.nodes.replacement(node, Kind::Sequence, "!!seq", "")?;
    for key in keys {
        evaluator.nodes.push(list, key)?;
    }
    Ok(list)
}

fn path(evaluator: &mut Evaluator<'_>, node: NodeId) -> Evaluated<NodeId> {
    let list = evaluator.nodes.replacement(node, Kind::Sequence, "!!seq", "")?;
    for key in evaluator.nodes.path(node) {
        let item = match key {
            NodeKey::Text(key) => key,
            NodeKey::Index(index) => evaluator.nodes.integer(node, index)?,
        };
        evaluator.nodes.push(list, item)?;
    }
    Ok(list)
}

fn has(evaluator: &Evaluator<'_>, node: NodeId, wanted: NodeId) -> bool {
    let wanted = &evaluator.nodes[wanted];
    match evaluator.nodes[node].kind {
        Kind::Mapping => evaluator.nodes.get(node, &wanted.text).is_some(),
        Kind::Sequence => {
            let index = integer(&wanted.text).and_then(|index| usize::try_from(index).ok());
            wanted.tag == "!!int" && index.is_some_and(|index| index < evaluator.nodes[node].content.len())
        }
        Kind::Scalar => false,
    }
}

/// Whether a node contains another: strings by substring, lists by items, mappings by entries, each recursively.
fn contains(evaluator: &Evaluator<'_>, node: NodeId, wanted: NodeId) -> Evaluated<bool> {
    let (one, other) = (&evaluator.nodes[node], &evaluator.nodes[wanted]);
    if one.kind != other.kind || one.kind == Kind::Scalar && one.basic_tag() != other.basic_tag() {
        let (one, other) = (one.tag.clone(), other.tag.clone());
        return Err(YqError::new(format!("{other} cannot check contained in {one}")));
    }
    Ok(match one.kind {
        Kind::Scalar if one.basic_tag() == "!!str" => one.text.contains(&other.text),
        Kind::Scalar => one.text == other.text,
        Kind::Sequence => other
            .content
            .iter()
            .all(|wanted| one.content.iter().any(|item| contains(evaluator, *item, *wanted).unwrap_or(false))),
        Kind::Mapping => evaluator.nodes.entries(wanted).into_iter().all(|(key, value)| {
            let found = evaluator.nodes.get(node, &evaluator.nodes[key].text);
            found.is_some_and(|found| contains(evaluator, found, value).unwrap_or(false))
        }),
    })
}

fn del(evaluator: &mut Evaluator<'_>, argument: &Node, context: &Context) -> Evaluated {
    let doomed = evaluator.evaluate(argument, &context.read_only())?;
    let mut kept = context.nodes.clone();
    // In reverse, so that indices of earlier items stay valid.
    for node in doomed.into_iter().rev() {
        if evaluator.nodes[node].parent.is_some() {
            evaluator.nodes.remove(node);
        } else {
            kept.retain(|known| *known != node);
        }
    }
    Ok(kept)
}

/// Evaluates `with(path; expression)`: the expression for each node at the path.
fn with(evaluator: &mut Evaluator<'_>, argument: &Node, context: &Context) -> Evaluated {
    let Node::Binary { operator: Operator::Block | Operator::Union, left, right } = argument else {
        return Err(YqError::new("with expects 2 args, e.g. `with(.a; .b = 1)`"));
    };
    for target in evaluator.evaluate(left, &context.writable())? {
        evaluator.evaluate(right, &context.single(target).writable())?;
    }
    Ok(context.nodes.clone())
}

fn to_entries(evaluator: &mut Evaluator<'_>, node: NodeId) -> Evaluated<NodeId> {
    let list = evaluator.nodes.replacement(node, Kind::Sequence, "!!seq", "")?;
    let pairs: Vec<(NodeId, NodeId)> = match evaluator.nodes[node].kind {
        Kind::Mapping => evaluator.nodes.entries(node),
        Kind::Sequence => {
            let items = evaluator.nodes[node].content.clone().into_iter().enumerate();
            items
                .map(|(index, item)| Ok((evaluator.nodes.integer(node, index)?, item)))
                .collect::<Evaluated<Vec<(NodeId, NodeId)>>>()?
        }
        Kind::Scalar if evaluator.nodes[node].is_null() => Vec::new(),
        Kind::Scalar => return Err(YqError::new(format!("{} has no keys", evaluator.nodes[node].tag))),
    };
    for (key, value) in pairs {
        let entry = evaluator.nodes.create(Kind::Mapping, "!!map", "", Some(node))?;
        evaluator.nodes.insert_text(entry, "key", key)?;
        evaluator.nodes.insert_text(entry, "value", value)?;
        evaluator.nodes.push(list, entry)?;
    }
    Ok(list)
}

/// Creates the mapping whose entries are in a list. It takes the position of the owner, so that its path stays the
/// same.
fn from_entries(evaluator: &mut Evaluator<'_>, owner: NodeId, list: NodeId) -> Evaluated<NodeId> {
    let map = evaluator.nodes.replacement(owner, Kind::Mapping, "!!map", "")?;
    for entry in sequence(evaluator, list, "from_entries")? {
        let (Some(key), Some(value)) = (evaluator.nodes.get(entry, "key"), evaluator.nodes.get(entry, "value")) else {
            return Err(YqError::new("expected to find 'key' and 'value' in every entry"));
        };
        let text = evaluator.nodes[key].text.clone();
        match evaluator.nodes.get(map, &text) {
            Some(known) => evaluator.nodes.update(known, value)?,
            None => {
                evaluator.nodes.insert(map, key, value)?;
            }
        }
    }
    Ok(map)
}

fn with_entries(evaluator: &mut Evaluator<'_>, node: NodeId, argument: &Node, context: &Context) -> Evaluated<NodeId> {
    let entries = to_entries(evaluator, node)?;
    let changed = evaluator.nodes.replacement(node, Kind::Sequence, "!!seq", "")?;
    for entry in evaluator.nodes[entries].content.clone() {
        for result in evaluator.evaluate(argument, &context.single(entry))? {
            evaluator.nodes.push(changed, result)?;
        }
    }
    let map = from_entries(evaluator, node, changed)?;
    evaluator.nodes[map].is_flow = evaluator.nodes[node].is_flow;
    Ok(map)
}

/// Flattens nested lists down to a depth, with an explicit stack.
fn flatten(evaluator: &mut Evaluator<'_>, node: NodeId, depth: usize) -> Evaluated<NodeId> {
    let mut flat = Vec::new();
    let mut open: Vec<(NodeId, usize)> =
        sequence(evaluator, node, "flatten")?.into_iter().rev().map(|item| (item, depth)).collect();
    while let Some((item, depth)) = open.pop() {
        if evaluator.nodes[item].kind == Kind::Sequence && depth > 0 {
            open.extend(evaluator.nodes[item].content.iter().rev().map(|inner| (*inner, depth - 1)));
        } else {
            flat.push(item);
        }
    }
    list_of(evaluator, node, flat)
}

fn pick(
    evaluator: &mut Evaluator<'_>,
    node: NodeId,
    argument: &Node,
    context: &Context,
    keeps: bool,
) -> Evaluated<NodeId> {
    let Some(wanted) = evaluator.first(argument, &context.read_only())? else { return Ok(node) };
    let wanted = sequence(evaluator, wanted, "pick")?;
    match evaluator.nodes[node].kind {
        Kind::Mapping => {
            let map = evaluator.nodes.replacement(node, Kind::Mapping, "!!map", "")?;
            let entries = evaluator.nodes.entries(node);
            let is_wanted = |evaluator: &Evaluator<'_>, key: NodeId| {
                wanted.iter().any(|wanted| evaluator.nodes[*wanted].text == evaluator.nodes[key].text)
            };
            let chosen: Vec<(NodeId, NodeId)> = if keeps {
                let find = |wanted: &NodeId| {
                    entries.iter().copied().find(|(key, _)| evaluator.nodes[*key].text == evaluator.nodes[*wanted].text)
                };
                wanted.iter().filter_map(find).collect()
            } else {
                entries.into_iter().filter(|(key, _)| !is_wanted(evaluator, *key)).collect()
            };
            for (key, value) in chosen {
                evaluator.nodes.insert(map, key, value)?;
            }
            evaluator.nodes[map].is_flow = evaluator.nodes[node].is_flow;
            Ok(map)
        }
        Kind::Sequence => {
            let items = evaluator.nodes[node].content.clone();
            let indices: Vec<usize> = wanted
                .iter()
                .filter_map(|wanted| integer(&evaluator.nodes[*wanted].text))
                .filter_map(|index| usize::try_from(index).ok())
                .collect();
            let chosen = if keeps {
                indices.iter().filter_map(|index| items.get(*index).copied()).collect()
            } else {
                items.into_iter().enumerate().filter(|(at, _)| !indices.contains(at)).map(|(_, item)| item).collect()
            };
            list_of(evaluator, node, chosen)
        }
        Kind::Scalar => Err(YqError::new(format!("cannot pick indices from type {} ()", evaluator.nodes[node].tag))),
    }
}

// Order.

/// Orders null before booleans, numbers and strings, each type by value.
fn compare(evaluator: &Evaluator<'_>, one: NodeId, other: NodeId) -> Ordering {
    let (one, other) = (&evaluator.nodes[one], &evaluator.nodes[other]);
    let (one_tag, other_tag) = (one.basic_tag(), other.basic_tag());
    type_rank(one_tag).cmp(&type_rank(other_tag)).then_with(|| match type_rank(one_tag) {
        1 => one.is_truthy().cmp(&other.is_truthy()),
        2 => sortable_number(one).total_cmp(&sortable_number(other)),
        _ => one.text.cmp(&other.text),
    })
}

fn type_rank(tag: &str) -> u8 {
    match tag {
        "!!null" => 0,
        "!!bool" => 1,
        "!!int" | "!!float" => 2,
        "!!str" => 3,
        _ => 4,
    }
}

fn sortable_number(node: &crate::nodes::DataNode) -> f64 {
    integer(&node.text).map(|number| number as f64).or_else(|| float(&node.text)).unwrap_or(f64::NAN)
}

fn sort_by(evaluator: &mut Evaluator<'_>, node: NodeId, by: &Node, context: &Context) -> Evaluated<NodeId> {
    let mut keyed = Vec::new();
    for item in sequence(evaluator, node, "sort")? {
        keyed.push((item, evaluator.evaluate(by, &context.single(item).read_only())?));
    }
    keyed.sort_by(|(_, one), (_, other)| {
        let different =
            one.iter().zip(other).map(|(one, other)| compare(evaluator, *one, *other)).find(|order| order.is_ne());
        different.unwrap_or_else(|| one.len().cmp(&other.len()))
    });
    list_of(evaluator, node, keyed.into_iter().map(|(item, _)| item).collect())
}

/// The text that distinguishes items in `unique` and `group_by`: type and value of the result of `by`.
fn identity(evaluator: &mut Evaluator<'_>, item: NodeId, by: &Node, context: &Context) -> Evaluated<String> {
    let found = evaluator.first(by, &context.single(item).read_only())?;
    match found {
        None => Ok("null".to_owned()),
        Some(found) if evaluator.nodes[found].kind == Kind::Scalar => {
            let node = &evaluator.nodes[found];
            Ok(if node.is_null() { "null".to_owned() } else { format!("{} {}", node.tag, node.text) })
        }
        Some(found) => write_node(evaluator.nodes, found, OutputFormat::Yaml, 2),
    }
}

/// Groups items by their grouping key, in the order in which the keys first occur.
fn groups(
    evaluator: &mut Evaluator<'_>,
    node: NodeId,
    by: &Node,
    context: &Context,
    function: &str,
) -> Evaluated<Vec<Vec<NodeId>>> {
    let mut places = std::collections::HashMap::new();
    let mut groups: Vec<Vec<NodeId>> = Vec::new();
    for item in sequence(evaluator, node, function)? {
        let identity = identity(evaluator, item, by, context)?;
        let place = *places.entry(identity).or_insert(groups.len());
        match groups.get_mut(place) {
            Some(group) => group.push(item),
            None => groups.push(vec![item]),
        }
    }
    Ok(groups)
}

fn unique_by(evaluator: &mut Evaluator<'_>, node: NodeId, by: &Node, context: &Context) -> Evaluated<NodeId> {
    let groups = groups(evaluator, node, by, context, "unique")?;
    list_of(evaluator, node, groups.into_iter().map(|group| group[0]).collect())
}

fn group_by(evaluator: &mut Evaluator<'_>, node: NodeId, by: &Node, context: &Context) -> Evaluated<NodeId> {
    let list = evaluator.nodes.replacement(node, Kind::Sequence, "!!seq", "")?;
    for group in groups(evaluator, node, by, context, "group by")? {
        let inner = evaluator.nodes.create(Kind::Sequence, "!!seq", "", Some(node))?;
        for item in group {
            evaluator.nodes.push(inner, item)?;
        }
        evaluator.nodes.push(list, inner)?;
    }
    Ok(list)
}

fn extreme(evaluator: &Evaluator<'_>, node: NodeId, function: &str) -> Evaluated {
    let items = sequence(evaluator, node, function)?.into_iter();
    let order = |one: &NodeId, other: &NodeId| compare(evaluator, *one, *other);
    Ok(if function == "min" { items.min_by(order) } else { items.max_by(order) }.into_iter().collect())
}

// Texts.

fn change_text(evaluator: &mut Evaluator<'_>, node: NodeId, function: &str) -> Evaluated<NodeId> {
    if evaluator.nodes[node].is_null() {
        return evaluator.nodes.copy(node);
    }
    let text = text(evaluator, node, "change case with")?;
    let changed = match function {
        "upcase" => text.to_uppercase(),
        "downcase" => text.to_lowercase(),
        _ => text.trim().to_owned(),
    };
    let made = evaluator.nodes.text(node, &changed)?;
    evaluator.nodes[made].style = evaluator.nodes[node].style;
    Ok(made)
}

pub(crate) fn split(evaluator: &mut Evaluator<'_>, owner: NodeId, text: &str, separator: &str) -> Evaluated<NodeId> {
    let list = evaluator.nodes.replacement(owner, Kind::Sequence, "!!seq", "")?;
    let parts: Vec<String> = match (text, separator) {
        ("", _) => Vec::new(),
        (text, "") => text.chars().map(String::from).collect(),
        (text, separator) => text.split(separator).map(str::to_owned).collect(),
    };
    for part in parts {
        let part = evaluator.nodes.text(owner, &part)?;
        evaluator.nodes.push(list, part)?;
    }
    Ok(list)
}

fn pattern(text: &str) -> Evaluated<Regex> {
    Regex::new(text).map_err(|error| YqError::new(format!("error parsing regexp: {error}")))
}

/// Evaluates `sub(pattern; replacement)`.
fn substitute(evaluator: &mut Evaluator<'_>, node: NodeId, argument: &Node, context: &Context) -> Evaluated<NodeId> {
    let Node::Binary { operator: Operator::Block | Operator::Union, left, right } = argument else {
        return Err(YqError::new("sub expects 2 args, e.g. `sub(\"a\", \"b\")`"));
    };
    let pattern = pattern(&text_argument(evaluator, left, context)?)?;
    let replacement = text_argument(evaluator, right, context)?;
    let found = &evaluator.nodes[node];
    if found.kind != Kind::Scalar {
        let tag = found.tag.clone();
        let hint = "Hint: Most often you'll want to use '|=' over '=' for this operation";
        return Err(YqError::new(format!("cannot substitute with {tag}, can only substitute strings. {hint}")));
    }
    let text = pattern.replace_all(&found.text, replacement.as_str()).into_owned();
    let tag = found.tag.to_string();
    let made = evaluator.nodes.replacement(node, Kind::Scalar, &tag, &text)?;
    evaluator.nodes[made].style = evaluator.nodes[node].style;
    Ok(made)
}

/// The text of a scalar, or the YAML of a collection.
pub(crate) fn to_text(evaluator: &Evaluator<'_>, node: NodeId) -> Evaluated<String> {
    if evaluator.nodes[node].kind == Kind::Scalar {
        return Ok(evaluator.nodes[node].text.clone());
    }
    write_node(evaluator.nodes, node, OutputFormat::Yaml, 2).map(|text| text.trim_end_matches('\n').to_owned())
}

fn to_number(evaluator: &mut Evaluator<'_>, node: NodeId) -> Evaluated<NodeId> {
    let text = evaluator.nodes[node].text.clone();
    let tag = if integer(&text).is_some() {
        "!!int"
    } else if float(&text).is_some() {
        "!!float"
    } else {
        return Err(YqError::new(format!(
            "cannot convert node value [{text}] at path  of tag {} to number",
            evaluator.nodes[node].tag
        )));
    };
    evaluator.nodes.replacement(node, Kind::Scalar, tag, &text)
}

fn encode(evaluator: &mut Evaluator<'_>, node: NodeId, format: OutputFormat, indent: usize) -> Evaluated<NodeId> {
    let text = write_node(evaluator.nodes, node, format, indent)?;
    // A single line is a value and loses its line break; several lines are a document.
    let text = if indent == 0 || text.matches('\n').count() <= 1 && format == OutputFormat::Json {
        text.trim_end_matches('\n').to_owned()
    } else {
        text
    };
    evaluator.nodes.text(node, &text)
}

fn decode(evaluator: &mut Evaluator<'_>, node: NodeId) -> Evaluated {
    let stream =
        rdd_yaml::read_documents(&evaluator.nodes[node].text).map_err(|error| YqError::new(error.to_string()))?;
    let Some(tree) = stream.documents.first() else { return Ok(Vec::new()) };
    let (document, file) = (evaluator.nodes[node].document, evaluator.nodes[node].file);
    let loaded = evaluator.nodes.load(tree, document, file)?;
    let made = evaluator.nodes.copy(loaded)?;
    // The decoded node takes the position of its source, so that its path stays the same.
    (evaluator.nodes[made].parent, evaluator.nodes[made].key) =
        (evaluator.nodes[node].parent, evaluator.nodes[node].key);
    Ok(vec![made])
}

fn decode_base64(text: &str) -> Evaluated<String> {
    let unpadded = text.trim_end_matches('=');
    let decoded = base64::engine::general_purpose::STANDARD_NO_PAD.decode(unpadded);
    let bytes = decoded.map_err(|error| YqError::new(format!("bad base64: {error}")))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
