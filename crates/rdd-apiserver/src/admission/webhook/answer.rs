//! The answer of a webhook: read as Go would read it, and checked against the question.

use std::collections::BTreeMap;

use base64::{
    Engine as _,
    alphabet::STANDARD,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};
use rdd_meta::{go_text::quote, gvk::GroupVersionKind};
use serde_json::{Map, Value};

use super::{
    hook::ReviewVersion,
    review::{GROUP, KIND},
};

/// What a webhook answered.
#[derive(Debug, Default)]
pub(super) struct Answer {
    pub(super) allowed: bool,
    /// The Status that goes with a refusal.
    pub(super) result: Option<Value>,
    /// The text of a patch; empty if there is none.
    pub(super) patch: Vec<u8>,
    pub(super) patch_type: String,
    pub(super) warnings: Vec<String>,
    pub(super) audit_annotations: BTreeMap<String, String>,
}

/// Why an answer is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum NoAnswer {
    /// It is not an AdmissionReview.
    Undecodable(String),
    /// It is not one that fits the question.
    Invalid(String),
}

/// The response of a review, decoded.
#[derive(Debug, Default)]
struct Response {
    uid: String,
    allowed: bool,
    result: Option<Value>,
    patch: Vec<u8>,
    patch_type: Option<String>,
    audit_annotations: BTreeMap<String, String>,
    warnings: Vec<String>,
}

/// Reads and checks the answer to the question with this uid. Mirrors `VerifyAdmissionResponse`.
pub(super) fn read(version: ReviewVersion, uid: &str, mutating: bool, review: &Value) -> Result<Answer, NoAnswer> {
    let text = |field: &str| review.get(field).and_then(Value::as_str).unwrap_or_default();
    let found = GroupVersionKind::from_type_meta(text("apiVersion"), text("kind"));
    check_type(version, &found).map_err(NoAnswer::Undecodable)?;
    let response = Response::decode(version, review).map_err(NoAnswer::Undecodable)?;
    let response = response.ok_or_else(|| NoAnswer::Invalid("webhook response was absent".to_owned()))?;
    let patch_type = match version {
        ReviewVersion::V1 => {
            check(uid, mutating, &found, &response).map_err(NoAnswer::Invalid)?;
            response.patch_type.unwrap_or_default()
        }
        // Version v1beta1 was never checked, and knew one type of patch.
        ReviewVersion::V1beta1 => "JSONPatch".to_owned(),
    };
    Ok(Answer {
        allowed: response.allowed,
        result: response.result,
        patch: if mutating { response.patch } else { Vec::new() },
        patch_type,
        warnings: response.warnings,
        audit_annotations: response.audit_annotations,
    })
}

/// An answer may leave its type out, which is told later; a type that is another one cannot be read as a review.
fn check_type(version: ReviewVersion, found: &GroupVersionKind) -> Result<(), String> {
    let (kind, wanted) = (&found.kind, version.as_str());
    let is_left_out = found.group.is_empty() && found.version.is_empty();
    let is_review = found.group == GROUP && matches!(&*found.version, "v1" | "v1beta1");
    let is_status = (&*found.group, &*found.version, &**kind) == ("", "v1", "Status");
    if is_status || (is_review && kind == KIND && found.version != wanted) {
        let version = &found.version;
        return Err(format!("converting ({version}.{kind}) to ({wanted}.{KIND}): unknown conversion"));
    }
    if !(is_left_out || is_review) || !matches!(kind.as_str(), KIND | "") {
        let group_version = quote(&found.group_version().to_string());
        let scheme = "in scheme \"pkg/runtime/scheme.go:111\"";
        return Err(format!("no kind {} is registered for version {group_version} {scheme}", quote(kind)));
    }
    Ok(())
}

impl Response {
    /// The response of a review; none if there is none. The error is Go's.
    fn decode(version: ReviewVersion, review: &Value) -> Result<Option<Self>, String> {
        let package = version.as_str();
        let response = match review.get("response") {
            None | Some(Value::Null) => return Ok(None),
            Some(Value::Object(fields)) => Fields { owner: "AdmissionResponse.response", fields },
            Some(other) => {
                return Err(mistyped(other, "AdmissionReview.response", &format!("{package}.AdmissionResponse")));
            }
        };
        let patch = response.text("patch", "[]uint8")?.unwrap_or_default();
        Ok(Some(Self {
            uid: response.text("uid", "types.UID")?.unwrap_or_default().to_owned(),
            allowed: response.get("allowed", "bool", Value::as_bool)?.unwrap_or_default(),
            result: response.status()?,
            patch: base64(patch)?,
            patch_type: response.text("patchType", &format!("{package}.PatchType"))?.map(str::to_owned),
            audit_annotations: response.texts("auditAnnotations", "map[string]string", Value::as_object)?,
            warnings: response.list("warnings")?,
        }))
    }
}

/// Fields of a Go struct, and how errors name it.
struct Fields<'a> {
    owner: &'static str,
    fields: &'a Map<String, Value>,
}

impl<'a> Fields<'a> {
    fn get<T>(&self, field: &str, wanted: &str, read: impl Fn(&'a Value) -> Option<T>) -> Result<Option<T>, String> {
        match self.fields.get(field) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => read(value).map(Some).ok_or_else(|| self.mistyped(value, field, wanted)),
        }
    }

    fn text(&self, field: &str, wanted: &str) -> Result<Option<&'a str>, String> {
        self.get(field, wanted, Value::as_str)
    }

    fn list(&self, field: &str) -> Result<Vec<String>, String> {
        let items = self.get(field, "[]string", Value::as_array)?.into_iter().flatten();
        items.map(|item| self.element(field, item)).collect()
    }

    fn texts(
        &self,
        field: &str,
        wanted: &str,
        read: impl Fn(&'a Value) -> Option<&'a Map<String, Value>>,
    ) -> Result<BTreeMap<String, String>, String> {
        let entries = self.get(field, wanted, read)?.into_iter().flatten();
        entries.map(|(key, value)| Ok((key.clone(), self.element(field, value)?))).collect()
    }

    fn element(&self, field: &str, value: &Value) -> Result<String, String> {
        match value {
            Value::Null => Ok(String::new()),
            Value::String(text) => Ok(text.clone()),
            other => Err(self.mistyped(other, field, "string")),
        }
    }

    /// The Status of a refusal, of which the parts that are used must be what they should.
    fn status(&self) -> Result<Option<Value>, String> {
        let Some(fields) = self.get("status", "v1.Status", Value::as_object)? else { return Ok(None) };
        let status = Fields { owner: "Status.response.status", fields };
        for (field, wanted) in [("status", "string"), ("message", "string"), ("reason", "v1.StatusReason")] {
            status.text(field, wanted)?;
        }
        status.get("code", "int32", |code| i32::try_from(code.as_i64()?).ok())?;
        status.get("details", "v1.StatusDetails", Value::as_object)?;
        Ok(Some(Value::Object(fields.clone())))
    }

    fn mistyped(&self, found: &Value, field: &str, wanted: &str) -> String {
        mistyped(found, &format!("{}.{field}", self.owner), wanted)
    }
}

fn mistyped(found: &Value, field: &str, wanted: &str) -> String {
    let found = match found {
        Value::Null => "null".to_owned(),
        Value::Bool(_) => "bool".to_owned(),
        // A number of the wrong kind is named, any other mistake is not.
        Value::Number(number) if wanted == "int32" => format!("number {number}"),
        Value::Number(_) => "number".to_owned(),
        Value::String(_) => "string".to_owned(),
        Value::Array(_) => "array".to_owned(),
        Value::Object(_) => "object".to_owned(),
    };
    format!("json: cannot unmarshal {found} into Go struct field {field} of type {wanted}")
}

/// What version v1 asks of an answer beyond its form.
fn check(uid: &str, mutating: bool, found: &GroupVersionKind, response: &Response) -> Result<(), String> {
    if response.uid != uid {
        return Err(format!("expected response.uid={}, got {}", quote(uid), quote(&response.uid)));
    }
    let wanted = GroupVersionKind::new(GROUP, "v1", KIND);
    if *found != wanted {
        return Err(format!("expected webhook response of {wanted}, got {found}"));
    }
    match (mutating, !response.patch.is_empty(), response.patch_type.as_deref()) {
        (true, true, None) => Err("webhook returned response.patch but not response.patchType".to_owned()),
        (true, false, Some(_)) => Err("webhook returned response.patchType but not response.patch".to_owned()),
        (true, true, Some("")) => Err("webhook returned invalid response.patchType of \"\"".to_owned()),
        (false, true, _) => Err("validating webhook may not return response.patch".to_owned()),
        (false, _, Some(_)) => Err("validating webhook may not return response.patchType".to_owned()),
        _ => Ok(()),
    }
}

/// As Go reads it: padded, line breaks passed over.
fn base64(text: &str) -> Result<Vec<u8>, String> {
    const LENIENT: GeneralPurpose = GeneralPurpose::new(
        &STANDARD,
        GeneralPurposeConfig::new()
            .with_decode_allow_trailing_bits(true)
            .with_decode_padding_mode(DecodePaddingMode::RequireCanonical),
    );
    let plain: String = text.chars().filter(|character| !matches!(character, '\r' | '\n')).collect();
    LENIENT.decode(plain).map_err(|error| match error {
        base64::DecodeError::InvalidByte(at, _) => format!("illegal base64 data at input byte {at}"),
        _ => format!("illegal base64 data at input byte {}", text.len()),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(version: ReviewVersion, mutating: bool, review: &Value) -> Result<Answer, NoAnswer> {
        super::read(version, "u1", mutating, review)
    }

    fn v1(response: Value) -> Value {
        json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response})
    }

    fn refused(mutating: bool, review: &Value) -> String {
        match read(ReviewVersion::V1, mutating, review).unwrap_err() {
            NoAnswer::Undecodable(text) => format!("undecodable: {text}"),
            NoAnswer::Invalid(text) => text,
        }
    }

    #[test]
    fn an_answer_must_echo_the_uid_and_say_what_it_is() {
        assert!(read(ReviewVersion::V1, true, &v1(json!({"uid": "u1", "allowed": true}))).unwrap().allowed);
        assert_eq!(refused(true, &v1(Value::Null)), "webhook response was absent");
        assert_eq!(refused(true, &v1(json!({"uid": "u2"}))), "expected response.uid=\"u1\", got \"u2\"");
        assert_eq!(
            refused(true, &json!({"response": {"uid": "u1"}})),
            "expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got /, Kind="
        );
        let old = json!({"apiVersion": "admission.k8s.io/v1beta1", "kind": "AdmissionReview", "response": {}});
        assert_eq!(
            refused(true, &old),
            "undecodable: converting (v1beta1.AdmissionReview) to (v1.AdmissionReview): unknown conversion"
        );
        let other = json!({"apiVersion": "v1", "kind": "Pod"});
        assert!(refused(true, &other).starts_with("undecodable: no kind \"Pod\" is registered for version \"v1\""));
        let status = json!({"apiVersion": "v1", "kind": "Status", "status": "Failure"});
        assert_eq!(
            refused(true, &status),
            "undecodable: converting (v1.Status) to (v1.AdmissionReview): unknown conversion"
        );
    }

    #[test]
    fn a_field_of_the_wrong_type_is_told_as_go_tells_it() {
        for (response, expected) in [
            (json!([]), "array into Go struct field AdmissionReview.response of type v1.AdmissionResponse"),
            (json!({"allowed": "yes"}), "string into Go struct field AdmissionResponse.response.allowed of type bool"),
            (json!({"uid": 1}), "number into Go struct field AdmissionResponse.response.uid of type types.UID"),
            (
                json!({"warnings": "w"}),
                "string into Go struct field AdmissionResponse.response.warnings of type []string",
            ),
            (
                json!({"warnings": [1]}),
                "number into Go struct field AdmissionResponse.response.warnings of type string",
            ),
            (
                json!({"auditAnnotations": {"a": true}}),
                "bool into Go struct field AdmissionResponse.response.auditAnnotations of type string",
            ),
            (json!({"status": {"code": "x"}}), "string into Go struct field Status.response.status.code of type int32"),
            (
                json!({"status": {"code": 1.5}}),
                "number 1.5 into Go struct field Status.response.status.code of type int32",
            ),
        ] {
            assert_eq!(refused(true, &v1(response)), format!("undecodable: json: cannot unmarshal {expected}"));
        }
    }

    #[test]
    fn patch_and_type_come_together_and_only_from_those_who_may_change() {
        let with = |patch: Value, kind: Value| v1(json!({"uid": "u1", "patch": patch, "patchType": kind}));
        let text = json!("W10=");
        let answer = read(ReviewVersion::V1, true, &with(text.clone(), json!("JSONPatch"))).unwrap();
        assert_eq!((answer.patch.as_slice(), answer.patch_type.as_str()), (&b"[]"[..], "JSONPatch"));
        for (mutating, patch, kind, expected) in [
            (true, text.clone(), Value::Null, "webhook returned response.patch but not response.patchType"),
            (true, Value::Null, json!("JSONPatch"), "webhook returned response.patchType but not response.patch"),
            (true, text.clone(), json!(""), "webhook returned invalid response.patchType of \"\""),
            (false, text.clone(), json!("JSONPatch"), "validating webhook may not return response.patch"),
            (false, Value::Null, json!("JSONPatch"), "validating webhook may not return response.patchType"),
            (true, json!("W!0="), json!("JSONPatch"), "undecodable: illegal base64 data at input byte 1"),
        ] {
            assert_eq!(refused(mutating, &with(patch, kind)), expected);
        }
    }

    #[test]
    fn version_v1beta1_is_believed_as_it_comes() {
        let bare = json!({"response": {"allowed": true, "patch": "W10="}});
        let answer = read(ReviewVersion::V1beta1, true, &bare).unwrap();
        assert_eq!((answer.allowed, answer.patch_type.as_str()), (true, "JSONPatch"));
        assert!(read(ReviewVersion::V1beta1, false, &bare).unwrap().patch.is_empty());
    }
}
