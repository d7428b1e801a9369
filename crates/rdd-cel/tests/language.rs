//! The language and its libraries: expressions that are true, and expressions that fail with a certain text.

use rdd_cel::{Environment, Type, Value};

/// Asserts that each expression evaluates to true.
#[track_caller]
fn holds(expressions: &[&str]) {
    let environment = Environment::new().with_variable("d", Type::Dyn);
    for expression in expressions {
        let program = environment.compile(expression).unwrap_or_else(|error| panic!("{expression}\n{error}"));
        let outcome = program.evaluate(&[("d", Ok(Value::Int(5)))], 1_000_000).outcome;
        assert!(matches!(outcome, Ok(Value::Bool(true))), "{expression}: {outcome:?}");
    }
}

/// Asserts that each expression compiles and fails with this error.
#[track_caller]
fn fails(rows: &[(&str, &str)]) {
    let environment = Environment::new().with_variable("d", Type::Dyn);
    for (expression, words) in rows {
        let program = environment.compile(expression).unwrap_or_else(|error| panic!("{expression}\n{error}"));
        match program.evaluate(&[("d", Ok(Value::Int(5)))], 1_000_000).outcome {
            Err(fault) => assert_eq!(&fault.to_string(), words, "{expression}"),
            Ok(value) => panic!("{expression}: {value:?}"),
        }
    }
}

#[test]
fn literals_mean_what_they_spell() {
    holds(&[
        "0x1F == 31",
        "1u == 0x1u",
        "-9223372036854775808 < 0",
        ".5 == 0.5 && 1e3 == 1000.0",
        r#"'a\x41\u00e9\101\n' == "aAéA\n""#,
        r"r'\d' == '\\d'",
        "'''it's''' == \"it's\"",
        r"b'\xff' == b'\377' && bytes('é') == b'é'",
        "[1, 2,] == [1, 2] && {'a': 1,} == {'a': 1}",
    ]);
}

#[test]
fn errors_are_absorbed_by_what_decides_without_them() {
    holds(&[
        "true || 1 / 0 == 1",
        "1 / 0 == 1 || true",
        "!(false && 1 / 0 == 1)",
        "[0, 1].exists(x, 1 / x == 1)",
        "true ? true : 1 / 0 == 1",
    ]);
    fails(&[
        ("false || 1 / 0 == 1", "division by zero"),
        ("[0, 1].all(x, 1 / x == 1)", "division by zero"),
        ("1 % 0 == 0", "modulus by zero"),
        ("9223372036854775807 + 1 > 0", "integer overflow"),
        ("0u - 1u > 0u", "unsigned integer overflow"),
        ("-(-9223372036854775807 - 1) > 0", "integer overflow"),
        ("[1][1] == 1", "index out of bounds: 1"),
        ("{'a': 1}['b'] == 1", "no such key: b"),
        ("d + 'a' == 'x'", "no such overload"),
        ("dyn(null) + 1 == 1", "no such overload: _+_"),
        ("timestamp('9999-12-31T00:00:00Z') + duration('48h') < timestamp(0)", "timestamp overflow"),
        ("optional.none().value() == 1", "optional.none() dereference"),
    ]);
}

#[test]
fn numbers_compare_across_their_types() {
    holds(&[
        "1 < 1.5",
        "dyn(1) == 1.0",
        "dyn(1u) == 1",
        "2 in [1.0, 2.0].map(x, dyn(x))",
        "-1 < 1u",
        "d == 5.0",
        "{1: 'a'}[dyn(1u)] == 'a'",
    ]);
    holds(&["!(0.0 / 0.0 == 0.0 / 0.0)", "1.0 / 0.0 > 1e308", "18446744073709551615u > 9223372036854775807"]);
}

#[test]
fn macros_loop_and_bind() {
    holds(&[
        "[1, 2, 3].map(x, x * 2) == [2, 4, 6]",
        "[1, 2, 3].map(x, x > 1, x * 2) == [4, 6]",
        "[1, 2, 3].filter(x, x % 2 == 1) == [1, 3]",
        "[1, 2, 3].exists_one(x, x == 2)",
        "{'a': 1}.all(k, k == 'a')",
        "[5, 6].transformList(i, v, i + v) == [5, 7]",
        "{'a': 1}.transformMap(k, v, v + 1) == {'a': 2}",
        "{'a': 1}.transformMapEntry(k, v, {v: k}) == {1: 'a'}",
        "[1, 2].all(i, v, v == i + 1) && [1, 2].existsOne(i, v, v == 2)",
        "has({'a': 1}.a) && !has({'a': 1}.b)",
        "optional.of(2).optMap(x, x + 1).value() == 3",
        "optional.of(2).optFlatMap(x, optional.none()) == optional.none()",
    ]);
    let program = Environment::new().with_bindings().compile("cel.bind(x, 2, x * x) == 4").expect("bindings are on");
    assert!(matches!(program.evaluate(&[], 100).outcome, Ok(Value::Bool(true))));
}

#[test]
fn optionals_carry_absence() {
    holds(&[
        "{'a': 1}.?a.orValue(0) == 1 && {'a': 1}.?b.orValue(7) == 7",
        "[1][?0].hasValue() && ![1][?5].hasValue()",
        "{'a': {'b': 1}}.?a.b == optional.of(1)",
        "[?optional.none(), 1] == [1] && {?'a': optional.none()} == {}",
        "optional.none().or(optional.of(1)).value() == 1",
        "optional.ofNonZeroValue('') == optional.none()",
        "[optional.of(1), optional.none()].unwrapOpt() == [1] && [1, 2].first().value() == 1 && [].last() == optional.none()",
    ]);
}

#[test]
fn conversions_keep_to_their_ranges() {
    holds(&[
        "int('-7') == -7 && uint(7) == 7u && double('1.5') == 1.5 && int(1.9) == 1",
        "string(1.0) == '1' && string(1e21) == '1e+21' && string(true) == 'true' && string(b'a') == 'a'",
        "bool('t') && !bool('FALSE')",
        "string(duration('90m')) == '5400s' && int(timestamp('1970-01-01T00:01:00Z')) == 60",
        "type(1) == int && type([]) == list && type(type(1)) == type",
        "string(timestamp('2020-01-01T00:00:00+01:00')) == '2020-01-01T00:00:00+01:00'",
    ]);
    fails(&[
        ("int(d == 5 ? 'x' : 'y') == 1", "type conversion error from 'string' to 'int'"),
        ("uint(d - 6) == 1u", "unsigned integer overflow"),
        ("int(d * 0 + 5 == 5 ? 1e99 : 0.0) == 0", "integer overflow"),
        ("string(d == 5 ? b'\\xff' : b'') == ''", "invalid UTF-8 in bytes, cannot convert to string"),
    ]);
}

#[test]
fn times_have_parts_in_zones() {
    holds(&[
        "timestamp('2020-02-29T23:30:00Z').getDayOfYear() == 59",
        "timestamp('2020-02-29T23:30:00Z').getDate('+01:00') == 1",
        "timestamp('2020-06-15T12:00:00Z').getHours('America/New_York') == 8",
        "timestamp('2020-01-05T00:00:00Z').getDayOfWeek() == 0",
        "timestamp('2020-01-01T00:00:01.5Z').getMilliseconds() == 500",
        "duration('3661s').getMinutes() == 61",
        "timestamp('2020-01-02T00:00:00Z') - timestamp('2020-01-01T00:00:00Z') == duration('24h')",
    ]);
}

#[test]
fn text_is_counted_in_code_points() {
    holds(&[
        "'é✓x'.size() == 3 && 'é✓x'.charAt(1) == '✓' && 'é✓x'.substring(1, 2) == '✓'",
        "'abcabc'.indexOf('c', 3) == 5 && 'abcabc'.lastIndexOf('a') == 3",
        "'a,b,c'.split(',', 2) == ['a', 'b,c'] && 'ab'.split('') == ['a', 'b']",
        "['a', 'b'].join('-') == 'a-b' && 'aXa'.replace('a', 'b', 1) == 'bXa'",
        "' é '.trim() == 'é' && 'Aé'.lowerAscii() == 'aé'",
        "strings.quote('a\"b') == '\"a\\\\\"b\"'",
        "'%s %d %.2f %x %b %%'.format(['é', 42, 3.14159, 255, 5]) == 'é 42 3.14 ff 101 %'",
        "'%s'.format([[1, 'a', {'k': 1.5}]]) == '[1, \"a\", {\"k\":1.500000}]'",
    ]);
    fails(&[
        ("'abc'.substring(d) == ''", "index out of range: 5"),
        ("'abc'.substring(2, d - 4) == ''", "invalid substring range. start: 2, end: 1"),
        (
            "'%d'.format([d == 5 ? dyn('x') : dyn(1)]) == ''",
            "error during formatting: decimal clause can only be used on integers, was given string",
        ),
    ]);
}

#[test]
fn lists_and_sets() {
    holds(&[
        "[1, 2, 2].isSorted() && ![2, 1].isSorted() && [1.5, 0.5].sum() == 2.0 && ['b', 'a'].min() == 'a'",
        "[1, 2, 1].indexOf(1) == 0 && [1, 2, 1].lastIndexOf(1) == 2",
        "[3, 1, 2].sort() == [1, 2, 3] && ['bb', 'a'].sortBy(x, x.size()) == ['a', 'bb']",
        "[[1], [2]].flatten() == [1, 2] && [[[1]], [[2]]].flatten(2) == [1, 2]",
        "lists.range(3).reverse() == [2, 1, 0] && [1, 1, 2].distinct() == [1, 2] && [1, 2, 3].slice(1, 3) == [2, 3]",
        "sets.contains([1, 2, 3], [3, 1]) && sets.equivalent([1, 2], [2, 1, 1]) && !sets.intersects([1], [2])",
    ]);
    fails(&[
        ("[].max() == 1", "max called on empty list"),
        ("[1].slice(0, d) == []", "cannot slice(0, 5), list is length 1"),
    ]);
}

#[test]
fn what_kubernetes_adds() {
    holds(&[
        "quantity('1Gi').isGreaterThan(quantity('1G')) && quantity('1500m').add(1).compareTo(quantity('2.5')) == 0",
        "quantity('50k').asInteger() == 50000 && !quantity('1.5').isInteger() && sign(quantity('-1')) == -1 && !isQuantity('1.2.3')",
        "url('https://u@h:8080/a%2Fb?x=1&x=2').getQuery() == {'x': ['1', '2']}",
        "url('https://[fd00::1]:80/').getHostname() == 'fd00::1' && isURL('/a') && !isURL('../a')",
        "ip('127.0.0.1').isLoopback() && ip('fe80::1').isLinkLocalUnicast() && ip('::1').family() == 6 && !ip.isCanonical('FD00::1')",
        "cidr('10.0.0.0/8').containsIP('10.1.2.3') && cidr('10.0.0.0/8').containsCIDR('10.1.0.0/16') && string(cidr('10.1.2.3/8').masked()) == '10.0.0.0/8'",
        "semver('1.2.3-rc.1').isLessThan(semver('1.2.3')) && semver('v1.02', true).minor() == 2 && !isSemver('1.2')",
        "format.dns1123Label().validate('a.b').value() == ['must not contain dots'] && !format.named('uuid').value().validate('c0ffee00-0000-4000-8000-000000000000').hasValue()",
        "'abc123'.find('[0-9]+') == '123' && 'a1b2'.findAll('[a-z]', 1) == ['a'] && 'x'.matches('^\\\\w$')",
    ]);
    fails(&[
        (
            "quantity(d == 5 ? 'x' : '1').isInteger()",
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        ),
        (
            "ip(d == 5 ? '1.2.3' : '').family() == 4",
            "IP Address \"1.2.3\" parse error during conversion from string: ParseAddr(\"1.2.3\"): IPv4 address too short",
        ),
        (
            "url(d == 5 ? 'x' : '').getHost() == ''",
            "URL parse error during conversion from string: parse \"x\": invalid URI for request",
        ),
    ]);
}

#[test]
fn the_budget_ends_what_costs_too_much() {
    let environment = Environment::new();
    let program = environment.compile("[1, 2, 3].all(x, x > 0)").expect("compiles");
    let whole = program.evaluate(&[], 1_000_000);
    assert_eq!(whole.cost, 16);
    let ended = program.evaluate(&[], 10);
    assert_eq!(ended.outcome.expect_err("too dear").to_string(), "operation cancelled: actual cost limit exceeded");
    let loops =
        environment.compile("lists.range(1000).all(x, lists.range(1000).all(y, x * y >= 0))").expect("compiles");
    let ended = loops.evaluate(&[], 1_000_000);
    assert!(ended.cost > 1_000_000 && ended.cost < 1_002_000, "{}", ended.cost);
    assert!(ended.outcome.is_err(), "nothing absorbs the end of the budget");
}

#[test]
fn work_is_priced_before_it_is_done() {
    let environment = Environment::new();
    let compare = environment.compile("sets.contains(lists.range(900000), lists.range(900000))").expect("compiles");
    assert!(compare.evaluate(&[], 3_000_000).outcome.is_err());
    let endless = environment.compile("lists.range(9223372036854775807).size() > 0").expect("compiles");
    assert!(endless.evaluate(&[], 1_000_000).outcome.is_err());
}
