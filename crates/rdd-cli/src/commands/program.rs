//! Finds and runs other programs on PATH (kubectl, yq), never this program under another name.

use std::{
    ffi::{OsStr, OsString},
    fs,
    os::unix::{
        fs::{MetadataExt, PermissionsExt},
        process::CommandExt,
    },
    path::{Path, PathBuf},
};

use rdd_stdx::process;

use crate::{
    context::Context,
    report::{Failure, Outcome},
};

/// Replaces this process with the first program of that name on PATH that is not this program.
///
/// `variables` are added to its environment. Returns only on failure: if there is no such program, with `hints`, or if exec fails.
pub fn become_other(
    context: &Context<'_>,
    name: &str,
    args: &[OsString],
    variables: &[(&str, &OsStr)],
    hints: &[&str],
) -> Outcome {
    let program = locate(context, name)?.ok_or_else(|| missing(name, hints))?;
    become_program(context, &program, args, variables)
}

fn missing(name: &str, hints: &[&str]) -> Failure {
    let failure = Failure::message(format!("there is no {name} on PATH besides this program"));
    hints.iter().fold(failure, |failure, hint| failure.hint(*hint))
}

/// Finds the first program of that name on PATH that is not this program.
pub fn locate(context: &Context<'_>, name: &str) -> Outcome<Option<PathBuf>> {
    let ourselves = context.executable()?;
    let path = context.environment.path.as_deref().unwrap_or_default();
    Ok(find(path, name, &ourselves))
}

/// Replaces this process with a program, and passes on the chosen instance. Returns only if exec fails.
pub fn become_program(
    context: &Context<'_>,
    program: &Path,
    args: &[OsString],
    variables: &[(&str, &OsStr)],
) -> Outcome {
    let mut command = process::foreground(program);
    command.args(args).envs(variables.iter().copied());
    // A kubectl plugin or credential helper may run rdd again; it must use the same instance.
    if let Some(instance) = &context.environment.instance {
        command.env("RDD_INSTANCE", instance);
    }
    Err(Failure::caused(format!("run {}", program.display()), command.exec()))
}

/// Finds an executable on PATH. Links to this program, hard or symbolic, are skipped: they would run it again without end. Relative folders
/// are skipped too.
pub(super) fn find(path: &OsStr, name: &str, ourselves: &Path) -> Option<PathBuf> {
    std::env::split_paths(path)
        // A relative entry would run programs of the working folder.
        .filter(|folder| folder.is_absolute())
        .map(|folder| folder.join(name))
        .find(|candidate| is_executable(candidate) && !is_same(candidate, ourselves))
}

fn is_executable(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

fn is_same(one: &Path, other: &Path) -> bool {
    let identity = |path: &Path| fs::metadata(path).map(|meta| (meta.dev(), meta.ino())).ok();
    let resolved = |path: &Path| path.canonicalize().ok();
    (identity(one).is_some() && identity(one) == identity(other))
        || (resolved(one).is_some() && resolved(one) == resolved(other))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(folder: &Path, name: &str, mode: u32) -> PathBuf {
        fs::create_dir_all(folder).unwrap();
        let path = folder.join(name);
        fs::write(&path, "#!/bin/sh\n").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path
    }

    #[test]
    fn the_first_program_that_is_not_ourselves_is_taken() {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        let ourselves = program(&at("own"), "rdd", 0o755);
        for folder in ["symlink", "hardlink", "folder"] {
            fs::create_dir(at(folder)).unwrap();
        }
        std::os::unix::fs::symlink(&ourselves, at("symlink").join("kubectl")).unwrap();
        fs::hard_link(&ourselves, at("hardlink").join("kubectl")).unwrap();
        fs::create_dir(at("folder").join("kubectl")).unwrap();
        program(&at("plain"), "kubectl", 0o644);
        let real = program(&at("real"), "kubectl", 0o755);
        program(&at("later"), "kubectl", 0o755);

        let path = |folders: &[&str]| std::env::join_paths(folders.iter().map(|folder| at(folder))).unwrap();
        let everything = path(&["missing", "symlink", "hardlink", "folder", "plain", "real", "later"]);
        assert_eq!(find(&everything, "kubectl", &ourselves), Some(real));
        assert_eq!(find(&path(&["symlink", "hardlink", "plain"]), "kubectl", &ourselves), None);
        assert_eq!(find(OsStr::new(""), "kubectl", &ourselves), None);
        assert_eq!(find(OsStr::new("relative:."), "kubectl", &ourselves), None, "the working folder is not trusted");
    }

    #[test]
    fn a_missing_program_is_named_with_what_to_install() {
        let failure = missing("kubectl", &["install kubectl"]);
        assert_eq!(failure.text(), "there is no kubectl on PATH besides this program");
        assert_eq!(failure.hints(), ["install kubectl"]);
    }
}
