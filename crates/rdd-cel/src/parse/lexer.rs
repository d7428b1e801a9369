//! The lexer: splits text into tokens by ANTLR's longest-match rules, and reports other text in ANTLR's words.

use crate::source::{Collector, Source};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Token {
    Equal,
    NotEqual,
    In,
    Less,
    LessEqual,
    GreaterEqual,
    Greater,
    And,
    Or,
    LeftBracket,
    RightBracket,
    LeftBrace,
    RightBrace,
    LeftParen,
    RightParen,
    Dot,
    Comma,
    Minus,
    Not,
    Question,
    Colon,
    Plus,
    Star,
    Slash,
    Percent,
    True,
    False,
    Null,
    Float,
    Int,
    Uint,
    String,
    Bytes,
    Identifier,
    EscapedIdentifier,
    End,
}

impl Token {
    /// The name of the token in error texts of the generated parser.
    pub(super) fn name(self) -> &'static str {
        match self {
            Token::Equal => "'=='",
            Token::NotEqual => "'!='",
            Token::In => "'in'",
            Token::Less => "'<'",
            Token::LessEqual => "'<='",
            Token::GreaterEqual => "'>='",
            Token::Greater => "'>'",
            Token::And => "'&&'",
            Token::Or => "'||'",
            Token::LeftBracket => "'['",
            Token::RightBracket => "']'",
            Token::LeftBrace => "'{'",
            Token::RightBrace => "'}'",
            Token::LeftParen => "'('",
            Token::RightParen => "')'",
            Token::Dot => "'.'",
            Token::Comma => "','",
            Token::Minus => "'-'",
            Token::Not => "'!'",
            Token::Question => "'?'",
            Token::Colon => "':'",
            Token::Plus => "'+'",
            Token::Star => "'*'",
            Token::Slash => "'/'",
            Token::Percent => "'%'",
            Token::True => "'true'",
            Token::False => "'false'",
            Token::Null => "'null'",
            Token::Float => "NUM_FLOAT",
            Token::Int => "NUM_INT",
            Token::Uint => "NUM_UINT",
            Token::String => "STRING",
            Token::Bytes => "BYTES",
            Token::Identifier => "IDENTIFIER",
            Token::EscapedIdentifier => "ESC_IDENTIFIER",
            Token::End => "<EOF>",
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Lexeme {
    pub(super) token: Token,
    pub(super) start: u32,
    pub(super) end: u32,
}

/// Returns all tokens, the last being `End`. Text that is not a token is reported and left out.
pub(super) fn tokens(source: &Source, issues: &mut Collector) -> Vec<Lexeme> {
    let text = source.chars();
    let mut found = Vec::new();
    let mut at = 0;
    while at < text.len() {
        if let Some(length) = blank(&text[at..]) {
            at += length;
            continue;
        }
        match token(&text[at..]) {
            Ok((token, length)) => {
                found.push(Lexeme { token, start: at as u32, end: (at + length) as u32 });
                at += length;
            }
            // Skips what was read, so that one mistake gives one message.
            Err(failed) => {
                let end = (at + failed + 1).min(text.len());
                let shown: String = text[at..end].iter().collect();
                let message = format!("Syntax error: token recognition error at: '{shown}'");
                issues.report(source.location(at as u32), message);
                at = end;
            }
        }
    }
    found.push(Lexeme { token: Token::End, start: text.len() as u32, end: text.len() as u32 });
    found
}

/// The length of white space or of a comment at the start.
fn blank(text: &[char]) -> Option<usize> {
    let spaces = text.iter().take_while(|c| matches!(c, '\t' | ' ' | '\r' | '\n' | '\u{c}')).count();
    if spaces > 0 {
        return Some(spaces);
    }
    // A comment ends at the line end, which is white space itself.
    (text.starts_with(&['/', '/'])).then(|| text.iter().take_while(|c| **c != '\n').count())
}

/// Returns the longest token at the start of `text` and its length, or the index at which no token can match.
fn token(text: &[char]) -> Result<(Token, usize), usize> {
    let first = text[0];
    let second = text.get(1).copied();
    let pair = |wanted: char, double: Token| if second == Some(wanted) { Ok((double, 2)) } else { Err(1) };
    let either = |double: Token, single: Token| {
        if second == Some('=') { Ok((double, 2)) } else { Ok((single, 1)) }
    };
    match first {
        '=' => pair('=', Token::Equal),
        '&' => pair('&', Token::And),
        '|' => pair('|', Token::Or),
        '!' => either(Token::NotEqual, Token::Not),
        '<' => either(Token::LessEqual, Token::Less),
        '>' => either(Token::GreaterEqual, Token::Greater),
        '[' => Ok((Token::LeftBracket, 1)),
        ']' => Ok((Token::RightBracket, 1)),
        '{' => Ok((Token::LeftBrace, 1)),
        '}' => Ok((Token::RightBrace, 1)),
        '(' => Ok((Token::LeftParen, 1)),
        ')' => Ok((Token::RightParen, 1)),
        ',' => Ok((Token::Comma, 1)),
        '-' => Ok((Token::Minus, 1)),
        '?' => Ok((Token::Question, 1)),
        ':' => Ok((Token::Colon, 1)),
        '+' => Ok((Token::Plus, 1)),
        '*' => Ok((Token::Star, 1)),
        '/' => Ok((Token::Slash, 1)),
        '%' => Ok((Token::Percent, 1)),
        '.' if !second.is_some_and(|c| c.is_ascii_digit()) => Ok((Token::Dot, 1)),
        // A point before a digit begins a number: `.5`.
        '.' | '0'..='9' => Ok(number(text)),
        '"' | '\'' => string(text).map(|length| (Token::String, length)),
        '`' => escaped_identifier(text),
        'a'..='z' | 'A'..='Z' | '_' => Ok(word(text)),
        _ => Err(0),
    }
}

fn digits(text: &[char]) -> usize {
    text.iter().take_while(|c| c.is_ascii_digit()).count()
}

/// Reads a number; a point or an exponent without digits is not part of it.
fn number(text: &[char]) -> (Token, usize) {
    let is_unsigned = |at: usize| matches!(text.get(at), Some('u' | 'U'));
    // Only a lower-case `x` begins a hexadecimal number.
    if text.len() > 2 && text[0] == '0' && text[1] == 'x' {
        let hex = text[2..].iter().take_while(|c| c.is_ascii_hexdigit()).count();
        if hex > 0 {
            return if is_unsigned(2 + hex) { (Token::Uint, 3 + hex) } else { (Token::Int, 2 + hex) };
        }
    }
    let whole = digits(text);
    let mut length = whole;
    let mut is_float = false;
    if text.get(length) == Some(&'.') {
        let fraction = digits(&text[length + 1..]);
        if fraction > 0 {
            is_float = true;
            length += 1 + fraction;
        }
    }
    if matches!(text.get(length), Some('e' | 'E')) {
        let sign = usize::from(matches!(text.get(length + 1), Some('+' | '-')));
        let exponent = text.get(length + 1 + sign..).map_or(0, digits);
        if exponent > 0 {
            is_float = true;
            length += 1 + sign + exponent;
        }
    }
    match is_float {
        true => (Token::Float, length),
        false if is_unsigned(length) => (Token::Uint, length + 1),
        false => (Token::Int, length),
    }
}

fn word(text: &[char]) -> (Token, usize) {
    let length = text.iter().take_while(|c| c.is_ascii_alphanumeric() || **c == '_').count();
    // A prefix such as `b` also begins an identifier; the longest match wins.
    if let Some((token, prefixed)) = prefixed_string(text)
        && prefixed > length
    {
        return (token, prefixed);
    }
    let name: String = text[..length].iter().collect();
    let token = match name.as_str() {
        "in" => Token::In,
        "true" => Token::True,
        "false" => Token::False,
        "null" => Token::Null,
        _ => Token::Identifier,
    };
    (token, length)
}

/// Reads a string or bytes literal with a prefix: `r'…'`, `b'…'`, `br'…'` and their other spellings.
fn prefixed_string(text: &[char]) -> Option<(Token, usize)> {
    let is_bytes = matches!(text[0], 'b' | 'B');
    let after_bytes = usize::from(is_bytes);
    let is_raw = matches!(text.get(after_bytes), Some('r' | 'R'));
    let prefix = after_bytes + usize::from(is_raw);
    if prefix == 0 || !matches!(text.get(prefix), Some('"' | '\'')) {
        return None;
    }
    let body = &text[prefix..];
    let length = if is_raw { raw_string(body) } else { string(body).ok() }?;
    Some((if is_bytes { Token::Bytes } else { Token::String }, prefix + length))
}

/// The length of a raw string, in which a backslash is an ordinary character.
fn raw_string(text: &[char]) -> Option<usize> {
    let quote = text[0];
    if text.starts_with(&[quote; 3])
        && let Some(end) = text[3..].windows(3).position(|three| three == [quote; 3])
    {
        return Some(end + 6);
    }
    let end = text[1..].iter().position(|c| *c == quote || *c == '\n' || *c == '\r')?;
    (text[1 + end] == quote).then_some(end + 2)
}

fn string(text: &[char]) -> Result<usize, usize> {
    let quote = text[0];
    // Without an end of three quotes, `''` is an empty string and the third quote begins another.
    if text.starts_with(&[quote; 3])
        && let Some(length) = triple_quoted(text, quote)
    {
        return Ok(length);
    }
    let mut at = 1;
    loop {
        match text.get(at) {
            None => return Err(text.len()),
            // Only triple-quoted strings may span lines.
            Some('\n' | '\r') => return Err(at),
            Some(c) if *c == quote => return Ok(at + 1),
            Some('\\') => at += escape(&text[at..]).map_err(|failed| at + failed)?,
            Some(_) => at += 1,
        }
    }
}

fn triple_quoted(text: &[char], quote: char) -> Option<usize> {
    let mut at = 3;
    while at < text.len() {
        if text[at..].starts_with(&[quote; 3]) {
            return Some(at + 3);
        }
        at += if text[at] == '\\' { escape(&text[at..]).ok()? } else { 1 };
    }
    None
}

/// Returns the length of an escape sequence, or the index of the first character that does not fit.
fn escape(text: &[char]) -> Result<usize, usize> {
    let run = |from: usize, count: usize, fits: fn(&char) -> bool| -> Result<usize, usize> {
        for index in from..from + count {
            if !text.get(index).is_some_and(fits) {
                return Err(index);
            }
        }
        Ok(from + count)
    };
    let hex: fn(&char) -> bool = |c| c.is_ascii_hexdigit();
    match text.get(1) {
        Some('a' | 'b' | 'f' | 'n' | 'r' | 't' | 'v' | '"' | '\'' | '\\' | '?' | '`') => Ok(2),
        Some('x' | 'X') => run(2, 2, hex),
        Some('u') => run(2, 4, hex),
        Some('U') => run(2, 8, hex),
        Some('0'..='3') => run(2, 2, |c| ('0'..='7').contains(c)),
        _ => Err(1),
    }
}

fn escaped_identifier(text: &[char]) -> Result<(Token, usize), usize> {
    let fits = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-' | '/' | ' ');
    let length = text[1..].iter().take_while(|c| fits(c)).count();
    match text.get(1 + length) {
        Some('`') if length > 0 => Ok((Token::EscapedIdentifier, length + 2)),
        _ => Err(1 + length),
    }
}
