//! Validates literals beyond their types, as Kubernetes does: durations, times, patterns, format strings, and lists of one
//! type.

use super::{Checked, Reference};
use crate::ast::{Expr, Id, Kind, Literal};
use crate::go;
use crate::libs::string_format::{self, Piece};
use crate::libs::{convert, regexes};
use crate::types::Type;
use crate::value::Value;

/// Reports each invalid literal with the id of its node.
pub(super) fn validate(checked: &Checked, mut report: impl FnMut(Id, String)) {
    let mut found: Vec<(Id, String)> = Vec::new();
    checked.root.walk(&mut Vec::new(), &mut |expr, ancestors| {
        let mut report = |id: Id, message: String| found.push((id, message));
        match &expr.kind {
            Kind::Call { function, args, target } => {
                argument(function, args, &mut report);
                if function == "format"
                    && let Some(target) = target
                {
                    format_call(checked, expr, target, args, &mut report);
                }
            }
            Kind::List(_) | Kind::Map(_) if !inside_format(ancestors) => aggregate(checked, expr, &mut report),
            _ => {}
        }
    });
    found.into_iter().for_each(|(id, message)| report(id, message));
}

/// Validates a literal argument of a function that parses it.
fn argument(function: &str, args: &[Expr], report: &mut dyn FnMut(Id, String)) {
    let Some(Expr { id, kind: Kind::Literal(literal) }) = args.first() else { return };
    let valid = match (function, literal) {
        ("duration", Literal::String(text)) => go::parse_duration(text).is_some(),
        ("timestamp", Literal::String(text)) => convert::to_timestamp(&[Value::text(&**text)]).is_ok(),
        ("timestamp", Literal::Int(seconds)) => convert::to_timestamp(&[Value::Int(*seconds)]).is_ok(),
        // Literals of other types have no conversion.
        ("duration" | "timestamp", _) => false,
        ("matches", Literal::String(pattern)) => regexes::compile(pattern).is_ok(),
        _ => true,
    };
    if !valid {
        report(*id, format!("invalid {function} argument"));
    }
}

/// Whether the node is inside a call of `format`, whose arguments may have different types at any depth.
fn inside_format(ancestors: &[&Expr]) -> bool {
    ancestors.iter().any(|parent| matches!(&parent.kind, Kind::Call { function, .. } if function == "format"))
}

/// Validates that the elements of a list, or the keys and the values of a map, have one type.
fn aggregate(checked: &Checked, expr: &Expr, report: &mut dyn FnMut(Id, String)) {
    let element_type = |expr: &Expr, optional: bool| {
        let found = checked.type_of(expr);
        if optional { found.unwrap_optional().0.clone() } else { found.clone() }
    };
    let mut mismatch = |expr: &Expr, expected: &Type, found: &Type| {
        report(expr.id, format!("expected type '{expected}' but found '{found}'"));
    };
    match &expr.kind {
        Kind::List(elements) => {
            let Some(first) = elements.first() else { return };
            let expected = element_type(&first.value, first.optional);
            for element in &elements[1..] {
                let found = element_type(&element.value, element.optional);
                if !expected.is_equivalent(&found) {
                    mismatch(&element.value, &expected, &found);
                    break;
                }
            }
        }
        Kind::Map(entries) => {
            let Some(first) = entries.first() else { return };
            let (key, value) = (element_type(&first.key, false), element_type(&first.value, first.optional));
            for entry in &entries[1..] {
                let found = element_type(&entry.key, false);
                if !key.is_equivalent(&found) {
                    mismatch(&entry.key, &key, &found);
                }
                let found = element_type(&entry.value, entry.optional);
                if !value.is_equivalent(&found) {
                    mismatch(&entry.value, &value, &found);
                }
            }
        }
        _ => {}
    }
}

/// Validates a call of `format` whose format string and list are literals.
fn format_call(checked: &Checked, call: &Expr, target: &Expr, args: &[Expr], report: &mut dyn FnMut(Id, String)) {
    let is_format = match &checked.references[call.id as usize] {
        Some(Reference::Function { overloads, .. }) => overloads.contains(&"string_format"),
        _ => true,
    };
    let (Kind::Literal(Literal::String(format)), [Expr { kind: Kind::List(elements), .. }]) = (&target.kind, args)
    else {
        return;
    };
    if !is_format {
        return;
    }
    let mut place = call.id;
    let outcome = string_format::pieces(format, elements.len(), |piece, argument| {
        // The text between clauses has no argument.
        let Piece::Clause(kind, _) = piece else { return Ok(()) };
        clause(checked, kind, &elements[argument].value).map_err(|(id, message)| {
            place = id;
            message
        })
    });
    match outcome {
        // A mistake in the format string itself, such as a missing argument, is reported at the call.
        Err(message) => report(place, message),
        Ok(seen) if elements.len() > seen => {
            let message =
                format!("too many arguments supplied to string.format (expected {seen}, got {})", elements.len());
            report(call.id, message);
        }
        Ok(_) => {}
    }
}

/// Validates that the type of an argument fits its clause.
fn clause(checked: &Checked, kind: char, argument: &Expr) -> Result<(), (Id, String)> {
    use Type::{Bool, Bytes, Double, Dyn, Int, String, Uint};
    if kind == 's' {
        return plain(checked, argument);
    }
    let found = checked.type_of(argument);
    let fits = match kind {
        'f' | 'e' => matches!(found, Double | String),
        'b' => matches!(found, Int | Uint | Bool),
        'x' | 'X' => matches!(found, Int | Uint | String | Bytes),
        _ => matches!(found, Int | Uint),
    };
    if fits || *found == Dyn { Ok(()) } else { Err((argument.id, string_format::mistake(kind, found.runtime_name()))) }
}

/// Validates an argument of `%s`, which accepts most types, and the elements of a list or map literal in it.
fn plain(checked: &Checked, argument: &Expr) -> Result<(), (Id, String)> {
    let found = checked.type_of(argument);
    // These have no text form.
    if matches!(found, Type::Struct(_) | Type::Opaque(..) | Type::Error | Type::Param(_)) {
        return Err((argument.id, string_format::mistake('s', found.runtime_name())));
    }
    match &argument.kind {
        Kind::List(elements) => elements.iter().try_for_each(|element| plain(checked, &element.value)),
        Kind::Map(entries) => entries.iter().try_for_each(|entry| {
            plain(checked, &entry.key)?;
            plain(checked, &entry.value)
        }),
        _ => Ok(()),
    }
}
