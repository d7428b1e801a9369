//! Finding 361-T2: the current context is switched only if it is empty, missing or surely broken; any doubt keeps it.

use std::{fs, sync::Mutex};

use rdd_kubeconfig::{Answer, Doubt, Endpoint, Keep, Probe, Seen, Switch, Verdict, judge};

use crate::support::{Folder, NAME, cluster, merge, read, user};

/// A probe with a fixed answer, which records that it was called.
struct Told(Answer, Mutex<usize>);

impl Told {
    fn new(answer: Answer) -> Self {
        Self(answer, Mutex::default())
    }
}

impl Probe for Told {
    async fn ask(&self, _: &Endpoint) -> Answer {
        *self.1.lock().unwrap() += 1;
        self.0.clone()
    }
}

/// A file whose current context is `work`.
fn config(cluster: &str, user: &str) -> String {
    format!(
        "apiVersion: v1\nclusters:\n- name: work\n  cluster: {cluster}\ncontexts:\n- name: work\n  context: {{cluster: work, \
         user: me}}\ncurrent-context: work\nusers:\n- name: me\n  user: {user}\n"
    )
}

const LOCAL: &str = "{server: 'https://127.0.0.1:6443'}";

/// Publishes into a file with this text, and returns whether our context becomes current.
async fn decide(text: &str, answer: Answer) -> (Verdict, bool, usize) {
    let folder = Folder::new();
    let path = folder.write("config", text);
    let merge = merge(&[&path]);
    merge.publish(&cluster(1), &user()).await.unwrap();
    let before = read(&path);
    let probe = Told::new(answer);
    let verdict = merge.switch_current(&probe).await.unwrap();
    let is_ours = read(&path).contains(&format!("current-context: {NAME}\n"));
    assert!(is_ours || read(&path) == before, "what is kept is not touched");
    let asked = *probe.1.lock().unwrap();
    (verdict, is_ours, asked)
}

async fn switches(text: &str, answer: Answer, why: Switch) {
    let (verdict, is_ours, _) = decide(text, answer).await;
    assert_eq!((verdict, is_ours), (Verdict::Switch(why), true), "{text}");
}

async fn keeps(text: &str, answer: Answer, doubt: &str, times_asked: usize) {
    let (verdict, is_ours, asked) = decide(text, answer).await;
    let Verdict::Keep(Keep::Doubt(said)) = verdict else { panic!("{verdict:?}: {text}") };
    assert_eq!((said.to_string().as_str(), is_ours, asked), (doubt, false, times_asked), "{text}");
}

#[tokio::test]
async fn an_empty_one_is_switched() {
    switches("kind: Config\n", Answer::Status(200), Switch::Nothing).await;
    switches("current-context: \"\"\n", Answer::Status(200), Switch::Nothing).await;
    switches("", Answer::Status(200), Switch::Nothing).await;
}

#[tokio::test]
async fn one_that_is_not_there_is_switched() {
    switches("current-context: gone\n", Answer::Status(200), Switch::Missing).await;
}

#[tokio::test]
async fn one_whose_server_on_this_machine_is_gone_is_switched() {
    for server in ["https://127.0.0.1:6443", "https://localhost:6443", "http://127.8.0.1", "https://[::1]:6443/base"] {
        let text = config(&format!("{{server: '{server}'}}"), "{token: x}");
        switches(&text, Answer::Refused, Switch::NothingListens).await;
    }
}

#[tokio::test]
async fn one_that_answers_is_kept() {
    let (verdict, is_ours, asked) = decide(&config(LOCAL, "{token: x}"), Answer::Status(200)).await;
    assert_eq!((verdict, is_ours, asked), (Verdict::Keep(Keep::Answers), false, 1));
}

#[tokio::test]
async fn a_server_elsewhere_that_refuses_is_a_doubt() {
    let text = config("{server: 'https://10.0.0.1:6443'}", "{token: x}");
    keeps(&text, Answer::Refused, "its server, on another machine, refuses connections", 1).await;
}

#[tokio::test]
async fn a_context_whose_cluster_is_missing_is_kept() {
    let text = config(LOCAL, "{}").replace("- name: work\n  cluster:", "- name: other\n  cluster:");
    keeps(&text, Answer::Refused, "its cluster is not there", 0).await;
}

#[tokio::test]
async fn a_context_whose_user_is_missing_is_kept() {
    keeps(&config(LOCAL, "{}").replace("- name: me", "- name: you"), Answer::Refused, "its user is not there", 0).await;
}

#[tokio::test]
async fn a_user_known_by_a_program_or_a_plugin_is_kept() {
    for user in ["{exec: {command: aws}}", "{auth-provider: {name: oidc}}", "{token: x, exec: {command: aws}}"] {
        let doubt = "its user is known by a program that was not run";
        keeps(&config(LOCAL, user), Answer::Refused, doubt, 0).await;
    }
}

#[tokio::test]
async fn a_file_of_certificates_that_cannot_be_read_is_a_doubt() {
    let text = config("{server: 'https://127.0.0.1:1', certificate-authority: /no/such/file}", "{}");
    let doubt = "it cannot be tried from here: /no/such/file cannot be read: No such file or directory (os error 2)";
    keeps(&text, Answer::Refused, doubt, 0).await;
    let text = config(LOCAL, "{client-certificate: /no/such/file}");
    keeps(&text, Answer::Refused, doubt, 0).await;
    let text = config(LOCAL, "{tokenFile: /no/such/file}");
    keeps(&text, Answer::Refused, doubt, 0).await;
}

#[tokio::test]
async fn what_cannot_be_tried_from_here_is_kept() {
    for (cluster, why) in [
        ("{server: 'https://127.0.0.1:1', proxy-url: 'http://p'}", "it is behind a proxy"),
        ("{server: 'https://127.0.0.1:1', insecure-skip-tls-verify: true}", "its server is not to be verified"),
        (
            "{server: 'https://127.0.0.1:1', certificate-authority-data: '!'}",
            "its certificate-authority-data is not base64",
        ),
        ("{server: 'ftp://127.0.0.1'}", "its server is no URL"),
        ("{}", "it has no server"),
    ] {
        let doubt = format!("it cannot be tried from here: {why}");
        keeps(&config(cluster, "{}"), Answer::Refused, &doubt, 0).await;
    }
}

#[tokio::test]
async fn a_timeout_is_a_doubt() {
    keeps(&config(LOCAL, "{}"), Answer::TimedOut, "its server did not answer in time", 1).await;
}

#[tokio::test]
async fn a_failure_of_tls_is_a_doubt() {
    let answer = Answer::Tls("unknown issuer".to_owned());
    keeps(&config(LOCAL, "{}"), answer, "no TLS connection to its server: unknown issuer", 1).await;
}

#[tokio::test]
async fn a_network_that_lets_nobody_through_is_a_doubt() {
    let answer = Answer::Unreachable("no route".to_owned());
    keeps(&config(LOCAL, "{}"), answer, "its server cannot be reached: no route", 1).await;
}

#[tokio::test]
async fn any_other_answer_is_a_doubt() {
    for status in [401, 403, 404, 500, 503, 302] {
        let doubt = format!("its server answers with status {status}");
        keeps(&config(LOCAL, "{}"), Answer::Status(status), &doubt, 1).await;
    }
}

#[tokio::test]
async fn a_file_that_cannot_be_read_is_a_doubt() {
    let folder = Folder::new();
    let path = folder.write("config", "a: [\n");
    let verdict = merge(&[&path]).switch_current(&Told::new(Answer::Refused)).await.unwrap();
    let Verdict::Keep(Keep::Doubt(doubt)) = verdict else { panic!("{verdict:?}") };
    assert!(doubt.to_string().starts_with("a kubeconfig cannot be read: the kubeconfig "), "{doubt}");
    assert_eq!(read(&path), "a: [\n");
}

#[tokio::test]
async fn ours_is_kept_and_without_ours_nothing_is_switched() {
    let folder = Folder::new();
    let path = folder.path("config");
    let merge = merge(&[&path]);
    let probe = Told::new(Answer::Refused);
    assert_eq!(merge.switch_current(&probe).await.unwrap(), Verdict::Keep(Keep::NotPublished));
    assert!(!path.exists());
    merge.publish(&cluster(1), &user()).await.unwrap();
    assert_eq!(merge.switch_current(&probe).await.unwrap(), Verdict::Switch(Switch::Nothing));
    assert_eq!(merge.switch_current(&probe).await.unwrap(), Verdict::Keep(Keep::Ours));
}

#[tokio::test]
async fn of_several_files_the_first_that_says_something_is_right() {
    let folder = Folder::new();
    let first = folder.write("first", "current-context: \"\"\n");
    let second = folder.write("second", &config(LOCAL, "{}"));
    let third = folder.write("third", "current-context: gone\n");
    let merge = merge(&[&first, &second, &third]);
    merge.publish(&cluster(1), &user()).await.unwrap();
    assert_eq!(merge.switch_current(&Told::new(Answer::Status(200))).await.unwrap(), Verdict::Keep(Keep::Answers));
    let verdict = merge.switch_current(&Told::new(Answer::Refused)).await.unwrap();
    assert_eq!(verdict, Verdict::Switch(Switch::NothingListens));
    assert!(read(&first).starts_with(&format!("current-context: {NAME}\n")));
    assert!(read(&second).contains("current-context: work"), "the first file has precedence, the others stay");
}

/// A probe during which the user chooses a context.
struct Meanwhile(std::path::PathBuf);

impl Probe for Meanwhile {
    async fn ask(&self, _: &Endpoint) -> Answer {
        let text = read(&self.0).replace("current-context: work", "current-context: chosen");
        fs::write(&self.0, text).unwrap();
        Answer::Refused
    }
}

#[tokio::test]
async fn a_context_that_was_chosen_while_it_was_looked_is_kept() {
    let folder = Folder::new();
    let path = folder.write("config", &config(LOCAL, "{}"));
    let merge = merge(&[&path]);
    merge.publish(&cluster(1), &user()).await.unwrap();
    merge.switch_current(&Meanwhile(path.clone())).await.unwrap();
    assert!(read(&path).contains("current-context: chosen"));
}

/// A probe that waits until the test releases it.
struct Slow(tokio::sync::Notify, tokio::sync::Notify);

impl Probe for Slow {
    async fn ask(&self, _: &Endpoint) -> Answer {
        self.0.notify_one();
        self.1.notified().await;
        Answer::Refused
    }
}

#[tokio::test]
async fn withdrawing_waits_for_a_probe_and_its_switch_so_that_nothing_of_ours_comes_back() {
    let folder = Folder::new();
    let path = folder.write("config", &config(LOCAL, "{}"));
    let merge = merge(&[&path]);
    merge.publish(&cluster(1), &user()).await.unwrap();
    let probe = Slow(tokio::sync::Notify::new(), tokio::sync::Notify::new());
    let later = async {
        probe.0.notified().await;
        let withdrawing = merge.withdraw();
        tokio::pin!(withdrawing);
        assert!(futures_poll_once(withdrawing.as_mut()).await.is_none(), "it waits");
        probe.1.notify_one();
        withdrawing.await.unwrap();
    };
    tokio::join!(async { merge.switch_current(&probe).await.unwrap() }, later);
    assert!(!read(&path).contains(NAME), "{}", read(&path));
}

async fn futures_poll_once<F: Future + Unpin>(mut future: F) -> Option<F::Output> {
    std::future::poll_fn(|context| {
        std::task::Poll::Ready(match std::pin::Pin::new(&mut future).poll(context) {
            std::task::Poll::Ready(output) => Some(output),
            std::task::Poll::Pending => None,
        })
    })
    .await
}

#[test]
fn the_whole_table() {
    let doubts = [
        Seen::Unreadable("why".to_owned()),
        Seen::ClusterMissing,
        Seen::UserMissing,
        Seen::NeedsProgram,
        Seen::Unusable("why".to_owned()),
        Seen::Refused { is_loopback: false },
        Seen::TimedOut,
        Seen::TlsFailed("why".to_owned()),
        Seen::Unreachable("why".to_owned()),
        Seen::Answered(500),
    ];
    for seen in doubts {
        assert!(matches!(judge(&seen), Verdict::Keep(Keep::Doubt(Doubt { .. }))), "{seen:?}");
    }
    assert_eq!(judge(&Seen::Nothing), Verdict::Switch(Switch::Nothing));
    assert_eq!(judge(&Seen::ContextMissing), Verdict::Switch(Switch::Missing));
    assert_eq!(judge(&Seen::Refused { is_loopback: true }), Verdict::Switch(Switch::NothingListens));
    assert_eq!(judge(&Seen::Ours), Verdict::Keep(Keep::Ours));
    assert_eq!(judge(&Seen::Answered(200)), Verdict::Keep(Keep::Answers));
}
