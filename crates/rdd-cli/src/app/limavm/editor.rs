//! Runs the user's editor on a file.

use std::{ffi::OsString, path::Path};

use rdd_instance::Environment;
use rdd_stdx::process;

use crate::report::{Failure, Outcome};

/// The editor when the environment names none.
const DEFAULT: &str = "vi";

/// Opens the user's editor on a file and waits until it ends. A non-zero exit status is an error.
pub(super) fn edit(environment: &Environment, file: &Path) -> Outcome {
    // kubectl reads KUBE_EDITOR and EDITOR, in this order; VISUAL is an addition.
    let chosen = [&environment.kube_editor, &environment.editor, &environment.visual].into_iter().flatten().next();
    let words = chosen.map_or_else(|| vec![DEFAULT.to_owned()], |chosen| split(chosen));
    let Some((program, arguments)) = words.split_first() else {
        return Err(Failure::message("the editor in KUBE_EDITOR, EDITOR or VISUAL is empty"));
    };
    let status = process::foreground(program).args(arguments.iter().map(OsString::from)).arg(file).status();
    let status = status.map_err(|error| Failure::caused(format!("unable to launch the editor {program:?}"), error))?;
    if status.success() {
        return Ok(());
    }
    Err(Failure::message(format!("there was a problem with the editor {program:?} ({status})")))
}

/// Splits a command into words as a shell does: white space separates, quotes and backslashes escape. No shell runs.
fn split(command: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut characters = command.chars();
    while let Some(character) = characters.next() {
        match (quote, character) {
            (Some(open), close) if open == close => quote = None,
            (None, '"' | '\'') => {
                quote = Some(character);
                word.get_or_insert_default();
            }
            // Inside single quotes a backslash is an ordinary character.
            (None | Some('"'), '\\') => word.get_or_insert_default().extend(characters.next()),
            (None, blank) if blank.is_whitespace() => words.extend(word.take()),
            (_, character) => word.get_or_insert_default().push(character),
        }
    }
    words.extend(word);
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_split_as_its_user_meant() {
        for (command, words) in [
            ("vi", &["vi"][..]),
            ("  code  --wait ", &["code", "--wait"]),
            ("'/my tools/edit' -f", &["/my tools/edit", "-f"]),
            (r#""a\"b" c\ d"#, &["a\"b", "c d"]),
            (r"'a\b' ''", &[r"a\b", ""]),
            ("$(rm -rf x); y", &["$(rm", "-rf", "x);", "y"]),
            ("'open", &["open"]),
            ("", &[]),
        ] {
            assert_eq!(split(command), words, "{command}");
        }
    }
}
