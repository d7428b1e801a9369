//! Generates CustomResourceDefinitions, mostly valid ones, with one or two mistakes.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Map, Value, json};

use super::Random;

/// Removes defaults that are objects: upstream coerces them in place, which shows in errors that it built before.
fn strip_metadata_defaults(schema: &mut Value) {
    if let Value::Object(entries) = schema {
        entries.retain(|key, value| key != "default" || !value.is_object());
        entries.values_mut().for_each(strip_metadata_defaults);
    } else if let Value::Array(items) = schema {
        items.iter_mut().for_each(strip_metadata_defaults);
    }
}

impl Random {
    pub(crate) fn definition(&mut self) -> Value {
        let versions = 1 + self.below(8) / 6;
        let mut schema = self.schema();
        self.spoil(&mut schema);
        let made: Vec<Value> = (0..versions)
            .map(|at| {
                if self.one_in(2) {
                    schema = self.schema();
                    self.spoil(&mut schema);
                }
                let mut version = json!({"name": format!("v{}", at + 1), "served": true, "storage": at == 0, "schema": {"openAPIV3Schema": schema}});
                self.spoil_version(&mut version);
                version
            })
            .collect();
        let mut crd = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "foos.g.io"},
            "spec": {"group": "g.io", "scope": "Namespaced", "names": {"plural": "foos", "kind": "Foo"}, "versions": made},
        });
        if self.one_in(3) {
            self.spoil_spec(&mut crd);
        }
        crd
    }

    /// An old definition and a new one that differs a little.
    pub(crate) fn definition_update(&mut self) -> (Value, Value) {
        let mut old = self.definition();
        while old["spec"]["versions"].as_array().is_none_or(Vec::is_empty) {
            old = self.definition();
        }
        old["metadata"]["resourceVersion"] = json!("1");
        if self.one_in(2) {
            old["status"]["conditions"] = json!([{"type": "Established", "status": "True"}]);
        }
        if self.one_in(4) {
            old["spec"]["conversion"] = self.conversion();
        }
        let mut new = old.clone();
        match self.below(8) {
            7 => new["spec"]["conversion"] = self.conversion(),
            0 => new["spec"]["scope"] = json!("Cluster"),
            1 => new["spec"]["names"]["kind"] = json!("Bar"),
            2 => new["spec"]["group"] = json!("h.io"),
            3 => new["spec"]["versions"][0]["name"] = json!("v9"),
            4 => {
                let mut schema = self.schema();
                self.spoil(&mut schema);
                new["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = schema;
            }
            5 => new["status"]["storedVersions"] = json!(["v1", "v0"]),
            _ => self.spoil_spec(&mut new),
        }
        (old, new)
    }

    fn spoil_spec(&mut self, crd: &mut Value) {
        match self.below(20) {
            0 => crd["spec"]["group"] = json!(self.pick(&["", "g", "G.io", "sub.k8s.io"])),
            1 => crd["spec"]["scope"] = json!(self.pick(&["", "Other", "Cluster"])),
            2 => crd["spec"]["names"]["plural"] = json!(self.pick(&["", "Foos", "1a"])),
            3 => crd["spec"]["names"]["kind"] = json!(self.pick(&["", "Foo_", "foo"])),
            4 => crd["spec"]["names"]["listKind"] = json!("Foo"),
            5 => crd["spec"]["names"]["shortNames"] = json!(["a", "B", ""]),
            6 => crd["spec"]["names"]["categories"] = json!(["all", "x.y"]),
            7 => crd["metadata"]["name"] = json!("other.g.io"),
            8 => crd["spec"]["versions"][0]["storage"] = json!(false),
            9 => crd["spec"]["versions"][0]["name"] = json!(self.pick(&["1", "V1", "", "v2"])),
            10 => crd["spec"]["preserveUnknownFields"] = json!(true),
            11 => crd["spec"]["conversion"] = self.conversion(),
            12 => crd["status"]["storedVersions"] = json!(["v1", "v0"]),
            13 => {
                crd["metadata"]["annotations"] =
                    json!({"api-approved.kubernetes.io": self.pick(&["unapproved, x", "https://a/b", "x", ""])})
            }
            14 => {
                crd["spec"]["group"] = json!("g.k8s.io");
                crd["metadata"]["name"] = json!("foos.g.k8s.io");
                crd["metadata"]["annotations"] =
                    json!({"api-approved.kubernetes.io": self.pick(&["unapproved, x", "https://a/b", "x", ""])});
            }
            15 => crd["metadata"]["labels"] = json!({"-": "x y"}),
            16 => crd["spec"]["versions"] = json!([]),
            17 => crd["metadata"]["namespace"] = json!("n"),
            18 => crd["status"]["acceptedNames"] = json!({"plural": "X", "kind": "Foo"}),
            _ => crd["metadata"]["generateName"] = json!("a-"),
        }
    }

    fn conversion(&mut self) -> Value {
        let config = match self.below(5) {
            0 => json!({"url": self.pick(&["https://a/b", "http://a", "https://u@a/b?q#f", "https://", "x"])}),
            1 => {
                json!({"service": {"name": "n", "namespace": "ns", "path": self.pick(&["/a/b", "a", "//", "/a//b/", "/", "/A"]), "port": self.pick(&[443, 0, 70000])}})
            }
            2 => json!({"service": {"name": "", "namespace": "ns"}}),
            3 => json!({}),
            _ => json!(null),
        };
        let mut config: Value = config;
        if config.is_object() && self.one_in(2) {
            config["caBundle"] = STANDARD.encode(self.ca_bundle()).into();
        }
        let versions =
            self.pick(&[json!(["v1"]), json!(["v1", "v1"]), json!(["v2"]), json!([]), json!(["V1"])]).clone();
        json!({"strategy": self.pick(&["Webhook", "Webhook", "None", "", "Other"]), "webhook": {"clientConfig": config, "conversionReviewVersions": versions}})
    }

    /// PEM, mostly with a mistake in its text or in a certificate. The certificate with an elliptic curve key is not changed:
    /// this crate does not check that a key is a point on its curve, and Go's text for it differs between releases.
    pub(crate) fn ca_bundle(&mut self) -> String {
        const ELLIPTIC: &str = include_str!("../../../src/crd/ca_bundle/testdata/authority.pem");
        const RSA: &str = include_str!("../../../src/crd/ca_bundle/testdata/rsa.pem");
        let mut bundle = String::new();
        for _ in 0..=self.below(4) / 3 {
            bundle.push_str(&if self.one_in(12) { ELLIPTIC.to_owned() } else { self.spoil_block(RSA) });
        }
        bundle
    }

    fn spoil_block(&mut self, block: &str) -> String {
        let header = "-----BEGIN CERTIFICATE-----";
        match self.below(12) {
            0 => block.to_owned(),
            1 => {
                let kind = *self.pick(&["PRIVATE KEY", "certificate", "TRUSTED CERTIFICATE", ""]);
                block.replace("CERTIFICATE", kind)
            }
            2 => block.replace(header, &format!("{header}\n{}", self.pick(&["A: b\n", "A:b\n\n", ":\n", "\n", "a\n"]))),
            3 => {
                let end = *self.pick(&["\r\n", " \n", "\t\n", "", "\n\n"]);
                block.replace('\n', end)
            }
            4 => format!(
                "{}{block}",
                self.pick(&[
                    "words\n",
                    "words",
                    "-----BEGIN CERTIFICATE-----\n",
                    "\n",
                    " ",
                    "-----END CERTIFICATE-----\n"
                ])
            ),
            5 => {
                let at = self.below(block.len());
                format!("{}{}{}", &block[..at], self.pick(&["", "-", "A", "=", " ", "\n", "!"]), &block[at + 1..])
            }
            6 => block[..self.below(block.len())].to_owned(),
            _ => self.spoil_certificate(block),
        }
    }

    /// Changes a few bytes of the DER.
    fn spoil_certificate(&mut self, block: &str) -> String {
        let text: String = block.lines().filter(|line| !line.starts_with('-')).collect();
        let mut der = STANDARD.decode(text).expect("the certificates are ours");
        for _ in 0..=self.below(3) / 2 {
            let at = self.below(der.len());
            match self.below(6) {
                0 => der[at] = u8::try_from(self.below(256)).unwrap_or(0),
                1 => der[at] ^= 1 << self.below(8),
                2 => {
                    der.remove(at);
                }
                3 => der.insert(at, u8::try_from(self.below(256)).unwrap_or(0)),
                4 => der.truncate(at.max(1)),
                _ => der[at] = *self.pick(&[0, 0x02, 0x30, 0x80, 0xa0, 0xff]),
            }
        }
        format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", STANDARD.encode(der))
    }

    fn spoil_version(&mut self, version: &mut Value) {
        match self.below(16) {
            0 => {
                version["subresources"] = json!({"status": {}});
                strip_metadata_defaults(&mut version["schema"]);
            }
            1 => {
                version["subresources"] = json!({"scale": {"specReplicasPath": self.pick(&[".spec.a", "spec.a", "", ".status.b"]),
                "statusReplicasPath": self.pick(&[".status.a", ".spec.a"]), "labelSelectorPath": self.pick(&[".status.s", "x", ".meta", ""])}})
            }
            2 => {
                version["additionalPrinterColumns"] = json!([{"name": self.pick(&["A", ""]), "type": self.pick(&["string", "", "object"]),
                "format": self.pick(&["", "date", "x"]), "jsonPath": self.pick(&[".a", "a", ""])}])
            }
            3 => version["deprecationWarning"] = json!(self.pick(&["old", "", "a\u{7}b", "<x>"])),
            4 => {
                version["deprecated"] = json!(true);
                version["deprecationWarning"] = json!(self.pick(&["old", "", "a\u{7}b", "<x>"]));
            }
            5 | 6 => {
                let paths = [".a", ".b", ".a.b", "a", ".metadata.x", ".", ".a[0]", ".c", ".metadata", "", ".kind"];
                let count = if self.one_in(4) { 12 } else { 2 };
                version["selectableFields"] = (0..count).map(|_| json!({"jsonPath": self.pick(&paths)})).collect();
                if count > 2 && self.one_in(2) {
                    // The most that are allowed, and one more.
                    let names: Vec<String> = (0..8 + self.below(2)).map(|index| format!("p{index}")).collect();
                    let properties: Map<String, Value> =
                        names.iter().map(|name| (name.clone(), json!({"type": "string"}))).collect();
                    version["schema"] = json!({"openAPIV3Schema": {"type": "object", "properties": properties}});
                    version["selectableFields"] =
                        names.iter().map(|name| json!({"jsonPath": format!(".{name}")})).collect();
                }
            }
            7 => version["schema"] = self.pick(&[json!({}), json!(null)]).clone(),
            _ => {}
        }
    }

    /// Adds a field to a random node of the schema, which may be invalid there.
    fn spoil(&mut self, schema: &mut Value) {
        for _ in 0..self.below(4) {
            self.spoil_one(schema, 4);
        }
    }

    fn spoil_one(&mut self, schema: &mut Value, depth: usize) {
        let below: Vec<&str> = ["properties", "items", "additionalProperties", "allOf", "anyOf", "oneOf", "not"]
            .into_iter()
            .filter(|key| schema.get(key).is_some_and(|value| value.is_object() || value.is_array()))
            .collect();
        if depth > 0 && !below.is_empty() && !self.one_in(3) {
            let key = *self.pick(&below);
            match &mut schema[key] {
                Value::Array(parts) if !parts.is_empty() => {
                    let at = self.below(parts.len());
                    self.spoil_one(&mut parts[at], depth - 1);
                    return;
                }
                Value::Object(map) if key == "properties" && !map.is_empty() => {
                    let at = self.below(map.len());
                    if let Some(entry) = map.values_mut().nth(at) {
                        self.spoil_one(entry, depth - 1);
                    }
                    return;
                }
                one @ Value::Object(_) if key != "properties" => {
                    self.spoil_one(one, depth - 1);
                    return;
                }
                _ => {}
            }
        }
        let (key, value): (&str, Value) = match self.below(38) {
            0 => ("type", json!(self.pick(&["", "foo", "null", "array", "object", "string", "integer"]))),
            1 => ("$ref", json!("x")),
            2 => ("uniqueItems", json!(true)),
            3 => ("definitions", json!({"a": {"type": "string"}})),
            4 => ("dependencies", json!({"a": ["b"], "c": {"type": "foo"}})),
            5 => ("patternProperties", json!({"a": {"type": "string"}})),
            6 => ("additionalItems", json!(true)),
            7 => ("id", json!("x")),
            8 => ("$schema", json!("x")),
            9 => (
                "additionalProperties",
                self.pick(&[json!(true), json!(false), json!({"type": "string"}), json!({})]).clone(),
            ),
            10 => (
                "items",
                self.pick(&[json!({}), json!([{"type": "string"}]), json!({"type": "string", "nullable": true})])
                    .clone(),
            ),
            11 => ("x-kubernetes-preserve-unknown-fields", json!(self.one_in(2))),
            12 => ("x-kubernetes-embedded-resource", json!(true)),
            13 => ("x-kubernetes-int-or-string", json!(true)),
            14 => ("x-kubernetes-list-type", json!(self.pick(&["set", "map", "atomic", "other"]))),
            15 => ("x-kubernetes-list-map-keys", self.pick(&[json!(["a"]), json!(["a", "a"]), json!(["zz"])]).clone()),
            16 => ("x-kubernetes-map-type", json!(self.pick(&["atomic", "granular", "other"]))),
            17 => ("nullable", json!(true)),
            18 | 19 => {
                let value = self.value(schema);
                ("default", value)
            }
            20 => ("default", self.any_value(2)),
            21 => ("pattern", json!(self.pick(&["[", "a**", "^a$", "(?=x)", "\\d+", "a{2000}"]))),
            22 => ("description", json!("d")),
            23 => ("title", json!("t")),
            24 => (
                "allOf",
                self.pick(&[
                    json!([{"properties": {"a": {"minLength": 1}}}]),
                    json!([{"items": {"minimum": 1}}]),
                    json!([{"type": "string"}]),
                    json!([{"required": ["q"]}]),
                ])
                .clone(),
            ),
            25 => (
                "not",
                self.pick(&[
                    json!({"properties": {"zz": {"maximum": 1}}}),
                    json!({"required": ["a"]}),
                    json!({"additionalProperties": true}),
                ])
                .clone(),
            ),
            26 => ("x-kubernetes-validations", self.rules()),
            27 => ("enum", json!([1, "a", null])),
            28 => ("maxProperties", json!(3)),
            29 => (
                "properties",
                json!({"metadata": {"type": "object", "properties": {"name": {"type": "string", "pattern": "a"}}}}),
            ),
            30 => (
                "properties",
                json!({"metadata": {"type": "object", "properties": {"labels": {"type": "object"}}, "default": {}}}),
            ),
            31 => {
                ("properties", json!({"kind": {"type": "integer"}, "apiVersion": {"type": "string", "default": "v1"}}))
            }
            32 => {
                ("items", json!({"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "object"}}}))
            }
            33 => ("items", json!({"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"})),
            34 => ("anyOf", json!([{"type": "integer"}, {"type": "string"}])),
            35 => ("format", json!(self.pick(&["date", "int32", "unknown"]))),
            36 => ("externalDocs", json!({"url": "u"})),
            _ => {
                let embedded = json!({"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true,
                    "properties": {"metadata": {"type": "object", "properties": {"name": {"type": "string", "default": self.pick(&["ok", "a/b"])}, "labels": {"type": "object", "default": self.pick(&[json!({"a": "b"}), json!({"-": "b"}), json!({"a": 1})])}}}},
                    "default": self.pick(&[json!({"kind": "Foo", "apiVersion": "v1"}), json!({"kind": "Foo", "apiVersion": "v1", "metadata": {"odd": 1}}), json!({}), json!({"kind": 1})])});
                ("properties", json!({"a": embedded}))
            }
        };
        schema[key] = value;
    }

    fn rules(&mut self) -> Value {
        let mut rule = json!({"rule": "true"});
        match self.below(9) {
            0 => rule["rule"] = json!(" "),
            1 => rule["message"] = json!(self.pick(&["ok", " ", "a\nb"])),
            2 => rule["rule"] = json!("true\n&& true"),
            3 => rule["messageExpression"] = json!(" "),
            4 => rule["reason"] = json!(self.pick(&["FieldValueInvalid", "Odd", "<x>"])),
            5 => rule["fieldPath"] = json!(self.pick(&[".a", ".b", "a", ".a['b']", ".q", " ", ".a\n", ".a.", "['a']"])),
            _ => {}
        }
        json!([rule])
    }
}
