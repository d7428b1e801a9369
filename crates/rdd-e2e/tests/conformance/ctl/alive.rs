//! Compares commands of `rdd ctl` that take time: watches, waits, and verbs that kubectl runs.

use std::{
    fs::{self, File},
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use rdd_testkit::{Daemon, capability::require, eventually};

use super::{
    Tool,
    script::{self, Normalizer},
};
use crate::support::pinned_kubectl;

const SOON: Duration = Duration::from_secs(30);

fn ctl(daemon: &Daemon, line: &str) {
    let words: Vec<&str> = std::iter::once("ctl").chain(line.split(' ')).collect();
    daemon.rdd(&words).expect_success();
}

/// A running command and its output. Dropping it kills the command.
struct Running {
    child: Child,
    output: PathBuf,
}

impl Running {
    fn start(mut command: Command, output: PathBuf) -> Self {
        let file = File::create(&output).unwrap();
        let child = command.stdin(Stdio::null()).stdout(file.try_clone().unwrap()).stderr(file).spawn().unwrap();
        Self { child, output }
    }

    fn text(&self) -> String {
        fs::read_to_string(&self.output).unwrap()
    }

    #[track_caller]
    fn shows(&self, words: &str) {
        eventually(&format!("{words:?} in {}", self.output.display()), SOON, || {
            self.text().contains(words).then_some(())
        });
    }

    #[track_caller]
    fn code(&mut self) -> Option<i32> {
        eventually("its end", SOON, || self.child.try_wait().unwrap()).code()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs the same watch with both programs and compares their output.
#[track_caller]
fn watch_beside(daemon: &Daemon, kubectl: &Path, line: &[&str], number: usize) {
    let home = daemon.home().to_owned();
    let namespace = format!("watch-{number}");
    ctl(daemon, &format!("create ns {namespace}"));
    ctl(daemon, &format!("-n {namespace} create cm before --from-literal=a=1"));
    let watches = [Tool::Kubectl(kubectl), Tool::Ours].map(|tool| {
        let mut command = tool.command(daemon, &home);
        command.args(["-n", &namespace]).args(line);
        Running::start(command, home.join(format!("watch-{number}-{}", tool.letter())))
    });
    if !line.contains(&"--watch-only") {
        watches.iter().for_each(|watch| watch.shows("before"));
    }
    // A watch that has printed the list may not be established yet; changes until then are shown as part of the list.
    let mut count = 0;
    eventually("both listen", SOON, || {
        count += 1;
        ctl(daemon, &format!("-n {namespace} label cm before count={count} --overwrite"));
        let marker = format!("count={count}");
        let found = |watch: &Running| watch.text().contains(&marker) || watch.text().matches("before").count() > 2;
        watches.iter().all(found).then_some(())
    });
    ctl(daemon, &format!("-n {namespace} create cm while-it-watched"));
    ctl(daemon, &format!("-n {namespace} delete cm while-it-watched"));
    ctl(daemon, &format!("-n {namespace} create cm z-end"));
    if !line.contains(&"before") {
        watches.iter().for_each(|watch| watch.shows("z-end"));
    }
    let same = Normalizer::new(&namespace, &home);
    // Output until then may have arrived in any number of parts, and the last part may still be missing.
    let since = |text: String| same.normalize(text.find("while-it-watched").map_or("", |at| &text[at..]));
    eventually("both show the same", SOON, || {
        let [theirs, ours] = watches.each_ref().map(|watch| since(watch.text()));
        (ours == theirs).then_some(()).ok_or_else(|| format!("{line:?}\nours:\n{ours}\ntheirs:\n{theirs}"))
    });
}

#[test]
fn watches_show_what_those_of_kubectl_show() {
    if !require("go") {
        return;
    }
    let kubectl = pinned_kubectl();
    let daemon = Daemon::start();
    for (number, line) in [
        &["get", "cm", "-w", "--show-labels"][..],
        &["get", "cm", "-w", "-o", "name"],
        &["get", "cm", "--watch", "--output-watch-events", "--show-labels"],
        &["get", "cm", "-w", "-o", "yaml"],
        &["get", "cm", "-w", "-o", "json", "--output-watch-events"],
        &["get", "cm", "--watch-only", "-o", "jsonpath={.metadata.name}{.metadata.labels}{\"\\n\"}"],
        &["get", "cm", "before", "-w", "--show-labels"],
    ]
    .into_iter()
    .enumerate()
    {
        watch_beside(&daemon, &kubectl, line, number);
    }
}

#[test]
fn a_condition_is_awaited_also_of_what_does_not_exist_yet_and_of_what_has_no_namespace() {
    let daemon = Daemon::start();
    let folder = daemon.home().to_owned();
    let read = |name: &str| fs::read_to_string(script::folder().join("fixtures").join(name)).unwrap();
    for name in ["definition.yaml", "tale.yaml", "shelf.yaml"] {
        fs::write(folder.join(name), read(name).replace("{ns}", "books")).unwrap();
    }
    let place = folder.to_str().unwrap();
    ctl(&daemon, &format!("apply -f {place}/definition.yaml"));
    ctl(&daemon, "wait crd --all --for=condition=Established");
    let start = |line: &str, name: &str| {
        let words: Vec<&str> = ["ctl", "wait-condition"].into_iter().chain(line.split(' ')).collect();
        Running::start(daemon.command(&words), folder.join(name))
    };
    let met = "{\"status\":{\"conditions\":[{\"type\":\"Ready\",\"status\":\"True\",\"reason\":\"Up\",\"lastTransitionTime\":\"2030-01-01T00:00:00Z\"}]}}";
    let patch = |object: &str| {
        let words = ["ctl", "patch", object, "--type=merge", "--subresource=status", "-p", met];
        daemon.rdd(&words).expect_success();
    };

    // cli.md 7.1: the original never succeeds for cluster-scoped kinds.
    let mut shelf = start("shelf/books-shelf Ready --reason=Up --since=2029-12-31T23:59:59Z --timeout=25s", "shelf");
    let mut tale = start("tales.books.example/owl Ready=True --timeout=25s", "tale");
    ctl(&daemon, &format!("apply -f {place}/shelf.yaml -f {place}/tale.yaml"));
    patch("shelf/books-shelf");
    patch("tale/owl");
    assert_eq!((shelf.code(), shelf.text().as_str()), (Some(0), ""));
    assert_eq!((tale.code(), tale.text().as_str()), (Some(0), ""));

    let ends = |line: &str, words: &str| {
        let mut running = start(line, "ends");
        assert_eq!(running.code(), Some(1), "{line}");
        let message = format!("level=fatal msg={}\n", quoted(words));
        assert!(running.text().ends_with(&message), "{line}: {}", running.text());
    };
    ends("tale/owl Ready=False --timeout=100ms", "timed out waiting for the condition");
    ends("tale/owl Ready --reason=Down --timeout=100ms", "timed out waiting for the condition");
    ends("tale/owl Ready --since=2030-01-01T00:00:00Z --timeout=100ms", "timed out waiting for the condition");
    ends("tale/owl", "expected TYPE/NAME and CONDITION[=STATUS] arguments, got 1 arguments");
    ends("owl Ready", "expected TYPE/NAME, got \"owl\"");
    ends("tale/ Ready", "both TYPE and NAME must be non-empty in \"tale/\"");
    ends("tale/owl =True", "condition type must not be empty in \"=True\"");
    ends("nothing/owl Ready", "no matches for /, Resource=nothing");

    let mut gone = start("tale/owl Ready=False --timeout=25s", "gone");
    // It has to see the object before the deletion; otherwise the object would just not exist.
    let began = Instant::now();
    eventually("its watch", SOON, || (began.elapsed() > Duration::from_secs(1)).then_some(()));
    ctl(&daemon, "delete tale owl");
    assert_eq!(gone.code(), Some(1));
    assert!(gone.text().ends_with("level=fatal msg=\"resource was deleted while waiting\"\n"), "{}", gone.text());
}

/// The text as a log record quotes it.
fn quoted(words: &str) -> String {
    format!("\"{}\"", words.replace('"', "\\\""))
}

#[test]
fn other_verbs_go_to_a_kubectl_that_is_not_ourselves_and_know_the_daemon() {
    let daemon = Daemon::start();
    let (links, programs) = (daemon.home().join("links"), daemon.home().join("programs"));
    fs::create_dir_all(&links).unwrap();
    fs::create_dir_all(&programs).unwrap();
    symlink(daemon.binary(), links.join("kubectl")).unwrap();
    let with_path = |path: &str, words: &[&str]| {
        let mut command = daemon.command(words);
        command.env("PATH", path);
        daemon.run(command)
    };
    let alone = with_path(links.to_str().unwrap(), &["ctl", "logs", "x"]);
    assert_eq!(alone.code, Some(1));
    assert!(alone.stderr.contains("there is no kubectl on PATH besides this program"), "{}", alone.stderr);
    assert!(alone.stderr.contains("hint: `rdd ctl --help` shows the verbs that need no kubectl"), "{}", alone.stderr);

    let script = "#!/bin/sh\necho \"$KUBECONFIG\" \"$@\"\nexit 7\n";
    let kubectl = programs.join("kubectl");
    let written = rdd_stdx::process::background("sh", Path::new("/"))
        .args(["-c", "printf '%s' \"$1\" > \"$0\" && chmod 755 \"$0\"", kubectl.to_str().unwrap(), script])
        .status()
        .unwrap();
    assert!(written.success());
    let path = format!("{}:{}:/usr/bin:/bin", links.display(), programs.display());
    let other = with_path(&path, &["ctl", "logs", "x", "-f"]);
    assert_eq!(other.stdout, format!("{} logs x -f\n", daemon.config_path().display()));
    assert_eq!(other.code, Some(7));
    let elsewhere = with_path(&path, &["ctl", "--kubeconfig", "other", "get", "cm"]);
    assert!(elsewhere.stdout.ends_with(" --kubeconfig other get cm\n"), "{}", elsewhere.stdout);
}

#[test]
fn a_service_that_does_not_run_is_started_first() {
    let sandbox = rdd_testkit::Sandbox::new();
    let output = sandbox.rdd(&["ctl", "get", "ns", "default", "-o", "name"]).expect_success();
    assert_eq!(output.stdout, "namespace/default\n");
    let daemon = Daemon::start_in(sandbox);
    daemon.stop();
}
