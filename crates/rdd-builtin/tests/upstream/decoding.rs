//! Compares the decoder with upstream's, over valid and invalid objects generated from the types.

use rdd_builtin::{
    decode::{self, Refused},
    types::{self, Kind, Type},
};
use rdd_schema::{ordered::Ordered, strict::Finding};
use rdd_testkit::{oracle, random::SeededRandom};
use serde_json::{Map, Value, json};

const CASES_PER_KIND: usize = 300;

#[test]
fn bodies_are_read_and_refused_as_upstream_does() {
    let mut random = SeededRandom::new(35);
    let mut cases = Vec::new();
    for kind in types::kinds().iter().filter(|kind| !kind.kind.ends_with("List") && kind.kind != "Status") {
        for _ in 0..CASES_PER_KIND {
            let wrong_per_mille = *random.pick(&[0, 0, 20]);
            let mut body = Maker { random: &mut random, wrong_per_mille }.structure(kind.structure(), 6);
            body["apiVersion"] = kind.api_version().into();
            body["kind"] = kind.kind.into();
            cases.push((kind, body, random.per_mille(500)));
        }
    }
    let questions: Vec<Value> = cases.iter().map(|(kind, body, stored)| question(kind, body, *stored)).collect();
    let Some(answers) = oracle::ask("oracle", &questions) else { return };
    let mut refused = 0;
    for ((kind, body, stored), answer) in cases.into_iter().zip(answers) {
        let mut object = body.clone();
        let ours = match decode::decode(kind, &mut object) {
            Ok(findings) => {
                let findings: Vec<String> = findings.iter().map(ToString::to_string).collect();
                // Reviews are not stored.
                let is_question = ["authentication.k8s.io", "authorization.k8s.io"].contains(&kind.group);
                if stored && !is_question {
                    decode::reform(kind, &mut object);
                }
                json!({"object": object, "findings": findings})
            }
            Err(Refused(text)) => json!({"error": text}),
        };
        let theirs = match answer["error"].as_str() {
            Some(why) => {
                refused += 1;
                let (name, version) = (kind.kind, kind.version);
                json!({"error": format!("{name} in version {version:?} cannot be handled as a {name}: {why}")})
            }
            None => answer,
        };
        assert_eq!(ours, theirs, "{body}");
    }
    println!("{} bodies, {refused} of them refused", questions.len());
    assert!(refused > 100);
}

#[test]
fn texts_in_any_order_and_with_repetitions_are_read_as_upstream_reads_them() {
    let mut random = SeededRandom::new(36);
    let mut cases = Vec::new();
    for kind in types::kinds().iter().filter(|kind| !kind.kind.ends_with("List") && kind.kind != "Status") {
        for _ in 0..CASES_PER_KIND {
            let wrong_per_mille = *random.pick(&[0, 0, 0, 20]);
            let mut body = || {
                let mut body = Maker { random: &mut random, wrong_per_mille }.structure(kind.structure(), 6);
                body["apiVersion"] = kind.api_version().into();
                body["kind"] = kind.kind.into();
                body
            };
            let (first, second) = (body(), body());
            cases.push((kind, disordered(&mut random, &first, &second)));
        }
    }
    let ask_of = |(kind, text): &(&Kind, String)| json!({"op": "decode", "apiVersion": kind.api_version(), "kind": kind.kind, "text": text});
    let questions: Vec<Value> = cases.iter().map(ask_of).collect();
    let Some(answers) = oracle::ask("oracle", &questions) else { return };
    let (mut refused, mut twice) = (0, 0);
    for ((kind, text), answer) in cases.into_iter().zip(answers) {
        let read = decode::decode_ordered(kind, &Ordered::read(text.as_bytes()).unwrap());
        let ours = match read {
            Ok((object, findings)) => {
                twice += usize::from(findings.iter().any(|finding| matches!(finding, Finding::DuplicateField(_))));
                let findings: Vec<String> = findings.iter().map(ToString::to_string).collect();
                json!({"object": object, "findings": findings})
            }
            Err(Refused(text)) => json!({"error": text}),
        };
        let theirs = match answer["error"].as_str() {
            Some(why) => {
                refused += 1;
                let (name, version) = (kind.kind, kind.version);
                json!({"error": format!("{name} in version {version:?} cannot be handled as a {name}: {why}")})
            }
            None => answer,
        };
        assert_eq!(ours, theirs, "{text}");
    }
    println!("{} texts, {refused} of them refused, {twice} with fields that are there twice", questions.len());
    assert!(refused > 100 && twice > 1000);
}

/// The JSON text of a value with shuffled fields, some of them duplicated with values from another object.
fn disordered(random: &mut SeededRandom, value: &Value, other: &Value) -> String {
    match value {
        Value::Array(items) => {
            let item = |(index, item): (usize, &Value)| disordered(random, item, other.get(index).unwrap_or(item));
            format!("[{}]", items.iter().enumerate().map(item).collect::<Vec<_>>().join(","))
        }
        Value::Object(fields) => {
            let mut written = Vec::new();
            for (name, field) in fields {
                let again = other.get(name).unwrap_or(field);
                let times = if random.per_mille(150) { 2 + random.below(2) } else { 1 };
                for time in 0..times {
                    let (field, again) = if time % 2 == 0 { (field, again) } else { (again, field) };
                    let text = disordered(random, field, again);
                    let at = random.below(written.len() + 1);
                    written.insert(at, format!("{}:{text}", Value::from(name.as_str())));
                }
            }
            format!("{{{}}}", written.join(","))
        }
        leaf => leaf.to_string(),
    }
}

/// The question to the oracle. `stored`: whether the object went through the store, which uses protobuf for most kinds.
fn question(kind: &Kind, body: &Value, stored: bool) -> Value {
    let in_json = ["apiextensions.k8s.io", "apiregistration.k8s.io"].contains(&kind.group);
    let in_protobuf =
        ["", "admissionregistration.k8s.io", "coordination.k8s.io", "events.k8s.io", "rbac.authorization.k8s.io"];
    let encoding = match stored {
        true if in_json => "json",
        true if in_protobuf.contains(&kind.group) => "protobuf",
        _ => "",
    };
    json!({"op": "decode", "apiVersion": kind.api_version(), "kind": kind.kind, "body": body, "stored": encoding})
}

pub(crate) struct Maker<'r> {
    pub(crate) random: &'r mut SeededRandom,
    pub(crate) wrong_per_mille: usize,
}

impl Maker<'_> {
    pub(crate) fn structure(&mut self, structure: &types::Struct, depth: usize) -> Value {
        let mut fields = Map::new();
        let percent = *self.random.pick(&[10, 40, 80]);
        for field in structure.fields {
            if self.random.per_mille(percent * 10) && field.via != "TypeMeta" {
                fields.insert(field.name.to_owned(), self.value(&field.kind, depth.saturating_sub(1)));
            }
        }
        if self.random.per_mille(30) {
            let name = *self.random.pick(&["unknown", "Name", "a.b", "z"]);
            fields.insert(name.to_owned(), json!(1));
        }
        fields.into()
    }

    fn value(&mut self, kind: &Type, depth: usize) -> Value {
        if self.random.per_mille(self.wrong_per_mille) {
            let wrong =
                [json!(1), json!("x"), json!(true), json!([1]), json!({"a": 1}), json!(1.5), json!(3_000_000_000_i64)];
            return self.random.pick(&wrong).clone();
        }
        if self.random.per_mille(40) {
            return Value::Null;
        }
        match kind {
            // A pointer to Go's zero time is written as null and read as nil, so it does not survive.
            Type::Pointer(Type::Time) => json!("2024-02-29T10:00:00Z"),
            Type::Named(_, below) | Type::Pointer(below) => self.value(below, depth),
            Type::Struct(_) => match kind.structure() {
                Some(structure) if depth > 0 => self.structure(structure, depth),
                _ => json!({}),
            },
            Type::List(below) => {
                let length = self.random.below(if depth == 0 { 1 } else { 3 });
                (0..length).map(|_| self.value(below, depth - 1)).collect()
            }
            Type::Map(below) => {
                let length = self.random.below(if depth == 0 { 1 } else { 3 });
                let entry = |maker: &mut Self| {
                    ((*maker.random.pick(&["a", "b", "c/d"])).to_owned(), maker.value(below, depth - 1))
                };
                Value::Object((0..length).map(|_| entry(self)).collect())
            }
            other => self.leaf(other, depth),
        }
    }

    fn leaf(&mut self, kind: &Type, depth: usize) -> Value {
        let choices: Vec<Value> = match kind {
            Type::Bool => vec![json!(true), json!(false)],
            Type::Int32 => vec![json!(0), json!(7), json!(-1), json!(2_147_483_647)],
            Type::Int64 => vec![json!(0), json!(5_000_000_000_i64)],
            Type::Float64 => vec![json!(0), json!(1.5), json!(3)],
            Type::String => vec![json!(""), json!("a"), json!("<b>\u{2028}")],
            Type::Bytes => vec![json!(""), json!("YWJj"), json!("YR=="), json!("YQ=\n="), json!("YQ")],
            Type::Time => vec![
                json!("2024-02-29T10:00:00Z"),
                json!("2024-01-01T00:00:00.5+02:00"),
                json!("0001-01-01T00:00:00Z"),
                json!("2024-01-01T00:00:00Z"),
            ],
            Type::MicroTime => vec![json!("2024-02-29T10:00:00.123456Z"), json!("2024-01-01T00:00:00.000000+01:00")],
            Type::Quantity => QUANTITIES.iter().map(|text| json!(text)).chain([json!(5), json!(1.5)]).collect(),
            Type::IntOrString => vec![json!(80), json!("http"), json!(0), json!("")],
            Type::FieldsV1 | Type::RawExtension => vec![json!({"f:a": {}}), json!({})],
            Type::Json => vec![json!(1), json!("x"), json!({"a": [null]}), json!([]), json!(false)],
            Type::SchemaOrBool => vec![json!(true), json!(false), self.schema(depth)],
            Type::SchemaOrArray => vec![self.schema(depth), json!([self.schema(depth)]), json!([])],
            Type::SchemaOrStringArray => vec![self.schema(depth), json!(["a", "b"]), json!([])],
            _ => vec![Value::Null],
        };
        self.random.pick(&choices).clone()
    }

    fn schema(&mut self, depth: usize) -> Value {
        if depth == 0 {
            return json!({"type": "string", "unknown": 1});
        }
        let schema =
            types::structure("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps").unwrap();
        self.structure(schema, depth - 1)
    }
}

const QUANTITIES: [&str; 34] = [
    "0",
    "1",
    "100m",
    "1.5",
    "1500m",
    "0.5Gi",
    "1.5Gi",
    "1Ki",
    "1024",
    "1024Ki",
    "2048Ki",
    "1e3",
    "12e6",
    "1E",
    "1Ei",
    "1n",
    "0.1n",
    "0.0001m",
    "007",
    "+3",
    "-5",
    "-1.5Ki",
    "1.500",
    "10.25M",
    "123456789012345678901",
    "9999999999999999999Ei",
    "1000",
    "1000k",
    " 5 ",
    ".5",
    "5.",
    "1.0",
    "3.14159265358979",
    "0Ki",
];

#[test]
fn quantities_are_written_as_upstream_writes_them() {
    let kind = types::kind("", "v1", "ResourceQuota").unwrap();
    let mut random = SeededRandom::new(7);
    let mut texts: Vec<String> = QUANTITIES.iter().map(|text| (*text).to_owned()).collect();
    for _ in 0..3000 {
        let digits = |random: &mut SeededRandom, most: usize| -> String {
            let length = random.below(most);
            (0..length).map(|_| *random.pick(&['0', '0', '0', '1', '2', '5', '9'])).collect()
        };
        let sign = *random.pick(&["", "", "", "-", "+"]);
        let whole = digits(&mut random, 22);
        let point = *random.pick(&["", "", "."]);
        let fraction = if point.is_empty() { String::new() } else { digits(&mut random, 14) };
        let suffix = *random.pick(&[
            "", "", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei", "e3", "E-2",
            "e+5", "e12", "x", "ki", "e",
        ]);
        texts.push(format!("{sign}{whole}{point}{fraction}{suffix}"));
    }
    let bodies: Vec<Value> = texts.iter().map(|text| json!({"spec": {"hard": {"a": text}}})).collect();
    let questions: Vec<Value> = bodies.iter().map(|body| question(kind, body, true)).collect();
    let Some(answers) = oracle::ask("oracle", &questions) else { return };
    for ((text, mut body), answer) in texts.iter().zip(bodies).zip(answers) {
        let ours = decode::decode(kind, &mut body).map(|_| body["spec"]["hard"]["a"].clone());
        let ours = ours.map_err(|Refused(text)| text.rsplit(": ").next().unwrap_or_default().to_owned());
        let theirs = match answer["error"].as_str() {
            Some(why) => Err(why.to_owned()),
            None => Ok(answer["object"]["spec"]["hard"]["a"].clone()),
        };
        assert_eq!(ours, theirs, "{text:?}");
    }
}
