//! Tests of borderline bodies and patches, and of the errors and warnings for them.

use serde_json::{Value, json};

use crate::{
    support::{SPOILED, World, definition},
    wire::{JSON, JSON_PATCH, MERGE, YAML},
};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const WIDGETS: &str = "/apis/example.dev/v1/namespaces/default/widgets";

#[tokio::test]
async fn what_is_twice_in_yaml_is_a_warning_for_each_line() {
    let world = World::open().await;
    let text = "metadata: {name: twice}\ndata:\n  a: b\n  a: c\n  d: e\n  d: f\n";
    let made = world.ask("POST", MAPS, YAML, text).await;
    assert_eq!((made.code, &made.body["data"]), (201, &json!({"a": "c", "d": "f"})), "{made:?}");
    let warnings =
        [r#"299 - "line 4: key \"a\" already set in map""#, r#"299 - "line 6: key \"d\" already set in map""#];
    assert_eq!(made.warnings, warnings);
    let strict = world.ask("POST", &format!("{MAPS}?fieldValidation=Strict"), YAML, text).await;
    assert_eq!(strict.code, 400, "{strict:?}");
}

#[tokio::test]
async fn owners_of_fields_that_a_plug_in_spoils_are_put_back_with_a_warning() {
    let world = World::open().await;
    let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": SPOILED}, "data": {"a": "b"}});
    let made = world.ask("POST", &format!("{MAPS}?fieldManager=me"), JSON, &body).await;
    let [owner] = made.body["metadata"]["managedFields"].as_array().unwrap().as_slice() else { panic!("{made:?}") };
    assert_eq!((&owner["manager"], &owner["fieldsV1"]), (&json!("me"), &json!({"f:data": {".": {}, "f:a": {}}})));
    let [warning] = made.warnings.as_slice() else { panic!("{made:?}") };
    assert!(warning.contains(".metadata.managedFields was in an invalid state after admission"), "{warning}");
}

#[tokio::test]
async fn a_patch_that_takes_the_version_of_a_built_in_object_leaves_nothing_of_it() {
    let world = World::open().await;
    world.map("m", &[]).await;
    let path = format!("{MAPS}/m");
    let remove = |field: &str| json!([{"op": "remove", "path": field}]);
    for (content_type, patch) in [
        (JSON_PATCH, remove("/apiVersion")),
        (MERGE, json!({"apiVersion": null, "kind": null})),
        (MERGE, json!({"apiVersion": ""})),
    ] {
        let told = world.ask("PATCH", &path, content_type, &patch).await;
        let why = "the name of the object (m based on URL) was undeterminable: name must be provided";
        assert_eq!((told.code, told.message()), (400, why), "{patch}");
        assert_eq!(told.warnings, [r#"299 - "unknown field \"metadata\"""#], "{patch}");
    }
    for (content_type, patch) in [
        (JSON_PATCH, remove("/kind")),
        (MERGE, json!({"kind": null})),
        ("application/strategic-merge-patch+json", json!({"apiVersion": null, "kind": null})),
    ] {
        let told = world.ask("PATCH", &path, content_type, &patch).await;
        assert_eq!((told.code, &told.body["kind"]), (200, &json!("ConfigMap")), "{patch}: {told:?}");
    }
}

#[tokio::test]
async fn a_patch_that_takes_the_type_of_a_custom_object_is_refused() {
    let world = World::open().await;
    world.define(json!({})).await;
    let widget = json!({"apiVersion": "example.dev/v1", "kind": "Widget", "metadata": {"name": "w"}});
    assert_eq!(world.ask("POST", WIDGETS, JSON, widget).await.code, 201);
    let path = format!("{WIDGETS}/w");
    let told = world.ask("PATCH", &path, MERGE, json!({"apiVersion": null})).await;
    let why = "Internal error occurred: Object 'apiVersion' is missing in 'object has no apiVersion field'";
    assert_eq!((told.code, told.message()), (500, why));
    let told = world.ask("PATCH", &path, MERGE, json!({"apiVersion": "other.dev/v1"})).await;
    assert!(told.message().starts_with("Widget.other.dev \"w\" is invalid: apiVersion: "), "{told:?}");
    let told = world.ask("PATCH", &path, MERGE, json!({"kind": null})).await;
    assert_eq!(told.code, 422, "{told:?}");
    let (shown, why) = told.message().split_once(": Object 'Kind' is missing in '").expect("it says why");
    assert!(shown.starts_with(r#" "" is invalid: patch: Invalid value: "{"#), "{shown}");
    assert!(why.starts_with(r#"{"apiVersion":"example.dev/v1","metadata":{"#) && why.ends_with("}'"), "{why}");
}

#[tokio::test]
async fn a_number_that_does_not_fit_is_told_as_it_was_written() {
    let world = World::open().await;
    for number in ["1e2", "1.0", "1.50", "1E5", "0.1e1", "99999999999999999999"] {
        let body = format!(r#"{{"metadata":{{"name":"100 \"1e2","generation":{number}}}}}"#);
        let told = world.ask("POST", MAPS, JSON, body).await;
        let wanted = format!(
            "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: json: cannot unmarshal number {number} into Go \
             struct field ObjectMeta.metadata.generation of type int64"
        );
        assert_eq!((told.code, told.message()), (400, &*wanted));
    }
}

#[tokio::test]
async fn a_content_type_that_go_cannot_read_is_unsupported() {
    let world = World::open().await;
    let body = json!({"metadata": {"generateName": "x-"}});
    for (content_type, code) in [
        ("application/json; charset=utf-8", 201),
        ("application/json;", 201),
        ("APPLICATION/JSON ;a=b; c=\"d e\"", 201),
        ("application/json;charset", 415),
        ("application/json; a=b; c", 415),
        ("application/json;=", 415),
        ("application/json;a=b;A=c", 415),
        ("application/json;charset=\"utf-8", 415),
        ("application/json, application/yaml", 415),
    ] {
        assert_eq!(world.ask("POST", MAPS, content_type, &body).await.code, code, "{content_type}");
    }
}

#[tokio::test]
async fn a_deprecated_version_is_told_of_also_where_it_has_less() {
    let world = World::open().await;
    let mut widgets = definition(json!({}));
    let mut old = widgets["spec"]["versions"][0].clone();
    old["name"] = "v1beta1".into();
    old["storage"] = false.into();
    old["deprecated"] = true.into();
    widgets["spec"]["versions"].as_array_mut().unwrap().push(old);
    let made = world.ask("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", JSON, widgets).await;
    assert_eq!(made.code, 201, "{made:?}");
    let told = world.get("/apis/example.dev/v1beta1/namespaces/default/widgets/w/status").await;
    let warnings = [r#"299 - "example.dev/v1beta1 Widget is deprecated; use example.dev/v1 Widget""#];
    assert_eq!((told.code, &told.warnings[..]), (404, &warnings.map(str::to_owned)[..]), "{told:?}");
    let told = world.get(&format!("{WIDGETS}/w/status")).await;
    assert_eq!((told.code, told.warnings.len()), (404, 0), "{told:?}");
}

#[tokio::test]
async fn many_are_deleted_as_they_were_in_the_version_that_is_asked_for() {
    let world = World::open().await;
    world.map("first", &[]).await;
    let version = world.get(MAPS).await.body["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    world.map("second", &[]).await;
    let path = format!("{MAPS}?resourceVersion={version}&fieldSelector=metadata.name!%3Dkube-root-ca.crt");
    // Without a body, the parameter would be a precondition on each object.
    let told = world.ask("DELETE", &path, JSON, json!({})).await;
    assert_eq!((told.code, &told.body["metadata"]["resourceVersion"]), (200, &json!(version)), "{told:?}");
    assert_eq!((world.has("first"), world.has("second")), (false, true));
}

#[tokio::test]
async fn a_selector_that_cannot_be_read_is_told_in_the_answer() {
    let world = World::open().await;
    let ask = async |attributes: Value| {
        let review = json!({"spec": {"user": "u", "resourceAttributes": attributes}});
        world.ask("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", JSON, review).await.body["status"]
            .clone()
    };
    let label = |operator: &str| json!({"key": "a", "operator": operator});
    for (attributes, ignored) in [
        (json!({"labelSelector": {"rawSelector": "a=b"}, "fieldSelector": {"rawSelector": "a=b"}}), ""),
        (
            json!({"labelSelector": {"rawSelector": "(("}}),
            "spec.resourceAttributes.labelSelector ignored due to parse error",
        ),
        (
            json!({"labelSelector": {"rawSelector": "a in"}, "fieldSelector": {"rawSelector": "a"}}),
            "spec.resourceAttributes.fieldSelector ignored due to parse error; \
             spec.resourceAttributes.labelSelector ignored due to parse error",
        ),
        (
            json!({"labelSelector": {"requirements": [label("Exists"), label("Bogus")]}}),
            "spec.resourceAttributes.labelSelector partially ignored due to parse error",
        ),
        (
            json!({"fieldSelector": {"requirements": [label("Exists")]}}),
            "spec.resourceAttributes.fieldSelector ignored due to parse error",
        ),
    ] {
        let status = ask(attributes.clone()).await;
        assert_eq!(status["allowed"], true, "{attributes}");
        assert_eq!(status["evaluationError"].as_str().unwrap_or_default(), ignored, "{attributes}");
    }
}

#[tokio::test]
async fn a_get_of_a_revision_that_is_yet_to_come_is_answered_when_it_has() {
    // Leaves room for writes of the server's own controllers.
    const AHEAD: u64 = 30;
    let world = World::open().await;
    let map = |name: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
    let first = world.ask("POST", MAPS, JSON, map("first")).await;
    let revision: u64 = first.body["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
    let path = format!("{MAPS}/first?resourceVersion={}", revision + AHEAD);
    let more = async {
        for number in 0..AHEAD {
            assert_eq!(world.ask("POST", MAPS, JSON, map(&format!("more-{number}"))).await.code, 201);
        }
    };
    let (told, ()) = tokio::join!(world.get(&path), more);
    assert_eq!((told.code, told.body), (200, first.body));
}
