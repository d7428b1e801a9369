//! Renders paths and operations as JSON of OpenAPI version 2 or 3.

use serde_json::{Map, Value, json};

use super::{
    parameter::Parameter,
    route::{Operation, Route},
};

/// The version of OpenAPI.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flavor {
    /// Swagger 2.0.
    V2,
    /// OpenAPI 3.0.
    V3,
}

impl Flavor {
    /// A reference to a definition.
    pub(super) fn reference(self, definition: &str) -> Value {
        match self {
            Self::V2 => json!({"$ref": format!("#/definitions/{definition}")}),
            Self::V3 => json!({"$ref": format!("#/components/schemas/{definition}")}),
        }
    }
}

/// Renders the item of a path. Parameters that all its operations have are listed once, for the path.
pub(super) fn path_item(flavor: Flavor, route: &Route) -> Value {
    let everywhere = |parameter: &Parameter| route.operations.iter().all(|it| it.parameters.contains(parameter));
    let (first, _) = route.operations.split_first().expect("a route has operations");
    let shared: Vec<&Parameter> = first.parameters.iter().filter(|parameter| everywhere(parameter)).collect();
    let mut item = Map::new();
    for operation in &route.operations {
        let own = operation.parameters.iter().filter(|parameter| !shared.contains(parameter));
        let rendered = match flavor {
            Flavor::V2 => operation_v2(operation, own),
            Flavor::V3 => operation_v3(operation, own),
        };
        item.insert(operation.method.to_owned(), rendered);
    }
    if !shared.is_empty() {
        let shared = shared.into_iter().map(|parameter| render_parameter(flavor, parameter)).collect();
        item.insert("parameters".to_owned(), shared);
    }
    Value::Object(item)
}

fn operation_v3<'a>(operation: &Operation, own: impl Iterator<Item = &'a Parameter>) -> Value {
    let mut rendered = common(operation);
    let parameters: Vec<Value> = own.map(|parameter| render_parameter(Flavor::V3, parameter)).collect();
    if !parameters.is_empty() {
        rendered.insert("parameters".to_owned(), parameters.into());
    }
    let content = |types: &[&str], definition: &str| -> Value {
        let schema = Flavor::V3.reference(definition);
        types.iter().map(|media| ((*media).to_owned(), json!({"schema": schema}))).collect::<Map<_, _>>().into()
    };
    if let Some(body) = &operation.body {
        let mut rendered_body = json!({"content": content(operation.consumes, &body.definition)});
        if body.required {
            rendered_body["required"] = true.into();
        }
        rendered.insert("requestBody".to_owned(), rendered_body);
    }
    let responses = operation.responses.iter().map(|(code, meaning, definition)| {
        let content = content(operation.produces, definition);
        ((*code).to_owned(), json!({"description": meaning, "content": content}))
    });
    rendered.insert("responses".to_owned(), with_unauthorized(responses));
    rendered.into()
}

fn operation_v2<'a>(operation: &Operation, own: impl Iterator<Item = &'a Parameter>) -> Value {
    let mut rendered = common(operation);
    let body = operation.body.as_ref().map(|body| {
        let mut parameter = json!({"name": "body", "in": "body", "schema": Flavor::V2.reference(&body.definition)});
        if body.required {
            parameter["required"] = true.into();
        }
        parameter
    });
    let own = own.map(|parameter| render_parameter(Flavor::V2, parameter));
    let parameters: Vec<Value> = body.into_iter().chain(own).collect();
    if !parameters.is_empty() {
        rendered.insert("parameters".to_owned(), parameters.into());
    }
    let responses = operation.responses.iter().map(|(code, meaning, definition)| {
        ((*code).to_owned(), json!({"description": meaning, "schema": Flavor::V2.reference(definition)}))
    });
    rendered.insert("responses".to_owned(), with_unauthorized(responses));
    rendered.insert("consumes".to_owned(), json!(operation.consumes));
    rendered.insert("produces".to_owned(), json!(operation.produces));
    rendered.insert("schemes".to_owned(), json!(["https"]));
    rendered.into()
}

fn common(operation: &Operation) -> Map<String, Value> {
    let about = &operation.about;
    let rendered = json!({
        "description": operation.description,
        "operationId": operation.id,
        "tags": [operation.tag],
        "x-kubernetes-action": operation.action,
        "x-kubernetes-group-version-kind": {"group": about.group, "version": about.version, "kind": about.kind},
    });
    match rendered {
        Value::Object(rendered) => rendered,
        _ => Map::new(),
    }
}

fn with_unauthorized(responses: impl Iterator<Item = (String, Value)>) -> Value {
    responses.chain([("401".to_owned(), json!({"description": "Unauthorized"}))]).collect::<Map<_, _>>().into()
}

fn render_parameter(flavor: Flavor, parameter: &Parameter) -> Value {
    let place = if parameter.in_path { "path" } else { "query" };
    let mut rendered = json!({"name": parameter.name, "in": place, "description": parameter.description});
    match flavor {
        Flavor::V2 => {
            rendered["type"] = parameter.kind.into();
            rendered["uniqueItems"] = true.into();
        }
        Flavor::V3 => rendered["schema"] = json!({"type": parameter.kind, "uniqueItems": true}),
    }
    if parameter.in_path {
        rendered["required"] = true.into();
    }
    rendered
}
