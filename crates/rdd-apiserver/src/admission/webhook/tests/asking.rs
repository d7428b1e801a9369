//! What webhooks are asked, what they may answer, and what becomes of it.

use std::{sync::Arc, time::Duration};

use rdd_meta::Reason;
use serde_json::{Value, json};
use tokio::sync::Barrier;

use super::{answer, both_ways, mk_map, said};
use crate::admission::{Admit, Operation, testing::Request};

#[tokio::test]
async fn without_any_configuration_nobody_is_asked() {
    both_ways(async |stage| {
        assert!(!mk_map().with(async |attributes| stage.webhooks.handles(attributes)).await);
        assert_eq!(said(stage.write(&mk_map()).await), "ok");
    })
    .await;
}

#[tokio::test]
async fn a_webhook_is_told_the_whole_request_and_may_agree() {
    both_ways(async |stage| {
        stage.respond("/a", json!({"allowed": true, "warnings": ["careful"], "auditAnnotations": {"k": "v"}}));
        stage.validating("c", vec![stage.hook("/a", json!({}))]).await;
        let mut request = mk_map();
        request.operation = Operation::Update;
        request.old = Some(json!({"metadata": {"name": "x", "resourceVersion": "1"}}));
        assert_eq!(said(stage.write(&request).await), "ok");
        assert_eq!(request.warnings.take(), ["careful"]);
        let told = stage.told.lock().unwrap().pop().unwrap().1;
        assert_eq!((&told["kind"], &told["apiVersion"]), (&json!("AdmissionReview"), &json!("admission.k8s.io/v1")));
        assert_eq!(told["request"]["operation"], "UPDATE");
        assert_eq!(told["request"]["object"]["metadata"]["name"], "x");
        assert_eq!(told["request"]["oldObject"]["metadata"]["resourceVersion"], "1");
    })
    .await;
}

#[tokio::test]
async fn a_refusal_is_told_with_the_name_of_the_webhook() {
    both_ways(async |stage| {
        stage.validating("c", vec![stage.hook("/a", json!({"failurePolicy": "Ignore"}))]).await;
        let denied = "admission webhook \"a.example.com\" denied the request";
        for (result, expected) in [
            (Value::Null, format!("400 {denied} without explanation")),
            (json!({"code": 403, "reason": "Forbidden", "message": "no"}), format!("403 {denied}: no")),
            (json!({"code": 404, "reason": "NotFound"}), format!("404 {denied}: NotFound")),
        ] {
            stage.respond("/a", json!({"allowed": false, "status": result}));
            assert_eq!(said(stage.write(&mk_map()).await), expected);
        }
        let status = stage.write(&mk_map()).await.unwrap_err();
        assert_eq!(status.reason, Some(Reason::NotFound));
    })
    .await;
}

#[tokio::test]
async fn changes_are_made_in_the_order_of_configurations_and_each_sees_those_before() {
    both_ways(async |stage| {
        let add = |path: &str, value: &str| json!([{"op": "add", "path": path, "value": value}]);
        stage.respond("/one", json!({"allowed": true, "patch": add("/data/one", "1")}));
        stage.respond("/two", json!({"allowed": true, "patch": add("/data/two", "2")}));
        stage.respond("/three", json!({"allowed": true, "patch": add("/unknown", "gone")}));
        stage.mutating("b", vec![stage.hook("/three", json!({}))]).await;
        stage.mutating("a", vec![stage.hook("/two", json!({})), stage.hook("/one", json!({}))]).await;
        let written = stage.write(&mk_map()).await.unwrap();
        assert_eq!(written["data"], json!({"one": "1", "two": "2"}));
        assert!(written.get("unknown").is_none(), "what the schema does not know is gone before anyone sees it");
        let told = stage.told.lock().unwrap();
        let seen: Vec<_> =
            told.iter().map(|(path, review)| (path.as_str(), &review["request"]["object"]["data"])).collect();
        let (nothing, two, both) = (json!({}), json!({"two": "2"}), json!({"one": "1", "two": "2"}));
        assert_eq!(seen, [("/two", &nothing), ("/one", &two), ("/three", &both)]);
    })
    .await;
}

#[tokio::test]
async fn a_webhook_that_wants_to_is_asked_again_after_later_changes_and_only_once() {
    both_ways(async |stage| {
        stage.respond("/first", json!({"allowed": true}));
        stage.respond("/never", json!({"allowed": true}));
        stage.respond("/skipped", json!({"allowed": true}));
        let label = json!([{"op": "add", "path": "/metadata/labels", "value": {"on": "1"}}]);
        stage.respond("/label", json!({"allowed": true, "patch": label}));
        let needed = json!({"reinvocationPolicy": "IfNeeded"});
        let on = json!({"reinvocationPolicy": "IfNeeded", "objectSelector": {"matchLabels": {"on": "1"}}});
        let hooks = vec![
            stage.hook("/skipped", on),
            stage.hook("/first", needed.clone()),
            stage.hook("/never", json!({})),
            stage.hook("/label", needed),
        ];
        stage.mutating("c", hooks).await;
        assert_eq!(said(stage.write(&mk_map()).await), "ok");
        // The one that matches only after the change was not asked in the first round, so not in the second either.
        assert_eq!(stage.asked(), ["/first", "/never", "/label", "/first"]);
    })
    .await;
}

#[tokio::test]
async fn two_that_change_each_others_work_are_each_asked_twice_at_most() {
    both_ways(async |stage| {
        for path in ["/a", "/b"] {
            stage.serve(path, move |review| {
                let count = review["request"]["object"]["data"]["count"].as_str().map_or(0, str::len);
                let patch = json!([{"op": "add", "path": "/data/count", "value": "x".repeat(count + 1)}]);
                let reply = answer(&review, json!({"allowed": true, "patch": patch}));
                Box::pin(async move { reply })
            });
        }
        let needed = json!({"reinvocationPolicy": "IfNeeded"});
        stage.mutating("c", vec![stage.hook("/a", needed.clone()), stage.hook("/b", needed)]).await;
        assert_eq!(stage.write(&mk_map()).await.unwrap()["data"]["count"], "xxxx");
        assert_eq!(stage.asked(), ["/a", "/b", "/a", "/b"]);
    })
    .await;
}

#[tokio::test]
async fn a_patch_that_cannot_be_applied_is_told() {
    both_ways(async |stage| {
        stage.mutating("c", vec![stage.hook("/a", json!({}))]).await;
        let calling = "500 Internal error occurred: failed calling webhook \"a.example.com\"";
        for (patch, expected) in [
            (json!([]), "ok".to_owned()),
            (json!({}), format!("{calling}: received undecodable patch in webhook response: json: cannot unmarshal object into Go value of type jsonpatch.Patch")),
            (
                json!([{"op": "remove", "path": "/data/none"}]),
                "500 Internal error occurred: error in remove for path: '/data/none': Unable to remove nonexistent key: none: missing value".to_owned(),
            ),
            (
                json!([{"op": "replace", "path": "/kind", "value": "Secret"}]),
                "500 converting (v1.Secret) to (core.ConfigMap): unknown conversion".to_owned(),
            ),
            (json!([{"op": "remove", "path": "/kind"}, {"op": "remove", "path": "/apiVersion"}]), "ok".to_owned()),
            (
                json!([{"op": "replace", "path": "", "value": []}]),
                "500 Internal error occurred: json: cannot unmarshal array into Go value of type runtime.Object".to_owned(),
            ),
            (
                json!([{"op": "add", "path": "/data/number", "value": 1}]),
                "500 Internal error occurred: json: wrong type".to_owned(),
            ),
        ] {
            stage.respond("/a", json!({"allowed": true, "patch": patch}));
            assert_eq!(said(stage.write(&mk_map()).await), expected, "{patch}");
        }
        stage.respond("/a", json!({"allowed": true, "patch": [{"op": "add", "path": "/data", "value": {}}]}));
        let delete = Request::new(Operation::Delete, "configmaps", "ConfigMap", "x").namespace("ns");
        let expected = "500 Internal error occurred: admission webhook \"a.example.com\" attempted to modify the object, which is not supported for this operation";
        assert_eq!(said(stage.write(&delete).await), expected);
    })
    .await;
}

#[tokio::test]
async fn a_failure_to_ask_is_the_policys_to_judge() {
    both_ways(async |stage| {
        for policy in ["Fail", "Ignore"] {
            for (hook, response, expected) in [
                (
                    json!({}),
                    json!({"uid": "other", "allowed": true}),
                    "received invalid webhook response: expected response.uid=\"",
                ),
                (json!({}), json!({"allowed": "yes"}), "failed to call webhook: "),
                (
                    json!({"admissionReviewVersions": ["v9"]}),
                    json!({"allowed": true}),
                    "could not create admission objects: webhook does not accept known AdmissionReview versions (v1, v1beta1)",
                ),
                (
                    json!({"clientConfig": {}}),
                    json!({"allowed": true}),
                    "could not get REST client: webhook configuration must have either service or URL",
                ),
            ] {
                stage.respond("/a", response);
                let mut hook = stage.hook("/a", hook);
                hook["failurePolicy"] = policy.into();
                stage.mutating("c", vec![hook.clone()]).await;
                let mutated = said(stage.write(&mk_map()).await);
                stage.mutating("c", vec![]).await;
                stage.validating("c", vec![hook]).await;
                let validated = said(stage.write(&mk_map()).await);
                stage.validating("c", vec![]).await;
                for said in [mutated, validated] {
                    let text = format!("500 Internal error occurred: failed calling webhook \"a.example.com\": {expected}");
                    assert!(if policy == "Ignore" { said == "ok" } else { said.starts_with(&text) }, "{policy}: {said}");
                }
            }
        }
    })
    .await;
}

#[tokio::test]
async fn a_webhook_that_is_late_has_failed() {
    both_ways(async |stage| {
        stage.serve("/a", |_| Box::pin(std::future::pending()));
        stage.validating("c", vec![stage.hook("/a", json!({"timeoutSeconds": 1}))]).await;
        let expected = format!(
            "500 Internal error occurred: failed calling webhook \"a.example.com\": failed to call webhook: Post \"{}?timeout=1s\": context deadline exceeded",
            stage.url("/a")
        );
        assert_eq!(said(stage.write(&mk_map()).await), expected);
        stage.validating("c", vec![stage.hook("/a", json!({"timeoutSeconds": 1, "failurePolicy": "Ignore"}))]).await;
        assert_eq!(said(stage.write(&mk_map()).await), "ok");
    })
    .await;
}

#[tokio::test]
async fn no_webhook_has_more_time_than_the_request() {
    both_ways(async |stage| {
        stage.serve("/a", |_| Box::pin(std::future::pending()));
        stage.mutating("c", vec![stage.hook("/a", json!({"failurePolicy": "Ignore"}))]).await;
        let mut request = mk_map();
        request.time_left = Duration::from_millis(300);
        assert_eq!(said(stage.write(&request).await), "504 Timeout: request did not complete within requested timeout");
        stage.mutating("c", vec![]).await;
        stage.validating("c", vec![stage.hook("/a", json!({}))]).await;
        request.time_left = Duration::ZERO;
        assert_eq!(said(stage.write(&request).await), "504 Timeout: request did not complete within requested timeout");
    })
    .await;
}

#[tokio::test]
async fn a_dry_run_asks_only_those_without_side_effects() {
    both_ways(async |stage| {
        stage.respond("/a", json!({"allowed": true}));
        let mut request = mk_map();
        request.dry_run = true;
        let refused = "400 admission webhook \"a.example.com\" does not support dry run";
        let unstated =
            "500 Internal error occurred: failed calling webhook \"a.example.com\": Webhook SideEffects is nil";
        for (side_effects, expected) in [
            (json!("None"), "ok"),
            (json!("NoneOnDryRun"), "ok"),
            (json!("Some"), refused),
            (json!("Unknown"), refused),
            (Value::Null, unstated),
        ] {
            stage.mutating("c", vec![stage.hook("/a", json!({"sideEffects": side_effects}))]).await;
            assert_eq!(said(stage.write(&request).await), expected, "{side_effects}");
            assert_eq!(said(stage.write(&mk_map()).await), "ok", "{side_effects} matters only then");
        }
        assert_eq!(stage.told.lock().unwrap()[0].1["request"]["dryRun"], true);
    })
    .await;
}

#[tokio::test]
async fn those_that_only_judge_are_asked_at_the_same_time() {
    both_ways(async |stage| {
        let barrier = Arc::new(Barrier::new(3));
        for path in ["/a", "/b", "/c"] {
            let barrier = Arc::clone(&barrier);
            stage.serve(path, move |review| {
                let barrier = Arc::clone(&barrier);
                let message = format!("no {}", review["request"]["name"]);
                let reply = answer(&review, json!({"allowed": path == "/a", "status": {"message": message}}));
                Box::pin(async move {
                    barrier.wait().await;
                    reply
                })
            });
        }
        let hooks = ["/a", "/b", "/c"].map(|path| stage.hook(path, json!({})));
        stage.validating("c", hooks.to_vec()).await;
        let expected = "400 admission webhook \"b.example.com\" denied the request: no \"x\"";
        assert_eq!(said(stage.write(&mk_map()).await), expected);
    })
    .await;
}

#[tokio::test]
async fn one_that_prefers_v1beta1_is_spoken_to_in_it() {
    both_ways(async |stage| {
        stage.serve("/a", |review| {
            assert_eq!(review["apiVersion"], "admission.k8s.io/v1beta1");
            Box::pin(async { json!({"response": {"allowed": false, "status": {"message": "old"}}}) })
        });
        stage.validating("c", vec![stage.hook("/a", json!({"admissionReviewVersions": ["v1beta1", "v1"]}))]).await;
        let expected = "400 admission webhook \"a.example.com\" denied the request: old";
        assert_eq!(said(stage.write(&mk_map()).await), expected);
    })
    .await;
}
