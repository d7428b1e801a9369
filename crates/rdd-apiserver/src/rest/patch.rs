//! Changing an object by a patch: JSON patch, merge patch, strategic merge patch.

use rdd_meta::{FieldError, GroupKind, Status, go_json, go_text};
use rdd_patch::{json, merge, strategic};
use rdd_schema::strict::{Document, Finding};
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

/// What a patch is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PatchType {
    /// RFC 6902.
    Json,
    /// RFC 7386.
    Merge,
    /// Kubernetes' own, which knows how lists merge.
    Strategic,
    /// Server-side apply.
    Apply,
}

impl PatchType {
    /// The type of a body, by its content type; parameters do not count.
    pub fn of(content_type: &str) -> Option<Self> {
        match content_type.split(';').next().unwrap_or_default().trim() {
            "application/json-patch+json" => Some(Self::Json),
            "application/merge-patch+json" => Some(Self::Merge),
            "application/strategic-merge-patch+json" => Some(Self::Strategic),
            "application/apply-patch+yaml" => Some(Self::Apply),
            _ => None,
        }
    }

    /// The content types that an endpoint takes.
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

/// Reads the body of a patch as what its type is written in.
pub(crate) fn read_patch(patch_type: PatchType, bytes: &[u8]) -> Result<Document, Status> {
    if patch_type == PatchType::Apply {
        let undecodable = |why: String| Status::bad_request(format!("error decoding YAML: {why}"));
        return represent::read_yaml_document(bytes).map_err(undecodable);
    }
    represent::read_json_document(bytes).map_err(|why| match patch_type {
        PatchType::Strategic => Status::bad_request(why),
        _ => Status::bad_request(format!("error decoding patch: {why}")),
    })
}

/// Patches an object. The body has been read as what the type is written in.
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
            let patched = Patched { steps: Steps::read(patch_type, &writing, &body)?, body };
            write(&writing, &patched).await
        }
    }
}

/// A patch to what is there.
struct Patched {
    steps: Steps,
    body: Document,
}

/// A patch that was understood, and what field validation found in it.
enum Steps {
    Json(json::Patch, Vec<Finding>),
    Merge,
    Strategic,
}

impl Steps {
    fn read(patch_type: PatchType, writing: &Writing<'_>, body: &Document) -> Result<Self, Status> {
        let looks = FieldValidation::of(&writing.context.options.field_validation) != FieldValidation::Ignore;
        let undecodable = |why: String| Status::bad_request(format!("error decoding patch: {why}"));
        match patch_type {
            PatchType::Json => {
                let mut findings = Vec::new();
                if looks {
                    let unknown = json::unknown_fields(&body.value).map_err(undecodable)?;
                    findings.extend(unknown.into_iter().map(Finding::UnknownField));
                }
                let patch = json::Patch::decode(&body.value).map_err(|error| match error {
                    json::DecodeError::TooManyOperations { .. } => {
                        let mut status = Status::request_entity_too_large(0);
                        status.message = format!("Request entity too large: {error}");
                        status
                    }
                    other => Status::bad_request(other.to_string()),
                })?;
                Ok(Self::Json(patch, findings))
            }
            PatchType::Strategic => {
                if !body.value.is_object() {
                    merge::check_object(&body.value).map_err(Status::bad_request)?;
                }
                Ok(Self::Strategic)
            }
            _ => {
                if looks {
                    merge::check_object(&body.value).map_err(undecodable)?;
                }
                Ok(Self::Merge)
            }
        }
    }
}

impl Change for Patched {
    fn change(&self, writing: &Writing<'_>, current: Option<&Value>) -> Result<Value, Status> {
        let current = current.ok_or_else(|| writing.not_found())?;
        let mut findings = Vec::new();
        let mut object = match &self.steps {
            Steps::Json(patch, unknown) => {
                // Upstream says of each of them that it was found in the patch, not in the object.
                findings.extend(unknown.iter().map(|finding| format!("json patch {finding}")));
                patch.apply(current).map_err(|error| error::unprocessable(&error.to_string()))?
            }
            Steps::Merge => {
                merge::apply(current, &self.body.value).map_err(|why| Status::bad_request(why.to_string()))?
            }
            Steps::Strategic => {
                let shape = writing.kind().shape();
                strategic::apply(current, &self.body.value, &shape).map_err(strategic_status)?
            }
        };
        findings.extend(self.body.findings.iter().map(Finding::to_string));
        let text = |object: &Value| match self.steps {
            Steps::Strategic => go_text::plain(&self.body.value),
            _ => go_json::to_string(object),
        };
        let refused = |shown: String, why: String| {
            Status::invalid(&GroupKind::new("", ""), "", &[FieldError::invalid_string("patch", &shown, why)])
        };
        let patched = object.clone();
        let reset = takes_owners_away(&patched);
        let unknown = writing.kind().decode(&mut object, Origin::Request);
        let unknown = unknown.map_err(|status| {
            // What is wrong is said of the patch, not of a body that could not be handled.
            let why = status.message.split_once(" cannot be handled as a ");
            let why = why.and_then(|(_, rest)| rest.split_once(": ")).map(|(_, why)| why.to_owned());
            refused(text(&patched), why.unwrap_or(status.message))
        })?;
        findings.extend(unknown.iter().map(Finding::to_string));
        match FieldValidation::of(&writing.context.options.field_validation) {
            FieldValidation::Ignore => {}
            FieldValidation::Warn => findings.into_iter().for_each(|finding| writing.context.warnings.add(finding)),
            FieldValidation::Strict if findings.is_empty() => {}
            FieldValidation::Strict => {
                return Err(refused(text(&patched), format!("strict decoding error: {}", findings.join(", "))));
            }
        }
        if reset {
            take_owners_away(&mut object);
        }
        let mut object = writing.own(Some(current), object);
        writing.place(&mut object)?;
        check_name(writing, &object)?;
        Ok(object)
    }
}

fn strategic_status(error: strategic::Error) -> Status {
    match &error {
        strategic::Error::ListOfLists => error::unprocessable(&error.to_string()),
        other if other.is_bad_request() => Status::bad_request(other.to_string()),
        other => error::plain(other.to_string()),
    }
}
