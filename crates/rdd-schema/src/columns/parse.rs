//! Parses kubectl's JSONPath, including its oddities.

use rdd_meta::go_text;

/// One step of a path.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Node {
    Text(String),
    Integer(i64),
    Float(f64),
    Bool(bool),
    Field(String),
    Wildcard,
    Recursive,
    Slice([Bound; 3]),
    Union(Vec<Vec<Node>>),
    Filter { left: Vec<Node>, operator: String, right: Vec<Node> },
    Identifier(String),
}

/// The start, end or step of a slice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Bound {
    pub(super) value: Option<i64>,
    /// The end was not written: it follows from a single index.
    pub(super) derived: bool,
}

/// How deep filters and unions may nest.
const DEPTH_MAX: usize = 32;

/// Parses the template `{text}` and returns the nodes of its first action. The rest of the template must parse too.
pub(super) fn template_action(text: &str) -> Result<Vec<Node>, String> {
    action(text, 0)
}

/// Parses `text` as a template. Filters, unions and keys are actions of their own.
fn action(text: &str, depth: usize) -> Result<Vec<Node>, String> {
    if depth > DEPTH_MAX {
        return Err("nested too deeply".to_owned());
    }
    let template = format!("{{{text}}}");
    let mut parser = Parser { input: &template, position: 1, start: 1, depth };
    let mut first = None;
    loop {
        let nodes = parser.inside_action()?;
        first.get_or_insert(nodes);
        // The text between two actions does not matter; the actions after it must only parse.
        match template[parser.position..].find('{') {
            Some(offset) => {
                parser.position += offset + 1;
                parser.start = parser.position;
            }
            None => return Ok(first.unwrap_or_default()),
        }
    }
}

struct Parser<'a> {
    input: &'a str,
    position: usize,
    start: usize,
    depth: usize,
}

fn is_end_of_line(character: char) -> bool {
    matches!(character, '\r' | '\n')
}

fn is_terminator(character: char) -> bool {
    is_end_of_line(character) || matches!(character, ' ' | '\t' | '.' | ',' | '[' | ']' | '$' | '@' | '{' | '}')
}

fn is_digit(character: char) -> bool {
    character.is_ascii_digit() || (!character.is_ascii() && character.is_numeric())
}

impl<'a> Parser<'a> {
    fn rest(&self) -> &'a str {
        &self.input[self.position..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let character = self.peek()?;
        self.position += character.len_utf8();
        Some(character)
    }

    /// Returns the text since the last call.
    fn consume(&mut self) -> &'a str {
        let text = &self.input[self.start..self.position];
        self.start = self.position;
        text
    }

    fn skip(&mut self, length: usize) {
        self.position += length;
        self.consume();
    }

    /// Parses everything up to the closing brace.
    fn inside_action(&mut self) -> Result<Vec<Node>, String> {
        let mut nodes = Vec::new();
        loop {
            let rest = self.rest();
            if rest.starts_with('}') {
                self.skip(1);
                return Ok(nodes);
            }
            if rest.starts_with("[?(") {
                self.filter(&mut nodes)?;
                continue;
            }
            if rest.starts_with("..") {
                if nodes.last() == Some(&Node::Recursive) {
                    return Err("invalid multiple recursive descent".to_owned());
                }
                self.skip(2);
                nodes.push(Node::Recursive);
                if self.peek().is_some_and(|next| next == '_' || next.is_alphabetic() || is_digit(next)) {
                    self.field(&mut nodes);
                }
                continue;
            }
            match self.next() {
                None => return Err("unclosed action".to_owned()),
                Some(character) if is_end_of_line(character) => return Err("unclosed action".to_owned()),
                Some(' ' | '@' | '$') => {
                    self.consume();
                }
                Some('[') => self.array(&mut nodes)?,
                Some(quote @ ('"' | '\'')) => self.quoted(&mut nodes, quote)?,
                Some('.') => {
                    self.consume();
                    self.field(&mut nodes);
                }
                // The sign or digit belongs to the number: step back onto it.
                Some(character) if matches!(character, '+' | '-') || is_digit(character) => {
                    self.position -= character.len_utf8();
                    self.number(&mut nodes)?;
                }
                Some(character) if character == '_' || character.is_alphabetic() => {
                    self.position -= character.len_utf8();
                    self.identifier(&mut nodes);
                }
                Some(character) => return Err(format!("unrecognized character in action: {}", code_point(character))),
            }
        }
    }

    fn identifier(&mut self, nodes: &mut Vec<Node>) {
        while self.peek().is_some_and(|next| !is_terminator(next)) {
            self.next();
        }
        nodes.push(match self.consume() {
            "true" => Node::Bool(true),
            "false" => Node::Bool(false),
            other => Node::Identifier(other.to_owned()),
        });
    }

    fn field(&mut self, nodes: &mut Vec<Node>) {
        while let Some(character) = self.peek() {
            if character == '\\' {
                self.next();
                self.next();
            } else if is_terminator(character) {
                break;
            } else {
                self.next();
            }
        }
        nodes.push(match self.consume() {
            "*" => Node::Wildcard,
            name => Node::Field(name.replace('\\', "")),
        });
    }

    fn number(&mut self, nodes: &mut Vec<Node>) -> Result<(), String> {
        if matches!(self.peek(), Some('+' | '-')) {
            self.next();
        }
        while self.peek().is_some_and(|next| next == '.' || is_digit(next)) {
            self.next();
        }
        let text = self.consume();
        if let Ok(integer) = text.parse::<i64>() {
            nodes.push(Node::Integer(integer));
        } else if let Some(float) = text.parse::<f64>().ok().filter(|float| float.is_finite()) {
            nodes.push(Node::Float(float));
        } else {
            return Err(format!("cannot parse number {text}"));
        }
        Ok(())
    }

    fn array(&mut self, nodes: &mut Vec<Node>) -> Result<(), String> {
        loop {
            match self.next() {
                None | Some('\n') => return Err("unterminated array".to_owned()),
                Some(']') => break,
                Some(_) => {}
            }
        }
        let text = self.consume();
        // `[*]` is a slice of everything.
        let text = match &text[1..text.len() - 1] {
            "*" => ":",
            text => text,
        };
        if text.contains(',') {
            let parts = text.split(',').map(|part| action(&format!("[{}]", part.trim_matches(' ')), self.depth + 1));
            nodes.push(Node::Union(parts.collect::<Result<_, _>>()?));
            return Ok(());
        }
        let key = text.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\'')).filter(|key| !key.contains('\''));
        if let Some(key) = key {
            nodes.extend(action(&format!(".{key}"), self.depth + 1)?);
            return Ok(());
        }
        nodes.push(Node::Slice(slice(text)?));
        Ok(())
    }

    fn filter(&mut self, nodes: &mut Vec<Node>) -> Result<(), String> {
        self.skip(3);
        let mut quote = None;
        let mut closed = false;
        loop {
            match self.next() {
                None | Some('\n') => return Err("unterminated filter".to_owned()),
                Some(character @ ('"' | '\'')) => match quote {
                    None => quote = Some(character),
                    Some(open) => {
                        if self.input.as_bytes()[self.position - 2] != b'\\' && open == character {
                            closed = true;
                        }
                    }
                },
                // Upstream counts one pair of quotes at most: a parenthesis between them does not end the filter, one after it
                // does.
                Some(')') if quote.is_some() == closed => break,
                Some(_) => {}
            }
        }
        if self.next() != Some(']') {
            return Err("unclosed array expect ]".to_owned());
        }
        let text = self.consume();
        let text = &text[..text.len() - 2];
        let is_operator = |character: char| matches!(character, '!' | '<' | '>' | '=');
        let left_end = text.find(is_operator).unwrap_or(text.len());
        let (left, rest) = text.split_at(left_end);
        let (operator, right) = rest.split_at(rest.find(|c| !is_operator(c)).unwrap_or(rest.len()));
        // Upstream's regular expression backtracks: if nothing follows the operator, its last character becomes the right side.
        let (operator, right) = match right {
            "" if operator.len() > 1 => rest.split_at(operator.len() - 1),
            _ => (operator, right),
        };
        // Upstream's expression needs all three parts; otherwise the filter tests existence.
        let compared = !left.is_empty() && !operator.is_empty() && !right.is_empty() && !right.contains('\n');
        nodes.push(if compared {
            let left = action(left, self.depth + 1)?;
            Node::Filter { left, operator: operator.to_owned(), right: action(right, self.depth + 1)? }
        } else {
            Node::Filter { left: action(text, self.depth + 1)?, operator: "exists".to_owned(), right: Vec::new() }
        });
        Ok(())
    }

    fn quoted(&mut self, nodes: &mut Vec<Node>, quote: char) -> Result<(), String> {
        loop {
            match self.next() {
                None | Some('\n') => return Err("unterminated quoted string".to_owned()),
                Some(character) if character == quote && self.input.as_bytes()[self.position - 2] != b'\\' => break,
                Some(_) => {}
            }
        }
        let text = self.consume();
        let unquoted = unquote(text, quote).ok_or_else(|| format!("unquote string {text} error invalid syntax"))?;
        nodes.push(Node::Text(unquoted));
        Ok(())
    }
}

/// Parses `start:end:step`, each optional; a single number is an index.
fn slice(text: &str) -> Result<[Bound; 3], String> {
    let parts: Vec<&str> = text.split(':').collect();
    let shaped = |part: &str| part.strip_prefix('-').unwrap_or(part).bytes().all(|byte| byte.is_ascii_digit());
    if parts.len() > 3 || !parts.iter().all(|part| shaped(part)) {
        return Err(format!("invalid array index {text}"));
    }
    let mut bounds = [Bound::default(); 3];
    for (bound, part) in bounds.iter_mut().zip(&parts) {
        if !part.is_empty() {
            let number = part.parse().map_err(|_| format!("array index {part} is not a number"))?;
            bound.value = Some(number);
        }
    }
    // An index is a slice of one.
    if parts.len() == 1 {
        bounds[1] = Bound { value: Some(bounds[0].value.unwrap_or(0).saturating_add(1)), derived: true };
    }
    Ok(bounds)
}

/// Removes the quotes and resolves Go's escapes.
fn unquote(text: &str, quote: char) -> Option<String> {
    let inner = text.strip_prefix(quote)?.strip_suffix(quote)?;
    // Bytes, because `\x` and octal escapes may form invalid UTF-8.
    let mut out: Vec<u8> = Vec::with_capacity(inner.len());
    let mut characters = inner.chars();
    while let Some(character) = characters.next() {
        let mut push = |character: char| out.extend(character.encode_utf8(&mut [0; 4]).bytes());
        if character == quote {
            return None;
        }
        if character != '\\' {
            push(character);
            continue;
        }
        match characters.clone().next()? {
            'x' => {
                characters.next();
                out.push(u8::try_from(digits(&mut characters, 2, 16)?).ok()?);
            }
            'u' | 'U' => {
                let length = if characters.next() == Some('u') { 4 } else { 8 };
                push(char::from_u32(digits(&mut characters, length, 16)?)?);
            }
            '0'..='7' => out.push(u8::try_from(digits(&mut characters, 3, 8)?).ok()?),
            other => {
                characters.next();
                push(match other {
                    'a' => '\u{07}',
                    'b' => '\u{08}',
                    'f' => '\u{0c}',
                    'n' => '\n',
                    'r' => '\r',
                    't' => '\t',
                    'v' => '\u{0b}',
                    '\\' => '\\',
                    other if other == quote => quote,
                    _ => return None,
                });
            }
        }
    }
    Some(String::from_utf8_lossy(&out).into_owned())
}

/// Reads a number of exactly `length` digits.
fn digits(characters: &mut std::str::Chars<'_>, length: usize, radix: u32) -> Option<u32> {
    let text: String = characters.take(length).collect();
    if text.len() == length { u32::from_str_radix(&text, radix).ok() } else { None }
}

/// Formats a character as Go's `%#U`.
fn code_point(character: char) -> String {
    let code = format!("U+{:04X}", character as u32);
    if go_text::is_print(character) { format!("{code} '{character}'") } else { code }
}
