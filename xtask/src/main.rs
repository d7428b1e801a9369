//! Developer tasks of this workspace: `cargo xtask tidy | test | words | api-reference | env-reference | mutants`.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a tool for developers talks to their terminal")]

mod api_reference;
mod env_reference;
mod mutants;
mod test;
mod tidy;
mod words;

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Result, bail};
use rdd_stdx::chain::Chain;

const USAGE: &str = "\
usage: cargo xtask <command>

  tidy                       check what the compiler does not: layers, manifests, sources, licences, duplicates
  test [FILTER] [options]    build and run all tests, with evidence of failures and nothing left behind
      --only NAME            only test binaries whose name contains NAME
      --binary PATH          only this program, which is built already (repeatable)
      --count-file FILE      write the closing line there too
      --follow               show what the tests print while they run
  api-reference [--check]    write docs/reference/api.md, or check that it is current
  env-reference [--check]    write docs/reference/environment.md, or check that it is current
  words [--places]           print how the code names and comments things, beside the goals of CONTRIBUTING.md
  mutants [FILTER] [options] plant known defects in a copy of the tree, one at a time; the test of each must fail
      --changed              only those whose source file, test or patch changed
      --base REV             compare with this revision; the main branch or the last commit by default
      --at-most 180s         stop then, and list what was not tried, which is not a failure

environment of test:
  RDD_TEST_TIMEOUT           seconds that each test binary may take; 0 switches the limit off
  RDD_EVIDENCE_DIR           where support bundles go; .evidence by default";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match run(&words) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("xtask: {}", Chain(error.as_ref()));
            ExitCode::FAILURE
        }
    }
}

/// Runs a command. Returns whether it succeeded; failures have been printed.
fn run(words: &[&str]) -> Result<bool> {
    match words {
        ["tidy"] => tidy::run(&workspace_root()),
        [test::LANE_COMMAND, rdd] => test::serve_lane(&workspace_root(), rdd),
        ["test", rest @ ..] => test::run(&workspace_root(), test::Arguments::parse(rest)?),
        ["api-reference"] => api_reference::write(&workspace_root()).map(|()| true),
        ["api-reference", "--check"] => tidy::report(&api_reference::check(&workspace_root())?),
        ["env-reference"] => env_reference::write(&workspace_root()).map(|()| true),
        ["env-reference", "--check"] => tidy::report(&env_reference::check(&workspace_root())),
        ["words"] => words::run(&workspace_root(), false),
        ["words", "--places"] => words::run(&workspace_root(), true),
        ["mutants", rest @ ..] => mutants::run(&workspace_root(), &mutants::Options::parse(rest)?),
        [] | ["help" | "--help" | "-h"] => {
            println!("{USAGE}");
            Ok(true)
        }
        other => bail!("unknown command {:?}\n{USAGE}", other.join(" ")),
    }
}

/// The workspace's root folder, found from this package's folder.
fn workspace_root() -> PathBuf {
    let package = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    let package = package.unwrap_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")));
    let mut folders = package.ancestors();
    let root = folders.find(|folder| folder.join("Cargo.lock").exists());
    root.unwrap_or(Path::new(".")).to_owned()
}
