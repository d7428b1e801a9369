//! Admission webhooks: calls the webhooks that match a write, over the network or in this process.
//!
//! Mirrors `plugin/webhook` of upstream's apiserver, version 1.35.4: which webhooks match, in which order they are
//! called, what they receive, what they must respond, and which errors the client gets.
//!
//! ```text
//! source     the configurations, compiled when one changes
//!   hook       one webhook: rules, selectors, match conditions, endpoint
//! choose     does a webhook match, and in which version (version: equivalent resources)
//! mutate     one after the other, some twice        validate   all at once
//! call       one call: an AdmissionReview (review) and its response
//!   local      to a function of this process
//!   network    to a server, over HTTPS (resolve: the addresses of services)
//! problem    errors for the client
//! ```

mod answer;
mod call;
mod choose;
mod condition;
mod endpoint;
mod hook;
mod local;
mod mutate;
mod network;
mod problem;
mod resolve;
mod review;
mod rule;
mod selector;
mod source;
#[cfg(test)]
mod tests;
mod validate;
mod version;

use std::sync::Arc;

use rdd_meta::Status;
use rdd_stdx::dns::Resolver;

use self::{call::Caller, choose::Chooser, source::Source};
pub use self::{
    condition::match_condition_error,
    local::{Handler, Local, Registration, Reply},
    resolve::{Resolve, Services},
};
use super::{Admit, Attributes, Judgement, Reform};
use crate::{
    registry::Registry,
    state::{Resource, State},
};

/// The kinds that no webhook receives: a webhook that refuses everything could not be removed otherwise.
const EXEMPT: [&str; 6] = [
    "MutatingAdmissionPolicy",
    "MutatingAdmissionPolicyBinding",
    "MutatingWebhookConfiguration",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
    "ValidatingWebhookConfiguration",
];

/// The plug-in that calls the configured mutating and validating webhooks.
#[derive(Debug)]
pub struct Webhooks {
    state: Arc<State>,
    registry: Arc<Registry>,
    namespaces: Resource,
    mutating: Source,
    validating: Source,
    caller: Caller,
}

impl Webhooks {
    /// A plug-in for the configurations in `state`. `local` holds the webhooks of this process, `services` resolves
    /// services to addresses.
    pub fn new(state: Arc<State>, registry: Arc<Registry>, local: Arc<Local>, services: Arc<dyn Resolve>) -> Self {
        Self {
            namespaces: Resource::new("", "namespaces").expect("two plain words"),
            mutating: Source::new(Arc::clone(&state), "mutatingwebhookconfigurations"),
            validating: Source::new(Arc::clone(&state), "validatingwebhookconfigurations"),
            caller: Caller::new(local, services, Resolver::shared().clone()),
            state,
            registry,
        }
    }

    fn chooser(&self) -> Chooser<'_> {
        Chooser::new(&self.state, &self.registry, &self.namespaces)
    }
}

impl Admit for Webhooks {
    fn handles(&self, attributes: &Attributes<'_>) -> bool {
        let is_configured = [&self.mutating, &self.validating].into_iter().any(|source| !source.hooks().is_empty());
        is_configured && !is_exempt(attributes)
    }

    fn mutate<'f>(&'f self, attributes: &'f mut Attributes<'_>, normalize: Reform<'f>) -> Judgement<'f> {
        Box::pin(async move {
            let hooks = self.mutating.hooks();
            mutate::run(&self.caller, &self.chooser(), &hooks, attributes, normalize).await
        })
    }

    fn validate<'f>(&'f self, attributes: &'f Attributes<'_>) -> Judgement<'f> {
        Box::pin(async move {
            let hooks = self.validating.hooks();
            validate::run(&self.caller, &self.chooser(), &hooks, attributes).await
        })
    }
}

fn is_exempt(attributes: &Attributes<'_>) -> bool {
    attributes.kind.group == "admissionregistration.k8s.io" && EXEMPT.contains(&attributes.kind.kind.as_str())
}

fn timed_out() -> Status {
    Status::timeout("request did not complete within requested timeout")
}
