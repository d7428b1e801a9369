//! Parses the `Accept` header into clauses, in the order in which upstream's parser prefers them.

use std::cmp::Ordering;

/// Up to this number of clauses the sort gives exactly the order of Go's `sort.Sort`, which uses insertion sort for them. Real
/// headers have fewer.
const INSERTION_MAX: usize = 12;

/// One media range of an `Accept` header, with its parameters.
#[derive(Debug, PartialEq)]
pub(crate) struct Clause<'h> {
    kind: &'h str,
    subtype: &'h str,
    quality: f32,
    parameters: Vec<(&'h str, &'h str)>,
}

impl<'h> Clause<'h> {
    /// Whether the clause matches `application/<subtype>`.
    pub(crate) fn covers(&self, subtype: &str) -> bool {
        match (self.kind, self.subtype) {
            ("*", "*") | ("application", "*") => true,
            (kind, found) => kind == "application" && found == subtype,
        }
    }

    /// The value of a parameter. If it is repeated, the last one counts.
    pub(crate) fn parameter(&self, name: &str) -> Option<&'h str> {
        self.parameters.iter().rev().find(|(known, _)| *known == name).map(|(_, value)| *value)
    }

    /// Upstream's comparison of two clauses. It is not a strict order, so the algorithm of the sort affects the result, and clients
    /// see that.
    fn precedes(&self, other: &Self) -> bool {
        self.quality > other.quality
            || (self.kind != "*" && other.kind == "*")
            || (self.subtype != "*" && other.subtype == "*")
    }
}

/// Parses and sorts the clauses of a header as `goautoneg.ParseAccept` does. Malformed clauses are skipped.
pub(crate) fn clauses(header: &str) -> Vec<Clause<'_>> {
    let mut clauses: Vec<Clause<'_>> = header.split(',').filter_map(clause).collect();
    // The comparison is inconsistent, so only the same algorithm as Go's gives the same order.
    if clauses.len() <= INSERTION_MAX {
        for end in 1..clauses.len() {
            let mut at = end;
            while at > 0 && clauses[at].precedes(&clauses[at - 1]) {
                clauses.swap(at, at - 1);
                at -= 1;
            }
        }
    } else {
        // The standard sort may panic on an inconsistent comparison, so long headers are sorted by quality alone.
        clauses.sort_by(|left, right| right.quality.partial_cmp(&left.quality).unwrap_or(Ordering::Equal));
    }
    clauses
}

fn clause(text: &str) -> Option<Clause<'_>> {
    let mut parts = trim(text).split(';');
    let (kind, subtype) = match parts.next()?.split_once('/') {
        Some((kind, subtype)) if !subtype.is_empty() && !subtype.contains('/') => (trim(kind), trim(subtype)),
        Some((kind, "")) if trim(kind) == "*" => ("*", "*"),
        // Upstream reads a single `*` as `*/*`.
        None if trim(text.split(';').next()?) == "*" => ("*", "*"),
        _ => return None,
    };
    let mut clause = Clause { kind, subtype, quality: 1.0, parameters: Vec::new() };
    for part in parts {
        let Some((name, value)) = part.split_once('=') else { continue };
        if value.is_empty() || value.contains('=') {
            continue;
        }
        match trim(name) {
            // As upstream, a malformed quality counts as 0.
            "q" => clause.quality = value.parse().ok().filter(|quality: &f32| !quality.is_nan()).unwrap_or(0.0),
            name => clause.parameters.push((name, trim(value))),
        }
    }
    Some(clause)
}

fn trim(text: &str) -> &str {
    text.trim_matches(' ')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(header: &str) -> String {
        let shown =
            clauses(header).iter().map(|clause| format!("{}/{}", clause.kind, clause.subtype)).collect::<Vec<_>>();
        shown.join(" ")
    }

    #[test]
    fn quality_comes_first_and_wildcards_last() {
        assert_eq!(order("a/b;q=0.5, c/d, e/f;q=0.7"), "c/d e/f a/b");
        assert_eq!(order("*/*, a/*, a/b"), "a/b a/* */*");
        assert_eq!(order("text/html,*/*;q=0.1"), "text/html */*");
        assert_eq!(order("a/b;q=nonsense,c/d;q=0.1"), "c/d a/b");
    }

    #[test]
    fn what_is_malformed_is_left_out() {
        assert_eq!(order("a, a/b/c, */, *, ,/x"), "/x */* */*");
        assert_eq!(order(""), "");
        let long = "a/b;q=0.1,".repeat(1000) + "c/d";
        assert!(order(&long).starts_with("c/d a/b"));
    }

    #[test]
    fn parameters_are_found_whatever_their_order() {
        let clauses = clauses("application/json; as=Table ;v=v1;g = meta.k8s.io;x;y==;v=v2");
        let clause = &clauses[0];
        assert_eq!(clause.parameter("as"), Some("Table"));
        assert_eq!((clause.parameter("v"), clause.parameter("g")), (Some("v2"), Some("meta.k8s.io")));
        assert_eq!((clause.parameter("x"), clause.parameter("y")), (None, None));
        assert!(clause.covers("json") && !clause.covers("yaml"));
    }
}
