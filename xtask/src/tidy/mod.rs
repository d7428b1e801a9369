//! `cargo xtask tidy`: checks that neither the compiler nor clippy makes.

mod findings;
mod layers;
mod longest;
mod manifests;
mod packages;
mod sources;

use std::{fs, path::Path};

use anyhow::{Context, Result, ensure};
use cargo_metadata::MetadataCommand;
use rdd_stdx::process::foreground;

/// A text file of the workspace.
#[derive(Debug, Clone)]
pub(crate) struct File {
    pub(crate) path: String,
    pub(crate) text: String,
}

/// Runs all checks. Returns whether all passed.
pub(crate) fn run(root: &Path) -> Result<bool> {
    let metadata = MetadataCommand::new().current_dir(root).other_options(vec!["--locked".to_owned()]).exec();
    let metadata = metadata.context("read cargo metadata (is Cargo.lock current?)")?;
    let files = files(root)?;
    let policy = packages::Policy::parse(&text_of(root, "deny.toml")?)?;

    let mut problems = layers::check(&layers::Graph::from_metadata(&metadata), layers::RULES);
    problems.extend(manifests::check(&files));
    problems.extend(sources::check(&files));
    problems.extend(findings::check(&files));
    problems.extend(packages::check(&packages::from_metadata(&metadata), &policy));
    problems.extend(crate::api_reference::check(root)?);
    problems.extend(crate::env_reference::check(root));
    problems.extend(crate::mutants::check(root)?);
    for line in longest::report(&files) {
        println!("{line}");
    }
    report(&problems)
}

/// Prints the problems. Returns whether there are none.
pub(crate) fn report(problems: &[String]) -> Result<bool> {
    for problem in problems {
        eprintln!("tidy: {problem}");
    }
    match problems.len() {
        0 => println!("tidy: all checks passed"),
        count => eprintln!("tidy: {count} problems"),
    }
    Ok(problems.is_empty())
}

/// All text files that git tracks, or would track if they were added.
pub(crate) fn files(root: &Path) -> Result<Vec<File>> {
    let listing = foreground("git").current_dir(root).args(["ls-files", "-z", "-co", "--exclude-standard"]).output();
    let listing = listing.context("list files with git")?;
    ensure!(listing.status.success(), "git ls-files: {}", String::from_utf8_lossy(&listing.stderr).trim());
    let mut files = Vec::new();
    for path in String::from_utf8_lossy(&listing.stdout).split('\0').filter(|path| !path.is_empty()) {
        // Skips files that were removed, symbolic links and binary files.
        let is_file = root.join(path).symlink_metadata().is_ok_and(|meta| meta.is_file());
        if let Some(text) = is_file.then(|| fs::read_to_string(root.join(path)).ok()).flatten() {
            files.push(File { path: path.to_owned(), text });
        }
    }
    Ok(files)
}

fn text_of(root: &Path, name: &str) -> Result<String> {
    fs::read_to_string(root.join(name)).with_context(|| format!("read {name}"))
}
