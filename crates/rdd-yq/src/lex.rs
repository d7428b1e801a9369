//! Splits an expression into tokens.

use crate::YqError;

/// A token of an expression.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Token {
    /// `.name`. The optional form `.name?` ignores nodes that have no keys.
    Path { name: String, optional: bool },
    /// `.`
    Dot,
    /// `.[`
    DotBracket,
    /// `..`, and `...` with the keys of mappings.
    Descend { with_keys: bool },
    /// `$name`
    Variable(String),
    /// A function or an operator, by name.
    Word(String),
    /// A literal with its tag.
    Literal { tag: &'static str, text: String },
    /// A quoted string, with its escapes.
    Text(String),
    /// Brackets and all other operators.
    Symbol(&'static str),
}

/// Operators and brackets, a longer symbol before its prefixes. The operator `*` is not here, because it is scanned
/// with its flags.
const SYMBOLS: &[&str] = &[
    "]?", "|=", "==", "!=", ">=", "<=", "//=", "//", "+=", "-=", "(", ")", "[", "]", "{", "}", "|", ",", ";", ":", "=",
    ">", "<", "+", "-", "/", "%",
];

/// The characters that end an unquoted name after a dot.
const PATH_ENDS: &str = " ;}{:[],|.()=\n!";

/// A token and the column at which it begins, from 1 on.
pub(crate) type Placed = (Token, usize);

/// Splits an expression into tokens.
pub(crate) fn lex(expression: &str) -> Result<Vec<Placed>, YqError> {
    let mut tokens = Vec::new();
    let mut rest = expression;
    loop {
        rest = rest.trim_start();
        if let Some(comment) = rest.strip_prefix('#') {
            rest = comment.find('\n').map_or("", |end| &comment[end..]);
            continue;
        }
        if rest.is_empty() {
            return Ok(tokens);
        }
        let column = expression[..expression.len() - rest.len()].chars().count() + 1;
        let after_operand = tokens.last().is_some_and(|(token, _)| ends_operand(token));
        let Some((token, length)) = next(rest, after_operand) else {
            let shown: String = rest.chars().take(20).collect();
            return Err(YqError::new(format!("1:{column}: invalid input text {}", rdd_meta::go_text::quote(&shown))));
        };
        tokens.push((token, column));
        rest = &rest[length..];
    }
}

/// Whether a minus after this token is a subtraction. Otherwise it is the sign of a number.
fn ends_operand(token: &Token) -> bool {
    match token {
        Token::Symbol(symbol) => matches!(*symbol, ")" | "]" | "]?" | "}"),
        Token::Word(_) | Token::DotBracket => false,
        _ => true,
    }
}

/// The token at the beginning of a text, and its length in bytes.
fn next(text: &str, after_operand: bool) -> Option<(Token, usize)> {
    let first = text.chars().next()?;
    match first {
        '.' => Some(dotted(text)),
        '"' => quoted(text).map(|inner| (Token::Text(inner.to_owned()), inner.len() + 2)),
        '$' => {
            let name: String = text[1..].chars().take_while(|c| is_word(*c) || *c == '-').collect();
            let length = name.len() + 1;
            (length > 1).then_some((Token::Variable(name), length))
        }
        '~' => Some((literal("!!null", "~"), 1)),
        '*' => Some(multiply(text)),
        '0'..='9' => Some(number(text)),
        '-' if !after_operand && text[1..].starts_with(|c: char| c.is_ascii_digit()) => Some(number(text)),
        'a'..='z' | 'A'..='Z' | '_' | '@' => {
            let length = 1 + text[1..].find(|c| !is_word(c)).unwrap_or(text.len() - 1);
            Some((word(&text[..length]), length))
        }
        _ => {
            let symbol = SYMBOLS.iter().find(|symbol| text.starts_with(**symbol))?;
            Some((Token::Symbol(symbol), symbol.len()))
        }
    }
}

fn is_word(character: char) -> bool {
    character.is_ascii_alphanumeric() || character == '_'
}

fn literal(tag: &'static str, text: &str) -> Token {
    Token::Literal { tag, text: text.to_owned() }
}

fn word(text: &str) -> Token {
    match text.to_ascii_lowercase().as_str() {
        "true" | "false" => literal("!!bool", text),
        "null" => literal("!!null", text),
        _ => Token::Word(text.to_owned()),
    }
}

fn dotted(text: &str) -> (Token, usize) {
    if text.starts_with("...") {
        return (Token::Descend { with_keys: true }, 3);
    }
    if text.starts_with("..") {
        return (Token::Descend { with_keys: false }, 2);
    }
    if text.starts_with(".[") {
        return (Token::DotBracket, 2);
    }
    let (name, mut length) = match quoted(&text[1..]) {
        Some(inner) => (inner, inner.len() + 3),
        None => {
            let end = text[1..].find(|c| PATH_ENDS.contains(c)).map_or(text.len(), |end| end + 1);
            (&text[1..end], end)
        }
    };
    if length == 1 {
        return (Token::Dot, 1);
    }
    let is_quoted = length == name.len() + 3;
    let bare = if is_quoted { None } else { name.strip_suffix('?') };
    let follows = is_quoted && text[length..].starts_with('?');
    length += usize::from(follows);
    (Token::Path { name: bare.unwrap_or(name).to_owned(), optional: bare.is_some() || follows }, length)
}

/// The content of the quoted string at the beginning of a text, with its escapes.
fn quoted(text: &str) -> Option<&str> {
    let inner = text.strip_prefix('"')?;
    let mut escaped = false;
    for (at, character) in inner.char_indices() {
        match character {
            '"' if !escaped => return Some(&inner[..at]),
            '\\' => escaped = !escaped,
            _ => escaped = false,
        }
    }
    None
}

fn number(text: &str) -> (Token, usize) {
    let sign = usize::from(text.starts_with('-'));
    if text[sign..].starts_with("0x") || text[sign..].starts_with("0X") {
        let length = sign + 2 + text[sign + 2..].bytes().take_while(u8::is_ascii_hexdigit).count();
        return (literal("!!int", &text[..length]), length);
    }
    let mut length = sign + count_digits(&text[sign..]);
    let mut tag = "!!int";
    if let Some(fraction) = text[length..].strip_prefix('.')
        && count_digits(fraction) > 0
    {
        (length, tag) = (length + 1 + count_digits(fraction), "!!float");
    }
    if let Some(power) = text[length..].strip_prefix(['e', 'E']) {
        let signed = usize::from(power.starts_with(['+', '-']));
        if count_digits(&power[signed..]) > 0 {
            (length, tag) = (length + 1 + signed + count_digits(&power[signed..]), "!!float");
        }
    }
    (literal(tag, &text[..length]), length)
}

fn count_digits(text: &str) -> usize {
    text.bytes().take_while(u8::is_ascii_digit).count()
}

/// Takes `*` or `*=` with the flags that select how to merge.
fn multiply(text: &str) -> (Token, usize) {
    let assigns = text.starts_with("*=");
    let from = 1 + usize::from(assigns);
    let flags = text[from..].bytes().take_while(|byte| b"+?cdn".contains(byte)).count();
    (Token::Word(text[..from + flags].to_owned()), from + flags)
}
