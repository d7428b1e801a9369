//! The kind CustomResourceDefinition: validation as upstream's, with names and conditions set in the commit of the write.

use std::{borrow::Cow, collections::HashSet, sync::Arc};

use rdd_meta::{
    FieldError, Status,
    go_text::quote,
    metadata::{Metadata, MetadataMut},
    names::NameRule,
    time::Timestamp,
};
use rdd_patch::{
    shape::Shape,
    ssa::{self, PathElement},
};
use rdd_schema::{
    crd::{self, Crd, NoRules, RuleChecker},
    upgrade,
};
use rdd_stdx::{chain::Chain, clock::SharedClock};
use serde_json::{Map, Value, json};

use super::{
    kind::keep_member,
    ledger::Ledger,
    names::{self, Condition},
    rules::RuleCheck,
};
use crate::registry::{Column, Finding, Kind, Ordered, Origin};

/// The finalizer that keeps a terminating definition until its objects are gone.
pub const CLEANUP_FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";

/// The kind CustomResourceDefinition. It wraps the generic built-in kind and adds what is specific to definitions.
///
/// The accepted names depend on the ledger and the conditions on the clock, so the `prepare` methods are not pure.
#[derive(Debug)]
pub struct DefinitionKind {
    generic: Arc<dyn Kind>,
    ledger: Ledger,
    clock: SharedClock,
    object_resets: ssa::Filter,
    status_resets: ssa::Filter,
}

impl DefinitionKind {
    /// Wraps `generic`, which decodes, prints and merges definitions.
    pub fn new(generic: Arc<dyn Kind>, ledger: Ledger, clock: SharedClock) -> Self {
        let filter = |fields: &[&str]| {
            let set: ssa::Set = fields.iter().map(|field| vec![PathElement::field(field)]).collect();
            let versions = ["apiextensions.k8s.io/v1", "apiextensions.k8s.io/v1beta1"];
            versions.iter().map(|version| ((*version).to_owned(), set.clone())).collect()
        };
        Self {
            generic,
            ledger,
            clock,
            object_resets: filter(&["status"]),
            status_resets: filter(&["metadata", "spec"]),
        }
    }

    fn settle(&self, definition: &mut Value) {
        let name = Metadata::of(definition).name().to_owned();
        let group = definition.pointer("/spec/group").and_then(Value::as_str).unwrap_or_default();
        let taken = self.ledger.taken(group, &name);
        names::settle(definition, &taken, now(&self.clock));
    }
}

/// The current time in whole seconds, for conditions.
pub(super) fn now(clock: &SharedClock) -> Timestamp {
    Timestamp::new(Timestamp::from(clock.wall()).seconds(), 0)
}

impl Kind for DefinitionKind {
    fn is_expensive(&self) -> bool {
        true
    }

    fn decode(&self, object: &mut Value, origin: Origin) -> Result<Vec<Finding>, Status> {
        let findings = self.generic.decode(object, origin)?;
        crd::apply_defaults(object);
        Ok(findings)
    }

    fn decode_ordered(&self, text: &Ordered) -> Option<Result<(Value, Vec<Finding>), Status>> {
        let decoded = self.generic.decode_ordered(text)?;
        Some(decoded.map(|(mut object, findings)| {
            crd::apply_defaults(&mut object);
            (object, findings)
        }))
    }

    fn default(&self, object: &mut Value) {
        self.generic.default(object);
        crd::apply_defaults(object);
    }

    fn shape(&self) -> Shape {
        self.generic.shape()
    }

    fn strategic(&self) -> bool {
        self.generic.strategic()
    }

    fn empty(&self) -> Cow<'_, Value> {
        self.generic.empty()
    }

    fn reset_fields(&self, subresource: &str) -> &ssa::Filter {
        if subresource == "status" { &self.status_resets } else { &self.object_resets }
    }

    fn name_rule(&self) -> NameRule {
        NameRule::DnsSubdomain
    }

    fn prepare_for_create(&self, object: &mut Value) {
        if let Some(members) = object.as_object_mut() {
            members.remove("status");
        }
        if let Some(mut metadata) = MetadataMut::of(object) {
            metadata.set_generation(1);
        }
        add_stored_version(object);
        self.settle(object);
    }

    fn prepare_for_update(&self, subresource: &str, new: &mut Value, old: &Value) {
        if subresource == "status" {
            keep_member(new, old, "spec");
            // Upstream's establishing controller runs for every state of a definition that it sees.
            if !Metadata::of(old).is_terminating() {
                names::establish(new, now(&self.clock));
            }
            return;
        }
        keep_member(new, old, "status");
        if new.get("spec") != old.get("spec")
            && let Some(mut metadata) = MetadataMut::of(new)
        {
            metadata.set_generation(Metadata::of(old).generation() + 1);
        }
        add_stored_version(new);
        // A terminating definition gets no new names.
        if !Metadata::of(old).is_terminating() {
            self.settle(new);
        }
    }

    fn validate_create(&self, object: &Value) -> Vec<FieldError> {
        let found = match Crd::parse(object) {
            Ok(mut definition) => {
                // Errors in names are reported for the requested names only, not also for the accepted ones.
                definition.accepted_names = crd::Names::default();
                to_wire(crd::validate(&definition, &mut RuleCheck::default()))
            }
            Err(error) => unreadable(&error),
        };
        Metadata::of(object).last_look(false, found)
    }

    fn validate_update(&self, subresource: &str, new: &Value, old: &Value) -> Vec<FieldError> {
        let (mut definition, before) = match (Crd::parse(new), Crd::parse(old)) {
            (Ok(definition), Ok(before)) => (definition, before),
            (Err(error), _) | (_, Err(error)) => return unreadable(&error),
        };
        if subresource == "status" {
            return to_wire(upgrade::validate_status_update(&definition, &before));
        }
        definition.accepted_names = before.accepted_names.clone();
        // Unchanged rules were accepted before, and compiling them is most of the work.
        let rules: &mut dyn RuleChecker =
            if new.get("spec") == old.get("spec") { &mut NoRules } else { &mut RuleCheck::default() };
        to_wire(upgrade::validate_update(&definition, &before, rules))
    }

    fn warnings(&self, new: &Value, old: Option<&Value>) -> Vec<String> {
        let formats = |object: &Value| Crd::parse(object).map(|crd| crd.unrecognized_formats()).unwrap_or_default();
        // Only formats that this write introduces cause a warning.
        let known: HashSet<String> = old.map(formats).unwrap_or_default().into_iter().collect();
        let introduced = formats(new).into_iter().filter(|format| !known.contains(format));
        introduced.map(|format| format!("unrecognized format {}", quote(&format))).collect()
    }

    /// Adds the cleanup finalizer and the condition `Terminating`. As upstream, there is no grace period and no new generation.
    fn begin_deletion(&self, object: &mut Value, now: Timestamp) -> bool {
        if Metadata::of(object).is_terminating() {
            return !Metadata::of(object).finalizers().is_empty();
        }
        let mut finalizers: Vec<String> = Metadata::of(object).finalizers().into_iter().map(str::to_owned).collect();
        if !finalizers.iter().any(|finalizer| finalizer == CLEANUP_FINALIZER) {
            finalizers.push(CLEANUP_FINALIZER.to_owned());
        }
        if let Some(mut metadata) = MetadataMut::of(object) {
            metadata.set_finalizers(&finalizers);
            metadata.set_deletion(Some(now), None);
        }
        let message = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon";
        let condition = Condition::new("Terminating", "True", "InstanceDeletionPending", message);
        names::set_condition(object, &condition, now);
        true
    }

    fn columns(&self) -> &[Column] {
        self.generic.columns()
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        self.generic.cells(object, now)
    }
}

/// Adds the storage version to `status.storedVersions`: from now on objects may be stored in it. It stays there until they are
/// migrated.
fn add_stored_version(definition: &mut Value) {
    let versions = definition.pointer("/spec/versions").and_then(Value::as_array).into_iter().flatten();
    let storage = versions.into_iter().find(|version| version["storage"] == true);
    let Some(name) = storage.and_then(|version| version.get("name").cloned()) else { return };
    let status: &mut Map<String, Value> = names::status_of(definition);
    let stored = status.entry("storedVersions").or_insert_with(|| json!([]));
    if let Value::Array(stored) = stored
        && !stored.contains(&name)
    {
        stored.push(name);
    }
}

fn to_wire(found: Vec<rdd_schema::field::Error>) -> Vec<FieldError> {
    found
}

/// The error for a definition that does not parse. Its types were checked when it was decoded, so its schema is nested too deep.
fn unreadable(error: &crd::CrdError) -> Vec<FieldError> {
    vec![FieldError::invalid_text("spec", String::new(), Chain(error).to_string())]
}
