//! `args.json`: the stored arguments of every start of the daemon. An instance exists if this file exists.

use std::{ffi::OsString, io, path::Path};

use rdd_stdx::{file, owned};

use crate::{
    args::{Command, Service},
    help,
    parse::{self, Parsed},
    record::Format,
    report::{Failure, Outcome},
};

/// The arguments of `svc create`.
#[derive(Debug, Clone, Copy)]
pub struct Settings<'a> {
    /// The port that the instance's number determines.
    pub default_port: u16,
    /// Further arguments for the daemon.
    pub positional: &'a [String],
    /// The value of `--controllers`.
    pub controllers: &'a str,
    /// The value of `--secure-port`, if it was given.
    pub port: Option<u16>,
    /// The value of `-v`.
    pub verbosity: u8,
}

/// The stored arguments for `svc create`. The last of several equal flags counts, so a given port follows the default one.
pub fn of_create(settings: &Settings<'_>) -> Vec<String> {
    let mut args = of_start(settings.default_port, settings.positional);
    args.extend(["--controllers".to_owned(), settings.controllers.to_owned()]);
    if let Some(port) = settings.port {
        args.extend(["--secure-port".to_owned(), port.to_string()]);
    }
    args.extend(["-v".to_owned(), settings.verbosity.to_string()]);
    args
}

/// The stored arguments for a start that creates the instance.
pub fn of_start(default_port: u16, positional: &[String]) -> Vec<String> {
    let port = ["--secure-port".to_owned(), default_port.to_string()];
    port.into_iter().chain(positional.iter().cloned()).collect()
}

/// Writes the arguments atomically, with a mode for the owner only.
pub fn write(path: &Path, args: &[String]) -> Outcome {
    let text = serde_json::to_string_pretty(args)?;
    Ok(file::write_atomic(path, text.as_bytes(), file::PRIVATE)?)
}

/// Reads the arguments; `None` if the instance does not exist.
pub fn read(path: &Path) -> Outcome<Option<Vec<String>>> {
    let text = match owned::read(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Failure::caused(format!("read {}", path.display()), error)),
    };
    serde_json::from_slice(&text).map(Some).map_err(|error| {
        with_remedies(Failure::caused(format!("{} is not a list of arguments", path.display()), error))
    })
}

/// Checks that the daemon accepts the stored arguments, which gives a better error than a daemon that fails at start.
pub fn check(path: &Path, stored: &[String]) -> Outcome {
    check_words(stored).map_err(|failure| {
        with_remedies(Failure::message(format!(
            "{} holds arguments that the daemon does not take: {}",
            path.display(),
            failure.text()
        )))
    })
}

/// Checks that the daemon would start with these arguments. The error names the first that it rejects.
pub fn check_words(words: &[String]) -> Outcome {
    // The daemon's own parser decides, so both accept the same.
    let line = ["service", "serve"].into_iter().chain(words.iter().map(String::as_str)).map(OsString::from);
    let (global, serve) = match parse::parse(&help::tree(false), line.collect())? {
        Parsed::Run(cli) => match cli.command {
            Some(Command::Service { verb: Some(Service::Serve(serve)) }) => (cli.global, serve),
            _ => return Err(Failure::message(format!("{words:?} are not arguments of the daemon"))),
        },
        Parsed::Help(_) => return Err(Failure::message("--help does not start the daemon")),
        Parsed::Version(_) => return Err(Failure::message("--version does not start the daemon")),
    };
    if serve.verb.is_some() {
        // `serve options` prints flags instead of serving.
        return Err(Failure::message("unknown command \"options\" for \"rdd service serve\""));
    }
    if global.version.is_some_and(|version| version != "false") {
        return Err(Failure::message("--version does not start the daemon"));
    }
    // The daemon checks these values after parsing, when it starts.
    Format::parse(&global.log_format)?;
    port(serve.secure_port)?;
    Ok(())
}

/// Checks a port as the daemon does, before a daemon is started with it.
pub fn port(given: Option<i64>) -> Outcome<Option<u16>> {
    let Some(given) = given else { return Ok(None) };
    match u16::try_from(given) {
        Ok(port) if port != 0 => Ok(Some(port)),
        _ => Err(Failure::message(format!(
            "--secure-port {given} must be between 1 and 65535, inclusive. It cannot be turned off with 0"
        ))),
    }
}

fn with_remedies(failure: Failure) -> Failure {
    failure
        .hint("repair the file: it holds a JSON array of strings, such as [\"--secure-port\", \"6445\"]")
        .hint("or begin anew, losing what the instance holds: rdd service delete")
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::testing::mode;

    fn words(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn what_the_daemon_would_not_take_is_named_with_its_file() {
        let path = Path::new("/x/args.json");
        check(path, &words(&["--secure-port", "6445", "--controllers", "*", "-v", "2"])).unwrap();
        let failure = check(path, &words(&["--no-such-flag"])).unwrap_err();
        assert_eq!(
            failure.text(),
            "/x/args.json holds arguments that the daemon does not take: unknown flag: --no-such-flag"
        );
        assert_eq!(failure.hints().len(), 2);
    }

    #[test]
    fn words_that_would_end_the_daemon_are_told_from_those_that_it_runs_with() {
        check_words(&words(&["--controllers=", "-v", "4", "--log-format=json", "--secure-port", "7000"])).unwrap();
        for (given, expected) in [
            (vec!["one"], "unknown command \"one\" for \"rdd service serve\""),
            (vec!["options"], "unknown command \"options\" for \"rdd service serve\""),
            (vec!["--bogus"], "unknown flag: --bogus"),
            (vec!["-q"], "unknown shorthand flag: 'q' in -q"),
            (vec!["--secure-port"], "flag needs an argument: --secure-port"),
            (vec!["--help"], "--help does not start the daemon"),
            (vec!["--version"], "--version does not start the daemon"),
        ] {
            assert_eq!(check_words(&words(&given)).unwrap_err().text(), expected, "{given:?}");
        }
        for given in [["--secure-port", "0"], ["--log-format", "xml"], ["--", "x"]] {
            assert!(check_words(&words(&given)).is_err(), "{given:?}");
        }
    }

    #[test]
    fn ports_are_refused_in_the_words_of_the_daemon() {
        assert_eq!(port(None).unwrap(), None);
        assert_eq!(port(Some(6443)).unwrap(), Some(6443));
        for bad in [0, -1, 65536] {
            let expected =
                format!("--secure-port {bad} must be between 1 and 65535, inclusive. It cannot be turned off with 0");
            assert_eq!(port(Some(bad)).unwrap_err().text(), expected);
        }
    }

    #[test]
    fn the_order_is_that_of_the_original() {
        let positional = words(&["one"]);
        let settings =
            Settings { default_port: 6445, positional: &positional, controllers: "*", port: None, verbosity: 2 };
        assert_eq!(of_create(&settings), words(&["--secure-port", "6445", "one", "--controllers", "*", "-v", "2"]));
        let given = Settings { port: Some(7000), positional: &[], controllers: "", verbosity: 0, ..settings };
        assert_eq!(
            of_create(&given),
            words(&["--secure-port", "6445", "--controllers", "", "--secure-port", "7000", "-v", "0"])
        );
        assert_eq!(of_start(6445, &positional), words(&["--secure-port", "6445", "one"]));
    }

    #[test]
    fn the_file_is_indented_private_and_has_no_newline_at_its_end() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("args.json");
        assert_eq!(read(&path).unwrap(), None);
        write(&path, &words(&["-v", "a \"b\""])).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "[\n  \"-v\",\n  \"a \\\"b\\\"\"\n]");
        assert_eq!(mode(&path), 0o600);
        assert_eq!(read(&path).unwrap(), Some(words(&["-v", "a \"b\""])));
    }

    #[test]
    fn garbage_is_refused_with_the_file_the_problem_and_the_fix() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("args.json");
        for garbage in ["", "{}", "[1]", "[\"a\"", "\u{0}", "null"] {
            fs::write(&path, garbage).unwrap();
            let failure = read(&path).unwrap_err();
            let start = format!("{} is not a list of arguments: ", path.display());
            assert!(failure.text().starts_with(&start), "{}", failure.text());
            assert!(failure.text().len() > start.len(), "says what is wrong");
            assert!(failure.hints().join("\n").contains("rdd service delete"));
            assert_eq!(fs::read_to_string(&path).unwrap(), garbage, "and changes nothing");
        }
    }
}
