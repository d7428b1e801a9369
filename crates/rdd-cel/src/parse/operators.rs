//! Binary operators: parsed as a flat sequence, then combined by precedence, so that long expressions do not nest the parser.

use super::lexer::Token;
use super::{Attempt, Parser};
use crate::ast::{Expr, Id, Kind};

impl Parser<'_> {
    /// Parses operands and the operators between them, and combines them by precedence.
    pub(super) fn disjunction(&mut self) -> Attempt<Expr> {
        let mut operands = vec![self.unary()?];
        let mut operators: Vec<(u8, &'static str, Id)> = Vec::new();
        while let Some((level, function)) = binary(self.peek()) {
            let lexeme = self.advance();
            let id = self.id(lexeme.start);
            operators.push((level, function, id));
            operands.push(self.unary()?);
        }
        for level in [PRODUCT, SUM, RELATION] {
            (operands, operators) = self.reduce_left(operands, operators, level)?;
        }
        // These may be long chains of conditions, so they do not nest to the left.
        for level in [CONJUNCTION, DISJUNCTION] {
            (operands, operators) = reduce_balanced(operands, operators, level);
        }
        Ok(operands.swap_remove(0))
    }

    /// Combines the operators of one level from left to right. The result nests to the left, and the depth limit applies to it.
    fn reduce_left(
        &mut self,
        operands: Vec<Expr>,
        operators: Vec<(u8, &'static str, Id)>,
        level: u8,
    ) -> Attempt<Sequence> {
        let mut operands = operands.into_iter();
        let mut kept: Vec<Expr> = operands.next().into_iter().collect();
        let mut rest = Vec::new();
        let mut length = 0;
        for ((found, function, id), right) in operators.into_iter().zip(operands) {
            if found != level {
                // An operator of a lower precedence ends the chain.
                length = 0;
                rest.push((found, function, id));
                kept.push(right);
                continue;
            }
            self.check_chain(&mut length)?;
            let left = kept.pop().expect("there is an operand before every operator");
            kept.push(Expr {
                id,
                kind: Kind::Call { target: None, function: function.into(), args: vec![left, right] },
            });
        }
        Ok((kept, rest))
    }
}

/// Operands and the operators between them; there is one operand more.
type Sequence = (Vec<Expr>, Vec<(u8, &'static str, Id)>);

/// The levels of precedence; the lowest number binds tightest.
const PRODUCT: u8 = 0;
const SUM: u8 = 1;
const RELATION: u8 = 2;
const CONJUNCTION: u8 = 3;
const DISJUNCTION: u8 = 4;

/// The level and the function of a binary operator.
fn binary(token: Token) -> Option<(u8, &'static str)> {
    Some(match token {
        Token::Star => (PRODUCT, "_*_"),
        Token::Slash => (PRODUCT, "_/_"),
        Token::Percent => (PRODUCT, "_%_"),
        Token::Plus => (SUM, "_+_"),
        Token::Minus => (SUM, "_-_"),
        Token::Less => (RELATION, "_<_"),
        Token::LessEqual => (RELATION, "_<=_"),
        Token::GreaterEqual => (RELATION, "_>=_"),
        Token::Greater => (RELATION, "_>_"),
        Token::Equal => (RELATION, "_==_"),
        Token::NotEqual => (RELATION, "_!=_"),
        Token::In => (RELATION, "@in"),
        Token::And => (CONJUNCTION, "_&&_"),
        Token::Or => (DISJUNCTION, "_||_"),
        _ => return None,
    })
}

/// Combines `a && b && c …` to a balanced tree as cel-go does, which decides the order of evaluation.
fn reduce_balanced(operands: Vec<Expr>, operators: Vec<(u8, &'static str, Id)>, level: u8) -> Sequence {
    let mut operands = operands.into_iter();
    let mut kept = Vec::new();
    let mut rest = Vec::new();
    let mut terms: Vec<Option<Expr>> = vec![operands.next()];
    let mut ids = Vec::new();
    let mut close = |terms: &mut Vec<Option<Expr>>, ids: &mut Vec<Id>| {
        let function = if level == CONJUNCTION { "_&&_" } else { "_||_" };
        kept.extend(match ids.len() {
            0 => terms.pop().flatten(),
            count => Some(balance(terms, ids, 0, count - 1, function)),
        });
        terms.clear();
        ids.clear();
    };
    for ((found, function, id), right) in operators.into_iter().zip(operands) {
        if found == level {
            ids.push(id);
        } else {
            close(&mut terms, &mut ids);
            rest.push((found, function, id));
        }
        terms.push(Some(right));
    }
    close(&mut terms, &mut ids);
    (kept, rest)
}

/// Builds the tree of the terms around the operators from `low` to `high`.
fn balance(terms: &mut [Option<Expr>], operators: &[Id], low: usize, high: usize, function: &str) -> Expr {
    // Rounded up, as in cel-go: the left side gets more terms.
    let middle = (low + high).div_ceil(2);
    let mut side = |is_leaf: bool, leaf: usize, low: usize, high: usize| match is_leaf {
        true => terms[leaf].take().expect("each term has one place in the tree"),
        false => balance(terms, operators, low, high, function),
    };
    let left = side(middle == low, middle, low, middle.saturating_sub(1));
    let right = side(middle == high, middle + 1, middle + 1, high);
    Expr {
        id: operators[middle],
        kind: Kind::Call { target: None, function: function.into(), args: vec![left, right] },
    }
}
