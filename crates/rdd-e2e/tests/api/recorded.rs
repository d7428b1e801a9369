//! Tests thousands of mutated recorded requests: each gets a proper reply, and the server survives.

use std::{
    fs,
    path::Path,
    time::{Duration, Instant},
};

use rdd_testkit::{
    Daemon,
    api::{Ask, Reply, Server, TestApi, Wire},
};

use crate::{
    mutate::spoil,
    support::{MAPS, Random, expect_proper, expect_unharmed},
};

/// The time for all requests of a run.
const BUDGET: Duration = Duration::from_secs(15);
/// The timeout of one request, on a machine that is busy with other tests.
const ONE_TAKES: Duration = Duration::from_secs(15);
/// The minimum number of requests; fewer prove too little.
const CASES_MIN: usize = 300;

/// The requests of the conformance mirror, without watches, which do not end, and webhooks, which every later request would call.
fn recorded() -> Vec<Ask> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conformance/mirror/cases");
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let mut asks = Vec::new();
    for file in files {
        let text = format!("\n{}", fs::read_to_string(&file).unwrap());
        asks.extend(text.split("\n=== ").skip(1).filter_map(parse));
    }
    asks.retain(|ask| !ask.path.contains("watch") && !String::from_utf8_lossy(&ask.body).contains("WebhookConfig"));
    asks
}

fn parse(question: &str) -> Option<Ask> {
    let question = question.replace("$(ns)", "default");
    let (head, body) = question.split_once("\n\n").unwrap_or((&question, ""));
    let mut lines = head.lines().skip(1);
    let (method, path) = lines.next()?.split_once(' ')?;
    let mut ask = Ask::new(method, path);
    for line in lines {
        match line.split_once(": ") {
            Some((name, value)) if !name.contains(' ') => ask.headers.push((name.to_owned(), value.into())),
            _ => {}
        }
    }
    ask.body = body.trim_end().as_bytes().to_vec();
    if !ask.body.is_empty() && !ask.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-type")) {
        ask = ask.header("Content-Type", "application/json");
    }
    Some(ask)
}

fn describe(ask: &Ask) -> String {
    let headers: Vec<String> =
        ask.headers.iter().map(|(name, value)| format!("{name}: {}", String::from_utf8_lossy(value))).collect();
    let body: String = String::from_utf8_lossy(&ask.body).chars().take(4000).collect();
    format!("{} {}\n{}\n\n{body}\n", ask.method, ask.path, headers.join("\n"))
}

/// Whether a reply deviates from the usual form because kube-apiserver's does (the mirror has recorded it): an error for an OpenAPI
/// document has no body, HEAD has none either, and a scale without its field is an internal error.
fn is_as_upstream(ask: &Ask, reply: &Reply) -> bool {
    let bare = reply.body.is_empty() && (ask.method == "HEAD" || ask.path.starts_with("/openapi"));
    // Invalid HTTP is rejected by the HTTP library, as in Go's server, and the connection is closed.
    let unheard = reply.code == 400 && reply.header("connection") == Some("close");
    bare || unheard || (ask.path.contains("/scale") && reply.text().contains("replicas field"))
}

/// Sends mutated requests in turn, for as long as the time lasts.
fn storm(server: &dyn Server, seed: u64) {
    let asks = recorded();
    assert!(asks.len() > 300, "only {} requests were read", asks.len());
    let began = Instant::now();
    let mut cases = 0;
    for round in 0.. {
        for (index, ask) in asks.iter().enumerate() {
            if began.elapsed() > BUDGET {
                assert!(cases > CASES_MIN, "only {cases} requests in {BUDGET:?}");
                return;
            }
            // Sends the unmodified request too, so that later requests find the objects that they need.
            if round == 0 {
                server.ask(ask);
            }
            let spoilt = spoil(ask, &mut Random::new(seed + round * 100_000 + index as u64));
            if spoilt.path.contains("watch") {
                continue;
            }
            let asked = Instant::now();
            let reply = server.ask(&spoilt);
            if !is_as_upstream(&spoilt, &reply) {
                expect_proper(&describe(&spoilt), &reply);
            }
            assert!(asked.elapsed() < ONE_TAKES, "{:?} for {}", asked.elapsed(), describe(&spoilt));
            cases += 1;
        }
    }
}

#[test]
fn recorded_requests_spoilt_in_any_way_have_proper_answers() {
    let api = TestApi::start();
    storm(&api, 0);
    api.get(MAPS).expect(200);
}

#[test]
fn recorded_requests_spoilt_in_any_way_do_a_daemon_no_harm() {
    let daemon = Daemon::start();
    let (wire, pid) = (Wire::of(&daemon), daemon.pid());
    storm(&wire, 7_000_000_000);
    expect_unharmed(&daemon, &wire, pid, 300);
}
