//! CustomResourceDefinitions: how they are accepted, and how what they define is served.
//!
//! A definition that is written goes through [`DefinitionKind`], which gives it its accepted names and conditions in the same
//! commit, so that it is established when its writer is answered. [`Definitions`] keeps the registry in step with what is
//! stored; its [`Controller`] does what takes longer: the clean-up behind a deletion, and names that become free.

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

/// Why no object may be created: the definition of its kind is being deleted. Asked before admission, by creates and by patches
/// that would create.
pub fn refuse_create(def: &ResourceDef, name: &str) -> Result<(), Status> {
    if def.custom.as_ref().is_some_and(|custom| custom.terminating) {
        let why = "create not allowed while custom resource definition is terminating";
        return Err(Status::forbidden_resource(&def.group_resource(), name, why));
    }
    Ok(())
}
