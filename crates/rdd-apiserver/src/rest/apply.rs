//! Server-side apply: merges the configuration of one field manager into the object.

use rdd_meta::{Status, metadata::Metadata};
use rdd_patch::{
    merge,
    ssa::{self, ApplyOptions},
};
use rdd_schema::strict::{Document, Finding, decoding_error};
use serde_json::Value;

use super::{
    decode::FieldValidation,
    error,
    update::{Change, check_name},
    writing::Writing,
};
use crate::registry::Origin;

/// The configuration that a field manager applies.
pub(crate) struct Apply {
    wanted: Value,
    findings: Vec<Finding>,
}

impl Apply {
    pub(crate) fn new(body: Document) -> Self {
        Self { wanted: body.value, findings: body.findings }
    }

    fn report(&self, writing: &Writing<'_>) -> Result<(), Status> {
        let Some(why) = decoding_error(&self.findings) else { return Ok(()) };
        match FieldValidation::of(&writing.context.options.field_validation) {
            FieldValidation::Ignore => Ok(()),
            FieldValidation::Strict => Err(Status::bad_request(format!("error strict decoding YAML: {why}"))),
            FieldValidation::Warn => {
                // The first line names the library; each further line is one unknown or duplicate key.
                let lines = why.lines().skip(1).map(str::trim);
                lines.for_each(|line| writing.context.warnings.add(line));
                Ok(())
            }
        }
    }
}

impl Change for Apply {
    fn creates(&self) -> bool {
        true
    }

    fn change(&self, writing: &Writing<'_>, current: Option<&Value>) -> Result<Value, Status> {
        merge::check_object(&self.wanted).map_err(|why| {
            Status::bad_request(format!("error decoding YAML: error unmarshaling JSON: while decoding JSON: {why}"))
        })?;
        let options = ApplyOptions {
            manager: &writing.context.options.field_manager,
            force: writing.context.options.force.unwrap_or(false),
            now: ssa::Timestamp(writing.now().seconds()),
        };
        let applied = writing.with_field_manager(|manager| {
            let empty = manager.empty_object();
            manager.apply(current.unwrap_or(&empty), &self.wanted, options)
        });
        let mut object = applied.map_err(error::of_ownership)?;
        self.report(writing)?;
        let uid = Metadata::of(&object).uid();
        if current.is_none() && !uid.is_empty() {
            let why =
                format!("uid mismatch: the provided object specified uid {uid}, and no existing object was found");
            return Err(Status::conflict(&writing.target.def.group_resource(), writing.name(), &why));
        }
        // The merge already types the object by its schema; this decode brings values into their stored form.
        writing.kind().decode(&mut object, Origin::Apply).map_err(|status| error::plain(status.message))?;
        writing.place(&mut object)?;
        check_name(writing, &object)?;
        Ok(object)
    }
}
