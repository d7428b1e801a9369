//! The fake process of a container: an interpreter for the few shell commands that tests use.

/// The output stream of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Output {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// The start of a process: what it writes at once, and whether it keeps running.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Beginning {
    pub(super) lines: Vec<(Output, String)>,
    /// The exit code, if it exits at once.
    pub(super) exit_code: Option<i32>,
}

const PROGRAMS: &[&str] = &["sh", "/bin/sh", "sleep", "/bin/sleep", "cat", "true", "false", "/bin/busybox", "busybox"];

/// Starts a command; `None` if the image has no such program.
///
/// Supported are `sh -c` with `echo`, `echo … >&2`, `exit` and long-running commands (`sleep`, `exec`, `trap`, `while`), and
/// `sleep`, `true`, `false`.
pub(super) fn run(path: &str, arguments: &[String]) -> Option<Beginning> {
    if !PROGRAMS.contains(&path) {
        return None;
    }
    let first = arguments.first().map(String::as_str);
    Some(match (path.rsplit('/').next(), first) {
        (Some("true"), _) => ends(0),
        (Some("false"), _) => ends(1),
        (Some("sleep"), Some("0")) => ends(0),
        (Some("sh"), Some("-c")) => script(arguments.get(1).map_or("", String::as_str)),
        (Some("sh"), None) => ends(0),
        _ => Beginning { lines: Vec::new(), exit_code: None },
    })
}

fn ends(code: i32) -> Beginning {
    Beginning { lines: Vec::new(), exit_code: Some(code) }
}

fn script(text: &str) -> Beginning {
    let mut lines = Vec::new();
    for command in text.split([';', '\n']).map(str::trim) {
        let (word, rest) = command.split_once(' ').unwrap_or((command, ""));
        match word {
            "echo" => match rest.strip_suffix(">&2") {
                Some(said) => lines.push((Output::Stderr, said.trim().to_owned())),
                None => lines.push((Output::Stdout, rest.trim().to_owned())),
            },
            "exit" => return Beginning { lines, exit_code: Some(rest.trim().parse().unwrap_or(2)) },
            "" | "trap" => {}
            _ => return Beginning { lines, exit_code: None },
        }
    }
    Beginning { lines, exit_code: Some(0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(text: &str) -> Beginning {
        run("sh", &["-c".to_owned(), text.to_owned()]).unwrap()
    }

    #[test]
    fn a_script_writes_its_lines_and_ends_or_goes_on() {
        let lines = vec![(Output::Stdout, "out".to_owned()), (Output::Stderr, "err".to_owned())];
        let goes_on = Beginning { lines: lines.clone(), exit_code: None };
        assert_eq!(shell("echo out; echo err >&2; exec sleep 600"), goes_on);
        assert_eq!(shell("echo out; echo err >&2; exit 3"), Beginning { lines, exit_code: Some(3) });
        assert_eq!(shell(""), ends(0));
        assert_eq!(run("nosuch", &[]), None);
        assert_eq!(run("sleep", &["600".to_owned()]).unwrap().exit_code, None);
    }
}
