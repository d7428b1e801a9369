//! The parser: builds the syntax tree by recursive descent, with the error texts of cel-go's generated parser.

mod lexer;
mod macros;
mod operators;
mod primary;
mod unescape;

use crate::ast::{Expr, Id, Kind, Literal};
use crate::source::{Collector, Issues, Location, Source};
use lexer::{Lexeme, Token};

/// The limits of cel-go. The depth counts each recursive grammar rule.
const DEPTH_MAX: u32 = 250;
const CODE_POINTS_MAX: usize = 100_000;
const RECOVERIES_MAX: u32 = 30;
/// Our own limit: macros that copy their target double it each time they are chained, which cel-go does not limit.
const NODES_MAX: usize = 200_000;

/// Words that the grammar accepts as identifiers, but that are reserved.
const RESERVED: [&str; 21] = [
    "as",
    "break",
    "const",
    "continue",
    "else",
    "false",
    "for",
    "function",
    "if",
    "import",
    "in",
    "let",
    "loop",
    "package",
    "namespace",
    "null",
    "return",
    "true",
    "var",
    "void",
    "while",
];

/// The tokens that can begin an expression, in the order of error texts.
const EXPRESSION: [Token; 15] = [
    Token::LeftBracket,
    Token::LeftBrace,
    Token::LeftParen,
    Token::Dot,
    Token::Minus,
    Token::Not,
    Token::True,
    Token::False,
    Token::Null,
    Token::Float,
    Token::Int,
    Token::Uint,
    Token::String,
    Token::Bytes,
    Token::Identifier,
];

/// The tokens that can follow an operand, in addition to those that close the surrounding construct.
const AFTER_OPERAND: [Token; 17] = [
    Token::Equal,
    Token::NotEqual,
    Token::In,
    Token::Less,
    Token::LessEqual,
    Token::GreaterEqual,
    Token::Greater,
    Token::And,
    Token::Or,
    Token::LeftBracket,
    Token::Dot,
    Token::Minus,
    Token::Question,
    Token::Plus,
    Token::Star,
    Token::Slash,
    Token::Percent,
];

/// Extensions of the grammar that an environment can enable.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Syntax {
    /// Field names in backticks: `` a.`b-c` ``
    pub(crate) escaped_identifiers: bool,
    /// `cel.bind(x, value, expression)`
    pub(crate) bindings: bool,
}

/// A parsed expression.
#[derive(Debug)]
pub(crate) struct Parsed {
    pub(crate) root: Expr,
    /// The offset of each node in the text, by its id.
    pub(crate) offsets: Vec<u32>,
}

/// The text did not match the grammar. It is already reported.
struct Abandoned;
type Attempt<T> = Result<T, Abandoned>;

/// Parses an expression. The issues are those of the lexer and the parser, sorted by position.
pub(crate) fn parse(source: &Source, syntax: Syntax) -> Result<Parsed, Issues> {
    let mut issues = Collector::default();
    if source.chars().len() > CODE_POINTS_MAX {
        let message = format!(
            "expression code point size exceeds limit: size: {}, limit {CODE_POINTS_MAX}",
            source.chars().len()
        );
        issues.report(Location::NONE, message);
    }
    let tokens = if issues.is_empty() { lexer::tokens(source, &mut issues) } else { Vec::new() };
    let mut parser = Parser {
        source,
        syntax,
        tokens,
        at: 0,
        issues,
        offsets: Vec::new(),
        depth: 0,
        closers: Vec::new(),
        recovering: false,
        last_mistake: None,
        attempts: 0,
        hopeless: false,
    };
    let root = if parser.tokens.is_empty() { Err(Abandoned) } else { parser.start() };
    match root {
        Ok(root) if parser.issues.is_empty() => Ok(Parsed { root, offsets: parser.offsets }),
        _ => Err(parser.issues.finish(source).expect_err("an attempt is abandoned only after a report")),
    }
}

struct Parser<'s> {
    source: &'s Source,
    syntax: Syntax,
    tokens: Vec<Lexeme>,
    at: usize,
    issues: Collector,
    offsets: Vec<u32>,
    /// The number of open constructs around the current token.
    depth: u32,
    /// The tokens that close or continue each of them.
    closers: Vec<&'static [Token]>,
    /// An error was reported, and no token matched since. Further errors are not reported.
    recovering: bool,
    /// Where the last recovery began; a second one there must skip a token to make progress.
    last_mistake: Option<usize>,
    attempts: u32,
    /// A limit is exceeded, so the parser gives up.
    hopeless: bool,
}

impl Parser<'_> {
    fn start(&mut self) -> Attempt<Expr> {
        let root = self.within(&[Token::End], Self::expression)?;
        self.match_token(Token::End)?;
        Ok(root)
    }

    // Tokens.

    fn peek(&self) -> Token {
        self.tokens[self.at].token
    }

    fn peek_at(&self, ahead: usize) -> Token {
        self.tokens.get(self.at + ahead).map_or(Token::End, |lexeme| lexeme.token)
    }

    fn advance(&mut self) -> Lexeme {
        let lexeme = self.tokens[self.at];
        self.skip();
        // A token that matches ends the error recovery.
        self.recovering = false;
        lexeme
    }

    fn skip(&mut self) {
        if self.at + 1 < self.tokens.len() {
            self.at += 1;
        }
    }

    fn accept(&mut self, token: Token) -> Option<Lexeme> {
        (self.peek() == token).then(|| self.advance())
    }

    fn text(&self, lexeme: Lexeme) -> String {
        self.source.chars()[lexeme.start as usize..lexeme.end as usize].iter().collect()
    }

    /// The current token in an error text.
    fn shown(&self) -> String {
        if self.peek() == Token::End { "<EOF>".to_owned() } else { self.text(self.tokens[self.at]) }
    }

    // Issues.

    fn location(&self, offset: u32) -> Location {
        if self.source.chars().is_empty() { Location { line: 1, column: -1 } } else { self.source.location(offset) }
    }

    /// Reports a syntax error, unless the parser is recovering from another one.
    fn syntax_error(&mut self, message: &str) {
        if self.recovering {
            return;
        }
        self.recovering = true;
        let location = self.location(self.tokens[self.at].start);
        self.issues.report(location, format!("Syntax error: {message}"));
    }

    fn expecting(tokens: &[Token]) -> String {
        match tokens {
            [one] => one.name().to_owned(),
            many => format!("{{{}}}", many.iter().map(|token| token.name()).collect::<Vec<_>>().join(", ")),
        }
    }

    /// Ensures that the current token is one of `wanted`: skips one token if the next one fits, otherwise fails.
    fn sync(&mut self, wanted: &[Token]) -> Attempt<()> {
        if wanted.contains(&self.peek()) {
            return Ok(());
        }
        let shown = self.shown();
        if self.peek() != Token::End && wanted.contains(&self.peek_at(1)) {
            self.syntax_error(&format!("extraneous input '{shown}' expecting {}", Self::expecting(wanted)));
            self.advance();
            return Ok(());
        }
        self.syntax_error(&format!("mismatched input '{shown}' expecting {}", Self::expecting(wanted)));
        Err(Abandoned)
    }

    /// Takes `token`. If it is missing, skips one extra token, or continues as if `token` was there.
    fn match_token(&mut self, token: Token) -> Attempt<Lexeme> {
        if let Some(lexeme) = self.accept(token) {
            return Ok(lexeme);
        }
        let follows = self.follows(token);
        if self.peek_at(1) != token && follows.contains(&self.peek()) {
            let shown = self.shown();
            self.syntax_error(&format!("missing {} at '{shown}'", token.name()));
            let here = self.tokens[self.at].start;
            return Ok(Lexeme { token, start: here, end: here });
        }
        self.sync(&[token])?;
        Ok(self.advance())
    }

    /// The tokens that can follow `token` if it is missing here.
    fn follows(&self, token: Token) -> Vec<Token> {
        match token {
            Token::Colon => EXPRESSION.to_vec(),
            Token::End => Vec::new(),
            _ => {
                let mut follows = AFTER_OPERAND.to_vec();
                // The innermost construct is the one that `token` closes, so its continuation may follow.
                follows.extend(self.closers.last().copied().unwrap_or(&[Token::End]));
                follows
            }
        }
    }

    /// Recovers as the generated parser: skips to a token that some construct around the error can continue with.
    fn recover(&mut self, mistaken: Abandoned, among_operators: bool) -> Attempt<Expr> {
        if self.hopeless {
            return Err(mistaken);
        }
        self.attempts += 1;
        if self.attempts > RECOVERIES_MAX {
            self.recovering = false;
            self.syntax_error(&format!("error recovery attempt limit exceeded: {RECOVERIES_MAX}"));
            self.hopeless = true;
            return Err(mistaken);
        }
        if self.last_mistake == Some(self.at) {
            self.skip();
        }
        self.last_mistake = Some(self.at);
        let here = self.tokens[self.at].start;
        let goes_on = |parser: &Self, token: Token| {
            token == Token::End
                || (among_operators && AFTER_OPERAND.contains(&token))
                || parser.closers.iter().any(|closer| closer.contains(&token))
        };
        while !goes_on(self, self.peek()) {
            self.skip();
        }
        Ok(self.node(here, Kind::Unspecified))
    }

    fn report(&mut self, id: Id, message: &str) {
        let location = self.location(self.offsets[id as usize]);
        self.issues.report(location, message);
    }

    // Nodes.

    fn id(&mut self, offset: u32) -> Id {
        self.offsets.push(offset);
        (self.offsets.len() - 1) as Id
    }

    fn node(&mut self, offset: u32, kind: Kind) -> Expr {
        Expr { id: self.id(offset), kind }
    }

    /// Parses the inside of a construct that one of the tokens in `closer` closes or continues.
    fn within<T>(&mut self, closer: &'static [Token], inner: fn(&mut Self) -> Attempt<T>) -> Attempt<T> {
        self.enter(1)?;
        self.closers.push(closer);
        let result = inner(self);
        self.closers.pop();
        self.depth -= 1;
        result
    }

    /// Enters nested grammar rules; fails at the depth limit.
    fn enter(&mut self, levels: u32) -> Attempt<()> {
        self.depth += levels;
        if self.depth > DEPTH_MAX {
            self.issues.report(Location::NONE, format!("expression recursion limit exceeded: {DEPTH_MAX}"));
            self.hopeless = true;
            return Err(Abandoned);
        }
        Ok(())
    }

    /// Counts a link in a chain of one operator, which nests to the left. The depth limit applies to chains too.
    fn check_chain(&mut self, length: &mut u32) -> Attempt<()> {
        *length += 1;
        if *length + self.depth > DEPTH_MAX {
            self.issues.report(Location::NONE, format!("expression recursion limit exceeded: {DEPTH_MAX}"));
            self.hopeless = true;
            return Err(Abandoned);
        }
        Ok(())
    }

    /// Parses a conditional or anything that binds tighter.
    fn expression(&mut self) -> Attempt<Expr> {
        let condition = self.disjunction()?;
        let Some(question) = self.accept(Token::Question) else { return Ok(condition) };
        let id = self.id(question.start);
        self.closers.push(&[Token::Colon]);
        let truthy = self.disjunction();
        self.closers.pop();
        let truthy = truthy?;
        if let Err(mistaken) = self.match_token(Token::Colon) {
            return self.recover(mistaken, self.closers.len() > 1);
        }
        self.enter(1)?;
        let falsy = self.expression();
        self.depth -= 1;
        let falsy = falsy?;
        let kind = Kind::Call { target: None, function: "_?_:_".into(), args: vec![condition, truthy, falsy] };
        Ok(Expr { id, kind })
    }

    fn unary(&mut self) -> Attempt<Expr> {
        self.signed().or_else(|mistaken| self.recover(mistaken, true))
    }

    fn signed(&mut self) -> Attempt<Expr> {
        self.sync(&EXPRESSION)?;
        match self.peek() {
            Token::Not => self.repeated(Token::Not, "!_"),
            // The sign before a number literal is part of the literal.
            Token::Minus if matches!(self.peek_at(1), Token::Int | Token::Float) => self.member(),
            Token::Minus => self.repeated(Token::Minus, "-_"),
            _ => self.member(),
        }
    }

    /// Parses a run of `!` or `-`; two of them cancel out.
    fn repeated(&mut self, operator: Token, function: &str) -> Attempt<Expr> {
        let first = self.advance();
        let mut count = 1;
        while self.peek() == operator {
            self.advance();
            count += 1;
        }
        if !EXPRESSION.contains(&self.peek()) {
            if operator == Token::Minus {
                return self.no_viable_alternative(first);
            }
            let shown = self.shown();
            self.syntax_error(&format!("extraneous input '{shown}' expecting {}", Self::expecting(&EXPRESSION)));
            return Err(Abandoned);
        }
        if count % 2 == 0 {
            return self.operand();
        }
        let id = self.id(first.start);
        let operand = self.operand()?;
        Ok(Expr { id, kind: Kind::Call { target: None, function: function.into(), args: vec![operand] } })
    }

    fn operand(&mut self) -> Attempt<Expr> {
        self.sync(&EXPRESSION)?;
        self.member()
    }

    fn member(&mut self) -> Attempt<Expr> {
        let mut operand = self.primary().or_else(|mistaken| self.recover(mistaken, true))?;
        let mut length = 0;
        loop {
            match self.peek() {
                Token::Dot => {
                    self.check_chain(&mut length)?;
                    operand = self.select_or_call(operand)?;
                }
                Token::LeftBracket => {
                    self.check_chain(&mut length)?;
                    operand = self.index(operand)?;
                }
                _ => return Ok(operand),
            }
        }
    }

    fn select_or_call(&mut self, operand: Expr) -> Attempt<Expr> {
        let dot = self.advance();
        let optional = self.accept(Token::Question).is_some();
        let name = match self.peek() {
            Token::Identifier | Token::EscapedIdentifier => self.advance(),
            Token::True | Token::False | Token::Null if !optional => {
                let shown = self.shown();
                self.syntax_error(&format!("mismatched input '{shown}' expecting IDENTIFIER"));
                return Err(Abandoned);
            }
            _ if optional => {
                self.sync(&[Token::Identifier, Token::EscapedIdentifier])?;
                self.advance()
            }
            _ => return self.no_viable_alternative(dot),
        };
        if !optional && name.token == Token::Identifier && self.peek() == Token::LeftParen {
            let open = self.advance();
            let id = self.id(open.start);
            let args = self.within(&[Token::RightParen, Token::Comma], Self::arguments)?;
            self.match_token(Token::RightParen)?;
            let function = self.text(name);
            return Ok(self.call_or_macro(id, Some(operand), function, args));
        }
        let field = self.field_name(name);
        if optional {
            let id = self.id(dot.start);
            let literal = self.node(name.start, Kind::Literal(Literal::String(field.into())));
            return Ok(Expr {
                id,
                kind: Kind::Call { target: None, function: "_?._".into(), args: vec![operand, literal] },
            });
        }
        Ok(self.node(dot.start, Kind::Select { operand: Box::new(operand), field, test_only: false }))
    }

    /// Reports that no rule matches the text from `from` to the current token.
    fn no_viable_alternative<T>(&mut self, from: Lexeme) -> Attempt<T> {
        let end = if self.peek() == Token::End { from.end } else { self.tokens[self.at].end };
        let shown = self.text(Lexeme { end, ..from });
        self.syntax_error(&format!("no viable alternative at input '{shown}'"));
        Err(Abandoned)
    }

    fn field_name(&mut self, name: Lexeme) -> String {
        let text = self.text(name);
        if name.token == Token::Identifier {
            return text;
        }
        if !self.syntax.escaped_identifiers {
            let location = self.location(name.start);
            self.issues.report(location, "unsupported syntax: '`'");
        }
        text.trim_matches('`').to_owned()
    }

    fn index(&mut self, operand: Expr) -> Attempt<Expr> {
        let open = self.advance();
        let optional = self.accept(Token::Question).is_some();
        if !optional && !EXPRESSION.contains(&self.peek()) {
            let mut wanted = EXPRESSION.to_vec();
            // The place in the list follows the order in the generated parser's error text.
            wanted.insert(6, Token::Question);
            self.sync(&wanted)?;
        }
        let id = self.id(open.start);
        let index = self.within(&[Token::RightBracket], Self::expression)?;
        self.match_token(Token::RightBracket)?;
        let function = if optional { "_[?_]" } else { "_[_]" };
        Ok(Expr { id, kind: Kind::Call { target: None, function: function.into(), args: vec![operand, index] } })
    }

    fn arguments(&mut self) -> Attempt<Vec<Expr>> {
        if self.peek() == Token::RightParen {
            return Ok(Vec::new());
        }
        if !EXPRESSION.contains(&self.peek()) {
            let mut wanted = EXPRESSION.to_vec();
            wanted.insert(3, Token::RightParen);
            self.sync(&wanted)?;
            if self.peek() == Token::RightParen {
                return Ok(Vec::new());
            }
        }
        let mut args = vec![self.expression()?];
        while self.accept(Token::Comma).is_some() {
            args.push(self.expression()?);
        }
        Ok(args)
    }
}
