//! Tests of `rdd kubectl` without kubectl: verbs on a kubeconfig's cluster, against a real API server over TLS.

#![allow(clippy::unwrap_used, reason = "the helpers of tests fail a test by panicking")]

mod support;

use std::fs;

use support::{CertificateServer, Cluster, Home, PlainServer, ran_by_kubectl};

const PLUGIN: &str = r#"#!/bin/sh
echo "$0 $* stdin=$(cat | wc -c | tr -d ' ') $KUBERNETES_EXEC_INFO" >> "$(dirname "$0")/runs"
cat <<END
{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1","status":{"token":"$TOKEN","expirationTimestamp":"$EXPIRES"}}
END
"#;

/// A home with a context in one file, its credentials in another, and a plugin beside the latter.
fn home_with_plugin(cluster: &Cluster, token: &str, expires: &str) -> Home {
    let home = Home::new();
    fs::create_dir_all(home.path("creds/bin")).unwrap();
    fs::write(home.path("creds/ca.pem"), cluster.bundle()).unwrap();
    home.write_program("creds/bin/login", PLUGIN);
    let contexts =
        "current-context: other\ncontexts: [{name: other, context: {cluster: own, user: plugin, namespace: blue}}]\n";
    fs::write(home.path("contexts"), contexts).unwrap();
    let server = cluster.url();
    let credentials = format!(
        "\
clusters: [{{name: own, cluster: {{server: '{server}', certificate-authority: ca.pem}}}}]
users:
- name: plugin
  user:
    exec:
      apiVersion: client.authentication.k8s.io/v1
      command: bin/login
      args: ['a b', '$HOME; exit 1']
      env: [{{name: TOKEN, value: '{token}'}}, {{name: EXPIRES, value: '{expires}'}}]
      provideClusterInfo: true
      interactiveMode: Never
- name: token
  user: {{token: '{}'}}
- name: wrong
  user: {{token: wrong}}
- name: missing
  user:
    exec: {{apiVersion: client.authentication.k8s.io/v1beta1, command: no-such-plugin, installHint: Ask Ann., args: [], env: null}}
- name: failing
  user:
    exec: {{apiVersion: client.authentication.k8s.io/v1, command: 'false', interactiveMode: IfAvailable}}
",
        cluster.token()
    );
    fs::write(home.path("creds/config"), credentials).unwrap();
    home
}

const FILES: [&str; 3] = ["missing", "contexts", "creds/config"];
const SOON: &str = "2100-01-01T00:00:00Z";

// Finding E-9
#[test]
fn a_plugin_gives_the_credentials_and_the_context_the_namespace() {
    let cluster = Cluster::start();
    let home = home_with_plugin(&cluster, cluster.token(), SOON);
    home.run(&FILES, "create namespace blue").expect("namespace/blue created\n");
    home.run(&FILES, "create configmap one --from-literal=a=b").expect("configmap/one created\n");
    let listed = home.run(&FILES, "get configmaps -o name");
    assert!(listed.stdout.contains("configmap/one\n"), "{listed:?}");
    assert!(home.run(&FILES, "get cm one -n default").stderr.contains("(NotFound)"), "-n wins over the context");
    let table = home.run(&FILES, "get cm one --no-headers");
    assert!(table.stdout.starts_with("one   1 "), "the table is the server's: {table:?}");
    assert!(home.run(&FILES, "explain configmap.data").stdout.contains("FIELD: data <map[string]string>"));
    assert!(home.run(&FILES, "api-resources -o name").stdout.contains("configmaps\n"));

    let runs = fs::read_to_string(home.path("creds/bin/runs")).unwrap();
    assert_eq!(runs.lines().count(), 7, "once per command, however many requests it makes: {runs}");
    let first = runs.lines().next().unwrap();
    let words = format!("{} a b $HOME; exit 1 stdin=0 ", home.path("creds/bin/login").display());
    assert!(first.starts_with(&words), "arguments are taken as they are: {first}");
    assert!(first.contains(r#""spec":{"cluster":{"certificate-authority-data":"#), "{first}");
    assert!(first.ends_with(r#""interactive":false}}"#), "{first}");
}

// Finding E-9
#[test]
fn credentials_that_are_over_are_got_again_and_wrong_ones_are_refused() {
    let cluster = Cluster::start();
    let home = home_with_plugin(&cluster, cluster.token(), "2001-01-01T00:00:00Z");
    home.run(&FILES, "create configmap one -n default").expect("configmap/one created\n");
    let before = fs::read_to_string(home.path("creds/bin/runs")).unwrap().lines().count();
    home.run(&FILES, "label cm one a=b -n default").expect("configmap/one labeled\n");
    let runs = fs::read_to_string(home.path("creds/bin/runs")).unwrap().lines().count() - before;
    assert!(runs > 1, "they are over before every request: {runs}");

    let unauthorized = "error: You must be logged in to the server (Unauthorized)\n";
    assert_eq!(home.run(&FILES, "get cm --user wrong").stderr, unauthorized);
    let wrong = home_with_plugin(&cluster, "wrong", SOON);
    assert_eq!(wrong.run(&FILES, "get cm").stderr, unauthorized);
    assert_eq!(wrong.run(&FILES, &format!("get cm -n default -o name --token {}", cluster.token())).code, 0);
    fs::remove_file(home.path("creds/bin/login")).unwrap();
    let missing = home.run(&FILES, "get cm");
    let expected = format!(
        "Unable to connect to the server: getting credentials: exec: executable {} not found",
        home.path("creds/bin/login").display()
    );
    assert!(missing.stderr.starts_with(&expected), "{missing:?}");
    assert_eq!(home.run(&FILES, "config current-context").stdout, "other\n", "what asks nothing needs no credentials");
}

// Finding E-9
#[test]
fn flags_name_server_trust_and_user() {
    let cluster = Cluster::start();
    let home = home_with_plugin(&cluster, "wrong", SOON);
    let (url, token) = (cluster.url(), cluster.token());
    let get = format!("get ns default -o name --token {token} -s {url}");
    let none: [&str; 1] = ["missing"];
    let untrusted = home.run(&none, &get);
    assert!(untrusted.stderr.starts_with("Unable to connect to the server: "), "{untrusted:?}");
    let trusted = format!("{get} --certificate-authority {}", home.path("creds/ca.pem").display());
    home.run(&none, &trusted).expect("namespace/default\n");
    home.run(&none, &format!("{get} --insecure-skip-tls-verify")).expect("namespace/default\n");
    let named = home.run(&none, &format!("{trusted} --tls-server-name wrong.example"));
    assert!(named.stderr.starts_with("Unable to connect to the server: "), "{named:?}");
    home.run(&none, &format!("{trusted} --tls-server-name localhost")).expect("namespace/default\n");
    home.run(&FILES, "get ns default -o name --user token").expect("namespace/default\n");
    let explicit = format!(
        "get ns default --kubeconfig {} --cluster own --user token -o name",
        home.path("creds/config").display()
    );
    home.run(&none, &explicit).expect("namespace/default\n");
    assert_eq!(
        home.run(&FILES, "get ns --kubeconfig /nonexistent/x").stderr,
        "error: stat /nonexistent/x: no such file or directory\n"
    );
}

// Finding E-9, A-3
#[test]
fn no_credential_is_sent_over_plain_http_and_who_is_impersonated_is() {
    let server = PlainServer::start();
    let home = Home::new();
    let user = "{token: hunter2, as: eve, as-groups: [a, b], exec: {apiVersion: client.authentication.k8s.io/v1, command: /nonexistent, interactiveMode: Never}}";
    let config = format!(
        "current-context: c\ncontexts: [{{name: c, context: {{cluster: c, user: u}}}}]\n\
         clusters: [{{name: c, cluster: {{server: '{}/k8s/clusters/one'}}}}]\nusers: [{{name: u, user: {user}}}]\n",
        server.url()
    );
    fs::write(home.path("config"), config).unwrap();
    home.run(&["config"], "get --raw /version?x=1 --token flag").expect("{}");
    let asked = server.asked();
    assert!(asked.starts_with("GET /k8s/clusters/one/version?x=1 HTTP/1.1\r\n"), "{asked}");
    let lower = asked.to_lowercase();
    assert!(!lower.contains("authorization") && !lower.contains("hunter2") && !lower.contains("flag"), "{asked}");
    assert!(lower.contains("impersonate-user: eve\r\n") && lower.contains("impersonate-group: a\r\n"), "{asked}");
    assert!(lower.contains("impersonate-group: b\r\n"), "{asked}");
}

// Finding E-9
#[test]
fn a_client_certificate_comes_from_the_kubeconfig_or_from_a_plugin() {
    let server = CertificateServer::start();
    let home = Home::new();
    for (name, text) in [("ca.pem", &server.authority), ("me.pem", &server.certificate), ("me.key", &server.key)] {
        fs::write(home.path(name), text).unwrap();
    }
    let answer = serde_json::json!({
        "kind": "ExecCredential",
        "apiVersion": "client.authentication.k8s.io/v1",
        "status": {"clientCertificateData": server.certificate, "clientKeyData": server.key},
    });
    fs::write(home.path("answer"), answer.to_string()).unwrap();
    let config = format!(
        "\
clusters: [{{name: c, cluster: {{server: '{}', certificate-authority: ca.pem, tls-server-name: server.example}}}}]
users:
- name: file
  user: {{client-certificate: me.pem, client-key: me.key}}
- name: plugin
  user:
    exec: {{apiVersion: client.authentication.k8s.io/v1, command: cat, args: ['{}'], interactiveMode: Never}}
- name: nobody
",
        server.url,
        home.path("answer").display()
    );
    fs::write(home.path("config"), config).unwrap();
    for user in ["file", "plugin"] {
        home.run(&["config"], &format!("get --raw /version --cluster c --user {user}")).expect("{}");
    }
    let nobody = home.run(&["config"], "get --raw /version --cluster c --user nobody");
    assert!(nobody.stderr.starts_with("Unable to connect to the server: "), "{nobody:?}");
}

// Finding E-9
#[test]
fn a_cluster_behind_a_proxy_is_reached_through_it() {
    let cluster = Cluster::start();
    let home = home_with_plugin(&cluster, "wrong", SOON);
    let proxy = support::TunnelProxy::start();
    let config = |url: &str| {
        fs::write(
            home.path("proxied"),
            format!(
                "clusters: [{{name: own, cluster: {{server: '{}', certificate-authority: creds/ca.pem, proxy-url: '{url}'}}}}]\n",
                cluster.url()
            ),
        )
        .unwrap();
        home.run(&["proxied", "contexts", "creds/config"], "get ns default -o name --user token")
    };
    config(&proxy.url()).expect("namespace/default\n");
    let authority = cluster.url().trim_start_matches("https://").to_owned();
    assert_eq!(proxy.asked_for(), format!("CONNECT {authority} HTTP/1.1"));
    let unsupported = config("https://127.0.0.1:1");
    assert!(unsupported.stderr.contains("proxies that speak TLS themselves are not supported"), "{unsupported:?}");
}

// Finding E-9
#[test]
fn words_and_codes_are_those_of_kubectl() {
    if !rdd_testkit::capability::require("kubectl") {
        return;
    }
    let cluster = Cluster::start();
    let home = home_with_plugin(&cluster, cluster.token(), SOON);
    home.run(&FILES, "create namespace blue").expect("namespace/blue created\n");
    home.run(&FILES, "create configmap one --from-literal=a=b").expect("configmap/one created\n");
    let broken = "current-context: gone\ncontexts: [{name: c, context: {cluster: x, user: z}}]\n\
                  clusters: [{name: x, cluster: {server: 'https://127.0.0.1:1', certificate-authority: none.pem}}]\n";
    fs::write(home.path("broken"), broken).unwrap();
    let mut different = Vec::new();
    for (files, line) in [
        (&FILES[..], "get cm one -o name"),
        (&FILES, "get cm one -o jsonpath={.data.a}"),
        (&FILES, "get cm nope"),
        (&FILES, "get ns default -o name --user token"),
        (&FILES, "get cm --user wrong"),
        (&FILES, "get cm --user nope"),
        (&FILES, "get cm --user missing"),
        (&FILES, "get cm --user failing"),
        (&FILES, "get cm --cluster nope"),
        (&FILES, "get cm --context nope"),
        (&FILES, "get cm --as-group g"),
        (&FILES, "config get-contexts"),
        (&FILES, "config get-contexts --no-headers"),
        (&FILES, "config get-contexts nope other"),
        (&FILES, "config get-contexts -o name"),
        (&FILES, "config current-context"),
        (&FILES, "config get-clusters"),
        (&FILES, "config get-users"),
        (&FILES, "config use-context nope"),
        (&FILES, "config delete-context nope"),
        (&FILES, "config delete-user nope"),
        (&FILES, "config rename-context nope x"),
        (&FILES, "config view -o jsonpath={.users[*].user.token}"),
        (&FILES, "config view --raw --minify -o jsonpath={.contexts[*].name}"),
        (&FILES, "config view --minify --context nope"),
        (&["broken"], "get cm --context c"),
        (&["broken"], "get cm"),
        (&["broken"], "get cm --context nope --cluster nope"),
        (&["broken"], "config view --flatten"),
        (&["missing"], "config current-context"),
        (&["missing"], "config get-contexts"),
        (&["missing"], "get cm --kubeconfig /nonexistent/x"),
        (&["missing"], "config view --merge=false"),
    ] {
        let (ours, theirs) = (home.run(files, line), ran_by_kubectl(&home, files, line));
        if ours != theirs {
            different.push(format!("{line}\n--- kubectl\n{theirs:#?}\n--- rdd kubectl\n{ours:#?}"));
        }
    }
    assert!(different.is_empty(), "{}", different.join("\n\n"));
    // Contexts that either program writes are the same.
    for line in
        ["config use-context two", "config set-context --current --namespace=green", "config set-context new --user=u"]
    {
        let text = "apiVersion: v1\nkind: Config\nclusters: []\ncontexts:\n- context:\n    cluster: c\n    user: u\n  name: two\ncurrent-context: two\nusers: []\n";
        let written = [true, false].map(|is_ours| {
            fs::write(home.path("written"), text.replace("current-context: two", "current-context: one")).unwrap();
            if !line.contains("use-context") {
                fs::write(home.path("written"), text).unwrap();
            }
            let ran = if is_ours { home.run(&["written"], line) } else { ran_by_kubectl(&home, &["written"], line) };
            assert_eq!(ran.code, 0, "{ran:?}");
            let shown = home.run(&["written"], "config view -o json");
            (ran, shown.stdout)
        });
        assert_eq!(written[0], written[1], "{line}");
    }
}
