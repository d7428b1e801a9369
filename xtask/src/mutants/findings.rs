//! Reads the patches that reintroduce fixed defects: `xtask/mutants/findings/<ID>.patch`.
//!
//! The first line names the test that must fail: `# package: rdd-controllers; test: vm findings_236::name`, where `vm` is the test target
//! (`lib`, `bin` or an integration test). The rest is the output of `git diff`.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, ensure};

use super::{Change, Mutant, TestName};

const FOLDER: &str = "xtask/mutants/findings";

/// Reads all patches, sorted by name. Without the folder there are none.
pub(super) fn read(root: &Path) -> Result<Vec<Mutant>> {
    let folder = root.join(FOLDER);
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    let entries = fs::read_dir(&folder).with_context(|| format!("list {FOLDER}"))?;
    let paths: Result<Vec<PathBuf>, _> = entries.map(|entry| entry.map(|entry| entry.path())).collect();
    let mut paths = paths.with_context(|| format!("list {FOLDER}"))?;
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "patch"));
    paths.sort();
    paths.into_iter().map(read_patch).collect()
}

fn read_patch(path: PathBuf) -> Result<Mutant> {
    let text = fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let name = format!("finding {stem}");
    parse(name, path.clone(), &text).with_context(|| format!("read {}", path.display()))
}

fn parse(name: String, path: PathBuf, text: &str) -> Result<Mutant> {
    let header = text.lines().next().unwrap_or_default();
    let test = parse_header(header).with_context(|| {
        format!("the first line must be `# package: PACKAGE; test: TARGET FULL_NAME`, and is {header:?}")
    })?;
    let files = patched_files(text);
    ensure!(!files.is_empty(), "the patch changes no file");
    Ok(Mutant { name, change: Change::Patch { path, files }, test })
}

fn parse_header(line: &str) -> Option<TestName> {
    let (package, test) = line.strip_prefix("# package:")?.split_once("; test:")?;
    let (target, name) = test.trim().split_once(' ')?;
    let words = [package, target, name].map(|word| word.trim().to_owned());
    let is_word = |word: &String| !word.is_empty() && !word.contains(' ');
    let [package, target, name] = words.iter().all(is_word).then_some(words)?;
    Some(TestName { package, target, name })
}

/// The files that a patch changes, creates or removes, each once.
fn patched_files(text: &str) -> Vec<String> {
    let mut files = Vec::new();
    for line in text.lines() {
        let side = line.strip_prefix("--- a/").or_else(|| line.strip_prefix("+++ b/"));
        if let Some(file) = side.map(|file| file.trim_end().to_owned())
            && !files.contains(&file)
        {
            files.push(file);
        }
    }
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    const BODY: &str = "diff --git a/f b/f\n--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n--- /dev/null\n+++ b/new\n";

    #[test]
    fn the_header_names_package_target_and_test() {
        let text = format!("# package: rdd-controllers; test: vm findings_236::name\n{BODY}");
        let mutant = parse("finding X".to_owned(), "X.patch".into(), &text).unwrap();
        let TestName { package, target, name } = mutant.test.clone();
        assert_eq!([package.as_str(), &target, &name], ["rdd-controllers", "vm", "findings_236::name"]);
        assert_eq!(mutant.files(), ["f", "new"]);
    }

    #[test]
    fn a_patch_without_a_header_or_a_file_is_refused_with_the_form_of_the_header() {
        for header in ["", "# package: a", "# package: a; test: lib", "# package: a; test: lib b c"] {
            let error = parse("x".to_owned(), "x".into(), &format!("{header}\n{BODY}")).unwrap_err().to_string();
            assert!(error.contains("# package: PACKAGE; test: TARGET FULL_NAME"), "{error}");
        }
        assert!(parse("x".to_owned(), "x".into(), "# package: a; test: lib b\n").is_err());
    }
}
