//! Regular expressions of schemas and CEL: Go's RE2 syntax and error texts, executed by the `regex` crate.
//!
//! [`translate`] parses a pattern as Go's `regexp/syntax` does and writes the equivalent pattern for the `regex` crate. The
//! syntaxes differ in: `\d \s \w \b` (ASCII in Go), `\Q…\E`, octal escapes, `\<`, a brace that does not begin a repetition, set
//! operations and nested brackets in classes, repeated repetition, and the repetition limit of 1000.
//!
//! Two differences remain: the Unicode version of property names, and that the work of a match is bounded.
//!
//! The `regex` crate expands classes to bytes, once for each repetition. A pattern that is too large for it runs in `nfa`,
//! which accepts patterns as large as Go does.

mod class;
mod nfa;

use std::{
    borrow::Cow,
    cell::Cell,
    fmt,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
};

use regex::{Regex, RegexBuilder};
use regex_syntax::ParserBuilder;

pub use self::nfa::STEPS_MAX;
use crate::stack;

/// How large one compiled pattern of a schema may be to run in the `regex` crate.
const SIZE_MAX_BYTES: usize = 8 << 20;
/// How deep groups may nest, as in Go.
const DEPTH_MAX: usize = 1000;
/// How deep groups may nest to be compiled on the caller's stack.
const DEPTH_ON_ANY_STACK: usize = 8;
const REPEAT_MAX: u32 = 1000;
/// How deep the output of [`translate`] may nest.
const NEST_LIMIT: u32 = 2 * DEPTH_MAX as u32 + 100;

/// A pattern is invalid. The text is Go's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("error parsing regexp: {reason}: `{part}`")]
pub struct PatternError {
    reason: &'static str,
    part: String,
}

fn error<T>(reason: &'static str, part: &str) -> Result<T, PatternError> {
    Err(PatternError { reason, part: part.to_owned() })
}

/// How much memory all compiled patterns of one schema may use.
pub const SCHEMA_BYTES_MAX: usize = 256 << 20;
/// Size limits to try with the `regex` crate, which does not report the size of a compiled pattern.
const SIZES_BYTES: [usize; 3] = [16 << 10, 256 << 10, SIZE_MAX_BYTES];
/// How many Unicode classes a pattern may name. Go refuses a pattern with more than 2^25 characters in ranges, and `\pL` alone
/// has about 1,300.
const UNICODE_CLASSES_MAX: usize = 25_000;

/// The reason why a match has no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MatchError {
    /// The pattern is invalid. The text is Go's.
    #[error("{0}")]
    Invalid(String),
    /// The steps are used up: by many texts, or a long one, and a large pattern.
    #[error("the patterns of one object may take {STEPS_MAX} steps together to match, and take more")]
    Steps,
    /// The memory is used up: by many large patterns that are all in use.
    #[error("the patterns of one schema may take {} MiB of memory together, and take more", SCHEMA_BYTES_MAX >> 20)]
    Memory,
}

/// The steps that matches of patterns may still take, for all values of one object together.
#[derive(Debug)]
pub struct StepBudget(Cell<u64>);

impl StepBudget {
    /// A budget of this many steps.
    pub fn new(steps: u64) -> Self {
        Self(Cell::new(steps))
    }

    /// Whether a match has failed because the steps were used up.
    pub fn is_exhausted(&self) -> bool {
        self.0.get() == 0
    }
}

impl Default for StepBudget {
    fn default() -> Self {
        Self::new(STEPS_MAX)
    }
}

/// The memory that compiled patterns of one schema may still use. Clones share the budget.
#[derive(Clone, Debug)]
pub struct MemoryBudget(Arc<AtomicUsize>);

impl MemoryBudget {
    /// A budget of this many bytes.
    pub fn new(bytes: usize) -> Self {
        Self(Arc::new(AtomicUsize::new(bytes)))
    }

    /// Takes memory from the budget, or fails and leaves it unchanged.
    fn take(&self, bytes: usize) -> Result<(), MatchError> {
        let left = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(bytes));
        left.map(|_| ()).map_err(|_| MatchError::Memory)
    }
}

impl Default for MemoryBudget {
    fn default() -> Self {
        Self::new(SCHEMA_BYTES_MAX)
    }
}

/// A pattern that is compiled on first use. Clones share the compiled form.
#[derive(Clone)]
pub struct Pattern(Arc<Inner>);

struct Inner {
    source: Box<str>,
    memory: MemoryBudget,
    compiled: OnceLock<Result<Matcher, MatchError>>,
}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Pattern").field(&self.0.source).finish()
    }
}

impl Pattern {
    /// Creates a pattern from any text. [`Pattern::is_match`] reports an invalid one.
    pub fn new(source: &str) -> Pattern {
        Self::in_schema(source, &MemoryBudget::default())
    }

    /// As [`Pattern::new`], for one of several patterns that share a memory budget.
    pub fn in_schema(source: &str, memory: &MemoryBudget) -> Pattern {
        Pattern(Arc::new(Inner { source: source.into(), memory: memory.clone(), compiled: OnceLock::new() }))
    }

    /// The source of the pattern.
    pub fn source(&self) -> &str {
        &self.0.source
    }

    /// Whether `text` contains a match.
    ///
    /// # Errors
    /// When the pattern does not parse, is larger than Go allows, or takes more than [`STEPS_MAX`] steps to match.
    pub fn is_match(&self, text: &str) -> Result<bool, Cow<'_, str>> {
        self.compiled().map_err(|error| Cow::from(error.to_string()))?.is_match(text)
    }

    /// As [`Pattern::is_match`], for one of several texts that share a step budget.
    ///
    /// # Errors
    /// [`MatchError::Invalid`] when the pattern does not parse or is larger than Go allows, [`MatchError::Steps`] when the rest
    /// of the budget does not suffice, [`MatchError::Memory`] when the memory of the schema does not.
    pub fn is_match_within(&self, text: &str, steps: &StepBudget) -> Result<bool, MatchError> {
        match &self.compiled().map_err(Clone::clone)?.0 {
            Engine::Regex(regex) => Ok(regex.is_match(text)),
            Engine::Program(program) => {
                let mut left = steps.0.get();
                let found = program.is_match_within(text, &mut left);
                steps.0.set(left);
                found.ok_or(MatchError::Steps)
            }
        }
    }

    fn compiled(&self) -> Result<&Matcher, &MatchError> {
        let Inner { source, memory, compiled } = &*self.0;
        let compile = || {
            let (matcher, bytes) = compile_measured(source, &SIZES_BYTES).map_err(MatchError::Invalid)?;
            memory.take(bytes).map(|()| matcher)
        };
        compiled.get_or_init(compile).as_ref()
    }
}

/// A compiled pattern.
#[derive(Debug)]
pub struct Matcher(Engine);

#[derive(Debug)]
enum Engine {
    Regex(Regex),
    Program(nfa::Program),
}

impl Matcher {
    /// Whether `text` contains a match.
    ///
    /// # Errors
    /// When the match takes more than [`STEPS_MAX`] steps.
    pub fn is_match(&self, text: &str) -> Result<bool, Cow<'static, str>> {
        match &self.0 {
            Engine::Regex(regex) => Ok(regex.is_match(text)),
            Engine::Program(program) => program.is_match(text),
        }
    }

    /// Returns the first match in `text`.
    ///
    /// # Errors
    /// When the match takes more than [`STEPS_MAX`] steps.
    pub fn find<'t>(&self, text: &'t str) -> Result<Option<&'t str>, Cow<'static, str>> {
        self.find_all(text, 1).map(|found| found.first().copied())
    }

    /// Returns the first matches in `text`, without overlaps, at most `limit`. An empty match directly after another match is
    /// skipped.
    ///
    /// # Errors
    /// When a match takes more than [`STEPS_MAX`] steps.
    pub fn find_all<'t>(&self, text: &'t str, limit: usize) -> Result<Vec<&'t str>, Cow<'static, str>> {
        let program = match &self.0 {
            Engine::Regex(regex) => return Ok(regex.find_iter(text).take(limit).map(|found| found.as_str()).collect()),
            Engine::Program(program) => program,
        };
        let mut found = Vec::new();
        let (mut at, mut last_end) = (0, None);
        while found.len() < limit
            && at <= text.len()
            && let Some((begin, end)) = program.find_at(text, at)?
        {
            // An empty match must not be found again, so the search continues after the next character.
            if begin == end {
                at = end + text[end..].chars().next().map_or(1, char::len_utf8);
                if last_end == Some(end) {
                    continue;
                }
            } else {
                at = end;
            }
            last_end = Some(end);
            found.push(&text[begin..end]);
        }
        Ok(found)
    }
}

/// Compiles a pattern in Go's syntax, for the `regex` crate if that takes at most `size_max_bytes`.
///
/// # Errors
/// Go's text, when the pattern is invalid or too large.
pub fn compile(source: &str, size_max_bytes: usize) -> Result<Matcher, String> {
    compile_measured(source, &[size_max_bytes]).map(|(matcher, _)| matcher)
}

/// Compiles for the `regex` crate with the first of the sizes that suffices. Also returns about how many bytes the result uses.
fn compile_measured(source: &str, sizes_bytes: &[usize]) -> Result<(Matcher, usize), String> {
    let translated = Translator::read(source).map_err(|error| error.to_string())?;
    let build = || {
        for size in sizes_bytes {
            let regex = RegexBuilder::new(&translated.out).size_limit(*size).nest_limit(NEST_LIMIT).build();
            if let Ok(regex) = regex {
                return Some((Engine::Regex(regex), *size));
            }
        }
        let program = compile_program(&translated.out)?;
        let size = program.size_bytes();
        Some((Engine::Program(program), size))
    };
    // The compilers recurse and need about 20 kB for each level in unoptimized builds.
    let compiled = stack::with_room(translated.deepest > DEPTH_ON_ANY_STACK, build).flatten();
    let compiled = compiled.map(|(engine, size)| (Matcher(engine), size));
    compiled.ok_or_else(|| format!("error parsing regexp: expression too large: `{source}`"))
}

/// Whether a pattern may take long to compile, or to match even a short text, because it repeats something many times.
pub fn may_be_slow(source: &str) -> bool {
    const REPETITIONS_OF_A_FAST_PATTERN: u32 = 64;
    let counts = source.split(['{', ',']).skip(1).map(|rest| {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        rest[..digits].parse().unwrap_or(0)
    });
    counts.max().is_some_and(|count| count > REPETITIONS_OF_A_FAST_PATTERN) || source.matches('{').count() > 8
}

/// Checks that Go compiles `source`.
///
/// # Errors
/// Go's text, when it does not.
pub fn check(source: &str) -> Result<(), PatternError> {
    let translated = Translator::read(source)?;
    // A character compiles to at most that many instructions, so a short pattern is never too large.
    if source.len() * REPEAT_MAX as usize <= nfa::PROGRAM_MAX {
        return Ok(());
    }
    let build = || compile_program(&translated.out).is_some();
    match stack::with_room(translated.deepest > DEPTH_ON_ANY_STACK, build) {
        Some(true) => Ok(()),
        _ => error("expression too large", source),
    }
}

fn compile_program(translated: &str) -> Option<nfa::Program> {
    let hir = ParserBuilder::new().nest_limit(NEST_LIMIT).build().parse(translated).ok()?;
    nfa::Program::compile(&hir).ok()
}

#[derive(Clone, Copy)]
struct Flags {
    fold: bool,
    multi_line: bool,
    dot_all: bool,
    lazy: bool,
}

impl Flags {
    fn text(self) -> String {
        let all = [(self.fold, 'i'), (self.multi_line, 'm'), (self.dot_all, 's'), (self.lazy, 'U')];
        let on: String = all.iter().filter(|(set, _)| *set).map(|(_, name)| *name).collect();
        let off: String = all.iter().filter(|(set, _)| !*set).map(|(_, name)| *name).collect();
        if off.is_empty() { on } else { format!("{on}-{off}") }
    }
}

/// The last part of the pattern that a repetition can apply to.
#[derive(Clone, Copy)]
struct Atom {
    start: usize,
    end: usize,
    /// How many repetition operators apply to it already.
    repetitions: usize,
    /// The product of the repetition counts nested in it.
    weight: u32,
}

struct Group {
    start: usize,
    flags: Flags,
    /// The greatest weight of an atom so far.
    weight: u32,
}

/// Reads a pattern of Go and writes one for the `regex` crate.
struct Translator<'a> {
    whole: &'a str,
    out: String,
    flags: Flags,
    groups: Vec<Group>,
    /// The deepest nesting of groups so far.
    deepest: usize,
    weight: u32,
    atom: Option<Atom>,
}

/// Translates a pattern of Go to the syntax of the `regex` crate.
///
/// # Errors
/// Go's text, when Go refuses the pattern.
pub fn translate(source: &str) -> Result<String, PatternError> {
    Translator::read(source).map(|translated| translated.out)
}

impl<'a> Translator<'a> {
    fn read(source: &'a str) -> Result<Self, PatternError> {
        let mut translator = Translator {
            whole: source,
            out: String::with_capacity(source.len() + 8),
            flags: Flags { fold: false, multi_line: false, dot_all: false, lazy: false },
            groups: Vec::new(),
            deepest: 0,
            weight: 1,
            atom: None,
        };
        // Each class is expanded while the pattern is parsed, so their number is bounded first.
        let classes = source.match_indices(['p', 'P']).filter(|(at, _)| source[..*at].ends_with('\\')).count();
        if classes > UNICODE_CLASSES_MAX {
            return error("expression too large", source);
        }
        translator.run()?;
        Ok(translator)
    }

    fn run(&mut self) -> Result<(), PatternError> {
        let mut rest = self.whole;
        // If the previous token was a repetition: the text from its start.
        let mut last_repeat: Option<&str> = None;
        while let Some(first) = rest.chars().next() {
            let before = rest;
            let mut repeat = None;
            match first {
                '(' if rest[1..].starts_with('?') => rest = self.flags_or_group(rest)?,
                '(' => {
                    self.open("(")?;
                    rest = &rest[1..];
                }
                '|' => {
                    self.settle();
                    self.out.push('|');
                    rest = &rest[1..];
                }
                ')' => {
                    self.close()?;
                    rest = &rest[1..];
                }
                '^' | '$' | '.' => {
                    self.push(first.encode_utf8(&mut [0; 4]));
                    rest = &rest[1..];
                }
                '[' => {
                    let (text, after) = class::bracket(rest)?;
                    self.push(&text);
                    rest = after;
                }
                '*' | '+' | '?' => {
                    rest = self.repeat(before, &rest[1..], last_repeat, None)?;
                    repeat = Some(before);
                }
                '{' => match parse_repeat(rest) {
                    // A brace that does not begin a repetition is a literal in Go.
                    None => {
                        self.push("\\{");
                        rest = &rest[1..];
                    }
                    Some((bounds, after)) => {
                        if !bounds.in_range() {
                            return error("invalid repeat count", &before[..before.len() - after.len()]);
                        }
                        rest = self.repeat(before, after, last_repeat, Some(bounds))?;
                        repeat = Some(before);
                    }
                },
                '\\' => rest = self.escape(rest)?,
                _ => {
                    self.literal(first);
                    rest = &rest[first.len_utf8()..];
                }
            }
            last_repeat = repeat;
        }
        if self.groups.is_empty() { Ok(()) } else { error("missing closing )", self.whole) }
    }

    /// Writes a part that a repetition can apply to.
    fn push(&mut self, text: &str) {
        self.settle();
        let start = self.out.len();
        self.out.push_str(text);
        self.atom = Some(Atom { start, end: self.out.len(), weight: 1, repetitions: 0 });
    }

    fn literal(&mut self, character: char) {
        let mut text = String::new();
        append_literal(character, &mut text);
        self.push(&text);
    }

    /// Completes the last atom: its weight counts for the group.
    fn settle(&mut self) {
        if let Some(atom) = self.atom.take() {
            self.weight = self.weight.max(atom.weight);
        }
    }

    fn open(&mut self, text: &str) -> Result<(), PatternError> {
        self.settle();
        if self.groups.len() >= DEPTH_MAX {
            return error("expression nests too deeply", self.whole);
        }
        self.deepest = self.deepest.max(self.groups.len() + 1);
        self.groups.push(Group { start: self.out.len(), flags: self.flags, weight: self.weight });
        self.out.push_str(text);
        self.weight = 1;
        Ok(())
    }

    fn close(&mut self) -> Result<(), PatternError> {
        self.settle();
        let Some(group) = self.groups.pop() else { return error("unexpected )", self.whole) };
        self.out.push(')');
        self.flags = group.flags;
        self.atom = Some(Atom { start: group.start, end: self.out.len(), weight: self.weight, repetitions: 0 });
        self.weight = group.weight;
        Ok(())
    }

    /// Writes a repetition of the last atom; `bounds` are those of `{n,m}`.
    fn repeat(
        &mut self,
        before: &'a str,
        after: &'a str,
        last: Option<&str>,
        bounds: Option<Bounds>,
    ) -> Result<&'a str, PatternError> {
        let (after, lazy) = match after.strip_prefix('?') {
            Some(rest) => (rest, "?"),
            None => (after, ""),
        };
        // Go allows several repetition operators only with something between them, such as flags.
        if let Some(last) = last {
            return error("invalid nested repetition operator", &last[..last.len() - after.len()]);
        }
        let operator = &before[..before.len() - after.len()];
        let Some(mut atom) = self.atom.take() else {
            return error("missing argument to repetition operator", operator);
        };
        if let Some(bounds) = bounds {
            // As in Go, a repetition of zero drops the weight of its operand.
            if bounds.max == Some(0) {
                atom.weight = 1;
            }
            if bounds.min >= 2 || bounds.max.is_some_and(|max| max >= 2) {
                atom.weight = atom.weight.saturating_mul(bounds.factor());
                if atom.weight > REPEAT_MAX {
                    return error("invalid repeat count", operator);
                }
            }
        }
        let text = match bounds {
            None => format!("{}{lazy}", &before[..1]),
            Some(bounds) => format!("{}{lazy}", bounds.text()),
        };
        // Changes of flags may stand between the atom and its repetition; they stay after it.
        let tail = self.out.split_off(atom.end);
        // The `regex` crate needs a group around a repetition that is repeated.
        if atom.repetitions > 0 {
            self.deepest = self.deepest.max(self.groups.len() + atom.repetitions);
            if self.deepest > DEPTH_MAX {
                return error("expression nests too deeply", self.whole);
            }
            self.out.insert_str(atom.start, "(?:");
            self.out.push(')');
        }
        self.out.push_str(&text);
        atom.end = self.out.len();
        atom.repetitions += 1;
        self.out.push_str(&tail);
        self.atom = Some(atom);
        Ok(after)
    }

    /// Reads a group or flags that begin with `(?`.
    fn flags_or_group(&mut self, text: &'a str) -> Result<&'a str, PatternError> {
        let named = (text.len() > 4 && text.starts_with("(?P<")) || (text.len() > 3 && text.starts_with("(?<"));
        if named {
            let Some(end) = text.find('>') else { return error("invalid named capture", text) };
            let name = &text[text.find('<').map_or(0, |at| at + 1)..end];
            let good = !name.is_empty() && name.bytes().all(|byte| byte == b'_' || byte.is_ascii_alphanumeric());
            if !good {
                return error("invalid named capture", &text[..=end]);
            }
            self.open("(")?;
            return Ok(&text[end + 1..]);
        }
        let mut flags = self.flags;
        let (mut on, mut saw) = (true, false);
        let mut rest = &text[2..];
        while let Some(character) = rest.chars().next() {
            rest = &rest[character.len_utf8()..];
            match character {
                'i' => (flags.fold, saw) = (on, true),
                'm' => (flags.multi_line, saw) = (on, true),
                's' => (flags.dot_all, saw) = (on, true),
                'U' => (flags.lazy, saw) = (on, true),
                '-' if on => (on, saw) = (false, false),
                ':' | ')' if on || saw => {
                    if character == ':' {
                        self.open(&format!("(?{}:", flags.text()))?;
                    } else {
                        self.out.push_str(&format!("(?{})", flags.text()));
                    }
                    self.flags = flags;
                    return Ok(rest);
                }
                _ => break,
            }
        }
        error("invalid or unsupported Perl syntax", &text[..text.len() - rest.len()])
    }

    /// Reads an escape outside of a class.
    fn escape(&mut self, text: &'a str) -> Result<&'a str, PatternError> {
        match text.as_bytes().get(1) {
            Some(b'A') => self.push("\\A"),
            Some(b'z') => self.push("\\z"),
            Some(b'b') => self.push("(?-u:\\b)"),
            Some(b'B') => self.push("(?-u:\\B)"),
            Some(b'C') => return error("invalid escape sequence", &text[..2]),
            Some(b'Q') => {
                let (quoted, after) = text[2..].split_once("\\E").unwrap_or((&text[2..], ""));
                quoted.chars().for_each(|character| self.literal(character));
                return Ok(after);
            }
            _ => {
                if let Some((set, after)) = class::escape(text)? {
                    self.push(&set);
                    return Ok(after);
                }
                let (character, after) = class::character(text)?;
                self.literal(character);
                return Ok(after);
            }
        }
        Ok(&text[2..])
    }
}

/// Writes a literal that means itself, inside and outside of a class.
fn append_literal(character: char, out: &mut String) {
    if character.is_ascii() && !character.is_ascii_alphanumeric() {
        out.push_str(&format!("\\x{:02X}", character as u32));
    } else {
        out.push(character);
    }
}

#[derive(Clone, Copy)]
struct Bounds {
    min: i64,
    /// `None` without an upper bound.
    max: Option<i64>,
}

impl Bounds {
    fn in_range(self) -> bool {
        (0..=1000).contains(&self.min) && self.max.is_none_or(|max| max <= 1000 && self.min <= max)
    }

    /// The factor by which it multiplies the repetitions nested in it.
    fn factor(self) -> u32 {
        u32::try_from(self.max.unwrap_or(self.min)).unwrap_or(0).max(1)
    }

    fn text(self) -> String {
        match self.max {
            None => format!("{{{},}}", self.min),
            Some(max) => format!("{{{},{max}}}", self.min),
        }
    }
}

/// Reads `{n}`, `{n,}` or `{n,m}` at the start of `text`; `None` if the brace is a literal. A number that is too large
/// reads as -1.
fn parse_repeat(text: &str) -> Option<(Bounds, &str)> {
    let (mut min, rest) = parse_count(text.strip_prefix('{')?)?;
    let (max, rest) = match rest.strip_prefix(',') {
        None => (Some(min), rest),
        Some(after) if after.starts_with('}') => (None, after),
        Some(after) => {
            let (max, after) = parse_count(after)?;
            if max < 0 {
                min = -1;
            }
            (Some(max), after)
        }
    };
    Some((Bounds { min, max }, rest.strip_prefix('}')?))
}

fn parse_count(text: &str) -> Option<(i64, &str)> {
    let length = text.bytes().take_while(u8::is_ascii_digit).count();
    let (digits, rest) = text.split_at(length);
    if digits.is_empty() || (digits.len() > 1 && digits.starts_with('0')) {
        return None;
    }
    Some((digits.parse().ok().filter(|count| *count < 1_000_000_000).unwrap_or(-1), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, text: &str) -> bool {
        Pattern::new(pattern).is_match(text).unwrap()
    }

    #[test]
    fn go_only_syntax_means_the_same_here() {
        assert!(matches(r"^a{,2}$", "a{,2}"));
        assert!(matches(r"^\Qa.b\E$", "a.b") && !matches(r"^\Qa.b\E$", "axb"));
        assert!(!matches(r"^\d$", "٣") && matches(r"^\pN$", "٣"));
        assert!(matches(r"^[[a&&b]+$", "[a&b"));
        assert!(matches(r"^\101\x42$", "AB"));
        assert!(matches(r"\bé", "xé") && !matches(r"^\<$", ""));
        assert!(matches("^a(?i)*B$", "aab"));
    }

    #[test]
    fn what_go_refuses_is_refused_in_its_words() {
        for (pattern, text) in [
            ("a**", "error parsing regexp: invalid nested repetition operator: `**`"),
            ("*a", "error parsing regexp: missing argument to repetition operator: `*`"),
            ("(a", "error parsing regexp: missing closing ): `(a`"),
            ("a)", "error parsing regexp: unexpected ): `a)`"),
            ("[a", "error parsing regexp: missing closing ]: `[a`"),
            ("[b-a]", "error parsing regexp: invalid character class range: `b-a`"),
            ("(?=a)", "error parsing regexp: invalid or unsupported Perl syntax: `(?=`"),
            ("a{1001}", "error parsing regexp: invalid repeat count: `{1001}`"),
            (r"\8", r"error parsing regexp: invalid escape sequence: `\8`"),
            ("\\", "error parsing regexp: trailing backslash at end of expression: ``"),
            (r"\p{Alphabetic}", r"error parsing regexp: invalid character class range: `\p{Alphabetic}`"),
        ] {
            assert_eq!(check(pattern).unwrap_err().to_string(), text);
        }
    }

    #[test]
    fn groups_nest_as_deep_as_in_go_and_no_deeper() {
        let nested = |depth: usize| format!("{}a{}", "(".repeat(depth), ")".repeat(depth));
        assert!(matches(&nested(DEPTH_MAX), "a"));
        let alternatives = format!("{}a{}", "(?:a|b".repeat(400), ")+".repeat(400));
        assert!(matches(&alternatives, "a"));
        assert!(matches(&format!("^a{}$", "(?i)*".repeat(500)), "aaa"));
        assert!(check(&format!("a{}", "(?i)*".repeat(500_000))).is_err());
        assert!(check(&nested(DEPTH_MAX + 1)).unwrap_err().to_string().contains("expression nests too deeply"));
        assert!(matches(&format!("{}a", "(?i)".repeat(100_000)), "A"));
    }

    // Finding E-13
    #[test]
    fn a_pattern_that_is_too_large_for_the_engine_means_what_it_means_to_go() {
        assert!(Regex::new(r"^\p{L}{1,1000}$").is_err() && Regex::new(r"^[\p{L}\p{N}_-]{1,253}$").is_err());
        for (pattern, yes, no) in [
            (r"^\p{L}{1,253}$", "größe", "a1"),
            (r"^[\p{L}\p{N}_-]{1,253}$", "größe_1", "a b"),
            (r"^(\pL{100}){10}$", &*"é".repeat(1000), &*"é".repeat(999)),
            (r"(?i)^\p{Lu}{1,500}\b.\B.(?s:.)(?m:^x$)", "Àb- \nx", "Àb- \ny"),
        ] {
            assert!(matches(pattern, yes) && !matches(pattern, no), "{pattern}");
        }
    }

    // Finding E-13
    #[test]
    fn texts_of_one_object_share_their_steps() {
        let pattern = Pattern::new(r"^\p{L}{1,1000}$");
        let text = "é".repeat(900);
        let budget = StepBudget::new(20_000);
        let answers: Vec<_> = (0..10).map(|_| pattern.is_match_within(&text, &budget)).collect();
        assert_eq!(answers[0], Ok(true));
        assert_eq!(answers[9], Err(MatchError::Steps));
        assert!(budget.is_exhausted());
        assert_eq!(pattern.is_match_within(&text, &StepBudget::default()), Ok(true), "the next object has its own");
        assert_eq!(Pattern::new("^é+$").is_match_within(&text, &budget), Ok(true), "a small pattern takes none");
    }

    // Finding E-13
    #[test]
    fn patterns_of_one_schema_share_their_memory() {
        let use_all = |memory: &MemoryBudget, make: &dyn Fn(usize) -> String| {
            let made: Vec<_> = (1..=4).map(|count| Pattern::in_schema(&make(count), memory)).collect();
            let answers = made.iter().map(|pattern| pattern.is_match_within("é", &StepBudget::default()));
            answers.filter(|answer| *answer != Err(MatchError::Memory)).count()
        };
        let memory = || MemoryBudget::new(2 * SIZES_BYTES[0]);
        let large = use_all(&memory(), &|count| format!(r"^\p{{L}}{{{}}}$", 900 + count));
        assert!((1..=3).contains(&large), "{large}");
        let small = use_all(&memory(), &|count| format!("^[a-z]{{{count}}}$"));
        assert_eq!(small, 2, "those of the regex crate count too");
        assert_eq!(use_all(&MemoryBudget::default(), &|count| format!("^a{count}$")), 4);
    }

    // Finding E-13
    #[test]
    fn a_pattern_of_very_many_classes_is_refused_before_they_are_spelled_out() {
        let error = check(&r"\pL".repeat(UNICODE_CLASSES_MAX + 1)).unwrap_err().to_string();
        assert!(error.starts_with("error parsing regexp: expression too large: "), "{}", &error[..60]);
    }

    #[test]
    fn long_repetitions_may_be_slow() {
        assert!(may_be_slow(r"^\p{L}{1,253}$") && may_be_slow("a{100,}") && may_be_slow(&"(a{2})".repeat(9)));
        assert!(!may_be_slow("^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"));
    }

    #[test]
    fn both_engines_find_the_same() {
        let texts = ["", "a", "ab", "aab b", "ba\nab", "éab", "-a_b-", "abcabc", "aaaaaa", "é\n\nb"];
        for pattern in [
            "a*",
            "a*?",
            "(a|ab)(c|bcd)*",
            "(|a)+",
            "(a*)*",
            "(?:a+|b)*?$",
            "a{2,4}",
            "a{2,4}?",
            "a{0,2}",
            "a{3,}",
            "a{3,}?",
            r"\b",
            r"\B",
            "^",
            "$",
            "(?m)^",
            "(?m)$",
            "(?s).b",
            ".b",
            "(?i)A|É",
            "[^a]",
            r"\pL{2}",
            "(?U)a+b*",
            "x{0}",
            "(a?){3}",
            "(?:|b|a)(?:b|)",
            "(a{2}|b){1,3}",
        ] {
            let translated = translate(pattern).unwrap();
            let program = nfa::Program::compile(&regex_syntax::parse(&translated).unwrap()).ok().unwrap();
            let regex = Matcher(Engine::Regex(Regex::new(&translated).unwrap()));
            let program = Matcher(Engine::Program(program));
            for text in texts {
                for limit in [0, 1, 2, 9] {
                    assert_eq!(program.find_all(text, limit), regex.find_all(text, limit), "{pattern} in {text:?}");
                }
                assert_eq!(program.is_match(text), regex.is_match(text), "{pattern} in {text:?}");
            }
        }
    }

    // Finding E-13
    #[test]
    fn a_pattern_that_is_too_large_for_go_is_refused_in_its_words() {
        let error = Pattern::new(&r"\pL{1000}".repeat(3400)).is_match("a").unwrap_err().into_owned();
        assert!(error.contains("expression too large"), "{error}");
        assert_eq!(check(&r"\pL{1000}".repeat(3400)).unwrap_err().to_string(), error);
        assert_eq!(check(&r"\pL{1000}".repeat(3300)), Ok(()));
    }
}
