//! Generates scenarios: new ones from the schemas of the kinds, and mutations of those in the corpus.

use rdd_testkit::api::Ask;
use serde_json::{Map, Value, json};

use crate::{
    catalog::{Catalog, Resource},
    random::Random,
    scenario::Scenario,
};

const NAMES: &[&str] = &["a", "b", "c", "fuzz-1", "x.y", "A", "..", "%2e%2e", "", "a/b"];
const NAMESPACES: &[&str] = &["default", "default", "default", "default", "kube-system", "missing", "Bad_Name"];
/// The four patch types, a second encoding of apply, and a type that is not a patch.
const PATCH_TYPES: &[&str] = &[
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
    "application/apply-patch+cbor",
    "application/json",
];
const BODY_TYPES: &[&str] = &[
    "application/json",
    "application/json",
    "application/json",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
];
const ACCEPTS: &[&str] = &[
    "application/json;as=Table;g=meta.k8s.io;v=v1",
    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
    "text/html",
    "*/*;q=0",
];
const WRITE_QUERIES: &[&str] = &[
    "dryRun=All",
    "dryRun=None",
    "fieldManager=fuzz",
    "fieldManager=fuzz&force=true",
    "fieldManager=other",
    "fieldValidation=Strict",
    "fieldValidation=Ignore",
    "fieldValidation=Nonsense",
    "propagationPolicy=Orphan",
    "propagationPolicy=Foreground",
    "gracePeriodSeconds=0",
    "gracePeriodSeconds=-1",
    "pretty=true",
];
/// No future resource version: the server would wait three seconds for it, and nothing else would be tested meanwhile.
const READ_QUERIES: &[&str] = &[
    "limit=1",
    "limit=-1",
    "labelSelector=a%3Db",
    "labelSelector=%21%21",
    "fieldSelector=metadata.name%3Da",
    "fieldSelector=spec.nothing%3Da",
    "resourceVersion=0",
    "resourceVersion=1",
    "resourceVersion=x",
    "resourceVersionMatch=Exact&resourceVersion=1",
    "resourceVersionMatch=NotOlderThan",
    "continue=AAAA",
    "watch=true&timeoutSeconds=-1",
    "watch=true&timeoutSeconds=-1&resourceVersion=1",
    "watch=true&timeoutSeconds=-1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true",
    "pretty=true",
];
/// The depth to which bodies follow their schema; deeper optional fields are left out.
const DEPTH_MAX: usize = 5;

pub(crate) struct Generator {
    random: Random,
    catalog: &'static Catalog,
}

impl Generator {
    pub(crate) fn new(seed: u64, catalog: &'static Catalog) -> Self {
        Self { random: Random::new(seed), catalog }
    }

    /// Generates a scenario: half of them are new, half are mutations of the corpus.
    pub(crate) fn next_scenario(&mut self, corpus: &[Scenario]) -> Scenario {
        if corpus.is_empty() || self.random.once_in(2) {
            return self.fresh();
        }
        let mut scenario = self.random.pick(corpus).clone();
        for _ in 0..=self.random.below(3) {
            self.mutate(&mut scenario);
        }
        scenario
    }

    /// Creates an object of one kind, then changes, reads and deletes it in a random order.
    fn fresh(&mut self) -> Scenario {
        let resource = self.random.pick(&self.catalog.resources);
        let namespace = *self.random.pick(NAMESPACES);
        let name = *self.random.pick(&NAMES[..5]);
        let mut requests = vec![self.create(resource, namespace, name)];
        for _ in 0..=self.random.below(4) {
            requests.push(self.request(resource, namespace, name));
        }
        Scenario { requests }
    }

    fn create(&mut self, resource: &Resource, namespace: &str, name: &str) -> Ask {
        let body = self.object(resource, namespace, name);
        let path = self.with_query(resource.path(namespace, None), WRITE_QUERIES);
        self.with_body(Ask::new("POST", &path), &body)
    }

    fn request(&mut self, resource: &Resource, namespace: &str, name: &str) -> Ask {
        let name = if self.random.once_in(8) { *self.random.pick(NAMES) } else { name };
        let mut one = resource.path(namespace, Some(name));
        if !resource.subresources.is_empty() && self.random.once_in(3) {
            one = format!("{one}/{}", self.random.pick(&resource.subresources));
        }
        // Mostly verbs that the resource supports, and sometimes others.
        let verb = match resource.verbs.as_slice() {
            [] => "get".to_owned(),
            verbs if !self.random.once_in(20) => self.random.pick(verbs).clone(),
            _ => (*self.random.pick(&["get", "put", "options", "head", "TRACE"])).to_owned(),
        };
        let ask = match verb.as_str() {
            "list" | "watch" => Ask::new("GET", &self.with_query(resource.path(namespace, None), READ_QUERIES)),
            "create" => return self.create(resource, namespace, name),
            "update" => {
                let body = self.object(resource, namespace, name);
                let ask = Ask::new("PUT", &self.with_query(one, WRITE_QUERIES));
                return self.with_body(ask, &body);
            }
            "patch" => self.patch(resource, namespace, name, one),
            "delete" => Ask::new("DELETE", &self.with_query(one, WRITE_QUERIES)),
            "deletecollection" => Ask::new("DELETE", &self.with_query(resource.path(namespace, None), WRITE_QUERIES)),
            other => Ask::new(&other.to_uppercase(), &self.with_query(one, READ_QUERIES)),
        };
        if self.random.once_in(6) { ask.header("Accept", *self.random.pick(ACCEPTS)) } else { ask }
    }

    fn patch(&mut self, resource: &Resource, namespace: &str, name: &str, path: String) -> Ask {
        let kind = *self.random.pick(PATCH_TYPES);
        let body = if kind.contains("json-patch") {
            let count = self.random.below(4);
            (0..count).map(|_| self.operation()).collect()
        } else {
            let mut body = self.object(resource, namespace, name);
            if !kind.contains("apply") {
                self.spoil(&mut body);
            }
            body
        };
        let path = if kind.contains("apply") && !self.random.once_in(6) {
            format!("{path}?fieldManager=fuzz{}&force={}", self.random.below(2), self.random.once_in(2))
        } else {
            self.with_query(path, WRITE_QUERIES)
        };
        Ask::new("PATCH", &path).body(kind, body.to_string())
    }

    fn operation(&mut self) -> Value {
        const PATHS: &[&str] = &[
            "",
            "/metadata/labels",
            "/metadata/labels/a",
            "/spec",
            "/data",
            "/data/k",
            "/spec/items/0",
            "/spec/items/-",
            "/spec/ports/0/port",
            "/metadata/name",
            "/metadata/finalizers",
            "/metadata/managedFields",
            "/~0~1",
            "/a/b/c",
        ];
        let op = *self.random.pick(&["add", "remove", "replace", "move", "copy", "test", "nonsense"]);
        let value = self.scalar();
        json!({"op": op, "path": self.random.pick(PATHS), "from": self.random.pick(PATHS), "value": value})
    }

    fn with_query(&mut self, path: String, queries: &[&str]) -> String {
        if self.random.once_in(3) { format!("{path}?{}", self.random.pick(queries)) } else { path }
    }

    fn with_body(&mut self, ask: Ask, body: &Value) -> Ask {
        let kind = *self.random.pick(BODY_TYPES);
        let mut text = body.to_string();
        // The prefix of Kubernetes' protobuf encoding, here with a body that is not valid protobuf.
        if kind.contains("protobuf") {
            text = format!("k8s\0{text}");
        }
        if self.random.once_in(30) {
            let cut = self.random.below(text.len());
            text = text.chars().take(cut).collect();
        }
        ask.body(kind, text)
    }

    /// An object that follows its schema; one in four has an error.
    fn object(&mut self, resource: &Resource, namespace: &str, name: &str) -> Value {
        let mut object = match &resource.definition {
            Some(definition) => self.value(&self.catalog.definitions[definition], DEPTH_MAX),
            None => json!({}),
        };
        if !object.is_object() {
            object = json!({});
        }
        object["apiVersion"] = resource.api_version.clone().into();
        object["kind"] = resource.kind.clone().into();
        object["metadata"] = self.metadata(resource, namespace, name);
        if self.random.once_in(4) {
            self.spoil(&mut object);
        }
        object
    }

    fn metadata(&mut self, resource: &Resource, namespace: &str, name: &str) -> Value {
        let mut metadata = json!({"name": name});
        if resource.is_namespaced && self.random.once_in(3) {
            metadata["namespace"] = namespace.into();
        }
        match self.random.below(10) {
            0 => metadata["labels"] = json!({"a": "b", "c": self.scalar()}),
            1 => metadata["annotations"] = json!({"a": self.scalar()}),
            2 => metadata["finalizers"] = json!(["fuzz.example/f"]),
            3 => {
                metadata["ownerReferences"] =
                    json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": "u"}])
            }
            4 => {
                metadata["managedFields"] = json!([{"manager": "m", "operation": "Apply", "apiVersion": "v1",
                "fieldsType": "FieldsV1", "fieldsV1": {"f:data": {"f:k": self.scalar()}}}])
            }
            5 => metadata["generateName"] = "g-".into(),
            _ => {}
        }
        metadata
    }

    /// A value that mostly satisfies the schema.
    fn value(&mut self, schema: &'static Value, depth: usize) -> Value {
        if let Some(reference) = schema["$ref"].as_str() {
            let name = reference.trim_start_matches("#/definitions/");
            return self.value(&self.catalog.definitions[name], depth);
        }
        match schema["type"].as_str() {
            Some("string") => self.text(schema),
            Some("integer" | "number") => json!(*self.random.pick(&[0, 1, 2, 80, 443, 8080, -1, 100_000])),
            Some("boolean") => self.random.once_in(2).into(),
            Some("array") if depth == 0 => json!([]),
            Some("array") => {
                let count = self.random.below(3);
                (0..count).map(|_| self.value(&schema["items"], depth - 1)).collect()
            }
            _ => self.fields(schema, depth),
        }
    }

    fn fields(&mut self, schema: &'static Value, depth: usize) -> Value {
        let mut fields = Map::new();
        let required: Vec<&str> =
            schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        if let Some(properties) = schema["properties"].as_object() {
            // Large types would otherwise lead to large bodies: each level gets about four optional fields.
            let share = 1 + properties.len() / 4;
            for (name, property) in properties {
                let is_required = required.contains(&name.as_str());
                if is_required || (depth > 0 && self.random.once_in(share)) {
                    fields.insert(name.clone(), self.value(property, depth.saturating_sub(1)));
                }
            }
        } else if depth > 0 && !schema["additionalProperties"].is_null() {
            fields.insert("k".to_owned(), self.value(&schema["additionalProperties"], depth - 1));
        }
        Value::Object(fields)
    }

    fn text(&mut self, schema: &Value) -> Value {
        if let Some(words) = schema["enum"].as_array().filter(|words| !words.is_empty()) {
            return self.random.pick(words).clone();
        }
        let words: &[&str] = match schema["format"].as_str() {
            Some("date-time") => &["2026-01-01T00:00:00Z", "yesterday"],
            Some("byte") => &["aGk=", "?"],
            Some("int-or-string") => &["80", "http", "50%"],
            _ => &["a", "b", "TCP", "ClusterIP", "10.0.0.1", "v1", "1Gi", "nginx", "Always", "*", "example.com", ""],
        };
        (*self.random.pick(words)).into()
    }

    fn scalar(&mut self) -> Value {
        match self.random.below(12) {
            0 => Value::Null,
            1 => json!(i64::MAX),
            2 => json!(-1),
            3 => json!(1.5e300),
            4 => json!(""),
            5 => json!("\u{202e}\u{0}\u{7}é𐍈"),
            6 => json!("x".repeat(300)),
            7 => json!(true),
            8 => json!([[[[]]]]),
            9 => json!({"a": {"b": {"c": null}}}),
            10 => (0..40).fold(json!({}), |inner, _| json!({"deep": inner})),
            _ => json!("value"),
        }
    }

    /// Replaces, removes or adds something at a random place in a value.
    fn spoil(&mut self, value: &mut Value) {
        let (replacement, choice) = (self.scalar(), self.random.below(6));
        match value {
            Value::Object(fields) if !fields.is_empty() && choice < 4 => {
                let index = self.random.below(fields.len());
                let inner = fields.values_mut().nth(index);
                inner.into_iter().for_each(|inner| self.spoil(inner));
            }
            Value::Object(fields) if choice == 4 && !fields.is_empty() => {
                let name = fields.keys().nth(self.random.below(fields.len())).cloned().unwrap_or_default();
                fields.remove(&name);
            }
            Value::Object(fields) => drop(fields.insert("unknownField".to_owned(), replacement)),
            Value::Array(items) if !items.is_empty() && choice < 4 => {
                let index = self.random.below(items.len());
                self.spoil(&mut items[index]);
            }
            Value::Array(items) if choice == 4 => {
                let twin = items.first().cloned().unwrap_or(replacement);
                items.push(twin);
            }
            other => *other = replacement,
        }
    }

    /// Changes one request of a scenario, or the sequence.
    fn mutate(&mut self, scenario: &mut Scenario) {
        if scenario.requests.is_empty() {
            return;
        }
        let index = self.random.below(scenario.requests.len());
        match self.random.below(7) {
            0 => drop(scenario.requests.remove(index)),
            1 if scenario.requests.len() < 12 => {
                let twin = scenario.requests[index].clone();
                scenario.requests.push(twin);
            }
            2 => {
                scenario.requests[index].method =
                    (*self.random.pick(&["GET", "POST", "PUT", "PATCH", "DELETE"])).to_owned()
            }
            3 => self.mutate_header(&mut scenario.requests[index]),
            4 => {
                let queries = [WRITE_QUERIES, READ_QUERIES].concat();
                let ask = &mut scenario.requests[index];
                let separator = if ask.path.contains('?') { '&' } else { '?' };
                ask.path = format!("{}{separator}{}", ask.path, self.random.pick(&queries));
            }
            _ => self.mutate_body(&mut scenario.requests[index]),
        }
    }

    fn mutate_header(&mut self, ask: &mut Ask) {
        ask.headers.retain(|(name, _)| !name.eq_ignore_ascii_case("content-type"));
        let kinds = [PATCH_TYPES, BODY_TYPES].concat();
        ask.headers.push(("Content-Type".to_owned(), self.random.pick(&kinds).as_bytes().to_vec()));
    }

    /// Changes something in a JSON body; replaces a byte of any other body.
    fn mutate_body(&mut self, ask: &mut Ask) {
        if let Ok(mut value) = serde_json::from_slice::<Value>(&ask.body) {
            self.spoil(&mut value);
            ask.body = value.to_string().into_bytes();
        } else if !ask.body.is_empty() {
            let index = self.random.below(ask.body.len());
            ask.body[index] = self.random.number().to_le_bytes()[0];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::Session;

    #[test]
    fn one_seed_gives_one_sequence_and_every_verb_and_patch_type_occurs() {
        let catalog = Session::start().catalog();
        let generate = |seed| {
            let mut generator = Generator::new(seed, catalog);
            (0..400).map(|_| generator.next_scenario(&[])).collect::<Vec<_>>()
        };
        let scenarios = generate(1);
        assert_eq!(scenarios, generate(1));
        assert_ne!(scenarios, generate(2));
        let all = Scenario::join(&scenarios);
        for method in ["GET", "POST", "PUT", "PATCH", "DELETE"] {
            assert!(all.requests.iter().any(|ask| ask.method == method), "no {method}");
        }
        let text = all.to_text();
        for kind in PATCH_TYPES {
            assert!(text.contains(kind), "no {kind}");
        }
    }
}
