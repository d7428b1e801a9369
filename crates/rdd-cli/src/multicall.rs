//! Maps the program's name to a command: a link named `kubectl` or `yq` runs that command.

use std::{ffi::OsString, path::Path};

/// The program names that stand for a command of the same name.
const NAMES: [&str; 2] = ["kubectl", "yq"];

/// Inserts the command that `argv[0]` names before the other arguments.
///
/// The name of the link counts, not its target, and only up to the first dot: `kubectl.exe` is `kubectl`.
pub fn expand(mut argv: Vec<OsString>) -> Vec<OsString> {
    if let Some(name) = argv.first().and_then(|program| command_named_by(Path::new(program))) {
        argv.insert(1, name.into());
    }
    argv
}

fn command_named_by(program: &Path) -> Option<&'static str> {
    let base = program.file_name()?.to_str()?;
    let stem = base.split('.').next().unwrap_or(base);
    NAMES.into_iter().find(|name| *name == stem)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_name_up_to_its_first_dot_chooses_the_command() {
        for (program, command) in [
            ("kubectl", Some("kubectl")),
            ("/x/kubectl", Some("kubectl")),
            ("./kubectl.exe", Some("kubectl")),
            ("yq", Some("yq")),
            ("yq.rdd", Some("yq")),
            ("/opt/yq.rdd.exe", Some("yq")),
            ("kubectllike", None),
            ("notacommand", None),
            ("rdd", None),
            ("rdd.kubectl", None),
            ("/kubectl/rdd", None),
            ("", None),
        ] {
            let expanded = expand(vec![program.into(), "--instance=x".into()]);
            let expected: Vec<OsString> =
                [Some(program), command, Some("--instance=x")].into_iter().flatten().map(OsString::from).collect();
            assert_eq!(expanded, expected, "{program}");
        }
    }

    #[test]
    fn an_empty_argv_stays_empty() {
        assert!(expand(Vec::new()).is_empty());
    }
}
