//! Shared parts of the verbs that write: dry runs, validation, field managers, the last-applied annotation.

use http::Method;
use rdd_meta::{go_json, go_text::quote, metadata::MetadataMut};
use serde_json::Value;

use crate::{
    api::Call,
    context::Ctl,
    error::{Error, Result},
    flags::{Flag, Kind},
    print::{Format, Printer},
    selection::Info,
};

/// The annotation with the last applied configuration.
pub(crate) const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The flag of every verb that writes.
pub(crate) const DRY_RUN: Flag = Flag::of("dry-run", Kind::Optional("unchanged"), "none");
/// The flag for the server's field validation.
pub(crate) const VALIDATE: Flag = Flag::of("validate", Kind::Optional("strict"), "strict");

/// The mode of `--dry-run`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DryRun {
    /// The change is made.
    None,
    /// No write request is sent.
    Client,
    /// The server processes the request without storing it.
    Server,
}

impl DryRun {
    /// Parses `--dry-run`.
    pub(crate) fn of(ctl: &Ctl<'_>) -> Result<Self> {
        let said = ctl.flags.text("dry-run");
        match said {
            "none" => Ok(Self::None),
            "client" => Ok(Self::Client),
            "server" => Ok(Self::Server),
            "unchanged" => {
                ctl.tell("warning: --dry-run is deprecated and can be replaced with --dry-run=client.\n");
                Ok(Self::Client)
            }
            "1" | "t" | "T" | "true" | "TRUE" | "True" | "0" | "f" | "F" | "false" | "FALSE" | "False" => {
                let is_on = said.starts_with(['1', 't', 'T']);
                let instead = if is_on { "client" } else { "none" };
                ctl.tell(&format!(
                    "warning: --dry-run={said} is deprecated (boolean value) and can be replaced with --dry-run={instead}.\n"
                ));
                Ok(if is_on { Self::Client } else { Self::None })
            }
            _ => Err(Error::text(format!(
                "Invalid dry-run value ({said}). Must be \"none\", \"server\", or \"client\"."
            ))),
        }
    }

    /// The operation, marked as a dry run if it is one.
    pub(crate) fn worded(self, operation: &str) -> String {
        match self {
            Self::None => operation.to_owned(),
            Self::Client => format!("{operation} (dry run)"),
            Self::Server => format!("{operation} (server dry run)"),
        }
    }

    /// The query parameter.
    pub(crate) fn query(self) -> &'static str {
        if self == Self::Server { "All" } else { "" }
    }
}

/// The query parameter for `--validate`.
pub(crate) fn field_validation(ctl: &Ctl<'_>) -> Result<&'static str> {
    match ctl.flags.text("validate") {
        "strict" | "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok("Strict"),
        "warn" => Ok("Warn"),
        "ignore" | "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok("Ignore"),
        said => Err(Error::text(format!(
            "invalid - validate option {}; must be one of: strict (or true), warn, ignore (or false)",
            quote(said)
        ))),
    }
}

/// A printer of the result.
pub(crate) fn printer(ctl: &Ctl<'_>, dry_run: DryRun, operation: &str) -> Result<Printer> {
    let format = Format::of(&ctl.flags, false)?;
    Ok(Printer::new(format, &ctl.flags, &dry_run.worded(operation)))
}

/// The options of a write.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Manner<'a> {
    /// The dry-run mode.
    pub(crate) dry_run: DryRun,
    /// The field manager.
    pub(crate) field_manager: &'a str,
    /// The field validation; empty for the server's default.
    pub(crate) field_validation: &'a str,
}

impl Manner<'_> {
    fn of_call(&self, call: Call) -> Call {
        call.query("dryRun", self.dry_run.query())
            .query("fieldManager", self.field_manager)
            .query("fieldValidation", self.field_validation)
    }

    /// Creates an object, without the fields that only the server may set.
    pub(crate) fn create(&self, ctl: &Ctl<'_>, info: &Info) -> Result<Value> {
        let mut object = info.object().clone();
        if let Some(mut metadata) = MetadataMut::of(&mut object)
            && !metadata.view().resource_version().is_empty()
        {
            metadata.set("resourceVersion", None);
        }
        let call = Call::new(Method::POST, info.mapping().path(&info.namespace, "")).json(&object);
        ctl.call(&self.of_call(call))
    }

    /// Patches an object or a subresource.
    pub(crate) fn patch(
        &self,
        ctl: &Ctl<'_>,
        info: &Info,
        subresource: &str,
        media_type: &'static str,
        patch: &str,
        force: bool,
    ) -> Result<Value> {
        let mut path = info.path();
        if !subresource.is_empty() {
            path = format!("{path}/{subresource}");
        }
        let call = Call::new(Method::PATCH, path).body(media_type, patch.as_bytes().to_vec());
        let call = self.of_call(call).query("force", if force { "true" } else { "" });
        ctl.call(&call)
    }
}

/// The last-applied configuration of an object: its JSON without that annotation, with the annotations even if empty.
pub(crate) fn configuration(object: &Value) -> String {
    let mut object = object.clone();
    if let Some(mut metadata) = MetadataMut::of(&mut object) {
        let mut annotations =
            metadata.view().get("annotations").cloned().unwrap_or_else(|| Value::Object(Default::default()));
        if let Some(annotations) = annotations.as_object_mut() {
            annotations.remove(LAST_APPLIED);
        }
        metadata.set("annotations", Some(annotations));
    }
    format!("{}\n", go_json::to_string(&object))
}

/// Sets the last-applied annotation.
pub(crate) fn annotate_configuration(object: &mut Value) {
    let text = configuration(object);
    if let Some(mut metadata) = MetadataMut::of(object) {
        metadata.set_annotation(LAST_APPLIED, Some(&text));
    }
}

/// Whether the object has the last-applied annotation.
pub(crate) fn is_annotated(object: &Value) -> bool {
    rdd_meta::metadata::Metadata::of(object).annotation(LAST_APPLIED).is_some()
}
