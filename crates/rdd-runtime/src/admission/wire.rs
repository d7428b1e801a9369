//! Answers an AdmissionReview: parses the request, calls the handler, builds the response.

use base64::{Engine, engine::general_purpose::STANDARD};
use rdd_meta::Status;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Admission, Decision, Request};

/// Answers a review. A review that cannot be parsed is denied, so that no write passes unchecked.
pub(crate) async fn answer(handler: &dyn Admission, review: Value) -> Value {
    let version = review["apiVersion"].as_str().unwrap_or("admission.k8s.io/v1").to_owned();
    let uid = review["request"]["uid"].as_str().unwrap_or_default().to_owned();
    let decision = match Request::deserialize(&review["request"]) {
        Ok(request) => {
            let decision = handler.review(&request).await;
            return reviewed(&version, &uid, response(&request, decision));
        }
        Err(error) => Decision::Denied(Box::new(Status::bad_request(format!("the review cannot be read: {error}")))),
    };
    let Decision::Denied(status) = decision else { unreachable!("it was made just above") };
    reviewed(&version, &uid, denial(&status))
}

fn reviewed(version: &str, uid: &str, mut response: Value) -> Value {
    response["uid"] = uid.into();
    json!({"apiVersion": version, "kind": "AdmissionReview", "response": response})
}

fn response(request: &Request, decision: Decision) -> Value {
    match decision {
        Decision::Allowed { warnings } if warnings.is_empty() => json!({"allowed": true}),
        Decision::Allowed { warnings } => json!({"allowed": true, "warnings": warnings}),
        Decision::Patched(new) => {
            let patch = json_patch::diff(request.object.as_ref().unwrap_or(&Value::Null), &new);
            // The handler returned the object unchanged: the response needs no patch.
            if patch.0.is_empty() {
                return json!({"allowed": true});
            }
            let patch = serde_json::to_vec(&patch).expect("a JSON patch is JSON");
            json!({"allowed": true, "patchType": "JSONPatch", "patch": STANDARD.encode(patch)})
        }
        Decision::Denied(status) => denial(&status),
    }
}

fn denial(status: &Status) -> Value {
    // Only the parsed form of a Status can be embedded in the response.
    let text: Value = serde_json::from_slice(&status.to_wire()).unwrap_or_default();
    json!({"allowed": false, "status": text})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn review(object: Value) -> Value {
        json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
            "uid": "u-1", "operation": "CREATE", "name": "a", "namespace": "ns", "dryRun": false,
            "kind": {"group": "", "version": "v1", "kind": "ConfigMap"},
            "resource": {"group": "", "version": "v1", "resource": "configmaps"},
            "object": object, "oldObject": null, "userInfo": {"username": "ann", "groups": ["g"], "extra": {}},
        }})
    }

    async fn ask(decide: impl Fn(&Request) -> Decision + Send + Sync) -> Value {
        let answered = answer(&decide, review(json!({"data": {"a": "1"}}))).await;
        assert_eq!(
            (&answered["apiVersion"], &answered["response"]["uid"]),
            (&json!("admission.k8s.io/v1"), &json!("u-1"))
        );
        answered["response"].clone()
    }

    #[tokio::test]
    async fn each_decision_has_its_form() {
        assert_eq!(ask(|_| Decision::allowed()).await, json!({"uid": "u-1", "allowed": true}));
        let warned = ask(|_| Decision::Allowed { warnings: vec!["long".to_owned()] }).await;
        assert_eq!(warned["warnings"], json!(["long"]));
        let denied = ask(|request| Decision::denied(format!("no, {}", request.user_info.username))).await;
        assert_eq!((&denied["allowed"], &denied["status"]["message"]), (&json!(false), &json!("no, ann")));
        assert_eq!((&denied["status"]["code"], &denied["status"]["reason"]), (&json!(403), &json!("Forbidden")));
    }

    #[tokio::test]
    async fn a_changed_object_becomes_a_patch_and_an_unchanged_one_none() {
        let patched = ask(|_| Decision::Patched(json!({"data": {"a": "1", "b": "2"}}))).await;
        let patch = STANDARD.decode(patched["patch"].as_str().unwrap()).unwrap();
        let patch: Value = serde_json::from_slice(&patch).unwrap();
        assert_eq!(patch, json!([{"op": "add", "path": "/data/b", "value": "2"}]));
        let same = ask(|request| Decision::Patched(request.object.clone().unwrap())).await;
        assert_eq!(same, json!({"uid": "u-1", "allowed": true}));
    }

    #[tokio::test]
    async fn an_error_of_the_api_becomes_the_answer() {
        let status = kube::core::Status::failure("configmaps \"x\" not found", "NotFound").with_code(404);
        let error = kube::Error::Api(status.boxed());
        let denied = ask(move |_| Decision::failed(&error)).await;
        assert_eq!((&denied["status"]["code"], &denied["status"]["reason"]), (&json!(404), &json!("NotFound")));
        assert_eq!(denied["status"]["message"], "configmaps \"x\" not found");
    }

    #[tokio::test]
    async fn what_cannot_be_read_is_denied() {
        let answered = answer(&|_: &Request| Decision::allowed(), json!({"request": {"uid": "u"}})).await;
        assert_eq!((&answered["response"]["allowed"], &answered["response"]["uid"]), (&json!(false), &json!("u")));
    }
}
