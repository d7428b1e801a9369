//! Tests of the definitions of the built-in resources.

use rdd_meta::time::Timestamp;
use rdd_stdx::clock::SystemClock;
use serde_json::{Value, json};

use super::*;
use crate::{
    auth::Identity,
    registry::{Origin, Registry},
};

fn parts() -> Parts {
    let clock = SystemClock::shared();
    let reviewer = TokenReviewer::new(|token, _| {
        let reviewed = Reviewed { identity: Arc::new(Identity::admin()), audiences: vec!["here".to_owned()] };
        (token == "good").then_some(reviewed)
    });
    Parts { clock, definitions: Box::new(|generic| generic), tokens: None, reviewer }
}

fn kind(group: &str, plural: &str) -> (Arc<ResourceDef>, Arc<dyn Kind>) {
    let registry = Registry::new(resources(parts()));
    let def = Arc::clone(registry.served().get(group, plural).unwrap());
    let kind = Arc::clone(&def.versions[0].kind);
    (def, kind)
}

fn ask(group: &str, plural: &str, question: Value, namespace: Option<&str>) -> Result<Value, String> {
    let (def, kind) = kind(group, plural);
    let mut question = question;
    kind.decode(&mut question, Origin::Request).unwrap();
    let Backing::Answered(answerer) = &def.backing else { panic!("{plural} are stored") };
    answerer.answer(question, &Identity::user(), namespace).map_err(|status| status.message)
}

#[test]
fn every_kind_reads_its_own_empty_object_without_a_finding() {
    for def in resources(parts()) {
        let kind = &def.versions[0].kind;
        let mut empty = kind.empty().into_owned();
        assert_eq!((&empty["kind"], &empty["apiVersion"]), (&json!(def.kind), &json!(def.api_version("v1"))));
        assert_eq!(kind.decode(&mut empty, Origin::Request).unwrap(), [], "{}", def.kind);
        assert_eq!(kind.cells(&empty, Timestamp::new(0, 0)).len(), kind.columns().len(), "{}", def.kind);
        assert!(kind.shape().atom().map.is_some());
    }
}

#[test]
fn both_groups_of_events_are_one_in_the_store() {
    let (core, _) = kind("", "events");
    let (events, kind) = kind("events.k8s.io", "events");
    assert_eq!(core.storage().unwrap().prefix(), events.storage().unwrap().prefix());
    assert_eq!(events.manners.ttl, Some(EVENT_TTL));
    assert!(events.manners.no_dependents, "a delete of an event is never put off");
    let mut event = json!({"metadata": {"name": "a", "namespace": "b"}, "note": "n", "regarding": {"name": "x"},
        "deprecatedCount": 2, "reportingController": "c"});
    kind.decode(&mut event, Origin::Request).unwrap();
    let Stored::Converted(conversion) = &events.versions[0].stored else {
        panic!("they differ in more than their name")
    };
    let stored = conversion.stored(event.clone());
    assert_eq!((&stored["apiVersion"], &stored["message"], &stored["count"]), (&json!("v1"), &json!("n"), &json!(2)));
    assert_eq!((&stored["involvedObject"], &stored["reportingComponent"]), (&json!({"name": "x"}), &json!("c")));
    assert_eq!(conversion.shown(stored), event);
}

#[test]
fn nobody_owns_what_an_endpoint_resets() {
    let (_, namespace) = kind("", "namespaces");
    assert!(namespace.reset_fields("")["v1"].contains(&[rdd_patch::ssa::PathElement::field("status")]));
    assert!(namespace.reset_fields("status")["v1"].contains(&[rdd_patch::ssa::PathElement::field("spec")]));
    assert!(namespace.reset_fields("other").is_empty());
}

#[test]
fn reviews_allow_everything_to_whoever_is_known() {
    let question = json!({"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}});
    let answer = ask("authorization.k8s.io", "selfsubjectaccessreviews", question, None).unwrap();
    assert_eq!(answer["status"], json!({"allowed": true}));
    let question = json!({"spec": {"user": "x", "resourceAttributes": {"namespace": "b"}}});
    let error = ask("authorization.k8s.io", "localsubjectaccessreviews", question, Some("a")).unwrap_err();
    assert_eq!(error, "spec.resourceAttributes.namespace must match namespace: a");
    let answer =
        ask("authorization.k8s.io", "selfsubjectrulesreviews", json!({"spec": {"namespace": "a"}}), None).unwrap();
    assert_eq!(answer["status"]["resourceRules"][0]["verbs"], json!(["*"]));
}

#[test]
fn an_asker_is_told_who_they_are_and_whose_a_token_is() {
    let answer = ask("authentication.k8s.io", "selfsubjectreviews", json!({}), None).unwrap();
    assert_eq!(answer["status"]["userInfo"], json!({"username": "user", "groups": ["system:authenticated"]}));
    let review =
        |token: &str| ask("authentication.k8s.io", "tokenreviews", json!({"spec": {"token": token}}), None).unwrap();
    assert_eq!(review("good")["status"]["user"]["username"], "system-admin");
    assert_eq!(review("bad")["status"], json!({"user": {}, "error": "invalid bearer token"}));
}
