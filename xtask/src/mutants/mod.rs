//! Mutation testing: plants known defects in a copy of the tree, one at a time, and checks that the test of each fails.

mod changed;
mod copy;
mod findings;
mod judge;
mod options;
mod table;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail, ensure};
use judge::{Judge, Outcome};
pub(crate) use options::Options;
use rdd_stdx::process::foreground;
use table::Mutation;

/// A defect to plant, and the test that must fail with it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Mutant {
    name: String,
    change: Change,
    test: TestName,
}

/// A test of a test program.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct TestName {
    package: String,
    /// The test target: `lib`, `bin`, or the name of an integration test.
    target: String,
    /// The test's full name, including its modules.
    name: String,
}

/// How the defect is planted.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Change {
    /// Replaces a text that occurs exactly once in a file.
    Replace { file: String, text: &'static str, replacement: &'static str },
    /// Applies a patch.
    Patch { path: PathBuf, files: Vec<String> },
}

impl TestName {
    /// The package's folder, relative to the root.
    fn folder(&self) -> PathBuf {
        if self.package == "xtask" { PathBuf::from("xtask") } else { Path::new("crates").join(&self.package) }
    }

    /// The source files that contain the test function.
    fn sources(&self, root: &Path) -> Vec<PathBuf> {
        let below = match self.target.as_str() {
            "lib" | "bin" => self.folder().join("src"),
            name => self.folder().join("tests").join(name),
        };
        let declaration = format!("fn {}(", self.name.rsplit("::").next().unwrap_or_default());
        let mut files = copy::files_below(root, &below).unwrap_or_default();
        files.insert(below.with_extension("rs"));
        files.retain(|file| {
            file.extension().is_some_and(|extension| extension == "rs")
                && fs::read_to_string(root.join(file)).is_ok_and(|text| text.contains(&declaration))
        });
        files.into_iter().collect()
    }
}

impl From<&Mutation> for Mutant {
    fn from(row: &Mutation) -> Self {
        let file = format!("crates/{}/{}", row.package, row.file);
        Self {
            name: row.name.to_owned(),
            change: Change::Replace { file, text: row.text, replacement: row.replacement },
            test: TestName {
                package: row.package.to_owned(),
                target: row.target.to_owned(),
                name: row.caught_by.to_owned(),
            },
        }
    }
}

impl Mutant {
    /// The files that the defect changes.
    fn files(&self) -> Vec<&str> {
        match &self.change {
            Change::Replace { file, .. } => vec![file],
            Change::Patch { files, .. } => files.iter().map(String::as_str).collect(),
        }
    }

    fn matches(&self, filter: &str) -> bool {
        [&self.name, &self.test.package, &self.test.name].iter().any(|text| text.contains(filter))
    }

    /// Whether a change of these files might let the defect escape: its source file, its test or its patch is among them.
    fn is_touched(&self, root: &Path, changed: &BTreeSet<String>) -> bool {
        let patch = match &self.change {
            Change::Patch { path, .. } => path.strip_prefix(root).ok().map(Path::to_owned),
            Change::Replace { .. } => None,
        };
        let places = self.files().into_iter().map(PathBuf::from);
        places.chain(patch).chain(self.test.sources(root)).any(|path| changed.contains(&*path.to_string_lossy()))
    }

    /// Fails if the defect cannot be planted in the tree at `root`, or if its test is missing.
    fn check(&self, root: &Path) -> Result<()> {
        match &self.change {
            Change::Replace { file, text, replacement } => {
                let source = fs::read_to_string(root.join(file)).with_context(|| format!("read {file}"))?;
                replace_once(&source, text, replacement).with_context(|| format!("in {file}"))?;
            }
            Change::Patch { path, .. } => apply(root, path, &["--check"])?,
        }
        let TestName { package, target, name } = &self.test;
        ensure!(!self.test.sources(root).is_empty(), "test target {target:?} of {package} has no test {name}");
        Ok(())
    }

    /// Plants the defect in the copy. Returns the previous content of the files; `None` for a file that did not exist.
    fn plant(&self, tree: &Path) -> Result<Vec<(PathBuf, Option<Vec<u8>>)>> {
        let saved = self.files().into_iter().map(|file| tree.join(file)).map(|path| {
            let content = fs::read(&path).ok();
            (path, content)
        });
        let saved = saved.collect();
        match &self.change {
            Change::Replace { file, text, replacement } => {
                let path = tree.join(file);
                let source = fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
                let spoiled = replace_once(&source, text, replacement)?;
                fs::write(&path, spoiled).with_context(|| format!("write {}", path.display()))?;
            }
            Change::Patch { path, .. } => apply(tree, path, &[])?,
        }
        Ok(saved)
    }
}

fn replace_once(source: &str, text: &str, replacement: &str) -> Result<String> {
    let times = source.matches(text).count();
    ensure!(times == 1, "the text occurs {times} times and must occur once:\n{text}");
    Ok(source.replacen(text, replacement, 1))
}

/// Runs `git apply` in a folder that is a repository or a copy inside one.
fn apply(tree: &Path, patch: &Path, options: &[&str]) -> Result<()> {
    let output = foreground("git")
        .arg("apply")
        .args(options)
        .arg(patch)
        .current_dir(tree)
        // The copy is inside a repository. Without a ceiling, git would take the patch's paths as relative to that repository.
        .env("GIT_CEILING_DIRECTORIES", tree.parent().unwrap_or(tree))
        .output()
        .context("run git apply")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{} does not apply: {}", patch.display(), said.trim());
    Ok(())
}

/// All mutants: the rows of the table and the patches of findings.
fn all(root: &Path) -> Result<Vec<Mutant>> {
    let mut mutants: Vec<Mutant> = table::rows().map(Mutant::from).collect();
    mutants.extend(findings::read(root)?);
    Ok(mutants)
}

/// The problems of `cargo xtask tidy`: mutants that no longer fit the tree, which prove nothing.
pub(crate) fn check(root: &Path) -> Result<Vec<String>> {
    let mut names = BTreeSet::new();
    let mut problems = Vec::new();
    for mutant in all(root)? {
        if let Err(error) = mutant.check(root) {
            problems.push(format!("mutant {:?}: {error:#}", mutant.name));
        }
        if !names.insert(mutant.name.clone()) {
            problems.push(format!("two mutants are called {:?}", mutant.name));
        }
    }
    Ok(problems)
}

/// Tries the selected mutants. Returns whether none survived.
pub(crate) fn run(root: &Path, options: &Options) -> Result<bool> {
    let mut chosen = all(root)?;
    chosen.retain(|mutant| mutant.matches(&options.filter));
    ensure!(!chosen.is_empty(), "no mutant has {:?} in its name, package or test", options.filter);
    if options.only_changed {
        let changed = changed::files(root, options.base.as_deref())?;
        chosen.retain(|mutant| mutant.is_touched(root, &changed));
        println!("mutants: {} in the {} files that changed", chosen.len(), changed.len());
    }
    let problems = check(root)?;
    if !problems.is_empty() {
        bail!("{}", problems.join("\n"));
    }
    if chosen.is_empty() {
        return Ok(true);
    }
    let judge = Judge::prepare(root, options.at_most)?;
    let mut tally = Tally::default();
    for group in groups(chosen, changed::rotation(root)) {
        judge_group(&judge, &group, &mut tally)?;
    }
    Ok(tally.report(judge.elapsed().as_secs()))
}

/// Groups mutants by test program, so that each program is built once without a mutant.
///
/// If the time is too short for all, the rotation starts with another program for each commit.
fn groups(mutants: Vec<Mutant>, rotation: usize) -> Vec<Vec<Mutant>> {
    let mut groups: BTreeMap<(String, String), Vec<Mutant>> = BTreeMap::new();
    for mutant in mutants {
        groups.entry((mutant.test.package.clone(), mutant.test.target.clone())).or_default().push(mutant);
    }
    let mut groups: Vec<_> = groups.into_values().collect();
    let start = rotation % groups.len().max(1);
    groups.rotate_left(start);
    groups
}

/// Tries the mutants of one test program, after checking that their tests pass without a mutant.
fn judge_group(judge: &Judge, group: &[Mutant], tally: &mut Tally) -> Result<()> {
    let tests: BTreeSet<&TestName> = group.iter().map(|mutant| &mutant.test).collect();
    let sound = judge.find_failing(&tests)?;
    for mutant in group {
        let before = judge.elapsed();
        let outcome = match &sound {
            None => Outcome::NotTried,
            Some(failing) if failing.contains(&mutant.test) => Outcome::Unsound,
            Some(_) => judge.try_mutant(mutant)?,
        };
        let took = judge.elapsed().saturating_sub(before).as_secs();
        if outcome != Outcome::NotTried {
            println!("{outcome:<14} {took:>4} s  {}: {}", mutant.test.package, mutant.name);
        }
        tally.0.push((outcome, mutant.clone()));
    }
    Ok(())
}

/// The results of all mutants.
#[derive(Debug, Default)]
struct Tally(Vec<(Outcome, Mutant)>);

impl Tally {
    /// Prints the results. Returns whether no mutant escaped; one that was not tried did not escape.
    fn report(&self, seconds: u64) -> bool {
        let count = |wanted: fn(&Outcome) -> bool| self.0.iter().filter(|(outcome, _)| wanted(outcome)).count();
        let caught = count(Outcome::is_caught);
        let untried = count(|outcome| *outcome == Outcome::NotTried);
        println!("mutants: {caught} of {} caught in {seconds} s", self.0.len() - untried);
        if untried > 0 {
            println!("mutants: no time for {untried}, which is not a failure:");
        }
        for (outcome, mutant) in self.0.iter().filter(|(outcome, _)| !outcome.is_caught()) {
            let TestName { package, target, name } = &mutant.test;
            println!(
                "{outcome}: {} ({}); its test is {package} {target} {name}",
                mutant.name,
                mutant.files().join(", ")
            );
        }
        caught + untried == self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mutant(package: &str, target: &str, file: &str) -> Mutant {
        Mutant {
            name: format!("{package} {target} {file}"),
            change: Change::Replace { file: file.to_owned(), text: "a", replacement: "b" },
            test: TestName { package: package.to_owned(), target: target.to_owned(), name: "m::t".to_owned() },
        }
    }

    // Finding A-11: a mutant whose source text or test is gone proves nothing and must be noticed.
    #[test]
    fn every_mutant_fits_the_tree() {
        assert_eq!(check(&crate::workspace_root()).unwrap(), Vec::<String>::new());
    }

    // Finding A-11: git silently skips what a patch changes outside the current folder, and succeeds.
    #[test]
    fn a_patch_is_planted_in_a_copy_inside_of_a_repository() {
        let root = tempfile::tempdir().unwrap();
        let tree = root.path().join("target/mutants/tree");
        fs::create_dir_all(&tree).unwrap();
        let made = foreground("git").args(["init", "--quiet"]).current_dir(root.path()).status().unwrap();
        assert!(made.success());
        // If git resolved the paths in the outer repository, it would find the same file there.
        for folder in [root.path(), &tree] {
            fs::write(folder.join("f"), "a\n").unwrap();
        }
        let patch = root.path().join("X.patch");
        fs::write(&patch, "diff --git a/f b/f\n--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n").unwrap();
        let plain = mutant("p", "one", "f");
        let change = Change::Patch { path: patch, files: vec!["f".to_owned()] };
        let saved = Mutant { change, ..plain }.plant(&tree).unwrap();
        assert_eq!(saved, [(tree.join("f"), Some(b"a\n".to_vec()))]);
        assert_eq!(fs::read_to_string(tree.join("f")).unwrap(), "b\n");
        assert_eq!(fs::read_to_string(root.path().join("f")).unwrap(), "a\n", "the repository stays as it is");
    }

    #[test]
    fn a_text_that_is_gone_or_is_there_twice_is_refused() {
        assert_eq!(replace_once("abc", "b", "x").unwrap(), "axc");
        for source in ["ac", "abbc"] {
            let error = replace_once(source, "b", "x").unwrap_err().to_string();
            assert!(error.contains("must occur once"), "{error}");
        }
    }

    #[test]
    fn the_table_has_eighty_slips_over_all_layers() {
        assert!(table::rows().count() >= 80, "{} rows", table::rows().count());
        let packages: BTreeSet<&str> = table::rows().map(|row| row.package).collect();
        for package in [
            "rdd-store",
            "rdd-kubeconfig",
            "rdd-controllers",
            "rdd-driver",
            "rdd-apiserver",
            "rdd-runtime",
            "rdd-builtin",
            "rdd-websocket",
            "rdd-yq",
        ] {
            assert!(packages.contains(package), "no slip of {package}");
        }
        assert!(packages.len() >= 18, "{packages:?}");
    }

    #[test]
    fn a_mutant_is_touched_by_its_place_its_patch_and_its_test() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        let tests = root.join("crates/p/tests");
        fs::create_dir_all(&tests).unwrap();
        fs::write(tests.join("one.rs"), "#[test]\nfn t() {}\n").unwrap();
        let plain = mutant("p", "one", "crates/p/src/lib.rs");
        let path = root.join("xtask/mutants/findings/X.patch");
        let patched = Mutant { change: Change::Patch { path, files: vec!["f".to_owned()] }, ..plain.clone() };
        for (mutant, file, expected) in [
            (&plain, "crates/p/src/lib.rs", true),
            (&plain, "crates/p/tests/one.rs", true),
            (&plain, "crates/p/src/other.rs", false),
            (&patched, "xtask/mutants/findings/X.patch", true),
            (&patched, "f", true),
        ] {
            assert_eq!(mutant.is_touched(root, &BTreeSet::from([file.to_owned()])), expected, "{file}");
        }
    }

    #[test]
    fn groups_have_one_test_program_each_and_are_rotated() {
        let mutants = || vec![mutant("a", "lib", "1"), mutant("b", "lib", "2"), mutant("a", "lib", "3")];
        let sizes = |rotation| groups(mutants(), rotation).iter().map(Vec::len).collect::<Vec<_>>();
        assert_eq!((sizes(0), sizes(1), sizes(2)), (vec![2, 1], vec![1, 2], vec![2, 1]));
        assert!(groups(Vec::new(), 3).is_empty());
    }

    #[test]
    fn a_survivor_fails_the_run_and_a_lack_of_time_does_not() {
        for (outcome, passes) in [
            (Outcome::Caught, true),
            (Outcome::CaughtByTimeout, true),
            (Outcome::NotTried, true),
            (Outcome::Survived, false),
            (Outcome::Unsound, false),
            (Outcome::NotBuilt, false),
        ] {
            let tally = Tally(vec![(Outcome::Caught, mutant("a", "lib", "1")), (outcome, mutant("a", "lib", "2"))]);
            assert_eq!(tally.report(1), passes, "{outcome:?}");
        }
    }
}
