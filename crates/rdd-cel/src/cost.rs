//! The cost of calls at run time, in cel-go's units and with the costs of Kubernetes' libraries.

use crate::eval::go_type;
use crate::libs::operators;
use crate::value::{Outcome, Value};

/// The cost of passing over one code point or octet of input.
const TRAVERSAL: f64 = 0.1;
/// The cost of one code point of a pattern.
const PATTERN: f64 = 0.25;
/// The cost of creating a list.
pub(crate) const LIST: u64 = 10;
/// The cost of creating a map.
pub(crate) const MAP: u64 = 30;
/// The cost of creating an object.
pub(crate) const STRUCT: u64 = 40;

/// How the cost of a call is computed from its arguments and its result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Price {
    /// One unit.
    One,
    /// A fixed number of units.
    Fixed(u64),
    /// A selector, which is parsed into requirements.
    Selector,
    /// One pass over a list or a string, including what lists contain.
    Traverse,
    /// The size of the first argument, times a factor in tenths.
    First(u32),
    /// The size of the result, times a factor in tenths.
    Result(u32),
    /// A pattern applied to a string.
    Pattern,
    ContainsIp {
        text: bool,
    },
    ContainsCidr {
        text: bool,
    },
    /// A named format applied to a string.
    Validate,
    /// The smaller of the sizes of two arguments.
    Smaller,
    /// The sum of the sizes of two arguments.
    Sum,
    /// The product of the sizes of two arguments, as a substring search.
    Contains,
    /// The size of the list.
    InList,
    /// The size of the resulting list.
    ListResult,
    /// The size of the list times the depth.
    Flatten,
    /// The square of the size of the argument at this index, whose items are compared with each other.
    SelfCompare(usize),
    /// The product of the sizes of two lists, times a factor.
    Sets(u64),
}

/// The price of an overload. The trackers of extension libraries and Kubernetes' prices override the standard library's.
impl Price {
    pub(crate) fn of(function: &str, overload: &str) -> Self {
        Self::tracked(overload)
            .or_else(|| Self::of_kubernetes(function, overload))
            .unwrap_or_else(|| Self::standard(overload))
    }

    fn tracked(overload: &str) -> Option<Self> {
        Some(match overload {
            "list_slice" | "lists_range" | "list_reverse" => Price::ListResult,
            "list_flatten" | "list_flatten_int" => Price::Flatten,
            "list_distinct" => Price::SelfCompare(0),
            "list_sets_contains_list" | "list_sets_intersects_list" => Price::Sets(1),
            "list_sets_equivalent_list" => Price::Sets(2),
            id if id.starts_with("list_") && id.ends_with("_sort") => Price::SelfCompare(0),
            id if id.starts_with("list_") && id.ends_with("_sortByAssociatedKeys") => Price::SelfCompare(1),
            _ => return None,
        })
    }

    fn of_kubernetes(function: &str, overload: &str) -> Option<Self> {
        Some(match function {
            "check" => Price::Fixed(350_000),
            "fieldSelector" | "labelSelector" => Price::Selector,
            "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf" => Price::Traverse,
            "url" | "lowerAscii" | "upperAscii" | "substring" | "trim" | "jsonpatch.escapeKey" => Price::First(1),
            "replace" | "split" => Price::First(2),
            "join" => Price::Result(2),
            "find" | "findAll" => Price::Pattern,
            "cidr" | "isIP" | "isCIDR" => Price::First(1),
            "ip" if overload == "cidr_ip" => Price::One,
            "ip" => Price::First(1),
            "ip.isCanonical" => Price::First(2),
            "containsIP" => Price::ContainsIp { text: overload == "cidr_contains_ip_string" },
            "containsCIDR" => Price::ContainsCidr { text: overload == "cidr_contains_cidr_string" },
            "quantity" | "isQuantity" | "semver" | "isSemver" => Price::First(1),
            "validate" => Price::Validate,
            _ => return None,
        })
    }

    fn standard(overload: &str) -> Self {
        match overload {
            "starts_with_string" | "ends_with_string" | "string_to_bytes" | "bytes_to_string" | "strings_quote"
            | "string_format" => Price::First(1),
            "in_list" => Price::InList,
            "less_string"
            | "greater_string"
            | "less_equals_string"
            | "greater_equals_string"
            | "less_bytes"
            | "greater_bytes"
            | "less_equals_bytes"
            | "greater_equals_bytes" => Price::Smaller,
            "add_string" | "add_bytes" => Price::Sum,
            "matches_string" => Price::Pattern,
            "contains_string" => Price::Contains,
            _ => Price::One,
        }
    }

    /// Whether the cost can be computed before the call.
    pub(crate) fn follows_from_arguments(self) -> bool {
        !matches!(self, Price::Result(_) | Price::ListResult)
    }

    /// The cost of a call that was made; its arguments may be errors.
    ///
    /// # Errors
    /// The text of cel-go's panic, where cel-go relies on an argument not being an error.
    pub(crate) fn cost(self, args: &[Outcome<'_>], result: &Outcome<'_>) -> Result<u64, String> {
        match (self, args) {
            (Price::SelfCompare(index), args) => match args.get(index) {
                Some(Ok(Value::List(_))) | None => {}
                Some(Ok(other)) => {
                    let method = if operators::can_add(other) { "Contains" } else { "Add" };
                    return Err(format!(
                        "interface conversion: {} is not traits.Lister: missing method {method}",
                        go_type(other)
                    ));
                }
                Some(Err(_)) => {
                    return Err("interface conversion: *types.Err is not traits.Lister: missing method Add".into());
                }
            },
            // cel-go reads the depth without a check.
            (Price::Flatten, [_, Err(_)]) => {
                return Err("interface conversion: ref.Val is *types.Err, not types.Int".into());
            }
            _ => {}
        }
        Ok(self.units(args, result))
    }

    /// Computes the units by cel-go's formulas, including their rounding.
    fn units(self, args: &[Outcome<'_>], result: &Outcome<'_>) -> u64 {
        let size = |index: usize| args.get(index).map_or(1, actual_size);
        // Rounded up, so that no call with input is free.
        let traversal = |size: u64, factor: f64| (size as f64 * factor).ceil() as u64;
        match self {
            Price::One => 1,
            Price::Fixed(cost) => cost,
            Price::Selector => {
                let length = size(1);
                let requirements = traversal(length, 0.5);
                LIST + traversal(length, TRAVERSAL) + traversal(requirements, (LIST + STRUCT) as f64)
            }
            Price::Traverse => args.first().map_or(0, |arg| arg.as_ref().map_or(1, traversal_cost)),
            Price::First(tenths) => traversal(size(0), f64::from(tenths) * TRAVERSAL),
            Price::Result(tenths) => traversal(actual_size(result), f64::from(tenths) * TRAVERSAL),
            Price::Pattern => ((1.0 + size(0) as f64) * TRAVERSAL).ceil() as u64 * traversal(size(1), PATTERN),
            Price::ContainsIp { text } => {
                traversal(size(0) + size(0), TRAVERSAL) + if text { traversal(size(1), TRAVERSAL) } else { 0 }
            }
            Price::ContainsCidr { text } => {
                let own = traversal(size(0) + size(0), TRAVERSAL) + traversal(size(0), TRAVERSAL) + 1;
                own + if text { traversal(size(1), TRAVERSAL) } else { 0 }
            }
            Price::Validate => match args.first() {
                Some(Ok(Value::Format(format))) => {
                    ((1.0 + size(1) as f64) * TRAVERSAL).ceil() as u64
                        * traversal(format.pattern_length as u64, PATTERN)
                }
                _ => 1,
            },
            Price::Smaller => traversal(size(0).min(size(1)), TRAVERSAL),
            Price::Sum => traversal(size(0) + size(1), TRAVERSAL),
            Price::Contains => traversal(size(0), TRAVERSAL) * traversal(size(1), TRAVERSAL),
            Price::InList => size(1),
            Price::ListResult => actual_size(result) + 1 + LIST,
            Price::Flatten => {
                let depth = match args.get(1) {
                    Some(Ok(Value::Int(depth))) => *depth as f64,
                    _ => 1.0,
                };
                (size(0) as f64 * depth) as u64 + 1 + LIST
            }
            Price::SelfCompare(index) => {
                // Only the first item decides, as in cel-go.
                let is_text = match args.get(index) {
                    Some(Ok(Value::List(list))) if !list.is_empty() => {
                        matches!(list.get(0), Ok(Value::String(_) | Value::Bytes(_)))
                    }
                    _ => false,
                };
                let items = match args.get(index) {
                    Some(Ok(Value::List(list))) => list.len() as u64,
                    _ => 0,
                };
                let factor = if is_text { 2.0 + TRAVERSAL } else { 2.0 };
                (items.saturating_mul(items) as f64 * factor) as u64 + 1 + LIST
            }
            // Equivalence compares in both directions, hence the factor.
            Price::Sets(factor) => 1 + size(0).saturating_mul(size(1)) * factor,
        }
    }
}

/// The cost of `==`: the size of the smaller side. Kubernetes' own types cost one unit.
pub(crate) fn equality(args: &[Outcome<'_>]) -> u64 {
    if let Ok(
        Value::Quantity(_)
        | Value::Ip(_)
        | Value::Cidr(_)
        | Value::Format(_)
        | Value::Url(_)
        | Value::Semver(_)
        | Value::Authorization(_),
    ) = &args[0]
    {
        return 1;
    }
    Price::Smaller.units(args, &Ok(Value::Null))
}

/// The cost of `!=`: always that of the standard library.
pub(crate) fn inequality(args: &[Outcome<'_>]) -> u64 {
    Price::Smaller.units(args, &Ok(Value::Null))
}

/// The size of a value for costs; 1 for values without a size and for errors.
fn actual_size(value: &Outcome<'_>) -> u64 {
    match value {
        Ok(Value::Optional(Some(inner))) => inner.size().unwrap_or(1),
        Ok(value) => value.size().unwrap_or(1),
        Err(_) => 1,
    }
}

/// The cost of one pass over a value and everything in it.
fn traversal_cost(value: &Value<'_>) -> u64 {
    match value {
        // Rounded down, unlike the other formulas, and by octets: so does Kubernetes.
        Value::String(text) => (text.len() as f64 * TRAVERSAL) as u64,
        Value::Bytes(octets) => (octets.len() as f64 * TRAVERSAL) as u64,
        Value::List(list) => list.iter().map(|item| item.as_ref().map_or(1, traversal_cost)).sum(),
        Value::Map(map) => map
            .keys()
            .iter()
            .map(|key| {
                let value = map.find(key).ok().flatten();
                traversal_cost(key) + value.as_ref().map_or(1, traversal_cost)
            })
            .sum(),
        _ => 1,
    }
}
