//! Tests of protobuf: decoding, encoding, and the kinds that do not have it.

use bytes::Bytes;
use http::HeaderMap;
use rdd_apiserver::represent::read_body;
use rdd_builtin::{protobuf, types};
use rdd_meta::Status;
use serde_json::{Value, json};

use crate::support::{THINGS, World};

const NAMESPACES: &str = "/api/v1/namespaces";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const PARTIAL: &str = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";

/// Kind and content of a message.
fn opened(bytes: &[u8]) -> (String, Value) {
    let envelope = protobuf::open(bytes).unwrap();
    let (group, version) = envelope.api_version.split_once('/').unwrap_or(("", &envelope.api_version));
    let kind = types::kind(group, version, &envelope.kind);
    let value = kind.map(|kind| protobuf::read(kind.structure(), envelope.raw).unwrap());
    (envelope.kind.clone(), value.unwrap_or_default())
}

fn headers() -> HeaderMap {
    HeaderMap::from_iter([(http::header::CONTENT_TYPE, PROTOBUF.parse().unwrap())])
}

async fn read(path: &str, body: &[u8]) -> Result<Value, Status> {
    let world = World::new().await;
    read_body(&headers(), &Bytes::copy_from_slice(body), &world.target(path).0).map(|document| document.value)
}

#[tokio::test]
async fn bodies_of_built_in_kinds_are_read() {
    let namespace = json!({"metadata": {"name": "a", "labels": {"l": "v"}}});
    let raw = protobuf::write(types::kind("", "v1", "Namespace").unwrap().structure(), &namespace);
    let value = read(NAMESPACES, &protobuf::seal("v1", "Namespace", &raw)).await.unwrap();
    assert_eq!((&value["kind"], &value["apiVersion"]), (&json!("Namespace"), &json!("v1")));
    assert_eq!((&value["metadata"]["name"], &value["metadata"]["labels"]), (&json!("a"), &json!({"l": "v"})));
    // Of an object of another kind only the kind is decoded, because the request will be refused for it.
    let value = read(NAMESPACES, &protobuf::seal("v1", "Secret", &raw)).await.unwrap();
    assert_eq!(value, json!({"apiVersion": "v1", "kind": "Secret"}));
    let status = read(THINGS, &protobuf::seal("example.dev/v1", "Thing", &raw)).await.unwrap_err();
    assert_eq!(status.code, 415);
}

#[tokio::test]
async fn what_is_no_message_is_refused_in_upstreams_words() {
    let unrecognized = "the object provided is unrecognized (must be of type Namespace): ";
    for (body, why) in [
        (&b""[..], "empty data (<empty>)"),
        (b"k8s\0", "empty body (6b387300)"),
        (b"x", "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0] (78)"),
        (b"k8s\0\x12\x02\x0a", "unexpected EOF (6b38730012020a)"),
    ] {
        let status = read(NAMESPACES, body).await.unwrap_err();
        assert_eq!((status.code, status.message), (400, format!("{unrecognized}{why}")));
    }
    let status = read(NAMESPACES, &protobuf::seal("v1", "Namespace", b"\x0a\x07")).await.unwrap_err();
    let handled = "Namespace in version \"v1\" cannot be handled as a Namespace: unexpected EOF";
    assert_eq!((status.code, status.message.as_str()), (400, handled));
}

#[tokio::test]
async fn objects_lists_and_errors_are_written_for_those_who_prefer_it() {
    let world = World::new().await;
    world.put_namespace("a").await;
    let both = format!("{PROTOBUF},application/json");
    let told = world.accept(&format!("{NAMESPACES}/a"), &both).await;
    assert_eq!((told.code.as_u16(), told.content_type()), (200, PROTOBUF));
    let (kind, object) = opened(&told.body);
    assert_eq!((kind.as_str(), &object["status"]["phase"]), ("Namespace", &json!("Active")));
    assert_eq!(object["metadata"]["resourceVersion"], "1");
    let (kind, list) = opened(&world.accept(NAMESPACES, &both).await.body);
    assert_eq!((kind.as_str(), &list["metadata"]["resourceVersion"]), ("NamespaceList", &json!("1")));
    assert_eq!(list["items"][0]["metadata"]["name"], "a");
    let told = world.accept(&format!("{NAMESPACES}/b"), &both).await;
    assert_eq!((told.code.as_u16(), told.content_type()), (404, PROTOBUF));
    assert_eq!(opened(&told.body).1["reason"], "NotFound");
}

#[tokio::test]
async fn custom_resources_have_only_their_metadata_in_it() {
    let world = World::new().await;
    world.put("a", 1, "x").await;
    let told = world.accept(THINGS, PROTOBUF).await;
    assert_eq!((told.code.as_u16(), opened(&told.body).0.as_str()), (406, "Status"));
    assert_eq!(world.accept(THINGS, &format!("{PROTOBUF},application/json")).await.content_type(), "application/json");
    let told = world.accept(THINGS, PARTIAL).await;
    assert_eq!((told.code.as_u16(), opened(&told.body).0.as_str()), (200, "PartialObjectMetadataList"));
    assert!(told.body.windows(5).any(|bytes| bytes == b"uid-a"));
}

#[tokio::test]
async fn a_watch_is_frames_with_their_lengths() {
    let world = World::new().await;
    world.put_namespace("a").await;
    // Not earlier: the store has a thread of its own, and paused time would run ahead of it.
    tokio::time::pause();
    let told = world.accept(&format!("{NAMESPACES}?watch=1&timeoutSeconds=1"), PROTOBUF).await;
    assert_eq!(told.content_type(), "application/vnd.kubernetes.protobuf;stream=watch");
    let (length, event) = told.body.split_first_chunk::<4>().unwrap();
    assert_eq!(u32::from_be_bytes(*length) as usize, event.len());
    let object = event.strip_prefix(b"\x0a\x05ADDED\x12").unwrap();
    let start = object.windows(4).position(|bytes| bytes == protobuf::MAGIC).unwrap();
    assert_eq!(opened(&object[start..]).1["metadata"]["name"], "a");
}
