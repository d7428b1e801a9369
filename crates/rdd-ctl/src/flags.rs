//! A parser for command-line flags, compatible with pflag, driven by tables of flags.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use rdd_meta::{go_duration, go_text};

/// The type of a flag's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A boolean; true without a value.
    Bool,
    /// A string.
    Text,
    /// A string whose value may be omitted and is then this one.
    Optional(&'static str),
    /// A comma-separated list; may be repeated.
    List,
    /// A string per occurrence of the flag, not split at commas.
    Array,
    /// A Go duration.
    Duration,
    /// An integer.
    Number,
}

/// A flag.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Flag {
    /// The long name, after `--`.
    pub(crate) long: &'static str,
    /// The short name, after `-`.
    pub(crate) short: Option<char>,
    /// The type of the value.
    pub(crate) kind: Kind,
    /// The default value.
    pub(crate) default: &'static str,
}

impl Flag {
    /// A boolean flag that defaults to false.
    pub(crate) const fn switch(long: &'static str) -> Self {
        Self { long, short: None, kind: Kind::Bool, default: "false" }
    }

    /// A string flag without a default.
    pub(crate) const fn value(long: &'static str) -> Self {
        Self { long, short: None, kind: Kind::Text, default: "" }
    }

    /// A flag of this type with this default.
    pub(crate) const fn of(long: &'static str, kind: Kind, default: &'static str) -> Self {
        Self { long, short: None, kind, default }
    }

    /// Adds a short name.
    #[must_use]
    pub(crate) const fn short(mut self, letter: char) -> Self {
        self.short = Some(letter);
        self
    }

    fn is_value_optional(&self) -> Option<&'static str> {
        match self.kind {
            Kind::Bool => Some("true"),
            Kind::Optional(value) => Some(value),
            _ => None,
        }
    }

    fn shown(&self) -> String {
        match self.short {
            Some(short) => format!("-{short}, --{}", self.long),
            None => format!("--{}", self.long),
        }
    }

    fn check(&self, value: &str) -> Result<(), String> {
        match self.kind {
            Kind::Bool => parse_bool(value).map(|_| ()),
            Kind::Duration => go_duration::parse(value).map(|_| ()),
            Kind::Number => go_text::parse_int(value).map(|_| ()).map_err(|error| error.to_string()),
            _ => Ok(()),
        }
    }
}

/// Parses a boolean like Go's `strconv.ParseBool`.
fn parse_bool(text: &str) -> Result<bool, String> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err(format!("strconv.ParseBool: parsing {}: invalid syntax", go_text::quote(text))),
    }
}

/// The flags of a command.
#[derive(Debug, Clone)]
pub(crate) struct Table(Vec<Flag>);

impl Table {
    /// The table of all flags in these groups.
    pub(crate) fn of(groups: &[&[Flag]]) -> Self {
        Self(groups.iter().flat_map(|group| group.iter().copied()).collect())
    }

    fn long(&self, name: &str) -> Option<&Flag> {
        // kubectl accepts underscores for hyphens.
        let name = name.replace('_', "-");
        self.0.iter().find(|flag| flag.long == name)
    }

    fn short(&self, letter: char) -> Option<&Flag> {
        self.0.iter().find(|flag| flag.short == Some(letter))
    }

    /// The index of the first word that is neither a flag nor a flag's value.
    pub(crate) fn first_word(&self, words: &[String]) -> Option<usize> {
        let mut index = 0;
        while let Some(word) = words.get(index) {
            if word == "--" {
                return None;
            }
            if word == "-" || !word.starts_with('-') {
                return Some(index);
            }
            index += if self.takes_next(word) { 2 } else { 1 };
        }
        None
    }

    fn takes_next(&self, word: &str) -> bool {
        if word.contains('=') {
            return false;
        }
        let flag = match word.strip_prefix("--") {
            Some(name) => self.long(name),
            None => word.chars().last().filter(|_| word.chars().count() == 2).and_then(|letter| self.short(letter)),
        };
        flag.is_some_and(|flag| flag.is_value_optional().is_none())
    }

    /// Parses flags and arguments in any order, until `--`.
    ///
    /// # Errors
    /// A message in pflag's wording.
    pub(crate) fn read(&self, words: Vec<String>) -> Result<Flags, String> {
        let mut flags = Flags { table: self.0.clone(), ..Flags::default() };
        let mut words = words.into_iter();
        while let Some(word) = words.next() {
            if word == "--" {
                flags.args.extend(words);
                break;
            }
            if word == "-" || !word.starts_with('-') {
                flags.args.push(word);
            } else if let Some(body) = word.strip_prefix("--") {
                self.read_long(&mut flags, &word, body, &mut words)?;
            } else {
                self.read_shorts(&mut flags, &word[1..], &mut words)?;
            }
        }
        Ok(flags)
    }

    fn read_long(
        &self,
        flags: &mut Flags,
        word: &str,
        body: &str,
        rest: &mut impl Iterator<Item = String>,
    ) -> Result<(), String> {
        let (name, value) = match body.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (body, None),
        };
        if name.is_empty() || name.starts_with('-') {
            return Err(format!("bad flag syntax: {word}"));
        }
        if name == "help" {
            flags.help = true;
            return Ok(());
        }
        let flag = self.long(name).ok_or_else(|| format!("unknown flag: --{name}"))?;
        let value = match (value, flag.is_value_optional()) {
            (Some(value), _) => value,
            (None, Some(value)) => value.to_owned(),
            (None, None) => rest.next().ok_or_else(|| format!("flag needs an argument: --{name}"))?,
        };
        flags.set(flag, value)
    }

    fn read_shorts(
        &self,
        flags: &mut Flags,
        cluster: &str,
        rest: &mut impl Iterator<Item = String>,
    ) -> Result<(), String> {
        let mut letters = cluster;
        while let Some(letter) = letters.chars().next() {
            let from = letters;
            letters = &letters[letter.len_utf8()..];
            let Some(flag) = self.short(letter) else {
                if letter == 'h' {
                    flags.help = true;
                    return Ok(());
                }
                return Err(format!("unknown shorthand flag: {} in -{from}", go_character(letter)));
            };
            let value = if letters.len() > 1 && letters.starts_with('=') {
                std::mem::take(&mut letters)[1..].to_owned()
            } else if let Some(value) = flag.is_value_optional() {
                value.to_owned()
            } else if !letters.is_empty() {
                std::mem::take(&mut letters).to_owned()
            } else {
                let missing = || format!("flag needs an argument: {} in -{from}", go_character(letter));
                rest.next().ok_or_else(missing)?
            };
            flags.set(flag, value)?;
        }
        Ok(())
    }
}

fn go_character(letter: char) -> String {
    format!("'{letter}'")
}

/// The parsed flags and arguments.
#[derive(Debug, Clone, Default)]
pub(crate) struct Flags {
    table: Vec<Flag>,
    values: BTreeMap<&'static str, Vec<String>>,
    given: BTreeSet<&'static str>,
    /// The positional arguments.
    pub(crate) args: Vec<String>,
    /// Whether `--help` was given.
    pub(crate) help: bool,
}

impl Flags {
    fn set(&mut self, flag: &Flag, value: String) -> Result<(), String> {
        flag.check(&value).map_err(|problem| {
            format!("invalid argument {} for \"{}\" flag: {problem}", go_text::quote(&value), flag.shown())
        })?;
        self.given.insert(flag.long);
        let values = self.values.entry(flag.long).or_default();
        match flag.kind {
            Kind::Array => values.push(value),
            Kind::List => values.extend(split_list(&value)),
            _ => *values = vec![value],
        }
        Ok(())
    }

    /// Whether the flag was given on the command line.
    pub(crate) fn is_given(&self, long: &str) -> bool {
        self.given.contains(long)
    }

    /// The value of a flag, or its default.
    pub(crate) fn text(&self, long: &str) -> &str {
        let default = || self.table.iter().find(|flag| flag.long == long).map_or("", |flag| flag.default);
        self.values.get(long).and_then(|values| values.last()).map_or_else(default, String::as_str)
    }

    /// The value of a flag if it was given and is not empty.
    pub(crate) fn given(&self, long: &str) -> Option<&str> {
        Some(self.text(long)).filter(|text| self.is_given(long) && !text.is_empty())
    }

    /// Whether a boolean flag is true.
    pub(crate) fn is_on(&self, long: &str) -> bool {
        parse_bool(self.text(long)).unwrap_or(false)
    }

    /// All values of a list flag.
    pub(crate) fn list(&self, long: &str) -> &[String] {
        self.values.get(long).map_or(&[], Vec::as_slice)
    }

    /// The value of an integer flag.
    pub(crate) fn number(&self, long: &str) -> i64 {
        go_text::parse_int(self.text(long)).unwrap_or(0)
    }

    /// The value of a duration flag in nanoseconds.
    pub(crate) fn nanoseconds(&self, long: &str) -> i64 {
        go_duration::parse(self.text(long)).unwrap_or(0)
    }

    /// The value of a duration flag; zero if it is negative.
    pub(crate) fn duration(&self, long: &str) -> Duration {
        Duration::from_nanos(u64::try_from(self.nanoseconds(long)).unwrap_or(0))
    }
}

/// Splits a list at commas, as a line of CSV: a quoted part may contain commas.
fn split_list(text: &str) -> Vec<String> {
    if text.is_empty() {
        return Vec::new();
    }
    let mut parts = vec![String::new()];
    let mut quoted = false;
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        let last = parts.last_mut().expect("there is always one");
        match letter {
            '"' if quoted && letters.peek() == Some(&'"') => {
                letters.next();
                last.push('"');
            }
            '"' if quoted || last.is_empty() => quoted = !quoted,
            ',' if !quoted => parts.push(String::new()),
            letter => last.push(letter),
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &[Flag] = &[
        Flag::value("output").short('o'),
        Flag::switch("watch").short('w'),
        Flag::of("dry-run", Kind::Optional("unchanged"), "none"),
        Flag::of("label-columns", Kind::List, "").short('L'),
        Flag::of("from-literal", Kind::Array, ""),
        Flag::of("timeout", Kind::Duration, "30s"),
        Flag::of("chunk-size", Kind::Number, "500"),
    ];

    fn read(line: &str) -> Result<Flags, String> {
        Table::of(&[TABLE]).read(line.split(' ').filter(|word| !word.is_empty()).map(str::to_owned).collect())
    }

    #[test]
    fn flags_and_words_come_in_any_order_until_two_hyphens() {
        let flags = read("a -o yaml b --watch -- --c -d").unwrap();
        assert_eq!(flags.args, ["a", "b", "--c", "-d"]);
        assert_eq!((flags.text("output"), flags.is_on("watch")), ("yaml", true));
    }

    #[test]
    fn values_stand_beside_behind_or_after_an_equals_sign() {
        for line in ["-oyaml", "-o=yaml", "-o yaml", "--output yaml", "--output=yaml", "-woyaml"] {
            assert_eq!(read(line).unwrap().text("output"), "yaml", "{line}");
        }
        assert_eq!(read("--dry-run x").unwrap().text("dry-run"), "unchanged");
        assert_eq!(read("--dry_run=server").unwrap().text("dry-run"), "server");
        assert_eq!(read("").unwrap().number("chunk-size"), 500);
        assert_eq!(read("--timeout=-1s").unwrap().nanoseconds("timeout"), -1_000_000_000);
    }

    #[test]
    fn lists_are_split_and_arrays_are_not() {
        let flags = read("-L a,b -L \"c,d\",e --from-literal a,b --from-literal c").unwrap();
        assert_eq!(flags.list("label-columns"), ["a", "b", "c,d", "e"]);
        assert_eq!(flags.list("from-literal"), ["a,b", "c"]);
    }

    #[test]
    fn what_is_wrong_is_told_in_the_words_of_pflag() {
        for (line, words) in [
            ("--nope", "unknown flag: --nope"),
            ("-wx", "unknown shorthand flag: 'x' in -x"),
            ("-o", "flag needs an argument: 'o' in -o"),
            ("--output", "flag needs an argument: --output"),
            ("--=x", "bad flag syntax: --=x"),
            (
                "--watch=maybe",
                "invalid argument \"maybe\" for \"-w, --watch\" flag: strconv.ParseBool: parsing \"maybe\": invalid syntax",
            ),
            ("--timeout=x", "invalid argument \"x\" for \"--timeout\" flag: time: invalid duration \"x\""),
        ] {
            assert_eq!(read(line).unwrap_err(), words);
        }
    }

    #[test]
    fn the_verb_is_the_first_word_that_is_no_value_of_a_flag() {
        let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let table = Table::of(&[TABLE]);
        assert_eq!(table.first_word(&words("-o yaml get x")), Some(2));
        assert_eq!(table.first_word(&words("--output=yaml get")), Some(1));
        assert_eq!(table.first_word(&words("-w get")), Some(1));
        assert_eq!(table.first_word(&words("-- get")), None);
    }
}
