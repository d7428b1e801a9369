//! Tests of reading one object.

use serde_json::json;

use crate::support::{PARTIAL, TABLE, THINGS, World};

#[tokio::test]
async fn an_object_is_answered_as_it_is_stored_with_its_version() {
    let world = World::new().await;
    let revision = world.put("a", 3, "1").await;
    let told = world.ask(&format!("{THINGS}/a"), &[]).await;
    assert_eq!((told.code.as_u16(), told.content_type()), (200, "application/json"));
    let expected = format!(
        r#"{{"apiVersion":"example.dev/v1","kind":"Thing","metadata":{{"resourceVersion":"{revision}","creationTimestamp":"2023-11-14T22:13:20Z","labels":{{"on":"1"}},"name":"a","namespace":"ns","uid":"uid-a"}},"spec":{{"size":3}}}}{}"#,
        "\n"
    );
    assert_eq!(told.text(), expected);
    let other = world.json("/apis/example.dev/v2/namespaces/ns/things/a").await;
    assert_eq!((&other["apiVersion"], &other["spec"]["size"]), (&json!("example.dev/v2"), &json!(3)));
}

#[tokio::test]
async fn what_is_not_there_is_told_in_the_notation_of_the_client() {
    let world = World::new().await;
    let told = world.accept(&format!("{THINGS}/nope"), "application/yaml").await;
    assert_eq!((told.code.as_u16(), told.content_type()), (404, "application/yaml"));
    assert_eq!(
        told.text(),
        "apiVersion: v1\ncode: 404\ndetails:\n  group: example.dev\n  kind: things\n  name: nope\nkind: Status\nmessage: things.example.dev \"nope\" not found\nmetadata: {}\nreason: NotFound\nstatus: Failure\n"
    );
    // An error has no table form, so a client that accepts only tables gets it as pretty-printed JSON.
    let told = world.accept(&format!("{THINGS}/nope"), TABLE).await;
    assert!(told.text().starts_with("{\n  \"kind\": \"Status\","), "{}", told.text());
    assert!(told.text().ends_with('}'));
}

#[tokio::test]
async fn a_revision_that_has_not_happened_is_waited_for_and_then_refused() {
    let world = World::new().await;
    let revision = world.put("a", 1, "1").await;
    for version in ["0".to_owned(), revision.to_string()] {
        assert_eq!(world.json(&format!("{THINGS}/a?resourceVersion={version}")).await["kind"], "Thing");
    }
    tokio::time::pause();
    let started = tokio::time::Instant::now();
    let told = world.ask(&format!("{THINGS}/a?resourceVersion=99999999"), &[]).await;
    assert_eq!(started.elapsed().as_secs(), 3);
    assert_eq!((told.code.as_u16(), &told.headers["retry-after"]), (504, &"1".parse().unwrap()));
    let status = told.json();
    assert_eq!(status["message"], format!("Timeout: Too large resource version: 99999999, current: {revision}"));
    assert_eq!(status["details"]["causes"][0]["reason"], "ResourceVersionTooLarge");
    assert_eq!(world.ask(&format!("{THINGS}/a?resourceVersion=x"), &[]).await.code.as_u16(), 500);
    assert_eq!(world.ask(&format!("{THINGS}/a?export=true"), &[]).await.code.as_u16(), 400);
}

#[tokio::test]
async fn an_object_that_is_older_than_its_definition_is_brought_into_form() {
    let world = World::new().await;
    let revision = world.put("a", 3, "1").await;
    assert_eq!(world.json(&format!("{THINGS}/a")).await["spec"], json!({"size": 3}));
    world.api.registry.put(crate::support::mk_things("uid-1", revision.0 + 1));
    let told = world.json(&format!("{THINGS}/a")).await;
    assert_eq!(told["spec"], json!({"size": 3, "color": "grey"}));
    assert_eq!(told["metadata"]["resourceVersion"], revision.to_string());
}

#[tokio::test]
async fn a_scale_stands_for_the_replicas() {
    let world = World::new().await;
    let revision = world.put("a", 3, "1").await;
    let scale = world.json(&format!("{THINGS}/a/scale")).await;
    assert_eq!((&scale["kind"], &scale["apiVersion"]), (&json!("Scale"), &json!("autoscaling/v1")));
    assert_eq!(
        (&scale["spec"], &scale["metadata"]["resourceVersion"]),
        (&json!({"replicas": 3}), &json!(revision.to_string()))
    );
    let table = world.accept(&format!("{THINGS}/a/scale"), TABLE).await.json();
    assert_eq!(table["rows"][0]["cells"], json!(["a", 3, 0, "100s"]));
}

#[tokio::test]
async fn metadata_alone_is_cut_out() {
    let world = World::new().await;
    let revision = world.put("a", 3, "1").await;
    let told = world.accept(&format!("{THINGS}/a"), PARTIAL).await.json();
    assert_eq!((&told["kind"], &told["apiVersion"]), (&json!("PartialObjectMetadata"), &json!("meta.k8s.io/v1")));
    assert_eq!(told["metadata"]["resourceVersion"], revision.to_string());
    assert!(told.get("spec").is_none());
    let told = world.accept(&format!("{THINGS}/a"), &PARTIAL.replace("Metadata;", "MetadataList;")).await;
    assert_eq!(told.code.as_u16(), 406);
    let message =
        "you requested PartialObjectMetadataList, but the requested object is not a list (*unstructured.Unstructured)";
    assert_eq!(told.json()["message"], message);
}
