//! Admission: webhooks with which controllers default, validate and refuse writes before the server stores them.

mod configuration;
pub mod guard;
mod review;
mod wire;

use std::{fmt, sync::Arc};

use futures::future::BoxFuture;
use k8s_openapi::{
    api::admissionregistration::v1::RuleWithOperations, apimachinery::pkg::apis::meta::v1::LabelSelector,
};
use rdd_meta::Status;
use serde_json::Value;

pub(crate) use self::{
    configuration::{Configuration, Configurations, manager_of, remove_if_unchanged, remove_unanswered},
    wire::answer,
};
pub use self::{
    configuration::{FIELD_MANAGER, rule},
    review::{Operation, Request, User},
};
use crate::Kind;

/// The result of a review.
#[derive(Debug, Clone, PartialEq)]
pub enum Decision {
    /// The write is allowed.
    Allowed {
        /// Warnings that the server returns to the client.
        warnings: Vec<String>,
    },
    /// The write is allowed with this object instead, given in full. The runtime computes the JSON patch.
    Patched(Value),
    /// The write is denied. The server returns this status to the client, with a message that also names the webhook.
    Denied(Box<Status>),
}

impl Decision {
    /// Allows the write, without warnings.
    pub fn allowed() -> Self {
        Self::Allowed { warnings: Vec::new() }
    }

    /// Denies the write with 403 Forbidden and this message.
    pub fn denied(why: impl Into<String>) -> Self {
        // `forbidden` would add a prefix to the message; clients get exactly `why`.
        let mut status = Status::forbidden("");
        status.message = why.into();
        Self::Denied(Box::new(status))
    }

    /// Denies the write because a call to the API failed. The client gets the status that the API returned.
    pub fn failed(error: &kube::Error) -> Self {
        let status = match error {
            kube::Error::Api(status) => {
                let mut wire = serde_json::to_value(status).unwrap_or_default();
                // `kube` drops these fields when it parses a status; a Status on the wire needs them.
                for (field, value) in
                    [("kind", "Status".into()), ("apiVersion", "v1".into()), ("metadata", serde_json::json!({}))]
                {
                    wire[field] = value;
                }
                Status::from_wire(wire.to_string().as_bytes()).unwrap_or_else(|| Status::internal(&status.message))
            }
            other => Status::internal(other.to_string()),
        };
        Self::Denied(Box::new(status))
    }
}

/// Reviews the writes that match a webhook's rules.
///
/// # Assumptions
/// The server waits 10 seconds for the review, the default timeout, and then refuses the write.
pub trait Admission: Send + Sync {
    /// Allows, changes or denies one write.
    fn review<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Decision>;
}

/// A plain function that does not wait is a review.
impl<F: Fn(&Request) -> Decision + Send + Sync> Admission for F {
    fn review<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Decision> {
        Box::pin(async move { self(request) })
    }
}

/// The type of a webhook.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HookKind {
    /// It may change the object.
    Mutating,
    /// It allows or denies, and changes nothing.
    Validating,
}

/// What a webhook does besides answering, as in `sideEffects` of its configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SideEffects {
    /// Nothing.
    None,
    /// It has side effects, except for dry runs.
    NoneOnDryRun,
}

/// A webhook of a controller: one configuration with one hook.
#[derive(Clone)]
pub struct Webhook {
    /// The name of the configuration, as in `app-defaulter`.
    pub configuration: String,
    /// The name of the hook, as in `app-defaulter.app.rancherdesktop.io`.
    pub hook: String,
    /// Mutating or validating.
    pub kind: HookKind,
    /// The writes that the server sends to it.
    pub rules: Vec<RuleWithOperations>,
    /// Restricts it to objects with matching labels.
    pub object_selector: Option<LabelSelector>,
    /// Its side effects.
    pub side_effects: SideEffects,
    /// Reviews the writes.
    pub handler: Arc<dyn Admission>,
}

impl fmt::Debug for Webhook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {}", self.kind, self.configuration)
    }
}

impl Webhook {
    /// A mutating webhook for `K` without side effects. The hook is named `<configuration>.<group of K>`.
    pub fn mutating<K: Kind>(configuration: &str, operations: &[Operation], handler: impl Admission + 'static) -> Self {
        Self::of::<K>(HookKind::Mutating, configuration, operations, handler)
    }

    /// A validating webhook for `K` without side effects. The hook is named `<configuration>.<group of K>`.
    pub fn validating<K: Kind>(
        configuration: &str,
        operations: &[Operation],
        handler: impl Admission + 'static,
    ) -> Self {
        Self::of::<K>(HookKind::Validating, configuration, operations, handler)
    }

    /// A webhook that denies the deletion of an object of `K` that another object owns ([`guard::owned`]).
    pub fn delete_guard<K: Kind>(configuration: &str) -> Self {
        Self::validating::<K>(configuration, &[Operation::Delete], guard::owned)
    }

    /// A webhook that denies the creation of an object of `K` under any name but this one ([`guard::singleton`]).
    pub fn singleton<K: Kind>(configuration: &str, name: &'static str) -> Self {
        let check = move |request: &Request| guard::singleton(request, name);
        Self::validating::<K>(configuration, &[Operation::Create], check)
    }

    fn of<K: Kind>(
        kind: HookKind,
        configuration: &str,
        operations: &[Operation],
        handler: impl Admission + 'static,
    ) -> Self {
        Self {
            configuration: configuration.to_owned(),
            hook: format!("{configuration}.{}", K::group(&())),
            kind,
            rules: vec![rule::<K>(operations)],
            object_selector: None,
            side_effects: SideEffects::None,
            handler: Arc::new(handler),
        }
    }

    /// Sets another name for the hook.
    #[must_use]
    pub fn named(mut self, hook: &str) -> Self {
        hook.clone_into(&mut self.hook);
        self
    }

    /// Restricts the webhook to objects that match this selector.
    #[must_use]
    pub fn selecting(mut self, selector: LabelSelector) -> Self {
        self.object_selector = Some(selector);
        self
    }

    /// Declares that the handler has side effects, except for dry runs.
    #[must_use]
    pub fn with_side_effects(mut self) -> Self {
        self.side_effects = SideEffects::NoneOnDryRun;
        self
    }

    /// The path of the webhook below the manager's address, as in `/validating-<configuration>`.
    pub fn path(&self) -> String {
        let kind = match self.kind {
            HookKind::Mutating => "mutating",
            HookKind::Validating => "validating",
        };
        format!("/{kind}-{}", self.configuration)
    }
}
