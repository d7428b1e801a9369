//! `cargo xtask words`: measures how the code names and comments things, and prints the figures beside their goals.

use std::{collections::BTreeMap, path::Path};

use anyhow::Result;

use crate::tidy::{File, files};

/// Words of a narrator; a technical text names the actor instead.
const NARRATION: &[&str] = &["told", "tell", "tells", "say", "says", "said", "saying"];
/// Indefinite pronouns for persons; a technical text names the actor instead.
const PERSONS: &[&str] = &["nobody", "somebody", "whoever", "anybody", "everybody"];
/// Crates that only tests and developers use; they are not measured.
const KITS: &[&str] = &["rdd-bench", "rdd-e2e", "rdd-fuzz", "rdd-testkit"];

/// Prints the table; with `verbose`, also the places behind the figures.
pub(crate) fn run(root: &Path, verbose: bool) -> Result<bool> {
    let sources = files(root)?;
    let mut total = WordCounts::default();
    for file in sources.iter().filter(|file| is_product(&file.path)) {
        total.add(file);
    }
    for line in total.table() {
        println!("{line}");
    }
    if verbose {
        for line in total.places() {
            println!("{line}");
        }
    }
    Ok(true)
}

/// Whether a file is product code, not part of its tests or tools.
fn is_product(path: &str) -> bool {
    let Some((name, inside)) = path.strip_prefix("crates/").and_then(|rest| rest.split_once("/src/")) else {
        return false;
    };
    let is_test = inside.split('/').any(|part| {
        let stem = part.trim_end_matches(".rs");
        matches!(stem, "tests" | "testing" | "fixture" | "suite") || stem.ends_with("_tests")
    });
    inside.ends_with(".rs") && !is_test && !KITS.contains(&name)
}

/// The kind of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LineKind<'a> {
    /// A doc comment (`///` or `//!`), with its text.
    Doc(&'a str),
    /// A comment on its own line, with its text.
    Comment(&'a str),
    /// Code, with the text of a comment at its end, if any.
    Code(&'a str, Option<&'a str>),
    Blank,
}

fn classify(line: &str) -> LineKind<'_> {
    let body = line.trim();
    if body.is_empty() {
        return LineKind::Blank;
    }
    if let Some(text) = body.strip_prefix("///").or_else(|| body.strip_prefix("//!")) {
        return LineKind::Doc(text);
    }
    if let Some(text) = body.strip_prefix("//") {
        return LineKind::Comment(text);
    }
    // A ` // ` inside a string is not a comment; an odd number of quotes before it reveals that.
    match body.split_once(" // ") {
        Some((code, text)) if code.matches('"').count() % 2 == 0 => LineKind::Code(code, Some(text)),
        _ => LineKind::Code(body, None),
    }
}

/// The counts over all files.
#[derive(Debug, Default)]
struct WordCounts {
    code_lines: usize,
    inline_comments: usize,
    comment_words: usize,
    narration: Vec<String>,
    persons: Vec<String>,
    closures: Vec<String>,
    doc_blocks: usize,
    doc_words: usize,
    types: BTreeMap<String, Vec<String>>,
}

impl WordCounts {
    fn add(&mut self, file: &File) {
        let mut is_in_doc = false;
        for (number, line) in (1..).zip(product_lines(&file.text)) {
            let place = || format!("{}:{number}", file.path);
            let kind = classify(line);
            if let LineKind::Doc(text) = kind {
                self.doc_blocks += usize::from(!is_in_doc);
                self.doc_words += words(text).count();
            }
            is_in_doc = matches!(kind, LineKind::Doc(_));
            match kind {
                LineKind::Doc(text) => self.add_comment(text, place),
                LineKind::Comment(text) => {
                    self.inline_comments += 1;
                    self.add_comment(text, place);
                }
                LineKind::Code(code, comment) => {
                    self.code_lines += 1;
                    self.inline_comments += usize::from(comment.is_some());
                    self.add_comment(comment.unwrap_or_default(), place);
                    if let Some(name) = declared_type(code) {
                        self.types.entry(name.to_owned()).or_default().push(place());
                    }
                    if binds_closure(code) {
                        self.closures.push(place());
                    }
                }
                LineKind::Blank => {}
            }
        }
    }

    fn add_comment(&mut self, text: &str, place: impl Fn() -> String) {
        for word in words(text) {
            self.comment_words += 1;
            let word = word.to_ascii_lowercase();
            if NARRATION.contains(&word.as_str()) {
                self.narration.push(format!("{} {word}", place()));
            }
            if PERSONS.contains(&word.as_str()) {
                self.persons.push(format!("{} {word}", place()));
            }
        }
    }

    fn table(&self) -> Vec<String> {
        let declared: usize = self.types.values().map(Vec::len).sum();
        let one_word: usize = self.one_word_types().map(|(_, places)| places.len()).sum();
        let unique = self.types.values().filter(|places| places.len() == 1).count();
        let per_10_000 = |found: usize| ratio(found * 10_000, self.comment_words);
        let row = |name: &str, value: f64, digits: usize, goal: &str| format!("{name:<44} {value:>8.digits$}   {goal}");
        vec![
            format!("{:<44} {:>8}   goal", "", "here"),
            row("type names of one word, %", ratio(one_word * 100, declared), 1, "below 45"),
            row("type names that are unique, %", ratio(unique * 100, declared), 1, "above 75"),
            row("told, tells, says per 10,000 words", per_10_000(self.narration.len()), 1, "below 5"),
            row("nobody, whoever per 10,000 words", per_10_000(self.persons.len()), 1, "below 5"),
            row("closures bound to locals per 1,000 lines", ratio(self.closures.len() * 1_000, self.code_lines), 1, ""),
            row("inline comments per line of code", ratio(self.inline_comments, self.code_lines), 3, "above .03"),
            row("words per doc block", ratio(self.doc_words, self.doc_blocks), 1, ""),
        ]
    }

    fn one_word_types(&self) -> impl Iterator<Item = (&String, &Vec<String>)> {
        self.types.iter().filter(|(name, _)| is_one_word(name))
    }

    /// The places behind the figures: type names that several types share, and lines to review.
    fn places(&self) -> Vec<String> {
        let mut shared: Vec<(&String, &Vec<String>)> = self.types.iter().filter(|(_, at)| at.len() > 1).collect();
        shared.sort_by_key(|(name, at)| (std::cmp::Reverse(at.len()), *name));
        let mut lines: Vec<String> =
            shared.into_iter().map(|(name, at)| format!("shared by {}: {name}: {}", at.len(), at.join(" "))).collect();
        lines.extend(self.one_word_types().map(|(name, at)| format!("one word: {name}: {}", at.join(" "))));
        lines.extend(self.narration.iter().chain(&self.persons).cloned());
        lines.extend(self.closures.iter().map(|place| format!("{place} closure bound to a local")));
        lines
    }
}

fn ratio(part: usize, whole: usize) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "counts of lines and words")]
    let (part, whole) = (part as f64, whole.max(1) as f64);
    part / whole
}

/// The lines of a file before its tests, which are always at its end.
fn product_lines(text: &str) -> impl Iterator<Item = &str> {
    text.lines().take_while(|line| *line != "#[cfg(test)]")
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|character: char| !character.is_alphanumeric() && character != '\'').filter(|word| !word.is_empty())
}

/// The name of the type or trait that a line declares.
fn declared_type(code: &str) -> Option<&str> {
    let code = code.strip_prefix("pub").map_or(code, |rest| match rest.strip_prefix('(') {
        Some(inside) => inside.split_once(')').map_or(inside, |(_, after)| after),
        None => rest,
    });
    let code = code.trim_start().strip_prefix("unsafe ").unwrap_or(code.trim_start());
    let after = ["struct ", "enum ", "union ", "trait "].into_iter().find_map(|word| code.strip_prefix(word))?;
    let name = &after[..after.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(after.len())];
    name.starts_with(char::is_uppercase).then_some(name)
}

/// Whether a type's name is a single word or a single abbreviation.
fn is_one_word(name: &str) -> bool {
    let bytes = name.as_bytes();
    let is_start = |at: usize| bytes[at].is_ascii_uppercase() && (at == 0 || !bytes[at - 1].is_ascii_uppercase());
    let humps = (0..bytes.len()).filter(|at| is_start(*at)).count();
    // `HTTPServer` has one run of capitals but two words: the last capital of a run starts a word if a small letter follows.
    let is_split_run = |at: usize| {
        at > 0
            && bytes[at].is_ascii_uppercase()
            && bytes[at - 1].is_ascii_uppercase()
            && bytes.get(at + 1).is_some_and(u8::is_ascii_lowercase)
    };
    humps + (0..bytes.len()).filter(|at| is_split_run(*at)).count() <= 1
}

fn binds_closure(code: &str) -> bool {
    let Some(value) = code.strip_prefix("let ").and_then(|rest| rest.split_once(" = ")).map(|(_, value)| value) else {
        return false;
    };
    let value = value.strip_prefix("async ").unwrap_or(value);
    let value = value.strip_prefix("move ").unwrap_or(value);
    value.starts_with('|')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_a_type_name_are_its_humps() {
        for (name, expected) in [
            ("Kind", true),
            ("CEL", true),
            ("WriteOutcome", false),
            ("LimaVM", false),
            ("HTTPServer", false),
            ("Http2", true),
        ] {
            assert_eq!(is_one_word(name), expected, "{name}");
        }
    }

    #[test]
    fn declarations_and_closures_are_recognized() {
        let types = [
            "pub struct Seen {",
            "pub(crate) enum WriteOutcome<'a> {",
            "trait Store: Send {",
            "struct unit;",
            "let x = 1;",
        ];
        assert_eq!(types.map(declared_type), [Some("Seen"), Some("WriteOutcome"), Some("Store"), None, None]);
        let lines = ["let name = |a| a + 1;", "let f = move || {", "let x: u8 = a | b;", "items.map(|x| x)"];
        assert_eq!(lines.map(binds_closure), [true, true, false, false]);
    }

    #[test]
    fn product_code_is_counted_and_its_tests_are_not() {
        let text = "//! One sentence here.\n\n/// Two words\n/// and more.\nstruct Seen;\n// says nobody\nlet f = |a| a; // why\n\
                    #[cfg(test)]\nmod tests { struct Hidden; }\n";
        let mut counts = WordCounts::default();
        counts.add(&File { path: "a.rs".to_owned(), text: text.to_owned() });
        assert_eq!((counts.code_lines, counts.inline_comments, counts.comment_words), (2, 2, 10));
        assert_eq!((counts.doc_blocks, counts.doc_words), (2, 7));
        assert_eq!(counts.types.keys().collect::<Vec<_>>(), ["Seen"]);
        assert_eq!((counts.narration.len(), counts.persons.len(), counts.closures.len()), (1, 1, 1));
        let paths = [
            "crates/rdd-cel/src/parse.rs",
            "crates/rdd-cel/tests/a.rs",
            "crates/rdd-cel/src/tests/a.rs",
            "xtask/src/words.rs",
        ];
        assert_eq!(paths.map(is_product), [true, false, false, false]);
    }
}
