//! Tests the output of commands, and the errors for wrong usage.

use std::{fs, os::unix::process::CommandExt, process::Stdio};

use rdd_testkit::{Daemon, Sandbox, capability::require};

use crate::support::{expect_error, full_name, messages};

#[test]
fn wrong_usage_has_cobras_words_and_exit_1() {
    let sandbox = Sandbox::new();
    for (arguments, message) in [
        (&["foo"][..], "unknown command \"foo\" for \"rdd\""),
        (&["servce"], "Did you mean this?"),
        (&["svc", "start", "--nope"], "unknown flag: --nope"),
        (&["svc", "start", "-x"], "unknown shorthand flag: 'x' in -x"),
        (&["svc", "paths", "a", "b"], "accepts at most 1 arg(s), received 2"),
        (&["svc", "start", "--timeout", "soon"], "invalid argument \"soon\" for \"--timeout\" flag:"),
        (&["svc", "paths", "nope"], "unknown key \"nope\"; valid keys: args_file, config, dir, docker_socket"),
        (&["svc", "paths", "-o", "xml"], "unknown output format \"xml\""),
        (&["svc", "status", "--instance", "x"], "unknown flag: --instance"),
        (&["--log-level", "loud", "svc", "status"], "not a valid logrus Level: \"loud\""),
        (&["--log-format", "xml", "svc", "status"], "invalid log format: \"xml\""),
        (&["svc", "serve", "--secure-port", "0"], "--secure-port 0 must be between 1 and 65535, inclusive"),
        (&["svc", "restore"], "accepts 1 arg(s), received 0"),
    ] {
        let output = sandbox.rdd(arguments);
        expect_error(&output, 1, &[message]);
        assert!(output.stderr.contains("level=fatal"), "{}", output.stderr);
        assert_eq!(output.stdout, "", "{arguments:?}");
    }
    assert_eq!(fs::read_dir(sandbox.home()).unwrap().count(), 0, "wrong usage touches nothing");
}

#[test]
fn an_unknown_word_under_a_group_prints_its_help() {
    let sandbox = Sandbox::new();
    for arguments in [&["svc"][..], &["svc", "foo"], &["service", "--help"], &["help", "svc"]] {
        let output = sandbox.rdd(arguments).expect_success();
        assert!(output.stdout.contains("start") && output.stdout.contains("restore"), "{}", output.stdout);
    }
}

#[test]
fn the_version_has_the_form_that_scripts_expect() {
    let sandbox = Sandbox::new();
    let version = sandbox.rdd(&["version"]).expect_success().stdout;
    let is_release = version.starts_with('v') && version[1..].split('.').count() >= 3;
    let is_commit = version.trim().len() >= 7 && version.chars().take(7).all(|c| c.is_ascii_hexdigit());
    assert!(is_release || is_commit, "{version:?}");
    assert_eq!(sandbox.rdd(&["--version"]).expect_success().stdout, version);
    assert_eq!(sandbox.rdd(&["--version=any text"]).expect_success().stdout.trim_end(), "any text");
    let raw = sandbox.rdd(&["--version=raw"]).expect_success().stdout;
    let keys: Vec<_> = raw.lines().filter_map(|line| Some(line.split_once(": ")?.0)).collect();
    assert_eq!(keys, ["Version", "GitCommit", "BuildDate", "GoVersion", "Compiler", "Platform"]);
}

#[test]
fn paths_come_as_table_json_yaml_and_shell() {
    let sandbox = Sandbox::new();
    let json = sandbox.rdd(&["svc", "paths", "--output=json"]).expect_success().stdout;
    let paths: serde_json::Map<String, serde_json::Value> = serde_json::from_str(&json).unwrap();
    assert_eq!(paths.len(), 10);
    assert_eq!(json.lines().count(), 1);
    let config = paths["config"].as_str().unwrap();
    assert!(config.ends_with(&format!("{}/config.yaml", full_name(&sandbox))));
    assert_eq!(sandbox.rdd(&["svc", "paths", "config"]).expect_success().stdout.trim_end(), config);
    let shell = sandbox.rdd(&["svc", "paths", "-o", "shell"]).expect_success().stdout;
    assert!(shell.lines().any(|line| line == format!("export RDD_CONFIG=\"{config}\"")), "{shell}");
    let yaml = sandbox.rdd(&["svc", "paths", "-o", "yaml"]).expect_success().stdout;
    assert!(yaml.lines().any(|line| line == format!("config: {config}")), "{yaml}");
    assert_eq!(fs::read_dir(sandbox.home()).unwrap().count(), 0, "showing paths makes none");
}

/// What a shell suggests for `rdd service st`, from the shell itself: `$1` is the completion script.
const COMPLETIONS: [(&str, &[&str], &str); 3] = [
    (
        "bash",
        &["--norc", "--noprofile", "-c"],
        r#"source "$1"; complete -p rdd >/dev/null || exit 3
           COMP_WORDS=(rdd service st); COMP_CWORD=2; _rdd rdd st service; printf '%s\n' "${COMPREPLY[@]}""#,
    ),
    // The completion widget needs a terminal. The function that lists the commands does not; here `_describe` prints what it would suggest.
    (
        "zsh",
        &["-f", "-c"],
        r#"autoload -Uz compinit; compinit -D -u; source "$1"; [[ $_comps[rdd] == _rdd ]] || exit 3
           _describe() { print -l -- ${${(P)4}%%:*} }
           for list in ${(k)functions[(I)_rdd__*service_commands]}; do $list | grep '^st'; done"#,
    ),
    ("fish", &["--no-config", "-c"], r#"source $argv[1]; complete -C "rdd service st" | string split -f1 \t"#),
];

// Finding A-12
#[test]
fn completions_are_run_by_their_shell_and_offer_the_commands() {
    let sandbox = Sandbox::new();
    for (shell, options, question) in COMPLETIONS {
        if !require(shell) {
            continue;
        }
        let script = sandbox.home().join(format!("completion.{shell}"));
        fs::write(&script, sandbox.rdd(&["completion", shell]).expect_success().stdout).unwrap();
        let mut ask = rdd_stdx::process::background(shell, sandbox.home());
        sandbox.dress(&mut ask);
        ask.args(options).arg(question);
        // The first argument after the script is the program's name, except in fish.
        ask.args((shell != "fish").then_some(shell)).arg(&script);
        let output = sandbox.run(ask).expect_success();
        let mut offered: Vec<_> = output.stdout.lines().collect();
        offered.sort_unstable();
        assert_eq!((offered, output.stderr.as_str()), (vec!["start", "status", "stop"], ""), "{shell}");
    }
}

/// Debian has no PowerShell, so only the form of this script is checked.
#[test]
fn the_completion_script_of_powershell_is_well_formed_and_knows_the_commands() {
    let script = Sandbox::new().rdd(&["completion", "powershell"]).expect_success().stdout;
    assert!(script.contains("Register-ArgumentCompleter -Native -CommandName 'rdd'"), "{script}");
    let (_, service) = script.split_once("'rdd;service' {").expect("the commands of rdd service");
    let (service, _) = service.split_once("break").expect("the end of the commands of rdd service");
    for command in ["start", "status", "stop"] {
        assert!(service.contains(&format!("[CompletionResult]::new('{command}', '{command}'")), "{service}");
    }
    for (open, close) in [('{', '}'), ('(', ')')] {
        // Texts are in single quotes, in which a quote is doubled; brackets in them do not count.
        let code: String = script.split('\'').step_by(2).collect();
        assert_eq!(code.matches(open).count(), code.matches(close).count(), "{open} and {close}");
    }
}

#[test]
fn the_programs_name_decides_what_it_is() {
    let sandbox = Sandbox::new();
    let fake = sandbox.home().join("kubectl");
    fs::write(&fake, "#!/bin/sh\necho \"the real kubectl got: $*\"\n").unwrap();
    fs::set_permissions(&fake, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let run_words = |name: &str, path: &str, words: &[&str]| {
        let mut command = rdd_stdx::process::background(sandbox.binary(), sandbox.home());
        sandbox.dress(&mut command);
        command.env("PATH", path).arg0(name).args(words).stdin(Stdio::null());
        sandbox.run(command)
    };
    let run = |name: &str, path: &str| run_words(name, path, &["get", "pods"]);
    let path = format!("{}:/usr/bin:/bin", sandbox.home().display());
    assert_eq!(run("/x/kubectl.exe", &path).expect_success().stdout, "the real kubectl got: get pods\n");
    let nothing = tempfile::tempdir().unwrap();
    // Finding E-9
    let without = |words: &[&str]| run_words("/x/kubectl", nothing.path().to_str().unwrap(), words);
    let output = without(&["exec", "pod"]);
    assert_eq!(output.code, Some(1));
    assert!(
        output.stderr.starts_with("error: `kubectl exec` is not built in\nhint: install kubectl"),
        "{}",
        output.stderr
    );
    assert_eq!(without(&["config", "current-context"]).stderr, "error: current-context is not set\n");
    let foreign = sandbox.home().join("yq");
    fs::write(&foreign, "#!/bin/sh\necho \"the real yq got: $*\"\nexit 7\n").unwrap();
    fs::set_permissions(&foreign, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    for (name, words) in [("/x/yq", &[".a", "-o=json"][..]), ("/x/rdd", &["yq", ".a", "-o=json"])] {
        let output = run_words(name, &path, words).expect_code(7);
        assert_eq!(output.stdout, "the real yq got: .a -o=json\n", "{name}");
    }
    let built_in = run_words("/x/rdd", nothing.path().to_str().unwrap(), &["yq", "-n", "1 + 1"]);
    assert_eq!(built_in.expect_success().stdout, "2\n");
    expect_error(&run("kubectllike", &path), 1, &["unknown command \"get\" for \"rdd\""]);
}

#[test]
fn records_on_a_pipe_have_logruses_form() {
    let daemon = Daemon::start();
    let output = daemon.rdd(&["svc", "status"]).expect_success();
    for line in output.stderr.lines() {
        let rest = line.strip_prefix("time=\"").unwrap_or_else(|| panic!("{line}"));
        let (time, rest) = rest.split_once("\" level=info msg=\"").unwrap_or_else(|| panic!("{line}"));
        assert!(time.len() >= 20 && time.as_bytes()[10] == b'T', "{time}");
        assert!(rest.ends_with('"'), "the message is the last field: {line}");
    }
    assert_eq!(messages(&output).len(), 3);
}

#[test]
fn units_for_systemd_and_launchd_name_this_program() {
    let sandbox = Sandbox::new();
    let unit = sandbox.rdd(&["svc", "unit"]).expect_success().stdout;
    for part in ["Type=notify", "Restart=on-failure", "service serve", sandbox.instance(), "WantedBy=default.target"] {
        assert!(unit.contains(part), "{part:?} is missing in {unit}");
    }
    let agent = sandbox.rdd(&["svc", "unit", "--launchd"]).expect_success().stdout;
    assert!(agent.starts_with("<?xml") && agent.contains("<string>serve</string>"), "{agent}");
}
