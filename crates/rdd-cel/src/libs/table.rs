//! The table of all functions, in the order in which Kubernetes' environment declares the overloads.

use std::collections::HashMap;

use super::{Function, Native, Overload, Singleton, Style, signature};
use super::{
    authz, convert, lists, named, net, operators, optionals, quantity, regexes, semver, sets, string_format, strings,
    time, url,
};
use crate::value::{Fault, Outcome, Value};

use Style::{Binary as B, Planned as P, Unary as U, Variadic as V};

/// The name of a function, the signature of an overload, its style, and its implementation.
type Row = (&'static str, &'static str, Style, Native);

/// The implementation of functions that the planner replaces, and of functions whose types only other libraries create.
fn refused<'a>(_: &[Value<'a>]) -> Outcome<'a> {
    Err(Fault::no_such_overload())
}

const COMPARABLE: [&str; 8] = ["int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes"];

pub(super) fn functions() -> HashMap<&'static str, Function> {
    let mut functions: HashMap<&'static str, Function> = HashMap::new();
    for (name, text, style, native) in ROWS {
        add(&mut functions, name, text, *style, *native);
    }
    comparisons(&mut functions);
    for kind in COMPARABLE {
        // cel-go names overloads by the full names of types, Kubernetes' library by the short ones.
        let full = match kind {
            "duration" => "google.protobuf.Duration",
            "timestamp" => "google.protobuf.Timestamp",
            other => other,
        };
        add(
            &mut functions,
            "isSorted",
            &format!("list_{kind}_is_sorted_bool: list<{kind}>.() -> bool"),
            U,
            lists::is_sorted,
        );
        add(&mut functions, "max", &format!("list_{kind}_max_{kind}: list<{kind}>.() -> {kind}"), U, lists::max);
        add(&mut functions, "min", &format!("list_{kind}_min_{kind}: list<{kind}>.() -> {kind}"), U, lists::min);
        add(&mut functions, "sort", &format!("list_{full}_sort: list<{kind}>.() -> list<{kind}>"), P, refused);
        let by_keys = format!("list_{full}_sortByAssociatedKeys: list<T>.(list<{kind}>) -> list<T>");
        add(&mut functions, "@sortByAssociatedKeys", &by_keys, P, refused);
    }
    for (name, native) in named::CONSTANTS {
        add(&mut functions, name, &format!("{name}: () -> NamedFormat"), V, native);
    }
    for (name, style, accepts, native) in SINGLETONS {
        let function = functions.get_mut(name).expect("a singleton has overloads");
        function.singleton = Some(Singleton { style: *style, native: *native, accepts: *accepts });
    }
    // cel-go does not check the argument types of these; their implementations report the mismatch.
    for unguarded in ["contains", "endsWith", "startsWith", "flatten"] {
        let function = functions.get_mut(unguarded).expect("the function is in the table");
        function.overloads.iter_mut().for_each(|overload| overload.guarded = false);
    }
    functions
}

fn add(functions: &mut HashMap<&'static str, Function>, name: &'static str, text: &str, style: Style, native: Native) {
    let signature::Signature { id, member, params, result } = signature::parse(text);
    let overload = Overload { id, member, params, result, style, native, guarded: true };
    functions.entry(name).or_default().overloads.push(overload);
}

fn comparisons(functions: &mut HashMap<&'static str, Function>) {
    const KINDS: [(&str, &str, &str); 14] = [
        ("bool", "bool", "bool"),
        ("int64", "int", "int"),
        ("int64_double", "int", "double"),
        ("int64_uint64", "int", "uint"),
        ("uint64", "uint", "uint"),
        ("uint64_double", "uint", "double"),
        ("uint64_int64", "uint", "int"),
        ("double", "double", "double"),
        ("double_int64", "double", "int"),
        ("double_uint64", "double", "uint"),
        ("string", "string", "string"),
        ("bytes", "bytes", "bytes"),
        ("timestamp", "timestamp", "timestamp"),
        ("duration", "duration", "duration"),
    ];
    for (function, prefix) in [("_<_", "less"), ("_<=_", "less_equals"), ("_>_", "greater"), ("_>=_", "greater_equals")]
    {
        for (suffix, left, right) in KINDS {
            add(functions, function, &format!("{prefix}_{suffix}: ({left}, {right}) -> bool"), P, refused);
        }
    }
}

type Accepts = fn(&Value<'_>) -> bool;

/// Functions with one implementation for all overloads. It runs for first operands that have the required trait.
const SINGLETONS: &[(&str, Style, Accepts, Native)] = &[
    ("!_", U, |_| true, operators::not),
    (
        "-_",
        U,
        |v| matches!(v, Value::Bool(_) | Value::Double(_) | Value::Duration(_) | Value::Int(_)),
        operators::negate,
    ),
    ("_+_", B, operators::can_add, operators::add),
    ("_-_", B, operators::can_subtract, operators::subtract),
    ("_*_", B, operators::can_multiply, operators::multiply),
    ("_/_", B, operators::can_multiply, operators::divide),
    ("_%_", B, |v| matches!(v, Value::Int(_) | Value::Uint(_)), operators::modulo),
    ("_<_", B, operators::can_compare, operators::less),
    ("_<=_", B, operators::can_compare, operators::less_equals),
    ("_>_", B, operators::can_compare, operators::greater),
    ("_>=_", B, operators::can_compare, operators::greater_equals),
    ("@in", B, |_| true, operators::is_in),
    ("size", U, |v| matches!(v, Value::Bytes(_) | Value::String(_) | Value::List(_) | Value::Map(_)), operators::size),
    ("type", U, |_| true, convert::to_type),
    ("dyn", U, |_| true, convert::identity),
    ("matches", B, |v| matches!(v, Value::String(_)), regexes::matches),
    ("sort", U, |v| matches!(v, Value::List(_)), lists::sort),
    ("@sortByAssociatedKeys", B, |v| matches!(v, Value::List(_)), lists::sort_by_keys),
];

const ROWS: &[Row] = &[
    // The language.
    ("_?_:_", "conditional: (bool, A, A) -> A", P, refused),
    ("_&&_", "logical_and: (bool, bool) -> bool", P, refused),
    ("_||_", "logical_or: (bool, bool) -> bool", P, refused),
    ("!_", "logical_not: (bool) -> bool", P, refused),
    ("@not_strictly_false", "not_strictly_false: (bool) -> bool", P, refused),
    ("_==_", "equals: (A, A) -> bool", P, refused),
    ("_!=_", "not_equals: (A, A) -> bool", P, refused),
    ("_+_", "add_bytes: (bytes, bytes) -> bytes", P, refused),
    ("_+_", "add_double: (double, double) -> double", P, refused),
    ("_+_", "add_duration_duration: (duration, duration) -> duration", P, refused),
    ("_+_", "add_duration_timestamp: (duration, timestamp) -> timestamp", P, refused),
    ("_+_", "add_timestamp_duration: (timestamp, duration) -> timestamp", P, refused),
    ("_+_", "add_int64: (int, int) -> int", P, refused),
    ("_+_", "add_list: (list<A>, list<A>) -> list<A>", P, refused),
    ("_+_", "add_string: (string, string) -> string", P, refused),
    ("_+_", "add_uint64: (uint, uint) -> uint", P, refused),
    ("_/_", "divide_double: (double, double) -> double", P, refused),
    ("_/_", "divide_int64: (int, int) -> int", P, refused),
    ("_/_", "divide_uint64: (uint, uint) -> uint", P, refused),
    ("_%_", "modulo_int64: (int, int) -> int", P, refused),
    ("_%_", "modulo_uint64: (uint, uint) -> uint", P, refused),
    ("_*_", "multiply_double: (double, double) -> double", P, refused),
    ("_*_", "multiply_int64: (int, int) -> int", P, refused),
    ("_*_", "multiply_uint64: (uint, uint) -> uint", P, refused),
    ("-_", "negate_double: (double) -> double", P, refused),
    ("-_", "negate_int64: (int) -> int", P, refused),
    ("_-_", "subtract_double: (double, double) -> double", P, refused),
    ("_-_", "subtract_duration_duration: (duration, duration) -> duration", P, refused),
    ("_-_", "subtract_int64: (int, int) -> int", P, refused),
    ("_-_", "subtract_timestamp_duration: (timestamp, duration) -> timestamp", P, refused),
    ("_-_", "subtract_timestamp_timestamp: (timestamp, timestamp) -> duration", P, refused),
    ("_-_", "subtract_uint64: (uint, uint) -> uint", P, refused),
    ("_[_]", "index_list: (list<A>, int) -> A", P, refused),
    ("_[_]", "index_map: (map<A, B>, A) -> B", P, refused),
    ("_[_]", "optional_list_index_int: (optional<list<V>>, int) -> optional<V>", P, refused),
    ("_[_]", "optional_map_index_value: (optional<map<K, V>>, K) -> optional<V>", P, refused),
    ("_[?_]", "list_optindex_optional_int: (list<V>, int) -> optional<V>", P, refused),
    ("_[?_]", "optional_list_optindex_optional_int: (optional<list<V>>, int) -> optional<V>", P, refused),
    ("_[?_]", "map_optindex_optional_value: (map<K, V>, K) -> optional<V>", P, refused),
    ("_[?_]", "optional_map_optindex_optional_value: (optional<map<K, V>>, K) -> optional<V>", P, refused),
    ("_?._", "select_optional_field: (dyn, string) -> optional<V>", P, refused),
    ("@in", "in_list: (A, list<A>) -> bool", P, refused),
    ("@in", "in_map: (A, map<A, B>) -> bool", P, refused),
    ("size", "size_bytes: (bytes) -> int", P, refused),
    ("size", "bytes_size: bytes.() -> int", P, refused),
    ("size", "size_list: (list<A>) -> int", P, refused),
    ("size", "list_size: list<A>.() -> int", P, refused),
    ("size", "size_map: (map<A, B>) -> int", P, refused),
    ("size", "map_size: map<A, B>.() -> int", P, refused),
    ("size", "size_string: (string) -> int", P, refused),
    ("size", "string_size: string.() -> int", P, refused),
    // Conversions.
    ("type", "type: (A) -> type<A>", P, refused),
    ("dyn", "to_dyn: (A) -> dyn", P, refused),
    ("bool", "bool_to_bool: (bool) -> bool", U, convert::identity),
    ("bool", "string_to_bool: (string) -> bool", U, convert::to_bool),
    ("bytes", "bytes_to_bytes: (bytes) -> bytes", U, convert::identity),
    ("bytes", "string_to_bytes: (string) -> bytes", U, convert::to_bytes),
    ("double", "double_to_double: (double) -> double", U, convert::identity),
    ("double", "int64_to_double: (int) -> double", U, convert::to_double),
    ("double", "string_to_double: (string) -> double", U, convert::to_double),
    ("double", "uint64_to_double: (uint) -> double", U, convert::to_double),
    ("duration", "duration_to_duration: (duration) -> duration", U, convert::identity),
    ("duration", "int64_to_duration: (int) -> duration", U, convert::to_duration),
    ("duration", "string_to_duration: (string) -> duration", U, convert::to_duration),
    ("int", "int64_to_int64: (int) -> int", U, convert::identity),
    ("int", "double_to_int64: (double) -> int", U, convert::to_int),
    ("int", "duration_to_int64: (duration) -> int", U, convert::to_int),
    ("int", "string_to_int64: (string) -> int", U, convert::to_int),
    ("int", "timestamp_to_int64: (timestamp) -> int", U, convert::to_int),
    ("int", "uint64_to_int64: (uint) -> int", U, convert::to_int),
    ("string", "string_to_string: (string) -> string", U, convert::identity),
    ("string", "bool_to_string: (bool) -> string", U, convert::to_string),
    ("string", "bytes_to_string: (bytes) -> string", U, convert::to_string),
    ("string", "double_to_string: (double) -> string", U, convert::to_string),
    ("string", "duration_to_string: (duration) -> string", U, convert::to_string),
    ("string", "int64_to_string: (int) -> string", U, convert::to_string),
    ("string", "timestamp_to_string: (timestamp) -> string", U, convert::to_string),
    ("string", "uint64_to_string: (uint) -> string", U, convert::to_string),
    ("timestamp", "timestamp_to_timestamp: (timestamp) -> timestamp", U, convert::identity),
    ("timestamp", "int64_to_timestamp: (int) -> timestamp", U, convert::to_timestamp),
    ("timestamp", "string_to_timestamp: (string) -> timestamp", U, convert::to_timestamp),
    ("uint", "uint64_to_uint64: (uint) -> uint", U, convert::identity),
    ("uint", "double_to_uint64: (double) -> uint", U, convert::to_uint),
    ("uint", "int64_to_uint64: (int) -> uint", U, convert::to_uint),
    ("uint", "string_to_uint64: (string) -> uint", U, convert::to_uint),
    // Strings and times of the standard library.
    ("contains", "contains_string: string.(string) -> bool", B, strings::contains),
    ("endsWith", "ends_with_string: string.(string) -> bool", B, strings::ends_with),
    ("startsWith", "starts_with_string: string.(string) -> bool", B, strings::starts_with),
    ("matches", "matches: (string, string) -> bool", P, refused),
    ("matches", "matches_string: string.(string) -> bool", P, refused),
    ("getFullYear", "timestamp_to_year: timestamp.() -> int", U, time::year),
    ("getFullYear", "timestamp_to_year_with_tz: timestamp.(string) -> int", B, time::year),
    ("getMonth", "timestamp_to_month: timestamp.() -> int", U, time::month),
    ("getMonth", "timestamp_to_month_with_tz: timestamp.(string) -> int", B, time::month),
    ("getDayOfYear", "timestamp_to_day_of_year: timestamp.() -> int", U, time::day_of_year),
    ("getDayOfYear", "timestamp_to_day_of_year_with_tz: timestamp.(string) -> int", B, time::day_of_year),
    ("getDayOfMonth", "timestamp_to_day_of_month: timestamp.() -> int", U, time::day_of_month),
    ("getDayOfMonth", "timestamp_to_day_of_month_with_tz: timestamp.(string) -> int", B, time::day_of_month),
    ("getDate", "timestamp_to_day_of_month_1_based: timestamp.() -> int", U, time::date),
    ("getDate", "timestamp_to_day_of_month_1_based_with_tz: timestamp.(string) -> int", B, time::date),
    ("getDayOfWeek", "timestamp_to_day_of_week: timestamp.() -> int", U, time::day_of_week),
    ("getDayOfWeek", "timestamp_to_day_of_week_with_tz: timestamp.(string) -> int", B, time::day_of_week),
    ("getHours", "timestamp_to_hours: timestamp.() -> int", U, time::hours),
    ("getHours", "timestamp_to_hours_with_tz: timestamp.(string) -> int", B, time::hours),
    ("getHours", "duration_to_hours: duration.() -> int", U, time::hours),
    ("getMinutes", "timestamp_to_minutes: timestamp.() -> int", U, time::minutes),
    ("getMinutes", "timestamp_to_minutes_with_tz: timestamp.(string) -> int", B, time::minutes),
    ("getMinutes", "duration_to_minutes: duration.() -> int", U, time::minutes),
    ("getSeconds", "timestamp_to_seconds: timestamp.() -> int", U, time::seconds),
    ("getSeconds", "timestamp_to_seconds_tz: timestamp.(string) -> int", B, time::seconds),
    ("getSeconds", "duration_to_seconds: duration.() -> int", U, time::seconds),
    ("getMilliseconds", "timestamp_to_milliseconds: timestamp.() -> int", U, time::milliseconds),
    ("getMilliseconds", "timestamp_to_milliseconds_with_tz: timestamp.(string) -> int", B, time::milliseconds),
    ("getMilliseconds", "duration_to_milliseconds: duration.() -> int", U, time::milliseconds),
    // kubernetes.urls
    ("url", "string_to_url: (string) -> URL", U, url::parse),
    ("getScheme", "url_get_scheme: URL.() -> string", U, url::scheme_part),
    ("getHost", "url_get_host: URL.() -> string", U, url::host),
    ("getHostname", "url_get_hostname: URL.() -> string", U, url::hostname),
    ("getPort", "url_get_port: URL.() -> string", U, url::port),
    ("getEscapedPath", "url_get_escaped_path: URL.() -> string", U, url::escaped_path),
    ("getQuery", "url_get_query: URL.() -> map<string, list<string>>", U, url::query),
    ("isURL", "is_url_string: (string) -> bool", U, url::is_url),
    // kubernetes.regex
    ("find", "string_find_string: string.(string) -> string", B, regexes::find),
    ("findAll", "string_find_all_string: string.(string) -> list<string>", B, regexes::find_all),
    ("findAll", "string_find_all_string_int: string.(string, int) -> list<string>", V, regexes::find_all),
    // kubernetes.lists; the rest of it is generated per type
    ("sum", "list_int_sum_int: list<int>.() -> int", U, lists::sum_int),
    ("sum", "list_uint_sum_uint: list<uint>.() -> uint", U, lists::sum_uint),
    ("sum", "list_double_sum_double: list<double>.() -> double", U, lists::sum_double),
    ("sum", "list_duration_sum_duration: list<duration>.() -> duration", U, lists::sum_duration),
    ("indexOf", "list_a_index_of_int: list<A>.(A) -> int", B, lists::index_of),
    ("lastIndexOf", "list_a_last_index_of_int: list<A>.(A) -> int", B, lists::last_index_of),
    // kubernetes.authz
    ("path", "authorizer_path: Authorizer.(string) -> PathCheck", B, authz::path),
    ("group", "authorizer_group: Authorizer.(string) -> GroupCheck", B, authz::group),
    (
        "serviceAccount",
        "authorizer_serviceaccount: Authorizer.(string, string) -> Authorizer",
        V,
        authz::service_account,
    ),
    ("resource", "groupcheck_resource: GroupCheck.(string) -> ResourceCheck", B, authz::resource),
    ("subresource", "resourcecheck_subresource: ResourceCheck.(string) -> ResourceCheck", B, authz::narrowed),
    ("namespace", "resourcecheck_namespace: ResourceCheck.(string) -> ResourceCheck", B, authz::narrowed),
    ("name", "resourcecheck_name: ResourceCheck.(string) -> ResourceCheck", B, authz::narrowed),
    ("check", "pathcheck_check: PathCheck.(string) -> Decision", B, authz::check),
    ("check", "resourcecheck_check: ResourceCheck.(string) -> Decision", B, authz::check),
    ("errored", "decision_errored: Decision.() -> bool", U, authz::errored),
    ("error", "decision_error: Decision.() -> string", U, authz::nothing),
    ("allowed", "decision_allowed: Decision.() -> bool", U, authz::allowed),
    ("reason", "decision_reason: Decision.() -> string", U, authz::nothing),
    ("fieldSelector", "authorizer_fieldselector: ResourceCheck.(string) -> ResourceCheck", B, authz::narrowed),
    ("labelSelector", "authorizer_labelselector: ResourceCheck.(string) -> ResourceCheck", B, authz::narrowed),
    // cel.lib.optional
    ("optional.of", "optional_of: (V) -> optional<V>", U, optionals::of),
    ("optional.ofNonZeroValue", "optional_ofNonZeroValue: (V) -> optional<V>", U, optionals::of_non_zero),
    ("optional.none", "optional_none: () -> optional<V>", V, optionals::none),
    ("value", "optional_value: optional<V>.() -> V", U, optionals::value),
    ("hasValue", "optional_hasValue: optional<V>.() -> bool", U, optionals::has_value),
    ("or", "optional_or_optional: optional<V>.(optional<V>) -> optional<V>", P, refused),
    ("orValue", "optional_orValue_value: optional<V>.(V) -> V", P, refused),
    ("last", "list_last: list<V>.() -> optional<V>", U, optionals::last),
    ("first", "list_first: list<V>.() -> optional<V>", U, optionals::first),
    ("optional.unwrap", "optional_unwrap: (list<optional<V>>) -> list<V>", U, optionals::unwrap),
    ("unwrapOpt", "optional_unwrapOpt: list<optional<V>>.() -> list<V>", U, optionals::unwrap),
    // kubernetes.quantity
    ("quantity", "string_to_quantity: (string) -> Quantity", U, quantity::parse),
    ("isQuantity", "is_quantity_string: (string) -> bool", U, quantity::is_quantity),
    ("sign", "quantity_sign: (Quantity) -> int", U, quantity::sign),
    ("isGreaterThan", "quantity_is_greater_than: Quantity.(Quantity) -> bool", B, quantity::is_greater_than),
    ("isLessThan", "quantity_is_less_than: Quantity.(Quantity) -> bool", B, quantity::is_less_than),
    ("compareTo", "quantity_compare_to: Quantity.(Quantity) -> int", B, quantity::compare_to),
    ("asApproximateFloat", "quantity_get_float: Quantity.() -> double", U, quantity::as_approximate_float),
    ("asInteger", "quantity_get_int: Quantity.() -> int", U, quantity::as_integer),
    ("isInteger", "quantity_is_integer: Quantity.() -> bool", U, quantity::is_integer),
    ("add", "quantity_add: Quantity.(Quantity) -> Quantity", B, quantity::add),
    ("add", "quantity_add_int: Quantity.(int) -> Quantity", B, quantity::add),
    ("sub", "quantity_sub: Quantity.(Quantity) -> Quantity", B, quantity::subtract),
    ("sub", "quantity_sub_int: Quantity.(int) -> Quantity", B, quantity::subtract),
    // cel.lib.ext.strings, version 2
    ("charAt", "string_char_at_int: string.(int) -> string", B, strings::char_at),
    ("indexOf", "string_index_of_string: string.(string) -> int", B, strings::index_of),
    ("indexOf", "string_index_of_string_int: string.(string, int) -> int", V, strings::index_of),
    ("lastIndexOf", "string_last_index_of_string: string.(string) -> int", B, strings::last_index_of),
    ("lastIndexOf", "string_last_index_of_string_int: string.(string, int) -> int", V, strings::last_index_of),
    ("lowerAscii", "string_lower_ascii: string.() -> string", U, strings::lower_ascii),
    ("upperAscii", "string_upper_ascii: string.() -> string", U, strings::upper_ascii),
    ("replace", "string_replace_string_string: string.(string, string) -> string", V, strings::replace),
    ("replace", "string_replace_string_string_int: string.(string, string, int) -> string", V, strings::replace),
    ("split", "string_split_string: string.(string) -> list<string>", B, strings::split),
    ("split", "string_split_string_int: string.(string, int) -> list<string>", V, strings::split),
    ("substring", "string_substring_int: string.(int) -> string", B, strings::substring),
    ("substring", "string_substring_int_int: string.(int, int) -> string", V, strings::substring),
    ("trim", "string_trim: string.() -> string", U, strings::trim),
    ("format", "string_format: string.(list<dyn>) -> string", V, string_format::format),
    ("strings.quote", "strings_quote: (string) -> string", U, strings::quote),
    ("join", "list_join: list<string>.() -> string", U, strings::join),
    ("join", "list_join_string: list<string>.(string) -> string", B, strings::join),
    // cel.lib.ext.sets
    ("sets.contains", "list_sets_contains_list: (list<T>, list<T>) -> bool", B, sets::contains),
    ("sets.equivalent", "list_sets_equivalent_list: (list<T>, list<T>) -> bool", B, sets::equivalent),
    ("sets.intersects", "list_sets_intersects_list: (list<T>, list<T>) -> bool", B, sets::intersects),
    // kubernetes.net.ip and kubernetes.net.cidr
    ("ip", "string_to_ip: (string) -> IP", U, net::parse_ip),
    ("family", "ip_family: IP.() -> int", U, net::family),
    ("ip.isCanonical", "ip_is_canonical: (string) -> bool", U, net::is_canonical),
    ("isUnspecified", "ip_is_unspecified: IP.() -> bool", U, net::is_unspecified),
    ("isLoopback", "ip_is_loopback: IP.() -> bool", U, net::is_loopback),
    ("isLinkLocalMulticast", "ip_is_link_local_multicast: IP.() -> bool", U, net::is_link_local_multicast),
    ("isLinkLocalUnicast", "ip_is_link_local_unicast: IP.() -> bool", U, net::is_link_local_unicast),
    ("isGlobalUnicast", "ip_is_global_unicast: IP.() -> bool", U, net::is_global_unicast),
    ("isIP", "is_ip: (string) -> bool", U, net::is_ip),
    ("string", "ip_to_string: (IP) -> string", U, net::to_string),
    ("cidr", "string_to_cidr: (string) -> CIDR", U, net::parse_cidr),
    ("containsIP", "cidr_contains_ip_string: CIDR.(string) -> bool", B, net::contains_ip),
    ("containsIP", "cidr_contains_ip_ip: CIDR.(IP) -> bool", B, net::contains_ip),
    ("containsCIDR", "cidr_contains_cidr_string: CIDR.(string) -> bool", B, net::contains_cidr),
    ("containsCIDR", "cidr_contains_cidr: CIDR.(CIDR) -> bool", B, net::contains_cidr),
    ("ip", "cidr_ip: CIDR.() -> IP", U, net::address),
    ("prefixLength", "cidr_prefix_length: CIDR.() -> int", U, net::prefix_length),
    ("masked", "cidr_masked: CIDR.() -> CIDR", U, net::masked),
    ("isCIDR", "is_cidr: (string) -> bool", U, net::is_cidr),
    ("string", "cidr_to_string: (CIDR) -> string", U, net::to_string),
    // kubernetes.format; its constants are generated
    ("validate", "format-validate: NamedFormat.(string) -> optional<list<string>>", B, named::validate),
    ("format.named", "format-named: (string) -> optional<NamedFormat>", U, named::by_name),
    // cel.lib.ext.comprev2
    ("cel.@mapInsert", "@mapInsert_map_key_value: (map<K, V>, K, V) -> map<K, V>", V, lists::map_insert),
    ("cel.@mapInsert", "@mapInsert_map_map: (map<K, V>, map<K, V>) -> map<K, V>", B, lists::map_insert),
    // kubernetes.Semver, version 1
    ("semver", "string_to_semver: (string) -> Semver", U, semver::parse),
    ("semver", "string_bool_to_semver: (string, bool) -> Semver", B, semver::parse),
    ("isSemver", "is_semver_string: (string) -> bool", U, semver::is_semver),
    ("isSemver", "is_semver_string_bool: (string, bool) -> bool", B, semver::is_semver),
    ("isGreaterThan", "semver_is_greater_than: Semver.(Semver) -> bool", B, semver::is_greater_than),
    ("isLessThan", "semver_is_less_than: Semver.(Semver) -> bool", B, semver::is_less_than),
    ("compareTo", "semver_compare_to: Semver.(Semver) -> int", B, semver::compare_to),
    ("major", "semver_major: Semver.() -> int", U, semver::major),
    ("minor", "semver_minor: Semver.() -> int", U, semver::minor),
    ("patch", "semver_patch: Semver.() -> int", U, semver::patch),
    // cel.lib.ext.lists, version 3; sorting is generated per type
    ("slice", "list_slice: list<T>.(int, int) -> list<T>", V, lists::slice),
    ("flatten", "list_flatten: list<list<T>>.() -> list<T>", U, lists::flatten),
    ("flatten", "list_flatten_int: list<dyn>.(int) -> list<dyn>", B, lists::flatten),
    ("lists.range", "lists_range: (int) -> list<int>", U, lists::range),
    ("reverse", "list_reverse: list<T>.() -> list<T>", U, lists::reverse),
    ("distinct", "list_distinct: list<T>.() -> list<T>", U, lists::distinct),
];
