//! Finds the files that a change touches, with git.

use std::{collections::BTreeSet, path::Path};

use anyhow::{Context, Result, ensure};
use rdd_stdx::process::foreground;

/// The branches that a change is compared with if no base is given, in this order.
const MAIN_BRANCHES: &[&str] = &["origin/HEAD", "origin/main", "main"];

/// The files that differ from the base, whether committed or not.
///
/// Without a given base, it is the point where the branch left the main branch; on the main branch itself, the commit before HEAD. In a
/// clone with a single commit, every file counts as changed.
pub(super) fn files(root: &Path, base: Option<&str>) -> Result<BTreeSet<String>> {
    let listed = match find_base(root, base)? {
        Some(base) => git(root, &["diff", "--name-only", "--no-renames", &base])?,
        None => git(root, &["ls-files"])?,
    };
    let untracked = git(root, &["ls-files", "--others", "--exclude-standard"])?;
    Ok(listed.lines().chain(untracked.lines()).map(str::to_owned).collect())
}

/// A number that varies with the commit.
pub(super) fn rotation(root: &Path) -> usize {
    let head = git(root, &["rev-parse", "HEAD"]).unwrap_or_default();
    usize::from_str_radix(head.get(..6).unwrap_or_default(), 16).unwrap_or_default()
}

fn find_base(root: &Path, given: Option<&str>) -> Result<Option<String>> {
    if let Some(given) = given {
        let found = merge_base(root, given);
        ensure!(found.is_some(), "no common ancestor of HEAD and {given}: is the clone deep enough?");
        return Ok(found);
    }
    let head = resolve(root, "HEAD").context("find HEAD")?;
    let bases = MAIN_BRANCHES.iter().filter_map(|branch| merge_base(root, branch));
    // On the main branch, the merge base is HEAD itself.
    Ok(bases.into_iter().find(|base| *base != head).or_else(|| resolve(root, "HEAD~1")))
}

fn merge_base(root: &Path, revision: &str) -> Option<String> {
    git(root, &["merge-base", revision, "HEAD"]).ok().map(|text| text.trim().to_owned())
}

fn resolve(root: &Path, revision: &str) -> Option<String> {
    let commit = format!("{revision}^{{commit}}");
    git(root, &["rev-parse", "--verify", "--quiet", &commit]).ok().map(|text| text.trim().to_owned())
}

fn git(root: &Path, arguments: &[&str]) -> Result<String> {
    let output = foreground("git").args(arguments).current_dir(root).output().context("run git")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "git {}: {}", arguments.join(" "), said.trim());
    String::from_utf8(output.stdout).context("read the output of git")
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// A repository with one commit per name, each of which adds a file with that name.
    fn repository(commits: &[&str]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        git(folder.path(), &["init", "--quiet", "--initial-branch=main"]).unwrap();
        for (name, value) in [("user.name", "t"), ("user.email", "t@example.invalid"), ("commit.gpgsign", "false")] {
            git(folder.path(), &["config", name, value]).unwrap();
        }
        for name in commits {
            commit(folder.path(), name);
        }
        folder
    }

    fn commit(root: &Path, name: &str) {
        fs::write(root.join(name), name).unwrap();
        git(root, &["add", "."]).unwrap();
        git(root, &["commit", "--quiet", "--message", name]).unwrap();
    }

    fn names(root: &Path, base: Option<&str>) -> Vec<String> {
        files(root, base).unwrap().into_iter().collect()
    }

    // Finding A-11
    #[test]
    fn a_change_is_what_differs_from_the_main_branch_or_the_last_commit() {
        let folder = repository(&["one"]);
        let root = folder.path();
        assert_eq!(names(root, None), ["one"], "the only commit");
        commit(root, "two");
        assert_eq!(names(root, None), ["two"], "the last commit of the main branch");
        git(root, &["checkout", "--quiet", "-b", "topic"]).unwrap();
        commit(root, "three");
        commit(root, "four");
        assert_eq!(names(root, None), ["four", "three"], "the branch");
        assert_eq!(names(root, Some("HEAD~1")), ["four"], "against a base");
        fs::write(root.join("five"), "").unwrap();
        fs::write(root.join("one"), "changed").unwrap();
        assert_eq!(names(root, Some("HEAD~1")), ["five", "four", "one"], "what is not committed counts");
        assert!(files(root, Some("nowhere")).is_err());
        assert_ne!(rotation(root), 0);
    }
}
