//! Admission: what a controller says about writes before they happen.

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

/// What is to become of a write.
#[derive(Debug, Clone, PartialEq)]
pub enum Decision {
    /// It may happen.
    Allowed {
        /// Shown to the client.
        warnings: Vec<String>,
    },
    /// It may happen with this object instead: all of it, the difference is found by the runtime.
    Patched(Value),
    /// It may not happen. The status is the client's answer, behind the words that name the hook.
    Denied(Box<Status>),
}

impl Decision {
    /// It may happen.
    pub fn allowed() -> Self {
        Self::Allowed { warnings: Vec::new() }
    }

    /// It may not happen, for this reason: 403 Forbidden with this text.
    pub fn denied(why: impl Into<String>) -> Self {
        let mut status = Status::forbidden("");
        status.message = why.into();
        Self::Denied(Box::new(status))
    }

    /// It may not happen because a call to the API failed. What the API answered becomes the client's answer.
    pub fn failed(error: &kube::Error) -> Self {
        let status = match error {
            kube::Error::Api(status) => {
                let mut wire = serde_json::to_value(status).unwrap_or_default();
                // `kube` reads these and does not keep them.
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

/// Reviews writes.
pub trait Admission: Send + Sync {
    /// Decides about one.
    fn review<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Decision>;
}

/// A function that needs to wait for nothing is a review.
impl<F: Fn(&Request) -> Decision + Send + Sync> Admission for F {
    fn review<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Decision> {
        Box::pin(async move { self(request) })
    }
}

/// Whether a webhook changes objects or only judges them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HookKind {
    /// Changes them.
    Mutating,
    /// Judges them.
    Validating,
}

/// What a webhook does besides answering.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SideEffects {
    /// Nothing.
    None,
    /// Something, but not when it is a dry run.
    NoneOnDryRun,
}

/// A webhook of a controller: one configuration with one hook.
#[derive(Clone)]
pub struct Webhook {
    /// The name of the configuration, as in `app-defaulter`.
    pub configuration: String,
    /// The name of the hook, as in `app-defaulter.app.rancherdesktop.io`.
    pub hook: String,
    /// Which kind of configuration.
    pub kind: HookKind,
    /// What is asked about.
    pub rules: Vec<RuleWithOperations>,
    /// Of which objects.
    pub object_selector: Option<LabelSelector>,
    /// What it does besides answering.
    pub side_effects: SideEffects,
    /// Answers.
    pub handler: Arc<dyn Admission>,
}

impl fmt::Debug for Webhook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {}", self.kind, self.configuration)
    }
}

impl Webhook {
    /// A webhook without side effects that changes objects of `K`; the hook's name is the configuration's and the kind's group.
    pub fn mutating<K: Kind>(configuration: &str, operations: &[Operation], handler: impl Admission + 'static) -> Self {
        Self::of::<K>(HookKind::Mutating, configuration, operations, handler)
    }

    /// A webhook without side effects that judges objects of `K`; the hook's name is the configuration's and the kind's group.
    pub fn validating<K: Kind>(
        configuration: &str,
        operations: &[Operation],
        handler: impl Admission + 'static,
    ) -> Self {
        Self::of::<K>(HookKind::Validating, configuration, operations, handler)
    }

    /// A webhook that refuses to delete an object of `K` while another owns it.
    pub fn delete_guard<K: Kind>(configuration: &str) -> Self {
        Self::validating::<K>(configuration, &[Operation::Delete], guard::owned)
    }

    /// A webhook that refuses objects of `K` of any name but one.
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

    /// The same under another name for the hook.
    #[must_use]
    pub fn named(mut self, hook: &str) -> Self {
        hook.clone_into(&mut self.hook);
        self
    }

    /// The same for objects with these labels only.
    #[must_use]
    pub fn selecting(mut self, selector: LabelSelector) -> Self {
        self.object_selector = Some(selector);
        self
    }

    /// The same, with side effects when it is no dry run.
    #[must_use]
    pub fn with_side_effects(mut self) -> Self {
        self.side_effects = SideEffects::NoneOnDryRun;
        self
    }

    /// Where it is asked, below the address of the manager.
    pub fn path(&self) -> String {
        let kind = match self.kind {
            HookKind::Mutating => "mutating",
            HookKind::Validating => "validating",
        };
        format!("/{kind}-{}", self.configuration)
    }
}
