//! The generic implementation of [`Kind`] for built-in kinds, from their type, strategy and printer in `rdd-builtin`.

use std::{borrow::Cow, collections::BTreeMap};

use rdd_builtin::{
    columns::{self, Printer},
    decode, kinds,
    strategy::Strategy,
    types,
};
use rdd_meta::{FieldError, Status, names::NameRule, time::Timestamp};
use rdd_patch::{
    shape::Shape,
    ssa::{Filter, PathElement, Set},
};
use serde_json::Value;

use super::{events, table::Row};
use crate::admission::webhook::match_condition_error;
use crate::registry::{CREATE_VERBS, Column, Finding, Kind, Ordered, Origin};

/// A built-in kind. Its type determines decoding and merging, its [`Strategy`] what is specific to the kind, its printer the table
/// columns. A kind that needs more, such as CustomResourceDefinition, wraps it.
///
/// After the strategy has prepared an object, its form is normalized again: a strategy may remove structs that Go always writes, and an
/// empty list becomes absent only after the field owners were computed.
#[derive(Debug)]
pub struct BuiltinKind {
    kind: &'static types::Kind,
    strategy: &'static Strategy,
    printer: Printer,
    columns: Vec<Column>,
    selectable: Vec<String>,
    /// The empty object of the kind. It is cached because every create uses it.
    empty: Value,
    /// Reset fields by subresource.
    resets: BTreeMap<&'static str, Filter>,
    no_resets: Filter,
}

/// The strategy of namespaced kinds without one of their own.
static NAMESPACED: Strategy = Strategy::NAMESPACED;
static CLUSTER: Strategy = Strategy::CLUSTER;
/// The strategy of definitions around the generic kind. Most of it is in [`crate::crd`].
static DEFINITION: Strategy = Strategy { unconditional_update: false, ..Strategy::CLUSTER };
/// The strategy of reviews: they have no name, so there is nothing to validate.
static QUESTION: Strategy = Strategy { validate_create: |_| Vec::new(), ..Strategy::CLUSTER };

impl BuiltinKind {
    pub(super) fn new(kind: &'static types::Kind, row: &Row) -> Self {
        let general = match (row.verbs == CREATE_VERBS, row.namespaced) {
            (true, _) => &QUESTION,
            _ if row.kind == "CustomResourceDefinition" => &DEFINITION,
            (_, true) => &NAMESPACED,
            _ => &CLUSTER,
        };
        let strategy = kinds::of(kind.group, kind.kind).unwrap_or(general);
        let printer = columns::printer(kind.group, kind.kind);
        // The empty name stands for the object itself.
        let endpoints = std::iter::once("").chain(row.views.iter().map(|(name, _)| *name));
        let resets = endpoints.map(|endpoint| (endpoint, resets(kind, (strategy.reset_fields)(endpoint)))).collect();
        Self {
            kind,
            strategy,
            printer,
            columns: printer.columns().into_iter().map(to_column).collect(),
            selectable: strategy.selectable_fields.iter().map(|field| (*field).to_owned()).collect(),
            empty: decode::empty(kind),
            resets,
            no_resets: Filter::new(),
        }
    }

    pub(super) fn strategy(&self) -> &'static Strategy {
        self.strategy
    }

    /// Whether the kind has match conditions. Their CEL expressions are compiled here, because `rdd-builtin` does not depend on CEL.
    fn configures_webhooks(&self) -> bool {
        self.kind.group == "admissionregistration.k8s.io" && self.kind.kind.ends_with("WebhookConfiguration")
    }
}

fn to_column(column: columns::Column) -> Column {
    Column {
        name: column.name.to_owned(),
        kind: column.kind.to_owned(),
        format: column.format.to_owned(),
        description: column.description.to_owned(),
        priority: column.priority,
    }
}

/// The reset fields, given as paths with dots, in the form that the field manager takes.
fn resets(kind: &types::Kind, fields: &[&str]) -> Filter {
    if fields.is_empty() {
        return Filter::new();
    }
    let set: Set = fields.iter().map(|path| path.split('.').map(PathElement::field).collect::<Vec<_>>()).collect();
    Filter::from([(kind.api_version(), set)])
}

impl Kind for BuiltinKind {
    fn decode(&self, object: &mut Value, origin: Origin) -> Result<Vec<Finding>, Status> {
        let findings = match origin {
            Origin::Request | Origin::Apply => {
                decode::decode(self.kind, object).map_err(|refused| Status::bad_request(refused.0))?
            }
            // Stored objects were validated when they were written, so they need no findings.
            Origin::Storage => {
                decode::reform(self.kind, object);
                Vec::new()
            }
        };
        self.default(object);
        Ok(findings)
    }

    fn decode_ordered(&self, text: &Ordered) -> Option<Result<(Value, Vec<Finding>), Status>> {
        let decoded = decode::decode_ordered(self.kind, text).map_err(|refused| Status::bad_request(refused.0));
        Some(decoded.map(|(mut object, findings)| {
            self.default(&mut object);
            (object, findings)
        }))
    }

    fn default(&self, object: &mut Value) {
        (self.strategy.default)(object);
    }

    fn shape(&self) -> Shape {
        self.kind.shape()
    }

    fn strategic(&self) -> bool {
        true
    }

    fn empty(&self) -> Cow<'_, Value> {
        Cow::Borrowed(&self.empty)
    }

    fn reset_fields(&self, subresource: &str) -> &Filter {
        self.resets.get(subresource).unwrap_or(&self.no_resets)
    }

    fn name_rule(&self) -> NameRule {
        self.strategy.name_rule
    }

    fn prepare_for_create(&self, object: &mut Value) {
        (self.strategy.prepare_for_create)(object);
        decode::reform(self.kind, object);
    }

    fn prepare_for_update(&self, subresource: &str, new: &mut Value, old: &Value) {
        (self.strategy.prepare_for_update)(subresource, new, old);
        decode::reform(self.kind, new);
    }

    fn validate_create(&self, object: &Value) -> Vec<FieldError> {
        if self.configures_webhooks() {
            return kinds::webhook::validate_create(object, &match_condition_error);
        }
        (self.strategy.validate_create)(object)
    }

    fn validate_update(&self, subresource: &str, new: &Value, old: &Value) -> Vec<FieldError> {
        if self.configures_webhooks() {
            return kinds::webhook::validate_update(new, old, &match_condition_error);
        }
        (self.strategy.validate_update)(subresource, new, old)
    }

    fn warnings(&self, new: &Value, old: Option<&Value>) -> Vec<String> {
        (self.strategy.warnings)(new, old)
    }

    fn begin_deletion(&self, object: &mut Value, now: Timestamp) -> bool {
        (self.strategy.begin_deletion)(object, now)
    }

    fn may_vanish(&self, object: &Value) -> bool {
        (self.strategy.may_vanish)(object)
    }

    fn selectable_fields(&self) -> &[String] {
        &self.selectable
    }

    fn selectable_field(&self, object: &Value, field: &str) -> String {
        (self.strategy.selectable_field)(object, field)
    }

    fn columns(&self) -> &[Column] {
        &self.columns
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        // Printers exist for Events of the core group only.
        if self.kind.group == events::GROUP {
            return self.printer.cells(&events::to_core(object.clone()), now);
        }
        self.printer.cells(object, now)
    }
}
