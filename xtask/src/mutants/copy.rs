//! Copies the tree and its target folder, so that mutants can be planted and built quickly.
//!
//! Cargo identifies a workspace package by its path below the workspace, and checks files by their modification times. A copy of the
//! sources with the same times therefore finds everything fresh in a copy of the target folder, and only mutated packages are built again.

use std::{
    collections::BTreeSet,
    fs::{self, File},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, ensure};
use rdd_stdx::process::foreground;

/// Copies the sources below `root` to `tree`, with their modification times.
pub(super) fn copy_sources(root: &Path, tree: &Path) -> Result<()> {
    for file in sources(root)? {
        copy_file(&root.join(&file), &tree.join(&file))?;
    }
    Ok(())
}

/// Fills `target` with the dev profile's artifacts from `built`: hard links for files that are never rewritten, copies for the others.
pub(super) fn seed_target(built: &Path, target: &Path) -> Result<()> {
    let (from, to) = (built.join("debug"), target.join("debug"));
    for folder in [".fingerprint", "build", "deps", "incremental"] {
        for file in files_below(&from, Path::new(folder)).unwrap_or_default() {
            match seeding(&file) {
                Seeding::Skip => {}
                Seeding::Link => link_file(&from.join(&file), &to.join(&file))?,
                Seeding::Copy => copy_file(&from.join(&file), &to.join(&file))?,
            }
        }
    }
    Ok(())
}

/// How a file gets from one target folder into the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Seeding {
    Skip,
    /// The file is never written in place, only replaced as a whole.
    Link,
    Copy,
}

fn seeding(file: &Path) -> Seeding {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    // Cargo writes or locks these files in place.
    let is_lock = file.extension().is_some_and(|extension| extension == "lock");
    if file.starts_with(".fingerprint") || is_lock || (file.starts_with("build") && file.extension().is_none()) {
        return Seeding::Copy;
    }
    if !file.starts_with("deps") {
        return Seeding::Link;
    }
    let is_ours =
        ["librdd", "rdd", "libxtask", "xtask", "libexample", "example"].iter().any(|own| name.starts_with(own));
    match file.extension().and_then(|extension| extension.to_str()) {
        Some("rlib" | "rmeta" | "d") if is_ours => Seeding::Copy,
        // Programs are large and built again anyway, and some linkers write into the existing file.
        None | Some("o") => Seeding::Skip,
        _ => Seeding::Link,
    }
}

fn make_parent(path: &Path) -> Result<()> {
    let parent = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(parent).with_context(|| format!("make {}", parent.display()))
}

fn link_file(from: &Path, to: &Path) -> Result<()> {
    // The target folder may be on another file system.
    make_parent(to)?;
    if fs::hard_link(from, to).is_ok() { Ok(()) } else { copy_file(from, to) }
}

fn copy_file(from: &Path, to: &Path) -> Result<()> {
    make_parent(to)?;
    fs::copy(from, to).with_context(|| format!("copy {} to {}", from.display(), to.display()))?;
    let modified = fs::metadata(from).and_then(|meta| meta.modified());
    let kept = modified.and_then(|time| File::options().append(true).open(to)?.set_modified(time));
    // A read-only file keeps the time of the copy; at worst, cargo builds once more.
    if !fs::metadata(to).is_ok_and(|meta| meta.permissions().readonly()) {
        kept.with_context(|| format!("set the time of {}", to.display()))?;
    }
    Ok(())
}

/// The paths of all files that are tracked, or would be if they were added.
fn sources(root: &Path) -> Result<BTreeSet<PathBuf>> {
    let listed = foreground("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root)
        .output()
        .context("run git")?;
    ensure!(listed.status.success(), "git cannot list the tree: {}", String::from_utf8_lossy(&listed.stderr));
    let names = String::from_utf8(listed.stdout).context("read what git says")?;
    let files = names.split('\0').filter(|name| !name.is_empty()).map(PathBuf::from);
    // Git also lists files that were deleted but not committed.
    Ok(files.filter(|file| root.join(file).is_file()).collect())
}

/// All files below a folder of `root`, relative to `root`.
pub(super) fn files_below(root: &Path, below: &Path) -> Result<BTreeSet<PathBuf>> {
    let mut files = BTreeSet::new();
    let folder = root.join(below);
    for entry in fs::read_dir(&folder).with_context(|| format!("list {}", folder.display()))? {
        let entry = entry.with_context(|| format!("list {}", folder.display()))?;
        let path = below.join(entry.file_name());
        if entry.path().is_dir() {
            files.extend(files_below(root, &path)?);
        } else {
            files.insert(path);
        }
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_never_rewritten_in_place_is_linked() {
        for (file, expected) in [
            ("deps/libtokio-1.rlib", Seeding::Link),
            ("deps/librdd_store-1.rlib", Seeding::Copy),
            ("deps/rdd_store-1.d", Seeding::Copy),
            ("deps/contract-1", Seeding::Skip),
            ("deps/rdd_store-1", Seeding::Skip),
            ("deps/rdd_store-1.rcgu.o", Seeding::Skip),
            (".fingerprint/rdd-store-1/lib-rdd_store", Seeding::Copy),
            ("build/ring-1/output", Seeding::Copy),
            ("build/ring-1/out/libring.a", Seeding::Link),
            ("incremental/rdd_store-1/s-1.lock", Seeding::Copy),
            ("incremental/rdd_store-1/s-1/dep-graph.bin", Seeding::Link),
        ] {
            assert_eq!(seeding(Path::new(file)), expected, "{file}");
        }
    }

    #[test]
    fn a_copy_has_the_time_of_its_source() {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("a"), folder.path().join("new/b"));
        fs::write(&from, "x").unwrap();
        let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000);
        File::options().append(true).open(&from).unwrap().set_modified(time).unwrap();
        copy_file(&from, &to).unwrap();
        assert_eq!(fs::metadata(&to).unwrap().modified().unwrap(), time);
    }
}
