//! Tests a kubeconfig that kubectl's own functions write thousands of times, while two instances publish and withdraw their entries.

use std::{
    fs,
    panic::AssertUnwindSafe,
    path::Path,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    time::Duration,
};

use rdd_kubeconfig::{Cluster, Merge, User};
use rdd_testkit::capability::require;

use crate::support::{build_go, command, judge};

const BEGIN: &str = "apiVersion: v1\nkind: Config\nclusters:\n- cluster:\n    server: https://other:0\n  name: other\n\
                     contexts:\n- context:\n    cluster: other\n    user: somebody\n  name: keep\ncurrent-context: keep\nusers: []\n";
/// The number of writes by kubectl's functions, and by the two instances together.
const THEIRS: usize = 1000;
const OURS: usize = 2000;

/// Publishes and withdraws repeatedly until the others have finished, and is published at the end.
fn instance(path: &Path, name: &str, ends: &AtomicBool, writes: &AtomicUsize) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let merge = Merge::new(vec![path.to_owned()], name);
    let user = User { token: "secret".to_owned(), ..User::default() };
    let publish = |port: u16| {
        let cluster =
            Cluster { server: format!("https://127.0.0.1:{port}"), certificate_authority_data: "Q0E=".to_owned() };
        runtime.block_on(merge.publish(&cluster, &user)).unwrap();
        writes.fetch_add(1, Ordering::Relaxed);
    };
    let mut port = 1;
    while !ends.load(Ordering::Relaxed) || writes.load(Ordering::Relaxed) < OURS {
        publish(port);
        port = port % 60_000 + 1;
        if port.is_multiple_of(7) {
            runtime.block_on(merge.withdraw()).unwrap();
        }
    }
    publish(7443);
}

#[test]
fn thousands_of_writes_by_kubectls_functions_and_two_instances_never_tear_a_kubeconfig() {
    if !require("go") {
        return;
    }
    let program = build_go("client-go", "./kubeconfig", "kubeconfig-writer");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config");
    fs::write(&path, BEGIN).unwrap();
    let (ends, ours) = (AtomicBool::new(false), AtomicUsize::new(0));
    let names = ["rancher-desktop-2", "rancher-desktop-bats"];
    std::thread::scope(|scope| {
        for name in names {
            scope.spawn(|| instance(&path, name, &ends, &ours));
        }
        let mut writer = command(program, "client-go");
        writer.arg("-file").arg(&path).args(["-writes", &THEIRS.to_string()]);
        // Even on failure, so that the threads end and the failure is reported.
        let judged = std::panic::catch_unwind(AssertUnwindSafe(|| judge(writer, Duration::from_secs(240))));
        ends.store(true, Ordering::Relaxed);
        judged.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
    let end = rdd_client::kubeconfig::Kubeconfig::parse(&fs::read_to_string(&path).unwrap()).unwrap();
    for name in names {
        assert_eq!(end.resolve(Some(name)).unwrap().cluster.server, "https://127.0.0.1:7443");
    }
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.contains(&format!("https://other:{THEIRS}")) && text.contains("current-context: keep"), "{text}");
    let left: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["config"], "no lock and no staging file is left");
    assert!(ours.load(Ordering::Relaxed) >= OURS);
}
