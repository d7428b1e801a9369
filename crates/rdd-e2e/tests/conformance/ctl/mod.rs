//! Compares `rdd ctl` with kubectl: the same command lines against one daemon, byte for byte.
//!
//! `cases.txt` describes its own syntax. Each script runs twice, with kubectl and with `rdd ctl`, each in its own namespace; the names of
//! the namespaces have the same length, so that columns have the same width. Values that differ between runs (UIDs, versions, times, ages)
//! are normalized before the comparison.

mod alive;
mod script;

use std::{fs, path::Path, process::Command};

use rdd_stdx::process::background;
use rdd_testkit::{Daemon, Output, capability::require};

use crate::support::pinned_kubectl;
use script::{Line, Normalizer, Script};

/// One of the two programs that are compared.
#[derive(Clone, Copy)]
enum Tool<'a> {
    Kubectl(&'a Path),
    Ours,
}

impl Tool<'_> {
    fn letter(self) -> char {
        match self {
            Self::Kubectl(_) => 'k',
            Self::Ours => 'r',
        }
    }

    /// The program's command line, without the verb. Each kubectl gets an empty discovery cache.
    fn command(self, daemon: &Daemon, place: &Path) -> Command {
        match self {
            Self::Ours => {
                let mut command = daemon.command(&["ctl"]);
                command.current_dir(place);
                command
            }
            Self::Kubectl(program) => {
                let mut command = background(program, place);
                daemon.dress(&mut command);
                let cache = tempfile::tempdir_in(place).unwrap().keep();
                command.env("KUBECONFIG", daemon.config_path()).arg("--cache-dir").arg(cache);
                command
            }
        }
    }
}

/// The place of a script's run: a namespace, and a folder with the fixtures that name it.
struct Stage {
    namespace: String,
    folder: tempfile::TempDir,
}

impl Stage {
    fn new(daemon: &Daemon, script: &str, tool: Tool<'_>) -> Self {
        let namespace = format!("{script}-{}", tool.letter());
        let folder = tempfile::tempdir_in(daemon.home()).unwrap();
        copy_fixtures(&script::folder().join("fixtures"), folder.path(), &namespace);
        daemon.rdd(&["ctl", "create", "namespace", &namespace]).expect_success();
        Self { namespace, folder }
    }

    fn run(&self, daemon: &Daemon, tool: Tool<'_>, line: &Line) -> Output {
        let folder = self.folder.path();
        let fill = |word: &String| word.replace("{ns}", &self.namespace).replace("{dir}", folder.to_str().unwrap());
        let words: Vec<String> = line.words.iter().map(fill).collect();
        let mut command = tool.command(daemon, folder);
        let is_placed =
            words.iter().any(|word| matches!(word.as_str(), "-n" | "-A") || word.starts_with("--namespace"));
        if !is_placed {
            command.args(["-n", &self.namespace]);
        }
        if let Some(input) = &line.input {
            command.stdin(fs::File::open(folder.join(input)).unwrap());
        }
        command.args(words);
        let output = daemon.run(command);
        let same = Normalizer::new(&self.namespace, folder);
        Output { code: output.code, stdout: same.normalize(&output.stdout), stderr: same.normalize(&output.stderr) }
    }

    fn run_all(&self, daemon: &Daemon, tool: Tool<'_>, script: &Script) -> Vec<Output> {
        script.lines.iter().map(|line| self.run(daemon, tool, line)).collect()
    }
}

fn copy_fixtures(from: &Path, to: &Path, namespace: &str) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_fixtures(&entry.path(), &target, namespace);
            continue;
        }
        let bytes = fs::read(entry.path()).unwrap();
        match String::from_utf8(bytes) {
            Ok(text) => fs::write(target, text.replace("{ns}", namespace)).unwrap(),
            Err(binary) => fs::write(target, binary.into_bytes()).unwrap(),
        }
    }
}

/// Runs a script with both programs and requires the same output, except for intended differences.
#[track_caller]
fn compare(name: &str) {
    if !require("go") {
        return;
    }
    let script = Script::find(name);
    let kubectl = pinned_kubectl();
    let daemon = Daemon::start();
    let [theirs, ours] = [Tool::Kubectl(&kubectl), Tool::Ours]
        .map(|tool| Stage::new(&daemon, name, tool).run_all(&daemon, tool, &script));
    let mut wrong = Vec::new();
    for ((line, theirs), ours) in script.lines.iter().zip(&theirs).zip(&ours) {
        match (&line.intended, theirs == ours) {
            (None, false) => wrong.push(format!("{}\n--- kubectl\n{theirs:#?}\n--- rdd ctl\n{ours:#?}", line.text)),
            (Some(reason), true) => {
                wrong.push(format!("{}\nis no difference any more, although \"{reason}\"", line.text));
            }
            _ => {}
        }
    }
    let count = script.lines.len();
    assert!(wrong.is_empty(), "{} of {count} lines:\n\n{}", wrong.len(), wrong.join("\n\n"));
}

#[test]
fn objects_are_shown_as_kubectl_shows_them() {
    compare("get");
}

#[test]
fn objects_are_created_as_kubectl_creates_them() {
    compare("create");
}

#[test]
fn files_are_applied_as_kubectl_applies_them() {
    compare("apply");
}

#[test]
fn objects_are_patched_labelled_and_annotated_as_kubectl_does_it() {
    compare("change");
}

#[test]
fn objects_are_deleted_as_kubectl_deletes_them() {
    compare("delete");
}

#[test]
fn waits_end_as_those_of_kubectl_end() {
    compare("wait");
}

#[test]
fn objects_are_described_as_kubectl_describes_them() {
    compare("describe");
}

#[test]
fn kinds_that_anyone_made_are_treated_as_kubectl_treats_them() {
    compare("custom");
}

#[test]
fn the_server_is_explained_as_kubectl_explains_it() {
    compare("server");
}

#[test]
fn the_comparison_is_wide_and_its_exceptions_are_few() {
    let scripts = Script::all();
    let lines: Vec<&Line> = scripts.iter().flat_map(|script| &script.lines).collect();
    let intended = lines.iter().filter(|line| line.intended.is_some()).count();
    assert!(lines.len() > 550, "{} lines", lines.len());
    assert!(intended <= 14, "{intended} exceptions");
}
