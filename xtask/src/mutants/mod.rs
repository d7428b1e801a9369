//! Proof that the oracles bite: mutations of our code, planted one at a time in a copy of the tree, each of which must be noticed.

mod copy;
mod oracle;
mod table;

use std::{collections::BTreeSet, fs, path::Path};

use anyhow::{Context, Result, bail, ensure};
use oracle::{Oracle, Outcome};
use rdd_stdx::clock::SystemClock;
use table::MUTATIONS;

/// A slip that someone could make, and the test that compares with upstream and has to notice it.
#[derive(Debug)]
struct Mutation {
    /// What is wrong then.
    name: &'static str,
    /// The crate, whose test program `oracle` judges.
    package: &'static str,
    /// Below the crate's folder.
    file: &'static str,
    /// Occurs exactly once in the file.
    text: &'static str,
    replacement: &'static str,
    /// The full name of the test.
    caught_by: &'static str,
}

impl Mutation {
    fn path(&self) -> String {
        format!("crates/{}/{}", self.package, self.file)
    }

    /// The source with the mutation in it.
    fn plant(&self, source: &str) -> Result<String> {
        let times = source.matches(self.text).count();
        ensure!(
            times == 1,
            "mutation {:?}: its text occurs {times} times in {}, and must once:\n{}",
            self.name,
            self.path(),
            self.text
        );
        Ok(source.replacen(self.text, self.replacement, 1))
    }
}

/// Plants the mutations whose name, crate or test contains `filter`; whether all were caught.
pub(crate) fn run(root: &Path, filter: &str) -> Result<bool> {
    let chosen = |mutation: &&Mutation| {
        [mutation.name, mutation.package, mutation.caught_by].iter().any(|text| text.contains(filter))
    };
    let chosen: Vec<&Mutation> = MUTATIONS.iter().filter(chosen).collect();
    if chosen.is_empty() {
        bail!("no mutation has {filter:?} in it");
    }
    // All of the table is checked before the first of many builds.
    for mutation in MUTATIONS {
        let path = root.join(mutation.path());
        mutation.plant(&fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?)?;
    }
    let folder = root.join("target/mutants");
    let tree = folder.join("tree");
    copy::refresh(root, &tree)?;
    let clock = SystemClock::shared();
    let started = clock.steady();
    let mut survived = Vec::new();
    let packages: BTreeSet<&str> = chosen.iter().map(|mutation| mutation.package).collect();
    for package in packages {
        let oracle = Oracle { tree: &tree, target: folder.join("target"), log: folder.join("log"), package };
        let of_package = || chosen.iter().filter(|mutation| mutation.package == package);
        oracle.expect_no_objection(&of_package().map(|mutation| mutation.caught_by).collect())?;
        for mutation in of_package() {
            let before = clock.steady();
            let outcome = planted(&tree, mutation, &oracle)?;
            let took = clock.steady().saturating_sub(before).as_secs();
            println!("{outcome:<12} {took:>4} s  {package}: {}", mutation.name);
            if outcome == Outcome::Survived {
                survived.push(mutation);
            }
        }
    }
    let took = clock.steady().saturating_sub(started).as_secs();
    println!("mutants: {} of {} caught in {took} s", chosen.len() - survived.len(), chosen.len());
    for mutation in &survived {
        println!("survived: {} ({}), which {} should catch", mutation.name, mutation.path(), mutation.caught_by);
    }
    Ok(survived.is_empty())
}

/// What the oracle says of the tree with one mutation in it. The tree is put right again.
fn planted(tree: &Path, mutation: &Mutation, oracle: &Oracle<'_>) -> Result<Outcome> {
    let path = tree.join(mutation.path());
    let source = fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
    fs::write(&path, mutation.plant(&source)?).with_context(|| format!("write {}", path.display()))?;
    let outcome = oracle.judge(mutation.caught_by).with_context(|| format!("judge mutation {:?}", mutation.name));
    fs::write(&path, source).with_context(|| format!("restore {}", path.display()))?;
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mutation_still_has_a_place_in_the_source_and_a_test_to_catch_it() {
        let root = crate::workspace_root();
        let mut names = BTreeSet::new();
        for mutation in MUTATIONS {
            assert!(names.insert(mutation.name), "two mutations are called {:?}", mutation.name);
            let source = fs::read_to_string(root.join(mutation.path())).expect("the file is there");
            assert_ne!(mutation.plant(&source).expect("it can be planted"), source, "{}", mutation.name);
            let tests = root.join("crates").join(mutation.package).join("tests/oracle");
            let (module, test) = mutation.caught_by.rsplit_once("::").unwrap_or(("main", mutation.caught_by));
            let judge = fs::read_to_string(tests.join(format!("{module}.rs"))).expect("the judge is there");
            let declared = format!("#[test]\nfn {test}(");
            assert!(judge.contains(&declared), "{}: no test {test} in {module}.rs", mutation.name);
        }
    }

    #[test]
    fn the_table_is_long_enough_and_touches_every_crate_that_an_oracle_judges() {
        assert!(MUTATIONS.len() >= 20);
        let packages: BTreeSet<&str> = MUTATIONS.iter().map(|mutation| mutation.package).collect();
        assert_eq!(packages, BTreeSet::from(["rdd-cel", "rdd-patch", "rdd-schema"]));
    }

    #[test]
    fn a_text_that_is_gone_or_is_there_twice_is_refused() {
        let mutation = &MUTATIONS[0];
        for source in [String::new(), mutation.text.repeat(2)] {
            let error = mutation.plant(&source).expect_err("it has no one place").to_string();
            assert!(error.contains(mutation.name), "{error}");
        }
    }
}
