//! Patterns in Go's syntax (RE2), for an engine whose own syntax differs in details.
//!
//! Classes like `\d` mean ASCII, `[` inside a class is itself, `\Q…\E` quotes, braces that count nothing are literal, counts end
//! at 1000, and what Go refuses is refused. The words of refusals are Go's, as far as one look at the pattern can tell.

/// The engine's form of a Go pattern.
///
/// # Errors
/// Go's words for what is wrong with it.
pub(crate) fn translate(pattern: &str) -> Result<String, String> {
    let mut translator =
        Translator { chars: pattern.chars().collect(), at: 0, out: String::with_capacity(pattern.len() + 8), depth: 0 };
    translator.run()?;
    if translator.depth > 0 {
        return refused("missing closing )", pattern);
    }
    Ok(translator.out)
}

fn refused<T>(problem: &str, part: &str) -> Result<T, String> {
    Err(format!("error parsing regexp: {problem}: `{part}`"))
}

/// More than this many repetitions Go does not count.
const REPEAT_MAX: u32 = 1000;

struct Translator {
    chars: Vec<char>,
    at: usize,
    out: String,
    depth: usize,
}

impl Translator {
    fn peek(&self, ahead: usize) -> Option<char> {
        self.chars.get(self.at + ahead).copied()
    }

    fn text(&self, from: usize, to: usize) -> String {
        self.chars[from..to.min(self.chars.len())].iter().collect()
    }

    fn run(&mut self) -> Result<(), String> {
        let mut repeatable = false;
        let mut repeated_from = None;
        while let Some(c) = self.peek(0) {
            let start = self.at;
            match c {
                '\\' => {
                    repeatable = self.escape()?;
                    repeated_from = None;
                    continue;
                }
                '[' => {
                    self.class()?;
                    (repeatable, repeated_from) = (true, None);
                    continue;
                }
                '(' => {
                    self.group()?;
                    (repeatable, repeated_from) = (false, None);
                    continue;
                }
                ')' => {
                    if self.depth == 0 {
                        return refused("unexpected )", &self.text(0, self.chars.len()));
                    }
                    self.depth -= 1;
                    (repeatable, repeated_from) = (true, None);
                }
                '*' | '+' | '?' => {
                    let lazy = usize::from(self.peek(1) == Some('?'));
                    let end = self.at + 1 + lazy;
                    self.repetition(start, end, repeatable, &mut repeated_from)?;
                    continue;
                }
                '{' => match self.count() {
                    Some((low, high, end)) => {
                        if low > REPEAT_MAX || high.is_some_and(|high| high > REPEAT_MAX || high < low) {
                            return refused("invalid repeat count", &self.text(start, end));
                        }
                        let lazy = usize::from(self.chars.get(end) == Some(&'?'));
                        self.repetition(start, end + lazy, repeatable, &mut repeated_from)?;
                        continue;
                    }
                    None => {
                        self.out.push_str("\\{");
                        self.at += 1;
                        (repeatable, repeated_from) = (true, None);
                        continue;
                    }
                },
                '}' => {
                    self.out.push_str("\\}");
                    self.at += 1;
                    (repeatable, repeated_from) = (true, None);
                    continue;
                }
                '|' => (repeatable, repeated_from) = (false, None),
                // Anchors can be repeated, as in Go.
                _ => (repeatable, repeated_from) = (true, None),
            }
            self.out.push(c);
            self.at += 1;
        }
        Ok(())
    }

    fn repetition(
        &mut self,
        start: usize,
        end: usize,
        repeatable: bool,
        from: &mut Option<usize>,
    ) -> Result<(), String> {
        if let Some(before) = *from {
            return refused("invalid nested repetition operator", &self.text(before, end));
        }
        if !repeatable {
            return refused("missing argument to repetition operator", &self.text(start, end));
        }
        let text = self.text(start, end);
        self.out.push_str(&text);
        self.at = end;
        *from = Some(start);
        Ok(())
    }

    /// `{2}`, `{2,}`, `{2,5}`: the bounds and where it ends. Anything else in braces is literal.
    fn count(&self) -> Option<(u32, Option<u32>, usize)> {
        let close = self.chars[self.at..].iter().position(|c| *c == '}')? + self.at;
        let inner = self.text(self.at + 1, close);
        let number = |text: &str| -> Option<u32> {
            let canonical = !text.is_empty()
                && text.bytes().all(|c| c.is_ascii_digit())
                && !(text.len() > 1 && text.starts_with('0'));
            canonical.then(|| text.parse().unwrap_or(u32::MAX))
        };
        let (low, high) = match inner.split_once(',') {
            None => {
                let exact = number(&inner)?;
                (exact, Some(exact))
            }
            Some((low, "")) => (number(low)?, None),
            Some((low, high)) => (number(low)?, Some(number(high)?)),
        };
        Some((low, high, close + 1))
    }

    fn group(&mut self) -> Result<(), String> {
        self.depth += 1;
        if self.peek(1) != Some('?') {
            self.out.push('(');
            self.at += 1;
            return Ok(());
        }
        let start = self.at;
        let named = matches!((self.peek(2), self.peek(3)), (Some('P'), Some('<')))
            || (self.peek(2) == Some('<') && !matches!(self.peek(3), Some('=' | '!')));
        if named {
            let open = if self.peek(2) == Some('P') { start + 4 } else { start + 3 };
            let rest = self.text(start, self.chars.len());
            let Some(close) = self.chars[open..].iter().position(|c| *c == '>').map(|at| at + open) else {
                return refused("invalid named capture", &rest);
            };
            let name = self.text(open, close);
            if name.is_empty() || !name.chars().all(|c| c == '_' || c.is_ascii_alphanumeric()) {
                return refused("invalid named capture", &self.text(start, close + 1));
            }
            // Groups are never asked for by name here, and the engine is stricter about names.
            self.out.push('(');
            self.at = close + 1;
            return Ok(());
        }
        let mut end = start + 2;
        while let Some(c) = self.chars.get(end) {
            match c {
                'i' | 'm' | 's' | 'U' | '-' => end += 1,
                ':' | ')' => {
                    let flags = self.text(start, end + 1);
                    if flags.matches('-').count() > 1 || flags.contains("-)") || flags.contains("-:") {
                        break;
                    }
                    if *c == ')' {
                        self.depth -= 1;
                    }
                    self.out.push_str(&flags);
                    self.at = end + 1;
                    return Ok(());
                }
                _ => break,
            }
        }
        refused("invalid or unsupported Perl syntax", &self.text(start, end + 1))
    }

    /// An escape outside a class; whether it can be repeated.
    fn escape(&mut self) -> Result<bool, String> {
        let Some(kind) = self.peek(1) else { return refused("trailing backslash at end of expression", "") };
        let plain = |translator: &mut Self, text: &str| {
            translator.out.push_str(text);
            translator.at += 2;
            Ok(true)
        };
        match kind {
            'd' => plain(self, "[0-9]"),
            'D' => plain(self, "[^0-9]"),
            'w' => plain(self, "[0-9A-Za-z_]"),
            'W' => plain(self, "[^0-9A-Za-z_]"),
            's' => plain(self, "[\\t\\n\\f\\r ]"),
            'S' => plain(self, "[^\\t\\n\\f\\r ]"),
            'b' => plain(self, "(?-u:\\b)"),
            'B' => plain(self, "\\B"),
            'A' => plain(self, "\\A"),
            'z' => plain(self, "\\z"),
            'Q' => {
                let rest = self.text(self.at + 2, self.chars.len());
                let quoted = rest.split("\\E").next().unwrap_or_default().to_owned();
                let closed = rest.len() > quoted.len();
                self.out.push_str(&regex::escape(&quoted));
                self.at += 2 + quoted.chars().count() + if closed { 2 } else { 0 };
                Ok(!quoted.is_empty())
            }
            _ => {
                let literal = self.escaped_char()?;
                self.out.push_str(&literal);
                Ok(true)
            }
        }
    }

    /// What classes and the rest have in common: signs, numbers, named sets.
    fn escaped_char(&mut self) -> Result<String, String> {
        let start = self.at;
        let kind = self.peek(1).unwrap_or_default();
        let fixed = |text: String, length: usize, translator: &mut Self| {
            translator.at += length;
            Ok(text)
        };
        match kind {
            'a' | 'f' | 't' | 'n' | 'r' | 'v' => fixed(format!("\\{kind}"), 2, self),
            'p' | 'P' => {
                let length = match self.peek(2) {
                    Some('{') => self.chars[start..].iter().position(|c| *c == '}').map(|at| at + 1),
                    Some(_) => Some(3),
                    None => None,
                };
                let Some(length) = length else {
                    return refused("invalid character class range", &self.text(start, self.chars.len()));
                };
                let text = self.text(start, start + length);
                if regex::Regex::new(&text).is_err() {
                    return refused("invalid character class range", &text);
                }
                fixed(text, length, self)
            }
            'x' => {
                let (digits, length) = match self.peek(2) {
                    Some('{') => match self.chars[start..].iter().position(|c| *c == '}') {
                        Some(close) => (self.text(start + 3, start + close), close + 1),
                        None => return refused("invalid escape sequence", &self.text(start, self.chars.len())),
                    },
                    _ => (self.text(start + 2, start + 4), 4),
                };
                let code = u32::from_str_radix(&digits, 16).ok().filter(|_| length != 4 || digits.len() == 2);
                match code.and_then(char::from_u32) {
                    Some(c) => fixed(regex::escape(&c.to_string()), length, self),
                    None => refused("invalid escape sequence", &self.text(start, start + 3)),
                }
            }
            '0'..='7' => {
                let digits: String =
                    self.chars[start + 1..].iter().take(3).take_while(|c| ('0'..='7').contains(*c)).collect();
                if kind != '0' && digits.len() < 2 {
                    return refused("invalid escape sequence", &self.text(start, start + 2));
                }
                let code = u32::from_str_radix(&digits, 8).unwrap_or_default();
                let c = char::from_u32(code).unwrap_or_default();
                fixed(regex::escape(&c.to_string()), 1 + digits.len(), self)
            }
            c if c.is_ascii_punctuation() => fixed(format!("\\x{:02X}", c as u32), 2, self),
            _ => refused("invalid escape sequence", &self.text(start, start + 2)),
        }
    }

    fn class(&mut self) -> Result<(), String> {
        let start = self.at;
        self.out.push('[');
        self.at += 1;
        if self.peek(0) == Some('^') {
            self.out.push('^');
            self.at += 1;
        }
        let mut first = true;
        loop {
            let Some(c) = self.peek(0) else {
                return refused("missing closing ]", &self.text(start, self.chars.len()));
            };
            match c {
                ']' if !first => {
                    self.out.push(']');
                    self.at += 1;
                    return Ok(());
                }
                '[' if self.peek(1) == Some(':') && self.named_class()? => {}
                '-' if !first && self.peek(1) != Some(']') => {
                    return refused("invalid character class range", &self.text(self.at, self.at + 2));
                }
                _ => self.range()?,
            }
            first = false;
        }
    }

    /// `[:alpha:]`; whether it was one.
    fn named_class(&mut self) -> Result<bool, String> {
        let rest = self.text(self.at, self.chars.len());
        let Some(end) = rest.find(":]") else { return Ok(false) };
        let name = &rest[..end + 2];
        const NAMES: [&str; 14] = [
            "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct", "space", "upper",
            "word", "xdigit",
        ];
        let plain = name[2..end].trim_start_matches('^');
        if !NAMES.contains(&plain) {
            return refused("invalid character class range", name);
        }
        self.out.push_str(name);
        self.at += name.chars().count();
        Ok(true)
    }

    /// A sign of a class, or two with a dash between.
    fn range(&mut self) -> Result<(), String> {
        let start = self.at;
        let set = match (self.peek(0), self.peek(1)) {
            (Some('\\'), Some('d')) => "0-9",
            (Some('\\'), Some('D')) => "[^0-9]",
            (Some('\\'), Some('w')) => "0-9A-Za-z_",
            (Some('\\'), Some('W')) => "[^0-9A-Za-z_]",
            (Some('\\'), Some('s')) => "\\t\\n\\f\\r\\x20",
            (Some('\\'), Some('S')) => "[^\\t\\n\\f\\r\\x20]",
            (Some('\\'), None) => return refused("trailing backslash at end of expression", ""),
            _ => "",
        };
        if !set.is_empty() {
            self.out.push_str(set);
            self.at += 2;
            return Ok(());
        }
        let is_named = matches!((self.peek(0), self.peek(1)), (Some('\\'), Some('p' | 'P')));
        let low = self.class_char()?;
        self.out.push_str(&low);
        if !is_named && self.peek(0) == Some('-') && self.peek(1).is_some_and(|next| next != ']') {
            self.at += 1;
            let high = self.class_char()?;
            if single(&high) < single(&low) {
                return refused("invalid character class range", &self.text(start, self.at));
            }
            self.out.push('-');
            self.out.push_str(&high);
        }
        Ok(())
    }

    fn class_char(&mut self) -> Result<String, String> {
        match self.peek(0) {
            Some('\\') => self.escaped_char(),
            Some(c) => {
                self.at += 1;
                Ok(if c.is_ascii_punctuation() || c == ' ' { format!("\\x{:02X}", c as u32) } else { c.to_string() })
            }
            None => Ok(String::new()),
        }
    }
}

/// The one sign that a part of a class stands for.
fn single(text: &str) -> Option<char> {
    if let Some(hex) = text.strip_prefix("\\x") {
        return u32::from_str_radix(hex, 16).ok().and_then(char::from_u32);
    }
    match text {
        "\\a" => Some('\u{7}'),
        "\\f" => Some('\u{c}'),
        "\\t" => Some('\t'),
        "\\n" => Some('\n'),
        "\\r" => Some('\r'),
        "\\v" => Some('\u{b}'),
        other => other.chars().last(),
    }
}
