//! Regular expressions in RE2 syntax.

use crate::{
    pattern::{self, Matcher},
    value::{Fault, Outcome, Value},
};

/// How large a compiled pattern may be to run in the `regex` crate. It is less than in schemas, because an expression may
/// compile a new pattern in every iteration of a comprehension.
const SIZE_BYTES_MAX: usize = 4 << 20;

/// Compiles a pattern of an expression.
///
/// # Errors
/// Go's text, when the pattern is invalid or too large.
pub fn compile(source: &str) -> Result<Matcher, String> {
    pattern::compile(source, SIZE_BYTES_MAX)
}

fn text<'v>(value: &'v Value<'_>) -> Result<&'v str, Fault> {
    match value {
        Value::String(text) => Ok(text),
        _ => Err(Fault::no_such_overload()),
    }
}

pub(crate) fn matches<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    let pattern = compile(text(&args[1])?).map_err(Fault::Error)?;
    matches_compiled(&pattern, args)
}

pub(crate) fn matches_compiled<'a>(pattern: &Matcher, args: &[Value<'a>]) -> Outcome<'a> {
    pattern.is_match(text(&args[0])?).map(Value::Bool).map_err(Fault::error)
}

fn illegal(problem: String) -> Fault {
    Fault::error(format!("Illegal regex: {problem}"))
}

pub(crate) fn find<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    let input = text(&args[0])?;
    find_compiled(&compile(text(&args[1])?).map_err(illegal)?, &[Value::text(input)])
}

pub(crate) fn find_compiled<'a>(pattern: &Matcher, args: &[Value<'a>]) -> Outcome<'a> {
    let found = pattern.find(text(&args[0])?).map_err(Fault::error)?;
    Ok(Value::text(found.unwrap_or_default()))
}

pub(crate) fn find_all<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    text(&args[0])?;
    find_all_compiled(&compile(text(&args[1])?).map_err(illegal)?, args)
}

pub(crate) fn find_all_compiled<'a>(pattern: &Matcher, args: &[Value<'a>]) -> Outcome<'a> {
    let limit = match args.get(2) {
        None => usize::MAX,
        Some(Value::Int(limit)) => usize::try_from(*limit).unwrap_or(usize::MAX),
        Some(_) => return Err(Fault::no_such_overload()),
    };
    let found = pattern.find_all(text(&args[0])?, limit).map_err(Fault::error)?;
    Ok(Value::texts(found.into_iter().map(str::to_owned)))
}
