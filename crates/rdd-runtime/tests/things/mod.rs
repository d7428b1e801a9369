//! A small kind with a controller that copies each thing into a ConfigMap, and fails on request.
#![allow(dead_code, unreachable_pub, reason = "each test uses a part of it")]

pub mod judge;

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex},
    time::Duration,
};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Client, CustomResource, CustomResourceExt, ResourceExt,
    api::{DeleteParams, ObjectMeta, Patch, PatchParams, PostParams},
};
use rdd_runtime::{Context, Controller, Declaration, Error, Key, Plan, Step, finalizer, manager::Place, sweep};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

#[derive(CustomResource, Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[kube(group = "test.rancherdesktop.io", version = "v1", kind = "Thing", plural = "things", namespaced)]
#[kube(status = "ThingStatus")]
pub struct ThingSpec {
    pub value: String,
    /// `fail`, `shaky` (fails once), `refuse`, `panic` or `hang`.
    #[serde(default)]
    pub mood: String,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
pub struct ThingStatus {
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub seen: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub problem: String,
}

/// The state outside the API, which outlives the controller.
#[derive(Debug, Default)]
pub struct World {
    /// How often each object was observed.
    pub looks: Mutex<HashMap<String, u32>>,
    /// Objects for which `gone` was called.
    pub gone: Mutex<Vec<Key>>,
    /// External numbers, each with the trigger of the object that depends on it.
    pub outside: Mutex<HashMap<String, (u32, Option<rdd_runtime::Trigger>)>>,
    /// Whether the object with mood `shaky` has failed once.
    pub failed: Mutex<bool>,
    /// How many controllers have stopped gracefully.
    pub stopped: Mutex<u32>,
}

/// The place of a test's manager.
pub fn place() -> Place {
    Place {
        health_port: 0,
        metrics_port: 1,
        metrics_endpoint: String::new(),
        passthrough_endpoint: String::new(),
        passthrough_socket: None,
    }
}

impl World {
    pub fn looks(&self, name: &str) -> u32 {
        self.looks.lock().unwrap().get(name).copied().unwrap_or(0)
    }
}

#[derive(Debug)]
pub struct Things(pub Arc<World>);

pub struct Observed {
    thing: Arc<Thing>,
    copy: Option<Arc<ConfigMap>>,
    outside: u32,
}

#[derive(Debug, PartialEq)]
pub enum Do {
    Copy,
    Fail,
    Status(ThingStatus),
    Sweep,
    Release,
}

impl Step for Do {
    const ALL: &'static [&'static str] = &["copy", "fail", "status", "sweep", "release"];

    fn name(&self) -> &'static str {
        match self {
            Self::Copy => "copy",
            Self::Fail => "fail",
            Self::Status(_) => "status",
            Self::Sweep => "sweep",
            Self::Release => "release",
        }
    }
}

impl Controller for Things {
    type Object = Thing;
    type Observed = Observed;
    type Step = Do;

    fn declaration(&self) -> Declaration {
        Declaration::new("things", "test").crds([Thing::crd()]).owns::<ConfigMap>().cleans_up()
    }

    async fn observe(&self, thing: Arc<Thing>, cx: &Context) -> Result<Observed, Error> {
        *self.0.looks.lock().unwrap().entry(thing.name_any()).or_default() += 1;
        match thing.spec.mood.as_str() {
            "refuse" => return Err(Error::message("it refuses")),
            "panic" => panic!("it panics"),
            "hang" => std::future::pending().await,
            _ => {}
        }
        let outside = {
            let mut outside = self.0.outside.lock().unwrap();
            let (number, trigger) = outside.entry(thing.name_any()).or_default();
            *trigger = Some(cx.trigger());
            *number
        };
        let key = Key::namespaced(thing.namespace().unwrap_or_default(), copy_name(&thing));
        Ok(Observed { copy: cx.cached::<ConfigMap>().get(&key), thing, outside })
    }

    fn plan(&self, observed: &Observed) -> Plan<Do> {
        let thing = &observed.thing;
        if thing.metadata.deletion_timestamp.is_some() {
            return Plan::of([Do::Sweep, Do::Release]);
        }
        let mut plan = Plan::nothing();
        if ["fail", "shaky"].contains(&&*thing.spec.mood) {
            plan = plan.then(Do::Fail);
        }
        let copied = observed.copy.as_ref().and_then(|copy| copy.data.as_ref()?.get("value").cloned());
        if copied.as_ref() != Some(&thing.spec.value) {
            plan = plan.then(Do::Copy);
        }
        let seen = format!("{} {}", thing.spec.value, observed.outside);
        let status = ThingStatus { seen, problem: String::new() };
        if thing.status.as_ref() != Some(&status) {
            plan = plan.then(Do::Status(status));
        }
        plan
    }

    async fn act(&self, step: &Do, observed: &Observed, cx: &Context) -> Result<(), Error> {
        let thing = &*observed.thing;
        match step {
            Do::Copy => cx.apply(&copy_of(thing)).await.map(drop),
            Do::Fail if thing.spec.mood == "shaky" && std::mem::replace(&mut *self.0.failed.lock().unwrap(), true) => {
                Ok(())
            }
            Do::Fail => Err(Error::message("it fails")),
            Do::Status(status) => cx.apply_status(thing, status).await.map(drop),
            Do::Sweep => {
                let swept = sweep::owned(&cx.client, &thing.metadata, &thing.namespace().unwrap_or_default()).await?;
                if swept.is_clean() { Ok(()) } else { Err(Error::message("not all of it is gone yet")) }
            }
            Do::Release => cx.release(thing).await,
        }
    }

    fn after_failure(&self, failed: &Do, _: &Observed, error: &Error) -> Option<Do> {
        let problem = rdd_stdx::chain::Chain(error).to_string();
        (*failed == Do::Fail).then(|| Do::Status(ThingStatus { seen: String::new(), problem }))
    }

    fn gone(&self, key: &Key) {
        self.0.gone.lock().unwrap().push(key.clone());
    }

    async fn stop(&self, _: &Context) {
        *self.0.stopped.lock().unwrap() += 1;
    }
}

pub fn copy_name(thing: &Thing) -> String {
    format!("{}-copy", thing.name_any())
}

fn copy_of(thing: &Thing) -> ConfigMap {
    ConfigMap {
        metadata: ObjectMeta {
            name: Some(copy_name(thing)),
            namespace: thing.namespace(),
            owner_references: Context::owner_reference(thing).map(|owner| vec![owner]),
            finalizers: Some(vec![finalizer::owned_by("Thing")]),
            ..ObjectMeta::default()
        },
        data: Some(BTreeMap::from([("value".to_owned(), thing.spec.value.clone())])),
        ..ConfigMap::default()
    }
}

/// Requests of a test about things.
pub struct Hands(pub Api<Thing>, pub Api<ConfigMap>);

impl Hands {
    pub fn new(client: Client) -> Self {
        Self(Api::namespaced(client.clone(), "default"), Api::namespaced(client, "default"))
    }

    pub async fn make(&self, name: &str, value: &str, mood: &str) -> Thing {
        let thing = Thing::new(name, ThingSpec { value: value.to_owned(), mood: mood.to_owned() });
        self.0.create(&PostParams::default(), &thing).await.unwrap()
    }

    pub async fn set(&self, name: &str, spec: serde_json::Value) -> Thing {
        self.0.patch(name, &PatchParams::default(), &Patch::Merge(json!({"spec": spec}))).await.unwrap()
    }

    pub async fn delete(&self, name: &str) {
        self.0.delete(name, &DeleteParams::default()).await.unwrap();
    }

    pub async fn seen(&self, name: &str) -> Option<String> {
        self.0.get_opt(name).await.unwrap()?.status.map(|status| status.seen).filter(|seen| !seen.is_empty())
    }

    pub async fn copied(&self, name: &str) -> Option<String> {
        self.1.get_opt(&format!("{name}-copy")).await.unwrap()?.data?.get("value").cloned()
    }
}

/// Polls until the check holds.
pub async fn until<F: Future<Output = bool>>(what: &str, look: impl Fn() -> F) {
    let deadline = tokio::time::Instant::now() + Duration::from_secs(30);
    while !look().await {
        assert!(tokio::time::Instant::now() < deadline, "waited in vain for {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
