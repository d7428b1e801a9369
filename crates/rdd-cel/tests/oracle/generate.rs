//! Generates expressions and data from a seed; most of them are well typed.

use serde_json::{Value as Json, json};

/// A small random number generator (xorshift) with a seed, so that a failure can be reproduced.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % bound.max(1)
    }

    fn pick<'t>(&mut self, from: &[&'t str]) -> &'t str {
        from[self.below(from.len())]
    }

    fn one_in(&mut self, chances: usize) -> bool {
        self.below(chances) == 0
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Bool,
    Int,
    Uint,
    Double,
    String,
    Bytes,
    Timestamp,
    Duration,
    IntList,
    StringList,
    IntMap,
    Optional,
    Dyn,
    Quantity,
    Url,
    Ip,
    Cidr,
    Semver,
    Object,
}

const ALL: [Kind; 19] = [
    Kind::Bool,
    Kind::Int,
    Kind::Uint,
    Kind::Double,
    Kind::String,
    Kind::Bytes,
    Kind::Timestamp,
    Kind::Duration,
    Kind::IntList,
    Kind::StringList,
    Kind::IntMap,
    Kind::Optional,
    Kind::Dyn,
    Kind::Quantity,
    Kind::Url,
    Kind::Ip,
    Kind::Cidr,
    Kind::Semver,
    Kind::Object,
];

pub(crate) fn any_kind(random: &mut Random) -> Kind {
    ALL[random.below(ALL.len())]
}

/// The schema of the generated data, which the expressions refer to.
pub(crate) fn schema() -> Json {
    let object = json!({"type": "object", "properties": {
        "x": {"type": "integer"}, "y": {"type": "string"}, "my-name": {"type": "string"}, "namespace": {"type": "string"},
        "deep": {"type": "object", "properties": {"z": {"type": "array", "items": {"type": "integer"}}}}}});
    json!({"type": "object", "properties": {
        "i": {"type": "integer"}, "n": {"type": "number"}, "s": {"type": "string"}, "b": {"type": "boolean"},
        "by": {"type": "string", "format": "byte"}, "ts": {"type": "string", "format": "date-time"},
        "du": {"type": "string", "format": "duration"}, "da": {"type": "string", "format": "date"},
        "l": {"type": "array", "items": {"type": "integer"}},
        "ls": {"type": "array", "items": {"type": "string"}},
        "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        "ml": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"], "items":
            {"type": "object", "properties": {"k": {"type": "string"}, "v": {"type": "integer"}}}},
        "m": {"type": "object", "additionalProperties": {"type": "integer"}},
        "mo": {"type": "object", "additionalProperties": object.clone()},
        "o": object,
        "ios": {"x-kubernetes-int-or-string": true},
        "nul": {"type": "string", "nullable": true},
        "pu": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        "er": {"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true}}})
}

const TEXTS: [&str; 14] = [
    "",
    "a",
    "abc",
    "a-b",
    "Hello World",
    "1.2.3",
    "10.0.0.1",
    "fd00::1",
    "é✓x",
    "2020-01-02T03:04:05Z",
    "1h30m",
    "5Gi",
    "x_y",
    " pad ",
];

pub(crate) fn data(random: &mut Random) -> Json {
    let mut object = serde_json::Map::new();
    let mut put = |random: &mut Random, key: &str, value: Json| {
        if !random.one_in(4) {
            object.insert(key.into(), value);
        }
    };
    let text = |random: &mut Random| json!(TEXTS[random.below(TEXTS.len())]);
    let int = |random: &mut Random| json!(random.below(9) as i64 - 3);
    let ints = |random: &mut Random| json!((0..random.below(4)).map(|_| random.below(5)).collect::<Vec<_>>());
    let inner = |random: &mut Random| {
        let mut inner = json!({"x": random.below(5), "y": TEXTS[random.below(TEXTS.len())], "my-name": "n"});
        if random.one_in(2) {
            inner["namespace"] = json!("ns");
        }
        if random.one_in(2) {
            inner["deep"] = json!({"z": [1, 2, 3]});
        }
        inner
    };
    let value = int(random);
    put(random, "i", value);
    let value = if random.one_in(2) { json!(random.below(8)) } else { json!(random.below(100) as f64 / 8.0 - 2.0) };
    put(random, "n", value);
    let value = text(random);
    put(random, "s", value);
    let value = json!(random.one_in(2));
    put(random, "b", value);
    put(random, "by", json!("aGVsbG8="));
    let value = json!(
        ["2020-01-02T03:04:05Z", "2021-06-07T08:09:10.123456+02:00", "1999-12-31T23:59:59-05:30"][random.below(3)]
    );
    put(random, "ts", value);
    let value = json!(["1h", "90s", "1.5h", "0s", "3 days"][random.below(5)]);
    put(random, "du", value);
    put(random, "da", json!("2022-03-04"));
    let value = ints(random);
    put(random, "l", value);
    let value = json!((0..random.below(4)).map(|_| TEXTS[random.below(TEXTS.len())]).collect::<Vec<_>>());
    put(random, "ls", value);
    let value = if random.one_in(2) { json!(["a", "b", "c"]) } else { json!(["b", "a"]) };
    put(random, "set", value);
    let value = if random.one_in(2) {
        json!([{"k": "p", "v": 1}, {"k": "q", "v": 2}])
    } else {
        json!([{"k": "q", "v": 2}, {"k": "p", "v": 1}])
    };
    put(random, "ml", value);
    let value = if random.one_in(2) { json!({"a": 1, "b-c": 2}) } else { json!({"a": 1}) };
    put(random, "m", value);
    let value = json!({"k": inner(random)});
    put(random, "mo", value);
    let value = inner(random);
    put(random, "o", value);
    let value = if random.one_in(2) { json!(5) } else { json!("50%") };
    put(random, "ios", value);
    let value = if random.one_in(2) { Json::Null } else { json!("t") };
    put(random, "nul", value);
    put(random, "pu", json!({"free": [1, "x"]}));
    put(random, "er", json!({"apiVersion": "v1", "kind": "X", "metadata": {"name": "n", "labels": {}}}));
    if random.one_in(12) {
        object.insert("i".into(), json!("not an integer"));
    }
    Json::Object(object)
}

/// Generates an expression of a kind. It may use the iteration variables in scope, which are integers.
pub(crate) fn expression(random: &mut Random, kind: Kind, depth: usize, scope: &mut Vec<String>) -> String {
    let kind = if random.one_in(40) { any_kind(random) } else { kind };
    if depth == 0 {
        return leaf(random, kind, scope);
    }
    let mut of = |random: &mut Random, kind: Kind| expression(random, kind, depth - 1, scope);
    macro_rules! make {
        ($text:literal $(, $kind:ident)*) => {{
            let mut text = String::from($text);
            $( let part = of(random, Kind::$kind); text = text.replacen('@', &part.replace('@', "\u{1}"), 1); )*
            text.replace('\u{1}', "@")
        }};
    }
    match kind {
        Kind::Bool => match random.below(44) {
            0..=3 => make!("(@ && @)", Bool, Bool),
            4..=7 => make!("(@ || @)", Bool, Bool),
            8 => make!("!(@)", Bool),
            9 | 10 => make!("(@ == @)", Int, Int),
            11 => make!("(@ != @)", String, String),
            12 => make!("(@ == @)", IntList, IntList),
            13 => make!("(@ == @)", IntMap, IntMap),
            14 => make!("(@ == @)", Object, Object),
            15 => format!(
                "({} {} {})",
                of(random, Kind::Int),
                random.pick(&["<", "<=", ">", ">="]),
                of(random, Kind::Int)
            ),
            16 => format!(
                "({} {} {})",
                of(random, Kind::Int),
                random.pick(&["<", "<=", ">", ">="]),
                of(random, Kind::Double)
            ),
            17 => format!("({} {} {})", of(random, Kind::String), random.pick(&["<", ">="]), of(random, Kind::String)),
            18 => format!(
                "({} {} {})",
                of(random, Kind::Timestamp),
                random.pick(&["<", ">="]),
                of(random, Kind::Timestamp)
            ),
            19 => make!("(@ in @)", Int, IntList),
            20 => make!("(@ in @)", String, StringList),
            21 => make!("(@ in @)", String, IntMap),
            22 => format!(
                "{}.{}({})",
                of(random, Kind::String),
                random.pick(&["startsWith", "endsWith", "contains"]),
                of(random, Kind::String)
            ),
            23 => format!(
                "{}.matches('{}')",
                of(random, Kind::String),
                random.pick(&["^a", "[0-9]+", "a.*b$", "", "(?i)HELLO"])
            ),
            24 => format!(
                "has(self.{})",
                random.pick(&["i", "o.x", "m.a", "o.deep.z", "nul", "o.namespace", "mo.k.y", "l"])
            ),
            25 => format!(
                "{}.{}(e1, {})",
                of(random, Kind::IntList),
                random.pick(&["all", "exists", "exists_one"]),
                nested(random, Kind::Bool, depth, scope, &["e1"])
            ),
            26 => format!(
                "{}.{}(k1, v1, {})",
                of(random, Kind::IntList),
                random.pick(&["all", "exists", "existsOne"]),
                nested(random, Kind::Bool, depth, scope, &["k1", "v1"])
            ),
            27 => make!("@.isSorted()", IntList),
            28 => make!("sets.contains(@, @)", IntList, IntList),
            29 => make!("sets.equivalent(@, @)", StringList, StringList),
            30 => make!("sets.intersects(@, @)", IntList, IntList),
            31 => make!("@.hasValue()", Optional),
            32 => format!(
                "{}({})",
                random.pick(&["isURL", "isIP", "isCIDR", "isQuantity", "isSemver", "ip.isCanonical"]),
                of(random, Kind::String)
            ),
            33 => make!("@.isGreaterThan(@)", Quantity, Quantity),
            34 => make!("@.isInteger()", Quantity),
            35 => format!(
                "{}.{}()",
                of(random, Kind::Ip),
                random.pick(&[
                    "isLoopback",
                    "isUnspecified",
                    "isGlobalUnicast",
                    "isLinkLocalUnicast",
                    "isLinkLocalMulticast"
                ])
            ),
            36 => make!("@.containsIP(@)", Cidr, Ip),
            37 => make!("@.containsCIDR(@)", Cidr, Cidr),
            38 => make!("@.isLessThan(@)", Semver, Semver),
            39 => make!("(@ == @)", Dyn, Dyn),
            40 => make!("(@ ? @ : @)", Bool, Bool, Bool),
            41 => format!(
                "format.{}().validate({}).hasValue()",
                random.pick(&["dns1123Label", "uuid", "date", "qualifiedName", "uri", "labelValue", "byte"]),
                of(random, Kind::String)
            ),
            42 => make!("bool(@)", Dyn),
            _ => make!("(@ == @)", Quantity, Quantity),
        },
        Kind::Int => match random.below(28) {
            0..=3 => format!(
                "({} {} {})",
                of(random, Kind::Int),
                random.pick(&["+", "-", "*", "/", "%"]),
                of(random, Kind::Int)
            ),
            4 => make!("-(@)", Int),
            5 => make!("size(@)", String),
            6 => make!("@.size()", IntList),
            7 => make!("size(@)", IntMap),
            8 => make!("@[@]", IntList, Int),
            9 => make!("@[@]", IntMap, String),
            10 => make!("int(@)", String),
            11 => make!("int(@)", Double),
            12 => make!("int(@)", Timestamp),
            13 => make!("@.sum()", IntList),
            14 => format!("{}.{}()", of(random, Kind::IntList), random.pick(&["min", "max"])),
            15 => make!("@.indexOf(@)", IntList, Int),
            16 => make!("@.lastIndexOf(@)", String, String),
            17 => make!("@.indexOf(@, @)", String, String, Int),
            18 => format!(
                "{}.{}()",
                of(random, Kind::Timestamp),
                random.pick(&[
                    "getFullYear",
                    "getMonth",
                    "getDate",
                    "getDayOfWeek",
                    "getDayOfYear",
                    "getHours",
                    "getMinutes",
                    "getMilliseconds"
                ])
            ),
            19 => format!(
                "{}.{}('{}')",
                of(random, Kind::Timestamp),
                random.pick(&["getHours", "getDayOfMonth"]),
                random.pick(&["UTC", "+02:30", "-08:00", "Europe/Berlin", "America/New_York", "x"])
            ),
            20 => format!(
                "{}.{}()",
                of(random, Kind::Duration),
                random.pick(&["getHours", "getSeconds", "getMilliseconds"])
            ),
            21 => make!("@.orValue(@)", Optional, Int),
            22 => make!("@.value()", Optional),
            23 => make!("(@ ? @ : @)", Bool, Int, Int),
            24 => make!("@.compareTo(@)", Quantity, Quantity),
            25 => make!("@.asInteger()", Quantity),
            26 => format!("{}.{}()", of(random, Kind::Semver), random.pick(&["major", "minor", "patch"])),
            _ => make!("@.prefixLength()", Cidr),
        },
        Kind::Uint => match random.below(4) {
            0 => make!("uint(@)", Int),
            1 => make!("(@ + @)", Uint, Uint),
            2 => make!("(@ - @)", Uint, Uint),
            _ => make!("uint(@)", String),
        },
        Kind::Double => match random.below(7) {
            0 => format!(
                "({} {} {})",
                of(random, Kind::Double),
                random.pick(&["+", "-", "*", "/"]),
                of(random, Kind::Double)
            ),
            1 => make!("double(@)", Int),
            2 => make!("double(@)", String),
            3 => make!("-(@)", Double),
            4 => make!("@.asApproximateFloat()", Quantity),
            5 => make!("(@ ? @ : @)", Bool, Double, Double),
            _ => make!("[@, @].max()", Double, Double),
        },
        Kind::String => match random.below(26) {
            0..=2 => make!("(@ + @)", String, String),
            3 => make!("string(@)", Int),
            4 => make!("string(@)", Double),
            5 => make!("string(@)", Bool),
            6 => make!("string(@)", Timestamp),
            7 => make!("string(@)", Duration),
            8 => make!("string(@)", Bytes),
            9 => format!("{}.{}()", of(random, Kind::String), random.pick(&["lowerAscii", "upperAscii", "trim"])),
            10 => make!("@.charAt(@)", String, Int),
            11 => make!("@.substring(@)", String, Int),
            12 => make!("@.substring(@, @)", String, Int, Int),
            13 => make!("@.replace(@, @)", String, String, String),
            14 => make!("@.replace(@, @, @)", String, String, String, Int),
            15 => make!("@.join(@)", StringList, String),
            16 => make!("@.join()", StringList),
            17 => format!("{}.find('{}')", of(random, Kind::String), random.pick(&["[a-z]+", "[0-9]", "x*"])),
            18 => format!(
                "'{}'.format([{}, {}])",
                random.pick(&["%s and %d", "%s%%%s", "%d-%x", "%s", "%b %o"]),
                of(random, Kind::String),
                of(random, Kind::Int)
            ),
            19 => format!("'{}'.format([{}])", random.pick(&["%s", "%.2f", "%e", "<%s>"]), of(random, Kind::Dyn)),
            20 => make!("strings.quote(@)", String),
            21 => make!("(@ ? @ : @)", Bool, String, String),
            22 => make!("@[@]", StringList, Int),
            23 => format!(
                "{}.{}()",
                of(random, Kind::Url),
                random.pick(&["getScheme", "getHost", "getHostname", "getPort", "getEscapedPath"])
            ),
            24 => format!("string({})", if random.one_in(2) { of(random, Kind::Ip) } else { of(random, Kind::Cidr) }),
            _ => make!("(type(@) == type(@) ? 'same' : 'other')", Dyn, Dyn),
        },
        Kind::Bytes => match random.below(3) {
            0 => make!("bytes(@)", String),
            1 => make!("(@ + @)", Bytes, Bytes),
            _ => leaf(random, kind, scope),
        },
        Kind::Timestamp => match random.below(5) {
            0 => make!("(@ + @)", Timestamp, Duration),
            1 => make!("(@ - @)", Timestamp, Duration),
            2 => make!("timestamp(@)", Int),
            3 => make!("timestamp(@)", String),
            _ => leaf(random, kind, scope),
        },
        Kind::Duration => match random.below(5) {
            0 => make!("(@ + @)", Duration, Duration),
            1 => make!("(@ - @)", Timestamp, Timestamp),
            2 => make!("duration(@)", String),
            3 => make!("[@, @].sum()", Duration, Duration),
            _ => leaf(random, kind, scope),
        },
        Kind::IntList => match random.below(18) {
            0 => make!("[@, @]", Int, Int),
            1 => make!("[@]", Int),
            2 => make!("(@ + @)", IntList, IntList),
            3 => format!("{}.map(e2, {})", of(random, Kind::IntList), nested(random, Kind::Int, depth, scope, &["e2"])),
            4 => format!(
                "{}.filter(e3, {})",
                of(random, Kind::IntList),
                nested(random, Kind::Bool, depth, scope, &["e3"])
            ),
            5 => format!(
                "{}.map(e4, {}, {})",
                of(random, Kind::IntList),
                nested(random, Kind::Bool, depth, scope, &["e4"]),
                nested(random, Kind::Int, depth, scope, &["e4"])
            ),
            6 => format!(
                "{}.transformList(k2, v2, {})",
                of(random, Kind::IntList),
                nested(random, Kind::Int, depth, scope, &["k2", "v2"])
            ),
            7 => make!("@.slice(@, @)", IntList, Int, Int),
            8 => make!("@.sort()", IntList),
            9 => make!("@.reverse()", IntList),
            10 => make!("@.distinct()", IntList),
            11 => make!("[@, @].flatten()", IntList, IntList),
            12 => format!("lists.range({})", random.below(6)),
            13 => format!(
                "{}.sortBy(e5, {})",
                of(random, Kind::IntList),
                nested(random, Kind::Int, depth, scope, &["e5"])
            ),
            14 => make!("(@ ? @ : @)", Bool, IntList, IntList),
            15 => make!("[?@, @]", Optional, Int),
            16 => format!(
                "{}.transformList(k3, v3, {}, {})",
                of(random, Kind::IntList),
                nested(random, Kind::Bool, depth, scope, &["k3", "v3"]),
                nested(random, Kind::Int, depth, scope, &["k3", "v3"])
            ),
            _ => format!("{}.map(e6, {})", of(random, Kind::StringList), "size(e6)"),
        },
        Kind::StringList => match random.below(7) {
            0 => make!("[@, @]", String, String),
            1 => make!("@.split(@)", String, String),
            2 => make!("@.split(@, @)", String, String, Int),
            3 => format!("{}.findAll('{}')", of(random, Kind::String), random.pick(&["[a-z]+", "[0-9]", "."])),
            4 => format!(
                "{}.map(e7, {})",
                of(random, Kind::IntList),
                nested(random, Kind::String, depth, scope, &["e7"])
            ),
            5 => make!("(@ + @)", StringList, StringList),
            _ => make!("@.sort()", StringList),
        },
        Kind::IntMap => match random.below(5) {
            0 => make!("{@: @}", String, Int),
            1 => make!("{'a': @, 'b': @}", Int, Int),
            2 => make!("{?'a': @, 'b': @}", Optional, Int),
            3 => format!(
                "[{}].transformMap(k4, v4, {})",
                of(random, Kind::Int),
                nested(random, Kind::Int, depth, scope, &["k4", "v4"])
            ),
            _ => leaf(random, kind, scope),
        },
        Kind::Optional => match random.below(10) {
            0 => make!("optional.of(@)", Int),
            1 => make!("optional.ofNonZeroValue(@)", Int),
            2 => make!("@[?@]", IntList, Int),
            3 => make!("@[?@]", IntMap, String),
            4 => make!("@.or(@)", Optional, Optional),
            5 => format!(
                "{}.optMap(o1, {})",
                of(random, Kind::Optional),
                nested(random, Kind::Int, depth, scope, &["o1"])
            ),
            6 => format!(
                "{}.optFlatMap(o2, {})",
                of(random, Kind::Optional),
                nested(random, Kind::Optional, depth, scope, &["o2"])
            ),
            7 => format!("{}.{}()", of(random, Kind::IntList), random.pick(&["first", "last"])),
            8 => format!(
                "self.{}",
                random.pick(&["?i", "o.?x", "?o.x", "?m.a", "?o.?deep.z[0]", "mo[?'k'].x", "?l[1]", "mo.?k.x"])
            ),
            _ => make!("(@ ? @ : @)", Bool, Optional, Optional),
        },
        Kind::Dyn => {
            let inner = any_kind(random);
            format!("dyn({})", of(random, inner))
        }
        Kind::Quantity => match random.below(4) {
            0 => make!("@.add(@)", Quantity, Quantity),
            1 => make!("@.sub(@)", Quantity, Int),
            2 => make!("quantity(@)", String),
            _ => leaf(random, kind, scope),
        },
        Kind::Url => make!("url(@)", String),
        Kind::Ip => match random.below(3) {
            0 => make!("ip(@)", String),
            1 => make!("@.ip()", Cidr),
            _ => leaf(random, kind, scope),
        },
        Kind::Cidr => {
            if random.one_in(2) {
                make!("@.masked()", Cidr)
            } else {
                leaf(random, kind, scope)
            }
        }
        Kind::Semver => {
            if random.one_in(3) {
                make!("semver(@, true)", String)
            } else {
                leaf(random, kind, scope)
            }
        }
        Kind::Object => leaf(random, kind, scope),
    }
}

fn nested(random: &mut Random, kind: Kind, depth: usize, scope: &mut Vec<String>, names: &[&str]) -> String {
    let before = scope.len();
    scope.extend(names.iter().map(|name| (*name).to_owned()));
    let text = expression(random, kind, depth - 1, scope);
    scope.truncate(before);
    text
}

fn leaf(random: &mut Random, kind: Kind, scope: &[String]) -> String {
    match kind {
        Kind::Bool => random.pick(&["true", "false", "self.b"]).into(),
        Kind::Int if !scope.is_empty() && random.one_in(2) => scope[random.below(scope.len())].clone(),
        Kind::Int => random
            .pick(&[
                "0",
                "1",
                "2",
                "-1",
                "7",
                "0x10",
                "9223372036854775807",
                "self.i",
                "self.o.x",
                "self.l[0]",
                "self.m.a",
                "oldSelf.i",
                "self.mo['k'].x",
            ])
            .into(),
        Kind::Uint => random.pick(&["0u", "1u", "18446744073709551615u", "0xFFu"]).into(),
        Kind::Double => random.pick(&["0.0", "1.5", "-2.25", "1e10", "self.n", "1e-7", "123456789.125"]).into(),
        Kind::String => random
            .pick(&[
                "''",
                "'abc'",
                "\"x y\"",
                "r'a\\b'",
                "'é✓'",
                "'10.0.0.1'",
                "'fd00::1/64'",
                "'https://h.example:80/p?q=1&r=2'",
                "'1.2.3'",
                "'5Gi'",
                "'2020-01-02T03:04:05Z'",
                "'90s'",
                "self.s",
                "self.o.y",
                "self.o.my__dash__name",
                "self.o.namespace",
                "self.ls[0]",
                "'''t'''",
                "'42'",
                "'-7'",
                "'1.50'",
                "'true'",
                "'b-c'",
                "'a'",
            ])
            .into(),
        Kind::Bytes => random.pick(&["b'abc'", "b'\\xff\\x00'", "self.by", "b''"]).into(),
        Kind::Timestamp => {
            random.pick(&["timestamp('2020-02-29T12:30:45.5Z')", "self.ts", "self.da", "timestamp(0)"]).into()
        }
        Kind::Duration => random.pick(&["duration('1h30m')", "self.du", "duration('-5s')", "duration('1.5ms')"]).into(),
        Kind::IntList => random
            .pick(&["[]", "[1, 2, 3]", "self.l", "[3, 1, 2, 1]", "oldSelf.l", "self.o.deep.z", "self.ml.map(p, p.v)"])
            .into(),
        Kind::StringList => {
            random.pick(&["['a', 'b']", "self.ls", "self.set", "oldSelf.set", "[]", "self.ml.map(p, p.k)"]).into()
        }
        Kind::IntMap => random.pick(&["{}", "{'a': 1}", "self.m", "{'a': 1, 'b': 2}", "oldSelf.m"]).into(),
        Kind::Optional => {
            random.pick(&["optional.none()", "optional.of(1)", "self.?i", "self.o.?x", "oldSelf.?i"]).into()
        }
        Kind::Dyn => random
            .pick(&[
                "dyn(1)",
                "dyn('a')",
                "dyn(null)",
                "self.ios",
                "dyn([1])",
                "dyn(self.o)",
                "dyn(1.5)",
                "dyn(2u)",
                "dyn(self.l)",
            ])
            .into(),
        Kind::Quantity => random
            .pick(&[
                "quantity('1')",
                "quantity('1500m')",
                "quantity('5Gi')",
                "quantity('1.5e3')",
                "quantity('-2k')",
                "quantity('0.1')",
            ])
            .into(),
        Kind::Url => random
            .pick(&["url('https://user@h.example:8080/a/b?x=1#f')", "url('/path')", "url('http://[fd00::1]/')"])
            .into(),
        Kind::Ip => random
            .pick(&["ip('10.0.0.1')", "ip('::1')", "ip('fe80::1')", "ip('255.255.255.255')", "ip('224.0.0.5')"])
            .into(),
        Kind::Cidr => {
            random.pick(&["cidr('10.0.0.0/8')", "cidr('fd00::/64')", "cidr('10.1.2.3/16')", "cidr('0.0.0.0/0')"]).into()
        }
        Kind::Semver => {
            random.pick(&["semver('1.2.3')", "semver('1.2.3-rc.1')", "semver('v2', true)", "semver('0.0.1+b')"]).into()
        }
        Kind::Object => random
            .pick(&[
                "self.o",
                "oldSelf.o",
                "self.mo['k']",
                "self.o.deep",
                "self.er",
                "self.pu",
                "self.ml[0]",
                "oldSelf.ml[0]",
            ])
            .into(),
    }
}
