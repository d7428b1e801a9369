//! Tests of valid and invalid command lines, with the original's error texts.

use super::*;
use crate::{args, help};

fn words(line: &str) -> Vec<OsString> {
    line.split_whitespace().map(|word| OsString::from(word.replace("''", ""))).collect()
}

fn parsed(line: &str) -> Outcome<Parsed> {
    parse(&help::tree(false), words(line))
}

fn refusal(line: &str) -> String {
    match parsed(line) {
        Ok(parsed) => panic!("{line:?} must be refused, but gave {parsed:?}"),
        Err(failure) => failure.text(),
    }
}

fn command(line: &str) -> Box<Cli> {
    match parsed(line) {
        Ok(Parsed::Run(cli)) => cli,
        other => panic!("{line:?} gave {other:?}"),
    }
}

fn service(line: &str) -> args::Service {
    match command(line).command {
        Some(args::Command::Service { verb: Some(verb) }) => verb,
        other => panic!("{line:?} gave {other:?}"),
    }
}

#[test]
fn instance_counts_only_directly_after_the_program() {
    for (line, instance, rest) in [
        ("--instance=foo svc status", Some("foo"), "svc status"),
        ("--instance= svc status", None, "svc status"),
        ("--instance foo svc status", Some("foo"), "svc status"),
        ("--instance", None, ""),
        ("--instance '' svc", None, "'' svc"),
        ("--instance -x svc", None, "-x svc"),
        ("svc --instance=foo", None, "svc --instance=foo"),
        ("--log-level=info --instance=foo", None, "--log-level=info --instance=foo"),
        ("--instance=a --instance=b", Some("a"), "--instance=b"),
        ("", None, ""),
    ] {
        assert_eq!(take_instance(words(line)), (instance.map(str::to_owned), words(rest)), "{line}");
    }
}

#[test]
fn bad_command_lines_are_refused_in_the_words_of_the_original() {
    for (line, expected) in [
        ("foo", r#"unknown command "foo" for "rdd""#),
        ("foo --bar", r#"unknown command "foo" for "rdd""#),
        ("servic", "unknown command \"servic\" for \"rdd\"\n\nDid you mean this?\n\tservice\n"),
        ("Ser", "unknown command \"Ser\" for \"rdd\"\n\nDid you mean this?\n\tservice\n\tset\n"),
        ("versoin status", "unknown command \"versoin\" for \"rdd\"\n\nDid you mean this?\n\tversion\n"),
        ("--bogus", "unknown flag: --bogus"),
        ("--bogus=1", "unknown flag: --bogus"),
        ("--bogus service", "unknown flag: --bogus"),
        ("-x", "unknown shorthand flag: 'x' in -x"),
        ("-xyz", "unknown shorthand flag: 'x' in -xyz"),
        ("service log -fx", "unknown shorthand flag: 'x' in -x"),
        ("--", ""),
        ("--=x", "bad flag syntax: --=x"),
        ("---x", "bad flag syntax: ---x"),
        ("svc status --instance=foo", "unknown flag: --instance"),
        ("svc status --instance foo", "unknown flag: --instance"),
        ("svc --instance foo status", "unknown flag: --instance"),
        ("--log-level=info --instance foo svc status", "unknown flag: --instance"),
        ("--log-level", "flag needs an argument: --log-level"),
        ("svc start --timeout", "flag needs an argument: --timeout"),
        ("svc paths -o", "flag needs an argument: 'o' in -o"),
        ("svc start --timeout x", r#"invalid argument "x" for "--timeout" flag: time: invalid duration "x""#),
        ("svc start --timeout=5", r#"invalid argument "5" for "--timeout" flag: time: missing unit in duration "5""#),
        ("svc stop --timeout=", r#"invalid argument "" for "--timeout" flag: time: invalid duration """#),
        (
            "svc start --wait=maybe",
            r#"invalid argument "maybe" for "--wait" flag: strconv.ParseBool: parsing "maybe": invalid syntax"#,
        ),
        (
            "svc log -f=maybe",
            r#"invalid argument "maybe" for "-f, --follow" flag: strconv.ParseBool: parsing "maybe": invalid syntax"#,
        ),
        ("-v x version", r#"invalid argument "x" for "-v, --v" flag: strconv.ParseInt: parsing "x": invalid syntax"#),
        (
            "svc create --secure-port=https",
            r#"invalid argument "https" for "--secure-port" flag: strconv.ParseInt: parsing "https": invalid syntax"#,
        ),
        (
            "version --help=maybe",
            r#"invalid argument "maybe" for "-h, --help" flag: strconv.ParseBool: parsing "maybe": invalid syntax"#,
        ),
        (
            "--log-flush-frequency=soon version",
            r#"invalid argument "soon" for "--log-flush-frequency" flag: time: invalid duration "soon""#,
        ),
        ("svc paths dir config", "accepts at most 1 arg(s), received 2"),
        ("svc backup a b", "accepts at most 1 arg(s), received 2"),
        ("svc restore", "accepts 1 arg(s), received 0"),
        ("svc restore a b c", "accepts 1 arg(s), received 3"),
        ("svc serve now", r#"unknown command "now" for "rdd service serve""#),
        ("svc config dir", r#"unknown command "dir" for "rdd service config""#),
        ("svc reset hard", r#"unknown command "hard" for "rdd service reset""#),
        ("svc unit 2", r#"unknown command "2" for "rdd service unit""#),
        ("completion bash zsh", r#"unknown command "zsh" for "rdd completion bash""#),
        ("svc foo --bar", "unknown flag: --bar"),
        ("set", "requires at least 1 arg(s), only received 0"),
        ("set --dry-run", "requires at least 1 arg(s), only received 0"),
        ("start now", r#"unknown command "now" for "rdd start""#),
        ("stop now", r#"unknown command "now" for "rdd stop""#),
        ("delete app", r#"unknown command "app" for "rdd delete""#),
        ("limavm create x", "accepts 2 arg(s), received 1"),
        ("lima create x y z", "accepts 2 arg(s), received 3"),
        ("limavm start", "accepts 1 arg(s), received 0"),
        ("limavm stop a b", "accepts 1 arg(s), received 2"),
        ("limavm log", "accepts 1 arg(s), received 0"),
        ("start --timeout=5", r#"invalid argument "5" for "--timeout" flag: time: missing unit in duration "5""#),
        ("svc delete --wait=false", "unknown flag: --wait"),
        ("svc status --output", "flag needs an argument: --output"),
        ("version --time_out", "unknown flag: --time_out"),
    ] {
        if expected.is_empty() {
            assert!(matches!(parsed(line), Ok(Parsed::Help(_))), "{line}");
        } else {
            assert_eq!(refusal(line), expected, "{line}");
        }
    }
}

#[test]
fn a_group_without_a_known_verb_shows_its_help() {
    for (line, path) in [
        ("", "rdd"),
        ("--log-level=debug", "rdd"),
        ("--help", "rdd"),
        ("-h", "rdd"),
        ("service", "rdd service"),
        ("svc foo", "rdd service"),
        ("svc foo bar", "rdd service"),
        ("completion tcsh", "rdd completion"),
        ("svc start --help", "rdd service start"),
        ("svc --help start", "rdd service start"),
        ("svc serve options -h", "rdd service serve options"),
        ("--log-level version", "rdd"),
    ] {
        match parsed(line) {
            Ok(Parsed::Help(names)) => assert_eq!(names.join(" "), path, "{line}"),
            other => panic!("{line:?} gave {other:?}"),
        }
    }
}

#[test]
fn version_counts_only_without_a_command() {
    for (line, format) in [
        ("--version", "true"),
        ("--version=true", "true"),
        ("--version=raw", "raw"),
        ("--version=v9", "v9"),
        ("--version --bogus", "true"),
    ] {
        assert!(matches!(parsed(line), Ok(Parsed::Version(found)) if found == format), "{line}");
    }
    assert!(matches!(parsed("--version=false"), Ok(Parsed::Help(_))));
    assert!(matches!(command("version --version").command, Some(args::Command::Version(_))));
    assert_eq!(command("svc serve --version").global.version.as_deref(), Some("true"));
}

#[test]
fn flags_may_stand_anywhere_and_the_last_one_counts() {
    let start = |line: &str| match service(line) {
        args::Service::Start(start) => start,
        other => panic!("{line:?} gave {other:?}"),
    };
    let rest = |args: &[OsString]| args.iter().map(|arg| arg.to_string_lossy().into_owned()).collect::<Vec<_>>();
    let plain = start("svc start");
    assert_eq!((plain.wait, plain.timeout.to_string().as_str()), (true, "1m30s"));
    assert!(!start("svc start --wait=false").wait);
    assert!(start("svc start --wait=false --wait").wait);
    let spread = start("svc --timeout 5s start one --wait=0 two -- --three");
    assert_eq!((spread.timeout.to_string().as_str(), spread.wait), ("5s", false));
    assert_eq!(rest(&spread.args), ["one", "two", "--three"]);
    assert_eq!(start("svc start --timeout=1s --timeout=2s").timeout.to_string(), "2s");
    assert_eq!(start("svc start --controllers= --secure_port=7000").controllers.as_deref(), Some(""));
    assert_eq!(start("svc start --secure_port 7000").secure_port, Some(7000));
    assert_eq!(start("svc start --controllers -demo").controllers.as_deref(), Some("-demo"));
    assert_eq!(start("svc start --timeout -1s").timeout.to_string(), "-1s");
}

#[test]
fn global_flags_are_taken_before_and_after_the_command() {
    for line in ["--log_level=debug version", "version --log-level debug", "--log-level debug version extra"] {
        assert_eq!(command(line).global.log_level, "debug", "{line}");
    }
    for line in ["-v2 version", "-v 2 version", "-v=2 version", "--v=2 version"] {
        assert_eq!(command(line).global.v, 2, "{line}");
    }
}

#[test]
fn words_of_a_foreign_program_are_passed_on_as_they_are() {
    for (line, level, expected) in [
        ("kubectl get ns -o json", "", "get ns -o json"),
        ("kubectl --help", "", "--help"),
        ("kubectl -- --log_level=x", "", "-- --log_level=x"),
        ("--log-level=debug kubectl --instance=x", "debug", "--instance=x"),
        ("kubectl kubectl", "", "kubectl"),
        ("kubectl", "", ""),
    ] {
        let cli = command(line);
        let Some(args::Command::Kubectl(passed)) = cli.command else { panic!("{line}") };
        assert_eq!((cli.global.log_level.as_str(), passed.args), (level, words(expected)), "{line}");
    }
    assert!(matches!(command("yq --version").command, Some(args::Command::Yq(_))));
}

#[test]
fn aliases_mean_the_same() {
    assert!(matches!(service("svc logs -of"), args::Service::Log(log) if log.stdout && log.follow));
    assert!(matches!(service("service log --tail 3"), args::Service::Log(log) if log.tail == 3));
    assert!(
        matches!(service("svc status -o json"), args::Service::Status(status) if status.output.as_deref() == Some("json"))
    );
}

#[test]
fn distances_are_counted_in_letters() {
    for (from, to, expected) in [("", "abc", 3), ("abc", "abc", 0), ("srevice", "service", 2), ("stop", "start", 3)] {
        assert_eq!(distance(from, to), expected, "{from} {to}");
    }
}

#[test]
fn the_table_of_commands_is_sound() {
    help::tree(true).debug_assert();
}
