//! Tests of custom resources on the way to the store: defaulting, pruning and validation, also in dry runs.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use crate::{
    support::{World, definition},
    wire::{APPLY, JSON, MERGE, Told},
};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const WIDGETS: &str = "/apis/example.dev/v1/namespaces/default/widgets";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// A version of `Widget` with these properties and the metadata.
fn version(name: &str, properties: Value) -> Value {
    let mut version = definition(json!({}))["spec"]["versions"][0].clone();
    version["name"] = name.into();
    version["schema"]["openAPIV3Schema"]["properties"] = properties;
    version
}

/// Creates the definition of widgets with these versions, the last of which is the storage version.
async fn define(world: &World, mut versions: Vec<Value>) -> Told {
    let last = versions.len() - 1;
    for (index, version) in versions.iter_mut().enumerate() {
        version["storage"] = (index == last).into();
    }
    let mut definition = definition(json!({}));
    definition["spec"]["versions"] = versions.into();
    world.ask("POST", DEFINITIONS, JSON, definition).await
}

fn widget(name: &str, content: Value) -> Value {
    let mut widget = json!({"apiVersion": "example.dev/v1", "kind": "Widget", "metadata": {"name": name}});
    widget.as_object_mut().unwrap().extend(content.as_object().unwrap().clone());
    widget
}

/// An object without the fields that differ between a dry run and a write.
fn content(object: &Value) -> Value {
    let mut object = object.clone();
    let metadata = object["metadata"].as_object_mut().unwrap();
    for field in ["uid", "resourceVersion", "creationTimestamp", "managedFields"] {
        metadata.remove(field);
    }
    object
}

// Finding E-10
#[tokio::test]
async fn the_defaults_of_a_status_are_set_in_every_answer_although_creating_takes_the_status_away() {
    let world = World::open().await;
    let text = |default: &str| json!({"type": "string", "default": default});
    let status = json!({"type": "object", "default": {"phase": "Pending"}, "properties": {
        "phase": {"type": "string"}, "reason": text("Waiting"), "old": {"type": "string"}}});
    let mut version = version(
        "v1",
        json!({"spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}, "status": status}),
    );
    version["subresources"] = json!({"status": {}});
    assert_eq!(define(&world, vec![version]).await.code, 201);
    let expected = json!({"phase": "Pending", "reason": "Waiting"});

    let sent = widget("a", json!({"status": {"phase": "Ready", "old": "x"}}));
    let dry = world.ask("POST", &format!("{WIDGETS}?dryRun=All"), JSON, &sent).await;
    assert_eq!((dry.code, &dry.body["status"]), (201, &expected), "{dry:?}");
    let made = world.ask("POST", WIDGETS, JSON, &sent).await;
    assert_eq!((made.code, &made.body["status"]), (201, &expected), "{made:?}");
    assert_eq!(content(&made.body), content(&dry.body));

    assert_eq!(world.get(&format!("{WIDGETS}/a")).await.body["status"], expected);
    assert_eq!(world.get(WIDGETS).await.body["items"][0]["status"], expected);
    let events = world.get(&format!("{WIDGETS}?watch=true&resourceVersion=0&timeoutSeconds=1")).await;
    assert_eq!(events.body["object"]["status"], expected, "{events:?}");

    let applied = world.ask("PATCH", &format!("{WIDGETS}/b?fieldManager=m"), APPLY, widget("b", json!({}))).await;
    assert_eq!((applied.code, &applied.body["status"]), (201, &expected), "{applied:?}");
    // Defaults that exist already are not a change, so the generation stays.
    let patch = json!({"metadata": {"labels": {"a": "b"}}});
    let patched = world.ask("PATCH", &format!("{WIDGETS}/a"), MERGE, patch).await;
    assert_eq!((&patched.body["status"], &patched.body["metadata"]["generation"]), (&expected, &json!(1)));
}

// Finding E-17
#[tokio::test]
async fn a_dry_run_through_another_version_answers_as_the_write_itself() {
    let world = World::open().await;
    let text = json!({"type": "string"});
    let spec = |properties: Value| json!({"spec": {"type": "object", "properties": properties}});
    let v1 = version(
        "v1",
        spec(json!({"both": text, "only": text, "unset": text, "null": {"type": "string", "nullable": true}})),
    );
    let v2 = version("v2", spec(json!({"both": text, "unset": {"type": "string", "default": "stored"}, "null": text})));
    assert_eq!(define(&world, vec![v1, v2]).await.code, 201);
    let sent = |name: &str| widget(name, json!({"spec": {"both": "1", "only": "2", "null": null}}));
    let expected = json!({"both": "1", "unset": "stored"});

    let dry = world.ask("POST", &format!("{WIDGETS}?dryRun=All"), JSON, sent("a")).await;
    assert_eq!((dry.code, &dry.body["spec"]), (201, &expected), "{dry:?}");
    let made = world.ask("POST", WIDGETS, JSON, sent("a")).await;
    assert_eq!(content(&made.body), content(&dry.body));
    let dry = world.ask("PATCH", &format!("{WIDGETS}/b?fieldManager=m&dryRun=All"), APPLY, sent("b")).await;
    assert_eq!((dry.code, &dry.body["spec"]), (201, &expected), "{dry:?}");

    let patch = json!({"spec": {"both": "3", "only": "4", "unset": null}});
    let path = format!("{WIDGETS}/a");
    let dry = world.ask("PATCH", &format!("{path}?dryRun=All"), MERGE, &patch).await;
    assert_eq!((dry.code, &dry.body["spec"]), (200, &json!({"both": "3", "unset": "stored"})), "{dry:?}");
    let patched = world.ask("PATCH", &path, MERGE, &patch).await;
    assert_eq!(content(&patched.body), content(&dry.body));
}

// Finding E-15
#[tokio::test]
async fn only_the_store_refuses_to_create_an_object_with_a_version() {
    let world = World::open().await;
    assert_eq!(define(&world, vec![version("v1", json!({}))]).await.code, 201);
    let with_version = |object: &Value, version: &str| {
        let mut object = object.clone();
        object["metadata"]["resourceVersion"] = version.into();
        object
    };
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}});
    for (path, object) in [(WIDGETS, widget("m", json!({}))), (MAPS, map)] {
        for version in ["5", "0", "x"] {
            let dry = world.ask("POST", &format!("{path}?dryRun=All"), JSON, with_version(&object, version)).await;
            assert_eq!((dry.code, &dry.body["metadata"]["resourceVersion"]), (201, &json!(version)), "{dry:?}");
        }
        let refused = world.ask("POST", path, JSON, with_version(&object, "5")).await;
        let why = "resourceVersion should not be set on objects to be created";
        assert_eq!((refused.code, refused.message()), (500, why));
        // The store ignores a version that is not a number.
        let made = world.ask("POST", path, JSON, with_version(&object, "x")).await;
        assert_eq!(made.code, 201, "{made:?}");
        assert!(made.body["metadata"]["resourceVersion"].as_str().unwrap().parse::<u64>().is_ok());
    }
}

fn condition<'v>(definition: &'v Value, kind: &str) -> [&'v str; 3] {
    let conditions = definition["status"]["conditions"].as_array().unwrap();
    let found = conditions.iter().find(|condition| condition["type"] == kind).unwrap();
    ["status", "reason", "message"].map(|field| found[field].as_str().unwrap())
}

// Finding E-16
#[tokio::test]
async fn a_definition_whose_ca_bundle_is_invalid_is_not_established_and_an_established_one_keeps_a_valid_one() {
    let authority = include_str!("../../../rdd-schema/src/crd/ca_bundle/testdata/authority.pem");
    let world = World::open().await;
    let with_bundle = |bundle: &str| {
        let client = json!({"url": "https://a.b/c", "caBundle": STANDARD.encode(bundle)});
        let webhook = json!({"clientConfig": client, "conversionReviewVersions": ["v1"]});
        json!({"spec": {"conversion": {"strategy": "Webhook", "webhook": webhook}}})
    };
    let mut sent = definition(json!({}));
    sent["spec"]["conversion"] = with_bundle("\n")["spec"]["conversion"].clone();
    let made = world.ask("POST", DEFINITIONS, JSON, sent).await;
    assert_eq!(made.code, 201, "{made:?}");
    assert_eq!(condition(&made.body, "NamesAccepted"), ["True", "NoConflicts", "no conflicts found"]);
    let invalid = ["False", "InvalidCABundle", "The conversion webhook CABundle is invalid"];
    assert_eq!(condition(&made.body, "Established"), invalid);
    let told = world.get(WIDGETS).await;
    assert_eq!((told.code, told.message()), (500, "Internal error occurred: error resolving resource"));
    assert_eq!(world.get("/apis/example.dev/v2/namespaces/default/widgets").await.code, 404);
    assert_eq!(world.get("/apis/example.dev/v1").await.code, 404);

    let path = format!("{DEFINITIONS}/widgets.example.dev");
    let still = world.ask("PATCH", &path, MERGE, with_bundle("still bad")).await;
    assert_eq!((still.code, condition(&still.body, "Established")), (200, invalid));
    let good = world.ask("PATCH", &path, MERGE, with_bundle(authority)).await;
    let established = ["True", "InitialNamesAccepted", "the initial names have been accepted"];
    assert_eq!((good.code, condition(&good.body, "Established")), (200, established));
    assert_eq!(world.get(WIDGETS).await.code, 200);
    assert_eq!(world.get("/apis/example.dev/v1").await.code, 200);

    let refused = world.ask("PATCH", &path, MERGE, with_bundle("bad")).await;
    let why = "CustomResourceDefinition.apiextensions.k8s.io \"widgets.example.dev\" is invalid: \
               spec.conversion.webhookClientConfig.caBundle: Invalid value: \"YmFk\": unable to load root certificates: \
               unable to parse bytes as PEM block";
    assert_eq!((refused.code, refused.message()), (422, why));
}

// Finding E-14
#[tokio::test]
async fn a_rule_below_an_atomic_map_sees_the_old_value() {
    let world = World::open().await;
    let rule = json!({"rule": "self == oldSelf", "message": "stays"});
    let field = json!({"type": "string", "x-kubernetes-validations": [rule]});
    let spec = json!({"type": "object", "x-kubernetes-map-type": "atomic", "properties": {"kept": field}});
    let defined = define(&world, vec![version("v1", json!({"spec": spec}))]).await;
    assert_eq!(defined.code, 201, "{defined:?}");
    let made = world.ask("POST", WIDGETS, JSON, widget("a", json!({"spec": {"kept": "1"}}))).await;
    assert_eq!(made.code, 201, "{made:?}");
    let refused = world.ask("PATCH", &format!("{WIDGETS}/a"), MERGE, json!({"spec": {"kept": "2"}})).await;
    let why = "Widget.example.dev \"a\" is invalid: spec.kept: Invalid value: \"2\": stays";
    assert_eq!((refused.code, refused.message()), (422, why));
}

// Finding E-13
#[tokio::test]
async fn a_pattern_that_repeats_a_class_of_unicode_is_valid_and_matches() {
    let world = World::open().await;
    let name = json!({"type": "string", "pattern": r"^\p{L}{1,253}$",
        "x-kubernetes-validations": [{"rule": r"self.matches('^[\\p{L}\\p{N}]{1,253}$')"}]});
    let spec = json!({"type": "object", "properties": {"name": name}});
    assert_eq!(define(&world, vec![version("v1", json!({"spec": spec}))]).await.code, 201);
    let made = world.ask("POST", WIDGETS, JSON, widget("a", json!({"spec": {"name": "Größe"}}))).await;
    assert_eq!(made.code, 201, "{made:?}");
    let refused = world.ask("POST", WIDGETS, JSON, widget("b", json!({"spec": {"name": "a b"}}))).await;
    let pattern = r"spec.name in body should match '^\p{L}{1,253}$'";
    assert!(refused.code == 422 && refused.message().contains(pattern), "{refused:?}");
}
