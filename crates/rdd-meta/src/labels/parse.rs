//! The parser of label selectors: a lexer and a recursive descent parser with upstream's grammar and messages.

use std::collections::BTreeSet;

use super::{Operator, ParseError, Requirement, key_error};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token {
    Error,
    End,
    ClosedParenthesis,
    Comma,
    Not,
    Compare(Operator),
    Word,
    OpenParenthesis,
}

/// A token and its text in the selector.
type Item = (Token, String);

const OPERATORS: &str = "in, notin, =, ==, !=, gt, lt";

pub(super) fn requirements(text: &str) -> Result<Vec<Requirement>, ParseError> {
    let mut parser = Parser { items: tokens(text), position: 0 };
    let mut requirements = Vec::new();
    loop {
        let (token, text) = parser.peek_value();
        match token {
            Token::Word | Token::Not => {}
            Token::End => return Ok(requirements),
            _ => return fail(format!("found '{text}', expected: !, identifier, or 'end of string'")),
        }
        let requirement = parser
            .requirement()
            .map_err(|ParseError(why)| ParseError(format!("unable to parse requirement: {why}")))?;
        requirements.push(requirement);
        match parser.next_value() {
            (Token::End, _) => return Ok(requirements),
            (Token::Comma, _) => match parser.peek_value() {
                (Token::Word | Token::Not, _) => {}
                (_, text) => return fail(format!("found '{text}', expected: identifier after ','")),
            },
            (_, text) => return fail(format!("found '{text}', expected: ',' or 'end of string'")),
        }
    }
}

fn fail<T>(message: String) -> Result<T, ParseError> {
    Err(ParseError(message))
}

struct Parser {
    items: Vec<Item>,
    position: usize,
}

impl Parser {
    /// The next token; the end token from the end on.
    fn peek(&self) -> Item {
        self.items.get(self.position).cloned().unwrap_or((Token::End, String::new()))
    }

    fn next(&mut self) -> Item {
        let item = self.peek();
        self.position += 1;
        item
    }

    /// The next token where a key or value is expected: there `in` and `notin` are ordinary words.
    fn peek_value(&self) -> Item {
        match self.peek() {
            (Token::Compare(Operator::In | Operator::NotIn), text) => (Token::Word, text),
            item => item,
        }
    }

    fn next_value(&mut self) -> Item {
        let item = self.peek_value();
        self.position += 1;
        item
    }

    fn requirement(&mut self) -> Result<Requirement, ParseError> {
        let (mut token, mut key) = self.next_value();
        let negated = token == Token::Not;
        if negated {
            (token, key) = self.next_value();
        }
        if token != Token::Word {
            return fail(format!("found '{key}', expected: identifier"));
        }
        if let Some(error) = key_error("<nil>", &key) {
            return fail(error.to_string());
        }
        let ends = matches!(self.peek_value().0, Token::End | Token::Comma);
        if negated {
            return Requirement::new(&key, Operator::DoesNotExist, Vec::new());
        }
        if ends {
            return Requirement::new(&key, Operator::Exists, Vec::new());
        }
        let operator = match self.next() {
            (Token::Compare(operator), _) => operator,
            (_, text) => return fail(format!("found '{text}', expected: {OPERATORS}")),
        };
        let values = match operator {
            Operator::In | Operator::NotIn => self.values()?,
            _ => vec![self.exact_value()?],
        };
        Requirement::new(&key, operator, values)
    }

    fn exact_value(&mut self) -> Result<String, ParseError> {
        if matches!(self.peek_value().0, Token::End | Token::Comma) {
            return Ok(String::new());
        }
        match self.next_value() {
            (Token::Word, text) => Ok(text),
            (_, text) => fail(format!("found '{text}', expected: identifier")),
        }
    }

    fn values(&mut self) -> Result<Vec<String>, ParseError> {
        let (token, text) = self.next_value();
        if token != Token::OpenParenthesis {
            return fail(format!("found '{text}' expected: '('"));
        }
        match self.peek_value() {
            (Token::Word | Token::Comma, _) => {
                let values = self.list()?;
                // `list` stops before the closing parenthesis.
                self.next_value();
                Ok(values.into_iter().collect())
            }
            (Token::ClosedParenthesis, _) => {
                self.next_value();
                Ok(vec![String::new()])
            }
            (_, text) => fail(format!("found '{text}', expected: ',', ')' or identifier")),
        }
    }

    /// Parses values up to the closing parenthesis. A missing value between commas is an empty value.
    fn list(&mut self) -> Result<BTreeSet<String>, ParseError> {
        let mut values = BTreeSet::new();
        loop {
            match self.next_value() {
                (Token::Word, text) => {
                    values.insert(text);
                    match self.peek_value() {
                        (Token::Comma, _) => {}
                        (Token::ClosedParenthesis, _) => return Ok(values),
                        (_, text) => return fail(format!("found '{text}', expected: ',' or ')'")),
                    }
                }
                (Token::Comma, _) => {
                    let following = self.peek_value().0;
                    if values.is_empty() || matches!(following, Token::Comma | Token::ClosedParenthesis) {
                        values.insert(String::new());
                    }
                    if following == Token::ClosedParenthesis {
                        return Ok(values);
                    }
                }
                (_, text) => return fail(format!("found '{text}', expected: ',', or identifier")),
            }
        }
    }
}

fn tokens(text: &str) -> Vec<Item> {
    let mut items = Vec::new();
    let mut rest = text;
    loop {
        rest = rest.trim_start_matches([' ', '\t', '\r', '\n']);
        let Some(first) = rest.chars().next().filter(|first| *first != '\0') else {
            return items;
        };
        let (item, length) = if is_special(first) { special(rest) } else { word(rest) };
        items.push(item);
        rest = &rest[length..];
    }
}

fn is_special(character: char) -> bool {
    matches!(character, '=' | '!' | '(' | ')' | ',' | '>' | '<')
}

/// The length of a NUL after a token, which ends the token and is skipped, as in upstream's lexer. A NUL before a token
/// ends the input.
fn skipped_nul(behind: &str) -> usize {
    usize::from(behind.starts_with('\0'))
}

/// Reads a word. Returns the token and its length in bytes.
fn word(rest: &str) -> (Item, usize) {
    let ends = |character: char| is_special(character) || matches!(character, ' ' | '\t' | '\r' | '\n' | '\0');
    let end = rest.find(ends).unwrap_or(rest.len());
    let token = match &rest[..end] {
        "in" => Token::Compare(Operator::In),
        "notin" => Token::Compare(Operator::NotIn),
        _ => Token::Word,
    };
    ((token, rest[..end].to_owned()), end + skipped_nul(&rest[end..]))
}

/// Reads the longest operator. Returns the token and its length in bytes.
fn special(rest: &str) -> (Item, usize) {
    let known = [
        ("==", Token::Compare(Operator::DoubleEquals)),
        ("!=", Token::Compare(Operator::NotEquals)),
        ("=", Token::Compare(Operator::Equals)),
        ("!", Token::Not),
        (">", Token::Compare(Operator::GreaterThan)),
        ("<", Token::Compare(Operator::LessThan)),
        ("(", Token::OpenParenthesis),
        (")", Token::ClosedParenthesis),
        (",", Token::Comma),
    ];
    match known.into_iter().find(|(text, _)| rest.starts_with(text)) {
        Some((text, token)) => ((token, text.to_owned()), text.len() + skipped_nul(&rest[text.len()..])),
        None => ((Token::Error, rest.to_owned()), rest.len()),
    }
}
