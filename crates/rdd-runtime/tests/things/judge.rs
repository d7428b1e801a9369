//! A controller with a webhook and without reconciles.

use std::sync::Arc;

use kube::CustomResourceExt;
use rdd_runtime::{
    Context, Controller, Declaration, Error, Plan, Step,
    admission::{Decision, Operation, Request, Webhook},
};

use super::Thing;

/// A controller that only reviews things.
pub struct Judge;

#[derive(Debug)]
pub enum Never {}

impl Step for Never {
    const ALL: &'static [&'static str] = &[];

    fn name(&self) -> &'static str {
        match *self {}
    }
}

impl Controller for Judge {
    type Object = Thing;
    type Observed = ();
    type Step = Never;

    fn declaration(&self) -> Declaration {
        let operations = [Operation::Create, Operation::Update];
        Declaration::new("judge", "test")
            .crds([Thing::crd()])
            .webhook(Webhook::mutating::<Thing>("thing-defaulter", &operations, defaults))
            .webhook(Webhook::validating::<Thing>("thing-validator", &operations, judges))
            .webhook(Webhook::delete_guard::<Thing>("thing-guard"))
    }

    async fn observe(&self, _: Arc<Thing>, _: &Context) -> Result<(), Error> {
        Ok(())
    }

    fn plan(&self, (): &()) -> Plan<Never> {
        Plan::nothing()
    }

    async fn act(&self, step: &Never, (): &(), _: &Context) -> Result<(), Error> {
        match *step {}
    }
}

fn defaults(request: &Request) -> Decision {
    let mut object = request.object.clone().unwrap_or_default();
    if object["spec"]["mood"] == "" {
        object["spec"]["mood"] = "calm".into();
    }
    Decision::Patched(object)
}

fn judges(request: &Request) -> Decision {
    match request.new_as::<Thing>() {
        Some(Ok(thing)) if thing.spec.value == "bad" => Decision::denied("spec.value must not be bad"),
        Some(Ok(thing)) if thing.spec.value == "odd" => Decision::Allowed { warnings: vec!["odd".to_owned()] },
        _ => Decision::allowed(),
    }
}
