//! The test cases, generated from the table of types: an object of each kind for each of its lists and maps.

use std::collections::HashSet;

use rdd_builtin::types::{self, Field, Struct, Type};
use serde_json::{Map, Value, json};

use crate::measure::Request;

/// The group of the custom resource.
pub(crate) const CUSTOM_GROUP: &str = "custom.example.com";

/// A test case: a list or a map of a kind.
pub(crate) struct Case {
    /// The path of the kind's collection.
    pub(crate) collection: String,
    api_version: String,
    kind: String,
    /// The path from the object to the list.
    path: Vec<Step>,
    /// The type of the items.
    items: Items,
    pub(crate) endpoint: Endpoint,
    pub(crate) outcome: Outcome,
    /// Whether the resource is virtual: its objects are not stored.
    is_review: bool,
    /// Whether the case is the first of its shape: patches and reads treat all lists of a shape alike.
    pub(crate) is_first: bool,
}

/// One step of the path from an object to a list in it.
#[derive(Clone)]
enum Step {
    Field(String),
    /// Into the only item of a list, with the item's initial value.
    Item(Value),
    /// Into the only value of a map.
    Key,
}

impl Step {
    fn field(&self) -> Option<&str> {
        if let Self::Field(name) = self { Some(name) } else { None }
    }
}

#[derive(Clone, Copy)]
enum Items {
    List(Type),
    Map(Type),
    /// The metadata that all kinds share, with values that are valid.
    Owners,
    Finalizers,
    Managers,
    /// In a custom resource: strings, or objects with a key.
    Texts,
    Keyed,
}

/// A resource that can be created, as discovery lists it.
pub(crate) struct CreatableResource {
    pub(crate) group: String,
    pub(crate) kind: String,
    pub(crate) plural: String,
    pub(crate) namespaced: bool,
    /// Whether objects are stored. Those of a review are not.
    pub(crate) stored: bool,
    /// The names of the subresources.
    pub(crate) subresources: Vec<String>,
}

/// The endpoint that writes the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Endpoint {
    Object,
    /// The subresource `status`, because writes of the object itself drop its status.
    Status,
    /// The subresource `finalize`, because updates of a namespace drop `spec.finalizers`.
    Finalize,
}

/// The expected response to an object with the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The response has all items.
    Stored,
    /// The server accepts the object without the list: it sets the field itself, or the feature is disabled.
    Dropped,
    /// Validation refuses the list with 422: the generated items are invalid, or the kind limits their number.
    Invalid,
}

/// The lists that are not stored unchanged. All other lists must be, because otherwise their cases would measure nothing.
const EXCEPTIONS: &[(&str, Outcome)] = &[
    ("v1 ConfigMap.metadata.managedFields", Outcome::Dropped),
    ("v1 ResourceQuota.spec.scopes", Outcome::Invalid),
    ("v1 Secret.stringData", Outcome::Dropped),
    ("v1 Service.spec.clusterIPs", Outcome::Invalid),
    ("authentication.k8s.io/v1 SelfSubjectReview.status.userInfo.extra", Outcome::Dropped),
    ("authentication.k8s.io/v1 SelfSubjectReview.status.userInfo.extra{}", Outcome::Dropped),
    ("authentication.k8s.io/v1 SelfSubjectReview.status.userInfo.groups", Outcome::Dropped),
    ("authorization.k8s.io/v1 SelfSubjectRulesReview.status.nonResourceRules", Outcome::Dropped),
    ("authorization.k8s.io/v1 SelfSubjectRulesReview.status.nonResourceRules[].nonResourceURLs", Outcome::Dropped),
    ("authorization.k8s.io/v1 SelfSubjectRulesReview.status.nonResourceRules[].verbs", Outcome::Dropped),
    ("authorization.k8s.io/v1 SelfSubjectRulesReview.status.resourceRules", Outcome::Dropped),
    ("authorization.k8s.io/v1 SelfSubjectRulesReview.status.resourceRules[].apiGroups", Outcome::Dropped),
    ("authorization.k8s.io/v1 SelfSubjectRulesReview.status.resourceRules[].resourceNames", Outcome::Dropped),
    ("authorization.k8s.io/v1 SelfSubjectRulesReview.status.resourceRules[].resources", Outcome::Dropped),
    ("authorization.k8s.io/v1 SelfSubjectRulesReview.status.resourceRules[].verbs", Outcome::Dropped),
    ("rbac.authorization.k8s.io/v1 ClusterRole.rules[].nonResourceURLs", Outcome::Invalid),
    ("rbac.authorization.k8s.io/v1 Role.rules[].nonResourceURLs", Outcome::Invalid),
    (
        "admissionregistration.k8s.io/v1 MutatingWebhookConfiguration.webhooks[].admissionReviewVersions",
        Outcome::Invalid,
    ),
    ("admissionregistration.k8s.io/v1 MutatingWebhookConfiguration.webhooks[].matchConditions", Outcome::Invalid),
    ("admissionregistration.k8s.io/v1 MutatingWebhookConfiguration.webhooks[].rules[].operations", Outcome::Invalid),
    ("admissionregistration.k8s.io/v1 ValidatingAdmissionPolicy.spec.auditAnnotations", Outcome::Invalid),
    ("admissionregistration.k8s.io/v1 ValidatingAdmissionPolicy.spec.matchConditions", Outcome::Invalid),
    (
        "admissionregistration.k8s.io/v1 ValidatingAdmissionPolicy.spec.matchConstraints.excludeResourceRules[].operations",
        Outcome::Invalid,
    ),
    (
        "admissionregistration.k8s.io/v1 ValidatingAdmissionPolicy.spec.matchConstraints.resourceRules[].operations",
        Outcome::Invalid,
    ),
    (
        "admissionregistration.k8s.io/v1 ValidatingAdmissionPolicyBinding.spec.matchResources.excludeResourceRules[].operations",
        Outcome::Invalid,
    ),
    (
        "admissionregistration.k8s.io/v1 ValidatingAdmissionPolicyBinding.spec.matchResources.resourceRules[].operations",
        Outcome::Invalid,
    ),
    (
        "admissionregistration.k8s.io/v1 ValidatingAdmissionPolicyBinding.spec.paramRef.selector.matchExpressions",
        Outcome::Invalid,
    ),
    (
        "admissionregistration.k8s.io/v1 ValidatingAdmissionPolicyBinding.spec.paramRef.selector.matchExpressions[].values",
        Outcome::Invalid,
    ),
    (
        "admissionregistration.k8s.io/v1 ValidatingAdmissionPolicyBinding.spec.paramRef.selector.matchLabels",
        Outcome::Invalid,
    ),
    ("admissionregistration.k8s.io/v1 ValidatingAdmissionPolicyBinding.spec.validationActions", Outcome::Invalid),
    (
        "admissionregistration.k8s.io/v1 ValidatingWebhookConfiguration.webhooks[].admissionReviewVersions",
        Outcome::Invalid,
    ),
    ("admissionregistration.k8s.io/v1 ValidatingWebhookConfiguration.webhooks[].matchConditions", Outcome::Invalid),
    ("admissionregistration.k8s.io/v1 ValidatingWebhookConfiguration.webhooks[].rules[].operations", Outcome::Invalid),
    (
        "apiextensions.k8s.io/v1 CustomResourceDefinition.spec.conversion.webhook.conversionReviewVersions",
        Outcome::Invalid,
    ),
    ("apiextensions.k8s.io/v1 CustomResourceDefinition.spec.versions[].schema.openAPIV3Schema.allOf", Outcome::Invalid),
    ("apiextensions.k8s.io/v1 CustomResourceDefinition.spec.versions[].schema.openAPIV3Schema.anyOf", Outcome::Invalid),
    (
        "apiextensions.k8s.io/v1 CustomResourceDefinition.spec.versions[].schema.openAPIV3Schema.definitions",
        Outcome::Invalid,
    ),
    (
        "apiextensions.k8s.io/v1 CustomResourceDefinition.spec.versions[].schema.openAPIV3Schema.dependencies",
        Outcome::Invalid,
    ),
    ("apiextensions.k8s.io/v1 CustomResourceDefinition.spec.versions[].schema.openAPIV3Schema.oneOf", Outcome::Invalid),
    (
        "apiextensions.k8s.io/v1 CustomResourceDefinition.spec.versions[].schema.openAPIV3Schema.patternProperties",
        Outcome::Invalid,
    ),
    (
        "apiextensions.k8s.io/v1 CustomResourceDefinition.spec.versions[].schema.openAPIV3Schema.x-kubernetes-list-map-keys",
        Outcome::Invalid,
    ),
    ("apiextensions.k8s.io/v1 CustomResourceDefinition.spec.versions[].selectableFields", Outcome::Invalid),
    ("apiextensions.k8s.io/v1 CustomResourceDefinition.metadata.managedFields", Outcome::Dropped),
];

impl CreatableResource {
    fn collection(&self) -> String {
        let root = if self.group.is_empty() { "/api".to_owned() } else { format!("/apis/{}", self.group) };
        let namespace = if self.namespaced { "/namespaces/default" } else { "" };
        format!("{root}/v1{namespace}/{}", self.plural)
    }

    /// The endpoint that writes the list at this path.
    fn endpoint(&self, path: &[Step]) -> Endpoint {
        let has = |name: &str| self.subresources.iter().any(|subresource| subresource == name);
        let names: Vec<&str> = path.iter().map_while(Step::field).take(2).collect();
        match names.as_slice() {
            ["status", ..] if has("status") => Endpoint::Status,
            ["spec", "finalizers"] if has("finalize") => Endpoint::Finalize,
            _ => Endpoint::Object,
        }
    }
}

/// All cases: those of these resources and those of a custom resource.
pub(crate) fn all(resources: &[CreatableResource]) -> Vec<Case> {
    let mut cases = Vec::new();
    let mut shapes = HashSet::new();
    for resource in resources {
        let kind = resource.kind.as_str();
        let known = types::kind(&resource.group, "v1", kind).unwrap();
        let mut found = Vec::new();
        find_lists(known.structure(), &mut Vec::new(), &mut vec![known.structure().name], &mut found);
        let metadata = |field: &str| ["metadata", field].map(|name| Step::Field(name.to_owned())).to_vec();
        // All kinds share the code for metadata; definitions have some of their own.
        if matches!(kind, "ConfigMap" | "CustomResourceDefinition") {
            found.push((metadata("labels"), Items::Map(Type::String), format!("labels of a {kind}")));
            found.push((metadata("ownerReferences"), Items::Owners, format!("owners of a {kind}")));
            found.push((metadata("finalizers"), Items::Finalizers, format!("finalizers of a {kind}")));
            found.push((metadata("managedFields"), Items::Managers, format!("managers of a {kind}")));
        }
        for (path, items, shape) in found {
            let endpoint = resource.endpoint(&path);
            let mut case = Case {
                collection: resource.collection(),
                api_version: known.api_version(),
                kind: kind.to_owned(),
                path,
                items,
                endpoint,
                outcome: Outcome::Stored,
                is_review: !resource.stored,
                is_first: false,
            };
            let name = case.name();
            case.outcome =
                EXCEPTIONS.iter().find(|(exception, _)| *exception == name).map_or(Outcome::Stored, |found| found.1);
            // The code behind `/status` is that of the object, with other fields reset.
            let shape = if endpoint == Endpoint::Object { shape } else { format!("{endpoint:?}") };
            case.is_first = resource.stored && case.outcome != Outcome::Invalid && shapes.insert(shape);
            cases.push(case);
        }
    }
    assert!(
        EXCEPTIONS.iter().all(|(exception, _)| cases.iter().any(|case| case.name() == *exception)),
        "an exception names no case"
    );
    let custom = [("texts", Items::Texts), ("keyed", Items::Keyed), ("whole", Items::Keyed)];
    cases.extend(custom.into_iter().map(|(field, items)| Case {
        collection: "/apis/custom.example.com/v1/namespaces/default/lists".to_owned(),
        api_version: "custom.example.com/v1".to_owned(),
        kind: "List".to_owned(),
        path: vec![Step::Field("spec".to_owned()), Step::Field(field.to_owned())],
        items,
        endpoint: Endpoint::Object,
        outcome: Outcome::Stored,
        is_review: false,
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

/// Finds the lists and maps below a struct. `inside` are the structs on the path, to stop at recursive types: schemas contain
/// schemas.
fn find_lists(
    structure: &'static Struct,
    path: &mut Vec<Step>,
    inside: &mut Vec<&'static str>,
    found: &mut Vec<(Vec<Step>, Items, String)>,
) {
    for field in structure.fields {
        // The metadata, which all kinds share, has cases of its own.
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
                    path.push(Step::Item(below.structure().map_or_else(|| json!({}), |item| sample_struct(item, 0))));
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
    /// The name of the case in reports.
    pub(crate) fn name(&self) -> String {
        let steps = self.path.iter().map(|step| match step {
            Step::Field(name) => format!(".{name}"),
            Step::Item(_) => "[]".to_owned(),
            Step::Key => "{}".to_owned(),
        });
        format!("{} {}{}", self.api_version, self.kind, steps.collect::<String>())
    }

    /// The object with `count` items. Its name contains `number`.
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
        // Some reviews may not have a name.
        if !self.is_review {
            object["metadata"]["name"] = json!(self.object_name(number));
        }
        if self.kind == "CustomResourceDefinition" {
            let names = &mut object["spec"]["names"];
            names["plural"] = json!(format!("things{number}"));
            names["singular"] = json!(format!("thing{number}"));
            names["kind"] = json!(format!("Thing{number}"));
            names["listKind"] = json!(format!("Thing{number}List"));
        }
        object
    }

    /// A JSON patch that writes the list.
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

    /// The number of items that the list has in this object.
    pub(crate) fn count_items(&self, object: &Value) -> usize {
        let at = self.path.iter().try_fold(object, |at, step| match step {
            Step::Field(name) => at.get(name),
            Step::Item(_) => at.get(0),
            Step::Key => at.get("key"),
        });
        match at {
            Some(Value::Array(items)) => items.len(),
            Some(Value::Object(members)) => members.len(),
            _ => 0,
        }
    }

    /// The path of the endpoint that writes the list of an object.
    pub(crate) fn endpoint_of(&self, number: usize) -> String {
        let path = self.path_of(number);
        match self.endpoint {
            Endpoint::Object => path,
            Endpoint::Status => format!("{path}/status"),
            Endpoint::Finalize => format!("{path}/finalize"),
        }
    }

    /// Whether the list is in the metadata, the only part that a delete reads.
    pub(crate) fn is_metadata(&self) -> bool {
        self.path[0].field() == Some("metadata")
    }

    /// Whether this is the request that measures the kind's validation of the list.
    pub(crate) fn is_validated_by(&self, request: Request) -> bool {
        let validated = if self.endpoint == Endpoint::Object { Request::Create } else { Request::Update };
        request == validated
    }

    /// Whether the request reaches the list of this case.
    pub(crate) fn has(&self, request: Request) -> bool {
        match request {
            Request::Strategic => !self.collection.contains(CUSTOM_GROUP),
            // Applied objects may not have managed fields.
            Request::Apply => !matches!(self.items, Items::Managers),
            Request::Delete => self.is_metadata(),
            // Table columns show metadata, fields that a definition names, and few other lists.
            Request::Table => matches!(self.kind.as_str(), "ConfigMap" | "Service" | "List"),
            _ => true,
        }
    }

    /// Whether objects stay after a delete until their finalizers are removed.
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

    /// Whether the list is a definition's list of versions, whose items need valid schemas.
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
            Items::List(_) if self.endpoint == Endpoint::Finalize => {
                (0..count).map(|number| json!(format!("example.com/f{number}"))).collect()
            }
            Items::List(below) => (0..count).map(|number| sample("", below, number)).collect(),
            Items::Map(below) => {
                // Quotas accept only known resources and extended ones, which have a domain.
                let prefix = if self.kind == "ResourceQuota" { "requests.example.com/" } else { "" };
                let keys = (0..count).map(|number| (format!("{prefix}key-{number}"), sample("", below, number)));
                Value::Object(keys.collect())
            }
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

/// Returns the value at a path. Missing structs are created with sample values in all fields but lists.
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
            Step::Item(item) => {
                if at.as_array().is_none_or(Vec::is_empty) {
                    *at = json!([item]);
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

/// A sample value of a type, different for each number where possible.
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

/// A sample struct with its scalar fields.
fn sample_struct(structure: &'static Struct, number: usize) -> Value {
    if structure.name == "JSONSchemaProps" {
        return json!({"type": "string"});
    }
    if let Some(item) = sample_valid(structure.name, number) {
        return item;
    }
    let is_simple = |field: &&Field| !matches!(field.kind.underlying(), Type::Struct(_) | Type::List(_) | Type::Map(_));
    let fields = structure.fields.iter().filter(is_simple);
    let pairs = fields.map(|field| (field.name.to_owned(), sample(field.name, field.kind, number)));
    let members: Map<String, Value> = pairs.filter(|(_, value)| !value.is_null()).collect();
    Value::Object(members)
}

/// A valid item of a struct for which validation refuses arbitrary scalar fields.
fn sample_valid(structure: &str, number: usize) -> Option<Value> {
    let (_, name) = structure.rsplit_once('.').unwrap_or(("", structure));
    let rule = json!({"operations": ["CREATE"], "apiGroups": ["none.example.com"], "apiVersions": ["v1"],
        "resources": [format!("r{number}")]});
    Some(match name {
        "ServicePort" => json!({"name": format!("n{number}"), "port": number % 65_535 + 1, "protocol": "TCP"}),
        "ScopedResourceSelectorRequirement" => {
            json!({"scopeName": "PriorityClass", "operator": "In", "values": [format!("a{number}")]})
        }
        "LabelSelectorRequirement" | "FieldSelectorRequirement" => {
            json!({"key": format!("k{number}"), "operator": "In", "values": ["a"]})
        }
        "RuleWithOperations" | "NamedRuleWithOperations" => rule,
        "PolicyRule" => json!({"verbs": ["get"], "apiGroups": ["example.com"], "resources": [format!("r{number}")]}),
        "Subject" => {
            json!({"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": format!("n{number}")})
        }
        "MutatingWebhook" | "ValidatingWebhook" => {
            json!({"name": format!("n{number}.example.com"), "clientConfig": {"url": "https://127.0.0.1:1/"},
                "sideEffects": "None", "admissionReviewVersions": ["v1"], "failurePolicy": "Ignore", "rules": [rule]})
        }
        "Validation" => json!({"expression": "true", "message": format!("m{number}")}),
        "ValidationRule" => json!({"rule": format!("{number} == {number}")}),
        "Variable" => json!({"name": format!("v{number}"), "expression": "true"}),
        "CustomResourceColumnDefinition" => {
            json!({"name": format!("n{number}"), "type": "string", "jsonPath": ".a"})
        }
        _ => return None,
    })
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

/// A minimal object of a kind that is valid, or nearly so.
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
