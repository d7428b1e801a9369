//! Kubernetes in a guest keeps the contract, with a stand-in for `limactl` and for the guest's systemd.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "the helpers of tests fail a test by panicking")]

mod standin;

use std::{fs, time::Duration};

use rdd_driver::{
    Driver as _, Found, Health, LogOptions, Run, Running, State, Wanted,
    lima::LimaDriver,
    suite::{Subject as _, cluster::ClusterSubject as _},
};
use standin::Place;

rdd_driver::cluster_contract!(|_name: &str| Some(Place::new()));

/// The guest's docker: it has what was loaded into it.
const DOCKER: &str = r#"#!/bin/sh
echo "$*" >>"$RDD_GUEST_ROOT/docker-calls"
case "$1 $2" in
"load --input") cat "$3" >"$RDD_GUEST_ROOT/loaded" && echo "Loaded image: rancher/box:1" ;;
"image inspect") [ "$3" = rancher/box:1 ] && [ -e "$RDD_GUEST_ROOT/loaded" ] ;;
esac
"#;

/// The machine, which goes on for as long as this is kept.
async fn running(place: &Place, driver: &LimaDriver) -> Run {
    driver.create("vm", &place.template(1)).await.unwrap();
    let mut machine = driver.start("vm", &Default::default()).await.unwrap();
    let comes_up = async { while !matches!(machine.next().await, Some(State::Running(_)) | None) {} };
    tokio::time::timeout(Duration::from_secs(60), comes_up).await.unwrap();
    machine
}

// K3s reads archives into the containerd that it brings, and into nothing else.
#[tokio::test]
async fn archives_of_images_are_loaded_into_the_guests_engine_until_it_has_them() {
    let place = Place::new();
    fs::write(place.bin().join("guest/docker"), DOCKER).unwrap();
    let driver = place.driver();
    let _machine = running(&place, &driver).await;
    let guest = place.folder("vm").join("guest");
    let (cluster, loads) = (driver.kubernetes().unwrap(), || {
        let calls = fs::read_to_string(guest.join("docker-calls")).unwrap_or_default();
        calls.lines().filter(|call| call.starts_with("load ")).count()
    });
    let archive = place.bin().join("k3s-airgap-images-amd64.tar");
    let wanted = Wanted { images: vec![archive.clone()], ..place.release(1) };
    let mut rounds = Vec::new();
    for content in ["first", "first", "second one", "second one"] {
        if fs::read_to_string(&archive).unwrap_or_default() != content {
            fs::write(&archive, content).unwrap();
        }
        if rounds.len() == 3 {
            fs::remove_file(guest.join("loaded")).unwrap();
        }
        cluster.start("vm", &wanted).await.unwrap();
        cluster.stop("vm", Duration::from_secs(5)).await.unwrap();
        assert_eq!(fs::read_to_string(guest.join("loaded")).unwrap(), content);
        rounds.push(loads());
    }
    assert_eq!(rounds, [1, 1, 2, 3], "loaded once, again when it is another, and again when somebody removed it");
    cluster.start("vm", &place.release(2)).await.unwrap();
    let kept = fs::read_dir(guest.join("var/lib/rancher/k3s/agent/images")).unwrap().count();
    assert_eq!(kept, 0, "what is not wanted any more is not kept");
}

// Issue 7: a guest clock that is off. K3s-io/k3s 6152: certificates of a clock that is ahead cannot be mended afterwards.
#[tokio::test]
async fn a_guest_whose_clock_is_off_gets_ours_before_each_start_or_no_cluster() {
    let place = Place::new();
    let driver = place.driver();
    let _machine = running(&place, &driver).await;
    let guest = place.folder("vm").join("guest");
    fs::create_dir_all(&guest).unwrap();
    let cluster = driver.kubernetes().unwrap();
    let clock = rdd_stdx::clock::SystemClock::shared();
    let start = || async {
        let mut run = cluster.start("vm", &place.release(1)).await?;
        let comes_up = async { while !matches!(run.next().await, Some(State::Running(_)) | None) {} };
        tokio::time::timeout(Duration::from_secs(60), comes_up).await.unwrap();
        let text = fs::read_to_string(guest.join("started-at")).unwrap();
        let off = text.trim().parse::<i64>().unwrap() - i64::try_from(clock.wall().as_secs()).unwrap();
        cluster.stop("vm", Duration::from_secs(5)).await.unwrap();
        Ok::<_, rdd_driver::Error>(off)
    };
    for off in ["34560000", "-34560000", "-3600", "30", "0"] {
        fs::write(guest.join("clock"), off).unwrap();
        let left = start().await.unwrap();
        assert!((-30..=2).contains(&left), "{off} s ahead, and then {left} s");
    }
    for (fault, why) in [
        ("clock-is-stuck", "date: cannot set date: Operation not permitted"),
        ("clock-goes-its-way", "it does not stay where it is set"),
    ] {
        fs::write(guest.join(fault), "").unwrap();
        fs::write(guest.join("clock"), "34560000").unwrap();
        let refused = start().await.unwrap_err().to_string();
        let said =
            format!("the clock of machine \"vm\" is 400 days ahead of this machine's and could not be set: {why}; ");
        assert!(refused.starts_with(&said), "{refused}");
        assert!(!cluster.inspect("vm").await.unwrap().is_running(), "nothing makes certificates by that clock");
        // A little is worth a word in the log, and no refusal.
        fs::write(guest.join("clock"), "40").unwrap();
        start().await.unwrap();
        fs::remove_file(guest.join(fault)).unwrap();
    }
}

// Finding E-19
#[tokio::test]
async fn a_guest_with_control_groups_of_version_1_is_told_to_the_kubelet_and_warned_of() {
    let place = Place::new();
    let driver = place.driver();
    let _machine = running(&place, &driver).await;
    let guest = place.folder("vm").join("guest");
    let cluster = driver.kubernetes().unwrap();
    fs::create_dir_all(guest.join("sys/fs/cgroup/cpuset")).unwrap();
    for (version, is_v2, expected) in
        [("v1.35.0+k3s3", false, true), ("v1.30.14+k3s1", false, false), ("v1.35.0+k3s3", true, false)]
    {
        let _ = fs::remove_file(guest.join("sys/fs/cgroup/cgroup.controllers"));
        if is_v2 {
            fs::write(guest.join("sys/fs/cgroup/cgroup.controllers"), "").unwrap();
        }
        let wanted = Wanted { version: version.to_owned(), ..place.release(1) };
        cluster.start("vm", &wanted).await.unwrap();
        let words = |guest: &std::path::Path| fs::read_to_string(guest.join("words")).unwrap_or_default();
        rdd_testkit::eventually("its words", Duration::from_secs(20), || words(&guest).contains(version).then_some(()));
        assert_eq!(words(&guest).contains("--kubelet-arg fail-cgroupv1=false"), expected, "{version} {is_v2}");
        // A daemon that finds it running warns after its first look.
        let next = place.driver();
        let next = next.kubernetes().unwrap();
        next.inspect("vm").await.unwrap();
        for cluster in [cluster, next] {
            let warning = cluster.warning("vm", version);
            assert_eq!(warning.is_some(), !is_v2 && version.starts_with("v1.35."), "{version} {is_v2}: {warning:?}");
            let names_guest = |text: &String| text.starts_with("the virtual machine has control groups of version 1");
            assert!(warning.iter().all(names_guest), "{warning:?}");
        }
        cluster.stop("vm", Duration::from_secs(5)).await.unwrap();
        cluster.reset("vm").await.unwrap();
    }
}

// Finding E-22
#[tokio::test]
async fn the_cause_of_an_end_in_the_guest_is_its_last_error() {
    let place = Place::new();
    let journal = "#!/bin/sh\necho 'time=\"x\" level=error msg=\"kubelet exited: no such group\"'\n\
                   echo 'time=\"x\" level=info msg=\"Closing database connections\"'\n";
    fs::write(place.bin().join("guest/journalctl"), journal).unwrap();
    let driver = place.driver();
    let _machine = running(&place, &driver).await;
    let mut run = driver.kubernetes().unwrap().start("vm", &place.release(1)).await.unwrap();
    place.crash_cluster("vm");
    let last_words = tokio::time::timeout(Duration::from_secs(60), run.exited()).await.unwrap().unwrap();
    assert_eq!(last_words, "k3s has ended: kubelet exited: no such group");
}

// Issue 7: enabling Kubernetes restarts no machine.
#[test]
fn a_machine_gets_changes_and_loses_kubernetes_with_one_start() {
    let template = |lines: &str| {
        format!(
            "{}portForwards:\n- guestPort: 7450\n  hostSocket: \"{{{{.Param.HOST_KUBERNETES_SOCKET}}}}\"\n\nparam:\n  \
             HOST_KUBERNETES_SOCKET: \"/nonexistent/k3s.sock\"\n{lines}",
            standin::TEMPLATE
        )
    };
    let off = template("  KUBERNETES_ENABLED: false\n");
    let on = |port: u16| template(&format!("  KUBERNETES_ENABLED: true\n  KUBERNETES_PORT: {port}\n"));
    let place = Place::new();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    let work = async {
        let driver = place.driver();
        driver.create("rd", &off).await.expect("it is made");
        let mut run = driver.start("rd", &LogOptions::default()).await.expect("it is started");
        while run.next().await.expect("it comes up") != State::Running(Health::GOOD) {}
        let cluster = driver.kubernetes().expect("a cluster");
        for (number, text) in [(1, on(40001)), (2, on(40002))] {
            driver.apply_template("rd", &text).await.expect("it is written");
            let found = driver.inspect("rd").await.expect("it can be looked at");
            assert_eq!(found, Found::Running(Running { outdated: false }), "it runs as it shall");
            cluster.start("rd", &place.release(number)).await.expect("the cluster is started");
        }
        driver.apply_template("rd", &off).await.expect("it is written");
        cluster.stop("rd", std::time::Duration::from_secs(10)).await.expect("the cluster is stopped");
        assert_eq!(driver.template("rd").await.expect("a template").as_deref(), Some(off.as_str()));
        driver.delete("rd").await.expect("it is deleted");
    };
    let bound = std::time::Duration::from_secs(120);
    runtime.block_on(async { tokio::time::timeout(bound, work).await }).expect("it ends in time");
    let calls = place.calls();
    assert_eq!(calls.lines().filter(|call| call.contains("hostagent")).count(), 1, "{calls}");
    assert!(calls.contains(" start v1.34.1+k3s1 7450 "), "the port of the guest is the template's: {calls}");
}
