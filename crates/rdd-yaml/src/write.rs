//! Writes JSON as YAML, byte for byte as goyaml v2 emits it: block style, keys in natural order, lines folded at 80; or as v3
//! emits a node that it read from JSON: keys in order, lines as long as they are.

use rdd_meta::{go_json, go_text::plain_float};
use serde_json::{Map, Number, Value};

use super::{
    resolve::{Scalar, core_tag, is_text_v3, resolve},
    tree::{ScalarStyle, YamlContent, YamlNode},
};

/// The width of what an item of a list begins with.
const DASH: usize = 2;
/// Longer keys get a question mark and a line of their own.
const SIMPLE_KEY_MAX: usize = 128;

/// The YAML of a value, which nests no deeper than what a reader of ours gave.
pub fn write(value: &Value) -> String {
    emit(value, Dialect::V2)
}

/// The YAML of a value as goyaml v3 writes what it read as JSON.
pub fn write_v3(value: &Value) -> String {
    emit(value, Dialect::V3)
}

fn emit(value: &Value, dialect: Dialect) -> String {
    let mut emitter = Emitter::new(dialect, dialect.indent());
    emitter.node(value, Place::Root);
    emitter.write_indent();
    emitter.text
}

/// The YAML of a document as goyaml v3 writes nodes: in their order and, where that can be, in their own style. The indentation
/// is for each level, lists in mappings included.
pub fn write_document(node: &YamlNode, indent: usize) -> String {
    // Goyaml takes other widths for its default.
    let indent = if (2..=9).contains(&indent) { indent } else { 2 };
    let mut emitter = Emitter::new(Dialect::V3, indent);
    emitter.tree(node, Place::Root);
    emitter.write_indent();
    emitter.text
}

/// The version of goyaml.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Dialect {
    V2,
    V3,
}

impl Dialect {
    /// Where lines are folded.
    fn width(self) -> usize {
        match self {
            Self::V2 => 80,
            Self::V3 => usize::MAX,
        }
    }

    fn indent(self) -> usize {
        match self {
            Self::V2 => 2,
            Self::V3 => 4,
        }
    }

    /// Whether a text without quotes stays one.
    fn is_text(self, text: &str) -> bool {
        match self {
            Self::V2 => resolve(text) == Scalar::Text && !is_base_60(text),
            Self::V3 => is_text_v3(text),
        }
    }
}

struct Emitter {
    dialect: Dialect,
    /// What each level is indented by.
    step: usize,
    /// Whether it is between brackets.
    in_flow: bool,
    text: String,
    column: usize,
    /// None before the first collection.
    indent: Option<usize>,
    /// Whether the last character was white space.
    whitespace: bool,
    /// Whether only indentation is on the line so far.
    indention: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Root,
    Item,
    Value,
    SimpleKey,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Style {
    Plain,
    Single,
    Double,
    Literal,
    Folded,
}

impl Emitter {
    fn new(dialect: Dialect, step: usize) -> Self {
        let text = String::new();
        Self { dialect, step, in_flow: false, text, column: 0, indent: None, whitespace: true, indention: true }
    }

    /// The indentation of what is one level deeper than this. v3 aligns all but what follows a dash.
    fn deeper(&self, outer: usize, place: Place) -> usize {
        match self.dialect {
            Dialect::V2 => outer + self.step,
            Dialect::V3 if place == Place::Item => outer + DASH,
            Dialect::V3 => (outer / self.step + 1) * self.step,
        }
    }

    fn tree(&mut self, node: &YamlNode, place: Place) {
        if let Some(tag) = &node.tag {
            self.indicator(tag, true, false);
        }
        match &node.content {
            YamlContent::Scalar { text, style } => self.scalar(node, text, *style, place),
            YamlContent::Sequence { items, is_flow } if *is_flow || self.in_flow || items.is_empty() => {
                self.flow('[', ']', |emitter| {
                    for (at, item) in items.iter().enumerate() {
                        emitter.separate(at);
                        emitter.tree(item, Place::Item);
                    }
                });
            }
            YamlContent::Mapping { entries, is_flow } if *is_flow || self.in_flow || entries.is_empty() => {
                self.flow('{', '}', |emitter| {
                    for (at, (key, value)) in entries.iter().enumerate() {
                        emitter.separate(at);
                        emitter.tree(key, Place::SimpleKey);
                        emitter.indicator(":", false, false);
                        emitter.tree(value, Place::Value);
                    }
                });
            }
            YamlContent::Sequence { items, .. } => {
                let outer = self.indent;
                self.indent = Some(outer.map_or(0, |outer| self.deeper(outer, place)));
                for item in items {
                    self.write_indent();
                    self.indicator("-", true, true);
                    self.tree(item, Place::Item);
                }
                self.indent = outer;
            }
            YamlContent::Mapping { entries, .. } => {
                let outer = self.indent;
                self.indent = Some(outer.map_or(0, |outer| self.deeper(outer, place)));
                for (key, value) in entries {
                    self.write_indent();
                    if is_simple_key(key) {
                        self.tree(key, Place::SimpleKey);
                        self.indicator(":", false, false);
                    } else {
                        self.indicator("?", true, true);
                        self.tree(key, Place::Item);
                        self.write_indent();
                        self.indicator(":", true, true);
                    }
                    self.tree(value, Place::Value);
                }
                self.indent = outer;
            }
        }
    }

    fn flow(&mut self, opening: char, closing: char, write_children: impl FnOnce(&mut Self)) {
        let outer = std::mem::replace(&mut self.in_flow, true);
        self.indicator(opening.encode_utf8(&mut [0; 4]), true, false);
        self.whitespace = true;
        write_children(self);
        self.indicator(closing.encode_utf8(&mut [0; 4]), false, false);
        self.in_flow = outer;
    }

    fn separate(&mut self, at: usize) {
        if at > 0 {
            self.indicator(",", false, false);
        }
    }

    fn scalar(&mut self, node: &YamlNode, text: &str, own: ScalarStyle, place: Place) {
        let wanted = match own {
            ScalarStyle::SingleQuoted => Style::Single,
            ScalarStyle::DoubleQuoted => Style::Double,
            ScalarStyle::Literal => Style::Literal,
            ScalarStyle::Folded => Style::Folded,
            ScalarStyle::Plain if text.contains('\n') => Style::Literal,
            // A text that would be read as something else.
            ScalarStyle::Text if core_tag(text) != "!!str" => Style::Double,
            ScalarStyle::Text if text.contains('\n') => Style::Literal,
            ScalarStyle::Plain | ScalarStyle::Text => Style::Plain,
        };
        // Outside of brackets nothing stands for null, and after a tag for an empty text.
        if text.is_empty()
            && wanted == Style::Plain
            && !self.in_flow
            && (node.tag.is_some() || own == ScalarStyle::Plain)
        {
            return;
        }
        self.styled(text, wanted, place);
    }

    fn node(&mut self, value: &Value, place: Place) {
        match value {
            Value::Null => self.plain("null", place),
            Value::Bool(value) => self.plain(if *value { "true" } else { "false" }, place),
            Value::Number(number) if self.dialect == Dialect::V2 => self.plain(&number_text(number), place),
            Value::Number(_) => self.plain(&go_json::to_string(value), place),
            Value::String(text) => self.string(text, place),
            Value::Array(items) if items.is_empty() => self.indicator("[]", true, false),
            Value::Object(entries) if entries.is_empty() => self.indicator("{}", true, false),
            Value::Array(items) => self.sequence(items, place),
            Value::Object(entries) => self.mapping(entries, place),
        }
    }

    fn sequence(&mut self, items: &[Value], place: Place) {
        let outer = self.indent;
        // The items of a list that is a value stand right under its key in v2.
        let indentless = self.dialect == Dialect::V2 && place == Place::Value && !self.indention;
        let deeper = |outer| if indentless { outer } else { self.deeper(outer, place) };
        self.indent = Some(outer.map_or(0, deeper));
        for item in items {
            self.write_indent();
            self.indicator("-", true, true);
            self.node(item, Place::Item);
        }
        self.indent = outer;
    }

    fn mapping(&mut self, entries: &Map<String, Value>, place: Place) {
        let outer = self.indent;
        self.indent = Some(outer.map_or(0, |outer| self.deeper(outer, place)));
        let entries = match self.dialect {
            Dialect::V2 => naturally_sorted(entries),
            Dialect::V3 => sorted(entries),
        };
        for (key, value) in entries {
            self.write_indent();
            if key.len() <= SIMPLE_KEY_MAX && !key.contains(is_break) {
                self.string(key, Place::SimpleKey);
                self.indicator(":", false, false);
            } else {
                self.indicator("?", true, true);
                self.string(key, Place::Value);
                self.write_indent();
                self.indicator(":", true, true);
            }
            self.node(value, Place::Value);
        }
        self.indent = outer;
    }

    fn string(&mut self, text: &str, place: Place) {
        let wanted = if text.contains('\n') {
            Style::Literal
        } else if self.dialect.is_text(text) {
            Style::Plain
        } else {
            Style::Double
        };
        self.styled(text, wanted, place);
    }

    fn styled(&mut self, text: &str, wanted: Style, place: Place) {
        // Its further lines stand deeper than it does.
        let outer = self.indent;
        self.indent = Some(outer.map_or(self.step, |outer| self.deeper(outer, place)));
        match style(self.dialect, text, wanted, place, self.in_flow) {
            Style::Plain => self.plain(text, place),
            Style::Single => self.single_quoted(text, place),
            Style::Double => self.double_quoted(text, place),
            Style::Literal => self.block_scalar(text, false),
            Style::Folded => self.block_scalar(text, true),
        }
        self.indent = outer;
    }

    fn plain(&mut self, text: &str, place: Place) {
        if !self.whitespace {
            self.put(' ');
        }
        let mut spaces = false;
        for (at, character) in text.char_indices() {
            let next_is_space = text[at + character.len_utf8()..].starts_with(' ');
            if character == ' '
                && place != Place::SimpleKey
                && !spaces
                && self.column > self.dialect.width()
                && !next_is_space
            {
                self.write_indent();
            } else {
                self.put(character);
            }
            spaces = character == ' ';
            self.indention &= spaces;
        }
        self.whitespace = false;
        self.indention = false;
    }

    fn single_quoted(&mut self, text: &str, place: Place) {
        self.indicator("'", true, false);
        let (mut spaces, mut breaks) = (false, false);
        for (at, character) in text.char_indices() {
            let rest = &text[at + character.len_utf8()..];
            if character == ' ' {
                let inside = at > 0 && !rest.is_empty() && !rest.starts_with(' ');
                if place != Place::SimpleKey && !spaces && self.column > self.dialect.width() && inside {
                    self.write_indent();
                } else {
                    self.put(character);
                }
                spaces = true;
            } else if is_break(character) {
                self.put_break_character(character);
                self.indention = true;
                breaks = true;
            } else {
                if breaks {
                    self.write_indent();
                }
                if character == '\'' {
                    self.put('\'');
                }
                self.put(character);
                self.indention = false;
                (spaces, breaks) = (false, false);
            }
        }
        self.indicator("'", false, false);
    }

    fn double_quoted(&mut self, text: &str, place: Place) {
        self.indicator("\"", true, false);
        // So does goyaml: a mark at the beginning makes it escape everything.
        let marked = text.starts_with('\u{feff}');
        let mut spaces = false;
        for (at, character) in text.char_indices() {
            let rest = &text[at + character.len_utf8()..];
            if marked || !is_printable(character) || is_break(character) || matches!(character, '"' | '\\') {
                self.escape(character);
                spaces = false;
            } else if character == ' ' {
                let foldable = place != Place::SimpleKey && !spaces && at > 0 && !rest.is_empty();
                if foldable && self.column > self.dialect.width() {
                    self.write_indent();
                    if rest.starts_with(' ') {
                        self.put('\\');
                    }
                } else {
                    self.put(character);
                }
                spaces = true;
            } else {
                self.put(character);
                spaces = false;
            }
        }
        self.indicator("\"", false, false);
    }

    fn escape(&mut self, character: char) {
        let code = u32::from(character);
        let escaped = match character {
            '\0' => "0".to_owned(),
            '\u{7}' => "a".to_owned(),
            '\u{8}' => "b".to_owned(),
            '\t' => "t".to_owned(),
            '\n' => "n".to_owned(),
            '\u{b}' => "v".to_owned(),
            '\u{c}' => "f".to_owned(),
            '\r' => "r".to_owned(),
            '\u{1b}' => "e".to_owned(),
            '"' | '\\' => character.to_string(),
            '\u{85}' => "N".to_owned(),
            '\u{a0}' => "_".to_owned(),
            '\u{2028}' => "L".to_owned(),
            '\u{2029}' => "P".to_owned(),
            _ if code <= 0xff => format!("x{code:02X}"),
            _ if code <= 0xffff => format!("u{code:04X}"),
            _ => format!("U{code:08X}"),
        };
        self.put('\\');
        escaped.chars().for_each(|character| self.put(character));
    }

    fn block_scalar(&mut self, text: &str, is_folded: bool) {
        self.indicator(if is_folded { ">" } else { "|" }, true, false);
        if text.starts_with([' ', '\n', '\r', '\u{85}', '\u{2028}', '\u{2029}']) {
            self.indicator(&self.step.to_string(), false, false);
        }
        let mut last = text.chars().rev();
        match (last.next().is_some_and(is_break), last.next()) {
            (false, _) => self.indicator("-", false, false),
            (true, None) => self.indicator("+", false, false),
            (true, Some(before)) if is_break(before) => self.indicator("+", false, false),
            (true, Some(_)) => {}
        }
        self.put_break();
        (self.indention, self.whitespace) = (true, true);
        let (mut breaks, mut leading_spaces) = (true, true);
        for (at, character) in text.char_indices() {
            if is_break(character) {
                if is_folded && !breaks && !leading_spaces && character == '\n' {
                    // A single break would be read as a blank.
                    let next = text[at..].trim_start_matches(is_break).chars().next();
                    if next.is_some_and(|next| !matches!(next, ' ' | '\t')) {
                        self.put_break();
                    }
                }
                self.put_break_character(character);
                self.indention = true;
            } else {
                if breaks {
                    self.write_indent();
                    leading_spaces = matches!(character, ' ' | '\t');
                }
                self.put(character);
                self.indention = false;
            }
            breaks = is_break(character);
        }
    }

    fn write_indent(&mut self) {
        let indent = self.indent.unwrap_or(0);
        if !self.indention || self.column > indent || (self.column == indent && !self.whitespace) {
            self.put_break();
        }
        while self.column < indent {
            self.put(' ');
        }
        (self.whitespace, self.indention) = (true, true);
    }

    fn indicator(&mut self, indicator: &str, needs_whitespace: bool, is_indention: bool) {
        if needs_whitespace && !self.whitespace {
            self.put(' ');
        }
        indicator.chars().for_each(|character| self.put(character));
        self.whitespace = false;
        self.indention &= is_indention;
    }

    fn put(&mut self, character: char) {
        self.text.push(character);
        self.column += 1;
    }

    fn put_break(&mut self) {
        self.text.push('\n');
        self.column = 0;
    }

    fn put_break_character(&mut self, character: char) {
        self.text.push(character);
        self.column = 0;
    }
}

/// The style that a text can have if it wants this one: `yaml_emitter_select_scalar_style`.
fn style(dialect: Dialect, text: &str, wanted: Style, place: Place, in_flow: bool) -> Style {
    let analysis = Analysis::of(dialect, text);
    let key = place == Place::SimpleKey;
    let mut style = if key && analysis.multiline { Style::Double } else { wanted };
    let plain = analysis.plain && !(in_flow && analysis.flow_indicators);
    if style == Style::Plain && (!plain || text.is_empty() && (key || in_flow)) {
        style = Style::Single;
    }
    let is_block = matches!(style, Style::Literal | Style::Folded);
    if style == Style::Single && !analysis.single_quoted || is_block && (!analysis.block || key || in_flow) {
        style = Style::Double;
    }
    style
}

/// Whether a key needs no question mark.
fn is_simple_key(key: &YamlNode) -> bool {
    match &key.content {
        YamlContent::Scalar { text, .. } => text.len() <= SIMPLE_KEY_MAX && !text.contains(is_break),
        YamlContent::Sequence { items, .. } => items.is_empty(),
        YamlContent::Mapping { entries, .. } => entries.is_empty(),
    }
}

/// What a text allows outside of brackets: `yaml_emitter_analyze_scalar`.
struct Analysis {
    multiline: bool,
    plain: bool,
    /// What means something between brackets only.
    flow_indicators: bool,
    single_quoted: bool,
    block: bool,
}

impl Analysis {
    fn of(dialect: Dialect, text: &str) -> Self {
        if text.is_empty() {
            return Self { multiline: false, plain: true, flow_indicators: false, single_quoted: true, block: false };
        }
        let mut indicators = text.starts_with("---") || text.starts_with("...");
        let (mut breaks, mut special, mut break_space, mut space_break) = (false, false, false, false);
        let mut previous = None;
        for (at, character) in text.char_indices() {
            let next = text[at + character.len_utf8()..].chars().next();
            let before_blank = next.is_none_or(|next| matches!(next, ' ' | '\t'));
            let after_blank =
                previous.is_none_or(|previous| matches!(previous, ' ' | '\t' | '\0') || is_break(previous));
            indicators |= match character {
                ',' | '[' | ']' | '{' | '}' | '&' | '*' | '!' | '|' | '>' | '\'' | '"' | '%' | '@' | '`' => at == 0,
                '#' => after_blank,
                ':' => before_blank,
                '?' | '-' => at == 0 && before_blank,
                _ => false,
            };
            special |= !(is_printable(character) || character == '\t' && dialect == Dialect::V3);
            breaks |= is_break(character);
            break_space |= character == ' ' && previous.is_some_and(is_break);
            space_break |= is_break(character) && previous == Some(' ');
            previous = Some(character);
        }
        let blank = |character: char| character == ' ' || is_break(character);
        let edges = text.starts_with(blank) || text.ends_with(blank);
        let tabs = text.contains('\t');
        Self {
            multiline: breaks,
            flow_indicators: text.contains([',', '?', '[', ']', '{', '}', ':']),
            plain: !(edges || break_space || space_break || special || tabs || breaks || indicators),
            single_quoted: !(break_space || space_break || special || tabs),
            block: !(text.ends_with(' ') || space_break || special),
        }
    }
}

fn is_break(character: char) -> bool {
    matches!(character, '\r' | '\n' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

fn is_printable(character: char) -> bool {
    matches!(character, '\n' | ' '..='~' | '\u{a0}'..='\u{d7ff}' | '\u{e000}'..='\u{fffd}') && character != '\u{feff}'
}

/// A number as it comes out after it went through JSON: whole ones as digits, others as `strconv` has them.
fn number_text(number: &Number) -> String {
    let json = go_json::to_string(&Value::Number(number.clone()));
    if json.parse::<i64>().is_ok() || json.parse::<u64>().is_ok() {
        return if json == "-0" { "0".to_owned() } else { json };
    }
    number.as_f64().map_or(json, plain_float)
}

/// `[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?`: a number to base 60 for some readers.
fn is_base_60(text: &str) -> bool {
    let text = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let mut parts = whole.split(':');
    let first = parts.next().is_some_and(|first| {
        first.starts_with(|first: char| first.is_ascii_digit())
            && first.bytes().all(|byte| byte.is_ascii_digit() || byte == b'_')
    });
    let mut count = 0;
    let sixty = parts.all(|part| {
        count += 1;
        matches!(part.as_bytes(), [b'0'..=b'9'] | [b'0'..=b'5', b'0'..=b'9'])
    });
    first && sixty && count > 0 && fraction.bytes().all(|byte| byte.is_ascii_digit() || byte == b'_')
}

/// The entries in the order in which JSON has them.
fn sorted(entries: &Map<String, Value>) -> Vec<(&String, &Value)> {
    let mut entries: Vec<_> = entries.iter().collect();
    entries.sort_by_key(|(key, _)| *key);
    entries
}

/// The entries in goyaml's order, in which `a2` comes before `a10`. That order is not transitive, which a sort of the
/// standard library may panic at, so the merging is done here.
fn naturally_sorted(entries: &Map<String, Value>) -> Vec<(&String, &Value)> {
    let mut keys: Vec<(Vec<char>, &String, &Value)> =
        entries.iter().map(|(key, value)| (key.chars().collect(), key, value)).collect();
    let mut width = 1;
    while width < keys.len() {
        let mut merged = Vec::with_capacity(keys.len());
        let mut rest = keys.into_iter().peekable();
        while rest.peek().is_some() {
            let left: Vec<_> = rest.by_ref().take(width).collect();
            let right: Vec<_> = rest.by_ref().take(width).collect();
            let (mut left, mut right) = (left.into_iter().peekable(), right.into_iter().peekable());
            while let (Some(one), Some(other)) = (left.peek(), right.peek()) {
                merged.extend(if less(&other.0, &one.0) { right.next() } else { left.next() });
            }
            merged.extend(left);
            merged.extend(right);
        }
        keys = merged;
        width *= 2;
    }
    keys.into_iter().map(|(_, key, value)| (key, value)).collect()
}

/// `keyList.Less` for strings.
fn less(left: &[char], right: &[char]) -> bool {
    let Some(at) = left.iter().zip(right).position(|(one, other)| one != other) else {
        return left.len() < right.len();
    };
    let (one, other) = (left[at], right[at]);
    if one.is_alphabetic() && other.is_alphabetic() {
        return one < other;
    }
    if one.is_alphabetic() || other.is_alphabetic() {
        return other.is_alphabetic();
    }
    let digits_before = left[..at].iter().rev().take_while(|digit| digit.is_ascii_digit());
    let zero = one == '0' || other == '0';
    let start = i64::from(zero && digits_before.into_iter().any(|digit| *digit != '0'));
    let run = |text: &[char]| {
        let digits: Vec<i64> = text[at..].iter().map_while(|digit| digit.to_digit(10)).map(i64::from).collect();
        let number = digits.iter().fold(start, |number, digit| number.wrapping_mul(10).wrapping_add(*digit));
        (number, digits.len())
    };
    let (one_run, other_run) = (run(left), run(right));
    if one_run != other_run { one_run < other_run } else { one < other }
}

#[cfg(test)]
#[path = "write_tests.rs"]
mod tests;
