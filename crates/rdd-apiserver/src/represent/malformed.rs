//! Go's error message for malformed JSON.

use rdd_meta::go_text::quote;

/// The maximum nesting depth, equal to that of our JSON parser.
const DEPTH_MAX: usize = 127;

/// The message of Go's JSON scanner for the first error in a text, or `None` if Go finds none. One pass without recursion, so deeply
/// nested input cannot overflow the stack.
pub(super) fn problem(json: &[u8]) -> Option<String> {
    let mut scanner = Scanner { json, at: 0, open: Vec::new() };
    scanner.document().err()
}

struct Scanner<'j> {
    json: &'j [u8],
    at: usize,
    /// The open brackets, outermost first.
    open: Vec<u8>,
}

enum Expect {
    Value,
    /// A value, or the end of an empty array.
    FirstItem,
    /// A key, or the end of an empty object.
    FirstKey,
    Key,
    AfterValue,
}

impl Scanner<'_> {
    fn document(&mut self) -> Result<(), String> {
        let mut expect = Expect::Value;
        loop {
            self.space();
            let byte = match self.peek() {
                Some(byte) => byte,
                None if matches!(expect, Expect::AfterValue) && self.open.is_empty() => return Ok(()),
                None => return Err(end()),
            };
            expect = match (expect, byte) {
                (Expect::FirstItem, b']') | (Expect::FirstKey, b'}') => self.close(),
                (Expect::Value | Expect::FirstItem, _) => self.value(byte)?,
                (Expect::FirstKey | Expect::Key, b'"') => {
                    self.string()?;
                    self.space();
                    self.expect(b':', "after object key")?;
                    Expect::Value
                }
                (Expect::FirstKey | Expect::Key, _) => return self.wrong("looking for beginning of object key string"),
                (Expect::AfterValue, _) => match (self.open.last(), byte) {
                    (Some(b'{'), b'}') | (Some(b'['), b']') => self.close(),
                    (Some(open), b',') => {
                        let next = if *open == b'{' { Expect::Key } else { Expect::Value };
                        self.at += 1;
                        next
                    }
                    (Some(b'{'), _) => return self.wrong("after object key:value pair"),
                    (Some(_), _) => return self.wrong("after array element"),
                    (None, _) => return self.wrong("after top-level value"),
                },
            };
        }
    }

    fn value(&mut self, byte: u8) -> Result<Expect, String> {
        match byte {
            b'{' | b'[' => {
                if self.open.len() >= DEPTH_MAX {
                    return self.wrong("exceeded max depth");
                }
                self.open.push(byte);
                self.at += 1;
                return Ok(if byte == b'{' { Expect::FirstKey } else { Expect::FirstItem });
            }
            b'"' => self.string()?,
            b'-' | b'0'..=b'9' => self.number()?,
            b't' => self.literal("true")?,
            b'f' => self.literal("false")?,
            b'n' => self.literal("null")?,
            _ => return self.wrong("looking for beginning of value"),
        }
        Ok(Expect::AfterValue)
    }

    fn close(&mut self) -> Expect {
        self.open.pop();
        self.at += 1;
        Expect::AfterValue
    }

    fn string(&mut self) -> Result<(), String> {
        self.at += 1;
        loop {
            match self.peek().ok_or_else(end)? {
                b'"' => break,
                b'\\' => {
                    self.at += 1;
                    match self.peek().ok_or_else(end)? {
                        b'u' => {
                            for _ in 0..4 {
                                self.at += 1;
                                if !self.peek().ok_or_else(end)?.is_ascii_hexdigit() {
                                    return self.wrong("in \\u hexadecimal character escape");
                                }
                            }
                        }
                        b'b' | b'f' | b'n' | b'r' | b't' | b'\\' | b'/' | b'"' => {}
                        _ => return self.wrong("in string escape code"),
                    }
                }
                ..0x20 => return self.wrong("in string literal"),
                _ => {}
            }
            self.at += 1;
        }
        self.at += 1;
        Ok(())
    }

    fn number(&mut self) -> Result<(), String> {
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        if self.peek() == Some(b'0') {
            self.at += 1;
        } else {
            self.digits("in numeric literal")?;
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits("after decimal point in numeric literal")?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.digits("in exponent of numeric literal")?;
        }
        Ok(())
    }

    fn digits(&mut self, context: &str) -> Result<(), String> {
        if !self.peek().ok_or_else(end)?.is_ascii_digit() {
            return self.wrong(context);
        }
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        Ok(())
    }

    fn literal(&mut self, word: &str) -> Result<(), String> {
        for expected in word.bytes() {
            let context = format!("in literal {word} (expecting '{}')", char::from(expected));
            self.expect(expected, &context)?;
        }
        Ok(())
    }

    fn expect(&mut self, byte: u8, context: &str) -> Result<(), String> {
        if self.peek().ok_or_else(end)? != byte {
            return self.wrong(context);
        }
        self.at += 1;
        Ok(())
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            self.at += 1;
        }
    }

    fn peek(&self) -> Option<u8> {
        self.json.get(self.at).copied()
    }

    fn wrong<T>(&self, context: &str) -> Result<T, String> {
        let shown = match self.peek().map(char::from).unwrap_or_default() {
            '\'' => "\\'".to_owned(),
            '"' => "\"".to_owned(),
            other => quote(&other.to_string()).trim_matches('"').to_owned(),
        };
        Err(format!("invalid character '{shown}' {context}"))
    }
}

fn end() -> String {
    "unexpected end of JSON input".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_mistake_is_named_in_gos_words() {
        for (json, expected) in [
            ("", "unexpected end of JSON input"),
            ("{\"a\":1", "unexpected end of JSON input"),
            ("abc", "invalid character 'a' looking for beginning of value"),
            ("{\"data\":{\"a\":1,}}", "invalid character '}' looking for beginning of object key string"),
            ("{\"a\":tru}", "invalid character '}' in literal true (expecting 'e')"),
            ("{\"a\" 1}", "invalid character '1' after object key"),
            ("{\"a\":1 \"b\"}", "invalid character '\"' after object key:value pair"),
            ("[1 2]", "invalid character '2' after array element"),
            ("{} x", "invalid character 'x' after top-level value"),
            ("\"a\nb\"", "invalid character '\\n' in string literal"),
            ("\"\\x\"", "invalid character 'x' in string escape code"),
            ("\"\\u12g4\"", "invalid character 'g' in \\u hexadecimal character escape"),
            ("-x", "invalid character 'x' in numeric literal"),
            ("1.", "unexpected end of JSON input"),
            ("1.x", "invalid character 'x' after decimal point in numeric literal"),
            ("1ex", "invalid character 'x' in exponent of numeric literal"),
            ("01", "invalid character '1' after top-level value"),
            ("'a'", "invalid character '\\'' looking for beginning of value"),
        ] {
            assert_eq!(problem(json.as_bytes()).as_deref(), Some(expected), "{json}");
        }
        assert_eq!(problem("[".repeat(1_000_000).as_bytes()).unwrap(), "invalid character '[' exceeded max depth");
        assert_eq!(problem(b"{\"a\":[1.5e3,\"\\u00ff\",null,{}],\"b\":[]} "), None);
        assert_eq!(problem(&[0xff]).unwrap(), "invalid character 'ÿ' looking for beginning of value");
    }
}
