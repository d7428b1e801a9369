//! A copy of the tree that can be spoiled: what git knows or would know, and nothing that is newer than it has to be.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, ensure};
use rdd_stdx::process::foreground;

/// Makes `tree` equal to the sources below `root`. A file that is right already keeps its time, so that little is built again.
pub(super) fn refresh(root: &Path, tree: &Path) -> Result<()> {
    let wanted = sources(root)?;
    for file in &wanted {
        let content = fs::read(root.join(file)).with_context(|| format!("read {}", file.display()))?;
        let target = tree.join(file);
        if fs::read(&target).is_ok_and(|present| present == content) {
            continue;
        }
        if let Some(folder) = target.parent() {
            fs::create_dir_all(folder).with_context(|| format!("make {}", folder.display()))?;
        }
        fs::write(&target, content).with_context(|| format!("write {}", target.display()))?;
    }
    for file in present(tree, Path::new(""))?.difference(&wanted) {
        fs::remove_file(tree.join(file)).with_context(|| format!("remove {}", file.display()))?;
    }
    Ok(())
}

/// Every file that is tracked, or would be if it were added.
fn sources(root: &Path) -> Result<BTreeSet<PathBuf>> {
    let listed = foreground("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root)
        .output()
        .context("run git")?;
    ensure!(listed.status.success(), "git cannot list the tree: {}", String::from_utf8_lossy(&listed.stderr));
    let names = String::from_utf8(listed.stdout).context("read what git says")?;
    let files = names.split('\0').filter(|name| !name.is_empty()).map(PathBuf::from);
    // A file that was deleted and not yet committed is listed too.
    Ok(files.filter(|file| root.join(file).is_file()).collect())
}

/// The files in a copy, relative to it.
fn present(tree: &Path, below: &Path) -> Result<BTreeSet<PathBuf>> {
    let mut files = BTreeSet::new();
    let folder = tree.join(below);
    for entry in fs::read_dir(&folder).with_context(|| format!("list {}", folder.display()))? {
        let entry = entry.with_context(|| format!("list {}", folder.display()))?;
        let path = below.join(entry.file_name());
        if entry.path().is_dir() {
            files.extend(present(tree, &path)?);
        } else {
            files.insert(path);
        }
    }
    Ok(files)
}
