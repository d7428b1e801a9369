//! Functions on lists: those of Kubernetes, and the list library of cel-go.

use std::cmp::Ordering;
use std::sync::Arc;

use crate::libs::operators;
use crate::value::{Fault, List, Map, MapValues, Outcome, Value, compare, equal};

/// The most items that `lists.range` and similar functions create. The cost of more exceeds every budget.
const ITEMS_MAX: i64 = 1_000_000;

fn list<'v, 'a>(value: &'v Value<'a>) -> Result<&'v List<'a>, Fault> {
    match value {
        Value::List(list) => Ok(list),
        _ => Err(Fault::no_such_overload()),
    }
}

fn int(value: &Value<'_>) -> Result<i64, Fault> {
    match value {
        Value::Int(value) => Ok(*value),
        _ => Err(Fault::no_such_overload()),
    }
}

/// The items, all of which must be comparable.
fn comparable<'a>(value: &Value<'a>) -> Result<Vec<Value<'a>>, Fault> {
    let items = list(value)?.to_vec()?;
    if items.iter().all(operators::can_compare) { Ok(items) } else { Err(Fault::no_such_overload()) }
}

pub(crate) fn is_sorted<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    let items = comparable(&args[0])?;
    // Two items that cannot be compared count as sorted.
    Ok(Value::Bool(!items.windows(2).any(|pair| compare(&pair[0], &pair[1]) == Ok(Ordering::Greater))))
}

/// The smallest or greatest item; the first of equal ones.
fn extreme<'a>(args: &[Value<'a>], name: &str, replaced_when: Ordering) -> Outcome<'a> {
    let mut best: Option<Value<'a>> = None;
    for item in comparable(&args[0])? {
        let replaces = best.as_ref().is_none_or(|best| compare(best, &item) == Ok(replaced_when));
        if replaces {
            best = Some(item);
        }
    }
    best.ok_or_else(|| Fault::error(format!("{name} called on empty list")))
}

pub(crate) fn min<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    extreme(args, "min", Ordering::Greater)
}

pub(crate) fn max<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    extreme(args, "max", Ordering::Less)
}

fn sum<'a>(args: &[Value<'a>], zero: Value<'a>) -> Outcome<'a> {
    let mut total = zero;
    for item in list(&args[0])?.iter() {
        total = operators::add(&[total, item?])?;
    }
    Ok(total)
}

pub(crate) fn sum_int<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    sum(args, Value::Int(0))
}

pub(crate) fn sum_uint<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    sum(args, Value::Uint(0))
}

pub(crate) fn sum_double<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    sum(args, Value::Double(0.0))
}

pub(crate) fn sum_duration<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    sum(args, Value::Duration(0))
}

pub(crate) fn index_of<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    let list = list(&args[0])?;
    let found = list.iter().position(|item| item.is_ok_and(|item| equal(&item, &args[1]) == Ok(true)));
    Ok(Value::Int(found.map_or(-1, |at| at as i64)))
}

pub(crate) fn last_index_of<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    let list = list(&args[0])?;
    let same = |index: &usize| list.get(*index).is_ok_and(|item| equal(&item, &args[1]) == Ok(true));
    Ok(Value::Int((0..list.len()).rev().find(same).map_or(-1, |at| at as i64)))
}

pub(crate) fn slice<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    let (list, start, end) = (list(&args[0])?, int(&args[1])?, int(&args[2])?);
    let refuse = |reason: String| Err(Fault::error(format!("cannot slice({start}, {end}), {reason}")));
    if start < 0 || end < 0 {
        return refuse("negative indexes not supported".into());
    }
    if start > end {
        return refuse("start index must be less than or equal to end index".into());
    }
    if end > list.len() as i64 {
        return refuse(format!("list is length {}", list.len()));
    }
    let items: Result<Vec<_>, _> = (start as usize..end as usize).map(|index| list.get(index)).collect();
    Ok(Value::List(List::new(items?)))
}

pub(crate) fn flatten<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    let Value::List(list) = &args[0] else {
        let more = args.get(1).map_or("", Value::type_name);
        return Err(Fault::error(format!("no such overload: {}.flatten({more})", args[0].type_name())));
    };
    // Without a depth, one level is flattened.
    let depth = args.get(1).map_or(Ok(1), int)?;
    if depth < 0 {
        return Err(Fault::error("level must be non-negative"));
    }
    let mut items = Vec::new();
    flatten_into(list, depth, &mut items)?;
    Ok(Value::List(List::new(items)))
}

fn flatten_into<'a>(list: &List<'a>, depth: i64, items: &mut Vec<Value<'a>>) -> Result<(), Fault> {
    for item in list.iter() {
        match item? {
            Value::List(inner) if depth > 0 => flatten_into(&inner, depth - 1, items)?,
            item => items.push(item),
        }
    }
    Ok(())
}

pub(crate) fn sort<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    sort_by_keys(&[args[0].clone(), args[0].clone()])
}

pub(crate) fn sort_by_keys<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    let (items, keys) = (list(&args[0])?, list(&args[1])?.to_vec()?);
    if items.len() != keys.len() {
        return Err(Fault::error(format!(
            "@sortByAssociatedKeys() expected a list of the same size as the associated keys list, but got {} and {} elements respectively",
            items.len(),
            keys.len()
        )));
    }
    // An empty list has no key whose type could be checked.
    let Some(first) = keys.first() else { return Ok(args[0].clone()) };
    if !operators::can_compare(first) {
        return Err(Fault::error("list elements must be comparable"));
    }
    if keys.iter().any(|key| key.type_name() != first.type_name()) {
        return Err(Fault::error("list elements must have the same type"));
    }
    let order = sort_indices(keys.len(), |a, b| compare(&keys[a], &keys[b]) == Ok(Ordering::Less));
    let sorted: Result<Vec<_>, _> = order.into_iter().map(|index| items.get(index)).collect();
    Ok(Value::List(List::new(sorted?)))
}

/// Sorts the indices below `length` by a stable merge sort.
///
/// The sort of std panics when the order is not total, and NaN, which is neither less nor greater than anything, makes it so.
fn sort_indices(length: usize, is_less: impl Fn(usize, usize) -> bool) -> Vec<usize> {
    let mut sorted: Vec<usize> = (0..length).collect();
    let mut width = 1;
    while width < length {
        let mut merged = Vec::with_capacity(length);
        for run in sorted.chunks(2 * width) {
            let (left, right) = run.split_at(width.min(run.len()));
            let (mut left, mut right) = (left.iter().peekable(), right.iter().peekable());
            while let (Some(first), Some(second)) = (left.peek(), right.peek()) {
                // Only a smaller item overtakes, so equal ones keep their order.
                let next = if is_less(**second, **first) { right.next() } else { left.next() };
                merged.extend(next);
            }
            merged.extend(left.chain(right));
        }
        sorted = merged;
        width *= 2;
    }
    sorted
}

pub(crate) fn range<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    let count = int(&args[0])?;
    if count > ITEMS_MAX {
        return Err(Fault::CostLimit);
    }
    Ok(Value::List(List::new((0..count).map(Value::Int).collect())))
}

pub(crate) fn reverse<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    let mut items = list(&args[0])?.to_vec()?;
    items.reverse();
    Ok(Value::List(List::new(items)))
}

pub(crate) fn distinct<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    let mut unique: Vec<Value<'a>> = Vec::new();
    for item in list(&args[0])?.iter() {
        let item = item?;
        // Quadratic, because equality across types has no hash; the cost accounts for it.
        if !unique.iter().any(|seen| equal(&item, seen) == Ok(true)) {
            unique.push(item);
        }
    }
    Ok(Value::List(List::new(unique)))
}

/// `cel.@mapInsert(map, key, value)` and `cel.@mapInsert(map, entries)`. A key that exists already is an error.
pub(crate) fn map_insert<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    let Value::Map(Map::Values(target)) = &args[0] else { return Err(Fault::no_such_overload()) };
    let mut target = Arc::clone(target);
    insert_into(Arc::make_mut(&mut target), &args[1..])?;
    Ok(Value::Map(Map::Values(target)))
}

pub(crate) fn insert_into<'a>(target: &mut MapValues<'a>, operands: &[Value<'a>]) -> Result<(), Fault> {
    let entries = match operands {
        [Value::Map(entries)] => entries.entries()?,
        [key, value] => vec![(key.clone(), value.clone())],
        _ => return Err(Fault::no_such_overload()),
    };
    for (key, value) in entries {
        if target.find(&key).is_some() {
            return Err(Fault::error(format!("insert failed: key {} already exists", key.shown())));
        }
        target.insert(key, value)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_without_an_order_are_sorted_without_a_panic() {
        // From 21 keys on, the sort of std panics for most of these.
        let mut state = 1_u64;
        for length in 2..100 {
            let mut mk_key = || {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let number = f64::from((state >> 33) as u8 % 10);
                Value::Double(if number < 3.0 { f64::NAN } else { number })
            };
            let keys: Vec<Value<'_>> = (0..length).map(|_| mk_key()).collect();
            let sorted = sort(&[Value::List(List::new(keys))]);
            assert!(matches!(sorted, Ok(Value::List(list)) if list.len() == length));
        }
    }

    #[test]
    fn indices_are_sorted_and_equal_items_keep_their_order() {
        for length in 0..70 {
            let keys: Vec<usize> = (0..length).map(|at| at * 7 % 10).collect();
            let mut expected: Vec<usize> = (0..length).collect();
            expected.sort_by_key(|at| keys[*at]);
            assert_eq!(sort_indices(length, |a, b| keys[a] < keys[b]), expected, "{length}");
        }
    }
}
