//! Checks the form of every source file: the opening sentence, line ends and forbidden text.

use super::File;

/// A text that must not occur. It is assembled from parts, so that this file does not contain it.
struct Forbidden {
    text: &'static str,
    only_rust: bool,
    reason: &'static str,
}

const FORBIDDEN: &[Forbidden] = &[
    Forbidden {
        text: concat!("#[ig", "nore"),
        only_rust: true,
        reason: "a test that nobody runs: gate it by rdd_testkit::capability",
    },
    Forbidden { text: concat!("to", "do!("), only_rust: true, reason: "unfinished" },
    Forbidden { text: concat!("unim", "plemented!("), only_rust: true, reason: "unfinished" },
    Forbidden { text: concat!("TO", "DO"), only_rust: false, reason: "finish it, or file it where it is seen" },
    Forbidden { text: concat!("FIX", "ME"), only_rust: false, reason: "fix it, or file it where it is seen" },
];

/// Files whose text is generated.
const GENERATED: &[&str] = &["Cargo.lock"];

/// The problems, each with file and line.
pub(super) fn check(files: &[File]) -> Vec<String> {
    let ours = files.iter().filter(|file| !GENERATED.contains(&file.path.as_str()) && !is_recorded(&file.path));
    ours.flat_map(|file| check_one(&file.path, &file.text)).collect()
}

/// Whether a file contains recorded output of other programs, which must not be changed.
fn is_recorded(path: &str) -> bool {
    path.contains("/golden/")
}

fn check_one(path: &str, text: &str) -> Vec<String> {
    let is_rust = path.ends_with(".rs");
    let mut problems = Vec::new();
    if is_rust && !text.starts_with("//! ") {
        problems.push(format!("{path}:1: does not open with a `//!` sentence that says what the file is for"));
    }
    if !text.is_empty() && !text.ends_with('\n') {
        problems.push(format!("{path}: does not end with a line break"));
    }
    // In a patch, an empty context line consists of one space.
    let is_patch = path.ends_with(".patch");
    for (number, line) in (1..).zip(text.lines()) {
        if line.ends_with([' ', '\t']) && !is_patch {
            problems.push(format!("{path}:{number}: trailing white space"));
        }
        for forbidden in FORBIDDEN.iter().filter(|forbidden| is_rust || !forbidden.only_rust) {
            if line.contains(forbidden.text) {
                problems.push(format!("{path}:{number}: {}: {}", forbidden.text, forbidden.reason));
            }
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_violation_is_found_with_its_place() {
        let table = [
            ("a.rs", "fn main() {}\n".to_owned(), "a.rs:1: does not open"),
            ("a.rs", format!("//! A.\n{}]\n", FORBIDDEN[0].text), "a.rs:2: #[ig"),
            ("a.rs", format!("//! A.\n{})\n", FORBIDDEN[1].text), "unfinished"),
            ("a.rs", format!("//! A.\n{})\n", FORBIDDEN[2].text), "unfinished"),
            ("a.md", format!("{}\n", FORBIDDEN[3].text), "finish it"),
            ("Makefile", format!("# {}\n", FORBIDDEN[4].text), "fix it"),
            ("a.md", "x \n".to_owned(), "a.md:1: trailing white space"),
            ("a.md", "x".to_owned(), "does not end with a line break"),
        ];
        for (path, text, expected) in table {
            let problems = check_one(path, &text);
            assert!(problems.len() == 1 && problems[0].contains(expected), "{expected:?} not in {problems:?}");
        }
    }

    #[test]
    fn a_clean_file_passes_and_a_generated_one_is_left_alone() {
        assert_eq!(check_one("a.rs", "//! A file.\n\nfn a() {}\n"), [""; 0]);
        let lock = File { path: "Cargo.lock".to_owned(), text: FORBIDDEN[3].text.to_owned() };
        assert!(check(&[lock]).is_empty());
    }
}
