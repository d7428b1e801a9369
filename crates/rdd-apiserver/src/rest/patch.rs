//! `patch`: JSON patch, merge patch, strategic merge patch, and the dispatch to server-side apply.

use bytes::Bytes;
use rdd_meta::{FieldError, GroupKind, Status, go_json, go_text};
use rdd_patch::{json, merge, strategic};
use rdd_schema::{
    ordered::Ordered,
    strict::{Document, Finding, Findings},
};
use serde_json::Value;

use super::{
    Api, Context, Target,
    apply::Apply,
    decode::{FieldValidation, take_owners_away, takes_owners_away},
    error,
    update::{Change, check_name, write},
    writing::{Writing, Written},
};
use crate::{registry::Origin, represent};

/// The type of a patch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PatchType {
    /// RFC 6902.
    Json,
    /// RFC 7386.
    Merge,
    /// Strategic merge patch: Kubernetes' own, which merges lists by key.
    Strategic,
    /// Server-side apply.
    Apply,
}

impl PatchType {
    /// The type for a content type; its parameters are ignored.
    pub fn of(content_type: &str) -> Option<Self> {
        match content_type.split(';').next().unwrap_or_default().trim() {
            "application/json-patch+json" => Some(Self::Json),
            "application/merge-patch+json" => Some(Self::Merge),
            "application/strategic-merge-patch+json" => Some(Self::Strategic),
            "application/apply-patch+yaml" => Some(Self::Apply),
            _ => None,
        }
    }

    /// The content types that an endpoint accepts.
    pub fn accepted(strategic: bool) -> &'static [&'static str] {
        const ALL: &[&str] = &[
            "application/json-patch+json",
            "application/merge-patch+json",
            "application/strategic-merge-patch+json",
            "application/apply-patch+yaml",
        ];
        const CUSTOM: &[&str] =
            &["application/json-patch+json", "application/merge-patch+json", "application/apply-patch+yaml"];
        if strategic { ALL } else { CUSTOM }
    }
}

/// Parses the body of a patch: YAML for apply, JSON for the other types.
pub(crate) fn read_patch(patch_type: PatchType, bytes: &Bytes) -> Result<Document, Status> {
    if patch_type == PatchType::Apply {
        let undecodable = |why: String| Status::bad_request(format!("error decoding YAML: {why}"));
        return represent::read_yaml_document(bytes).map_err(undecodable);
    }
    represent::read_json_document(bytes).map_err(|why| match patch_type {
        PatchType::Strategic => Status::bad_request(why),
        _ => Status::bad_request(format!("error decoding patch: {why}")),
    })
}

/// Patches an object. The caller parsed the body with `read_patch`.
pub async fn patch(
    api: &Api,
    target: &Target,
    context: &Context,
    patch_type: PatchType,
    body: Document,
) -> Result<Written, Status> {
    let writing = Writing::new(api, target, context);
    match patch_type {
        PatchType::Apply => write(&writing, &Apply::new(body)).await,
        PatchType::Json | PatchType::Merge | PatchType::Strategic => {
            write(&writing, &Patched::read(patch_type, &writing, body)?).await
        }
    }
}

/// A parsed patch, and what field validation found in its text.
pub(super) struct Patched {
    steps: Steps,
    body: Document,
    findings: Vec<String>,
}

/// The patch by its type. Merge and strategic patches are the body itself.
enum Steps {
    Json(json::Patch),
    Merge,
    Strategic,
}

impl Patched {
    /// Parses a patch of any type but apply.
    pub(super) fn read(patch_type: PatchType, writing: &Writing<'_>, body: Document) -> Result<Self, Status> {
        let looks = FieldValidation::of(&writing.context.options.field_validation) != FieldValidation::Ignore;
        let undecodable = |why: String| Status::bad_request(format!("error decoding patch: {why}"));
        let mut findings: Vec<String> = body.findings.iter().map(Finding::to_string).collect();
        let steps = match patch_type {
            PatchType::Json => {
                if looks {
                    let unknown = json::unknown_fields(&body.value).map_err(undecodable)?;
                    findings = if unknown.is_empty() && findings.is_empty() { Vec::new() } else { members(&body) };
                }
                Steps::Json(json::Patch::decode(&body.value).map_err(undecoded)?)
            }
            PatchType::Strategic => {
                if !body.value.is_object() {
                    merge::check_object(&body.value).map_err(Status::bad_request)?;
                }
                Steps::Strategic
            }
            PatchType::Merge | PatchType::Apply => {
                if looks {
                    merge::check_object(&body.value).map_err(undecodable)?;
                }
                Steps::Merge
            }
        };
        Ok(Self { steps, body, findings })
    }

    /// Applies the patch to `current` and decodes the result with `decode`. Unknown fields become warnings or an error,
    /// depending on `fieldValidation`.
    pub(super) fn apply(
        &self,
        writing: &Writing<'_>,
        current: &Value,
        decode: &dyn Fn(&mut Value) -> Result<Vec<Finding>, Status>,
    ) -> Result<Value, Status> {
        let mut object = self.perform(writing, current)?;
        let shown = |object: &Value| match self.steps {
            Steps::Strategic => go_text::plain(&self.body.value),
            _ => go_json::to_string(object),
        };
        let refused = |shown: String, why: String| {
            Status::invalid(&GroupKind::new("", ""), "", &[FieldError::invalid_string("patch", &shown, why)])
        };
        let patched = object.clone();
        let unknown = decode(&mut object).map_err(|status| {
            // Upstream reports the error of the patch, without the prefix for a body that cannot be handled.
            let why = status.message.split_once(" cannot be handled as a ");
            let why = why.and_then(|(_, rest)| rest.split_once(": ")).map(|(_, why)| why.to_owned());
            refused(shown(&patched), why.unwrap_or(status.message))
        })?;
        let mut unknown: Vec<String> = unknown.iter().map(Finding::to_string).collect();
        if matches!(self.steps, Steps::Strategic) {
            // Upstream builds this object without a text, and sorts the unknown fields.
            unknown.sort();
        }
        let findings = self.findings.iter().cloned().chain(unknown);
        match FieldValidation::of(&writing.context.options.field_validation) {
            FieldValidation::Ignore => {}
            FieldValidation::Warn => findings.for_each(|finding| writing.context.warnings.add(finding)),
            FieldValidation::Strict => {
                let findings: Vec<String> = findings.collect();
                if !findings.is_empty() {
                    return Err(refused(shown(&patched), format!("strict decoding error: {}", findings.join(", "))));
                }
            }
        }
        if takes_owners_away(&patched) {
            take_owners_away(&mut object);
        }
        Ok(object)
    }

    fn perform(&self, writing: &Writing<'_>, current: &Value) -> Result<Value, Status> {
        match &self.steps {
            Steps::Json(patch) => patch.apply(current).map_err(|error| error::unprocessable(&error.to_string())),
            Steps::Merge => merge::apply(current, &self.body.value).map_err(|why| Status::bad_request(why.to_string())),
            Steps::Strategic => {
                let shape = writing.kind().shape();
                strategic::apply(current, &self.body.value, &shape).map_err(strategic_status)
            }
        }
    }
}

impl Patched {
    /// Decodes the result of a patch, which may have removed apiVersion and kind. A strategic patch is applied to the typed
    /// object, so it keeps them.
    fn decode(&self, writing: &Writing<'_>, object: &mut Value) -> Result<Vec<Finding>, Status> {
        let is_custom = writing.target.def.custom.is_some();
        if is_custom && text_of(object, "kind").is_empty() {
            let shown = go_json::to_string(object);
            return Err(Status::bad_request(format!("Object 'Kind' is missing in '{shown}'")));
        }
        if !is_custom && !matches!(self.steps, Steps::Strategic) && text_of(object, "apiVersion").is_empty() {
            return Ok(forget_all(object));
        }
        writing.kind().decode(object, Origin::Request)
    }
}

fn text_of<'v>(object: &'v Value, field: &str) -> &'v str {
    object.get(field).and_then(Value::as_str).unwrap_or_default()
}

/// Upstream decodes an object without apiVersion into its internal type, none of whose fields has a JSON name.
fn forget_all(object: &mut Value) -> Vec<Finding> {
    let members = std::mem::take(object).as_object().cloned().unwrap_or_default();
    *object = serde_json::json!({});
    let unknown = members.into_iter().map(|(name, _)| name).filter(|name| name != "apiVersion" && name != "kind");
    unknown.map(Finding::UnknownMember).collect()
}

impl Change for Patched {
    fn change(&self, writing: &Writing<'_>, current: Option<&Value>) -> Result<Value, Status> {
        let current = current.ok_or_else(|| writing.not_found())?;
        let object = self.apply(writing, current, &|object| self.decode(writing, object))?;
        if writing.target.def.custom.is_some() && text_of(&object, "apiVersion").is_empty() {
            return Err(Status::internal("Object 'apiVersion' is missing in 'object has no apiVersion field'"));
        }
        let mut object = writing.own(Some(current), object);
        writing.place(&mut object)?;
        check_name(writing, &object)?;
        Ok(object)
    }
}

/// What upstream's strict decoder finds in the operations of a JSON patch, in the order of the text: unknown members, whose
/// values it skips, and duplicate members, also inside a `value`.
fn members(body: &Document) -> Vec<String> {
    let operations = match body.text.as_ref().map(|text| Ordered::read(text)) {
        Some(Ok(Ordered::Array(operations))) => operations,
        _ => return Vec::new(),
    };
    let mut findings = Findings::default();
    for (index, operation) in operations.iter().enumerate() {
        let Ordered::Object(members) = operation else { continue };
        let mut seen = Vec::new();
        for (name, value) in members {
            if findings.is_full() {
                break;
            }
            let mut path = format!("[{index}].{name}");
            match name.as_str() {
                "op" | "path" | "from" | "value" if seen.contains(&name) => {
                    findings.add(Finding::DuplicateField(path.clone()));
                }
                "op" | "path" | "from" | "value" => seen.push(name),
                _ => {
                    findings.add(Finding::UnknownMember(path));
                    continue;
                }
            }
            value.find_duplicates(&mut path, &mut findings);
        }
    }
    // Upstream's prefix for findings in the patch rather than in the object.
    findings.into_vec().iter().map(|finding| format!("json patch {finding}")).collect()
}

fn undecoded(error: json::DecodeError) -> Status {
    match error {
        json::DecodeError::TooManyOperations { .. } => {
            let mut status = Status::request_entity_too_large(0);
            status.message = format!("Request entity too large: {error}");
            status
        }
        other => Status::bad_request(other.to_string()),
    }
}

fn strategic_status(error: strategic::Error) -> Status {
    match &error {
        strategic::Error::ListOfLists => error::unprocessable(&error.to_string()),
        other if other.is_bad_request() => Status::bad_request(other.to_string()),
        other => error::plain(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_of_operations_are_told_in_the_order_of_the_text() {
        let check = |text: &'static str, told: &[&str]| {
            let body = read_patch(PatchType::Json, &Bytes::from_static(text.as_bytes())).unwrap();
            assert_eq!(members(&body), told, "{text}");
        };
        check(
            r#"[{"op":"add","value":"1","value":"2","extra":{"a":1,"a":2},"extra":1},null,{"z":1,"a":1,"op":"x","op":"y"}]"#,
            &[
                r#"json patch duplicate field "[0].value""#,
                r#"json patch unknown field "[0].extra""#,
                r#"json patch unknown field "[2].z""#,
                r#"json patch unknown field "[2].a""#,
                r#"json patch duplicate field "[2].op""#,
            ],
        );
        check(
            r#"[{"value":{"b":[{"c":1,"c":2}],"b":1}}]"#,
            &[r#"json patch duplicate field "[0].value.b[0].c""#, r#"json patch duplicate field "[0].value.b""#],
        );
        check(r#"[{"op":"add","path":"/a","value":{"a":1,"b":1}}]"#, &[]);
    }
}
