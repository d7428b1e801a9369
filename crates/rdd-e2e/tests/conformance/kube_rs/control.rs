//! Tests kube's controller runtime: owned objects, finalizers and events.

use std::{sync::Arc, time::Duration};

use futures::{StreamExt, future::Either, pin_mut};
use k8s_openapi::{
    api::{core::v1::ConfigMap, events::v1::Event as StoredEvent},
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Client, CustomResourceExt, Resource, ResourceExt,
    api::{DeleteParams, ListParams, ObjectMeta, Patch, PatchParams, PostParams},
    runtime::{
        Controller,
        conditions::is_crd_established,
        controller::Action,
        events::{Event, EventType, Recorder, Reporter},
        finalizer::{self, finalizer},
        wait::{await_condition, conditions::is_deleted},
        watcher,
    },
};

use super::{Shelf, ShelfSpec, config_map, scenario};

const FINALIZER: &str = "kube.judge.example/sign";
const OWNER: &str = "sign-painter";

async fn define(client: &Client) {
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    definitions.patch(Shelf::crd_name(), &PatchParams::apply(OWNER), &Patch::Apply(Shelf::crd())).await.unwrap();
    await_condition(definitions, Shelf::crd_name(), is_crd_established()).await.unwrap();
}

/// Reconciles a shelf: it owns a ConfigMap, its sign; its finalizer leaves a farewell.
async fn reconcile(shelf: Arc<Shelf>, client: Arc<Client>) -> Result<Action, finalizer::Error<kube::Error>> {
    let namespace = shelf.namespace().unwrap();
    let shelves: Api<Shelf> = Api::namespaced((*client).clone(), &namespace);
    let maps: Api<ConfigMap> = Api::namespaced((*client).clone(), &namespace);
    finalizer(&shelves, FINALIZER, shelf, |event| async move {
        match event {
            finalizer::Event::Apply(shelf) => hang_sign(&maps, &shelf).await?,
            finalizer::Event::Cleanup(shelf) => {
                let farewell = config_map(&format!("farewell-{}", shelf.name_any()), "gone");
                match maps.create(&PostParams::default(), &farewell).await {
                    Ok(_) => {}
                    Err(kube::Error::Api(status)) if status.is_already_exists() => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(Action::await_change())
    })
    .await
}

async fn hang_sign(maps: &Api<ConfigMap>, shelf: &Shelf) -> Result<(), kube::Error> {
    let sign = ConfigMap {
        metadata: ObjectMeta {
            name: Some(shelf.name_any()),
            owner_references: Some(vec![shelf.controller_owner_ref(&()).unwrap()]),
            ..ObjectMeta::default()
        },
        data: Some([("title".to_owned(), shelf.spec.title.clone())].into()),
        ..ConfigMap::default()
    };
    maps.patch(&shelf.name_any(), &PatchParams::apply(OWNER).force(), &Patch::Apply(sign)).await?;
    Ok(())
}

/// Whether the sign of a shelf has this title.
fn says(text: &'static str) -> impl Fn(Option<&ConfigMap>) -> bool {
    move |sign| {
        let data = sign.and_then(|sign| sign.data.as_ref());
        data.and_then(|data| data.get("title")).is_some_and(|title| title == text)
    }
}

async fn live_with_a_controller(client: Client) {
    let shelves: Api<Shelf> = Api::default_namespaced(client.clone());
    let maps: Api<ConfigMap> = Api::default_namespaced(client);
    let shelf = Shelf::new("upper", ShelfSpec { title: "Upper".to_owned(), books: 1 });
    shelves.create(&PostParams::default(), &shelf).await.unwrap();
    await_condition(maps.clone(), "upper", says("Upper")).await.unwrap();

    let rename = Patch::Merge(serde_json::json!({ "spec": { "title": "Renamed" } }));
    shelves.patch("upper", &PatchParams::default(), &rename).await.unwrap();
    await_condition(maps.clone(), "upper", says("Renamed")).await.unwrap();

    let spoil = Patch::Merge(serde_json::json!({ "data": { "title": "Spoilt" } }));
    maps.patch("upper", &PatchParams::default(), &spoil).await.unwrap();
    await_condition(maps.clone(), "upper", says("Renamed")).await.unwrap();

    let sign = maps.get("upper").await.unwrap().uid().unwrap();
    let uid = shelves.get("upper").await.unwrap().uid().unwrap();
    shelves.delete("upper", &DeleteParams::background()).await.unwrap();
    await_condition(shelves, "upper", is_deleted(&uid)).await.unwrap();
    maps.get("farewell-upper").await.unwrap();
    // The garbage collector deletes what the shelf owned.
    await_condition(maps, "upper", is_deleted(&sign)).await.unwrap();
}

#[test]
fn a_controller_keeps_what_it_owns_and_cleans_up() {
    scenario(|client| async move {
        define(&client).await;
        let config = watcher::Config::default().streaming_lists();
        let controller = Controller::new(Api::<Shelf>::all(client.clone()), config.clone())
            .owns(Api::<ConfigMap>::all(client.clone()), config)
            .run(reconcile, |_, _, _| Action::requeue(Duration::from_millis(50)), Arc::new(client.clone()))
            .for_each(|_| std::future::ready(()));
        let life = live_with_a_controller(client);
        pin_mut!(controller, life);
        match futures::future::select(controller, life).await {
            Either::Left(_) => panic!("the controller ended"),
            Either::Right(((), _)) => {}
        }
    });
}

#[test]
fn events_are_recorded_and_become_a_series() {
    scenario(|client| async move {
        let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
        let about = maps.create(&PostParams::default(), &config_map("eventful", "x")).await.unwrap();
        let reporter = Reporter { controller: "judge".to_owned(), instance: Some("judge-1".to_owned()) };
        let recorder = Recorder::new(client.clone(), reporter);
        let event = Event {
            type_: EventType::Normal,
            reason: "Painted".to_owned(),
            note: Some("it is blue".to_owned()),
            action: "Paint".to_owned(),
            secondary: None,
        };
        let reference = about.object_ref(&());
        recorder.publish(&event, &reference).await.unwrap();
        recorder.publish(&event, &reference).await.unwrap();
        let events: Api<StoredEvent> = Api::default_namespaced(client.clone());
        let found = events.list(&ListParams::default().fields("regarding.name=eventful")).await.unwrap();
        assert_eq!(found.items.len(), 1);
        assert_eq!(found.items[0].series.as_ref().map(|series| series.count), Some(2));
        let core: Api<k8s_openapi::api::core::v1::Event> = Api::default_namespaced(client);
        let same = core.list(&ListParams::default().fields("involvedObject.name=eventful")).await.unwrap();
        assert_eq!(same.items[0].metadata.uid, found.items[0].metadata.uid, "both groups show one event");
    });
}
