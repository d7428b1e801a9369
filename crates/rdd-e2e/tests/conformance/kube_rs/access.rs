//! Tests kube's basic access: create, get, update, apply, delete, discover.

use k8s_openapi::{
    api::{
        coordination::v1::{Lease, LeaseSpec},
        core::v1::ConfigMap,
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
    apimachinery::pkg::apis::meta::v1::MicroTime,
    jiff::Timestamp,
};
use kube::{
    Api, CustomResourceExt, Discovery, ResourceExt,
    api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams},
    core::GroupVersionKind,
    runtime::{
        conditions::is_crd_established,
        wait::{await_condition, conditions::is_deleted},
    },
};
use serde_json::json;

use super::{Shelf, ShelfSpec, config_map, refusal, scenario};

#[test]
fn a_client_creates_reads_changes_and_removes() {
    scenario(|client| async move {
        let maps: Api<ConfigMap> = Api::default_namespaced(client);
        let made = maps.create(&PostParams::default(), &config_map("one", "1")).await.unwrap();
        assert!(made.uid().is_some() && made.resource_version().is_some() && made.creation_timestamp().is_some());
        let again = maps.create(&PostParams::default(), &config_map("one", "1")).await;
        assert_eq!(refusal(again), (409, "AlreadyExists".to_owned()));

        let mut changed = made.clone();
        changed.data.as_mut().unwrap().insert("more".to_owned(), "2".to_owned());
        let stored = maps.replace("one", &PostParams::default(), &changed).await.unwrap();
        assert_ne!(stored.resource_version(), made.resource_version());
        assert_eq!(refusal(maps.replace("one", &PostParams::default(), &changed).await), (409, "Conflict".to_owned()));

        let patch = Patch::Merge(json!({ "data": { "k": null } }));
        let patched = maps.patch("one", &PatchParams::default(), &patch).await.unwrap();
        assert_eq!(patched.data, Some([("more".to_owned(), "2".to_owned())].into()));

        let dry = PostParams { dry_run: true, ..PostParams::default() };
        maps.create(&dry, &config_map("dry", "1")).await.unwrap();
        assert!(maps.get_opt("dry").await.unwrap().is_none());

        maps.delete("one", &DeleteParams::default()).await.unwrap();
        assert_eq!(refusal(maps.get("one").await), (404, "NotFound".to_owned()));
    });
}

#[test]
fn lists_come_in_pages_and_by_selectors() {
    scenario(|client| async move {
        let maps: Api<ConfigMap> = Api::default_namespaced(client);
        for number in 0..5 {
            let mut map = config_map(&format!("page-{number}"), "x");
            map.metadata.labels = Some([("parity".to_owned(), (number % 2).to_string())].into());
            maps.create(&PostParams::default(), &map).await.unwrap();
        }
        let odd = maps.list(&ListParams::default().labels("parity=1")).await.unwrap();
        assert_eq!(odd.items.len(), 2);
        let named = maps.list(&ListParams::default().fields("metadata.name=page-3")).await.unwrap();
        assert_eq!(named.items.len(), 1);

        let first = maps.list(&ListParams::default().labels("parity").limit(2)).await.unwrap();
        assert_eq!(first.items.len(), 2);
        maps.delete("page-4", &DeleteParams::default()).await.unwrap();
        let token = first.metadata.continue_.unwrap();
        let rest = maps.list(&ListParams::default().labels("parity").continue_token(&token)).await.unwrap();
        let names: Vec<String> = rest.items.iter().map(ResourceExt::name_any).collect();
        assert_eq!(names, ["page-2", "page-3", "page-4"], "pages are of one moment");
        let metadata = maps.list_metadata(&ListParams::default().labels("parity")).await.unwrap();
        assert_eq!(metadata.items.len(), 4);
    });
}

#[test]
fn server_side_apply_keeps_owners_apart() {
    scenario(|client| async move {
        let maps: Api<ConfigMap> = Api::default_namespaced(client);
        let apply = |value: &str| {
            let object = json!({
                "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "shared" }, "data": { "k": value },
            });
            Patch::Apply(object)
        };
        maps.patch("shared", &PatchParams::apply("first"), &apply("1")).await.unwrap();
        let against = maps.patch("shared", &PatchParams::apply("second"), &apply("2")).await;
        assert_eq!(refusal(against), (409, "Conflict".to_owned()));
        let taken = maps.patch("shared", &PatchParams::apply("second").force(), &apply("2")).await.unwrap();
        let owners: Vec<_> = taken.managed_fields().iter().filter_map(|entry| entry.manager.as_deref()).collect();
        assert_eq!(owners, ["second"]);
    });
}

#[test]
fn leases_are_taken_and_renewed() {
    scenario(|client| async move {
        let leases: Api<Lease> = Api::default_namespaced(client);
        let mut lease = Lease::default();
        lease.metadata.name = Some("leader".to_owned());
        let now = MicroTime("2026-01-02T03:04:05.678901Z".parse::<Timestamp>().unwrap());
        let spec = LeaseSpec {
            holder_identity: Some("first".to_owned()),
            lease_duration_seconds: Some(15),
            acquire_time: Some(now.clone()),
            renew_time: Some(now.clone()),
            ..LeaseSpec::default()
        };
        lease.spec = Some(spec);
        let taken = leases.create(&PostParams::default(), &lease).await.unwrap();
        assert_eq!(taken.spec.as_ref().unwrap().renew_time, Some(now));
        let mut renewed = taken.clone();
        renewed.spec.as_mut().unwrap().holder_identity = Some("second".to_owned());
        leases.replace("leader", &PostParams::default(), &renewed).await.unwrap();
        let late = leases.replace("leader", &PostParams::default(), &taken).await;
        assert_eq!(refusal(late), (409, "Conflict".to_owned()), "only one of two can have it");
    });
}

#[test]
fn a_derived_definition_is_applied_established_and_used() {
    scenario(|client| async move {
        let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
        let name = Shelf::crd_name();
        let apply = PatchParams::apply("judge").force();
        definitions.patch(name, &apply, &Patch::Apply(Shelf::crd())).await.unwrap();
        await_condition(definitions.clone(), name, is_crd_established()).await.unwrap();

        let shelves: Api<Shelf> = Api::default_namespaced(client);
        let shelf = Shelf::new("upper", ShelfSpec { title: "Upper".to_owned(), books: 3 });
        let made = shelves.create(&PostParams::default(), &shelf).await.unwrap();
        assert_eq!(made.metadata.generation, Some(1));
        let short = Shelf::new("short", ShelfSpec { title: "x".to_owned(), books: 0 });
        assert_eq!(refusal(shelves.create(&PostParams::default(), &short).await), (422, "Invalid".to_owned()));

        let status = Patch::Merge(json!({ "status": { "ready": true } }));
        let told = shelves.patch_status("upper", &PatchParams::default(), &status).await.unwrap();
        assert!(told.status.is_some_and(|status| status.ready));
        assert_eq!(told.metadata.generation, Some(1), "a status is no new generation");

        let uid = definitions.get(name).await.unwrap().uid().unwrap();
        definitions.delete(name, &DeleteParams::default()).await.unwrap();
        await_condition(definitions, name, is_deleted(&uid)).await.unwrap();
        assert_eq!(refusal(shelves.get("upper").await).0, 404);
    });
}

#[test]
fn discovery_finds_the_same_in_both_forms() {
    scenario(|client| async move {
        let old = Discovery::new(client.clone()).run().await.unwrap();
        let aggregated = Discovery::new(client.clone()).run_aggregated().await.unwrap();
        let describe = |discovery: &Discovery| -> Vec<String> {
            let groups = discovery.groups_alphabetical().into_iter();
            let resources = groups.flat_map(|group| group.recommended_resources());
            let mut lines: Vec<String> = resources
                .map(|(resource, capabilities)| {
                    let mut verbs = capabilities.operations.clone();
                    verbs.sort();
                    format!("{} {} {} {verbs:?}", resource.api_version, resource.kind, resource.plural)
                })
                .collect();
            lines.sort();
            lines
        };
        assert_eq!(describe(&old), describe(&aggregated));
        assert!(describe(&old).iter().any(|line| line.starts_with("v1 ConfigMap configmaps")));

        let kind = GroupVersionKind::gvk("", "v1", "ConfigMap");
        let (resource, _) = aggregated.resolve_gvk(&kind).unwrap();
        let dynamic: Api<DynamicObject> = Api::default_namespaced_with(client, &resource);
        let object = DynamicObject::new("dynamic", &resource).data(json!({ "data": { "a": "b" } }));
        let made = dynamic.create(&PostParams::default(), &object).await.unwrap();
        assert_eq!(made.data["data"]["a"], "b");
    });
}
