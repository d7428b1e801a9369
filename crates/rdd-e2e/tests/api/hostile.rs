//! Tests malicious requests over TLS to a real daemon: a proper Status, bounded memory and time, no panic.

use std::{
    fmt::Write as _,
    thread,
    time::{Duration, Instant},
};

use rdd_testkit::{
    Daemon,
    api::{Ask, Reply, Server, TestApi, Wire},
};
use serde_json::json;

use crate::support::{
    DEFINITIONS, MAPS, customs, expect_proper, expect_unharmed, mk_custom, mk_definition, mk_map, peak_kib,
};

/// The maximum peak memory of an unoptimized daemon: many times the body limit, but no multiple of an input.
const PEAK_MIB: u64 = 400;
/// The maximum duration of each of these requests on a busy machine.
const QUICK: Duration = Duration::from_secs(20);

fn start() -> (Daemon, Wire, u32) {
    let daemon = Daemon::start();
    let wire = Wire::of(&daemon);
    let pid = daemon.pid();
    (daemon, wire, pid)
}

#[track_caller]
fn expect(what: &str, reply: &Reply, code: u16, reason: &str) {
    expect_proper(what, reply);
    assert_eq!((reply.code, reply.reason().as_str()), (code, reason), "{what}: {}", reply.text());
}

#[test]
fn a_hundred_megabytes_are_refused_before_they_are_read() {
    let (daemon, wire, pid) = start();
    let mut stream = wire.connect().unwrap();
    let head = wire.head("POST", MAPS);
    stream
        .say(format!("{head}Content-Type: application/json\r\nContent-Length: 104857600\r\n\r\n").as_bytes())
        .unwrap();
    let (reply, _) = stream.answer(false).unwrap();
    expect("announced", &reply, 413, "RequestEntityTooLarge");

    let mut stream = wire.connect().unwrap();
    stream
        .say(format!("{head}Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n").as_bytes())
        .unwrap();
    let mut chunk = b"100000\r\n".to_vec();
    chunk.extend(std::iter::repeat_n(b'[', 0x10_0000));
    chunk.extend_from_slice(b"\r\n");
    // The server stops reading at some point; the reply that it has sent before can still be read.
    let sent = (0..100).take_while(|_| stream.say(&chunk).is_ok()).count();
    let (reply, _) = stream.answer(false).unwrap();
    expect("in chunks", &reply, 413, "RequestEntityTooLarge");
    assert!(sent < 100, "all of it was read");
    expect_unharmed(&daemon, &wire, pid, 200);
}

#[test]
fn bodies_that_grow_when_they_are_read_are_refused() {
    let (daemon, wire, pid) = start();
    let began = Instant::now();
    let mut laughs = "a0: &a0 [\"x\",\"x\",\"x\",\"x\",\"x\",\"x\",\"x\",\"x\",\"x\"]\n".to_owned();
    for level in 1..12 {
        let inner = vec![format!("*a{}", level - 1); 9].join(",");
        writeln!(laughs, "a{level}: &a{level} [{inner}]").unwrap();
    }
    let mut wide =
        format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: b}}\nx: &x {}\ndata:\n", "y".repeat(100_000));
    let mut merged = "m: &m {".to_owned();
    for field in 0..1000 {
        write!(merged, "k{field}: v, ").unwrap();
    }
    merged.push_str("}\n");
    for field in 0..20_000 {
        writeln!(wide, "  k{field}: *x").unwrap();
        writeln!(merged, "z{field}:\n  <<: *m").unwrap();
    }
    for (what, bomb) in [("laughs", laughs.as_str()), ("wide", &wide), ("merged", &merged), ("itself", "a: &a [*a]\n")]
    {
        let created = wire.ask(&Ask::new("POST", MAPS).body("application/yaml", bomb));
        expect(what, &created, 400, "BadRequest");
        let applied = Ask::new("PATCH", &format!("{MAPS}/b?fieldManager=m")).body("application/apply-patch+yaml", bomb);
        expect(what, &wire.ask(&applied), 400, "BadRequest");
    }
    // A patch that copies what it has copied doubles in size with each operation.
    let grow = (0..60).map(|copy| json!({"op": "copy", "from": "/metadata", "path": format!("/metadata/k{copy}")}));
    let grow = serde_json::Value::Array(grow.collect()).to_string();
    wire.post(MAPS, &mk_map("a", "1")).expect(201);
    let patched = wire.ask(&Ask::new("PATCH", &format!("{MAPS}/a")).body("application/json-patch+json", grow));
    expect_proper("copies of copies", &patched);
    assert!(patched.code >= 400, "{}", patched.code);
    assert!(began.elapsed() < QUICK, "{:?}", began.elapsed());
    expect_unharmed(&daemon, &wire, pid, PEAK_MIB);
}

#[test]
fn patches_of_too_many_operations_are_refused() {
    let (daemon, wire, pid) = start();
    wire.post(MAPS, &mk_map("a", "1")).expect(201);
    let operations = |count| vec![json!({"op": "add", "path": "/data/value", "value": "2"}); count];
    let patch = |count| {
        let body = serde_json::Value::Array(operations(count)).to_string();
        wire.ask(&Ask::new("PATCH", &format!("{MAPS}/a")).body("application/json-patch+json", body))
    };
    expect("10,001", &patch(10_001), 413, "RequestEntityTooLarge");
    assert_eq!(patch(10_000).expect(200)["data"]["value"], "2");
    // The scale of an object is patched by the same code.
    let mut definition =
        mk_definition("Deck", &json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}));
    definition["spec"]["versions"][0]["subresources"] =
        json!({"scale": {"specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n"}});
    wire.post(DEFINITIONS, &definition).expect(201);
    let decks = customs("Deck", "default");
    wire.post(&decks, &mk_custom("Deck", "a", &json!({"n": 1}))).expect(201);
    let scale = |count| {
        let operations = vec![json!({"op": "add", "path": "/spec/replicas", "value": 2}); count];
        let body = serde_json::Value::Array(operations).to_string();
        wire.ask(&Ask::new("PATCH", &format!("{decks}/a/scale")).body("application/json-patch+json", body))
    };
    expect("10,001 to a scale", &scale(10_001), 413, "RequestEntityTooLarge");
    assert_eq!(scale(10_000).expect(200)["spec"]["replicas"], 2);
    expect_unharmed(&daemon, &wire, pid, PEAK_MIB);
}

#[test]
fn nesting_of_any_depth_is_refused_in_every_form() {
    let (daemon, wire, pid) = start();
    wire.post(MAPS, &mk_map("a", "1")).expect(201);
    let one = format!("{MAPS}/a?fieldManager=m");
    for depth in [200, 10_000, 500_000] {
        let lists = "[".repeat(depth) + &"]".repeat(depth);
        let maps = "{\"a\":".repeat(depth) + "1" + &"}".repeat(depth);
        let selector = "(".repeat(depth.min(20_000));
        let mut nested = b"k8s\0".to_vec();
        // Nested length-delimited fields, with lengths of one byte, repeated.
        nested.extend((0..depth).flat_map(|level| [0x0a, u8::try_from(120 - level % 60).unwrap()]));
        for (what, ask) in [
            ("JSON lists", Ask::new("POST", MAPS).body("application/json", lists.clone())),
            ("JSON objects", Ask::new("POST", MAPS).body("application/json", maps.clone())),
            ("YAML", Ask::new("POST", MAPS).body("application/yaml", lists.clone())),
            ("protobuf", Ask::new("POST", MAPS).body("application/vnd.kubernetes.protobuf", nested.clone())),
            ("merge patch", Ask::new("PATCH", &one).body("application/merge-patch+json", maps.clone())),
            ("strategic patch", Ask::new("PATCH", &one).body("application/strategic-merge-patch+json", maps.clone())),
            ("apply", Ask::new("PATCH", &one).body("application/apply-patch+yaml", lists.clone())),
            ("delete options", Ask::new("DELETE", &one).body("application/json", maps)),
            ("label selector", Ask::new("GET", &format!("{MAPS}?labelSelector={selector}"))),
        ] {
            let asked = Instant::now();
            expect(&format!("{what} {depth}"), &wire.ask(&ask), 400, "BadRequest");
            assert!(asked.elapsed() < QUICK, "{what} {depth}: {:?}", asked.elapsed());
        }
        let add = format!("[{{\"op\":\"add\",\"path\":\"/data\",\"value\":{lists}}}]");
        let patched = wire.ask(&Ask::new("PATCH", &one).body("application/json-patch+json", add));
        expect(&format!("JSON patch {depth}"), &patched, 400, "BadRequest");
    }
    wire.get(&format!("{MAPS}/a")).expect(200);
    expect_unharmed(&daemon, &wire, pid, PEAK_MIB);
}

#[test]
fn text_that_is_none_and_keys_that_come_twice_are_told_apart_from_what_was_meant() {
    let (daemon, wire, pid) = start();
    for content_type in ["application/json", "application/yaml", "application/apply-patch+yaml"] {
        let body = b"{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"\xff\xfe\"}}".to_vec();
        let (method, path) = if content_type.contains("apply") { ("PATCH", "/a?fieldManager=m") } else { ("POST", "") };
        let reply = wire.ask(&Ask::new(method, &format!("{MAPS}{path}")).body(content_type, body));
        expect_proper(content_type, &reply);
        assert!(matches!(reply.code, 400 | 422), "{content_type}: {}", reply.text());
    }
    let twice = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"k":"1","k":"2"}}"#;
    let strict = format!("{MAPS}?fieldValidation=Strict");
    expect("strict", &wire.ask(&Ask::new("POST", &strict).body("application/json", twice)), 400, "BadRequest");
    let warned = wire.ask(&Ask::new("POST", MAPS).body("application/json", twice));
    assert_eq!(warned.expect(201)["data"]["k"], "2", "the last one counts");
    assert!(warned.header("warning").is_some_and(|text| text.contains("duplicate field")), "{:?}", warned.headers);
    expect_unharmed(&daemon, &wire, pid, PEAK_MIB);
}

#[test]
fn names_that_climb_reach_nothing() {
    let (daemon, wire, pid) = start();
    let secret =
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"a": "treasure"}});
    wire.post("/api/v1/namespaces/kube-public/secrets", &secret).expect(201);
    for name in [
        "../secrets/s",
        "..%2fsecrets%2fs",
        "%2e%2e%2fsecrets%2fs",
        "%252e%252e%252fsecrets%252fs",
        "..%252f..%252f..%252fkube-public%252fsecrets%252fs",
        "%2e%2e/%2e%2e/kube-public/secrets/s",
        "..;/secrets/s",
        "s%00",
        "%ff",
        "%c0%ae%c0%ae",
        ".",
        "..",
        "%2e",
        "a%2fb",
        "%zz",
    ] {
        for method in ["GET", "DELETE"] {
            let reply = wire.ask(&Ask::new(method, &format!("{MAPS}/{name}")));
            expect_proper(name, &reply);
            assert!(matches!(reply.code, 400 | 404), "{method} {name}: {}", reply.code);
            assert!(!reply.text().contains("dHJlYXN1cmU"), "{method} {name}");
        }
    }
    for name in ["..", ".", "a/b", "a%2fb", "../b", "a\u{0}b", &"a".repeat(254)] {
        expect(name, &wire.post(MAPS, &mk_map(name, "1")), 422, "Invalid");
    }
    wire.get("/api/v1/namespaces/kube-public/secrets/s").expect(200);
    expect_unharmed(&daemon, &wire, pid, PEAK_MIB);
}

#[test]
fn connections_that_say_little_hold_up_nobody() {
    let (daemon, wire, pid) = start();
    // Unauthenticated clients that never finish their first line, more of them than the connection limit allows.
    let mut slow = Vec::new();
    for _ in 0..200 {
        let mut stream = wire.connect().unwrap();
        // Connections over the limit wait in the queue; older ones that exceed their time are closed in their favour.
        let _ = stream.say(b"GET /api");
        slow.push(stream);
    }
    // Authenticated clients that never finish their bodies.
    let head = wire.head("POST", MAPS);
    for _ in 0..50 {
        let mut stream = wire.connect().unwrap();
        stream
            .say(format!("{head}Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{{").as_bytes())
            .unwrap();
        slow.push(stream);
    }
    let asked = Instant::now();
    for name in ["a", "b", "c"] {
        wire.post(MAPS, &mk_map(name, "1")).expect(201);
    }
    assert!(asked.elapsed() < QUICK, "{:?}", asked.elapsed());
    expect_unharmed(&daemon, &wire, pid, PEAK_MIB);
    slow.into_iter().for_each(rdd_testkit::api::Stream::abandon);
    expect_unharmed(&daemon, &wire, pid, PEAK_MIB);
}

#[test]
fn requests_that_are_none_are_refused_and_end_their_connection_only() {
    let (daemon, wire, pid) = start();
    let long = format!("GET /{} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", "a".repeat(200_000));
    for garbage in [
        &b"\x16\x03\x01garbage\r\n\r\n"[..],
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        long.as_bytes(),
    ] {
        let mut stream = wire.connect().unwrap();
        // The server may close the connection during the write.
        let _ = stream.say(garbage);
        let closed = stream.until_closed(Duration::from_secs(45));
        let text = String::from_utf8_lossy(&closed.expect("the server closes it")).into_owned();
        assert!(text.is_empty() || text.starts_with("HTTP/1.1 4"), "{text}");
    }
    expect_unharmed(&daemon, &wire, pid, PEAK_MIB);
}

/// The maximum peak memory of an unoptimized daemon during several large applies: no more than for one after the other.
const APPLY_PEAK_MIB: u64 = 300;
/// The number of concurrent applies.
const APPLIES: usize = 5;

/// A body of 1.5 MB for server-side apply, with a managed field per key.
fn mk_wide(mut object: serde_json::Value, field: &str) -> String {
    let entries =
        (0..18_000).map(|number| (format!("a-key-that-is-as-long-as-others-{number:05}"), json!("y".repeat(38))));
    object[field] = entries.collect::<serde_json::Map<_, _>>().into();
    let text = object.to_string();
    assert!((1_400_000..1_600_000).contains(&text.len()), "{} bytes", text.len());
    text
}

/// Sends this many applies concurrently, each to another object, and expects that all succeed.
fn apply_at_once(wire: &Wire, collection: &str, body: impl Fn(&str) -> String + Sync) {
    thread::scope(|scope| {
        for number in 0..APPLIES {
            let (wire, body) = (wire.clone(), &body);
            scope.spawn(move || {
                let name = format!("wide-{number}");
                let path = format!("{collection}/{name}?fieldManager=test&force=true");
                let reply = wire.ask(&Ask::new("PATCH", &path).body("application/apply-patch+yaml", body(&name)));
                assert_eq!(reply.code, 201, "{}", reply.text().chars().take(500).collect::<String>());
            });
        }
    });
}

/// Finding A-8. The peak is reset first, so that memory of earlier requests does not count.
#[test]
fn large_applies_at_once_take_no_more_memory_than_one_after_the_other() {
    let (daemon, wire, pid) = start();
    let mut definition = mk_definition("Wide", &json!({"type": "object"}));
    definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"] =
        json!({"fields": {"type": "object", "additionalProperties": {"type": "string"}}});
    wire.post(DEFINITIONS, &definition).expect(201);
    let wides = customs("Wide", "default");
    wire.get(&wides).expect(200);
    let warm = reset_peak(pid);
    apply_at_once(&wire, MAPS, |name| mk_wide(mk_map(name, ""), "data"));
    let maps = peak_kib(pid) / 1024;
    apply_at_once(&wire, &wides, |name| {
        let object = json!({"apiVersion": "k.example/v1", "kind": "Wide", "metadata": {"name": name}});
        mk_wide(object, "fields")
    });
    let customs = peak_kib(pid) / 1024;
    assert!(
        customs < APPLY_PEAK_MIB,
        "from {warm} MiB to {maps} MiB with ConfigMaps, {customs} MiB with custom objects"
    );
    expect_unharmed(&daemon, &wire, pid, APPLY_PEAK_MIB);
}

/// Resets the peak memory of a process to its current memory, and returns that in MiB.
fn reset_peak(pid: u32) -> u64 {
    std::fs::write(format!("/proc/{pid}/clear_refs"), "5").unwrap();
    peak_kib(pid) / 1024
}

// Finding A-2
#[test]
fn work_that_goes_on_when_the_deadline_passes_ends_and_stores_nothing() {
    let api = TestApi::start();
    let body = mk_wide(mk_map("late", ""), "data");
    // The body arrives at once, and decoding it alone takes longer than the timeout.
    let late = api.ask(&Ask::new("POST", &format!("{MAPS}?timeout=5ms")).body("application/json", body.clone()));
    assert_eq!((late.code, late.reason().as_str()), (504, "Timeout"), "{}", late.text());
    api.post(MAPS, &mk_map("next", "1")).expect(201);
    assert_eq!(api.get(&format!("{MAPS}/late")).code, 404, "the work has stopped before it stored anything");
    let in_time = api.ask(&Ask::new("POST", MAPS).body("application/json", body));
    assert_eq!(in_time.code, 201, "{}", in_time.text().chars().take(500).collect::<String>());
}
