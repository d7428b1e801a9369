//! The cases, generated from the table of types: an object of each kind for each of its lists and maps.

use std::collections::HashSet;

use rdd_builtin::types::{self, Field, Struct, Type};
use serde_json::{Map, Value, json};

/// A list, or a map, of a kind.
pub(crate) struct Case {
    /// Where the objects of the kind are.
    pub(crate) collection: String,
    api_version: String,
    kind: String,
    /// From the object to the list.
    path: Vec<Step>,
    /// What the list has.
    items: Items,
    /// Whether it is the first of its shape: patches and reads treat all lists of a shape alike.
    pub(crate) is_first: bool,
}

/// One step from an object to a list in it.
#[derive(Clone)]
enum Step {
    Field(String),
    /// Into the only item of a list.
    Item,
    /// Into the only value of a map.
    Key,
}

#[derive(Clone, Copy)]
enum Items {
    List(Type),
    Map(Type),
    /// The metadata that all kinds share, with values that are valid.
    Owners,
    Finalizers,
    Managers,
    /// Of a custom resource: texts, or objects with a key.
    Texts,
    Keyed,
}

/// Resources that can be created, by kind: the plural, whether it has namespaces.
const RESOURCES: &[(&str, &str, &str, bool)] = &[
    ("", "ConfigMap", "configmaps", true),
    ("", "Event", "events", true),
    ("", "Namespace", "namespaces", false),
    ("", "ResourceQuota", "resourcequotas", true),
    ("", "Secret", "secrets", true),
    ("", "ServiceAccount", "serviceaccounts", true),
    ("", "Service", "services", true),
    ("admissionregistration.k8s.io", "MutatingWebhookConfiguration", "mutatingwebhookconfigurations", false),
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy", "validatingadmissionpolicies", false),
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings", false),
    ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration", "validatingwebhookconfigurations", false),
    ("apiextensions.k8s.io", "CustomResourceDefinition", "customresourcedefinitions", false),
    ("authentication.k8s.io", "SelfSubjectReview", "selfsubjectreviews", false),
    ("authentication.k8s.io", "TokenReview", "tokenreviews", false),
    ("authorization.k8s.io", "LocalSubjectAccessReview", "localsubjectaccessreviews", true),
    ("authorization.k8s.io", "SelfSubjectAccessReview", "selfsubjectaccessreviews", false),
    ("authorization.k8s.io", "SelfSubjectRulesReview", "selfsubjectrulesreviews", false),
    ("authorization.k8s.io", "SubjectAccessReview", "subjectaccessreviews", false),
    ("coordination.k8s.io", "Lease", "leases", true),
    ("events.k8s.io", "Event", "events", true),
    ("rbac.authorization.k8s.io", "ClusterRoleBinding", "clusterrolebindings", false),
    ("rbac.authorization.k8s.io", "ClusterRole", "clusterroles", false),
    ("rbac.authorization.k8s.io", "RoleBinding", "rolebindings", true),
    ("rbac.authorization.k8s.io", "Role", "roles", true),
];

/// All cases.
pub(crate) fn all() -> Vec<Case> {
    let mut cases = Vec::new();
    let mut shapes = HashSet::new();
    for (group, kind, plural, namespaced) in RESOURCES {
        let known = types::kind(group, "v1", kind).unwrap();
        let root = if group.is_empty() { "/api".to_owned() } else { format!("/apis/{group}") };
        let namespace = if *namespaced { "/namespaces/default" } else { "" };
        let collection = format!("{root}/v1{namespace}/{plural}");
        let mut found = Vec::new();
        find_lists(known.structure(), &mut Vec::new(), &mut vec![known.structure().name], &mut found);
        let metadata = |field: &str| ["metadata", field].map(|name| Step::Field(name.to_owned())).to_vec();
        // All kinds share the code for their metadata; definitions have some of their own.
        if matches!(*kind, "ConfigMap" | "CustomResourceDefinition") {
            found.push((metadata("ownerReferences"), Items::Owners, format!("owners of a {kind}")));
            found.push((metadata("finalizers"), Items::Finalizers, format!("finalizers of a {kind}")));
            found.push((metadata("managedFields"), Items::Managers, format!("managers of a {kind}")));
        }
        cases.extend(found.into_iter().map(|(path, items, shape)| Case {
            collection: collection.clone(),
            api_version: known.api_version(),
            kind: (*kind).to_owned(),
            path,
            items,
            is_first: shapes.insert(shape),
        }));
    }
    let custom = [("texts", Items::Texts), ("keyed", Items::Keyed), ("whole", Items::Keyed)];
    cases.extend(custom.into_iter().map(|(field, items)| Case {
        collection: "/apis/custom.example.com/v1/namespaces/default/lists".to_owned(),
        api_version: "custom.example.com/v1".to_owned(),
        kind: "List".to_owned(),
        path: vec![Step::Field("spec".to_owned()), Step::Field(field.to_owned())],
        items,
        is_first: true,
    }));
    cases
}

/// The definition of a custom resource with a list of each type.
pub(crate) fn definition() -> Value {
    let item = json!({"type": "object", "required": ["name"],
        "properties": {"name": {"type": "string"}, "value": {"type": "string"}}});
    let spec = json!({"type": "object", "properties": {
        "texts": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
        "keyed": {"type": "array", "items": item, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
        "whole": {"type": "array", "items": item}}});
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "lists.custom.example.com"},
        "spec": {"group": "custom.example.com", "scope": "Namespaced",
            "names": {"plural": "lists", "singular": "list", "kind": "List", "listKind": "ListList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema":
                {"type": "object", "properties": {"spec": spec}}}}]}})
}

/// The lists and maps below a struct. `inside` are the structs on the way: schemas contain schemas.
fn find_lists(
    structure: &'static Struct,
    path: &mut Vec<Step>,
    inside: &mut Vec<&'static str>,
    found: &mut Vec<(Vec<Step>, Items, String)>,
) {
    for field in structure.fields {
        // What every kind shares has cases of its own.
        if path.is_empty() && field.name == "metadata" {
            continue;
        }
        path.push(Step::Field(field.name.to_owned()));
        let before = path.len();
        let mut kind = field.kind;
        loop {
            match kind {
                Type::Named(_, below) | Type::Pointer(below) => kind = *below,
                Type::List(below) => {
                    let shape = format!("{:?} {} {}", field.list, field.merge, below.structure().is_some());
                    found.push((path.clone(), Items::List(*below), shape));
                    path.push(Step::Item);
                    kind = *below;
                }
                Type::Map(below) => {
                    let shape = format!("map {} {}", field.atomic, below.structure().is_some());
                    found.push((path.clone(), Items::Map(*below), shape));
                    path.push(Step::Key);
                    kind = *below;
                }
                Type::Struct(_) => {
                    let below = kind.structure().unwrap();
                    if !inside.contains(&below.name) {
                        inside.push(below.name);
                        find_lists(below, path, inside, found);
                        inside.pop();
                    }
                    break;
                }
                _ => break,
            }
        }
        path.truncate(before - 1);
    }
}

impl Case {
    /// What the case is called in a report.
    pub(crate) fn name(&self) -> String {
        let steps = self.path.iter().map(|step| match step {
            Step::Field(name) => format!(".{name}"),
            Step::Item => "[]".to_owned(),
            Step::Key => "{}".to_owned(),
        });
        format!("{} {}{}", self.api_version, self.kind, steps.collect::<String>())
    }

    /// The object with `count` items. Objects of different numbers have different names.
    pub(crate) fn object(&self, number: usize, count: usize) -> Value {
        let mut object = self.plain(number);
        *descend(&mut object, &self.path) = self.filled(count);
        object
    }

    /// The object without the list.
    pub(crate) fn plain(&self, number: usize) -> Value {
        let mut object = base(&self.kind);
        object["apiVersion"] = json!(self.api_version);
        object["kind"] = json!(self.kind);
        object["metadata"]["name"] = json!(self.object_name(number));
        if self.kind == "CustomResourceDefinition" {
            let names = &mut object["spec"]["names"];
            names["plural"] = json!(format!("things{number}"));
            names["singular"] = json!(format!("thing{number}"));
            names["kind"] = json!(format!("Thing{number}"));
            names["listKind"] = json!(format!("Thing{number}List"));
        }
        object
    }

    /// A patch that puts the list where it belongs.
    pub(crate) fn json_patch(&self, number: usize, count: usize) -> Value {
        let Step::Field(first) = &self.path[0] else { unreachable!("an object has fields") };
        let object = self.object(number, count);
        match (first.as_str(), &self.path[1..]) {
            ("metadata", [Step::Field(field)]) => {
                json!([{"op": "add", "path": format!("/metadata/{field}"), "value": object["metadata"][field]}])
            }
            _ => json!([{"op": "add", "path": format!("/{first}"), "value": object[first.as_str()]}]),
        }
    }

    /// Whether its objects stay until their finalizers are removed.
    pub(crate) fn has_finalizers(&self) -> bool {
        matches!(self.items, Items::Finalizers)
    }

    /// The path of an object.
    pub(crate) fn path_of(&self, number: usize) -> String {
        format!("{}/{}", self.collection, self.object_name(number))
    }

    fn object_name(&self, number: usize) -> String {
        match self.kind.as_str() {
            "CustomResourceDefinition" => format!("things{number}.linear.example.com"),
            _ => format!("linear-{number}"),
        }
    }

    /// Whether the list is that of the versions of a definition, which are to be served.
    fn is_versions(&self) -> bool {
        let names = self.path.iter().map(|step| if let Step::Field(name) = step { name.as_str() } else { "" });
        self.kind == "CustomResourceDefinition" && names.eq(["spec", "versions"])
    }

    fn filled(&self, count: usize) -> Value {
        match self.items {
            Items::List(_) if self.is_versions() => (0..count)
                .map(|number| {
                    json!({"name": format!("v{}", number + 1), "served": true, "storage": number == 0,
                        "schema": {"openAPIV3Schema": {"type": "object", "properties": {format!("p{number}"): {"type": "string"}}}}})
                })
                .collect(),
            Items::List(below) => (0..count).map(|number| sample("", below, number)).collect(),
            Items::Map(below) => Value::Object(
                (0..count).map(|number| (format!("key-{number}"), sample("", below, number))).collect(),
            ),
            Items::Owners => (0..count)
                .map(|number| {
                    json!({"apiVersion": format!("example.com/v{number}"), "kind": "Absent", "name": format!("n{number}"),
                        "uid": format!("00000000-0000-4000-8000-{number:012}")})
                })
                .collect(),
            Items::Texts => (0..count).map(|number| json!(format!("t{number}"))).collect(),
            Items::Keyed => (0..count).map(|number| json!({"name": format!("n{number}"), "value": "v"})).collect(),
            Items::Finalizers => (0..count).map(|number| json!(format!("example.com/f{number}"))).collect(),
            Items::Managers => (0..count)
                .map(|number| {
                    json!({"manager": format!("m{number}"), "operation": "Update", "apiVersion": self.api_version,
                        "time": "2026-01-01T00:00:00Z", "fieldsType": "FieldsV1",
                        "fieldsV1": {"f:metadata": {"f:labels": {format!("f:l{number}"): {}}}}})
                })
                .collect(),
        }
    }
}

/// The place that a path leads to. What is missing on the way is made with all that its type has but lists.
fn descend<'a>(object: &'a mut Value, path: &[Step]) -> &'a mut Value {
    let mut at = object;
    for step in path {
        at = match step {
            Step::Field(name) => {
                if !at.is_object() {
                    *at = json!({});
                }
                at.as_object_mut().unwrap().entry(name.as_str()).or_insert(Value::Null)
            }
            Step::Item => {
                if at.as_array().is_none_or(Vec::is_empty) {
                    *at = json!([{}]);
                }
                &mut at[0]
            }
            Step::Key => {
                if !at.is_object() {
                    *at = json!({});
                }
                at.as_object_mut().unwrap().entry("key").or_insert(Value::Null)
            }
        };
    }
    at
}

/// A value of a type, different for each number where that is possible.
fn sample(name: &str, kind: Type, number: usize) -> Value {
    match kind {
        Type::Named(_, below) | Type::Pointer(below) => sample(name, *below, number),
        Type::Bool => json!(false),
        Type::Int32 | Type::Int64 => json!(number % 65_535 + 1),
        Type::Float64 => json!(number),
        Type::String => sample_text(name, number),
        Type::Bytes => json!("YQ=="),
        Type::Time => json!("2026-01-01T00:00:00Z"),
        Type::MicroTime => json!("2026-01-01T00:00:00.000000Z"),
        Type::Quantity => json!(number.to_string()),
        Type::IntOrString => json!(80),
        Type::FieldsV1 | Type::RawExtension | Type::Json => json!({}),
        Type::SchemaOrArray | Type::SchemaOrBool | Type::SchemaOrStringArray => json!({"type": "string"}),
        Type::List(_) | Type::Map(_) => Value::Null,
        Type::Struct(_) => sample_struct(kind.structure().unwrap(), number),
    }
}

/// The simple fields of a struct.
fn sample_struct(structure: &'static Struct, number: usize) -> Value {
    if structure.name == "JSONSchemaProps" {
        return json!({"type": "string"});
    }
    let is_simple = |field: &&Field| !matches!(field.kind.underlying(), Type::Struct(_) | Type::List(_) | Type::Map(_));
    let fields = structure.fields.iter().filter(is_simple);
    let pairs = fields.map(|field| (field.name.to_owned(), sample(field.name, field.kind, number)));
    let members: Map<String, Value> = pairs.filter(|(_, value)| !value.is_null()).collect();
    Value::Object(members)
}

fn sample_text(name: &str, number: usize) -> Value {
    match name {
        "name" => json!(format!("n{number}.example.com")),
        "operator" => json!("In"),
        "status" => json!("True"),
        "protocol" => json!("TCP"),
        "expression" | "valueExpression" => json!("true"),
        "scope" => json!("*"),
        "uid" => json!(format!("00000000-0000-4000-8000-{number:012}")),
        "url" => json!("https://example.com/"),
        _ => json!(format!("a{number}")),
    }
}

/// An object of a kind that is valid, or nearly so.
fn base(kind: &str) -> Value {
    let hook = json!([{"name": "a.example.com", "clientConfig": {"url": "https://127.0.0.1:1/"}, "sideEffects": "None",
        "admissionReviewVersions": ["v1"], "failurePolicy": "Ignore",
        "rules": [{"operations": ["CREATE"], "apiGroups": ["none.example.com"], "apiVersions": ["v1"], "resources": ["nothings"]}]}]);
    match kind {
        "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration" => json!({"webhooks": hook}),
        "ValidatingAdmissionPolicy" => json!({"spec": {
            "matchConstraints": {"resourceRules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"],
                "resources": ["nothings"]}]},
            "validations": [{"expression": "true"}]}}),
        "ValidatingAdmissionPolicyBinding" => json!({"spec": {"policyName": "p", "validationActions": ["Deny"]}}),
        "Service" => json!({"spec": {"ports": [{"port": 80}], "selector": {"a": "b"}}}),
        "CustomResourceDefinition" => json!({"spec": {
            "group": "linear.example.com", "scope": "Namespaced",
            "names": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}}),
        "Event" => json!({"involvedObject": {"namespace": "default"}, "regarding": {"namespace": "default"},
            "metadata": {"namespace": "default"}}),
        "ClusterRoleBinding" | "RoleBinding" => {
            json!({"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "a"}})
        }
        "LocalSubjectAccessReview" => json!({"metadata": {"namespace": "default"},
            "spec": {"user": "a", "resourceAttributes": {"namespace": "default", "verb": "get"}}}),
        "SubjectAccessReview" => json!({"spec": {"user": "a", "resourceAttributes": {"verb": "get"}}}),
        "SelfSubjectAccessReview" => json!({"spec": {"resourceAttributes": {"verb": "get"}}}),
        "SelfSubjectRulesReview" => json!({"spec": {"namespace": "default"}}),
        "TokenReview" => json!({"spec": {"token": "a"}}),
        _ => json!({"metadata": {}}),
    }
}
