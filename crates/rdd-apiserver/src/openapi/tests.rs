//! Tests of the OpenAPI documents that clients receive.

use std::{collections::BTreeMap, time::UNIX_EPOCH};

use http::Request;
use http_body_util::BodyExt;
use rdd_stdx::clock::SystemClock;
use rdd_store::Revision;

use super::*;
use crate::{
    discovery::fixture::{mk_builtin, mk_custom, mk_served},
    registry::{Registry, ResourceDef},
};

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";
const CORE_DOCUMENT: &str = "/openapi/v3/api/v1";
const FOO_DOCUMENT: &str = "/openapi/v3/apis/stable.example.com/v1";

/// A few built-in definitions.
#[derive(Debug)]
struct FewDefinitions;

impl Definitions for FewDefinitions {
    fn name(&self, group: &str, version: &str, kind: &str) -> Option<String> {
        let group = if group.is_empty() { "core" } else { group.split('.').next()? };
        Some(format!("io.k8s.api.{group}.{version}.{kind}"))
    }

    fn closure(&self, names: &[&str]) -> BTreeMap<String, Value> {
        let meta = json!({"allOf": [{"$ref": format!("#/components/schemas/{META}.ObjectMeta")}], "default": {}});
        let known = [
            (format!("{META}.ObjectMeta"), json!({"type": "object", "description": "Metadata."})),
            ("io.k8s.api.core.v1.ConfigMap".to_owned(), json!({"type": "object", "properties": {"metadata": meta}})),
            (
                format!("{META}.DeleteOptions"),
                json!({"type": "object", "properties": {"apiVersion": {"type": "string", "description": "APIVersion."}}}),
            ),
        ];
        known.into_iter().filter(|(name, _)| name.ends_with("ObjectMeta") || names.contains(&&**name)).collect()
    }
}

/// One schema for every custom resource.
#[derive(Debug)]
struct OneSchema(Value);

impl Schemas for OneSchema {
    fn schema(&self, _: &ResourceDef, _: &str) -> Option<Value> {
        Some(self.0.clone())
    }
}

fn mk_schema() -> Value {
    json!({
        "type": "object",
        "description": "A foo.",
        "required": ["spec"],
        "properties": {
            "metadata": {"type": "object", "properties": {"name": {"type": "string", "maxLength": 3}}},
            "spec": {
                "type": "object",
                "required": ["maybe", "size"],
                "properties": {
                    "size": {"type": "integer", "default": 0, "minimum": 0, "example": 7},
                    "maybe": {"type": "object", "nullable": true, "properties": {"a": {"type": "string"}}},
                    "port": {"x-kubernetes-int-or-string": true},
                    "flag": {"type": "boolean", "default": false, "description": ""},
                    "loose": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {"k": {"type": "string"}}},
                    "rows": {"type": "array", "x-kubernetes-preserve-unknown-fields": true, "items": {"type": "string"}},
                    "inner": {"type": "object", "x-kubernetes-embedded-resource": true, "required": ["spec"]},
                    "choice": {"type": "object", "oneOf": [{"required": ["a"]}], "properties": {"a": {"type": "string"}}},
                },
            },
        },
    })
}

fn mk_version() -> Version {
    Version {
        major: "1".to_owned(),
        minor: "35".to_owned(),
        git_version: "v1.35.4+rdd-0.0.0".to_owned(),
        git_commit: "c0ffee".to_owned(),
        git_tree_state: "clean".to_owned(),
        build_date: String::new(),
        go_version: String::new(),
        compiler: "rustc".to_owned(),
        platform: "linux/amd64".to_owned(),
    }
}

fn mk_openapi() -> Arc<OpenApi> {
    OpenApi::new(Box::new(FewDefinitions), Box::new(OneSchema(mk_schema())), &mk_version(), SystemClock::shared())
}

fn head(uri: &str, headers: &[(&str, &str)]) -> Parts {
    let request = headers.iter().fold(Request::builder().uri(uri), |made, (name, value)| made.header(*name, *value));
    request.body(()).unwrap().into_parts().0
}

async fn get(openapi: &Arc<OpenApi>, uri: &str, headers: &[(&str, &str)]) -> Response {
    let head = head(uri, headers);
    openapi.answer(&mk_served(), &head, head.uri.path()).await.expect("a path of OpenAPI")
}

async fn body(response: Response) -> Bytes {
    response.into_body().collect().await.unwrap().to_bytes()
}

async fn document(uri: &str) -> Value {
    let response = get(&mk_openapi(), uri, &[]).await;
    assert_eq!(response.status(), StatusCode::OK, "{uri}");
    serde_json::from_slice(&body(response).await).unwrap()
}

fn header(response: &Response, name: http::HeaderName) -> &str {
    response.headers().get(&name).map_or("", |value| value.to_str().unwrap())
}

/// All references in a document.
fn references<'a>(value: &'a Value, into: &mut Vec<&'a str>) {
    match value {
        Value::Object(entries) => {
            into.extend(entries.get("$ref").and_then(Value::as_str));
            entries.values().for_each(|below| references(below, into));
        }
        Value::Array(items) => items.iter().for_each(|below| references(below, into)),
        _ => {}
    }
}

#[tokio::test]
async fn the_index_names_each_document_with_its_hash() {
    let openapi = mk_openapi();
    let response = get(&openapi, "/openapi/v3", &[]).await;
    let etag = header(&response, ETAG).to_owned();
    let index: Value = serde_json::from_slice(&body(response).await).unwrap();
    let paths: Vec<&String> = index["paths"].as_object().unwrap().keys().collect();
    assert_eq!(paths.len(), 11, "{paths:?}");
    let url = index["paths"]["api/v1"]["serverRelativeURL"].as_str().unwrap();
    let hash = url.strip_prefix("/openapi/v3/api/v1?hash=").unwrap();
    assert_eq!(hash.len(), 128);
    let found = get(&openapi, url, &[]).await;
    assert_eq!((found.status(), header(&found, ETAG)), (StatusCode::OK, &*format!("\"{hash}\"")));
    assert_eq!(get(&openapi, "/openapi/v3", &[("if-none-match", &etag)]).await.status(), StatusCode::NOT_MODIFIED);
}

#[tokio::test]
async fn a_document_named_by_its_hash_is_true_for_ever_and_an_old_name_leads_to_the_new_one() {
    let openapi = mk_openapi();
    let plain = get(&openapi, CORE_DOCUMENT, &[]).await;
    assert_eq!(header(&plain, CACHE_CONTROL), "");
    let url = format!("{CORE_DOCUMENT}?hash={}", header(&plain, ETAG).trim_matches('"'));
    let named = get(&openapi, &url, &[]).await;
    assert_eq!((header(&named, CACHE_CONTROL), header(&named, VARY)), ("public, immutable", "Accept-Encoding"));
    let expires = httpdate::parse_http_date(header(&named, EXPIRES)).unwrap().duration_since(UNIX_EPOCH).unwrap();
    let ahead = expires.checked_sub(SystemClock::shared().wall()).unwrap();
    assert!(ahead.abs_diff(FOR_EVER) < Duration::from_secs(60), "{ahead:?}");
    let old = get(&openapi, &format!("{CORE_DOCUMENT}?hash=ABC"), &[]).await;
    assert_eq!((old.status(), header(&old, LOCATION)), (StatusCode::MOVED_PERMANENTLY, &*url));
    let etag = header(&plain, ETAG);
    for given in [etag, &format!("\"x\", W/{etag}"), "*"] {
        let known = get(&openapi, CORE_DOCUMENT, &[("if-none-match", given)]).await;
        assert_eq!((known.status(), header(&known, ETAG)), (StatusCode::NOT_MODIFIED, etag), "{given}");
        assert!(body(known).await.is_empty());
    }
}

#[tokio::test]
async fn json_is_there_compressed_or_not_and_what_is_not_there_is_not_acceptable() {
    let openapi = mk_openapi();
    let protobuf = "application/com.github.proto-openapi.spec.v4@v1.0+protobuf";
    for path in [EVERYTHING, FOO_DOCUMENT] {
        assert_eq!(get(&openapi, path, &[("accept", protobuf)]).await.status(), StatusCode::NOT_ACCEPTABLE);
        let either = format!("{protobuf},application/json;q=0.5");
        let plain = get(&openapi, path, &[("accept", &either), ("accept-encoding", "gzip;q=0, br")]).await;
        assert_eq!((header(&plain, CONTENT_TYPE), header(&plain, CONTENT_ENCODING)), ("application/json", ""));
        let packed = get(&openapi, path, &[("accept-encoding", "br, GZIP;q=0.5")]).await;
        assert_eq!(header(&packed, CONTENT_ENCODING), "gzip");
        let mut unpacked = Vec::new();
        flate2::read::GzDecoder::new(&*body(packed).await).read_to_end(&mut unpacked).unwrap();
        assert_eq!(unpacked, body(plain).await);
    }
}

#[tokio::test]
async fn every_reference_of_every_document_leads_somewhere() {
    let mut paths = paths(&mk_served());
    paths.retain(|path| path != INDEX);
    assert_eq!(paths.len(), 12);
    for path in paths {
        let document = document(&path).await;
        let mut all = Vec::new();
        references(&document, &mut all);
        assert!(!all.is_empty());
        for reference in all {
            assert!(document.pointer(reference.strip_prefix('#').unwrap()).is_some(), "{path}: {reference}");
        }
    }
}

#[tokio::test]
async fn operations_of_built_in_kinds_are_upstreams() {
    let core = document(CORE_DOCUMENT).await;
    assert_eq!(
        (&core["openapi"], &core["info"]),
        (&json!("3.0.0"), &json!({"title": "Kubernetes", "version": "1.35"}))
    );
    let patch = &core["paths"]["/api/v1/namespaces/{namespace}/configmaps/{name}"]["patch"];
    assert_eq!(patch["operationId"], "patchCoreV1NamespacedConfigMap");
    assert_eq!(patch["x-kubernetes-action"], "patch");
    assert_eq!(patch["x-kubernetes-group-version-kind"], json!({"group": "", "version": "v1", "kind": "ConfigMap"}));
    let names: Vec<_> = patch["parameters"].as_array().unwrap().iter().map(|parameter| &parameter["name"]).collect();
    assert_eq!(names, ["dryRun", "fieldManager", "fieldValidation", "force"]);
    assert!(patch["requestBody"]["content"].get("application/strategic-merge-patch+json").is_some());
    let produces = |operation: &Value| -> Vec<String> {
        operation["responses"]["200"]["content"].as_object().unwrap().keys().cloned().collect()
    };
    const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
    assert_eq!(produces(patch), ["application/json", PROTOBUF, "application/yaml"]);
    let list = &core["paths"]["/api/v1/namespaces/{namespace}/configmaps"]["get"];
    assert_eq!(
        produces(list),
        [
            "application/json",
            "application/json;stream=watch",
            PROTOBUF,
            &format!("{PROTOBUF};stream=watch"),
            "application/yaml"
        ]
    );
    let id =
        |path: &str, method: &str| core["paths"][path][method]["operationId"].as_str().unwrap_or("none").to_owned();
    let expected = [
        ("/api/v1/configmaps", "get", "listCoreV1ConfigMapForAllNamespaces"),
        ("/api/v1/namespaces/{namespace}/configmaps", "delete", "deleteCoreV1CollectionNamespacedConfigMap"),
        ("/api/v1/namespaces/{name}/finalize", "put", "replaceCoreV1NamespaceFinalize"),
        ("/api/v1/namespaces/{name}/finalize", "get", "none"),
        ("/api/v1/namespaces", "delete", "none"),
        (
            "/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token",
            "post",
            "createCoreV1NamespacedServiceAccountToken",
        ),
        ("/api/v1/watch/namespaces/{namespace}/configmaps/{name}", "get", "watchCoreV1NamespacedConfigMap"),
        ("/api/v1/watch/configmaps", "get", "watchCoreV1ConfigMapListForAllNamespaces"),
    ];
    for (path, method, expected) in expected {
        assert_eq!(id(path, method), expected, "{method} {path}");
    }
    let token = &core["paths"]["/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"]["post"];
    assert_eq!(token["x-kubernetes-group-version-kind"]["kind"], "TokenRequest");
    let question = document("/openapi/v3/apis/authorization.k8s.io/v1").await;
    let paths: Vec<&String> = question["paths"].as_object().unwrap().keys().collect();
    assert_eq!(paths, ["/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"]);
}

#[tokio::test]
async fn custom_resources_take_no_strategic_patch_and_have_a_scale() {
    let foo = document(FOO_DOCUMENT).await;
    let paths = foo["paths"].as_object().unwrap();
    assert!(!paths.keys().any(|path| path.contains("/watch/")));
    let item = "/apis/stable.example.com/v1/namespaces/{namespace}/foos/{name}";
    assert_eq!(
        paths[item]["patch"]["requestBody"]["content"].as_object().unwrap().keys().collect::<Vec<_>>(),
        ["application/apply-patch+yaml", "application/json-patch+json", "application/merge-patch+json"]
    );
    assert_eq!(paths[item]["get"]["tags"], json!(["stableExampleCom_v1"]));
    let shared: Vec<_> = paths[item]["parameters"].as_array().unwrap().iter().map(|shared| &shared["name"]).collect();
    assert_eq!(shared, ["name", "namespace", "pretty"]);
    let scale = &paths[&format!("{item}/scale")]["get"];
    assert_eq!(scale["operationId"], "readStableExampleComV1NamespacedFooScale");
    assert_eq!(
        scale["responses"]["200"]["content"]["application/json"]["schema"]["$ref"],
        "#/components/schemas/io.k8s.api.autoscaling.v1.Scale"
    );
    let older = document("/openapi/v3/apis/stable.example.com/v1beta1").await;
    assert!(!older["paths"].as_object().unwrap().keys().any(|path| path.ends_with("/scale")));
}

#[tokio::test]
async fn a_custom_schema_is_published_in_full_in_version_3() {
    let document = document(FOO_DOCUMENT).await;
    let foo = &document["components"]["schemas"]["com.example.stable.v1.Foo"];
    assert_eq!(
        foo["x-kubernetes-group-version-kind"],
        json!([{"group": "stable.example.com", "version": "v1", "kind": "Foo"}])
    );
    assert_eq!(foo["properties"]["apiVersion"], json!({"type": "string", "description": "APIVersion."}));
    let metadata = json!([{"$ref": format!("#/components/schemas/{META}.ObjectMeta")}]);
    assert_eq!(foo["properties"]["metadata"]["allOf"], metadata);
    let spec = &foo["properties"]["spec"];
    assert_eq!(spec["required"], json!(["maybe", "size"]));
    let fields = &spec["properties"];
    assert_eq!(fields["size"], json!({"type": "integer", "default": 0, "minimum": 0}));
    assert_eq!(fields["flag"], json!({"type": "boolean", "default": false}));
    let either = json!([{"type": "integer"}, {"type": "string"}]);
    assert_eq!(fields["port"], json!({"x-kubernetes-int-or-string": true, "anyOf": either}));
    assert_eq!(fields["maybe"]["nullable"], true);
    assert_eq!(fields["inner"]["required"], json!(["spec", "kind", "apiVersion"]));
    assert_eq!(fields["inner"]["properties"]["metadata"]["allOf"], metadata);
    let list = &document["components"]["schemas"]["com.example.stable.v1.FooList"];
    assert_eq!(list["properties"]["items"]["items"]["$ref"], "#/components/schemas/com.example.stable.v1.Foo");
}

#[tokio::test]
async fn a_custom_schema_loses_in_version_2_what_that_cannot_say() {
    let document = document(EVERYTHING).await;
    assert_eq!(document["swagger"], "2.0");
    let foo = &document["definitions"]["com.example.stable.v1.Foo"];
    assert_eq!(foo["properties"]["metadata"]["$ref"], format!("#/definitions/{META}.ObjectMeta"));
    let fields = &foo["properties"]["spec"]["properties"];
    assert_eq!(foo["properties"]["spec"]["required"], json!(["size"]));
    assert_eq!(fields["size"], json!({"type": "integer", "minimum": 0}));
    assert_eq!(fields["maybe"], json!({}));
    assert_eq!(fields["port"], json!({"x-kubernetes-int-or-string": true}));
    assert_eq!(fields["loose"], json!({"x-kubernetes-preserve-unknown-fields": true}));
    assert_eq!(fields["rows"], json!({"x-kubernetes-preserve-unknown-fields": true}));
    assert_eq!(fields["choice"], json!({"type": "object", "properties": {"a": {"type": "string"}}}));
    let patch = &document["paths"]["/api/v1/namespaces/{namespace}/configmaps/{name}"]["patch"];
    assert_eq!(patch["parameters"][0]["in"], "body");
    assert_eq!(patch["consumes"][2], "application/strategic-merge-patch+json");
    assert_eq!(
        patch["produces"],
        json!(["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"])
    );
    let metadata = &document["definitions"]["io.k8s.api.core.v1.ConfigMap"]["properties"]["metadata"];
    assert_eq!(*metadata, json!({"$ref": format!("#/definitions/{META}.ObjectMeta")}));
}

#[test]
fn a_schema_that_keeps_everything_says_nothing_more_in_version_2() {
    let kind = rdd_meta::GroupVersionKind::new("x.io", "v1", "X");
    let type_meta = custom::TypeMeta::of(None);
    let selectable = [".spec.color".to_owned()];
    let flavor = render::Flavor::V2;
    let published = custom::Published { flavor, kind: &kind, selectable: &selectable, type_meta: &type_meta };
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true, "description": "Loose."});
    let expected = json!({
        "type": "object",
        "x-kubernetes-group-version-kind": [{"group": "x.io", "version": "v1", "kind": "X"}],
        "x-kubernetes-selectable-fields": [{"fieldPath": "spec.color"}],
    });
    assert_eq!(custom::definition(&published, Some(schema)), expected);
    assert_eq!(custom::definition(&published, None), expected);
}

#[tokio::test]
async fn a_changed_definition_changes_the_hash_of_its_document_and_of_no_other() {
    let registry = Registry::new([]);
    registry.put(mk_custom("a.io", "as", "A", &["v1"]));
    registry.put(mk_custom("b.io", "bs", "B", &["v1"]));
    let openapi = mk_openapi();
    let etag = async |path: &str| {
        let response = openapi.answer(&registry.served(), &head(path, &[]), path).await.unwrap();
        header(&response, ETAG).to_owned()
    };
    let paths = ["/openapi/v3/apis/a.io/v1", "/openapi/v3/apis/b.io/v1", EVERYTHING];
    let [a, b, all] = [etag(paths[0]).await, etag(paths[1]).await, etag(paths[2]).await];
    let mut changed = mk_custom("a.io", "as", "A", &["v1"]);
    changed.custom.as_mut().unwrap().revision.0 += 1;
    registry.put(changed);
    assert_ne!(etag(paths[0]).await, a);
    assert_eq!(etag(paths[1]).await, b);
    assert_ne!(etag(paths[2]).await, all);
    registry.remove("a.io", "as", Revision(1));
    let gone = openapi.answer(&registry.served(), &head(paths[0], &[]), paths[0]).await.unwrap();
    assert_eq!(gone.status(), StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_custom_resource_cannot_take_the_place_of_a_built_in_definition() {
    let registry = Registry::new([mk_builtin("", "configmaps", "ConfigMap", true)]);
    registry.put(mk_custom("core.api.k8s.io", "configmaps", "ConfigMap", &["v1"]));
    let response = mk_openapi().answer(&registry.served(), &head(EVERYTHING, &[]), EVERYTHING).await.unwrap();
    let text = String::from_utf8(body(response).await.to_vec()).unwrap();
    assert_eq!(text.matches("\"io.k8s.api.core.v1.ConfigMap\":").count(), 1);
    let document: Value = serde_json::from_str(&text).unwrap();
    let definition = &document["definitions"]["io.k8s.api.core.v1.ConfigMap"];
    assert_eq!(definition.get("x-kubernetes-group-version-kind"), None);
}

/// A schema can be as deep as the JSON parser allows. The daemon's workers have eight megabytes of stack (`rdd/src/serve.rs` sets
/// it), and part of it is in use when a document is generated, so this must take little of it.
#[test]
fn the_deepest_schema_there_can_be_is_published_on_a_small_stack() {
    let deep = (0..60).fold(json!({"type": "string"}), |below, level| match level % 2 {
        0 => json!({"type": "object", "properties": {"a": below}}),
        _ => json!({"type": "object", "additionalProperties": below}),
    });
    let publish = move || {
        let registry = Registry::new([]);
        registry.put(mk_custom("a.io", "as", "A", &["v1"]));
        let (served, schemas) = (registry.served(), OneSchema(deep));
        let sources = Sources { served: &served, definitions: &FewDefinitions, schemas: &schemas, api: "1.35" };
        let size = |form| document::write(sources, &Subject::Everything, form).unwrap().len();
        size(Form::Json).min(size(Form::Protobuf))
    };
    let thread = std::thread::Builder::new().stack_size(512 << 10).spawn(publish).unwrap();
    assert!(thread.join().unwrap() > 1000);
}

#[tokio::test]
async fn version_2_is_there_as_protobuf_under_the_same_tag() {
    const ASKED: &str = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
    const ANSWERED: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
    let openapi = mk_openapi();
    let json = get(&openapi, EVERYTHING, &[]).await;
    let tag = header(&json, ETAG).to_owned();
    for _ in 0..2 {
        let message = get(&openapi, EVERYTHING, &[("accept", ASKED)]).await;
        assert_eq!(message.status(), StatusCode::OK);
        assert_eq!((header(&message, CONTENT_TYPE), header(&message, ETAG)), (ANSWERED, &*tag));
        let bytes = body(message).await;
        // Field 1, three bytes: the version.
        assert!(bytes.starts_with(b"\n\x032.0"), "{:?}", &bytes[..10]);
        // Clients of version 2 only also look for the paths.
        for part in ["com.example.stable.v1.Foo", "/apis/stable.example.com/v1/namespaces/{namespace}/foos/{name}"] {
            assert!(has_part(&bytes, part), "{part}");
        }
    }
    let known = get(&openapi, EVERYTHING, &[("accept", ASKED), ("if-none-match", &tag)]).await;
    assert_eq!(known.status(), StatusCode::NOT_MODIFIED);
    let again = get(&openapi, EVERYTHING, &[]).await;
    assert_eq!(header(&again, CONTENT_TYPE), "application/json");
    assert!(body(again).await.starts_with(b"{"));
    let third = get(&openapi, CORE_DOCUMENT, &[("accept", ASKED)]).await;
    assert_eq!(third.status(), StatusCode::NOT_ACCEPTABLE);
}

// Finding E-18
#[tokio::test]
async fn version_3_is_there_as_protobuf_under_the_same_tag() {
    const ASKED: &str = "application/com.github.proto-openapi.spec.v3@v1.0+protobuf";
    const ANSWERED: &str = "application/com.github.proto-openapi.spec.v3.v1.0+protobuf";
    let openapi = mk_openapi();
    for (document, named, path) in [
        (CORE_DOCUMENT, "io.k8s.api.core.v1.ConfigMap", "/api/v1/namespaces/{namespace}/configmaps/{name}"),
        (FOO_DOCUMENT, "com.example.stable.v1.Foo", "/apis/stable.example.com/v1/namespaces/{namespace}/foos/{name}"),
    ] {
        let json = get(&openapi, document, &[]).await;
        let tag = header(&json, ETAG).to_owned();
        for asked in [ASKED, ANSWERED] {
            let message = get(&openapi, document, &[("accept", asked)]).await;
            assert_eq!(message.status(), StatusCode::OK);
            assert_eq!((header(&message, CONTENT_TYPE), header(&message, ETAG)), (ANSWERED, &*tag));
            let bytes = body(message).await;
            // Field 1, five bytes: the version.
            assert!(bytes.starts_with(b"\n\x053.0.0"), "{:?}", &bytes[..10]);
            for part in [named, path] {
                assert!(has_part(&bytes, part), "{part}");
            }
        }
    }
}

fn has_part(bytes: &[u8], part: &str) -> bool {
    bytes.windows(part.len()).any(|found| found == part.as_bytes())
}

#[tokio::test]
async fn other_paths_are_left_to_others_and_documents_cannot_be_written() {
    let openapi = mk_openapi();
    for path in ["/openapi", "/openapi/v4", "/openapi/v3x", "/openapi/v2/x", "/openapi/v2/", "/"] {
        assert!(openapi.answer(&mk_served(), &head("/", &[]), path).await.is_none(), "{path}");
    }
    for path in [
        "/openapi/v3/",
        "/openapi/v3/api/v1/",
        "/openapi/v3/api/v9",
        "/openapi/v3/apis/none/v1",
        "/openapi/v3/apis/stable.example.com",
    ] {
        assert_eq!(get(&openapi, path, &[]).await.status(), StatusCode::NOT_FOUND);
    }
    let mut posted = head(EVERYTHING, &[]);
    posted.method = Method::POST;
    let response = openapi.answer(&mk_served(), &posted, EVERYTHING).await.unwrap();
    assert_eq!(response.status(), StatusCode::METHOD_NOT_ALLOWED);
}
