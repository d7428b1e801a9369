//! Validation of numbers: an integer is compared with a bound that is truncated to an integer.

use rdd_meta::go_text;
use serde_json::Number;

use super::outcome::{Code, Outcome, Trail};
use crate::structural::Structural;

/// Go's conversion of a float to `int64` on amd64: truncated, and the smallest integer when it does not fit.
pub(crate) fn float_to_int(value: f64) -> i64 {
    if (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&value) { value as i64 } else { i64::MIN }
}

/// A value or a bound, in the type that it is compared and printed in.
#[derive(Clone, Copy)]
enum Numeric {
    Integer(i64),
    Float(f64),
}

impl Numeric {
    fn text(self) -> String {
        match self {
            Numeric::Integer(integer) => integer.to_string(),
            Numeric::Float(float) => go_text::plain_float(float),
        }
    }

    fn value(self) -> serde_json::Value {
        match self {
            Numeric::Integer(integer) => integer.into(),
            Numeric::Float(float) => float.into(),
        }
    }

    /// Converts a bound to the type of the value.
    fn like(self, bound: f64) -> Numeric {
        match self {
            Numeric::Integer(_) => Numeric::Integer(float_to_int(bound)),
            Numeric::Float(_) => Numeric::Float(bound),
        }
    }

    fn less(self, other: Numeric) -> bool {
        match (self, other) {
            (Numeric::Integer(a), Numeric::Integer(b)) => a < b,
            (Numeric::Float(a), Numeric::Float(b)) => a < b,
            _ => false,
        }
    }

    /// Whether neither number is less than the other.
    fn equal(self, other: Numeric) -> bool {
        !self.less(other) && !other.less(self)
    }
}

pub(super) fn check(schema: &Structural, number: &Number, trail: &Trail<'_>) -> Outcome {
    let mut outcome = Outcome::default();
    outcome.count();
    let Some(validation) = schema.validation.as_deref() else { return outcome };
    let value = match number.as_i64() {
        Some(integer) => Numeric::Integer(integer),
        None => Numeric::Float(number.as_f64().unwrap_or(f64::NAN)),
    };
    if let Some(factor) = validation.multiple_of {
        multiple(value, value.like(factor), trail, &mut outcome);
    }
    let mut bound = |broken: bool, words: &str, limit: Numeric| {
        if broken {
            let message = format!("{trail} in body should be {words} {}", limit.text());
            outcome.fail(Code::Other, trail, Some(value.value()), message);
        }
    };
    if let Some(minimum) = validation.minimum {
        let limit = value.like(minimum);
        if validation.exclusive_minimum {
            bound(value.less(limit) || value.equal(limit), "greater than", limit);
        } else {
            bound(value.less(limit), "greater than or equal to", limit);
        }
    }
    if let Some(maximum) = validation.maximum {
        let limit = value.like(maximum);
        if validation.exclusive_maximum {
            bound(limit.less(value) || value.equal(limit), "less than", limit);
        } else {
            bound(limit.less(value), "less than or equal to", limit);
        }
    }
    outcome
}

fn multiple(value: Numeric, factor: Numeric, trail: &Trail<'_>, outcome: &mut Outcome) {
    let (positive, whole) = match (value, factor) {
        (Numeric::Integer(value), Numeric::Integer(factor)) => (factor > 0, factor > 0 && value % factor == 0),
        (Numeric::Float(value), Numeric::Float(factor)) => {
            // As upstream, which multiplies by the inverse of a factor below 1.
            let quotient = if factor < 1.0 { 1.0 / factor * value } else { value / factor };
            (factor > 0.0, is_json_integer(quotient))
        }
        _ => (true, true),
    };
    if !positive {
        let message = format!("factor MultipleOf declared for {trail} must be positive: {}", factor.text());
        outcome.fail(Code::Other, trail, Some(factor.value()), message);
    } else if !whole {
        let message = format!("{trail} in body should be a multiple of {}", factor.text());
        outcome.fail(Code::Other, trail, Some(value.value()), message);
    }
}

/// go-openapi's test for a float that is an integer: in the range that a double holds exactly, and nearly whole.
pub(super) fn is_json_integer(value: f64) -> bool {
    const LIMIT: f64 = 9_007_199_254_740_991.0;
    if !value.is_finite() || value.abs() > LIMIT {
        return false;
    }
    let whole = value.trunc();
    if value == whole {
        return true;
    }
    // Upstream rounds through an unsigned integer, so values below 1, and all negative ones, never count as nearly whole.
    if value < 0.0 || whole == 0.0 {
        return false;
    }
    (value - whole).abs() / (value + whole) < 1e-9
}
