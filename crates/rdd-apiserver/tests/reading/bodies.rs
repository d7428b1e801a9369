//! Tests of decoding request bodies.

use bytes::Bytes;
use http::HeaderMap;
use rdd_apiserver::represent::read_body;
use rdd_meta::Status;
use rdd_schema::strict::{Document, decoding_error};
use serde_json::json;

use crate::support::{WIDGETS, World};

async fn read(content_type: &str, body: impl AsRef<[u8]>) -> Result<Document, Status> {
    let world = World::new().await;
    let mut headers = HeaderMap::new();
    if !content_type.is_empty() {
        headers.insert("content-type", content_type.parse().unwrap());
    }
    read_body(&headers, &Bytes::copy_from_slice(body.as_ref()), &world.target(WIDGETS).0)
}

#[tokio::test]
async fn json_and_yaml_are_read_and_nothing_else() {
    let expected = json!({"kind": "Widget", "on": true, "n": 1});
    let json = r#"{"kind":"Widget","on":true,"n":1}"#;
    for content_type in
        ["", "application/json", "application/json; charset=utf-8", "Application/JSON", "application/yaml"]
    {
        assert_eq!(read(content_type, json).await.unwrap().value, expected, "{content_type}");
    }
    assert_eq!(read("application/yaml", "kind: Widget\n'on': yes\n'n': 1\n").await.unwrap().value, expected);
    for content_type in ["application/cbor", "text/plain", ";;", "application/json-patch+json"] {
        let status = read(content_type, json).await.unwrap_err();
        let message = "the body of the request was in an unknown format - accepted media types include: application/json, application/yaml, application/vnd.kubernetes.protobuf";
        assert_eq!((status.code, status.message.as_str()), (415, message), "{content_type}");
    }
}

#[tokio::test]
async fn what_is_no_document_is_refused_in_upstreams_words() {
    let unrecognized =
        "the object provided is unrecognized (must be of type Widget): couldn't get version/kind; json parse error: ";
    for (body, why) in [
        ("{", "unexpected end of JSON input ({)"),
        ("", "unexpected end of JSON input (<empty>)"),
        ("abc", "invalid character 'a' looking for beginning of value (616263)"),
        (
            r#"{"metadata":{"name":"x"},"data":{"a":1,}}"#,
            r#"invalid character '}' looking for beginning of object key string ({"metadata":{"name":"x"},"data ...)"#,
        ),
        (
            "[]",
            r#"json: cannot unmarshal array into Go value of type struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" } (5b5d)"#,
        ),
        (r#"{"kind":5}"#, r#"json: cannot unmarshal number into Go struct field .kind of type string ({"kind":5})"#),
    ] {
        let status = read("", body).await.unwrap_err();
        assert_eq!((status.code, status.message), (400, format!("{unrecognized}{why}")), "{body}");
    }
    let status = read("", r#"{"kind":"Widget","apiVersion":"a/b/c"}"#).await.unwrap_err();
    let message = "the object provided is unrecognized (must be of type Widget): unexpected GroupVersion string: a/b/c ({\"kind\":\"Widget\",\"apiVersion\": ...)";
    assert_eq!(status.message, message);
    let status = read("", r#"{"a":[1e999]}"#).await.unwrap_err();
    let message = "Widget in version \"v1\" cannot be handled as a Widget: json: cannot unmarshal number 1e999 into Go value of type float64";
    assert_eq!(status.message, message);
    let status = read("application/yaml", "a: b: c").await.unwrap_err();
    let message = "the object provided is unrecognized (must be of type Widget): yaml: mapping values are not allowed in this context";
    assert!(status.message.starts_with(message), "{}", status.message);
    for (content_type, body) in [
        ("", &b"{\"a\":\"\xff\"}"[..]),
        ("application/yaml", b"a: \xff"),
        ("", "[".repeat(3_000_000).as_bytes()),
        ("", &[&br#"{"a":"#.repeat(500_000)[..], b"1"].concat()),
        ("application/yaml", "[".repeat(3_000_000).as_bytes()),
        ("application/yaml", "- ".repeat(1_000_000).as_bytes()),
    ] {
        assert_eq!(read(content_type, body).await.unwrap_err().code, 400);
    }
}

#[tokio::test]
async fn duplicate_keys_are_findings() {
    let told = |document: Document| decoding_error(&document.findings).unwrap();
    assert_eq!(told(read("", r#"{"a":1,"a":2}"#).await.unwrap()), r#"strict decoding error: duplicate field "a""#);
    for yaml in ["a: 1\na: 2\n", "{\"a\":1,\n\"a\":2}"] {
        assert_eq!(
            told(read("application/yaml", yaml).await.unwrap()),
            "strict decoding error: yaml: unmarshal errors:\n  line 2: key \"a\" already set in map"
        );
    }
}
