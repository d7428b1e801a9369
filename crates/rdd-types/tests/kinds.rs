//! The generated definitions are what the table says, field by field, and the server keeps them as they are.

use std::collections::BTreeSet;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use rdd_testkit::api::{Server, TestApi};
use rdd_types::{DEFINITIONS, Definition, crds, crds_of};
use serde_json::{Value, json};

const TABLE: &str = include_str!("kinds.txt");

/// The table, one line per kind and field, each field with its kind before it.
fn wanted() -> BTreeSet<String> {
    let mut kind = "";
    let mut lines = BTreeSet::new();
    for line in TABLE.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#')) {
        if let Some(field) = line.strip_prefix("  ") {
            lines.insert(format!("{kind}: {field}"));
        } else {
            kind = line.split(' ').nth(1).expect("a kind has a name");
            lines.insert(line.to_owned());
        }
    }
    lines
}

/// The generated definitions in the same words.
fn generated() -> BTreeSet<String> {
    let mut lines = BTreeSet::from(["- Condition".to_owned()]);
    for definition in DEFINITIONS {
        let crd = serde_json::to_value((definition.crd)()).expect("a definition is JSON");
        lines.insert(head(definition, &crd));
        let schema = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        let mut fields = Vec::new();
        describe(schema, "", false, &mut fields);
        let conditions = fields.iter().filter_map(|field| field.strip_prefix("Condition: "));
        lines.extend(conditions.map(|field| format!("Condition: {field}")));
        let own = fields.iter().filter(|field| !field.starts_with("Condition: "));
        lines.extend(own.map(|field| format!("{}: {field}", definition.kind)));
    }
    lines
}

fn head(definition: &Definition, crd: &Value) -> String {
    let spec = &crd["spec"];
    let names = &spec["names"];
    let version = &spec["versions"][0];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let list = |value: &Value| value.as_array().into_iter().flatten().map(text).collect::<Vec<_>>();
    assert_eq!(spec["versions"].as_array().map(Vec::len), Some(1));
    assert_eq!(
        (&version["name"], &version["served"], &version["storage"]),
        (&json!("v1alpha1"), &json!(true), &json!(true))
    );
    assert_eq!(names["listKind"], format!("{}List", definition.kind));
    assert_eq!(crd["metadata"]["name"], format!("{}.{}", text(&names["plural"]), text(&spec["group"])));
    let annotations = &crd["metadata"]["annotations"];
    assert_eq!(annotations["controller-gen.kubebuilder.io/version"], "v0.19.0");

    let mut words = vec![text(&spec["group"]), text(&names["kind"])];
    words.push(format!("{}/{}", text(&names["plural"]), text(&names["singular"])));
    words.push(text(&spec["scope"]));
    words.push(format!("controller={}", definition.controller));
    match annotations["rdd.rancherdesktop.io/controller"].as_str() {
        Some(controller) if controller == definition.controller => words.push("annotated".to_owned()),
        Some(other) => words.push(format!("annotated={other}")),
        None => {}
    }
    words.extend(list(&names["shortNames"]).iter().map(|name| format!("short={name}")));
    words.extend(list(&names["categories"]).iter().map(|name| format!("categories={name}")));
    for column in version["additionalPrinterColumns"].as_array().into_iter().flatten() {
        let format = column["format"].as_str().map(|format| format!("/{format}")).unwrap_or_default();
        let kind = text(&column["type"]);
        words.push(format!("column={}:{kind}{format}:{}", text(&column["name"]), text(&column["jsonPath"])));
    }
    for field in version["selectableFields"].as_array().into_iter().flatten() {
        words.push(format!("selectable={}", text(&field["jsonPath"])));
    }
    if version["subresources"] == json!({"status": {}}) {
        words.push("status".to_owned());
    }
    words.join(" ")
}

/// What is said of a node and of all below it.
fn describe(schema: &Value, path: &str, required: bool, lines: &mut Vec<String>) {
    let is_root = path.is_empty();
    let mut words = vec![if is_root { "self".to_owned() } else { path.to_owned() }, type_of(schema)];
    if required {
        words.push("required".to_owned());
    }
    words.extend(attributes(schema));
    if is_root {
        words.remove(1);
    }
    if words.len() > 1 {
        lines.push(words.join(" "));
    }
    if words.get(1).is_some_and(|kind| kind.ends_with("conditions")) {
        describe_below(&schema["items"], "Condition: ", lines);
        return;
    }
    describe_below(schema, &if is_root { String::new() } else { format!("{path}.") }, lines);
    if schema["items"]["type"] == "object" {
        describe_below(&schema["items"], &format!("{path}[]."), lines);
    }
}

fn describe_below(schema: &Value, prefix: &str, lines: &mut Vec<String>) {
    let required = schema["required"].as_array().cloned().unwrap_or_default();
    for (name, below) in schema["properties"].as_object().into_iter().flatten() {
        if prefix.is_empty() && matches!(name.as_str(), "apiVersion" | "kind" | "metadata") {
            continue;
        }
        describe(below, &format!("{prefix}{name}"), required.contains(&json!(name)), lines);
    }
}

fn type_of(schema: &Value) -> String {
    let kind = schema["type"].as_str().unwrap_or("nothing");
    let format = schema["format"].as_str().map(|format| format!("({format})")).unwrap_or_default();
    if schema["x-kubernetes-int-or-string"] == true {
        let two = json!([{"type": "integer"}, {"type": "string"}]);
        let pattern = schema["pattern"].as_str().unwrap_or_default();
        let whole =
            schema["anyOf"] == two && pattern.starts_with(r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|");
        return if whole && kind == "nothing" { "quantity".to_owned() } else { schema.to_string() };
    }
    if schema["additionalProperties"].is_object() {
        return format!("map[{}]", type_of(&schema["additionalProperties"]));
    }
    if kind != "array" {
        return format!("{kind}{format}");
    }
    let is_condition = schema["items"]["properties"]["lastTransitionTime"].is_object();
    match (is_condition, schema["x-kubernetes-list-map-keys"] == json!(["type"])) {
        (true, true) => "conditions".to_owned(),
        (true, false) => "atomic-conditions".to_owned(),
        _ => format!("[]{}", type_of(&schema["items"])),
    }
}

/// All that is said of a node besides its type. What this does not know is told raw, and is in no table.
fn attributes(schema: &Value) -> Vec<String> {
    let mut words = Vec::new();
    let is_quantity = schema["x-kubernetes-int-or-string"] == true;
    let is_conditions = schema["items"]["properties"]["lastTransitionTime"].is_object();
    for (key, value) in schema.as_object().into_iter().flatten() {
        match key.as_str() {
            "type" | "format" | "properties" | "items" | "required" | "additionalProperties" => {}
            "anyOf" | "pattern" | "x-kubernetes-int-or-string" if is_quantity => {}
            "x-kubernetes-list-type" if value == "map" => {}
            "x-kubernetes-list-map-keys" if is_conditions => {}
            "x-kubernetes-list-map-keys" => words.push(format!("keys={}", value[0].as_str().unwrap_or_default())),
            "description" => assert!(value.as_str().is_some_and(|text| text.ends_with('.')), "{value} is no sentence"),
            "enum" => {
                let all: Vec<&str> = value.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
                words.push(format!("enum={}", all.join(",")));
            }
            "x-kubernetes-validations" => {
                let rule = &value[0];
                words.push(format!("rule={} message={}", rule["rule"], rule["message"]));
            }
            "minimum" => words.push(format!("minimum={}", value.as_f64().unwrap_or(-1.0))),
            "pattern" => words.push(format!("pattern={}", value.as_str().unwrap_or_default())),
            _ => words.push(format!("{key}={value}")),
        }
    }
    words
}

#[test]
fn every_field_is_in_the_table_and_every_line_of_the_table_is_a_field() {
    let (wanted, generated) = (wanted(), generated());
    let missing: Vec<&String> = wanted.difference(&generated).collect();
    let surplus: Vec<&String> = generated.difference(&wanted).collect();
    assert!(missing.is_empty() && surplus.is_empty(), "in the table only: {missing:#?}\ngenerated only: {surplus:#?}");
}

#[test]
fn every_field_that_people_see_is_explained_in_short() {
    for crd in crds() {
        let crd = serde_json::to_value(crd).unwrap();
        let root = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        check_explained(root, crd["metadata"]["name"].as_str().unwrap_or_default());
    }
}

/// `rdd set --help` shows the first sentence of a field on one line.
fn check_explained(schema: &Value, path: &str) {
    let text = schema["description"].as_str().unwrap_or_default();
    let first = text.split("\n\n").next().unwrap_or_default();
    assert!(!first.is_empty() && first.len() <= 160, "{path}: {first:?}");
    for (name, below) in schema["properties"].as_object().into_iter().flatten() {
        if !matches!(name.as_str(), "apiVersion" | "kind" | "metadata") {
            check_explained(below, &format!("{path}.{name}"));
        }
    }
}

#[test]
fn each_controller_brings_the_definitions_of_its_kinds() {
    let names = |controller: &str| -> Vec<String> {
        crds_of(controller).into_iter().filter_map(|crd| crd.spec.names.singular).collect()
    };
    assert_eq!(names("container"), ["container", "containercreaterequest"]);
    assert_eq!(names("image"), ["image", "imagepullrequest", "imagepushrequest", "imagescanrequest"]);
    assert_eq!(names("volume"), ["volume", "volumecreaterequest"]);
    assert_eq!(names("engine"), [""; 0]);
    assert_eq!(crds().len(), DEFINITIONS.len());
}

#[test]
fn the_server_takes_every_definition_and_keeps_it_as_it_is() {
    let api = TestApi::start();
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    for crd in crds() {
        let sent = serde_json::to_value(&crd).unwrap();
        let name = sent["metadata"]["name"].as_str().unwrap_or_default();
        api.post(path, &sent).expect(201);
        let kept = api.get(&format!("{path}/{name}")).expect(200);
        let typed: CustomResourceDefinition = serde_json::from_value(kept.clone()).unwrap();
        assert_eq!(typed.spec, crd.spec, "{name} is not what was sent");
        let conditions = kept["status"]["conditions"].as_array().cloned().unwrap_or_default();
        for wanted in ["Established", "NamesAccepted"] {
            let holds = conditions.iter().any(|one| one["type"] == wanted && one["status"] == "True");
            assert!(holds, "{name} is not {wanted}: {conditions:?}");
        }
        let structural = conditions.iter().all(|one| one["type"] != "NonStructuralSchema");
        assert!(structural, "{name}: {conditions:?}");
    }
}
