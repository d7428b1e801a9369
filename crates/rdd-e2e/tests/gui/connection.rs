//! Tests how the GUI finds and reaches the daemon.

use std::{collections::BTreeSet, io::Write, net::TcpStream, sync::Arc};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use rdd_client::kubeconfig::Kubeconfig;
use rdd_testkit::{
    Sandbox,
    api::{Ask, Next, Server},
};
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned,
    pki_types::{CertificateDer, ServerName, pem::PemObject},
};
use serde_json::{Value, json};

use crate::client::{APP, APPS, Gui, NAMESPACE, SOON};

#[test]
fn paths_are_told_before_anything_runs() {
    let sandbox = Sandbox::new();
    let output = sandbox.rdd(&["service", "paths", "--output=json"]).expect_success();
    let paths: Value = serde_json::from_str(&output.stdout).unwrap();
    let known = "args_file config dir docker_socket lima_home log_dir pid_file short_dir tls_dir";
    for key in known.split(' ') {
        assert!(paths[key].as_str().is_some_and(|path| path.starts_with('/')), "{key} in {paths}");
    }
    assert!(sandbox.processes().is_empty());
}

#[test]
fn asking_for_the_kubeconfig_starts_the_service_and_waits_for_it() {
    let sandbox = Sandbox::new();
    let first = sandbox.rdd(&["service", "config", "--log-format=json"]).expect_success();
    let again = sandbox.rdd(&["service", "config", "--log-format=json"]).expect_success();
    assert_eq!(first.stdout, again.stdout);
    let output = sandbox.rdd(&["service", "status", "--log-format=json"]).expect_success();
    assert!(output.stderr.contains("control plane has been started: true"), "{}", output.stderr);
    let version = sandbox.rdd(&["--version=raw"]).expect_success().stdout;
    assert!(!version.trim().is_empty());
}

#[test]
fn the_kubeconfig_has_a_token_and_the_very_certificate_that_is_served() {
    let sandbox = Sandbox::new();
    let text = sandbox.rdd(&["service", "config", "--log-format=json"]).expect_success().stdout;
    assert!(text.contains("apiVersion: v1") && text.contains("kind: Config"), "{text}");
    assert!(!text.contains("client-certificate"), "a token and nothing else: {text}");
    let config = Kubeconfig::parse(&text).unwrap();
    let resolved = config.resolve(None).unwrap();
    assert!(!resolved.user.token.is_empty());
    let bundle = STANDARD.decode(&resolved.cluster.certificate_authority_data).unwrap();
    let bundle: Vec<CertificateDer<'_>> = CertificateDer::pem_slice_iter(&bundle).map(Result::unwrap).collect();
    let mut roots = RootCertStore::empty();
    for certificate in &bundle {
        roots.add(certificate.clone()).unwrap();
    }
    let tls = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let address = resolved.cluster.server.trim_start_matches("https://");
    let name = ServerName::try_from("127.0.0.1").unwrap();
    let connection = ClientConnection::new(Arc::new(tls), name).unwrap();
    let mut stream = StreamOwned::new(connection, TcpStream::connect(address).unwrap());
    stream.write_all(b"GET /version HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    stream.flush().unwrap();
    let served = stream.conn.peer_certificates().unwrap()[0].clone().into_owned();
    assert!(bundle.contains(&served), "the served certificate is in the bundle as it is");
}

#[test]
fn requests_come_with_an_origin_of_their_own_server() {
    let gui = Gui::connect();
    assert_eq!(gui.ask(Ask::new("GET", APPS)).code, 200);
}

#[test]
fn lists_go_on_as_watches() {
    let gui = Gui::connect();
    let (items, mut followed) = gui.follow(APPS, "");
    assert_eq!(items, Vec::<Value>::new());
    gui.create_app();
    let added = followed.until("ADDED", |_| true);
    assert_eq!((&added["metadata"]["name"], &added["spec"]["namespace"]), (&json!("app"), &json!(NAMESPACE)));
    gui.merge(APP, &json!({"metadata": {"labels": {"a": "b"}}})).expect(200);
    followed.until("MODIFIED", |app| app["metadata"]["labels"]["a"] == "b");
    let (selected, _) = gui.follow(APPS, "labelSelector=a%3Db");
    assert_eq!(selected.len(), 1);
    let (others, _) = gui.follow(APPS, "fieldSelector=metadata.name%3Dother");
    assert_eq!(others.len(), 0);
    gui.wire.delete(APP);
    followed.until("DELETED", |app| app["metadata"]["name"] == "app");
}

/// Finding A-12. Like kube-apiserver: a watch waits for a future version, and a list only for a short time.
#[test]
fn a_watch_from_a_future_version_stays_silent_and_a_list_of_one_is_refused_with_504() {
    let gui = Gui::connect();
    gui.create_app();
    let silent = gui.wire.get(&format!("{APPS}?watch=true&resourceVersion=999999999&timeoutSeconds=1"));
    assert_eq!((silent.code, silent.text().as_ref()), (200, ""), "the App is older than what was asked for");
    let status = gui.wire.get(&format!("{APPS}?resourceVersion=999999999")).expect(504);
    assert_eq!((&status["kind"], &status["reason"]), (&json!("Status"), &json!("Timeout")), "{status}");
    let message = status["message"].as_str().unwrap();
    assert!(message.starts_with("Timeout: Too large resource version: 999999999, current: "), "{message}");
    assert_eq!(status["details"]["causes"][0]["reason"], "ResourceVersionTooLarge");
    assert_eq!(status["details"]["retryAfterSeconds"], 1);
}

/// Finding A-12. The server keeps 16 MiB of superseded objects per resource; twenty writes of a megabyte exceed that.
#[test]
fn a_watch_from_a_version_that_is_too_old_ends_with_410() {
    const MAPS: &str = "/api/v1/namespaces/default/configmaps";
    let gui = Gui::connect();
    let list = gui.wire.get(MAPS).expect(200);
    let old = list["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    let map = |value: String| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "large"}, "data": {"value": value}});
    gui.wire.post(MAPS, &map(String::new())).expect(201);
    for letter in ('a'..='z').take(20) {
        gui.wire.put(&format!("{MAPS}/large"), &map(letter.to_string().repeat(1_000_000))).expect(200);
    }
    let mut late = gui.wire.watch(&format!("{MAPS}?watch=true&resourceVersion={old}"));
    let Next::Event(event) = late.next(SOON) else { panic!("a watch that expired ends without an event") };
    assert_eq!((&event["type"], &event["object"]["code"]), (&json!("ERROR"), &json!(410)), "{event}");
    assert_eq!(event["object"]["reason"], "Expired", "{event}");
    assert_eq!(late.next(SOON), Next::Ended);
}

#[test]
fn the_list_of_managers_says_who_answers_for_logs() {
    let gui = Gui::connect();
    let (maps, _) = gui.follow("/api/v1/namespaces/rdd-system/configmaps", "");
    let list = maps.iter().find(|map| map["metadata"]["name"] == "rdd-controller-manager").unwrap();
    let managers = list["data"].as_object().unwrap().values();
    let entries: Vec<Value> = managers.map(|text| serde_json::from_str(text.as_str().unwrap()).unwrap()).collect();
    let answering = |entry: &&Value| {
        let endpoints: BTreeSet<&str> =
            entry["enabledPassthroughs"]["engine"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        endpoints.contains("logs")
    };
    assert_eq!(entries.iter().filter(answering).count(), 1, "{entries:?}");
}
