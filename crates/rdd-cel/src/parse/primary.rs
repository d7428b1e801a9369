//! Parses primary expressions: names, calls, literals, lists, maps and structs.

use std::sync::Arc;

use super::lexer::Token;
use super::{Attempt, EXPRESSION, Parser, RESERVED, unescape};
use crate::ast::{Element, Entry, Expr, Field, Kind, Literal};

impl Parser<'_> {
    pub(super) fn primary(&mut self) -> Attempt<Expr> {
        match self.peek() {
            Token::LeftParen => {
                self.advance();
                let inner = self.within(&[Token::RightParen], Self::expression)?;
                self.match_token(Token::RightParen)?;
                Ok(inner)
            }
            Token::LeftBracket => self.list(),
            Token::LeftBrace => self.map(),
            Token::Dot | Token::Identifier => self.name_or_call_or_struct(),
            _ => self.literal(),
        }
    }

    fn list(&mut self) -> Attempt<Expr> {
        let open = self.advance();
        let id = self.id(open.start);
        let elements = self.within(&[Token::RightBracket, Token::Comma], |parser| {
            let mut elements = Vec::new();
            if matches!(parser.peek(), Token::RightBracket | Token::Comma) {
                parser.accept(Token::Comma);
                return Ok(elements);
            }
            // The inserted places follow the order in the generated parser's error text.
            if !EXPRESSION.contains(&parser.peek()) && parser.peek() != Token::Question {
                let mut wanted = EXPRESSION.to_vec();
                wanted.insert(1, Token::RightBracket);
                wanted.insert(5, Token::Comma);
                wanted.insert(8, Token::Question);
                parser.sync(&wanted)?;
            }
            loop {
                let optional = parser.accept(Token::Question).is_some();
                elements.push(Element { value: parser.expression()?, optional });
                match parser.peek() {
                    Token::Comma => {
                        parser.advance();
                        if !EXPRESSION.contains(&parser.peek()) && parser.peek() != Token::Question {
                            return Ok(elements);
                        }
                    }
                    Token::RightBracket => return Ok(elements),
                    _ => {
                        parser.sync(&[Token::RightBracket, Token::Comma])?;
                        if parser.peek() == Token::RightBracket {
                            return Ok(elements);
                        }
                        parser.advance();
                    }
                }
            }
        })?;
        self.match_token(Token::RightBracket)?;
        Ok(Expr { id, kind: Kind::List(elements) })
    }

    fn map(&mut self) -> Attempt<Expr> {
        let open = self.advance();
        let id = self.id(open.start);
        let entries = self.within(&[Token::RightBrace, Token::Comma], |parser| {
            let mut entries = Vec::new();
            if matches!(parser.peek(), Token::RightBrace | Token::Comma) {
                parser.accept(Token::Comma);
                return Ok(entries);
            }
            if !EXPRESSION.contains(&parser.peek()) && parser.peek() != Token::Question {
                let mut wanted = EXPRESSION.to_vec();
                wanted.insert(2, Token::RightBrace);
                wanted.insert(5, Token::Comma);
                wanted.insert(8, Token::Question);
                parser.sync(&wanted)?;
            }
            loop {
                let optional = parser.accept(Token::Question).is_some();
                parser.closers.push(&[Token::Colon]);
                let key = parser.expression();
                parser.closers.pop();
                let key = key?;
                parser.match_token(Token::Colon)?;
                let value = parser.expression()?;
                entries.push(Entry { key, value, optional });
                if parser.entry_ends(&EXPRESSION)? {
                    return Ok(entries);
                }
            }
        })?;
        self.match_token(Token::RightBrace)?;
        Ok(Expr { id, kind: Kind::Map(entries) })
    }

    /// After an entry of a map or struct, whether it was the last one. The tokens in `next` can begin another.
    fn entry_ends(&mut self, next: &[Token]) -> Attempt<bool> {
        self.sync(&[Token::RightBrace, Token::Comma])?;
        if self.accept(Token::Comma).is_some() {
            return Ok(!next.contains(&self.peek()) && self.peek() != Token::Question);
        }
        Ok(true)
    }

    fn name_or_call_or_struct(&mut self) -> Attempt<Expr> {
        let start = self.tokens[self.at].start;
        let dot = self.accept(Token::Dot);
        if let Some(dot) = dot
            && self.peek() != Token::Identifier
        {
            return self.no_viable_alternative(dot);
        }
        let name = self.match_token(Token::Identifier)?;
        let text = self.text(name);
        let full = if dot.is_some() { format!(".{text}") } else { text.clone() };
        if self.struct_follows() {
            return self.structure(full);
        }
        if RESERVED.contains(&text.as_str()) {
            let id = self.id(start);
            // A reserved word may still be the name of a function, so that a call continues.
            self.report(id, &format!("reserved identifier: {text}"));
            if self.peek() != Token::LeftParen {
                return Ok(Expr { id, kind: Kind::Unspecified });
            }
        }
        let Some(open) = self.accept(Token::LeftParen) else {
            return Ok(self.node(name.start, Kind::Ident(full)));
        };
        let id = self.id(open.start);
        let args = self.within(&[Token::RightParen, Token::Comma], Self::arguments)?;
        self.match_token(Token::RightParen)?;
        Ok(self.call_or_macro(id, None, full, args))
    }

    /// Whether the names from here on are followed by `{`, so that they name the type of a struct.
    fn struct_follows(&self) -> bool {
        let mut ahead = 0;
        while self.peek_at(ahead) == Token::Dot && self.peek_at(ahead + 1) == Token::Identifier {
            ahead += 2;
        }
        self.peek_at(ahead) == Token::LeftBrace
    }

    fn structure(&mut self, first: String) -> Attempt<Expr> {
        let mut name = first;
        while self.accept(Token::Dot).is_some() {
            let part = self.advance();
            name = format!("{name}.{}", self.text(part));
        }
        let open = self.advance();
        let id = self.id(open.start);
        let fields = self.within(&[Token::RightBrace, Token::Comma], |parser| {
            let mut fields = Vec::new();
            if matches!(parser.peek(), Token::RightBrace | Token::Comma) {
                parser.accept(Token::Comma);
                return Ok(fields);
            }
            const FIELD: [Token; 5] =
                [Token::RightBrace, Token::Comma, Token::Question, Token::Identifier, Token::EscapedIdentifier];
            parser.sync(&FIELD)?;
            loop {
                let optional = parser.accept(Token::Question).is_some();
                parser.sync(&[Token::Identifier, Token::EscapedIdentifier])?;
                let lexeme = parser.advance();
                let name = parser.field_name(lexeme);
                let colon = parser.match_token(Token::Colon)?;
                let id = parser.id(colon.start);
                let value = parser.expression()?;
                fields.push(Field { id, name, value, optional });
                if parser.entry_ends(&[Token::Identifier, Token::EscapedIdentifier])? {
                    return Ok(fields);
                }
            }
        })?;
        self.match_token(Token::RightBrace)?;
        Ok(Expr { id, kind: Kind::Struct { name, fields } })
    }

    fn literal(&mut self) -> Attempt<Expr> {
        let sign = self.accept(Token::Minus);
        let lexeme = self.advance();
        let start = sign.map_or(lexeme.start, |sign| sign.start);
        let text = self.text(lexeme);
        let signed = if sign.is_some() { format!("-{text}") } else { text.clone() };
        let id = self.id(start);
        let literal = match lexeme.token {
            Token::Int => int_literal(&text, sign.is_some()).map(Literal::Int).ok_or("invalid int literal"),
            Token::Uint => uint_literal(&text).map(Literal::Uint).ok_or("invalid uint literal"),
            Token::Float => match signed.parse::<f64>() {
                Ok(value) if value.is_finite() => Ok(Literal::Double(value)),
                _ => Err("invalid double literal"),
            },
            Token::String => unescape::unescape(&text, false)
                .and_then(|octets| String::from_utf8(octets).map_err(|_| "invalid unicode code point"))
                .map(|value| Literal::String(Arc::from(value))),
            Token::Bytes => unescape::unescape(&text[1..], true).map(|octets| Literal::Bytes(Arc::from(octets))),
            Token::True => Ok(Literal::Bool(true)),
            Token::False => Ok(Literal::Bool(false)),
            _ => Ok(Literal::Null),
        };
        match literal {
            Ok(literal) => Ok(Expr { id, kind: Kind::Literal(literal) }),
            Err(message) => {
                self.report(id, message);
                Ok(Expr { id, kind: Kind::Unspecified })
            }
        }
    }
}

fn int_literal(text: &str, negative: bool) -> Option<i64> {
    let (digits, radix) = text.strip_prefix("0x").map_or((text, 10), |hex| (hex, 16));
    // Parsed with its sign, because the smallest integer has no positive counterpart.
    let signed = if negative { format!("-{digits}") } else { digits.to_owned() };
    i64::from_str_radix(&signed, radix).ok()
}

fn uint_literal(text: &str) -> Option<u64> {
    let text = &text[..text.len() - 1];
    let (digits, radix) = text.strip_prefix("0x").map_or((text, 10), |hex| (hex, 16));
    u64::from_str_radix(digits, radix).ok()
}
