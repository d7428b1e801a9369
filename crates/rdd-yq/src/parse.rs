//! Puts tokens together to an expression.
//!
//! As in yq, operators of the same rank take what is right of them first: `8 - 4 - 2` is `8 - (4 - 2)`.

use crate::{
    YqError,
    lex::{Placed, Token, lex},
};

/// How deep expressions may nest.
const DEPTH_MAX: usize = 200;
const ASSIGNMENT_RANK: u8 = 40;

/// An expression that was understood.
#[derive(Debug, Clone)]
pub struct Expression {
    pub(crate) root: Node,
}

impl Expression {
    /// Understands an expression; an empty one is `.`.
    pub fn parse(text: &str) -> Result<Self, YqError> {
        let mut parser = Parser { tokens: lex(text)?, at: 0, depth: 0 };
        if parser.tokens.is_empty() {
            return Ok(Self { root: Node::This });
        }
        let root = parser.expression(0)?;
        match parser.peek() {
            None => Ok(Self { root }),
            Some(Token::Symbol(")")) => {
                Err(YqError::bad_expression("got close brackets without matching opening bracket"))
            }
            Some(_) => Err(YqError::bad_expression("please check expression syntax")),
        }
    }
}

/// A part of an expression.
#[derive(Debug, Clone)]
pub(crate) enum Node {
    This,
    Descend {
        with_keys: bool,
    },
    Path {
        name: String,
        optional: bool,
    },
    /// `of[by]`; without `by` everything in it.
    Index {
        of: Box<Node>,
        by: Option<Box<Node>>,
        optional: bool,
    },
    Slice {
        of: Box<Node>,
        from: Option<Box<Node>>,
        to: Option<Box<Node>>,
    },
    List(Option<Box<Node>>),
    Map(Vec<(Node, Node)>),
    Literal {
        tag: &'static str,
        text: String,
    },
    /// Text with expressions in it.
    Text(Vec<TextPart>),
    Variable(String),
    Environment {
        name: String,
        is_text: bool,
    },
    If {
        branches: Vec<(Node, Node)>,
        otherwise: Option<Box<Node>>,
    },
    Binary {
        operator: Operator,
        left: Box<Node>,
        right: Box<Node>,
    },
    Call {
        function: &'static str,
        arguments: Vec<Node>,
    },
    /// `style = "double"` and `tag = "!!str"`, with the function that reads it.
    AssignAttribute {
        of: Box<Node>,
        function: &'static str,
        value: Box<Node>,
        relative: bool,
    },
}

#[derive(Debug, Clone)]
pub(crate) enum TextPart {
    Plain(String),
    Expression(Node),
}

/// An operator between two expressions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operator {
    Block,
    Union,
    Or,
    And,
    Pipe,
    Reduce,
    Assign,
    Update,
    AddAssign,
    SubtractAssign,
    AlternativeAssign,
    MultiplyAssign(Merge),
    Bind,
    Equals,
    NotEquals,
    Compare { greater: bool, or_equal: bool },
    Add,
    Subtract,
    Multiply(Merge),
    Divide,
    Modulo,
    Alternative,
}

/// How `*` merges.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Merge {
    pub(crate) append: bool,
    pub(crate) deep_lists: bool,
    pub(crate) only_existing: bool,
    pub(crate) only_new: bool,
}

impl Operator {
    fn rank(self) -> u8 {
        match self {
            Self::Block | Self::Union => 10,
            Self::Or | Self::And => 20,
            Self::Pipe => 30,
            Self::Reduce => 35,
            Self::Assign
            | Self::Update
            | Self::AddAssign
            | Self::SubtractAssign
            | Self::AlternativeAssign
            | Self::Bind
            | Self::Equals
            | Self::NotEquals
            | Self::Compare { .. } => 40,
            Self::MultiplyAssign(_)
            | Self::Add
            | Self::Subtract
            | Self::Multiply(_)
            | Self::Divide
            | Self::Modulo
            | Self::Alternative => 42,
        }
    }

    fn from_token(token: &Token) -> Option<Self> {
        Some(match token {
            Token::Symbol(symbol) => match *symbol {
                ";" => Self::Block,
                "," => Self::Union,
                "|" => Self::Pipe,
                "=" => Self::Assign,
                "|=" => Self::Update,
                "+=" => Self::AddAssign,
                "-=" => Self::SubtractAssign,
                "//=" => Self::AlternativeAssign,
                "==" => Self::Equals,
                "!=" => Self::NotEquals,
                ">" => Self::Compare { greater: true, or_equal: false },
                ">=" => Self::Compare { greater: true, or_equal: true },
                "<" => Self::Compare { greater: false, or_equal: false },
                "<=" => Self::Compare { greater: false, or_equal: true },
                "+" => Self::Add,
                "-" => Self::Subtract,
                "/" => Self::Divide,
                "%" => Self::Modulo,
                "//" => Self::Alternative,
                _ => return None,
            },
            Token::Word(word) => match word.as_str() {
                "or" => Self::Or,
                "and" => Self::And,
                "as" | "ref" => Self::Bind,
                "ireduce" => Self::Reduce,
                word => {
                    let flags = word.strip_prefix('*')?;
                    let merge = Merge {
                        append: flags.contains('+'),
                        deep_lists: flags.contains('d'),
                        only_existing: flags.contains('?'),
                        only_new: flags.contains('n'),
                    };
                    if flags.starts_with('=') { Self::MultiplyAssign(merge) } else { Self::Multiply(merge) }
                }
            },
            _ => return None,
        })
    }
}

/// The name that a function goes by here, and how many arguments it takes: none, one, or one that may be left out.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Arity {
    None,
    One,
    Optional,
}

fn function(word: &str) -> Option<(&'static str, Arity)> {
    use Arity::{None as No, One, Optional};
    Some(match word {
        "length" => ("length", No),
        "keys" => ("keys", No),
        "key" => ("key", No),
        "is_key" | "iskey" => ("is_key", No),
        "path" => ("path", No),
        "parent" => ("parent", Optional),
        "root" => ("root", No),
        "not" => ("not", No),
        "select" => ("select", One),
        "map" => ("map", One),
        "map_values" | "mapvalues" => ("map_values", One),
        "filter" => ("filter", One),
        "has" => ("has", One),
        "del" => ("del", One),
        "with" => ("with", One),
        "to_entries" | "toEntries" | "toentries" => ("to_entries", No),
        "from_entries" | "fromEntries" | "fromentries" => ("from_entries", No),
        "with_entries" | "withEntries" | "withentries" => ("with_entries", One),
        "sort" => ("sort", No),
        "sort_by" | "sortby" => ("sort_by", One),
        "sort_keys" | "sortKeys" | "sortkeys" => ("sort_keys", One),
        "group_by" | "groupby" => ("group_by", One),
        "unique" => ("unique", No),
        "unique_by" | "uniqueby" => ("unique_by", One),
        "reverse" => ("reverse", No),
        "flatten" => ("flatten", Optional),
        "first" => ("first", Optional),
        "min" => ("min", No),
        "max" => ("max", No),
        "any" => ("any", No),
        "all" => ("all", No),
        "any_c" => ("any_c", One),
        "all_c" => ("all_c", One),
        "contains" => ("contains", One),
        "join" => ("join", One),
        "split" => ("split", One),
        "test" => ("test", One),
        "sub" => ("sub", One),
        "upcase" | "ascii_upcase" | "asciiupcase" => ("upcase", No),
        "downcase" | "ascii_downcase" | "asciidowncase" => ("downcase", No),
        "trim" => ("trim", No),
        "to_string" | "tostring" => ("to_string", No),
        "to_number" | "tonumber" => ("to_number", No),
        "tag" | "type" => ("tag", No),
        "kind" => ("kind", No),
        "style" => ("style", No),
        "pick" => ("pick", One),
        "omit" => ("omit", One),
        "explode" => ("explode", One),
        "error" => ("error", One),
        "empty" => ("empty", No),
        "document_index" | "documentIndex" | "documentindex" | "di" => ("document_index", No),
        "file_index" | "fileIndex" | "fileindex" | "fi" => ("file_index", No),
        "filename" | "file_name" | "fileName" => ("filename", No),
        "to_json" | "tojson" => ("to_json", Optional),
        "@json" => ("@json", No),
        "to_yaml" | "toyaml" | "@yaml" => ("to_yaml", No),
        "to_props" | "toprops" | "@props" => ("to_props", No),
        "from_json" | "fromjson" | "@jsond" | "from_yaml" | "fromyaml" | "@yamld" => ("from_yaml", No),
        "@base64" => ("@base64", No),
        "@base64d" => ("@base64d", No),
        _ => return None,
    })
}

/// Functions of yq that are not among ours.
const OTHERS: &[&str] = &[
    "line_comment",
    "head_comment",
    "foot_comment",
    "comments",
    "line",
    "column",
    "eval",
    "format_datetime",
    "now",
    "tz",
    "from_unix",
    "to_unix",
    "with_dtf",
    "shuffle",
    "array_to_map",
    "to_xml",
    "from_xml",
    "to_csv",
    "from_csv",
    "to_tsv",
    "from_tsv",
    "load",
    "load_str",
    "load_xml",
    "load_props",
    "load_base64",
    "system",
    "split_doc",
    "splitDoc",
    "match",
    "capture",
    "parents",
    "set_path",
    "del_paths",
    "setpath",
    "delpaths",
    "anchor",
    "alias",
    "envsubst",
    "pivot",
    "collect",
    "from_props",
    "@xml",
    "@csv",
    "@tsv",
    "@uri",
    "@urid",
    "@sh",
    "@csvd",
    "@tsvd",
    "@xmld",
    "@propsd",
];

struct Parser {
    tokens: Vec<Placed>,
    at: usize,
    depth: usize,
}

impl Parser {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at).map(|(token, _)| token)
    }

    fn take(&mut self) -> Option<Token> {
        let token = self.peek().cloned();
        self.at += 1;
        token
    }

    fn takes(&mut self, symbol: &str) -> bool {
        let found = matches!(self.peek(), Some(Token::Symbol(next)) if *next == symbol);
        self.at += usize::from(found);
        found
    }

    fn takes_word(&mut self, word: &str) -> bool {
        let found = matches!(self.peek(), Some(Token::Word(next)) if next == word);
        self.at += usize::from(found);
        found
    }

    fn close(&mut self, symbol: &str) -> Result<(), YqError> {
        if self.takes(symbol) {
            return Ok(());
        }
        Err(YqError::bad_expression(format!("could not find matching `{symbol}`")))
    }

    fn expression(&mut self, rank: u8) -> Result<Node, YqError> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(YqError::bad_expression(format!("it nests deeper than {DEPTH_MAX} levels")));
        }
        let mut left = self.operand()?;
        loop {
            if let Some((function, relative)) = self.attribute_assignment()
                && rank <= ASSIGNMENT_RANK
            {
                self.at += 2;
                let value = self.expression(ASSIGNMENT_RANK)?.into();
                left = Node::AssignAttribute { of: left.into(), function, value, relative };
                continue;
            }
            let Some(operator) = self.peek().and_then(Operator::from_token).filter(|found| found.rank() >= rank) else {
                break;
            };
            self.at += 1;
            let right = self.expression(operator.rank())?;
            left = Node::Binary { operator, left: left.into(), right: right.into() };
        }
        self.depth -= 1;
        Ok(left)
    }

    /// `style =` and `tag |=` after what they are assigned to.
    fn attribute_assignment(&self) -> Option<(&'static str, bool)> {
        let Some((Token::Word(word), _)) = self.tokens.get(self.at) else { return None };
        let function = match word.as_str() {
            "style" => "style",
            "tag" | "type" => "tag",
            _ => return None,
        };
        match self.tokens.get(self.at + 1)? {
            (Token::Symbol("="), _) => Some((function, false)),
            (Token::Symbol("|="), _) => Some((function, true)),
            _ => None,
        }
    }

    /// An operand and the paths after it: `.a.b[0]`.
    fn operand(&mut self) -> Result<Node, YqError> {
        let mut node = self.primary()?;
        loop {
            node = match self.peek() {
                Some(Token::Path { name, optional }) => {
                    let path = Node::Path { name: name.clone(), optional: *optional };
                    self.at += 1;
                    Node::Binary { operator: Operator::Pipe, left: node.into(), right: path.into() }
                }
                Some(Token::DotBracket | Token::Symbol("[")) if may_be_indexed(&node) => {
                    self.at += 1;
                    self.index(node)?
                }
                _ => return Ok(node),
            };
        }
    }

    /// What is between brackets after something.
    fn index(&mut self, of: Node) -> Result<Node, YqError> {
        let of = Box::new(of);
        if self.ends_index() {
            return Ok(Node::Index { of, by: None, optional: self.take_optional() });
        }
        if self.takes(":") {
            let to = if self.ends_index() { None } else { Some(self.expression(11)?.into()) };
            self.close_index()?;
            return Ok(Node::Slice { of, from: None, to });
        }
        let first = self.expression(0)?;
        if self.takes(":") {
            let to = if self.ends_index() { None } else { Some(self.expression(11)?.into()) };
            self.close_index()?;
            return Ok(Node::Slice { of, from: Some(first.into()), to });
        }
        if !self.ends_index() {
            return Err(YqError::bad_expression("could not find matching `]`"));
        }
        Ok(Node::Index { of, by: Some(first.into()), optional: self.take_optional() })
    }

    fn ends_index(&self) -> bool {
        matches!(self.peek(), Some(Token::Symbol("]" | "]?")))
    }

    fn take_optional(&mut self) -> bool {
        matches!(self.take(), Some(Token::Symbol("]?")))
    }

    fn close_index(&mut self) -> Result<(), YqError> {
        if self.ends_index() {
            self.at += 1;
            return Ok(());
        }
        self.close("]")
    }

    fn primary(&mut self) -> Result<Node, YqError> {
        match self.take() {
            None => Err(YqError::bad_expression("it ends where a value is expected")),
            Some(Token::Path { name, optional }) => Ok(Node::Path { name, optional }),
            Some(Token::Dot) => Ok(Node::This),
            Some(Token::DotBracket) => self.index(Node::This),
            Some(Token::Descend { with_keys }) => Ok(Node::Descend { with_keys }),
            Some(Token::Variable(name)) => Ok(Node::Variable(name)),
            Some(Token::Literal { tag, text }) => Ok(Node::Literal { tag, text }),
            Some(Token::Text(text)) => self.text(&text),
            Some(Token::Word(word)) => self.word(&word),
            Some(Token::Symbol("(")) => {
                let inner = self.expression(0)?;
                self.close(")")?;
                Ok(inner)
            }
            Some(Token::Symbol("[")) => {
                if self.takes("]") {
                    return Ok(Node::List(None));
                }
                let inner = self.expression(0)?;
                self.close("]")?;
                Ok(Node::List(Some(inner.into())))
            }
            Some(Token::Symbol("{")) => self.map(),
            Some(Token::Symbol(symbol)) => Err(YqError::new(format!("'{symbol}' expects 2 args but there is 1"))),
        }
    }

    fn map(&mut self) -> Result<Node, YqError> {
        let mut entries = Vec::new();
        while !self.takes("}") {
            if !entries.is_empty() && !self.takes(",") {
                return self.close("}").map(|()| Node::Map(Vec::new()));
            }
            let key = self.expression(16)?;
            if !self.takes(":") {
                return Err(YqError::bad_expression("could not find matching `}`"));
            }
            entries.push((key, self.expression(16)?));
        }
        Ok(Node::Map(entries))
    }

    /// A string, with what `\(…)` puts into it.
    fn text(&mut self, raw: &str) -> Result<Node, YqError> {
        let mut parts = Vec::new();
        let mut plain = String::new();
        let mut rest = raw;
        while let Some(at) = rest.find('\\') {
            plain.push_str(&rest[..at]);
            let escape = &rest[at + 1..];
            let (replacement, length) = match escape.chars().next() {
                Some('n') => ("\n", 1),
                Some('t') => ("\t", 1),
                Some('r') => ("\r", 1),
                Some('f') => ("\u{c}", 1),
                Some('v') => ("\u{b}", 1),
                Some('a') => ("\u{7}", 1),
                Some('b') => ("\u{8}", 1),
                Some('"') => ("\"", 1),
                Some('\\') => ("\\", 1),
                Some('(') => {
                    let Some(end) = closing_bracket(escape) else {
                        return Err(YqError::bad_expression("could not find matching `)`"));
                    };
                    if !plain.is_empty() {
                        parts.push(TextPart::Plain(std::mem::take(&mut plain)));
                    }
                    let inner = escape[1..end].replace("\\\"", "\"");
                    if self.depth > DEPTH_MAX / 2 {
                        return Err(YqError::bad_expression("strings nest too deeply"));
                    }
                    let mut parser = Self { tokens: lex(&inner)?, at: 0, depth: self.depth + 10 };
                    parts.push(TextPart::Expression(parser.expression(0)?));
                    ("", end + 1)
                }
                _ => ("\\", 0),
            };
            plain.push_str(replacement);
            rest = &escape[length..];
        }
        plain.push_str(rest);
        if parts.is_empty() {
            return Ok(Node::Literal { tag: "!!str", text: plain });
        }
        parts.push(TextPart::Plain(plain));
        Ok(Node::Text(parts))
    }

    fn word(&mut self, word: &str) -> Result<Node, YqError> {
        match word {
            "if" => return self.condition(),
            "env" | "strenv" => return self.environment(word == "strenv"),
            _ => {}
        }
        let Some((name, arity)) = function(word) else {
            if OTHERS.contains(&word) {
                return Err(YqError::new(format!("'{word}' is not supported by the yq in rdd; install yq v4 for it")));
            }
            if Operator::from_token(&Token::Word(word.to_owned())).is_some() {
                return Err(YqError::new(format!("'{word}' expects 2 args but there is 1")));
            }
            let column = self.tokens.get(self.at - 1).map_or(1, |(_, column)| *column);
            return Err(YqError::new(format!("1:{column}: invalid input text {}", rdd_meta::go_text::quote(word))));
        };
        let mut arguments = Vec::new();
        let has_brackets = matches!(self.peek(), Some(Token::Symbol("(")));
        if arity == Arity::One && !has_brackets {
            if self.peek().is_none() {
                return Err(YqError::new(format!("'{word}' expects 1 arg but received none")));
            }
            arguments.push(self.operand()?);
        } else if arity != Arity::None && has_brackets {
            self.at += 1;
            let argument = self.expression(0)?;
            self.close(")")?;
            arguments.push(argument);
        }
        Ok(Node::Call { function: name, arguments })
    }

    fn condition(&mut self) -> Result<Node, YqError> {
        let missing = |word: &str| YqError::bad_expression(format!("could not find matching `{word}`"));
        let mut branches = Vec::new();
        loop {
            let test = self.expression(0)?;
            if !self.takes_word("then") {
                return Err(missing("then"));
            }
            branches.push((test, self.expression(0)?));
            if self.takes_word("elif") {
                continue;
            }
            let otherwise = if self.takes_word("else") { Some(self.expression(0)?.into()) } else { None };
            return if self.takes_word("end") { Ok(Node::If { branches, otherwise }) } else { Err(missing("end")) };
        }
    }

    /// `env(NAME)`: the name is not an expression.
    fn environment(&mut self, is_text: bool) -> Result<Node, YqError> {
        if self.takes("(")
            && let Some(Token::Word(name)) = self.take()
            && self.takes(")")
        {
            return Ok(Node::Environment { name, is_text });
        }
        Err(YqError::new("env and strenv expect the name of a variable, e.g. `env(HOME)`"))
    }
}

/// A list after a function without arguments is not its index.
fn may_be_indexed(node: &Node) -> bool {
    !matches!(node, Node::Descend { .. } | Node::Literal { .. } | Node::This)
}

fn closing_bracket(text: &str) -> Option<usize> {
    let mut depth = 0_usize;
    text.char_indices().find_map(|(at, character)| {
        match character {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        (depth == 0).then_some(at)
    })
}
