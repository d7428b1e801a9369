//! CustomResourceDefinitions: accepts definitions and serves the resources that they define.
//!
//! # Flow
//! A write of a definition passes [`DefinitionKind`], which sets the accepted names and the conditions in the same commit, so the
//! definition is established when the client gets its response. [`Definitions`] keeps the registry synchronized with the stored
//! definitions. The [`Controller`] does what takes longer: it cleans up deleted definitions and accepts names that become free.

mod amend;
mod cleanup;
mod controller;
mod definitions;
mod errors;
mod head;
mod kind;
mod ledger;
mod names;
mod resource;
mod rules;
mod schema;
pub(crate) mod shape;
mod strategy;
#[cfg(test)]
mod tests;

use rdd_meta::Status;

pub use self::{
    cleanup::{Deleter, Deletion},
    controller::Controller,
    definitions::Definitions,
    kind::CustomKind,
    ledger::Ledger,
    resource::{DefinitionError, resource_def, schema_source},
    rules::RuleCheck,
    schema::Unusable,
    strategy::{CLEANUP_FINALIZER, DefinitionKind},
};
use crate::registry::ResourceDef;

/// Refuses to create an object whose definition is terminating. Creates, and patches that would create, call it before admission.
///
/// # Errors
/// 403 if the definition is terminating.
pub fn refuse_create(def: &ResourceDef, name: &str) -> Result<(), Status> {
    if def.custom.as_ref().is_some_and(|custom| custom.terminating) {
        let why = "create not allowed while custom resource definition is terminating";
        return Err(Status::forbidden_resource(&def.group_resource(), name, why));
    }
    Ok(())
}
