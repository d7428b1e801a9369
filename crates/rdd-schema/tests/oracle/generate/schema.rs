//! Generates structural schemas, and values that are nearly valid for them.

use serde_json::{Map, Value, json};

use super::Random;

const NAMES: [&str; 9] = ["a", "b", "c", "d", "kind", "apiVersion", "metadata", "x.y", "é"];
const FORMATS: [&str; 10] =
    ["date", "date-time", "ipv4", "byte", "int32", "double", "uri", "k8s-short-name", "unknown", "duration"];

impl Random {
    /// The schema of a resource: an object at the root.
    pub(crate) fn schema(&mut self) -> Value {
        self.object_schema(3)
    }

    fn node(&mut self, depth: usize) -> Value {
        let mut schema = match self.below(if depth == 0 { 6 } else { 12 }) {
            0 | 1 => self.string_schema(),
            2 => self.integer_schema("integer"),
            3 => self.integer_schema("number"),
            4 => json!({"type": "boolean"}),
            5 => self.int_or_string(),
            6 | 7 => self.object_schema(depth - 1),
            8 => json!({"type": "object", "additionalProperties": self.node(depth - 1)}),
            9 | 10 => self.array_schema(depth - 1),
            _ => self.free_schema(depth - 1),
        };
        if self.one_in(6) {
            schema["nullable"] = json!(true);
        }
        if self.one_in(5) {
            schema["default"] = self.value(&schema);
        }
        if self.one_in(8) && schema["type"].is_string() {
            let values: Vec<Value> = (0..=self.below(3)).map(|_| self.value(&schema)).collect();
            schema["enum"] = values.into();
        }
        if self.one_in(5) {
            self.junctor(&mut schema);
        }
        schema
    }

    fn maybe(&mut self, schema: &mut Value, key: &str, value: impl Into<Value>) {
        if self.one_in(4) {
            schema[key] = value.into();
        }
    }

    fn string_schema(&mut self) -> Value {
        let mut schema = json!({"type": "string"});
        let (max, min) = (self.below(6), self.below(3));
        self.maybe(&mut schema, "maxLength", max);
        self.maybe(&mut schema, "minLength", min);
        let format = *self.pick(&FORMATS);
        self.maybe(&mut schema, "format", format);
        let pattern = *self.pick(&["^a", "b+$", "^[a-z]{2}$", "é", "\\d", "^$"]);
        self.maybe(&mut schema, "pattern", pattern);
        schema
    }

    fn integer_schema(&mut self, kind: &str) -> Value {
        let mut schema = json!({"type": kind});
        let bounds = [0.0, 1.0, 2.5, -3.0, 1e6, 1e20, 0.1];
        let (max, min, multiple) = (*self.pick(&bounds), *self.pick(&bounds), *self.pick(&[1.0, 2.0, 0.5, 0.1, 3.0]));
        self.maybe(&mut schema, "maximum", max);
        self.maybe(&mut schema, "exclusiveMaximum", true);
        self.maybe(&mut schema, "minimum", min);
        self.maybe(&mut schema, "exclusiveMinimum", true);
        self.maybe(&mut schema, "multipleOf", multiple);
        let format = *self.pick(&["int32", "int64", "double", "float", "date"]);
        self.maybe(&mut schema, "format", format);
        schema
    }

    fn int_or_string(&mut self) -> Value {
        let mut schema = json!({"x-kubernetes-int-or-string": true});
        match self.below(4) {
            0 => schema["anyOf"] = json!([{"type": "integer"}, {"type": "string"}]),
            1 => schema["allOf"] = json!([{"anyOf": [{"type": "integer"}, {"type": "string"}]}, {"pattern": "^a"}]),
            2 => schema["pattern"] = json!("^[0-9]+%$"),
            _ => {}
        }
        schema
    }

    fn free_schema(&mut self, depth: usize) -> Value {
        let mut schema = json!({"x-kubernetes-preserve-unknown-fields": true});
        if self.one_in(2) {
            schema["type"] = json!("object");
            if self.one_in(2) {
                schema["properties"] = self.properties(depth);
            }
            if self.one_in(2) {
                schema["x-kubernetes-embedded-resource"] = json!(true);
            }
        }
        schema
    }

    fn properties(&mut self, depth: usize) -> Value {
        let mut properties = Map::new();
        for _ in 0..self.below(5) {
            let name = *self.pick(&NAMES);
            let schema = match name {
                "kind" | "apiVersion" => json!({"type": "string"}),
                "metadata" => json!({"type": "object"}),
                _ => self.node(depth),
            };
            properties.insert(name.to_owned(), schema);
        }
        properties.into()
    }

    fn object_schema(&mut self, depth: usize) -> Value {
        let mut schema = json!({"type": "object", "properties": self.properties(depth)});
        let (max, min) = (self.below(4), self.below(3));
        self.maybe(&mut schema, "maxProperties", max);
        self.maybe(&mut schema, "minProperties", min);
        if self.one_in(3) {
            let required: Vec<&str> = (0..=self.below(2)).map(|_| *self.pick(&NAMES)).collect();
            schema["required"] = json!(required);
        }
        if self.one_in(8) {
            schema["x-kubernetes-map-type"] = json!(self.pick(&["atomic", "granular"]));
        }
        schema
    }

    fn array_schema(&mut self, depth: usize) -> Value {
        let mut schema = json!({"type": "array", "items": self.node(depth)});
        match self.below(5) {
            0 => {
                schema["x-kubernetes-list-type"] = json!("set");
                schema["items"] = self.node(0);
            }
            1 | 2 => {
                schema["x-kubernetes-list-type"] = json!("map");
                schema["items"] = self.object_schema(depth);
                schema["items"]["properties"]["a"] = self.key_schema();
                schema["items"]["required"] = json!(["a"]);
                schema["x-kubernetes-list-map-keys"] = json!(["a"]);
                if self.one_in(2) {
                    schema["items"]["properties"]["b"] = self.key_schema();
                    schema["items"]["required"] = json!(["a", "b"]);
                    schema["x-kubernetes-list-map-keys"] = json!(["a", "b"]);
                }
            }
            3 => schema["x-kubernetes-list-type"] = json!("atomic"),
            _ => {}
        }
        let (max, min) = (self.below(4), self.below(3));
        self.maybe(&mut schema, "maxItems", max);
        self.maybe(&mut schema, "minItems", min);
        schema
    }

    fn key_schema(&mut self) -> Value {
        json!({"type": self.pick(&["string", "integer", "number", "boolean"])})
    }

    /// A schema for `allOf` and the like: restrictions of values that `schema` specifies.
    fn restriction(&mut self, schema: &Value) -> Value {
        let mut out = json!({});
        match schema["type"].as_str() {
            Some("object") => {
                let names: Vec<String> =
                    schema["properties"].as_object().map(|map| map.keys().cloned().collect()).unwrap_or_default();
                let names: Vec<&String> = names.iter().filter(|name| *name != "metadata").collect();
                if !names.is_empty() {
                    let name = (*self.pick(&names)).clone();
                    if self.one_in(2) {
                        out["required"] = json!([name]);
                    } else {
                        let below = schema["properties"][&name].clone();
                        out["properties"] = json!({name: self.restriction(&below)});
                    }
                } else {
                    out["minProperties"] = json!(self.below(3));
                }
            }
            Some("array") => out["maxItems"] = json!(self.below(3)),
            Some("string") => match self.below(3) {
                0 => out["enum"] = json!(["a", "ab"]),
                1 => out["maxLength"] = json!(self.below(4)),
                _ => out["pattern"] = json!("a"),
            },
            Some("integer" | "number") => match self.below(3) {
                0 => out["maximum"] = json!(self.below(4)),
                1 => out["minimum"] = json!(self.below(4)),
                _ => out["multipleOf"] = json!(2),
            },
            _ => out["enum"] = json!([true, 1, "a"]),
        }
        out
    }

    fn junctor(&mut self, schema: &mut Value) {
        let name = *self.pick(&["allOf", "anyOf", "oneOf", "not"]);
        if !schema[name].is_null() || (schema["x-kubernetes-int-or-string"] == json!(true)) {
            return;
        }
        let parts: Vec<Value> = (0..=self.below(3)).map(|_| self.restriction(schema)).collect();
        schema[name] = if name == "not" { parts[0].clone() } else { parts.into() };
    }

    /// A value for `schema`, mostly a valid one.
    pub(crate) fn value(&mut self, schema: &Value) -> Value {
        if self.one_in(12) {
            return self.any_value(2);
        }
        if self.one_in(4)
            && let Some(allowed) = schema["enum"].as_array()
            && !allowed.is_empty()
        {
            return self.pick(allowed).clone();
        }
        match schema["type"].as_str() {
            Some("object") => {
                let mut out = Map::new();
                for (name, below) in schema["properties"].as_object().into_iter().flatten() {
                    if !self.one_in(3) {
                        out.insert(name.clone(), self.value(below));
                    }
                }
                let extra = schema["additionalProperties"].clone();
                for _ in 0..self.below(if extra.is_null() { 2 } else { 4 }) {
                    let name = *self.pick(&["a", "b", "z", "k.l", ""]);
                    let value = if extra.is_object() { self.value(&extra) } else { self.any_value(1) };
                    out.insert(name.to_owned(), value);
                }
                if schema["x-kubernetes-embedded-resource"] == json!(true) && !self.one_in(4) {
                    let mut resource = Value::Object(out);
                    self.add_metadata(&mut resource);
                    return resource;
                }
                out.into()
            }
            Some("array") => {
                let items = schema["items"].clone();
                (0..self.below(4)).map(|_| self.value(&items)).collect()
            }
            Some("string") => self.short_text().into(),
            Some("integer") => self.integer(),
            Some("number") => self.number(),
            Some("boolean") => self.one_in(2).into(),
            _ => self.any_value(2),
        }
    }

    fn short_text(&mut self) -> String {
        let options = [
            "",
            "a",
            "ab",
            "abc",
            "b",
            "é",
            "1",
            "12%",
            "10.0.0.1",
            "2024-01-02",
            "2024-01-02T03:04:05Z",
            "aGk=",
            "1h",
            "<&>\"\n",
        ];
        (*self.pick(&options)).to_owned()
    }

    fn integer(&mut self) -> Value {
        match self.below(10) {
            0 => json!(1.0),
            1 => json!(1e6),
            2 => json!(i64::MAX),
            3 => json!(65),
            _ => json!(self.below(6) as i64 - 2),
        }
    }

    fn number(&mut self) -> Value {
        if self.one_in(3) {
            return self.integer();
        }
        json!(self.pick(&[0.5, 1.5, -2.25, 0.30000000000000004, 1e21, 1.0000000001, 1e-7, 123456789.5, -0.1]))
    }

    /// Any JSON value.
    pub(crate) fn any_value(&mut self, depth: usize) -> Value {
        match self.below(if depth == 0 { 5 } else { 7 }) {
            0 => Value::Null,
            1 => self.one_in(2).into(),
            2 => self.integer(),
            3 => self.number(),
            4 => self.short_text().into(),
            5 => (0..self.below(3)).map(|_| self.any_value(depth - 1)).collect(),
            _ => {
                let entries: Map<String, Value> =
                    (0..self.below(4)).map(|_| ((*self.pick(&NAMES)).to_owned(), self.any_value(depth - 1))).collect();
                entries.into()
            }
        }
    }

    /// Changes small parts of `value`, so that most of it is unchanged.
    pub(crate) fn change(&mut self, value: &mut Value, schema: &Value) {
        if self.one_in(8) {
            return;
        }
        match value {
            Value::Object(entries) if !entries.is_empty() && !self.one_in(5) => {
                let keys: Vec<String> = entries.keys().cloned().collect();
                let key = self.pick(&keys).clone();
                let mut below = schema["properties"][&key].clone();
                if below.is_null() {
                    below = schema["additionalProperties"].clone();
                }
                if self.one_in(8) {
                    entries.remove(&key);
                } else if let Some(entry) = entries.get_mut(&key) {
                    self.change(entry, &below);
                }
            }
            Value::Array(items) if !items.is_empty() && !self.one_in(5) => {
                let below = schema["items"].clone();
                let at = self.below(items.len());
                match self.below(6) {
                    0 => items.reverse(),
                    1 => {
                        items.remove(at);
                    }
                    2 => {
                        let item = self.value(&below);
                        items.push(item);
                    }
                    _ => self.change(&mut items[at], &below),
                }
            }
            _ => *value = self.value(schema),
        }
    }

    /// Lets some lists of a schema preserve unknown fields.
    pub(crate) fn preserve_lists(&mut self, schema: &mut Value) {
        if schema["type"] == "array" && self.one_in(2) {
            schema["x-kubernetes-preserve-unknown-fields"] = json!(true);
        }
        for below in ["items", "additionalProperties"] {
            if schema[below].is_object() {
                self.preserve_lists(&mut schema[below]);
            }
        }
        for property in
            schema.get_mut("properties").and_then(Value::as_object_mut).into_iter().flat_map(Map::values_mut)
        {
            self.preserve_lists(property);
        }
    }

    /// Adds items with duplicate keys to lists of type map, as in lists from before the type was set.
    pub(crate) fn repeat_keys(&mut self, value: &mut Value, schema: &Value) {
        match value {
            Value::Object(entries) => {
                for (name, entry) in entries {
                    let declared = &schema["properties"][name];
                    let below = if declared.is_null() { &schema["additionalProperties"] } else { declared };
                    self.repeat_keys(entry, below);
                }
            }
            Value::Array(items) => {
                items.iter_mut().for_each(|item| self.repeat_keys(item, &schema["items"]));
                if schema["x-kubernetes-list-type"] == "map"
                    && let Some(mut again) = items.first().filter(|item| item.is_object()).cloned()
                {
                    let properties = schema["items"]["properties"].as_object().cloned().unwrap_or_default();
                    for (name, property) in properties.iter().filter(|(name, _)| !matches!(name.as_str(), "a" | "b")) {
                        again[name] = self.value(property);
                    }
                    items.push(again);
                }
            }
            _ => {}
        }
    }

    /// Gives an object a type and metadata, valid or invalid.
    pub(crate) fn add_metadata(&mut self, value: &mut Value) {
        let Some(entries) = value.as_object_mut() else { return };
        if !self.one_in(5) {
            let kind = self.pick(&[json!("Foo"), json!("foo_bar"), json!(""), json!("Foo"), json!(1)]).clone();
            entries.insert("kind".into(), kind);
        }
        if !self.one_in(5) {
            let version = self.pick(&[json!("v1"), json!("g/v1"), json!("a/b/c"), json!(""), json!(null)]).clone();
            entries.insert("apiVersion".into(), version);
        }
        if !self.one_in(5) {
            let metadata = self.metadata();
            entries.insert("metadata".into(), metadata);
        }
    }

    pub(crate) fn metadata(&mut self) -> Value {
        if self.one_in(20) {
            return self.any_value(1);
        }
        let time = |random: &mut Random| {
            let options = [
                "2024-02-29T01:02:03Z",
                "2024-01-01T00:00:00.5+01:30",
                "x",
                "2023-13-01T00:00:00Z",
                "0001-01-01T00:00:00Z",
                "2024-01-01 00:00:00Z",
                "2024-01-01T5:00:00Z",
                "2024-01-01T00:00:00Zx",
            ];
            match random.below(8) {
                0 => json!(null),
                1 => json!(5),
                2 => json!({}),
                _ => json!(random.pick(&options)),
            }
        };
        let mut out = Map::new();
        for _ in 0..self.below(6) {
            let (key, value) = match self.below(15) {
                0 => ("name", json!(self.pick(&["a", "", "..", "a/b", "A%"]))),
                1 => ("generateName", json!(self.pick(&["a-", "", "a/", "."]))),
                2 => ("namespace", json!(self.pick(&["ns", "", "N_s", "a.b"]))),
                3 => ("uid", self.any_value(1)),
                4 => (
                    "generation",
                    self.pick(&[json!(1), json!(-1), json!(1.5), json!(2.0), json!("1"), json!(null)]).clone(),
                ),
                5 => ("creationTimestamp", time(self)),
                6 => ("deletionTimestamp", time(self)),
                7 => ("deletionGracePeriodSeconds", self.any_value(0)),
                8 => ("labels", self.string_map()),
                9 => ("annotations", self.string_map()),
                10 => ("ownerReferences", self.owners()),
                11 => (
                    "finalizers",
                    self.pick(&[
                        json!(["a.b/c"]),
                        json!(["orphan", "foregroundDeletion"]),
                        json!([null, "-"]),
                        json!("x"),
                        json!([1]),
                    ])
                    .clone(),
                ),
                12 => ("managedFields", self.managed_fields()),
                13 => ("resourceVersion", self.any_value(0)),
                _ => ("odd", self.any_value(1)),
            };
            out.insert(key.to_owned(), value);
        }
        out.into()
    }

    /// Adds a status to a schema, often with a default for all of it.
    pub(crate) fn add_status(&mut self, schema: &mut Value) {
        let mut status = self.object_schema(2);
        if self.one_in(2) {
            status["default"] = self.value(&status);
        }
        if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
            properties.insert("status".to_owned(), status);
        }
    }

    /// Another schema that has some properties in common with this one.
    pub(crate) fn variant(&mut self, schema: &Value) -> Value {
        let mut other = self.schema();
        let Some(properties) = other.get_mut("properties").and_then(Value::as_object_mut) else { return other };
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            let mut property = property.clone();
            match self.below(5) {
                0 => continue,
                1 => property["nullable"] = json!(true),
                2 => property["default"] = self.value(&property),
                3 => drop(property.as_object_mut().and_then(|property| property.remove("default"))),
                _ => {}
            }
            properties.insert(name.clone(), property);
        }
        other
    }

    /// A whole object whose metadata the server's accessors can read.
    pub(crate) fn resource(&mut self, schema: &Value) -> Value {
        let mut object = self.value(schema);
        if !object.is_object() {
            object = json!({});
        }
        object["kind"] = json!("Foo");
        object["apiVersion"] = json!("g.io/v1");
        let mut metadata = json!({"name": self.pick(&["a", "a.b", "A", ""]), "resourceVersion": self.pick(&["1", ""])});
        match self.below(6) {
            0 => metadata["namespace"] = json!(self.pick(&["ns", "N"])),
            1 => metadata["labels"] = json!({"a b": "c d"}),
            2 => metadata["finalizers"] = json!(["a/b", "x y"]),
            3 => metadata["generateName"] = json!(self.pick(&["a-", "A-", "a--"])),
            _ => {}
        }
        object["metadata"] = metadata;
        if self.one_in(2) {
            object["spec"] = self
                .pick(&[
                    json!({"n": 1}),
                    json!({"n": -1}),
                    json!({"n": 3e9}),
                    json!({"n": 3_000_000_000_i64}),
                    json!({"n": {"a": [1, null, "x"]}}),
                    json!("s"),
                    json!({"n": null}),
                ])
                .clone();
            object["status"] =
                self.pick(&[json!({"n": 1, "s": "a=b"}), json!({"n": 1.5, "s": 3}), json!([1]), json!({})]).clone();
        }
        object
    }

    pub(crate) fn scale(&mut self) -> Option<Value> {
        self.one_in(2).then(|| {
            let selector = self.pick(&[json!(".status.s"), json!(null), json!(".spec.n.a")]).clone();
            json!({"SpecReplicasPath": self.pick(&[".spec.n", ".spec.n.a"]), "StatusReplicasPath": ".status.n", "LabelSelectorPath": selector})
        })
    }

    fn string_map(&mut self) -> Value {
        if self.one_in(8) {
            return self.any_value(1);
        }
        let keys = ["a", "a.b/c", "A/b", "-", "a/b/c", "/x", "a_b", ""];
        let entries: Map<String, Value> = (0..self.below(3))
            .map(|_| {
                let value = if self.one_in(8) { self.any_value(0) } else { json!(self.pick(&["", "v", "-v", "a b"])) };
                ((*self.pick(&keys)).to_owned(), value)
            })
            .collect();
        entries.into()
    }

    fn owners(&mut self) -> Value {
        if self.one_in(8) {
            return self.any_value(1);
        }
        (0..=self.below(3))
            .map(|_| {
                let mut owner = json!({"apiVersion": "v1", "kind": "Foo", "name": "n", "uid": "u"});
                match self.below(7) {
                    0 => owner["controller"] = json!(true),
                    1 => owner["kind"] = json!("Event"),
                    2 => owner["apiVersion"] = self.pick(&[json!("a/b/c"), json!(""), json!(3), json!("g/")]).clone(),
                    3 => owner["odd"] = json!(1),
                    4 => owner = self.any_value(1),
                    5 => owner["blockOwnerDeletion"] = self.any_value(0),
                    _ => owner["controller"] = json!(true),
                }
                owner
            })
            .collect()
    }

    fn managed_fields(&mut self) -> Value {
        (0..self.below(3))
            .map(|_| {
                let mut entry = json!({"manager": "m", "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {"f:a": {}}});
                match self.below(7) {
                    0 => entry["operation"] = self.pick(&[json!("Other"), json!(1), json!(null)]).clone(),
                    1 => entry["fieldsType"] = json!("FieldsV2"),
                    2 => entry["manager"] = json!("a\u{7}b"),
                    3 => entry["fieldsV1"] = self.any_value(1),
                    4 => entry["time"] = self.pick(&[json!("2024-01-01T00:00:00Z"), json!(null), json!("y")]).clone(),
                    5 => entry["odd"] = json!({}),
                    _ => entry["subresource"] = json!("status"),
                }
                entry
            })
            .collect()
    }
}
