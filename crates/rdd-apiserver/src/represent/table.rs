//! Tables: encodes objects and lists as rows of cells, for kubectl and similar clients.

use std::sync::LazyLock;

use bytes::Bytes;
use rdd_meta::{go_json, metadata::Metadata, time::Timestamp};
use serde_json::{Value, json};

use super::{Include, MetaVersion, partial};
use crate::{
    registry::{Column, Part},
    rest::Target,
};

/// The annotation of the bookmark that ends the initial events of a watch. Its row always includes the metadata, because the client
/// must see this annotation.
const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// The JSON of a table up to the start of its rows. Without `headers` it has no columns; a watch sends them with its first event only.
pub(super) fn opening(target: &Target, version: MetaVersion, list_metadata: &str, headers: bool) -> Vec<u8> {
    let api_version = version.api_version();
    let columns = if headers { columns_json(columns(target)) } else { "null".to_owned() };
    format!(
        r#"{{"kind":"Table","apiVersion":"{api_version}","metadata":{list_metadata},"columnDefinitions":{columns},"rows":["#
    )
    .into_bytes()
}

/// The JSON after the last row.
pub(super) const CLOSING: &[u8] = b"]}";

/// Encodes one row. `json` and `object` are the same object.
pub(super) fn row(
    target: &Target,
    version: MetaVersion,
    include: Include,
    json: &Bytes,
    object: &Value,
    now: Timestamp,
) -> Bytes {
    let cells = go_json::to_string(&Value::Array(cells(target, object, now)));
    let last_of_initial = Metadata::of(object).annotation(INITIAL_EVENTS_END) == Some("true");
    let object = match include {
        Include::Object => json.clone(),
        Include::None if !last_of_initial => Bytes::from_static(b"null"),
        Include::None | Include::Metadata => partial::object(version, json),
    };
    [br#"{"cells":"#, cells.as_bytes(), br#","object":"#, &object, b"}"].concat().into()
}

/// Encodes a table with one row.
pub(super) fn of_one(
    target: &Target,
    (version, include): (MetaVersion, Include),
    json: &Bytes,
    object: &Value,
    now: Timestamp,
    headers: bool,
) -> Bytes {
    let resource_version = Metadata::of(object).resource_version();
    let metadata = match resource_version {
        "" => json!({}),
        version => json!({ "resourceVersion": version }),
    };
    let mut table = opening(target, version, &go_json::to_string(&metadata), headers);
    table.extend_from_slice(&row(target, version, include, json, object, now));
    table.extend_from_slice(CLOSING);
    table.into()
}

fn columns(target: &Target) -> &[Column] {
    if is_scale(target) { &*SCALE_COLUMNS } else { target.version().kind.columns() }
}

fn cells(target: &Target, object: &Value, now: Timestamp) -> Vec<Value> {
    if !is_scale(target) {
        return target.version().kind.cells(object, now);
    }
    let metadata = Metadata::of(object);
    let replicas = |part: &str| object[part]["replicas"].as_i64().unwrap_or(0).into();
    let age = metadata.creation_timestamp().map_or("<unknown>".to_owned(), |created| created.age(now));
    vec![metadata.name().into(), replicas("spec"), replicas("status"), age.into()]
}

fn is_scale(target: &Target) -> bool {
    matches!(target.subresource().map(|subresource| &subresource.part), Some(Part::Scale(_)))
}

static SCALE_COLUMNS: LazyLock<[Column; 4]> = LazyLock::new(|| {
    let column = |name: &str, kind: &str, description: &str| Column {
        name: name.to_owned(),
        kind: kind.to_owned(),
        format: if name == "Name" { "name".to_owned() } else { String::new() },
        description: description.to_owned(),
        priority: 0,
    };
    [
        column("Name", "string", "The name of the scaled object."),
        column("Desired", "integer", "How many instances are wanted."),
        column("Available", "integer", "How many instances were seen."),
        column("Age", "date", "How long ago the scaled object was created."),
    ]
});

fn columns_json(columns: &[Column]) -> String {
    let mut text = String::from("[");
    for (index, column) in columns.iter().enumerate() {
        let Column { name, kind, format, description, priority } = column;
        let start = if index > 0 { ",{" } else { "{" };
        text.push_str(start);
        for (field, value) in [("name", name), ("type", kind), ("format", format), ("description", description)] {
            text.push_str(&format!("\"{field}\":"));
            go_json::write_string(&mut text, value);
            text.push(',');
        }
        text.push_str(&format!("\"priority\":{priority}}}"));
    }
    text.push(']');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_columns_of_a_scale_have_upstreams_types() {
        let told: Vec<_> = SCALE_COLUMNS.iter().map(|column| (&*column.name, &*column.kind, &*column.format)).collect();
        let upstreams =
            [("Name", "string", "name"), ("Desired", "integer", ""), ("Available", "integer", ""), ("Age", "date", "")];
        assert_eq!(told, upstreams);
    }
}
