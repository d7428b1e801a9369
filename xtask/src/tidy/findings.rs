//! Checks that every test that docs/findings.md cites exists, and that every defect of the reviews has a patch that reintroduces it.

use std::{collections::BTreeSet, path::Path};

use super::File;

const LIST: &str = "docs/findings.md";
const PATCHES: &str = "xtask/mutants/findings";
/// The folders that contain tests.
const FOLDERS: &[&str] = &["crates/", "xtask/", "vm/", "conformance/"];
/// The minimum number of words of a test's name. A shorter name may also be a module, a suite or a field, so it is not checked.
const TEST_NAME_WORDS: usize = 4;
/// The prefixes of the reviews' ids; each of their defects has a patch.
const REVIEWS: &[&str] = &["236-", "295-", "355-", "361-", "O-"];

/// The problems: citations of tests that do not exist, and defects without a patch.
pub(super) fn check(files: &[File]) -> Vec<String> {
    let tree = Tree::index(files);
    let list = files.iter().find(|file| file.path == LIST).map_or("", |file| file.text.as_str());
    let mut problems = Vec::new();
    for row in list.lines().filter_map(Row::parse) {
        let missing = row.citations().filter(|citation| !tree.has(citation));
        problems.extend(missing.map(|citation| {
            format!("{LIST}: {} cites {}, which is not in the tree: name the test that is", row.id, citation.name())
        }));
        let without_patch = row.review_ids().filter(|id| !tree.patches.contains(id));
        problems.extend(without_patch.map(|id| format!("{LIST}: {id} has no patch {PATCHES}/{id}.patch")));
    }
    problems
}

/// A row of the table.
#[derive(Debug)]
struct Row<'a> {
    id: &'a str,
    tests: &'a str,
}

impl<'a> Row<'a> {
    /// Parses `| id | requirement | test | put back by |`; `None` for headings and other text.
    fn parse(line: &'a str) -> Option<Self> {
        let mut cells = line.strip_prefix("| ")?.split(" | ");
        let (id, tests) = (cells.next()?, cells.nth(1)?);
        (id != "id").then_some(Self { id, tests })
    }

    /// The tests and files that the row cites.
    fn citations(&self) -> impl Iterator<Item = Citation<'a>> {
        // Every second part is between backquotes.
        self.tests.split('`').skip(1).step_by(2).filter_map(Citation::parse)
    }

    /// The row's ids that come from reviews.
    fn review_ids(&self) -> impl Iterator<Item = &'a str> {
        self.id.split(", ").filter(|id| REVIEWS.iter().any(|review| id.starts_with(review)))
    }
}

/// A name between backquotes that can be checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Citation<'a> {
    /// A test function, with or without its modules.
    Function(&'a str),
    /// A module of tests, with its parent module; or all of a module, as in `engine::*`.
    Module(&'a str),
    /// A source file, by the end of its path.
    File(&'a str),
}

impl<'a> Citation<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        if text.ends_with(".rs") {
            return Some(Self::File(text));
        }
        let last = text.rsplit("::").next().unwrap_or(text);
        let is_name = !last.is_empty() && last.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_'));
        match last {
            "*" if text != last => Some(Self::Module(text)),
            _ if !is_name => None,
            _ if last == "tests" || last.ends_with("_tests") => Some(Self::Module(text)),
            _ if last.split('_').count() >= TEST_NAME_WORDS => Some(Self::Function(text)),
            _ => None,
        }
    }

    fn name(&self) -> &'a str {
        let (Self::Function(name) | Self::Module(name) | Self::File(name)) = self;
        name
    }
}

/// The names that can be cited.
#[derive(Debug, Default)]
struct Tree<'a> {
    functions: BTreeSet<&'a str>,
    modules: BTreeSet<&'a str>,
    files: BTreeSet<&'a str>,
    /// The ids that have a patch.
    patches: BTreeSet<&'a str>,
}

impl<'a> Tree<'a> {
    fn index(files: &'a [File]) -> Self {
        let mut tree = Self::default();
        for File { path, text } in files {
            if let Some(patch) = path.strip_prefix(PATCHES).and_then(|name| name.strip_prefix('/')) {
                tree.patches.extend(patch.strip_suffix(".patch"));
            }
            if !path.ends_with(".rs") || !FOLDERS.iter().any(|folder| path.starts_with(folder)) {
                continue;
            }
            tree.files.insert(path);
            tree.modules.extend(Path::new(path).file_stem().and_then(|stem| stem.to_str()));
            tree.modules.extend(declared(text, "mod "));
            tree.functions.extend(declared(text, "fn "));
        }
        tree
    }

    fn has(&self, citation: &Citation<'_>) -> bool {
        match citation {
            Citation::Function(path) => self.functions.contains(last_of(path)),
            Citation::Module(path) => path.split("::").all(|part| part == "*" || self.has_module(part)),
            // The name must begin at a folder of the path.
            Citation::File(name) => self
                .files
                .iter()
                .any(|file| file.strip_suffix(name).is_some_and(|before| before.is_empty() || before.ends_with('/'))),
        }
    }

    /// Whether there is a module or a folder of this name.
    fn has_module(&self, name: &str) -> bool {
        self.modules.contains(name) || self.files.iter().any(|file| file.split('/').any(|folder| folder == name))
    }
}

fn last_of(path: &str) -> &str {
    path.rsplit("::").next().unwrap_or(path)
}

/// The names that a text declares with this keyword, after visibility and qualifiers at the start of a line.
fn declared<'a>(text: &'a str, keyword: &'static str) -> impl Iterator<Item = &'a str> {
    let lines = text.lines().map(str::trim_start).filter(|line| !line.starts_with("//"));
    lines.filter_map(move |line| {
        let (before, after) = line.split_once(keyword)?;
        let is_declaration = before
            .split_whitespace()
            .all(|word| matches!(word, "async" | "const" | "unsafe" | "extern" | "pub") || word.starts_with("pub("));
        let end = after.find(|character: char| !character.is_alphanumeric() && character != '_');
        is_declaration.then(|| &after[..end.unwrap_or(after.len())])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "// fn a_test_in_a_comment() {}\n#[test]\nfn a_test_that_is_there() {}\nmod tests {\n    pub(crate) \
                          async fn a_rule_of_a_suite() {}\n}\nlet x = \"fn a_test_in_a_text() {}\";\n";

    fn tree(rows: &str) -> Vec<File> {
        let file = |path: &str, text: &str| File { path: path.to_owned(), text: text.to_owned() };
        vec![
            file(LIST, &format!("| id | requirement | test | put back by |\n|---|---|---|---|\n{rows}")),
            file("crates/rdd-x/src/unit.rs", SOURCE),
            file("crates/rdd-x/tests/gui/logs.rs", ""),
            file("xtask/mutants/findings/O-1.patch", ""),
        ]
    }

    fn problems(tests: &str) -> Vec<String> {
        check(&tree(&format!(
            "| A-1 | a `fn_that_is_no_test_at_all` | {tests} | drop `another_name_of_five_words` |\n"
        )))
    }

    #[test]
    fn tests_modules_and_files_that_are_there_may_be_cited() {
        for tests in [
            "`rdd-x` `unit::tests::a_test_that_is_there`, `a_rule_of_a_suite`; `make test-vm`, needs `RDD_TEST_K3S`",
            "`unit::tests` (all), `tests/gui/logs.rs`, `gui/logs.rs`, `logs.rs`, `gui::*`, `suite::cluster` (`started_at`)",
            "`xtask` (by hand)",
        ] {
            assert_eq!(problems(tests), Vec::<String>::new(), "{tests}");
        }
    }

    #[test]
    fn a_citation_that_leads_nowhere_is_a_problem_and_is_named() {
        for name in [
            "a_test_that_is_gone",
            "unit::tests::a_test_that_is_gone",
            "a_test_in_a_comment",
            "a_test_in_a_text",
            "a_test_that_is",
            "gone::tests",
            "gone::*",
            "ui/logs.rs",
            "gone.rs",
        ] {
            let found = problems(&format!("`a_test_that_is_there`, `{name}`"));
            assert_eq!(found.len(), 1, "{name}: {found:?}");
            assert!(found[0].starts_with(&format!("docs/findings.md: A-1 cites {name}, ")), "{found:?}");
        }
    }

    #[test]
    fn every_defect_of_the_reviews_has_a_patch() {
        let rows =
            "| O-1, 295-T1 | a | `a_test_that_is_there` | b |\n| A-1, issue 7 | a | `a_test_that_is_there` | b |\n";
        assert_eq!(check(&tree(rows)), ["docs/findings.md: 295-T1 has no patch xtask/mutants/findings/295-T1.patch"]);
    }
}
