//! Tests of the discovery documents that clients receive.

use http::{Method, Request, StatusCode};
use http_body_util::BodyExt;
use serde_json::{Value, json};

use super::{fixture::*, *};
use crate::registry::Registry;

const V2: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

fn head(path: &str, headers: &[(&str, &str)]) -> Parts {
    let mut request = Request::builder().uri(path).header(HOST, "127.0.0.1:6443");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(()).unwrap().into_parts().0
}

async fn text(response: Response) -> String {
    // A Status in protobuf is not text; the tests do not decode it.
    String::from_utf8_lossy(&response.into_body().collect().await.unwrap().to_bytes()).into_owned()
}

async fn get(path: &str, headers: &[(&str, &str)]) -> (StatusCode, String, String) {
    get_with_query(path, "", headers).await
}

async fn get_with_query(path: &str, query: &str, headers: &[(&str, &str)]) -> (StatusCode, String, String) {
    let head = head(&format!("{path}?{query}"), headers);
    let response = answer(&mk_served(), &head, path).expect("a path of discovery");
    let content_type = response.headers()[http::header::CONTENT_TYPE].to_str().unwrap().to_owned();
    (response.status(), content_type, text(response).await)
}

async fn document(path: &str, headers: &[(&str, &str)]) -> Value {
    let (code, _, body) = get(path, headers).await;
    assert_eq!(code, StatusCode::OK, "{body}");
    serde_json::from_str(&body).unwrap()
}

#[tokio::test]
async fn the_core_api_tells_its_versions_and_where_it_is() {
    let (_, content_type, body) = get("/api", &[]).await;
    assert_eq!(content_type, "application/json");
    assert_eq!(
        body,
        "{\"kind\":\"APIVersions\",\"versions\":[\"v1\"],\"serverAddressByClientCIDRs\":\
         [{\"clientCIDR\":\"0.0.0.0/0\",\"serverAddress\":\"127.0.0.1:6443\"}]}\n"
    );
}

#[tokio::test]
async fn core_resources_come_as_upstream_lists_them() {
    let (_, _, body) = get("/api/v1", &[]).await;
    assert!(
        body.starts_with("{\"kind\":\"APIResourceList\",\"groupVersion\":\"v1\",\"resources\":[{\"name\":"),
        "{body}"
    );
    let list: Value = serde_json::from_str(&body).unwrap();
    let names: Vec<_> =
        list["resources"].as_array().unwrap().iter().map(|item| item["name"].as_str().unwrap()).collect();
    assert_eq!(
        names,
        [
            "configmaps",
            "events",
            "namespaces",
            "namespaces/finalize",
            "namespaces/status",
            "serviceaccounts",
            "serviceaccounts/token"
        ]
    );
    // The hashes are from a real kube-apiserver.
    assert_eq!(
        list["resources"][2],
        json!({
            "name": "namespaces", "singularName": "namespace", "namespaced": false, "kind": "Namespace",
            "verbs": ["create", "delete", "get", "list", "patch", "update", "watch"],
            "shortNames": ["ns"], "storageVersionHash": "Q3oi5N2YM8M=",
        })
    );
    assert_eq!(
        list["resources"][3],
        json!({
            "name": "namespaces/finalize", "singularName": "", "namespaced": false, "kind": "Namespace", "verbs": ["update"],
        })
    );
    assert_eq!(
        list["resources"][6],
        json!({
            "name": "serviceaccounts/token", "singularName": "", "namespaced": true, "kind": "TokenRequest",
            "group": "authentication.k8s.io", "version": "v1", "verbs": ["create"],
        })
    );
}

#[tokio::test]
async fn a_resource_may_name_another_storage_version_than_it_serves() {
    let list = document("/apis/apiextensions.k8s.io/v1", &[]).await;
    // From kube-apiserver 1.35.4.
    assert_eq!(list["resources"][0]["storageVersionHash"], "jfWCUB31mvA=");
}

#[tokio::test]
async fn two_groups_over_one_storage_show_one_hash() {
    let core = document("/api/v1", &[]).await;
    let other = document("/apis/events.k8s.io/v1", &[]).await;
    assert_eq!(core["resources"][1]["storageVersionHash"], "r2yiGXH7wu8=");
    assert_eq!(other["resources"][0]["storageVersionHash"], "r2yiGXH7wu8=");
    let questions = document("/apis/authorization.k8s.io/v1", &[]).await;
    assert_eq!(questions["resources"][0].get("storageVersionHash"), None);
}

#[tokio::test]
async fn groups_come_by_priority_and_custom_ones_by_the_name_of_their_first_service() {
    let list = document("/apis", &[]).await;
    assert_eq!((&list["kind"], &list["apiVersion"]), (&json!("APIGroupList"), &json!("v1")));
    let names: Vec<_> =
        list["groups"].as_array().unwrap().iter().map(|group| group["name"].as_str().unwrap()).collect();
    assert_eq!(
        names,
        [
            "apiregistration.k8s.io",
            "events.k8s.io",
            "authorization.k8s.io",
            "admissionregistration.k8s.io",
            "apiextensions.k8s.io",
            "stable.example.com",
            "a.example.com",
        ]
    );
    let list = document("/apis", &[("accept", V2)]).await;
    let names: Vec<_> = list["items"].as_array().unwrap().iter().map(|group| &group["metadata"]["name"]).collect();
    assert_eq!(names[5..], ["a.example.com", "stable.example.com"]);
}

#[tokio::test]
async fn a_group_prefers_versions_in_kubernetes_order() {
    let group = document("/apis/stable.example.com", &[]).await;
    let entry = |version: &str| json!({"groupVersion": format!("stable.example.com/{version}"), "version": version});
    assert_eq!(
        group,
        json!({
            "kind": "APIGroup", "apiVersion": "v1", "name": "stable.example.com",
            "versions": [entry("v1"), entry("v1beta1"), entry("v2alpha1"), entry("v1alpha1")],
            "preferredVersion": entry("v1"),
        })
    );
}

#[tokio::test]
async fn a_custom_resource_shows_its_parts_and_the_hash_of_its_stored_version() {
    let list = document("/apis/stable.example.com/v1", &[]).await;
    let verbs = json!(["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"]);
    assert_eq!(
        list,
        json!({
            "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "stable.example.com/v1",
            "resources": [
                {
                    "name": "foos", "singularName": "foo", "namespaced": true, "kind": "Foo", "verbs": verbs,
                    "shortNames": ["fo"], "categories": ["all"], "storageVersionHash": list["resources"][0]["storageVersionHash"],
                },
                {
                    "name": "foos/status", "singularName": "", "namespaced": true, "kind": "Foo",
                    "verbs": ["get", "patch", "update"],
                },
                {
                    "name": "foos/scale", "singularName": "", "namespaced": true, "group": "autoscaling", "version": "v1",
                    "kind": "Scale", "verbs": ["get", "patch", "update"],
                },
            ],
        })
    );
    let older = document("/apis/stable.example.com/v1beta1", &[]).await;
    assert_eq!(older["resources"][0]["storageVersionHash"], list["resources"][0]["storageVersionHash"]);
    assert_eq!(older["resources"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn a_resource_whose_definition_goes_away_cannot_be_written() {
    let mut def = mk_custom("x.example.com", "xs", "X", &["v1"]);
    def.custom.as_mut().unwrap().terminating = true;
    let registry = Registry::new([def]);
    let response = answer(&registry.served(), &head("/", &[]), "/apis/x.example.com/v1").unwrap();
    let list: Value = serde_json::from_str(&text(response).await).unwrap();
    assert_eq!(list["resources"][0]["verbs"], json!(["delete", "deletecollection", "get", "list", "watch"]));
}

#[tokio::test]
async fn the_aggregated_form_is_everything_at_once() {
    let (_, content_type, body) = get("/apis", &[("accept", &format!("{V2},application/json"))]).await;
    assert_eq!(content_type, V2);
    assert!(body.starts_with(
        "{\"kind\":\"APIGroupDiscoveryList\",\"apiVersion\":\"apidiscovery.k8s.io/v2\",\"metadata\":{},\"items\":[{\"metadata\":\
         {\"name\":\"apiregistration.k8s.io\"},\"versions\":[{\"version\":\"v1\",\"resources\":[{\"resource\":\"apiservices\",\
         \"responseKind\":{\"group\":\"\",\"version\":\"\",\"kind\":\"APIService\"},\"scope\":\"Cluster\","
    ), "{body}");
    let list: Value = serde_json::from_str(&body).unwrap();
    let foo = &list["items"][6]["versions"][0];
    assert_eq!((&foo["version"], &foo["freshness"]), (&json!("v1"), &json!("Current")));
    let kind = json!({"group": "stable.example.com", "version": "v1", "kind": "Foo"});
    assert_eq!(foo["resources"][0]["responseKind"], kind);
    assert_eq!(
        foo["resources"][0]["subresources"],
        json!([
            {"subresource": "status", "responseKind": kind, "verbs": ["get", "patch", "update"]},
            {"subresource": "scale", "responseKind": {"group": "autoscaling", "version": "v1", "kind": "Scale"},
             "verbs": ["get", "patch", "update"]},
        ])
    );
    let core = document("/api", &[("accept", V2)]).await;
    assert_eq!(core["items"][0]["metadata"], json!({}));
    assert_eq!(core["items"][0]["versions"][0]["resources"][2]["subresources"][0]["subresource"], "finalize");
}

#[tokio::test]
async fn a_client_that_has_the_document_is_told_so() {
    let served = mk_served();
    let first = answer(&served, &head("/apis", &[("accept", V2)]), "/apis").unwrap();
    let etag = first.headers()[ETAG].to_str().unwrap().to_owned();
    assert_eq!(
        (etag.len(), &first.headers()[VARY], &first.headers()[CACHE_CONTROL]),
        (130, &"Accept".parse().unwrap(), &"public".parse().unwrap())
    );
    let again = answer(&served, &head("/apis", &[("accept", V2), ("if-none-match", &etag)]), "/apis").unwrap();
    assert_eq!((again.status(), &again.headers()[ETAG]), (StatusCode::NOT_MODIFIED, &etag.parse().unwrap()));
    assert_eq!(text(again).await, "");
    let core = answer(&served, &head("/api", &[("accept", V2), ("if-none-match", &etag)]), "/api").unwrap();
    assert_eq!(core.status(), StatusCode::OK);
}

#[tokio::test]
async fn the_aggregated_form_is_chosen_wherever_accept_names_it() {
    let beta = V2.replace("v=v2", "v=v2beta1");
    let protobuf = "application/vnd.kubernetes.protobuf";
    let form = async |accept: &str| {
        let (code, content_type, _) = get("/apis", &[("accept", accept)]).await;
        (code.as_u16(), content_type)
    };
    let json = (200, "application/json".to_owned());
    let aggregated = (200, V2.to_owned());
    assert_eq!(form("application/json").await, json);
    assert_eq!(form("*/*").await, json);
    assert_eq!(form(&format!("application/json,{V2}")).await, aggregated);
    assert_eq!(form(&format!("application/yaml,*/*,{V2};q=0.1")).await, aggregated);
    let yaml = V2.replace("json", "yaml");
    assert_eq!(form(&format!("application/json,{yaml}")).await, (200, yaml.clone()));
    assert_eq!(form(&format!("{V2};q=0.1,{yaml}")).await, (200, yaml.clone()));
    assert_eq!(form(&format!("{yaml};stream=watch,application/json")).await, json);
    assert_eq!(form(&format!("{V2};sv=v1,application/json")).await, json);
    assert_eq!(form(&format!("{V2};stream=x,application/json")).await, json);
    assert_eq!(form(&V2.replace("application/json", "*/*")).await, aggregated);
    assert_eq!(form(&format!("{V2},application/json")).await, aggregated);
    assert_eq!(form(&format!("{beta},{V2},application/json")).await, aggregated);
    assert_eq!(form(&format!("{beta},application/json")).await, json);
    assert_eq!(form(&format!("{V2};profile=nopeer")).await, aggregated);
    assert_eq!(form(&format!("{protobuf},application/json")).await, json);
    assert_eq!(form("application/yaml").await, (200, "application/yaml".to_owned()));
    assert_eq!(form(&beta).await, (406, "application/json".to_owned()));
    assert_eq!(form(protobuf).await, (406, protobuf.to_owned()));
    let (code, _, body) = get("/apis/stable.example.com", &[("accept", V2)]).await;
    assert_eq!(code, StatusCode::NOT_ACCEPTABLE, "{body}");
}

#[tokio::test]
async fn people_get_indented_json_and_yaml_has_sorted_keys() {
    let (_, _, body) = get("/apis/stable.example.com", &[("user-agent", "curl/8")]).await;
    assert!(body.starts_with("{\n  \"kind\": \"APIGroup\",\n"), "{body}");
    let (_, _, body) = get_with_query("/apis/stable.example.com", "pretty=0", &[("user-agent", "curl/8")]).await;
    assert!(body.starts_with("{\"kind\""), "{body}");
    let (_, _, body) = get("/apis/a.example.com", &[("accept", "application/yaml")]).await;
    assert!(body.starts_with("apiVersion: v1\nkind: APIGroup\nname: a.example.com\n"), "{body}");
}

#[tokio::test]
async fn what_is_not_served_is_not_found_and_other_paths_are_left_to_others() {
    for path in ["/api/v2", "/apis/events.k8s.io/v9/"] {
        let (code, _, body) = get(path, &[]).await;
        assert_eq!(code, StatusCode::NOT_FOUND);
        assert!(body.contains("the server could not find the requested resource"), "{body}");
    }
    for path in ["/apis/none.example.com", "/apis/stable.example.com/v9", "/apis/none/v1/"] {
        let (code, content_type, body) = get(path, &[]).await;
        assert_eq!((code.as_u16(), &*content_type, &*body), (404, "text/plain; charset=utf-8", "404 page not found\n"));
    }
    for path in ["/", "/api/v1/pods", "/apis/g/v/r", "/apix", "/openapi/v2", "//", "", "/apis//", "/apis//v1"] {
        assert!(answer(&mk_served(), &head("/", &[]), path).is_none(), "{path}");
    }
    let mut posted = head("/apis", &[]);
    posted.method = Method::POST;
    assert_eq!(answer(&mk_served(), &posted, "/apis").unwrap().status(), StatusCode::METHOD_NOT_ALLOWED);
}

#[test]
fn the_index_shows_every_document() {
    let paths = paths(&mk_served());
    for path in ["/api", "/api/v1", "/apis", "/apis/stable.example.com", "/apis/stable.example.com/v2alpha1"] {
        assert!(paths.iter().any(|found| found == path), "{path} {paths:?}");
    }
}
