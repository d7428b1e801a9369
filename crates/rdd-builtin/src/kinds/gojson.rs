//! Reproduces the errors of Go's `json.Unmarshal` into a `map[string]interface{}`, verbatim.

/// The container around the scan position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Within {
    Array,
    /// An object, before the colon.
    Key,
    /// An object, after the colon.
    Member,
}

/// What may come next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expect {
    Value,
    ValueOrEnd,
    KeyOrEnd,
    Key,
    AfterValue,
}

/// Go's limit of nesting.
const DEPTH_MAX: usize = 10_000;

/// The error for a text that is not a JSON object; `None` if it is one, or null.
pub(crate) fn object_problem(text: &[u8]) -> Option<String> {
    let mut scan = Scan { text, at: 0, within: Vec::new(), expect: Expect::Value };
    if let Err(problem) = scan.run() {
        return Some(problem);
    }
    let first = text.iter().find(|byte| !byte.is_ascii_whitespace());
    let found = match first {
        Some(b'{' | b'n') => return None,
        Some(b'[') => "array",
        Some(b'"') => "string",
        Some(b't' | b'f') => "bool",
        _ => "number",
    };
    Some(format!("json: cannot unmarshal {found} into Go value of type map[string]interface {{}}"))
}

struct Scan<'a> {
    text: &'a [u8],
    at: usize,
    within: Vec<Within>,
    expect: Expect,
}

impl Scan<'_> {
    fn run(&mut self) -> Result<(), String> {
        loop {
            while self.peek().is_some_and(|byte| b" \t\r\n".contains(&byte)) {
                self.at += 1;
            }
            let Some(byte) = self.peek() else {
                let done = self.within.is_empty() && self.expect == Expect::AfterValue;
                return if done { Ok(()) } else { Err(UNEXPECTED_END.to_owned()) };
            };
            match self.expect {
                Expect::ValueOrEnd if byte == b']' => self.close(),
                Expect::KeyOrEnd if byte == b'}' => self.close(),
                Expect::Value | Expect::ValueOrEnd => self.value(byte)?,
                Expect::Key | Expect::KeyOrEnd => self.key(byte)?,
                Expect::AfterValue => self.after_value(byte)?,
            }
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn close(&mut self) {
        self.at += 1;
        self.within.pop();
        self.expect = Expect::AfterValue;
    }

    fn open(&mut self, within: Within, expect: Expect) -> Result<(), String> {
        if self.within.len() >= DEPTH_MAX {
            return Err("exceeded max depth".to_owned());
        }
        self.within.push(within);
        self.expect = expect;
        self.at += 1;
        Ok(())
    }

    fn value(&mut self, byte: u8) -> Result<(), String> {
        match byte {
            b'{' => return self.open(Within::Key, Expect::KeyOrEnd),
            b'[' => return self.open(Within::Array, Expect::ValueOrEnd),
            b'"' => self.string()?,
            b't' => self.literal("true")?,
            b'f' => self.literal("false")?,
            b'n' => self.literal("null")?,
            b'-' | b'0'..=b'9' => self.number()?,
            other => return Err(invalid(other, "looking for beginning of value")),
        }
        self.expect = Expect::AfterValue;
        Ok(())
    }

    fn key(&mut self, byte: u8) -> Result<(), String> {
        if byte != b'"' {
            return Err(invalid(byte, "looking for beginning of object key string"));
        }
        self.string()?;
        self.expect = Expect::AfterValue;
        Ok(())
    }

    fn after_value(&mut self, byte: u8) -> Result<(), String> {
        let context = match (self.within.last().copied(), byte) {
            (None, _) => "after top-level value",
            (Some(Within::Key), b':') => {
                self.within.pop();
                self.within.push(Within::Member);
                self.at += 1;
                self.expect = Expect::Value;
                return Ok(());
            }
            (Some(Within::Key), _) => "after object key",
            (Some(Within::Member), b',') => {
                self.within.pop();
                self.within.push(Within::Key);
                self.at += 1;
                self.expect = Expect::Key;
                return Ok(());
            }
            (Some(Within::Array), b',') => {
                self.at += 1;
                self.expect = Expect::Value;
                return Ok(());
            }
            (Some(Within::Member), b'}') | (Some(Within::Array), b']') => {
                self.close();
                return Ok(());
            }
            (Some(Within::Member), _) => "after object key:value pair",
            (Some(Within::Array), _) => "after array element",
        };
        Err(invalid(byte, context))
    }

    fn next(&mut self) -> Result<u8, String> {
        let byte = self.peek().ok_or(UNEXPECTED_END)?;
        self.at += 1;
        Ok(byte)
    }

    fn string(&mut self) -> Result<(), String> {
        self.at += 1;
        loop {
            match self.next()? {
                b'"' => return Ok(()),
                b'\\' => self.escape()?,
                control @ 0..0x20 => return Err(invalid(control, "in string literal")),
                _ => {}
            }
        }
    }

    fn escape(&mut self) -> Result<(), String> {
        match self.next()? {
            b'b' | b'f' | b'n' | b'r' | b't' | b'\\' | b'/' | b'"' => Ok(()),
            b'u' => (0..4).try_for_each(|_| match self.next()? {
                byte if byte.is_ascii_hexdigit() => Ok(()),
                other => Err(invalid(other, "in \\u hexadecimal character escape")),
            }),
            other => Err(invalid(other, "in string escape code")),
        }
    }

    fn literal(&mut self, literal: &str) -> Result<(), String> {
        self.at += 1;
        for wanted in literal.bytes().skip(1) {
            let found = self.next()?;
            if found != wanted {
                let context = format!("in literal {literal} (expecting {})", quoted(wanted));
                return Err(invalid(found, &context));
            }
        }
        Ok(())
    }

    fn number(&mut self) -> Result<(), String> {
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        match self.next()? {
            b'0' => {}
            b'1'..=b'9' => self.digits(),
            other => return Err(invalid(other, "in numeric literal")),
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.some_digits("after decimal point in numeric literal")?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.some_digits("in exponent of numeric literal")?;
        }
        Ok(())
    }

    fn digits(&mut self) {
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
    }

    fn some_digits(&mut self, context: &str) -> Result<(), String> {
        let first = self.next()?;
        if !first.is_ascii_digit() {
            return Err(invalid(first, context));
        }
        self.digits();
        Ok(())
    }
}

const UNEXPECTED_END: &str = "unexpected end of JSON input";

fn invalid(byte: u8, context: &str) -> String {
    format!("invalid character {} {context}", quoted(byte))
}

/// Quotes a byte like Go's scanner, as the character with that number.
fn quoted(byte: u8) -> String {
    match byte {
        b'\'' => "'\\''".to_owned(),
        b'"' => "'\"'".to_owned(),
        other => {
            let quoted = rdd_meta::go_text::quote(&char::from(other).to_string());
            format!("'{}'", quoted.trim_matches('"'))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn complaints_are_those_of_go() {
        for (text, problem) in [
            ("{}", ""),
            (" null ", ""),
            (r#"{"a": [1, -0.5e+3, true, {"b": "\u00e9\n"}, []]}"#, ""),
            ("", "unexpected end of JSON input"),
            ("{", "unexpected end of JSON input"),
            (r#"{"a""#, "unexpected end of JSON input"),
            ("[]", "json: cannot unmarshal array into Go value of type map[string]interface {}"),
            ("\"x\"", "json: cannot unmarshal string into Go value of type map[string]interface {}"),
            ("12", "json: cannot unmarshal number into Go value of type map[string]interface {}"),
            ("true", "json: cannot unmarshal bool into Go value of type map[string]interface {}"),
            ("foo", "invalid character 'o' in literal false (expecting 'a')"),
            ("{a}", "invalid character 'a' looking for beginning of object key string"),
            ("{} x", "invalid character 'x' after top-level value"),
            ("{\"a\" 1}", "invalid character '1' after object key"),
            ("{\"a\":1 2}", "invalid character '2' after object key:value pair"),
            ("[1 2]", "invalid character '2' after array element"),
            ("[1,]", "invalid character ']' looking for beginning of value"),
            ("\"\n\"", "invalid character '\\n' in string literal"),
            ("\"\\x\"", "invalid character 'x' in string escape code"),
            ("\"\\u12g\"", "invalid character 'g' in \\u hexadecimal character escape"),
            ("-x", "invalid character 'x' in numeric literal"),
            ("1.x", "invalid character 'x' after decimal point in numeric literal"),
            ("1ex", "invalid character 'x' in exponent of numeric literal"),
            ("'", "invalid character '\\'' looking for beginning of value"),
            ("{\"a\":\"}", "unexpected end of JSON input"),
        ] {
            assert_eq!(object_problem(text.as_bytes()).unwrap_or_default(), problem, "{text}");
        }
    }
}
