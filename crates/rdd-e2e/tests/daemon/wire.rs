//! Tests the daemon's network surface: nothing without a token, nothing beyond loopback, and a Kubernetes API for kubectl.

use std::{fs, path::Path, time::Duration};

use rdd_apiserver::tls::Tls;
use rdd_client::{http::Client, kubeconfig::Kubeconfig};
use rdd_stdx::clock::{ManualClock, SystemClock};
use rdd_testkit::{
    Daemon, Sandbox,
    api::{Server as _, Wire},
    capability::require,
    eventually,
};

use crate::support::{SOON, dir, expect_error, server_of, talkative};

fn kubectl(daemon: &Daemon, arguments: &[&str]) -> rdd_testkit::Output {
    let mut command = rdd_stdx::process::background("kubectl", daemon.home());
    daemon.dress(&mut command);
    command.arg("--kubeconfig").arg(daemon.config_path()).args(arguments);
    daemon.run(command)
}

#[test]
fn kubectl_reads_health_and_version() {
    if !require("kubectl") {
        return;
    }
    let daemon = Daemon::start();
    assert_eq!(kubectl(&daemon, &["get", "--raw", "/readyz"]).expect_success().stdout, "ok");
    assert_eq!(kubectl(&daemon, &["--context", "user", "get", "--raw", "/livez"]).expect_success().stdout, "ok");
    let verbose = kubectl(&daemon, &["get", "--raw", "/readyz?verbose"]).expect_success().stdout;
    assert!(
        verbose.starts_with("[+]ping ok\n[+]log ok\n[+]etcd ok\n[+]etcd-readiness ok\n[+]poststarthook/"),
        "{verbose}"
    );
    let version = kubectl(&daemon, &["version"]).expect_success().stdout;
    assert!(version.contains("v1.35.4+rdd-"), "{version}");
    let metrics = kubectl(&daemon, &["get", "--raw", "/metrics"]).expect_success().stdout;
    for name in ["apiserver_request", "process_resident_memory_bytes", "rdd_store_revision"] {
        assert!(metrics.contains(name), "{name} is missing in {metrics}");
    }
}

pub(crate) fn request(config: &Kubeconfig, path: &str) -> u16 {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let client = Client::from_kubeconfig(config, None).unwrap();
    runtime.block_on(client.get(path)).unwrap().status.as_u16()
}

#[test]
fn without_a_valid_token_every_path_is_401() {
    let daemon = Daemon::start();
    let text = fs::read_to_string(daemon.config_path()).unwrap();
    let good = Kubeconfig::parse(&text).unwrap();
    assert_eq!(request(&good, "/readyz"), 200);
    let token = text.lines().find_map(|line| line.trim().strip_prefix("token:")).unwrap().trim().trim_matches('"');
    let bad = Kubeconfig::parse(&text.replace(token, "not-the-token")).unwrap();
    let in_query = format!("/readyz?access_token={token}");
    for path in [
        "/",
        "/livez",
        "/readyz",
        "/healthz",
        "/version",
        "/metrics",
        "/api",
        "/nonsense",
        "/datastore/backup",
        &in_query,
    ] {
        assert_eq!(request(&bad, path), 401, "{path}");
    }
}

/// The listening sockets of a process, from the kernel's tables: local address in hexadecimal, and port.
fn listening(pid: u32) -> Vec<(String, u16)> {
    let inodes: Vec<String> = fs::read_dir(format!("/proc/{pid}/fd"))
        .unwrap()
        .filter_map(|entry| fs::read_link(entry.ok()?.path()).ok())
        .filter_map(|target| Some(target.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned()))
        .collect();
    let mut found = Vec::new();
    for table in ["tcp", "tcp6", "udp", "udp6"] {
        let text = fs::read_to_string(format!("/proc/{pid}/net/{table}")).unwrap();
        for line in text.lines().skip(1) {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let is_listening = table.starts_with("udp") || fields[3] == "0A";
            if is_listening && inodes.iter().any(|inode| inode == fields[9]) {
                let (address, port) = fields[1].split_once(':').unwrap();
                found.push((address.to_owned(), u16::from_str_radix(port, 16).unwrap()));
            }
        }
    }
    found
}

#[test]
fn the_daemon_listens_on_loopback_and_on_the_published_port_only() {
    let daemon = Daemon::start();
    let port: u16 = server_of(&daemon.config_path()).rsplit(':').next().unwrap().parse().unwrap();
    // Finding O-8: the health port is public; it answers 200 or 503 and nothing else.
    let managers = Wire::of(&daemon).get("/api/v1/namespaces/rdd-system/configmaps/rdd-controller-manager").expect(200);
    let entry: serde_json::Value = serde_json::from_str(managers["data"]["embedded"].as_str().unwrap()).unwrap();
    let health = u16::try_from(entry["healthPort"].as_u64().unwrap()).unwrap();
    let mut expected = [("0100007F".to_owned(), port), ("0100007F".to_owned(), health)];
    let mut found = listening(daemon.pid());
    expected.sort();
    found.sort();
    assert_eq!(found, expected, "127.0.0.1 and nothing else");
}

#[test]
fn secrets_are_in_no_log_argument_or_environment() {
    let daemon = Daemon::start_in(Sandbox::builder().env("RDD_LOG_LEVEL", "trace").build());
    let text = fs::read_to_string(daemon.config_path()).unwrap();
    let config = Kubeconfig::parse(&text).unwrap();
    assert_eq!(request(&config, "/metrics"), 200);
    let tokens: Vec<&str> = text
        .lines()
        .filter_map(|line| line.trim().strip_prefix("token:"))
        .map(|token| token.trim().trim_matches('"'))
        .collect();
    assert_eq!(tokens.len(), 2);
    let pid = daemon.pid();
    let log = crate::support::stderr_log(&daemon);
    for place in [format!("/proc/{pid}/cmdline"), format!("/proc/{pid}/environ"), log.to_str().unwrap().to_owned()] {
        let seen = String::from_utf8_lossy(&fs::read(&place).unwrap()).into_owned();
        assert!(tokens.iter().all(|token| !seen.contains(token)), "a token is in {place}");
    }
}

/// Creates the certificates that a daemon would have created this many days ago. A serving certificate is valid for 365 days.
fn make_certificates(folder: &Path, days_ago: u64) -> String {
    let clock = ManualClock::shared(SystemClock::shared().wall() - Duration::from_secs(days_ago * 24 * 60 * 60));
    Tls::open(folder, clock, Box::new(|_| {})).unwrap();
    fs::read_to_string(folder.join("apiserver.crt")).unwrap()
}

// Finding A-12
#[test]
fn a_certificate_that_expires_within_30_days_is_renewed_at_start_and_a_younger_one_is_kept() {
    let mut sandbox = Sandbox::new();
    for (days_ago, is_kept) in [(365 - 31, true), (365 - 29, false)] {
        let _ = fs::remove_dir_all(dir(&sandbox).join("tls"));
        let old = make_certificates(&dir(&sandbox).join("tls"), days_ago);
        let daemon = Daemon::start_in(sandbox);
        let new = fs::read_to_string(dir(&daemon).join("tls/apiserver.crt")).unwrap();
        assert_eq!(new == old, is_kept, "made {days_ago} days ago");
        let log = fs::read_to_string(crate::support::stderr_log(&daemon)).unwrap();
        assert_eq!(log.contains("it expires in less than 30 days"), !is_kept, "{log}");
        assert_eq!(crate::support::status(&daemon)["ready"], true);
        sandbox = daemon.stop();
    }
}

#[test]
fn the_published_ca_bundle_contains_the_serving_certificate_itself() {
    let daemon = Daemon::start();
    let served = fs::read_to_string(dir(&daemon).join("tls/apiserver.crt")).unwrap();
    let text = fs::read_to_string(daemon.config_path()).unwrap();
    let config = Kubeconfig::parse(&text).unwrap();
    let same = Kubeconfig::for_daemon(1, &served, "", "");
    let bundle = |config: &Kubeconfig| config.clusters[0].cluster.certificate_authority_data.clone();
    assert_eq!(bundle(&config), bundle(&same));
}

/// The CPU time, in ticks of 10 ms, that a process uses within this time.
fn ticks_used(pid: u32, within: Duration) -> u64 {
    let ticks = || {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        let fields: Vec<u64> =
            stat.rsplit(") ").next().unwrap().split(' ').map(|field| field.parse().unwrap_or(0)).collect();
        fields[11] + fields[12]
    };
    let before = ticks();
    std::thread::sleep(within); // a measurement, not a wait: the process has nothing to do meanwhile
    ticks() - before
}

// Finding A-12
#[test]
fn an_idle_daemon_rests() {
    let daemon = Daemon::start();
    let pid = daemon.pid();
    // Just after its start, the daemon still creates the defaults of each namespace.
    eventually("the end of the work after a start", SOON, || match ticks_used(pid, Duration::from_millis(500)) {
        0 => Ok(()),
        used => Err(format!("{used} ticks in half a second")),
    });
    let used = ticks_used(pid, Duration::from_secs(5));
    assert!(used <= 5, "an idle daemon used {used} ticks in five seconds: more than 1 % of a processor");
}

#[test]
fn a_server_of_another_version_gives_exit_5_and_the_code_in_json() {
    let sandbox = talkative().build();
    sandbox.rdd(&["svc", "create"]).expect_success();
    let _impostor = crate::support::impostor(&sandbox, "v1.35.4+rdd-somethingelse");
    let output = sandbox.rdd(&["svc", "config"]);
    expect_error(&output, 5, &["unsupported server version v1.35.4+rdd-somethingelse (expected v1.35.4+rdd-"]);
    let json = sandbox.rdd(&["svc", "config", "--log-format=json"]);
    let records: Vec<serde_json::Value> =
        json.stderr.lines().map(|line| serde_json::from_str(line).expect("every line is JSON")).collect();
    let coded: Vec<_> = records.iter().filter(|record| record["exit-code"] == 5).collect();
    assert_eq!((json.code, coded.len()), (Some(5), 1), "{}", json.stderr);
    assert!(coded[0]["msg"].as_str().unwrap().starts_with("unsupported server version "), "what the GUI shows");
}
