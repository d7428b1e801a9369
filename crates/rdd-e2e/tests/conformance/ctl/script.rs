//! Reads the compared command lines from their file, and normalizes output.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::LazyLock,
};

use regex::Regex;

/// A sequence of lines.
pub(super) struct Script {
    pub(super) name: String,
    pub(super) lines: Vec<Line>,
}

/// A command line.
pub(super) struct Line {
    /// The line as it is in the file.
    pub(super) text: String,
    /// Why its output intentionally differs.
    pub(super) intended: Option<String>,
    /// The fixture for its standard input.
    pub(super) input: Option<String>,
    pub(super) words: Vec<String>,
}

/// The folder with the file and the fixtures.
pub(super) fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/conformance/ctl")
}

impl Script {
    pub(super) fn all() -> Vec<Self> {
        let mut scripts: Vec<Self> = Vec::new();
        for line in fs::read_to_string(folder().join("cases.txt")).unwrap().lines() {
            if let Some(name) = line.strip_prefix("== ") {
                scripts.push(Self { name: name.to_owned(), lines: Vec::new() });
            } else if !line.is_empty() && !line.starts_with('#') {
                scripts.last_mut().expect("a line belongs to a script").lines.push(Line::read(line));
            }
        }
        scripts
    }

    #[track_caller]
    pub(super) fn find(name: &str) -> Self {
        Self::all().into_iter().find(|script| script.name == name).unwrap_or_else(|| panic!("no script {name}"))
    }
}

impl Line {
    fn read(text: &str) -> Self {
        let (intended, rest) = match text.strip_prefix("~ ") {
            Some(rest) => {
                let (reason, rest) = rest.split_once(" ~ ").expect("a reason and a line");
                (Some(reason.to_owned()), rest)
            }
            None => (None, text),
        };
        let (input, rest) = match rest.split_once(" > ") {
            Some((input, rest)) if !input.contains(' ') => (Some(input.to_owned()), rest),
            _ => (None, rest),
        };
        Self { text: text.to_owned(), intended, input, words: split(rest) }
    }
}

/// Splits a line into words like a shell: quotes group, backslashes are kept.
fn split(text: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let (mut word, mut begun, mut quote) = (String::new(), false, None);
    for letter in text.chars() {
        match (letter, quote) {
            (letter, Some(open)) if letter == open => quote = None,
            (letter, Some(_)) => word.push(letter),
            ('\'' | '"', None) => (quote, begun) = (Some(letter), true),
            (' ', None) => {
                if begun {
                    words.push(std::mem::take(&mut word));
                }
                begun = false;
            }
            (letter, None) => {
                word.push(letter);
                begun = true;
            }
        }
    }
    if begun {
        words.push(word);
    }
    words
}

/// Replaces values that differ between runs.
pub(super) struct Normalizer {
    namespace: String,
    folder: String,
}

static SAME: LazyLock<Vec<(Regex, &'static str)>> = LazyLock::new(|| {
    [
        (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "UID"),
        (r#"(resourceVersion"?\\?"?: ?\\?"?)\d+"#, "${1}RV"),
        (r"(Resource Version: +)\d+", "${1}RV"),
        (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "TIME"),
        (r"made-[a-z0-9]{5}", "made-xxxxx"),
    ]
    .into_iter()
    .map(|(pattern, same)| (Regex::new(pattern).unwrap(), same))
    .collect()
});
static AGE: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\b\d+(s|m(\d+s)?)(\s|$)").unwrap());
static BLANKS: LazyLock<Regex> = LazyLock::new(|| Regex::new(" +").unwrap());

impl Normalizer {
    pub(super) fn new(namespace: &str, folder: &Path) -> Self {
        Self { namespace: namespace.to_owned(), folder: folder.to_str().unwrap().to_owned() }
    }

    pub(super) fn normalize(&self, text: &str) -> String {
        let mut text = text.replace(&self.folder, "DIR").replace(&self.namespace, "NS");
        for (pattern, same) in SAME.iter() {
            text = pattern.replace_all(&text, *same).into_owned();
        }
        let lines: Vec<String> = text.split('\n').map(same_age).collect();
        lines.join("\n")
    }
}

/// Ages may differ in length between runs, and with them the column widths.
fn same_age(line: &str) -> String {
    if !AGE.is_match(line) {
        return line.to_owned();
    }
    BLANKS.replace_all(&AGE.replace_all(line, "AGE$3"), " ").into_owned()
}

#[test]
fn lines_are_split_as_a_shell_splits_them() {
    assert_eq!(split("get cm -o 'jsonpath={.a \"b\"}' x=y\\.z"), ["get", "cm", "-o", "jsonpath={.a \"b\"}", "x=y\\.z"]);
    let line = Line::read("~ because ~ map.yaml > apply -f -");
    assert_eq!((line.intended.as_deref(), line.input.as_deref()), (Some("because"), Some("map.yaml")));
}
