//! Tests `rdd status`: its report is correct in every state of the instance.

use std::{
    fs,
    io::{Read, Write},
    os::unix::net::UnixListener,
    process::Stdio,
};

use rdd_stdx::process::{Process, Signal};
use rdd_testkit::{Output, eventually};
use serde_json::{Value, json};

use crate::support::{Manner, Product, SOON, messages_of, talkative};

fn data(product: &Product) -> (Option<i32>, Value) {
    let output = product.rdd(&["status", "-o", "json"]);
    (output.code, serde_json::from_str(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}")))
}

/// `id=state` of every part, parents first.
fn states(node: &Value) -> String {
    let own = format!("{}={}", node["id"].as_str().unwrap(), node["state"].as_str().unwrap());
    let below = node["children"].as_array().unwrap().iter().map(states);
    std::iter::once(own).chain(below).collect::<Vec<_>>().join(" ")
}

fn with_machine(product: &Product, running: bool) {
    product.api().create(
        crate::support::VMS,
        &json!({
            "apiVersion": "lima.rancherdesktop.io/v1alpha1", "kind": "LimaVM", "metadata": {"name": "rd"},
            "spec": {"running": running, "templateRef": {"name": "rd"}},
        }),
    );
}

/// A socket that answers like a container engine.
fn engine(product: &Product) -> std::thread::JoinHandle<()> {
    let folder = product.home().join(format!(".rd{}", product.instance()));
    fs::create_dir_all(&folder).unwrap();
    let listener = UnixListener::bind(folder.join("docker.sock")).unwrap();
    std::thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            // Reads the whole request: closing the socket earlier could discard the reply.
            let (mut heard, mut byte) = (Vec::new(), [0]);
            while !heard.ends_with(b"\r\n\r\n") && stream.read_exact(&mut byte).is_ok() {
                heard.push(byte[0]);
            }
            let _ = stream.write_all(b"HTTP/1.0 200 OK\r\n\r\nOK");
        }
    })
}

#[test]
fn nothing_is_started_and_what_is_down_is_shown() {
    let sandbox = talkative().build();
    let output = sandbox.rdd(&["status"]);
    assert_eq!((output.code, output.stderr.as_str()), (Some(2), ""));
    let name = format!("rancher-desktop-{}", sandbox.instance());
    let expected = format!(
        "{name}: off\n\
         control plane     off    not created\n  \
           app             off    needs the control plane\n    \
             VM            off    needs the control plane\n      \
               engine      off    moby needs the machine\n        \
                 mirrors   off    needs the engine\n      \
               Kubernetes  off    needs the machine\n\
         next: rdd start\n"
    );
    assert_eq!(output.stdout, expected);
    sandbox.rdd(&["svc", "create"]).expect_success();
    assert!(sandbox.rdd(&["status"]).stdout.contains("control plane     off    stopped\n"));
    assert!(sandbox.processes().is_empty());
}

#[test]
fn the_tree_follows_the_instance_up_and_down() {
    let product = Product::start(Manner::Dawdle);
    let (code, report) = data(&product);
    assert_eq!(code, Some(2));
    assert_eq!(states(&report["tree"]), "daemon=ready app=off machine=off engine=off mirrors=off kubernetes=off");
    product.rdd(&["start", "--wait=false"]).expect_success();
    with_machine(&product, true);
    let starting = "daemon=ready app=starting machine=starting engine=waiting mirrors=off kubernetes=off";
    eventually("the start", SOON, || {
        Some(data(&product).1)
            .filter(|report| states(&report["tree"]) == starting)
            .ok_or_else(|| data(&product).1.to_string())
    });
    product.manner(Manner::Settle);
    product.rdd(&["start"]).expect_success();
    let _engine = engine(&product);
    let up = "daemon=ready app=ready machine=ready engine=ready mirrors=off kubernetes=off";
    eventually("everything", SOON, || {
        Some(data(&product))
            .filter(|(code, report)| *code == Some(0) && states(&report["tree"]) == up)
            .ok_or_else(|| data(&product).1.to_string())
    });
    let (_, report) = data(&product);
    assert_eq!((&report["ready"], &report["settled"], &report["next"]), (&true.into(), &true.into(), &Value::Null));
    assert!(report["tree"]["since"].as_str().unwrap().ends_with('Z'), "{report}");
    product.rdd(&["stop"]).expect_success();
    product.api().merge(&format!("{}/rd", crate::support::VMS), &json!({"spec": {"running": false}}));
    let down = "daemon=ready app=off machine=off engine=off mirrors=off kubernetes=off";
    eventually("the end", SOON, || {
        Some(data(&product))
            .filter(|(code, report)| *code == Some(2) && states(&report["tree"]) == down)
            .ok_or_else(|| data(&product).1.to_string())
    });
}

#[test]
fn a_failure_is_shown_with_its_cause_and_what_to_do() {
    let product = Product::start(Manner::Fail);
    product.rdd(&["start", "--wait=false"]).expect_success();
    with_machine(&product, true);
    eventually("the failure", SOON, || {
        let Output { code, stdout, .. } = product.rdd(&["status"]);
        let shown = ["failed         no such kernel", "next: rdd limavm log rd\n"];
        let found = code == Some(2) && stdout.contains("no such kernel") && stdout.ends_with(shown[1]);
        if found { Ok(()) } else { Err(stdout) }
    });
}

#[test]
fn a_daemon_that_hangs_is_not_waited_for_long() {
    let product = Product::start(Manner::Idle);
    let pid = fs::read_to_string(product.rdd(&["svc", "paths", "pid_file"]).stdout.trim()).unwrap();
    let daemon = Process::open(pid.trim().parse().unwrap()).unwrap().unwrap();
    daemon.signal(Signal::STOP).unwrap();
    let output = product.rdd(&["status"]);
    daemon.signal(Signal::CONT).unwrap();
    assert_eq!(output.code, Some(2));
    assert!(output.stdout.contains("it does not answer"), "{}", output.stdout);
    assert!(output.stdout.ends_with("next: rdd service log --follow\n"), "{}", output.stdout);
}

#[test]
fn a_wait_ends_when_it_is_ready_or_at_its_bound() {
    let product = Product::start(Manner::Dawdle);
    product.rdd(&["start", "--wait=false"]).expect_success();
    let output = product.rdd(&["status", "--wait-for=settled", "--timeout=600ms"]);
    assert_eq!(output.code, Some(4), "{}", output.stderr);
    let expected =
        "timed out waiting for settled: app is starting: LimaVM has not yet reached Started: context deadline exceeded";
    assert_eq!(messages_of(&output.stderr), [expected]);
    let command = product.spawn(&["status", "--wait-for=settled"]);
    product.manner(Manner::Settle);
    assert_eq!(command.end().0, Some(0));
    let output = product.rdd(&["status", "--wait-for=kubernetes", "--timeout=1ms"]);
    assert_eq!(output.code, Some(4));
    assert!(messages_of(&output.stderr)[0].contains("Kubernetes is off: not enabled"), "{}", output.stderr);
}

#[test]
fn a_wait_begins_before_there_is_a_daemon() {
    let product = Product::start(Manner::Settle);
    product.rdd(&["start"]).expect_success();
    product.rdd(&["svc", "stop"]).expect_success();
    let command = product.spawn(&["status", "--wait-for=settled"]);
    product.rdd(&["svc", "start"]).expect_success();
    assert_eq!(command.end().0, Some(0));
}

#[test]
fn a_watch_prints_each_change_once() {
    let product = Product::start(Manner::Settle);
    let shown = product.home().join("shown");
    let mut command = product.command(&["status", "--watch", "-o", "json"]);
    command.stdout(fs::File::create(&shown).unwrap()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let lines = || -> Vec<Value> {
        fs::read_to_string(&shown).unwrap().lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    };
    eventually("the first line", SOON, || lines().first().is_some_and(|report| report["state"] == "off").then_some(()));
    product.rdd(&["start"]).expect_success();
    eventually("the change", SOON, || lines().last().filter(|report| report["settled"] == true).map(drop));
    child.kill().unwrap();
    child.wait().unwrap();
    let lines = lines();
    assert!(lines.windows(2).all(|pair| pair[0] != pair[1]), "{lines:?}");
}
