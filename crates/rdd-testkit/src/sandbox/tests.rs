//! Tests of the sandbox, with a shell as the binary.

use std::os::unix::fs::MetadataExt;

use super::*;

/// Builds a sandbox whose `rdd` is a shell.
fn with_shell(builder: SandboxBuilder) -> Sandbox {
    builder.binary(Path::new("/bin/sh")).build()
}

#[test]
fn every_sandbox_has_a_valid_name_and_a_home_of_its_own_that_goes_with_it() {
    let first = Sandbox::new();
    let second = Sandbox::new();
    assert_ne!(first.instance(), second.instance());
    for sandbox in [&first, &second] {
        let name = sandbox.instance();
        let valid = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '-';
        assert!(name.len() <= 32 && name.chars().all(valid) && !name.starts_with('-'), "{name}");
        assert!(sandbox.home().is_dir());
        assert!(sandbox.home().as_os_str().len() < 60, "sockets lie below it");
    }
    let home = first.home().to_owned();
    drop(first);
    assert!(!home.exists());
}

#[test]
fn a_command_sees_the_sandbox_and_nothing_of_ours() {
    let sandbox = with_shell(Sandbox::builder().env("EXTRA", "x"));
    let output =
        sandbox.rdd(&["-c", "echo $HOME $RDD_INSTANCE $RDD_DEVELOPER_MODE $EXTRA [$CARGO$CARGO_MANIFEST_DIR]; exit 4"]);
    let expected = format!("{} {} false x []\n", sandbox.home().display(), sandbox.instance());
    assert_eq!(output.expect_code(4).stdout, expected);
}

#[test]
fn the_umask_and_a_missing_home_reach_the_command() {
    let sandbox = with_shell(Sandbox::builder().umask(0o027).without_home());
    let output = sandbox.rdd(&["-c", "umask; echo ${HOME-none}"]).expect_success();
    assert_eq!(output.stdout, "0027\nnone\n");
}

#[test]
fn nobody_owns_the_home_and_runs_the_command() {
    if !crate::capability::require("root") {
        return;
    }
    let sandbox = with_shell(Sandbox::builder().as_nobody());
    let output = sandbox.rdd(&["-c", "id -u; touch $HOME/mine && echo written"]).expect_success();
    assert_eq!(output.stdout, "65534\nwritten\n");
    assert_eq!(fs::metadata(sandbox.home()).unwrap().uid(), NOBODY);
    assert!(sandbox.binary().starts_with(sandbox.home()), "a copy that nobody can reach");
}

#[test]
fn what_the_instance_started_ends_with_the_sandbox() {
    let sandbox = with_shell(Sandbox::builder());
    // A miniature daemon: its own session, and its parent has ended.
    sandbox.rdd(&["-c", "setsid sleep 600 >/dev/null 2>&1 &"]).expect_success();
    let found = crate::eventually("the daemon", Duration::from_secs(10), || {
        sandbox.processes().into_iter().find(|process| process.arguments == ["sleep", "600"])
    });
    drop(sandbox);
    let ended =
        |pid| processes::look_at(pid).is_none_or(|process| process.is_zombie() || process.started != found.started);
    assert!(ended(found.pid));
}

#[test]
fn a_failing_test_leaves_a_bundle() {
    let evidence = tempfile::tempdir().unwrap();
    // In its own process, since an environment variable sets the folder.
    let mut command = background(std::env::current_exe().unwrap(), Path::new("/"));
    command.args(["--exact", "sandbox::tests::helper_that_fails_when_asked", "--nocapture"]);
    command.env("RDD_TESTKIT_FAIL", "1").env("RDD_EVIDENCE_DIR", evidence.path());
    let Outcome::Ended(output) = bounded::run(&mut command, COMMAND_TAKES, |_| ()).unwrap() else { panic!("hangs") };
    assert_ne!(output.code, Some(0));
    let bundle = fs::read_dir(evidence.path()).unwrap().next().expect("a bundle").unwrap().path();
    assert!(output.stderr.contains(&format!("support bundle: {}", bundle.display())), "{}", output.stderr);
    assert!(fs::read_to_string(bundle.join("processes.txt")).unwrap().contains("sleep 601"));
}

#[test]
fn helper_that_fails_when_asked() {
    if std::env::var_os("RDD_TESTKIT_FAIL").is_some() {
        let sandbox = with_shell(Sandbox::builder());
        sandbox.rdd(&["-c", "setsid sleep 601 >/dev/null 2>&1 &"]).expect_success();
        crate::eventually("the daemon", Duration::from_secs(10), || {
            sandbox.processes().into_iter().find(|process| process.arguments == ["sleep", "601"])
        });
        panic!("as asked");
    }
}
