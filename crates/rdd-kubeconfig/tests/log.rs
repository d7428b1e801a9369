//! Tests of log messages. They run in a process of their own, because tracing caches the interest in a message per
//! process.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

use std::sync::{Arc, Mutex};

use rdd_kubeconfig::{Answer, Cluster, Endpoint, Merge, Probe, User};

const CONFIG: &str = "clusters:\n- name: work\n  cluster: {server: 'https://127.0.0.1:6443'}\ncontexts:\n- name: work\n  context: \
                      {cluster: work, user: me}\ncurrent-context: work\nusers:\n- name: me\n  user: {}\n";

/// A probe with a fixed answer.
struct Told(Answer);

impl Probe for Told {
    async fn ask(&self, _: &Endpoint) -> Answer {
        self.0.clone()
    }
}

/// Records log messages.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl tracing::Subscriber for Log {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        metadata.target().starts_with("rdd_kubeconfig")
    }
    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }
    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn event(&self, event: &tracing::Event<'_>) {
        struct Text(String);
        impl tracing::field::Visit for Text {
            fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn std::fmt::Debug) {
                self.0 += &format!("{}={value:?} ", field.name());
            }
        }
        let mut text = Text(String::new());
        event.record(&mut text);
        self.0.lock().unwrap().push(text.0);
    }
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}

// Finding 361-T2
#[test]
fn each_doubt_is_logged_once_and_again_when_it_changes() {
    let log = Log::default();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config");
    std::fs::write(&path, CONFIG).unwrap();
    let merge = Merge::new(vec![path], "rancher-desktop-2");
    let cluster = Cluster { server: "https://127.0.0.1:1".to_owned(), ..Cluster::default() };
    let user = User { token: "secret".to_owned(), ..User::default() };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    tracing::subscriber::with_default(log.clone(), || {
        runtime.block_on(async {
            merge.publish(&cluster, &user).await.unwrap();
            for answer in
                [Answer::TimedOut, Answer::TimedOut, Answer::Status(500), Answer::Status(200), Answer::Status(500)]
            {
                merge.switch_current(&Told(answer)).await.unwrap();
            }
        });
    });
    let log = log.0.lock().unwrap();
    assert_eq!(log.len(), 3, "{log:?}");
    assert!(log[0].contains("did not answer in time") && log[1].contains("status 500"), "{log:?}");
}
