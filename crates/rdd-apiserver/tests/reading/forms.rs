//! Tests of the representations: tables, partial metadata, YAML, and pretty-printed JSON.

use serde_json::json;

use crate::support::{PARTIAL, TABLE, THINGS, WIDGETS, World};

#[tokio::test]
async fn an_object_is_a_table_of_one_row() {
    let world = World::new().await;
    let revision = world.put("a", 3, "1").await.to_string();
    let path = format!("{THINGS}/a");
    let table = world.accept(&path, TABLE).await;
    let start = format!(
        r#"{{"kind":"Table","apiVersion":"meta.k8s.io/v1","metadata":{{"resourceVersion":"{revision}"}},"columnDefinitions":[{{"name":"Name","type":"string","format":"name","description":"\u003cName\u003e","priority":0}},"#
    );
    assert!(table.text().starts_with(&start), "{}", table.text());
    let row = &table.json()["rows"][0];
    assert_eq!(row["cells"], json!(["a", 3, "100s"]));
    assert_eq!(
        (&row["object"]["kind"], &row["object"]["metadata"]["name"]),
        (&json!("PartialObjectMetadata"), &json!("a"))
    );
    let none = world.accept(&format!("{path}?includeObject=None"), TABLE).await.json();
    assert_eq!(none["rows"][0], json!({"cells": ["a", 3, "100s"], "object": null}));
    let whole = world.accept(&format!("{path}?includeObject=Object"), TABLE).await.json();
    assert_eq!(
        (&whole["rows"][0]["object"]["kind"], &whole["rows"][0]["object"]["spec"]),
        (&json!("Thing"), &json!({"size": 3}))
    );
    assert_eq!(world.accept(&format!("{path}?includeObject=Foo"), TABLE).await.code.as_u16(), 400);
    let older = world.accept(&path, &TABLE.replace("v=v1;", "v=v1beta1;")).await.json();
    assert_eq!(
        (&older["apiVersion"], &older["rows"][0]["object"]["apiVersion"]),
        (&json!("meta.k8s.io/v1beta1"), &json!("meta.k8s.io/v1beta1"))
    );
}

#[tokio::test]
async fn a_list_is_a_table_with_the_lists_metadata() {
    let world = World::new().await;
    for name in ["a", "b", "c"] {
        world.put(name, 3, "1").await;
    }
    let table = world.accept(&format!("{THINGS}?limit=2"), TABLE).await.json();
    assert_eq!(table["rows"].as_array().unwrap().len(), 2);
    assert_eq!(table["metadata"]["remainingItemCount"], 1);
    assert!(table["metadata"]["continue"].is_string());
    let empty = world.accept(WIDGETS, TABLE).await.json();
    assert_eq!((&empty["rows"], empty["columnDefinitions"].as_array().unwrap().len()), (&json!([]), 3));
}

#[tokio::test]
async fn a_list_of_metadata_has_the_type_on_each_item() {
    let world = World::new().await;
    world.put_widget("w", "x").await;
    let told = world.accept(WIDGETS, &PARTIAL.replace("Metadata;", "MetadataList;")).await.json();
    assert_eq!((&told["kind"], &told["apiVersion"]), (&json!("PartialObjectMetadataList"), &json!("meta.k8s.io/v1")));
    assert_eq!(told["items"][0]["kind"], "PartialObjectMetadata");
    assert!(told["items"][0].get("data").is_none());
    let told = world.accept(WIDGETS, PARTIAL).await;
    let message = "you requested PartialObjectMetadata, but the requested object is a list (*core.WidgetList)";
    assert_eq!((told.code.as_u16(), &told.json()["message"]), (406, &json!(message)));
}

#[tokio::test]
async fn yaml_and_indented_json_have_the_same_content() {
    let world = World::new().await;
    let revision = world.put_widget("w", "two\nlines\n").await;
    let told = world.accept(WIDGETS, "application/yaml").await;
    assert_eq!(told.content_type(), "application/yaml");
    assert_eq!(
        told.text(),
        format!(
            "apiVersion: v1\nitems:\n- data: |\n    two\n    lines\n  metadata:\n    name: w\n    resourceVersion: \"{revision}\"\n  spec:\n    size: 1\nkind: WidgetList\nmetadata:\n  resourceVersion: \"{revision}\"\n"
        )
    );
    let pretty = world.ask(&format!("{WIDGETS}/w"), &[("user-agent", "curl/8.1")]).await;
    assert!(pretty.text().starts_with("{\n  \"apiVersion\": \"v1\",\n  \"kind\": \"Widget\","), "{}", pretty.text());
    assert!(pretty.text().ends_with("\n}"));
    assert_eq!(pretty.json(), world.json(&format!("{WIDGETS}/w")).await);
}

#[tokio::test]
async fn what_we_cannot_write_is_refused_with_what_we_can() {
    let world = World::new().await;
    let told = world.accept(WIDGETS, "application/cbor").await;
    assert_eq!(told.code.as_u16(), 406);
    let message = "406: Not Acceptable\n\nAvailable representations: application/json, application/yaml, application/vnd.kubernetes.protobuf";
    assert_eq!(told.json()["message"], message);
    let both = world.accept(WIDGETS, "application/vnd.kubernetes.protobuf,application/json").await;
    assert_eq!((both.code.as_u16(), both.content_type()), (200, "application/json"));
}
