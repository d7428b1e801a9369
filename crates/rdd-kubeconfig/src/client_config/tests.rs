//! Merging, resolving and rejecting small kubeconfigs.

use std::{fs, path::PathBuf};

use serde_json::json;

use super::*;

struct Home {
    folder: tempfile::TempDir,
}

impl Home {
    fn new(files: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        Self { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn files(&self, names: &[&str]) -> ConfigFiles {
        let list = std::env::join_paths(names.iter().map(|name| self.path(name))).unwrap();
        ConfigFiles::from_environment(Some(list.as_os_str()), self.folder.path())
    }

    fn resolve(&self, names: &[&str], overrides: &ConnectionOverrides) -> Result<ClusterConnection, ResolveError> {
        MergedConfig::load(&self.files(names)).unwrap().resolve(overrides)
    }
}

const ONE: &str = "\
current-context: ''
contexts:
- name: one
  context: {cluster: red, user: ann, namespace: blue}
clusters:
- name: red
  cluster: {server: 'https://one.example:6443', certificate-authority: pki/ca.pem}
users:
- name: ann
  user: {tokenFile: secret/token, token: fallback}
";
const TWO: &str = "\
apiVersion: v1
kind: Config
current-context: one
clusters:
- name: red
  cluster: {server: 'https://two.example', insecure-skip-tls-verify: true, tls-server-name: two}
- name: plain
  cluster: {server: 'http://plain.example:8080', certificate-authority: /nonexistent/ca.pem}
contexts:
- name: two
  context: {cluster: plain, user: bob}
users:
- name: bob
  user: {username: bob, password: pw, as: carl, as-groups: [a, b], as-user-extra: {k: [v, w]}}
";

fn home() -> Home {
    Home::new(&[("a/one", ONE), ("b/two", TWO), ("a/pki/ca.pem", "CA"), ("a/secret/token", "from-file\n")])
}

fn flags(set: impl FnOnce(&mut ConnectionOverrides)) -> ConnectionOverrides {
    let mut overrides = ConnectionOverrides::default();
    set(&mut overrides);
    overrides
}

// Finding E-9
#[test]
fn the_first_file_wins_missing_ones_are_passed_over_and_paths_are_relative_to_their_file() {
    let home = home();
    let connection = home.resolve(&["missing", "a/one", "b/two", "a/one"], &ConnectionOverrides::default()).unwrap();
    assert_eq!(
        connection.server, "https://one.example:6443",
        "of two entries with one name the first is taken as a whole"
    );
    assert_eq!(connection.trust, ConnectionTrust::Pem(b"CA".to_vec()), "not the insecure one of the second file");
    assert_eq!((connection.server_name, connection.namespace.as_deref()), (None, Some("blue")));
    assert_eq!(connection.credentials.token.as_deref(), Some("from-file"));

    let merged = MergedConfig::load(&home.files(&["missing", "a/one", "b/two"])).unwrap();
    assert_eq!(merged.current_context, "one", "an empty one is not set");
    assert_eq!(merged.missing, [home.path("missing")]);
    let first = home.resolve(&["b/two", "a/one"], &flags(|set| set.context = Some("one".to_owned()))).unwrap();
    assert_eq!((first.server.as_str(), first.trust), ("https://two.example", ConnectionTrust::Unverified));
}

// Finding E-9
#[test]
fn without_tls_no_credential_is_used_not_even_that_of_a_flag() {
    let overrides = flags(|set| {
        set.context = Some("two".to_owned());
        set.certificate_authority = Some("/etc/hostname".into());
    });
    let connection = home().resolve(&["b/two"], &overrides).unwrap();
    assert_eq!(connection.credentials, Credentials::default());
    assert_eq!(connection.impersonation.user, "carl", "who is impersonated is no secret");
    assert_eq!(connection.impersonation.extra, [("k".to_owned(), "v".to_owned()), ("k".to_owned(), "w".to_owned())]);
    let token = flags(|set| {
        set.server = Some("one.example:1".to_owned());
        set.token = Some("secret".to_owned());
    });
    let connection = home().resolve(&["a/one"], &token).unwrap();
    assert_eq!((connection.server.as_str(), connection.credentials), ("http://one.example:1", Credentials::default()));
}

#[test]
fn flags_win_over_the_kubeconfig() {
    let home = home();
    let overrides = flags(|set| {
        set.context = Some("one".to_owned());
        set.token = Some("given".to_owned());
        set.server = Some("HTTPS://other.example/prefix".to_owned());
        set.insecure_skip_tls_verify = true;
        set.impersonation.user = "eve".to_owned();
        set.impersonation.groups = vec!["g".to_owned()];
    });
    let connection = home.resolve(&["a/one", "b/two"], &overrides).unwrap();
    assert_eq!(connection.server, "HTTPS://other.example/prefix");
    assert_eq!(
        connection.trust,
        ConnectionTrust::Unverified,
        "the authority of the kubeconfig does not contradict the flag"
    );
    assert_eq!(connection.credentials.token.as_deref(), Some("given"), "also over a file of the kubeconfig");
    assert_eq!(
        (connection.impersonation.user.as_str(), connection.impersonation.groups.as_slice()),
        ("eve", ["g".to_owned()].as_slice())
    );
    let overrides = flags(|set| {
        set.cluster = Some("red".to_owned());
        set.user = Some("bob".to_owned());
    });
    let connection = home.resolve(&["b/two", "a/one"], &overrides).unwrap();
    assert_eq!(
        (connection.server_name.as_deref(), connection.credentials.basic),
        (Some("two"), Some(("bob".to_owned(), "pw".to_owned())))
    );
    assert_eq!(connection.namespace.as_deref(), Some("blue"), "of the current context");
}

#[test]
fn nothing_at_all_means_localhost_as_for_kubectl() {
    let home = Home::new(&[("empty", "")]);
    for names in [&["missing"][..], &["empty"]] {
        assert_eq!(home.resolve(names, &ConnectionOverrides::default()).unwrap().server, "http://localhost:8080");
    }
    let default = ConfigFiles::from_environment(None, home.folder.path());
    assert_eq!(default.precedence(), [home.path(".kube/config")]);
    let error = MergedConfig::load(&default.with_explicit("/nonexistent/x")).unwrap_err();
    assert_eq!(error.to_string(), "stat /nonexistent/x: no such file or directory");
}

#[test]
fn what_is_wrong_is_named_in_the_words_of_client_go() {
    let home = home();
    let check = |names: &[&str], overrides: ConnectionOverrides, expected: &str| {
        assert_eq!(home.resolve(names, &overrides).unwrap_err().to_string(), expected);
    };
    let context = |name: &str| flags(|set| set.context = Some(name.to_owned()));
    check(&["b/two"], ConnectionOverrides::default(), "context was not found for specified context: one");
    check(&["a/one"], context("nope"), "context was not found for specified context: nope");
    check(&["a/one"], flags(|set| set.cluster = Some("x".to_owned())), "no server found for cluster \"x\"");
    check(&["a/one"], flags(|set| set.user = Some("x".to_owned())), "auth info \"x\" does not exist");
    check(
        &["b/two"],
        flags(|set| {
            set.context = Some("nope".to_owned());
            set.cluster = Some("x".to_owned());
        }),
        "[context was not found for specified context: nope, no server found for cluster \"x\"]",
    );
    check(
        &["b/two"],
        context("two"),
        "unable to read certificate-authority /nonexistent/ca.pem for plain due to open /nonexistent/ca.pem: no such file or directory",
    );
    let groups = flags(|set| {
        set.context = Some("one".to_owned());
        set.impersonation.groups = vec!["g".to_owned()];
    });
    check(&["a/one"], groups, "requesting uid, groups or user-extra for ann without impersonating a user");
}

#[test]
fn files_that_are_no_kubeconfigs_are_named_without_their_secrets() {
    for (text, why) in [
        ("clusters: [", "line "),
        ("users:\n- name: a\n  user: {token: 0123}\n", "users[0].user.token must be a string"),
        ("users:\n- name: a\n  user: {client-key-data: hunter2!}\n", "users[0].user.client-key-data must be base64"),
        ("users: [{name: a}, {name: a}]", "users has two entries with the name \"a\""),
        ("kind: Pod", "it is not a Config of v1"),
        ("clusters: {}", "clusters must be a list"),
    ] {
        let home = Home::new(&[("x", text)]);
        let error = MergedConfig::load(&home.files(&["x"])).unwrap_err().to_string();
        assert!(error.starts_with(&format!("error loading config file \"{}\": ", home.path("x").display())), "{error}");
        assert!(error.contains(why) && !error.contains("hunter2") && !error.contains("0123"), "{error}");
    }
}

// Finding E-9
#[test]
fn an_exec_plugin_is_described_as_client_go_describes_it() {
    let text = "\
current-context: c
contexts: [{name: c, context: {cluster: c, user: u}}]
clusters:
- name: c
  cluster:
    server: https://x.example
    certificate-authority-data: Q0E=
    extensions:
    - name: client.authentication.k8s.io/exec
      extension: {audience: me}
users:
- name: u
  user:
    exec:
      apiVersion: client.authentication.k8s.io/v1beta1
      command: ./bin/login
      args: [a, b]
      env: [{name: K, value: V}]
      provideClusterInfo: true
";
    let home = Home::new(&[("d/x", text)]);
    let plugin = home.resolve(&["d/x"], &ConnectionOverrides::default()).unwrap().credentials.exec.unwrap();
    assert_eq!(plugin.command, home.path("d/./bin/login").to_string_lossy());
    assert_eq!(
        (plugin.args.len(), plugin.env, plugin.interactive_mode),
        (2, vec![("K".to_owned(), "V".to_owned())], InteractiveMode::IfAvailable)
    );
    let cluster =
        json!({"server": "https://x.example", "certificate-authority-data": "Q0E=", "config": {"audience": "me"}});
    assert_eq!(plugin.cluster, Some(cluster));
    let token = home.resolve(&["d/x"], &flags(|set| set.token = Some("t".to_owned()))).unwrap();
    assert!(token.credentials.exec.is_none(), "a token of a flag is used instead of the program");

    for (from, to, why) in [
        ("v1beta1", "v1", "interactiveMode must be specified for u to use exec authentication plugin"),
        ("v1beta1", "v1alpha1", "exec plugin: invalid apiVersion \"client.authentication.k8s.io/v1alpha1\""),
        ("./bin/login", "''", "command must be specified for u to use exec authentication plugin"),
        ("name: K", "name: ''", "env variable name must be specified for u to use exec authentication plugin"),
    ] {
        let home = Home::new(&[("d/x", &text.replace(from, to))]);
        assert_eq!(home.resolve(&["d/x"], &ConnectionOverrides::default()).unwrap_err().to_string(), why);
    }
}

#[test]
fn debug_output_has_no_secrets() {
    let home = home();
    let overrides = flags(|set| {
        set.context = Some("one".to_owned());
        set.token = Some("hunter2".to_owned());
    });
    let merged = MergedConfig::load(&home.files(&["a/one", "b/two"])).unwrap();
    let shown = format!("{merged:?} {overrides:?} {:?}", merged.resolve(&overrides).unwrap());
    assert!(!shown.contains("hunter2") && !shown.contains("pw") && !shown.contains("fallback"), "{shown}");
}
