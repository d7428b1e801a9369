//! Type variables: their meanings, and whether a type is assignable to another.

use std::collections::HashMap;
use std::sync::Arc;

use crate::types::Type;

/// Type variables with their meanings. A failed assignment leaves them unchanged.
#[derive(Debug, Default)]
pub(super) struct Substitutions {
    known: HashMap<Arc<str>, Type>,
    /// The changes of the current assignment, to undo them.
    trail: Vec<(Arc<str>, Option<Type>)>,
    fresh: usize,
}

impl Substitutions {
    /// A new type variable.
    pub(super) fn fresh(&mut self) -> Type {
        self.fresh += 1;
        Type::Param(format!("_var{}", self.fresh - 1).into())
    }

    /// Whether each type is assignable to the wanted type at its position. On success, the meanings of variables are kept.
    pub(super) fn assignable_all(&mut self, actual: &[Type], wanted: &[Type]) -> bool {
        self.trail.clear();
        let fits = actual.len() == wanted.len() && actual.iter().zip(wanted).all(|(a, w)| self.fits(a, w));
        if !fits {
            while let Some((name, before)) = self.trail.pop() {
                match before {
                    Some(before) => self.known.insert(name, before),
                    None => self.known.remove(&name),
                };
            }
        }
        fits
    }

    pub(super) fn assignable(&mut self, actual: &Type, wanted: &Type) -> bool {
        self.assignable_all(std::slice::from_ref(actual), std::slice::from_ref(wanted))
    }

    /// Records a meaning of a variable, and how to undo it.
    fn learn(&mut self, name: &Arc<str>, meaning: Type) {
        let before = self.known.insert(Arc::clone(name), meaning);
        self.trail.push((Arc::clone(name), before));
    }

    /// Whether one type is assignable to the other; both may contain variables.
    fn fits(&mut self, first: &Type, second: &Type) -> bool {
        if let Type::Param(name) = second {
            match self.stands_for(first, name, second) {
                (true, _) => return true,
                (false, true) => return false,
                (false, false) => {}
            }
        }
        if let Type::Param(name) = first {
            return self.stands_for(second, name, first).0;
        }
        if first.is_dyn_or_error() || second.is_dyn_or_error() {
            return true;
        }
        match (first, second) {
            // `null` is assignable to objects, optionals, durations and timestamps.
            (Type::Null, other) | (other, Type::Null) => is_nullable(other),
            (Type::Type(_), Type::Type(_)) => true,
            (Type::List(a), Type::List(b)) => self.fits(a, b),
            (Type::Map(ak, av), Type::Map(bk, bv)) => self.fits(ak, bk) && self.fits(av, bv),
            (Type::Opaque(an, ap), Type::Opaque(bn, bp)) => {
                an == bn && ap.len() == bp.len() && ap.iter().zip(bp).all(|(a, b)| self.fits(a, b))
            }
            (a, b) => a == b,
        }
    }

    /// Whether the variable can have the meaning `meaning`, and whether it had one before.
    fn stands_for(&mut self, meaning: &Type, name: &Arc<str>, variable: &Type) -> (bool, bool) {
        if meaning == variable {
            return (true, true);
        }
        if let Some(known) = self.known.get(name).cloned() {
            if *meaning == known {
                return (true, true);
            }
            if self.fits(meaning, &known) {
                // The more general of the two becomes the meaning.
                let general = most_general(meaning, &known);
                if self.is_free_of(variable, &general) {
                    self.learn(name, general);
                }
                return (true, true);
            }
            return (false, true);
        }
        if self.is_free_of(variable, meaning) {
            self.learn(name, meaning.clone());
            return (true, false);
        }
        (false, false)
    }

    /// Whether the variable does not occur in the type. Otherwise the type would contain itself.
    fn is_free_of(&self, variable: &Type, within: &Type) -> bool {
        if variable == within {
            return false;
        }
        match within {
            Type::Param(name) => self.known.get(name).is_none_or(|known| self.is_free_of(variable, known)),
            Type::List(item) => self.is_free_of(variable, item),
            Type::Map(key, value) => self.is_free_of(variable, key) && self.is_free_of(variable, value),
            Type::Opaque(_, params) => params.iter().all(|param| self.is_free_of(variable, param)),
            Type::Type(Some(inner)) => self.is_free_of(variable, inner),
            _ => true,
        }
    }

    /// Replaces the variables in a type by their meanings. A variable without one stays, or becomes `dyn` with `free_to_dyn`.
    pub(super) fn substitute(&self, given: &Type, free_to_dyn: bool) -> Type {
        let inner = |part: &Type| self.substitute(part, free_to_dyn);
        match given {
            Type::Param(name) => match self.known.get(name) {
                Some(known) => self.substitute(known, free_to_dyn),
                None if free_to_dyn => Type::Dyn,
                None => given.clone(),
            },
            Type::List(item) => Type::list(inner(item)),
            Type::Map(key, value) => Type::map(inner(key), inner(value)),
            Type::Opaque(name, params) => Type::Opaque(Arc::clone(name), params.iter().map(inner).collect()),
            Type::Type(Some(part)) => Type::type_of(inner(part)),
            other => other.clone(),
        }
    }
}

/// Whether `null` is assignable to the type.
fn is_nullable(given: &Type) -> bool {
    matches!(given, Type::Null | Type::Opaque(..) | Type::Struct(_) | Type::Duration | Type::Timestamp)
}

/// The less specific of two types that are assignable to each other.
pub(super) fn most_general(first: &Type, second: &Type) -> Type {
    if is_equal_or_less_specific(first, second) { first.clone() } else { second.clone() }
}

fn is_equal_or_less_specific(first: &Type, second: &Type) -> bool {
    match (first, second) {
        (Type::Dyn | Type::Param(_), _) => true,
        (_, Type::Dyn | Type::Param(_)) => false,
        (Type::Opaque(an, ap), Type::Opaque(bn, bp)) => {
            an == bn && ap.len() == bp.len() && ap.iter().zip(bp).all(|(a, b)| is_equal_or_less_specific(a, b))
        }
        (Type::List(a), Type::List(b)) => is_equal_or_less_specific(a, b),
        (Type::Map(ak, av), Type::Map(bk, bv)) => {
            is_equal_or_less_specific(ak, bk) && is_equal_or_less_specific(av, bv)
        }
        (Type::Type(_), Type::Type(_)) => true,
        (a, b) => a == b,
    }
}
