//! Greeting: a kind of its own, and the controller that writes a card for each.

use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{CustomResource, CustomResourceExt, ResourceExt, api::ObjectMeta};
use rdd_runtime::{Context, Controller, Declaration, Error, Key, Plan};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What somebody wants.
#[derive(CustomResource, Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[kube(group = "hello.example.com", version = "v1", kind = "Greeting", namespaced, status = "GreetingStatus")]
#[kube(printcolumn = r#"{"name": "Message", "type": "string", "jsonPath": ".status.message"}"#)]
pub(crate) struct GreetingSpec {
    /// Who is greeted.
    pub(crate) who: String,
}

/// What has been done about it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct GreetingStatus {
    /// What the card says.
    pub(crate) message: String,
    /// Which version of the wish this is about.
    pub(crate) observed_generation: Option<i64>,
}

/// The controller. It remembers nothing: everything is in the API.
pub(crate) struct Greeter;

/// All that the decision depends on.
pub(crate) struct Observed {
    greeting: Arc<Greeting>,
    card: Option<Arc<ConfigMap>>,
}

/// What can be done. Each step can be done twice without harm.
#[derive(Debug, PartialEq)]
pub(crate) enum Step {
    WriteCard(String),
    TellStatus(GreetingStatus),
}

impl rdd_runtime::Step for Step {
    const ALL: &'static [&'static str] = &["write-card", "tell-status"];

    fn name(&self) -> &'static str {
        match self {
            Self::WriteCard(_) => "write-card",
            Self::TellStatus(_) => "tell-status",
        }
    }
}

impl Controller for Greeter {
    type Object = Greeting;
    type Observed = Observed;
    type Step = Step;

    fn declaration(&self) -> Declaration {
        Declaration::new("greeter", "examples").crds([Greeting::crd()]).owns::<ConfigMap>()
    }

    async fn observe(&self, greeting: Arc<Greeting>, cx: &Context) -> Result<Observed, Error> {
        let key = Key::namespaced(greeting.namespace().unwrap_or_default(), card_name(&greeting));
        Ok(Observed { card: cx.cached::<ConfigMap>().get(&key), greeting })
    }

    fn plan(&self, Observed { greeting, card }: &Observed) -> Plan<Step> {
        let mut plan = Plan::nothing();
        // The card goes with the greeting that owns it.
        if greeting.metadata.deletion_timestamp.is_some() {
            return plan;
        }
        let message = format!("Hello, {}!", greeting.spec.who);
        let written = card.as_ref().and_then(|card| card.data.as_ref()?.get("message"));
        if written != Some(&message) {
            plan = plan.then(Step::WriteCard(message.clone()));
        }
        let status = GreetingStatus { message, observed_generation: greeting.metadata.generation };
        if greeting.status.as_ref() != Some(&status) {
            plan = plan.then(Step::TellStatus(status));
        }
        plan
    }

    async fn act(&self, step: &Step, Observed { greeting, .. }: &Observed, cx: &Context) -> Result<(), Error> {
        match step {
            Step::WriteCard(message) => cx.apply(&card(greeting, message)).await.map(drop),
            Step::TellStatus(status) => cx.apply_status(&**greeting, status).await.map(drop),
        }
    }
}

fn card_name(greeting: &Greeting) -> String {
    format!("{}-card", greeting.name_any())
}

fn card(greeting: &Greeting, message: &str) -> ConfigMap {
    ConfigMap {
        metadata: ObjectMeta {
            name: Some(card_name(greeting)),
            namespace: greeting.namespace(),
            owner_references: Context::owner_reference(greeting).map(|owner| vec![owner]),
            ..ObjectMeta::default()
        },
        data: Some([("message".to_owned(), message.to_owned())].into()),
        ..ConfigMap::default()
    }
}

#[cfg(test)]
mod tests {
    use rdd_runtime::Registered;
    use rdd_testkit::{
        api::{Server, TestApi},
        controllers::{Stage, kill_everywhere},
    };

    use super::*;

    fn observed(card: Option<&str>, status: Option<&str>) -> Observed {
        let mut greeting = Greeting::new("g", GreetingSpec { who: "Ann".to_owned() });
        greeting.status =
            status.map(|message| GreetingStatus { message: message.to_owned(), observed_generation: None });
        let card = card.map(|message| Arc::new(super::card(&greeting, message)));
        Observed { greeting: Arc::new(greeting), card }
    }

    #[test]
    fn a_card_is_written_and_told_of_and_then_there_is_nothing_to_do() {
        let names = |observed: Observed| {
            let plan = Greeter.plan(&observed);
            plan.steps.iter().map(rdd_runtime::Step::name).collect::<Vec<_>>().join(", ")
        };
        assert_eq!(names(observed(None, None)), "write-card, tell-status");
        assert_eq!(names(observed(Some("Hello, Ann!"), None)), "tell-status");
        assert_eq!(names(observed(Some("Hello, Bob!"), Some("Hello, Ann!"))), "write-card");
        assert_eq!(names(observed(Some("Hello, Ann!"), Some("Hello, Ann!"))), "");
    }

    #[test]
    fn killed_anywhere_it_converges() {
        let points = kill_everywhere(
            || (),
            |()| vec![Registered::new(Greeter)],
            |stage: &mut Stage, ()| {
                let api: kube::Api<Greeting> = kube::Api::default_namespaced(stage.client());
                let greeting = Greeting::new("g", GreetingSpec { who: "Ann".to_owned() });
                stage.block_on(api.create(&Default::default(), &greeting)).unwrap();
                stage.settle();
                let status = stage.block_on(api.get("g")).unwrap().status.unwrap();
                assert_eq!(status.message, "Hello, Ann!");
            },
        );
        assert_eq!(points, 4, "two steps, before and after each");
    }

    #[test]
    fn the_definition_is_taken_by_a_server() {
        let api = TestApi::start();
        let definition = serde_json::to_value(Greeting::crd()).unwrap();
        api.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition).expect(201);
    }
}
