//! The binary operators: arithmetic, comparison, merging, assignment.

use rdd_yaml::ScalarStyle;

use crate::{
    YqError,
    evaluate::{Context, Evaluated, Evaluator, matches},
    nodes::{Kind, NodeId},
    parse::{Merge, Node, Operator},
};

/// The length to which repetition (`"ab" * 3`) may extend a string.
const REPEATED_BYTES_MAX: usize = 10 << 20;

/// Applies a binary operator to the results of its operands.
pub(crate) fn apply(
    evaluator: &mut Evaluator<'_>,
    operator: Operator,
    left: &Node,
    right: &Node,
    context: &Context,
) -> Evaluated {
    match operator {
        Operator::Assign => assign(evaluator, left, right, context),
        Operator::Update => update(evaluator, left, right, context),
        Operator::AddAssign => compound(evaluator, Operator::Add, left, right, context),
        Operator::SubtractAssign => compound(evaluator, Operator::Subtract, left, right, context),
        Operator::AlternativeAssign => compound(evaluator, Operator::Alternative, left, right, context),
        Operator::MultiplyAssign(merge) => compound(evaluator, Operator::Multiply(merge), left, right, context),
        _ => {
            let mut results = Vec::new();
            for context in context.apart() {
                cross(evaluator, operator, left, right, &context, &mut results)?;
            }
            Ok(results)
        }
    }
}

/// Combines each result of the left operand with each result of the right one.
fn cross(
    evaluator: &mut Evaluator<'_>,
    operator: Operator,
    left: &Node,
    right: &Node,
    context: &Context,
    results: &mut Vec<NodeId>,
) -> Evaluated<()> {
    // Only `//` and `==` evaluate paths as if for writing; other operators must not create the nodes they read.
    let reads = !matches!(operator, Operator::Alternative | Operator::Equals);
    let context = if reads { context.read_only() } else { context.clone() };
    let lefts = evaluator.evaluate(left, &context)?;
    // These operators combine an operand that has no result with the other operand.
    let with_nothing =
        !matches!(operator, Operator::Subtract | Operator::Multiply(_) | Operator::Divide | Operator::Modulo);
    let lefts: Vec<Option<NodeId>> = match lefts.is_empty() {
        true if with_nothing && !context.nodes.is_empty() => vec![None],
        _ => lefts.into_iter().map(Some).collect(),
    };
    for left in lefts {
        if let Some(decided) = decide_by_left(evaluator, operator, left, &context)? {
            results.push(decided);
            continue;
        }
        let rights = evaluator.evaluate(right, &context)?;
        let rights: Vec<Option<NodeId>> = match rights.is_empty() {
            true if with_nothing => vec![None],
            _ => rights.into_iter().map(Some).collect(),
        };
        for right in rights {
            results.extend(combine(evaluator, operator, left, right, &context)?);
        }
    }
    Ok(())
}

/// Returns the result if the left operand alone decides it: `false and …`, `true or …`, `value // …`.
fn decide_by_left(
    evaluator: &mut Evaluator<'_>,
    operator: Operator,
    left: Option<NodeId>,
    context: &Context,
) -> Evaluated<Option<NodeId>> {
    let is_truthy = left.is_some_and(|left| evaluator.nodes[left].is_truthy());
    match operator {
        Operator::Alternative if is_truthy => Ok(left),
        Operator::Or if is_truthy => boolean(evaluator, left, context, true).map(Some),
        Operator::And if !is_truthy => boolean(evaluator, left, context, false).map(Some),
        _ => Ok(None),
    }
}

fn boolean(evaluator: &mut Evaluator<'_>, owner: Option<NodeId>, context: &Context, value: bool) -> Evaluated<NodeId> {
    match owner.or_else(|| context.nodes.first().copied()) {
        Some(owner) => evaluator.nodes.boolean(owner, value),
        None => evaluator.nodes.scalar("!!bool", if value { "true" } else { "false" }, None),
    }
}

/// Combines one result of each operand. `None` stands for an operand without a result.
fn combine(
    evaluator: &mut Evaluator<'_>,
    operator: Operator,
    left: Option<NodeId>,
    right: Option<NodeId>,
    context: &Context,
) -> Evaluated<Option<NodeId>> {
    let owner = left.or(right);
    match operator {
        Operator::Alternative => Ok(right.or(left)),
        Operator::Or | Operator::And => {
            let value = right.is_some_and(|right| evaluator.nodes[right].is_truthy());
            boolean(evaluator, owner, context, value).map(Some)
        }
        Operator::Equals | Operator::NotEquals => {
            let value = equals(evaluator, left, right) == (operator == Operator::Equals);
            boolean(evaluator, owner, context, value).map(Some)
        }
        Operator::Compare { greater, or_equal } => {
            let value = compares(evaluator, left, right, greater, or_equal)?;
            boolean(evaluator, owner, context, value).map(Some)
        }
        _ => match (left, right) {
            (Some(left), Some(right)) => calculate(evaluator, operator, left, right).map(Some),
            (Some(only), None) | (None, Some(only)) => evaluator.nodes.copy(only).map(Some),
            (None, None) => Ok(None),
        },
    }
}

/// Whether two scalars are equal. The right one may be a pattern with `*` and `?`, as in yq.
fn equals(evaluator: &Evaluator<'_>, left: Option<NodeId>, right: Option<NodeId>) -> bool {
    let nodes = &*evaluator.nodes;
    match (left.map(|left| &nodes[left]), right.map(|right| &nodes[right])) {
        (None, None) => true,
        (None, Some(only)) | (Some(only), None) => only.is_null(),
        (Some(left), Some(right)) if left.is_null() => right.is_null(),
        (Some(left), Some(right)) => {
            left.kind == Kind::Scalar && right.kind == Kind::Scalar && matches(&left.text, &right.text)
        }
    }
}

/// Whether two scalars are in the given order. Null is only equal to null.
fn compares(
    evaluator: &Evaluator<'_>,
    left: Option<NodeId>,
    right: Option<NodeId>,
    greater: bool,
    or_equal: bool,
) -> Evaluated<bool> {
    let nodes = &*evaluator.nodes;
    let (left, right) = (left.map(|left| &nodes[left]), right.map(|right| &nodes[right]));
    let (Some(left), Some(right)) = (left.filter(|left| !left.is_null()), right.filter(|right| !right.is_null()))
    else {
        let is_null = |side: Option<&crate::nodes::DataNode>| side.is_none_or(crate::nodes::DataNode::is_null);
        return Ok(or_equal && is_null(left) && is_null(right));
    };
    if left.kind != Kind::Scalar || right.kind != Kind::Scalar {
        return Err(YqError::new(format!("{} not yet supported for comparison", left.tag)));
    }
    let numbers = (number(left), number(right));
    let order = match numbers {
        (Some(left), Some(right)) => left.partial_cmp(&right),
        (None, None) if left.basic_tag() == right.basic_tag() => Some(left.text.cmp(&right.text)),
        _ => {
            return Err(YqError::new(format!("{} cannot be compared with {}", left.basic_tag(), right.basic_tag())));
        }
    };
    Ok(order.is_some_and(|order| order.is_eq() && or_equal || order.is_gt() && greater || order.is_lt() && !greater))
}

fn number(node: &crate::nodes::DataNode) -> Option<f64> {
    match node.basic_tag() {
        "!!int" => integer(&node.text).map(|number| number as f64),
        "!!float" => float(&node.text),
        _ => None,
    }
}

/// Parses an integer as YAML writes it.
pub(crate) fn integer(text: &str) -> Option<i64> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", text.strip_prefix('+').unwrap_or(text)),
    };
    let (base, digits) = match digits.get(..2) {
        Some("0x" | "0X") => (16, &digits[2..]),
        Some("0o" | "0O") => (8, &digits[2..]),
        Some("0b" | "0B") => (2, &digits[2..]),
        _ => (10, digits),
    };
    i64::from_str_radix(&format!("{sign}{}", digits.replace('_', "")), base).ok()
}

pub(crate) fn float(text: &str) -> Option<f64> {
    match text {
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => Some(f64::INFINITY),
        "-.inf" | "-.Inf" | "-.INF" => Some(f64::NEG_INFINITY),
        ".nan" | ".NaN" | ".NAN" => Some(f64::NAN),
        text => text.replace('_', "").parse().ok(),
    }
}

fn calculate(evaluator: &mut Evaluator<'_>, operator: Operator, left: NodeId, right: NodeId) -> Evaluated<NodeId> {
    match operator {
        Operator::Add => add(evaluator, left, right),
        Operator::Subtract => subtract(evaluator, left, right),
        Operator::Multiply(merge) => multiply(evaluator, left, right, merge),
        Operator::Divide => divide(evaluator, left, right),
        _ => modulo(evaluator, left, right),
    }
}

fn kinds(evaluator: &Evaluator<'_>, left: NodeId, right: NodeId) -> (Kind, Kind) {
    (evaluator.nodes[left].kind, evaluator.nodes[right].kind)
}

fn tags(evaluator: &Evaluator<'_>, left: NodeId, right: NodeId) -> (String, String) {
    (evaluator.nodes[left].basic_tag().to_owned(), evaluator.nodes[right].basic_tag().to_owned())
}

/// The error for operands whose types do not go together.
fn refuse<T>(evaluator: &Evaluator<'_>, left: NodeId, right: NodeId, what: &str) -> Evaluated<T> {
    let (left, right) = tags(evaluator, left, right);
    Err(YqError::new(format!("{left} cannot be {what} {right}")))
}

/// Creates a scalar in the position and style of another one.
fn alike(evaluator: &mut Evaluator<'_>, like: NodeId, tag: &str, text: &str) -> Evaluated<NodeId> {
    let made = evaluator.nodes.replacement(like, Kind::Scalar, tag, text)?;
    evaluator.nodes[made].style = evaluator.nodes[like].style;
    Ok(made)
}

/// Applies an operation to two numbers: `whole` if both are integers, otherwise `broken`.
fn arithmetic(
    evaluator: &mut Evaluator<'_>,
    left: NodeId,
    right: NodeId,
    whole: fn(i64, i64) -> Option<i64>,
    broken: fn(f64, f64) -> f64,
    what: &str,
) -> Evaluated<NodeId> {
    let (left_tag, right_tag) = tags(evaluator, left, right);
    let numbers = (number(&evaluator.nodes[left]), number(&evaluator.nodes[right]));
    let (Some(first), Some(second)) = numbers else { return refuse(evaluator, left, right, what) };
    if left_tag == "!!int" && right_tag == "!!int" {
        let numbers = (integer(&evaluator.nodes[left].text), integer(&evaluator.nodes[right].text));
        let result = numbers.0.zip(numbers.1).and_then(|(first, second)| whole(first, second));
        let Some(result) = result else { return Err(YqError::new("integer overflow")) };
        // yq keeps hexadecimal notation if the left operand has it.
        let text = match evaluator.nodes[left].text.get(..2) {
            Some("0x" | "0X") if result >= 0 => format!("0x{result:X}"),
            _ => result.to_string(),
        };
        return alike(evaluator, left, "!!int", &text);
    }
    let text = float_text(broken(first, second));
    alike(evaluator, left, "!!float", &text)
}

pub(crate) fn float_text(number: f64) -> String {
    if number.is_nan() {
        "NaN".to_owned()
    } else if number.is_infinite() {
        if number > 0.0 { "+Inf" } else { "-Inf" }.to_owned()
    } else {
        rdd_meta::go_text::plain_float(number)
    }
}

fn add(evaluator: &mut Evaluator<'_>, left: NodeId, right: NodeId) -> Evaluated<NodeId> {
    if evaluator.nodes[left].is_null() {
        let copy = evaluator.nodes.copy(right)?;
        (evaluator.nodes[copy].parent, evaluator.nodes[copy].key) =
            (evaluator.nodes[left].parent, evaluator.nodes[left].key);
        return Ok(copy);
    }
    match kinds(evaluator, left, right) {
        (Kind::Mapping, Kind::Mapping) => {
            let sum = evaluator.nodes.copy(left)?;
            for (key, value) in evaluator.nodes.entries(right) {
                let text = evaluator.nodes[key].text.clone();
                match evaluator.nodes.get(sum, &text) {
                    Some(known) => replace(evaluator, known, value)?,
                    None => {
                        evaluator.nodes.insert(sum, key, value)?;
                    }
                }
            }
            Ok(sum)
        }
        (Kind::Sequence, right_kind) => {
            let sum = evaluator.nodes.copy(left)?;
            if evaluator.nodes[sum].content.is_empty() {
                evaluator.nodes[sum].is_flow = false;
            }
            let style = evaluator.nodes[sum].content.first().map(|first| evaluator.nodes[*first].style);
            let items = match right_kind {
                Kind::Sequence => evaluator.nodes[right].content.clone(),
                _ if evaluator.nodes[right].is_null() => Vec::new(),
                _ => vec![right],
            };
            for item in items {
                let item = evaluator.nodes.push(sum, item)?;
                // A single added item takes the style of the items in the list.
                if let (Some(style), true, Kind::Scalar) =
                    (style, right_kind != Kind::Sequence, evaluator.nodes[item].kind)
                {
                    evaluator.nodes[item].style = style;
                }
            }
            Ok(sum)
        }
        (Kind::Scalar, Kind::Scalar) => match tags(evaluator, left, right) {
            (first, second) if first == "!!str" && second == "!!null" => evaluator.nodes.copy(left),
            (first, second) if first == "!!str" || second == "!!str" => {
                let text = format!("{}{}", evaluator.nodes[left].text, evaluator.nodes[right].text);
                alike(evaluator, left, "!!str", &text)
            }
            _ => arithmetic(evaluator, left, right, i64::checked_add, |first, second| first + second, "added to"),
        },
        _ => {
            let (first, second) = tags(evaluator, left, right);
            Err(YqError::new(format!("{second} () cannot be added to a {first} ()")))
        }
    }
}

/// Replaces a value with a copy of another one, including style and tag.
fn replace(evaluator: &mut Evaluator<'_>, at: NodeId, value: NodeId) -> Evaluated<()> {
    evaluator.nodes.update(at, value)?;
    evaluator.nodes[at].style = evaluator.nodes[value].style;
    evaluator.nodes[at].is_flow = evaluator.nodes[value].is_flow;
    evaluator.nodes[at].tag = evaluator.nodes[value].tag.clone();
    Ok(())
}

fn subtract(evaluator: &mut Evaluator<'_>, left: NodeId, right: NodeId) -> Evaluated<NodeId> {
    if evaluator.nodes[left].is_null() {
        return evaluator.nodes.copy(right);
    }
    match kinds(evaluator, left, right) {
        (Kind::Sequence, kind) => {
            let removed = if kind == Kind::Sequence { evaluator.nodes[right].content.clone() } else { vec![right] };
            let rest = evaluator.nodes.copy(left)?;
            for item in evaluator.nodes[rest].content.clone() {
                if removed.iter().any(|removed| same(evaluator, item, *removed)) {
                    evaluator.nodes.remove(item);
                }
            }
            Ok(rest)
        }
        (Kind::Mapping, _) => Err(YqError::new("maps not yet supported for subtraction")),
        _ => arithmetic(evaluator, left, right, i64::checked_sub, |first, second| first - second, "subtracted from"),
    }
}

/// Whether two nodes have equal content.
pub(crate) fn same(evaluator: &Evaluator<'_>, left: NodeId, right: NodeId) -> bool {
    let (one, other) = (&evaluator.nodes[left], &evaluator.nodes[right]);
    if one.kind != other.kind || one.basic_tag() != other.basic_tag() || one.content.len() != other.content.len() {
        return false;
    }
    match one.kind {
        Kind::Scalar => one.text == other.text || one.is_null(),
        Kind::Sequence => one.content.iter().zip(&other.content).all(|(one, other)| same(evaluator, *one, *other)),
        Kind::Mapping => evaluator.nodes.entries(left).into_iter().all(|(key, value)| {
            let found = evaluator.nodes.get(right, &evaluator.nodes[key].text);
            found.is_some_and(|found| same(evaluator, value, found))
        }),
    }
}

fn multiply(evaluator: &mut Evaluator<'_>, left: NodeId, right: NodeId, merge: Merge) -> Evaluated<NodeId> {
    if evaluator.nodes[right].is_null() {
        return evaluator.nodes.copy(left);
    }
    let (left_kind, right_kind) = kinds(evaluator, left, right);
    let mergeable = right_kind != Kind::Scalar && (left_kind == right_kind || evaluator.nodes[left].is_null());
    if mergeable {
        let merged = evaluator.nodes.copy(left)?;
        merge_into(evaluator, merged, right, merge)?;
        return Ok(merged);
    }
    // A string times an integer, in either order, repeats the string.
    let repeated = match tags(evaluator, left, right) {
        (text, count) if text == "!!str" && count == "!!int" => Some((left, right)),
        (count, text) if text == "!!str" && count == "!!int" => Some((right, left)),
        _ => None,
    };
    let Some((text, count)) = repeated else {
        if number(&evaluator.nodes[left]).is_none() || number(&evaluator.nodes[right]).is_none() {
            let (left, right) = (&evaluator.nodes[left].tag, &evaluator.nodes[right].tag);
            return Err(YqError::new(format!("cannot multiply {left} with {right}")));
        }
        return arithmetic(evaluator, left, right, i64::checked_mul, |first, second| first * second, "multiplied with");
    };
    let times = integer(&evaluator.nodes[count].text).unwrap_or_default();
    let Ok(times) = usize::try_from(times) else {
        return Err(YqError::new(format!("cannot repeat string by a negative number ({times})")));
    };
    let length = evaluator.nodes[text].text.len();
    if length.saturating_mul(times) > REPEATED_BYTES_MAX {
        let bytes = format!("({length} bytes) by {times} would exceed {REPEATED_BYTES_MAX} bytes");
        return Err(YqError::new(format!("result of repeating string {bytes}")));
    }
    let repeated = evaluator.nodes[text].text.repeat(times);
    alike(evaluator, text, "!!str", &repeated)
}

/// Merges recursively: mappings entry by entry, lists as the flags demand. Everything else is replaced.
fn merge_into(evaluator: &mut Evaluator<'_>, at: NodeId, from: NodeId, merge: Merge) -> Evaluated<()> {
    let kind = evaluator.nodes[from].kind;
    let was_null = evaluator.nodes[at].is_null();
    match kind {
        Kind::Mapping => {
            if evaluator.nodes[at].kind != Kind::Mapping {
                if merge.only_new && !was_null {
                    return Ok(());
                }
                evaluator.nodes.update_attributes(at, from);
                evaluator.nodes[at].text.clear();
            } else if evaluator.nodes[at].content.is_empty() {
                evaluator.nodes[at].is_flow = evaluator.nodes[from].is_flow;
            }
            for (key, value) in evaluator.nodes.entries(from) {
                let text = evaluator.nodes[key].text.clone();
                match evaluator.nodes.get(at, &text) {
                    Some(known) => merge_into(evaluator, known, value, merge)?,
                    None if merge.only_existing => {}
                    None => {
                        evaluator.nodes.insert(at, key, value)?;
                    }
                }
            }
            Ok(())
        }
        Kind::Sequence if merge.append && evaluator.nodes[at].kind == Kind::Sequence => {
            for item in evaluator.nodes[from].content.clone() {
                evaluator.nodes.push(at, item)?;
            }
            Ok(())
        }
        Kind::Sequence if merge.deep_lists && evaluator.nodes[at].kind == Kind::Sequence => {
            for (index, item) in evaluator.nodes[from].content.clone().into_iter().enumerate() {
                match evaluator.nodes[at].content.get(index).copied() {
                    Some(known) => merge_into(evaluator, known, item, merge)?,
                    None => {
                        evaluator.nodes.push(at, item)?;
                    }
                }
            }
            Ok(())
        }
        _ if merge.only_new && !was_null => Ok(()),
        _ => evaluator.nodes.update(at, from),
    }
}

fn divide(evaluator: &mut Evaluator<'_>, left: NodeId, right: NodeId) -> Evaluated<NodeId> {
    if tags(evaluator, left, right) == ("!!str".to_owned(), "!!str".to_owned()) {
        let (text, separator) = (evaluator.nodes[left].text.clone(), evaluator.nodes[right].text.clone());
        return crate::functions::split(evaluator, left, &text, &separator);
    }
    let numbers = (number(&evaluator.nodes[left]), number(&evaluator.nodes[right]));
    let (Some(first), Some(second)) = numbers else { return refuse(evaluator, left, right, "divided by") };
    let text = float_text(first / second);
    alike(evaluator, left, "!!float", &text)
}

fn modulo(evaluator: &mut Evaluator<'_>, left: NodeId, right: NodeId) -> Evaluated<NodeId> {
    let is_zero = tags(evaluator, left, right).1 == "!!int" && integer(&evaluator.nodes[right].text) == Some(0);
    if is_zero {
        return Err(YqError::new("cannot modulo by 0"));
    }
    arithmetic(evaluator, left, right, i64::checked_rem, |first, second| first % second, "modulo by")
}

// Assignments.

/// Evaluates `left = right`: assigns each result of `right` to each result of `left`. The last one stays.
fn assign(evaluator: &mut Evaluator<'_>, left: &Node, right: &Node, context: &Context) -> Evaluated {
    for context in context.apart() {
        let targets = evaluator.evaluate(left, &context.writable())?;
        for target in targets {
            for value in evaluator.evaluate(right, &context.read_only())? {
                evaluator.nodes.update(target, value)?;
            }
        }
    }
    Ok(context.nodes.clone())
}

/// Evaluates `left |= right`: `right` is evaluated for each result of `left`.
fn update(evaluator: &mut Evaluator<'_>, left: &Node, right: &Node, context: &Context) -> Evaluated {
    let targets = evaluator.evaluate(left, &context.writable())?;
    // In reverse, so that nodes within another target are assigned before that target.
    for target in targets.into_iter().rev() {
        if let Some(value) = evaluator.first(right, &context.single(target))? {
            evaluator.nodes.update(target, value)?;
        }
    }
    Ok(context.nodes.clone())
}

/// Evaluates `left += right` and similar: `right` is evaluated for the input of the assignment, not for its target.
fn compound(
    evaluator: &mut Evaluator<'_>,
    operator: Operator,
    left: &Node,
    right: &Node,
    context: &Context,
) -> Evaluated {
    let targets = evaluator.evaluate(left, &context.writable())?;
    for target in targets {
        // The target changes with each result; the operation must see its original value.
        let before = evaluator.nodes.copy(target)?;
        for context in context.apart() {
            let values = evaluator.evaluate(right, &context.read_only())?;
            let values: Vec<Option<NodeId>> =
                if values.is_empty() { vec![None] } else { values.into_iter().map(Some).collect() };
            for value in values {
                let result = match decide_by_left(evaluator, operator, Some(before), &context)? {
                    Some(decided) => Some(decided),
                    None => combine(evaluator, operator, Some(before), value, &context)?,
                };
                if let Some(result) = result {
                    evaluator.nodes.update(target, result)?;
                }
            }
        }
    }
    Ok(context.nodes.clone())
}

/// Evaluates `left style = right` and `left tag = right`.
pub(crate) fn assign_attribute(
    evaluator: &mut Evaluator<'_>,
    of: &Node,
    attribute: &str,
    value: &Node,
    relative: bool,
    context: &Context,
) -> Evaluated {
    for target in evaluator.evaluate(of, context)? {
        let seen = if relative { context.single(target) } else { context.clone() };
        let Some(value) = evaluator.first(value, &seen.read_only())? else { continue };
        let text = evaluator.nodes[value].text.clone();
        let node = &mut evaluator.nodes[target];
        if attribute == "tag" {
            node.has_written_tag = !text.starts_with("!!");
            node.tag = text.into();
            continue;
        }
        (node.style, node.is_flow) = match text.as_str() {
            "double" => (ScalarStyle::DoubleQuoted, false),
            "single" => (ScalarStyle::SingleQuoted, false),
            "literal" => (ScalarStyle::Literal, false),
            "folded" => (ScalarStyle::Folded, false),
            "flow" => (node.style, true),
            "" => (ScalarStyle::Plain, false),
            "tagged" => {
                node.has_written_tag = true;
                continue;
            }
            other => return Err(YqError::new(format!("unknown style {other}"))),
        };
    }
    Ok(context.nodes.clone())
}
