//! Kubernetes under machines keeps its contract: in the fake, and on this host with a real engine and a program that takes K3s' arguments.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests too")]

mod room;

use std::{fs, os::unix::fs::PermissionsExt as _, path::PathBuf, sync::Arc, time::Duration};

use rdd_driver::{
    Driver, Wanted,
    fake::World,
    suite::{Subject, cluster::ClusterSubject},
};
use rdd_stdx::process::Signal;
use room::HostSubject;

/// Writes a kubeconfig where it is told, each time another, and then waits to be told to end. Like a kubelet it needs its control group in each
/// hierarchy, and makes one for pods below it.
const K3S: &str = r#"#!/bin/sh
[ "$1" = server ] || { echo "no such command: $1"; exit 1; }
while [ $# -gt 0 ]; do
    case $1 in --write-kubeconfig) config=$2 ;; --data-dir) tls=$2/server/tls ;; esac
    case $2 in cgroup-root=*) group=${2#cgroup-root=} ;; esac
    shift
done
trap 'exit 0' TERM
for root in /sys/fs/cgroup /sys/fs/cgroup/*; do
    if [ ! -e "$root/cgroup.procs" ] || { [ -e /sys/fs/cgroup/cgroup.controllers ] && [ "$root" != /sys/fs/cgroup ]; }; then continue; fi
    if ! mkdir "$root$group/kubepods"; then
        echo "level=error msg=\"kubelet exited: cgroup [\\\"$group\\\"] has some missing paths: $root\""
        echo 'level=info msg="Closing database connections"'
        exit 1
    fi
done
mkdir -p "$tls"
[ -e "$tls/server-ca.crt" ] || echo "-----BEGIN CERTIFICATE----- $$" > "$tls/server-ca.crt"
echo "clusters: [] # $$" > "$config"
while :; do sleep 0.05; done
"#;

/// The releases of one room.
struct Releases(tempfile::TempDir);

impl Releases {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn release(&self, number: u32) -> Wanted {
        let folder = self.0.path().join(number.to_string());
        let program = folder.join("k3s");
        if !program.exists() {
            fs::create_dir_all(&folder).unwrap();
            fs::write(&program, K3S).unwrap();
            fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        }
        Wanted { version: format!("v1.34.{number}+k3s1"), program, images: Vec::new(), port: 7443 }
    }
}

mod fake {
    use super::*;

    struct FakeSubject(World);

    impl Subject for FakeSubject {
        fn driver(&self) -> Arc<dyn Driver> {
            self.0.driver()
        }

        fn template(&self, number: u32) -> String {
            format!("vmType: fake\ncpus: {number}\n")
        }

        fn bad_template(&self) -> String {
            String::new()
        }

        fn crash(&self, vm: &str) {
            self.0.dies(vm, "killed");
        }

        fn hang(&self, _vm: &str) {}

        fn half_make(&self, vm: &str) {
            self.0.half_makes(vm);
        }

        fn maim(&self, vm: &str) {
            self.0.breaks(vm, "maimed");
        }

        fn leftovers(&self, _vm: &str) -> Vec<String> {
            Vec::new()
        }
    }

    impl ClusterSubject for FakeSubject {
        fn release(&self, number: u32) -> Wanted {
            let program = PathBuf::from("/nonexistent/k3s");
            Wanted { version: format!("v1.34.{number}+k3s1"), program, images: Vec::new(), port: 7443 }
        }

        fn crash_cluster(&self, vm: &str) {
            assert!(self.0.cluster_dies(vm, "killed"));
        }

        fn engine_identity(&self, vm: &str) -> String {
            self.0.starts(vm).to_string()
        }
    }

    fn subject(_test: &str) -> Option<FakeSubject> {
        let world = World::new();
        let upstream = rdd_driver::Upstream::unix("/nonexistent/k3s.sock");
        world.cluster_serves(Some("clusters: []"), Some(upstream));
        world.clusters_stand_on(Some("-----BEGIN CERTIFICATE-----"));
        Some(FakeSubject(world))
    }

    rdd_driver::cluster_contract!(subject);
}

mod host {
    use super::*;

    struct Host {
        engine: HostSubject,
        releases: Releases,
    }

    impl Subject for Host {
        fn driver(&self) -> Arc<dyn Driver> {
            self.engine.driver()
        }

        fn template(&self, number: u32) -> String {
            self.engine.template(number)
        }

        fn bad_template(&self) -> String {
            self.engine.bad_template()
        }

        fn crash(&self, vm: &str) {
            self.engine.crash(vm);
        }

        fn hang(&self, vm: &str) {
            self.engine.hang(vm);
        }

        fn half_make(&self, vm: &str) {
            self.engine.half_make(vm);
        }

        fn maim(&self, vm: &str) {
            self.engine.maim(vm);
        }

        fn leftovers(&self, vm: &str) -> Vec<String> {
            self.engine.leftovers(vm)
        }

        fn patience(&self) -> Duration {
            self.engine.patience()
        }
    }

    impl ClusterSubject for Host {
        fn release(&self, number: u32) -> Wanted {
            self.releases.release(number)
        }

        fn crash_cluster(&self, vm: &str) {
            let process = self.engine.place.part(vm, "k3s").expect("a cluster");
            process.signal(Signal::KILL).unwrap();
        }

        fn engine_identity(&self, vm: &str) -> String {
            let records = ["dockerd", "containerd"].map(|part| self.engine.place.part(vm, part).map(|one| one.pid()));
            assert!(records.iter().all(Option::is_some));
            format!("{records:?}")
        }
    }

    fn subject(test: &str) -> Option<Host> {
        room::enter(&format!("host::{test}")).then(|| Host { engine: HostSubject::moby(), releases: Releases::new() })
    }

    rdd_driver::cluster_contract!(subject);

    // Finding E-20
    #[test]
    fn the_control_group_of_pods_is_there_before_the_cluster_and_gone_after_it() {
        let Some(host) = subject("the_control_group_of_pods_is_there_before_the_cluster_and_gone_after_it") else {
            return;
        };
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let driver = host.driver();
        let template = host.template(1);
        let group = host.engine.place.engine("rd").cgroup;
        let found = |name: &str| {
            let roots = fs::read_dir("/sys/fs/cgroup").unwrap().flatten().map(|entry| entry.path());
            let all = roots.chain([PathBuf::from("/sys/fs/cgroup")]).map(|root| root.join(name));
            all.filter(|folder| folder.is_dir()).count()
        };
        let own = group.trim_start_matches('/');
        runtime.block_on(async {
            driver.create("rd", &template).await.unwrap();
            let mut run = driver.start("rd", &rdd_driver::LogOptions::default()).await.unwrap();
            while !matches!(run.next().await, Some(rdd_driver::State::Running(_))) {}
            let cluster = driver.kubernetes().unwrap();
            for _ in 0..2 {
                let mut run = cluster.start("rd", &host.release(1)).await.unwrap();
                loop {
                    match run.next().await {
                        Some(rdd_driver::State::Running(_)) => break,
                        Some(rdd_driver::State::Exited { last_words }) => panic!("{last_words}"),
                        _ => {}
                    }
                }
                assert!(found(&format!("{own}/kubepods")) > 0);
                cluster.stop("rd", Duration::from_secs(10)).await.unwrap();
                assert_eq!(found(&format!("{own}/kubepods")), 0);
            }
            driver.stop("rd", Duration::from_secs(20)).await.unwrap();
            assert_eq!(found(own), 0, "nothing is left");
            driver.delete("rd").await.unwrap();
        });
    }

    #[test]
    fn a_bridge_that_lost_its_address_has_it_again_before_a_cluster_starts() {
        let Some(host) = subject("a_bridge_that_lost_its_address_has_it_again_before_a_cluster_starts") else { return };
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let driver = host.driver();
        let template = host.template(1);
        let bridge = host.engine.place.engine("rd").bridge;
        let addresses = || room::run("ip", &["-4", "-o", "addr", "show", "dev", &bridge]);
        runtime.block_on(async {
            driver.create("rd", &template).await.unwrap();
            let mut run = driver.start("rd", &rdd_driver::LogOptions::default()).await.unwrap();
            while !matches!(run.next().await, Some(rdd_driver::State::Running(_))) {}
        });
        let before = addresses();
        assert!(before.contains("inet "), "{before}");
        room::run("ip", &["-4", "addr", "flush", "dev", &bridge]);
        runtime.block_on(async { driver.kubernetes().unwrap().start("rd", &host.release(1)).await }).unwrap();
        assert_eq!(addresses(), before);
        runtime.block_on(driver.delete("rd")).unwrap();
    }

    #[test]
    fn a_reset_removes_containers_of_pods_and_no_others() {
        let Some(host) = subject("a_reset_removes_containers_of_pods_and_no_others") else { return };
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let driver = host.driver();
        let template = host.template(1);
        runtime.block_on(async {
            driver.create("rd", &template).await.unwrap();
            let mut run = driver.start("rd", &rdd_driver::LogOptions::default()).await.unwrap();
            while !matches!(run.next().await, Some(rdd_driver::State::Running(_))) {}
        });
        let place = &host.engine.place;
        place.import_image("rd");
        place.docker("rd", &["run", "-d", "--name", "mine", "box", "/bin/sleep", "600"]);
        place.docker(
            "rd",
            &["run", "-d", "--name", "pod", "--label", "io.kubernetes.pod.uid=1", "box", "/bin/sleep", "600"],
        );
        let names = || place.docker("rd", &["ps", "-a", "--format", "{{.Names}} {{.State}}"]);
        let cluster = driver.kubernetes().unwrap();
        runtime.block_on(async {
            cluster.start("rd", &host.release(1)).await.unwrap();
            cluster.stop("rd", Duration::from_secs(10)).await.unwrap();
        });
        let after_stop = names();
        assert!(after_stop.contains("mine running") && after_stop.contains("pod exited"), "{after_stop}");
        runtime.block_on(cluster.reset("rd")).unwrap();
        assert_eq!(names().trim(), "mine running");
        // An engine that does not run cannot be asked: the next cluster begins without them.
        place.docker(
            "rd",
            &["run", "-d", "--name", "pod", "--label", "io.kubernetes.pod.uid=1", "box", "/bin/sleep", "600"],
        );
        runtime.block_on(async {
            cluster.start("rd", &host.release(1)).await.unwrap();
            driver.stop("rd", Duration::from_secs(20)).await.unwrap();
            cluster.reset("rd").await.unwrap();
            let mut run = driver.start("rd", &rdd_driver::LogOptions::default()).await.unwrap();
            while !matches!(run.next().await, Some(rdd_driver::State::Running(_))) {}
            assert!(names().contains("pod "));
            cluster.start("rd", &host.release(1)).await.unwrap();
        });
        assert_eq!(names().trim(), "mine exited");
        runtime.block_on(driver.delete("rd")).unwrap();
    }
}
