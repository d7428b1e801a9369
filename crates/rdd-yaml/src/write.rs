//! Writes YAML byte for byte as goyaml does. Goyaml v2, for JSON: block style, keys in natural order, lines folded at
//! 80 columns. Goyaml v3, for a node that it read from JSON: keys in JSON's order, lines not folded.

use rdd_meta::{go_json, go_text::plain_float};
use serde_json::{Map, Number, Value};

use super::{
    resolve::{Scalar, core_tag, is_text_v3, resolve},
    tree::{ScalarStyle, YamlContent, YamlNode},
};

/// The width of the `- ` before an item of a list.
const DASH: usize = 2;
/// The longest key that is written without a question mark.
const SIMPLE_KEY_MAX: usize = 128;

/// Writes a value as goyaml v2 does. The value must not nest deeper than values that [`read`](super::read()) returns,
/// because the emitter recurses.
pub fn write(value: &Value) -> String {
    emit(value, Dialect::V2)
}

/// Writes a value as goyaml v3 writes a document that it read as JSON.
pub fn write_v3(value: &Value) -> String {
    emit(value, Dialect::V3)
}

fn emit(value: &Value, dialect: Dialect) -> String {
    let mut emitter = Emitter::new(dialect, dialect.indent());
    emitter.node(value, Place::Root);
    emitter.write_indent();
    emitter.text
}

/// Writes a document as goyaml v3 writes nodes: in their order, and each scalar in its own style where its text allows
/// that. `indent` applies to every level, including lists in mappings.
pub fn write_document(node: &YamlNode, indent: usize) -> String {
    // Goyaml takes its default for other widths.
    let indent = if (2..=9).contains(&indent) { indent } else { 2 };
    let mut emitter = Emitter::new(Dialect::V3, indent);
    emitter.tree(node, Place::Root);
    emitter.write_indent();
    emitter.text
}

/// The version of goyaml whose output is written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Dialect {
    V2,
    V3,
}

impl Dialect {
    /// The column after which lines are folded.
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

    /// Whether a plain scalar with this text is read back as a string.
    fn is_text(self, text: &str) -> bool {
        match self {
            Self::V2 => resolve(text) == Scalar::Text && !is_base_60(text),
            Self::V3 => is_text_v3(text),
        }
    }
}

/// Writes nodes to a text: goyaml's `yaml_emitter_t`.
struct Emitter {
    dialect: Dialect,
    /// The indentation of one level.
    step: usize,
    /// Whether the emitter is between brackets.
    in_flow: bool,
    text: String,
    column: usize,
    /// The current indentation; `None` before the first collection.
    indent: Option<usize>,
    /// Whether the last character was white space.
    whitespace: bool,
    /// Whether the line has only indentation so far.
    indention: bool,
}

/// The position of a node in its parent.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Root,
    Item,
    Value,
    SimpleKey,
}

/// The style that a scalar is written in.
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

    /// The indentation one level below `outer`. v3 aligns to multiples of the step, except after a dash.
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

    /// Writes a collection in brackets. `write_children` writes its content.
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
            // Without quotes, the text would be read as another type.
            ScalarStyle::Text if core_tag(text) != "!!str" => Style::Double,
            ScalarStyle::Text if text.contains('\n') => Style::Literal,
            ScalarStyle::Plain | ScalarStyle::Text => Style::Plain,
        };
        // An empty scalar writes nothing: outside of brackets it is read as null, and after a tag as an empty string.
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
        // v2 does not indent a list below its key.
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
        // Continuation lines are indented deeper than the scalar itself.
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
            // A line is folded at a single blank only, because a reader joins lines with one blank.
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
                // Blanks at either end would be lost in folding.
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
        // Goyaml does the same: a byte order mark at the beginning makes it escape everything.
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
                    // A reader drops the blanks at the start of a continuation line, so the first one is escaped.
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
        // The reader cannot detect the indentation from a first line that is empty or begins with a blank.
        if text.starts_with([' ', '\n', '\r', '\u{85}', '\u{2028}', '\u{2029}']) {
            self.indicator(&self.step.to_string(), false, false);
        }
        // The chomping indicator: `-` without a final line break, `+` with more than one.
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
                    // A reader would turn a single line break into a blank.
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

    /// Begins a new line, unless only indentation is on the current one, and indents it.
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

    /// Writes an indicator, after a blank if it needs one. `is_indention` keeps the line counted as indentation only
    /// (`- - a`).
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

/// Selects the style for a text that asks for style `wanted`: `yaml_emitter_select_scalar_style`.
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

/// Whether a key can be written without a question mark.
fn is_simple_key(key: &YamlNode) -> bool {
    match &key.content {
        YamlContent::Scalar { text, .. } => text.len() <= SIMPLE_KEY_MAX && !text.contains(is_break),
        YamlContent::Sequence { items, .. } => items.is_empty(),
        YamlContent::Mapping { entries, .. } => entries.is_empty(),
    }
}

/// The styles that the content of a text allows: `yaml_emitter_analyze_scalar`.
struct Analysis {
    multiline: bool,
    plain: bool,
    /// Whether the text has characters that are indicators only between brackets.
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

/// Formats a number after a round trip through JSON: integers as digits, other numbers as Go's `strconv` formats them.
fn number_text(number: &Number) -> String {
    let json = go_json::to_string(&Value::Number(number.clone()));
    if json.parse::<i64>().is_ok() || json.parse::<u64>().is_ok() {
        return if json == "-0" { "0".to_owned() } else { json };
    }
    number.as_f64().map_or(json, plain_float)
}

/// Whether the text looks like a base-60 number, as some readers of YAML 1.1 take it:
/// `[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?`.
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

/// The entries in the order of JSON output.
fn sorted(entries: &Map<String, Value>) -> Vec<(&String, &Value)> {
    let mut entries: Vec<_> = entries.iter().collect();
    entries.sort_by_key(|(key, _)| *key);
    entries
}

/// The entries in goyaml's natural order, in which `a2` comes before `a10`. That order is not transitive and `sort_by`
/// may panic on such an order, so this is a merge sort of its own.
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

/// Whether a key sorts before another: goyaml's `keyList.Less` for strings.
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
    // Goyaml takes leading zeros into account only within a longer run of digits.
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
