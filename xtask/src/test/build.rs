//! Builds all tests once and collects the test programs.

use std::{
    io::BufReader,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, Result, ensure};
use cargo_metadata::{Artifact, Message};
use rdd_stdx::process::foreground;

use super::Program;

/// The result of a build.
#[derive(Debug, Default)]
pub(super) struct Built {
    pub(super) programs: Vec<Program>,
    /// The `rdd` binary, which some tests run.
    pub(super) rdd: Option<PathBuf>,
}

/// Builds the workspace with all its tests; each test program gets these arguments.
pub(super) fn all(root: &Path, words: &[String]) -> Result<Built> {
    // One build of everything, not `cargo build` and `cargo test --no-run`: those two unify features differently, so half of the
    // dependencies would be compiled twice.
    let mut child = cargo_command()
        .current_dir(root)
        .args(["build", "--workspace", "--all-targets", "--locked", "--message-format=json-render-diagnostics"])
        .stdout(Stdio::piped())
        .spawn()
        .context("run cargo")?;
    let stream = child.stdout.take().context("read what cargo says")?;
    let mut built = Built::default();
    for message in Message::parse_stream(BufReader::new(stream)) {
        if let Message::CompilerArtifact(artifact) = message.context("read what cargo says")? {
            if artifact.target.name == "rdd" && artifact.target.is_bin() && !artifact.profile.test {
                built.rdd = artifact.executable.clone().map(Into::into);
            }
            built.programs.extend(program(&artifact, words));
        }
    }
    ensure!(child.wait().context("wait for cargo")?.success(), "the tests do not build");
    // Programs that need the Go oracles come last; the oracles are compiled meanwhile.
    built.programs.sort_by_key(|program| (super::judges::asks_judges(&program.label), program.label.clone()));
    built.programs.extend(doc_tests(root));
    Ok(built)
}

/// A cargo command with the environment that cargo has when it is called by hand.
pub(crate) fn cargo_command() -> Command {
    let mut command = foreground(cargo());
    // `cargo xtask` sets variables about this package. Some build scripts, such as ring's, watch them; if they were passed on, a build by
    // hand and a build from here would invalidate each other.
    for (name, _) in std::env::vars_os().filter(|(name, _)| is_about_our_package(&name.to_string_lossy())) {
        command.env_remove(name);
    }
    command
}

fn is_about_our_package(variable: &str) -> bool {
    ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_", "CARGO_CRATE_"].iter().any(|prefix| variable.starts_with(prefix))
}

fn cargo() -> PathBuf {
    std::env::var_os("CARGO").map_or_else(|| "cargo".into(), PathBuf::from)
}

fn program(artifact: &Artifact, words: &[String]) -> Option<Program> {
    let path = artifact.executable.clone().filter(|_| artifact.profile.test)?;
    let folder: PathBuf = artifact.manifest_path.parent()?.into();
    let package = folder.file_name()?.to_string_lossy().into_owned();
    let is_library = artifact.target.is_lib();
    let label = if is_library { package } else { format!("{package}/{}", artifact.target.name) };
    Some(Program { label, path: path.into(), arguments: words.to_vec(), folder, has_parts: false })
}

/// The documentation tests, if any source file has one: without one, cargo takes a while to find that out.
fn doc_tests(root: &Path) -> Option<Program> {
    let has_example = sources(&root.join("crates")).iter().any(|path| {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        has_doc_test(&text)
    });
    has_example.then(|| Program {
        label: "documentation".to_owned(),
        path: cargo(),
        arguments: ["test", "--workspace", "--doc", "--locked"].map(str::to_owned).to_vec(),
        folder: root.to_owned(),
        has_parts: true,
    })
}

fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found
}

/// Whether a doc comment contains a code block that rustdoc would run.
fn has_doc_test(text: &str) -> bool {
    let mut inside = false;
    for line in text.lines().map(str::trim_start) {
        let comment = line.strip_prefix("///").or_else(|| line.strip_prefix("//!"));
        let Some(language) = comment.and_then(|comment| comment.trim_start().strip_prefix("```")) else { continue };
        inside = !inside;
        let runs = |word: &str| matches!(word, "" | "rust" | "should_panic" | "no_run" | "compile_fail");
        if inside && language.split(',').all(|word| runs(word.trim())) {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cargo_says_about_us_is_told_from_what_a_person_sets() {
        for variable in ["CARGO_PKG_NAME", "CARGO_MANIFEST_DIR", "CARGO_BIN_NAME"] {
            assert!(is_about_our_package(variable), "{variable}");
        }
        for variable in ["CARGO", "CARGO_HOME", "CARGO_TARGET_DIR", "CARGO_BUILD_JOBS", "RUSTFLAGS"] {
            assert!(!is_about_our_package(variable), "{variable}");
        }
    }

    #[test]
    fn only_rust_in_a_doc_comment_is_a_doc_test() {
        let table = [
            ("/// ```\n/// a();\n/// ```\n", true),
            ("//! ```rust,no_run\n//! a();\n//! ```\n", true),
            ("/// ```text\n/// a\n/// ```\n", false),
            ("// ```\n// a\n// ```\n", false),
            ("fn a() {}\n", false),
        ];
        for (text, expected) in table {
            assert_eq!(has_doc_test(text), expected, "{text}");
        }
    }
}
