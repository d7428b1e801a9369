//! A flood of connections by another user of the machine closes no connection of the server's own user.

#![cfg(target_os = "linux")]

use std::{
    io::{BufRead as _, BufReader},
    os::unix::process::CommandExt as _,
    process::{Child, Stdio},
};

use rdd_stdx::process;
use rdd_testkit::capability::require;
use tokio::time::timeout;

use crate::support::{PATIENCE, TestServer};

/// The uid of the unprivileged user `nobody`.
const NOBODY: u32 = 65_534;
/// A script that opens connections forever, sends nothing, and holds a few hundred of them at a time.
const FLOOD: &str = r#"
trap '' PIPE
while :; do
    echo flooding
    for i in $(seq 300); do exec {fd}<>/dev/tcp/127.0.0.1/$0; done
    for ((fd = 10; fd < 400; fd++)); do exec {fd}>&-; done
done 2>/dev/null"#;

/// Processes of another user that flood a server. Dropping it ends them.
struct Flood(Vec<Child>);

impl Flood {
    fn start(port: u16) -> Self {
        Self((0..2).map(|_| start_flooding(port)).collect())
    }
}

/// Starts a flooding process, and returns when it has opened its first connections.
fn start_flooding(port: u16) -> Child {
    let mut bash = process::background("bash", std::path::Path::new("/"));
    bash.args(["-c", FLOOD, &port.to_string()]).uid(NOBODY).gid(NOBODY).stdout(Stdio::piped());
    let mut child = bash.spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert_eq!(lines.take(2).map(Result::unwrap).collect::<Vec<_>>(), ["flooding", "flooding"]);
    child
}

impl Drop for Flood {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

// Finding A-7
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_by_another_user_closes_no_connection_of_ours() {
    if !require("root") {
        return;
    }
    let server = TestServer::start_limited(|limits| limits.pending_connections = 4).await;
    let (mut known, _tasks) = server.connect_http2().await;
    assert_eq!(known.send_request(server.http2_request("GET", "/livez")).await.unwrap().status(), 200);
    let _flood = Flood::start(server.port());
    for fresh in 0..60 {
        let answer = timeout(PATIENCE, server.client().get("/livez")).await.expect("an answer in time");
        let answer = answer.unwrap_or_else(|error| panic!("fresh connection {fresh}: {error}"));
        assert_eq!(answer.status.as_u16(), 200);
    }
    assert_eq!(known.send_request(server.http2_request("GET", "/livez")).await.unwrap().status(), 200);
}
