//! Parses the text of a template into nodes.

use super::{DEPTH_MAX, Error, unquote::unquote};

/// A bound of an array slice.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Bound {
    pub(super) value: i64,
    pub(super) known: bool,
    /// Whether it was derived from the first bound: `[3]` means `[3:4]`.
    pub(super) derived: bool,
}

/// A node of a template.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Node {
    Text(String),
    List(Vec<Node>),
    Field(String),
    Identifier(String),
    Integer(i64),
    Float(f64),
    Bool(bool),
    Wildcard,
    Recursive,
    Array([Bound; 3]),
    Union(Vec<Vec<Node>>),
    Filter { left: Vec<Node>, operator: String, right: Vec<Node> },
}

/// Parses a template. `depth` is the nesting of filters and unions around it.
pub(super) fn parse(text: &str, depth: usize) -> Result<Vec<Node>, Error> {
    if depth > DEPTH_MAX {
        return Err(Error::new("the template is nested too deeply"));
    }
    Parser { text, position: 0, start: 0, width: 0, depth }.template()
}

/// Parses the content of braces.
fn parse_action(text: &str, depth: usize) -> Result<Vec<Node>, Error> {
    match parse(&format!("{{{text}}}"), depth + 1)?.into_iter().next() {
        Some(Node::List(nodes)) => Ok(nodes),
        _ => Ok(Vec::new()),
    }
}

struct Parser<'t> {
    text: &'t str,
    position: usize,
    start: usize,
    width: usize,
    depth: usize,
}

impl Parser<'_> {
    fn template(mut self) -> Result<Vec<Node>, Error> {
        let mut nodes = Vec::new();
        loop {
            if self.rest().starts_with('{') {
                self.push_text(&mut nodes);
                self.position += 1;
                self.consume();
                let mut inner = Vec::new();
                while !self.step(&mut inner)? {}
                nodes.push(Node::List(inner));
            } else if self.next().is_none() {
                self.push_text(&mut nodes);
                return Ok(nodes);
            }
        }
    }

    fn push_text(&mut self, nodes: &mut Vec<Node>) {
        if self.position > self.start {
            let text = self.consume();
            nodes.push(Node::Text(text));
        }
    }

    fn rest(&self) -> &str {
        &self.text[self.position..]
    }

    fn consume(&mut self) -> String {
        let text = self.text[self.start..self.position].to_owned();
        self.start = self.position;
        text
    }

    fn next(&mut self) -> Option<char> {
        let letter = self.rest().chars().next();
        self.width = letter.map_or(0, char::len_utf8);
        self.position += self.width;
        letter
    }

    fn back(&mut self) {
        self.position -= self.width;
        self.width = 0;
    }

    /// Parses one element inside braces; returns true at the closing brace.
    fn step(&mut self, nodes: &mut Vec<Node>) -> Result<bool, Error> {
        if self.rest().starts_with('}') {
            self.position += 1;
            self.consume();
            return Ok(true);
        }
        if self.rest().starts_with("[?(") {
            self.filter(nodes)?;
        } else if self.rest().starts_with("..") {
            self.recursive(nodes)?;
        } else {
            self.item(nodes)?;
        }
        Ok(false)
    }

    fn item(&mut self, nodes: &mut Vec<Node>) -> Result<(), Error> {
        match self.next() {
            None | Some('\r' | '\n') => return Err(Error::new("unclosed action")),
            Some(' ' | '@' | '$') => {
                self.consume();
            }
            Some('[') => self.array(nodes)?,
            Some(quote @ ('"' | '\'')) => self.quoted(nodes, quote)?,
            Some('.') => self.field(nodes),
            Some(letter) if letter == '+' || letter == '-' || letter.is_numeric() => {
                self.back();
                self.number(nodes)?;
            }
            Some(letter) if is_alphanumeric(letter) => {
                self.back();
                self.identifier(nodes);
            }
            Some(letter) => {
                let code = u32::from(letter);
                let words = format!("unrecognized character in action: U+{code:04X} '{letter}'");
                return Err(Error::new(words));
            }
        }
        Ok(())
    }

    fn identifier(&mut self, nodes: &mut Vec<Node>) {
        while !is_terminator(self.next()) {}
        self.back();
        nodes.push(match self.consume().as_str() {
            "true" => Node::Bool(true),
            "false" => Node::Bool(false),
            name => Node::Identifier(name.to_owned()),
        });
    }

    fn recursive(&mut self, nodes: &mut Vec<Node>) -> Result<(), Error> {
        if nodes.last() == Some(&Node::Recursive) {
            return Err(Error::new("invalid multiple recursive descent"));
        }
        self.position += 2;
        self.consume();
        nodes.push(Node::Recursive);
        if self.rest().chars().next().is_some_and(is_alphanumeric) {
            self.field(nodes);
        }
        Ok(())
    }

    fn number(&mut self, nodes: &mut Vec<Node>) -> Result<(), Error> {
        if self.rest().starts_with(['+', '-']) {
            self.next();
        }
        while self.next().is_some_and(|letter| letter == '.' || letter.is_numeric()) {}
        self.back();
        let text = self.consume();
        let digits = text.strip_prefix('+').unwrap_or(&text);
        if let Ok(number) = digits.parse() {
            nodes.push(Node::Integer(number));
        } else if let Some(number) =
            digits.parse().ok().filter(|_| digits.ends_with(|c: char| c.is_ascii_digit() || c == '.'))
        {
            nodes.push(Node::Float(number));
        } else {
            return Err(Error::new(format!("cannot parse number {text}")));
        }
        Ok(())
    }

    fn array(&mut self, nodes: &mut Vec<Node>) -> Result<(), Error> {
        loop {
            match self.next() {
                None | Some('\n') => return Err(Error::new("unterminated array")),
                Some(']') => break,
                Some(_) => {}
            }
        }
        let text = self.consume();
        let text = &text[1..text.len() - 1];
        if text.contains(',') {
            let parts = text.split(',').map(|part| parse_action(&format!("[{}]", part.trim_matches(' ')), self.depth));
            nodes.push(Node::Union(parts.collect::<Result<_, _>>()?));
            return Ok(());
        }
        let key = text.strip_prefix('\'').and_then(|text| text.strip_suffix('\''));
        if let Some(key) = key.filter(|key| !key.contains('\'')) {
            nodes.extend(parse_action(&format!(".{key}"), self.depth)?);
            return Ok(());
        }
        nodes.push(Node::Array(slice(if text == "*" { ":" } else { text })?));
        Ok(())
    }

    fn filter(&mut self, nodes: &mut Vec<Node>) -> Result<(), Error> {
        self.position += "[?(".len();
        self.consume();
        self.skip_filter()?;
        if self.next() != Some(']') {
            return Err(Error::new("unclosed array expect ]"));
        }
        let text = self.consume();
        let text = &text[..text.len() - 2];
        nodes.push(match split_comparison(text) {
            None => {
                Node::Filter { left: parse_action(text, self.depth)?, operator: "exists".to_owned(), right: Vec::new() }
            }
            Some((left, operator, right)) => Node::Filter {
                left: parse_action(left, self.depth)?,
                operator: operator.to_owned(),
                right: parse_action(right, self.depth)?,
            },
        });
        Ok(())
    }

    /// Skips to the closing parenthesis of a filter; parentheses in quotes do not count.
    fn skip_filter(&mut self) -> Result<(), Error> {
        let (mut begun, mut ended, mut pair) = (false, false, ' ');
        loop {
            match self.next() {
                None | Some('\n') => return Err(Error::new("unterminated filter")),
                Some(quote @ ('"' | '\'')) if !begun => (begun, pair) = (true, quote),
                Some(quote @ ('"' | '\'')) => {
                    ended |= quote == pair && !self.text[..self.position - 1].ends_with('\\');
                }
                Some(')') if begun == ended => return Ok(()),
                Some(_) => {}
            }
        }
    }

    fn quoted(&mut self, nodes: &mut Vec<Node>, quote: char) -> Result<(), Error> {
        loop {
            match self.next() {
                None | Some('\n') => return Err(Error::new("unterminated quoted string")),
                Some(letter) if letter == quote && !self.text[..self.position - 1].ends_with('\\') => break,
                Some(_) => {}
            }
        }
        let text = self.consume();
        let inner = unquote(&text).ok_or_else(|| Error::new(format!("unquote string {text} error invalid syntax")))?;
        nodes.push(Node::Text(inner));
        Ok(())
    }

    fn field(&mut self, nodes: &mut Vec<Node>) {
        self.consume();
        loop {
            match self.next() {
                Some('\\') => {
                    self.next();
                }
                letter if is_terminator(letter) => break,
                _ => {}
            }
        }
        self.back();
        nodes.push(match self.consume().as_str() {
            "*" => Node::Wildcard,
            name => Node::Field(name.replace('\\', "")),
        });
    }
}

fn is_alphanumeric(letter: char) -> bool {
    letter == '_' || letter.is_alphabetic() || letter.is_numeric()
}

fn is_terminator(letter: Option<char>) -> bool {
    matches!(letter, None | Some(' ' | '\t' | '\r' | '\n' | '.' | ',' | '[' | ']' | '$' | '@' | '{' | '}'))
}

/// Splits a comparison into left side, operator (of the characters `!<>=`) and right side; `None` if one is empty.
fn split_comparison(text: &str) -> Option<(&str, &str, &str)> {
    let operators = ['!', '<', '>', '='];
    let from = text.find(operators).filter(|from| *from > 0)?;
    let (left, rest) = text.split_at(from);
    let mut to = rest.find(|letter| !operators.contains(&letter)).unwrap_or(rest.len());
    if to == rest.len() {
        // The right side must not be empty.
        to -= 1;
    }
    let (operator, right) = rest.split_at(to);
    (!operator.is_empty() && !right.contains('\n')).then_some((left, operator, right))
}

/// Parses `first:end:step`, where each part may be missing.
fn slice(text: &str) -> Result<[Bound; 3], Error> {
    let invalid = || Error::new(format!("invalid array index {text}"));
    let parts: Vec<&str> = text.split(':').collect();
    if parts.len() > 3 || !parts.iter().all(|part| is_index(part)) {
        return Err(invalid());
    }
    let mut bounds = [Bound::default(); 3];
    for (index, bound) in bounds.iter_mut().enumerate() {
        let Some(part) = parts.get(index).filter(|part| !part.is_empty()) else { continue };
        let value = part.parse().map_err(|_| Error::new(format!("array index {part} is not a number")))?;
        *bound = Bound { value, known: true, derived: false };
    }
    if parts.len() == 1 {
        let value = bounds[0].value.saturating_add(1);
        bounds[1] = Bound { value, known: true, derived: true };
    }
    Ok(bounds)
}

fn is_index(part: &str) -> bool {
    part.strip_prefix('-').unwrap_or(part).bytes().all(|byte| byte.is_ascii_digit())
}
