//! Tests of validation and defaulting of definitions when they are written.

use rdd_meta::time::Timestamp;
use serde_json::{Value, json};

use super::support::{mk_definition, mk_definition_kind, mk_version, settled, texts};
use crate::{
    crd::{CLEANUP_FINALIZER, Ledger},
    registry::{Kind as _, Origin},
};

fn schema() -> Value {
    json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {"a": {"type": "string", "maxLength": 5}}}}})
}

fn with_rule(rule: Value) -> Value {
    let mut schema = schema();
    schema["properties"]["spec"]["x-kubernetes-validations"] = json!([rule]);
    settled(mk_definition(vec![mk_version("v1", schema)]))
}

#[test]
fn a_new_definition_is_complete_when_it_is_stored() {
    // Finding O-12
    let mut sent = mk_definition(vec![mk_version("v1", schema())]);
    sent["status"] = json!({"storedVersions": ["v9"], "conditions": [{"type": "Terminating", "status": "True"}]});
    let definition = settled(sent);
    assert_eq!(definition["metadata"]["generation"], 1);
    assert_eq!(definition["spec"]["conversion"], json!({"strategy": "None"}));
    let names = json!({"plural": "foos", "singular": "foo", "kind": "Foo", "listKind": "FooList"});
    let condition = |kind: &str, reason: &str, message: &str| json!({"type": kind, "status": "True", "reason": reason, "message": message, "lastTransitionTime": "2023-11-14T22:13:20Z"});
    assert_eq!(
        definition["status"],
        json!({"acceptedNames": names, "storedVersions": ["v1"], "conditions": [
            condition("NamesAccepted", "NoConflicts", "no conflicts found"),
            condition("Established", "InitialNamesAccepted", "the initial names have been accepted")]})
    );
    assert_eq!(texts(&mk_definition_kind(&Ledger::default()).validate_create(&definition)), [""; 0]);
}

#[test]
fn the_metadata_of_a_definition_has_a_last_look() {
    let mut definition = settled(mk_definition(vec![mk_version("v1", schema())]));
    definition["metadata"]["managedFields"] = json!([{"manager": "m", "operation": "Guess"}]);
    assert_eq!(
        texts(&mk_definition_kind(&Ledger::default()).validate_create(&definition)),
        [r#"metadata.managedFields[0].operation: Invalid value: "Guess": must be `Apply` or `Update`"#]
    );
}

#[test]
fn a_rule_that_does_not_parse_or_names_what_is_not_there_is_refused() {
    let kind = mk_definition_kind(&Ledger::default());
    let errors = |rule: Value| texts(&kind.validate_create(&with_rule(rule)));
    let place = "spec.validation.openAPIV3Schema.properties[spec].x-kubernetes-validations[0]";
    let shown = |rule: &str| {
        format!(
            r#"{{"Rule":"{rule}","Message":"","MessageExpression":"","Reason":null,"FieldPath":"","OptionalOldSelf":null}}"#
        )
    };
    assert_eq!(errors(json!({"rule": "self.a == 'x'"})), [""; 0]);
    assert_eq!(
        errors(json!({"rule": "self.zzz == 1"})),
        [format!(
            "{place}.rule: Invalid value: {}: compilation failed: ERROR: <input>:1:5: undefined field 'zzz'\n | self.zzz == 1\n | ....^",
            shown("self.zzz == 1")
        )]
    );
    let found = errors(json!({"rule": "self.a =="}));
    assert!(
        found.len() == 1 && found[0].contains("compilation failed: ERROR: <input>:1:10: Syntax error"),
        "{found:?}"
    );
    let found = errors(json!({"rule": "self.a"}));
    assert!(found[0].ends_with("cel expression must evaluate to a bool"), "{found:?}");
    let found = errors(json!({"rule": "true", "messageExpression": "1"}));
    assert!(found[0].starts_with(&format!("{place}.messageExpression")), "{found:?}");
    assert!(found[0].ends_with("messageExpression must evaluate to a string"), "{found:?}");
    let found = errors(json!({"rule": "true", "optionalOldSelf": true}));
    assert_eq!(
        found,
        [format!("{place}.optionalOldSelf: Invalid value: true: may not be set if oldSelf is not used in rule")]
    );
}

#[test]
fn a_default_must_pass_the_rules() {
    let mut schema = schema();
    schema["properties"]["spec"]["properties"]["a"]["default"] = "bad".into();
    schema["properties"]["spec"]["properties"]["a"]["x-kubernetes-validations"] = json!([{"rule": "self != 'bad'"}]);
    let definition = settled(mk_definition(vec![mk_version("v1", schema)]));
    let found = texts(&mk_definition_kind(&Ledger::default()).validate_create(&definition));
    let place = "spec.validation.openAPIV3Schema.properties[spec].properties[a].default";
    assert_eq!(found, [format!("{place}: Invalid value: \"bad\": failed rule: self != 'bad'")]);
}

#[test]
fn what_is_wrong_with_names_is_said_once() {
    let mut sent = mk_definition(vec![mk_version("v1", schema())]);
    sent["spec"]["names"]["kind"] = "not a kind".into();
    let found = texts(&mk_definition_kind(&Ledger::default()).validate_create(&settled(sent)));
    assert!(!found.is_empty() && found.iter().all(|text| text.starts_with("spec.names")), "{found:?}");
}

#[test]
fn an_update_counts_the_generation_and_remembers_stored_versions() {
    let kind = mk_definition_kind(&Ledger::default());
    let old = settled(mk_definition(vec![mk_version("v1", schema()), mk_version("v2", schema())]));
    let mut new = old.clone();
    new["metadata"]["resourceVersion"] = "1".into();
    new["spec"]["versions"][0]["storage"] = false.into();
    new["spec"]["versions"][1]["storage"] = true.into();
    new["spec"]["names"]["shortNames"] = json!(["f"]);
    new["status"] = json!({});
    kind.prepare_for_update("", &mut new, &old);
    assert_eq!(new["metadata"]["generation"], 2);
    assert_eq!(new["status"]["storedVersions"], json!(["v1", "v2"]));
    assert_eq!(new["status"]["acceptedNames"]["shortNames"], json!(["f"]));
    assert_eq!(new["status"]["conditions"], old["status"]["conditions"]);
    assert_eq!(texts(&kind.validate_update("", &new, &old)), [""; 0]);
    new["spec"]["scope"] = "Cluster".into();
    assert_eq!(
        texts(&kind.validate_update("", &new, &old)),
        [r#"spec.scope: Invalid value: "Cluster": field is immutable"#]
    );

    let mut same = old.clone();
    same["metadata"]["labels"] = json!({"a": "b"});
    kind.prepare_for_update("", &mut same, &old);
    assert_eq!(same["metadata"]["generation"], 1);
}

#[test]
fn the_status_endpoint_changes_the_status_alone() {
    let kind = mk_definition_kind(&Ledger::default());
    let old = settled(mk_definition(vec![mk_version("v1", schema())]));
    let mut new = old.clone();
    new["metadata"]["resourceVersion"] = "1".into();
    new["spec"] = json!({});
    new["status"]["storedVersions"] = json!([]);
    kind.prepare_for_update("status", &mut new, &old);
    assert_eq!(new["spec"], old["spec"]);
    // As upstream, the server trusts a client that removes a version after it migrated the stored objects.
    assert!(kind.validate_update("status", &new, &old).is_empty());
    new["status"]["acceptedNames"]["kind"] = json!("no kind");
    let found = texts(&kind.validate_update("status", &new, &old));
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(kind.reset_fields("status")["apiextensions.k8s.io/v1"].paths().len(), 2);
    assert_eq!(kind.reset_fields("")["apiextensions.k8s.io/v1"].paths().len(), 1);
}

#[test]
fn formats_that_nobody_checks_are_warned_about_when_they_are_new() {
    let kind = mk_definition_kind(&Ledger::default());
    let definition = |format: &str| {
        let mut schema = schema();
        schema["properties"]["spec"]["properties"]["a"]["format"] = format.into();
        settled(mk_definition(vec![mk_version("v1", schema)]))
    };
    assert_eq!(kind.warnings(&definition("odd"), None), [r#"unrecognized format "odd""#]);
    assert_eq!(kind.warnings(&definition("odd"), Some(&definition("odd"))), [""; 0]);
    assert_eq!(kind.warnings(&definition("uuid"), None), [""; 0]);
}

#[test]
fn a_deletion_waits_for_the_clean_up() {
    let kind = mk_definition_kind(&Ledger::default());
    let mut definition = settled(mk_definition(vec![mk_version("v1", schema())]));
    definition["metadata"]["finalizers"] = json!(["other.io/x"]);
    assert!(kind.begin_deletion(&mut definition, Timestamp::new(1_700_000_001, 0)));
    assert!(kind.begin_deletion(&mut definition, Timestamp::new(1_700_000_002, 0)));
    assert_eq!(definition["metadata"]["finalizers"], json!(["other.io/x", CLEANUP_FINALIZER]));
    assert_eq!(definition["metadata"]["deletionTimestamp"], "2023-11-14T22:13:21Z");
    assert_eq!(
        (definition["metadata"].get("deletionGracePeriodSeconds"), &definition["metadata"]["generation"]),
        (None, &json!(1))
    );
    assert_eq!(
        definition["status"]["conditions"][2],
        json!({"type": "Terminating", "status": "True", "reason": "InstanceDeletionPending", "lastTransitionTime": "2023-11-14T22:13:21Z",
            "message": "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon"})
    );
}

#[test]
fn decoding_completes_a_definition() {
    let kind = mk_definition_kind(&Ledger::default());
    let mut definition = mk_definition(vec![mk_version("v1", schema())]);
    kind.decode(&mut definition, Origin::Request).unwrap();
    assert_eq!(definition["spec"]["names"]["listKind"], "FooList");
    let mut again = definition.clone();
    kind.default(&mut again);
    assert_eq!(again, definition);
}
