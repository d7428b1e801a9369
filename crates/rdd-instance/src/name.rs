//! Instance names: which are valid, and the index that spreads instances over ports.

use std::fmt;

/// A valid name, which is safe in paths, unit names and labels: `[a-z0-9][a-z0-9-]*`, at most 32 characters.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(String);

/// Why a name is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "invalid instance name {name:?}: {problem}; use lower-case letters, digits and hyphens, starting with a letter or digit, at most 32 characters"
)]
pub struct InvalidName {
    name: String,
    problem: &'static str,
}

impl Name {
    /// The name of the default instance.
    pub const DEFAULT: &'static str = "2";

    const MAX_LENGTH: usize = 32;

    /// Validates a name.
    pub fn parse(name: &str) -> Result<Self, InvalidName> {
        match problem_of(name) {
            None => Ok(Self(name.to_owned())),
            Some(problem) => Err(InvalidName { name: name.to_owned(), problem }),
        }
    }

    /// The name without the prefix, as in `2`.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name with the product's prefix, as in `rancher-desktop-2`.
    pub fn full(&self) -> String {
        format!("rancher-desktop-{}", self.0)
    }

    /// The index of the instance: a number from 1 to 99 is its own index; any other name gets one from 100 to 199 by
    /// the sum of its characters. Two names may share an index. Then the instance that starts second finds its ports
    /// taken and uses others.
    pub fn index(&self) -> u16 {
        match self.0.parse::<u16>() {
            Ok(number @ 1..=99) => number,
            _ => 100 + u16::try_from(self.0.chars().map(u32::from).sum::<u32>() % 100).expect("below 100"),
        }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn problem_of(name: &str) -> Option<&'static str> {
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if name.is_empty() {
        Some("it is empty")
    } else if !name.chars().all(allowed) {
        Some("it has a character that is not allowed")
    } else if name.starts_with('-') {
        Some("it starts with a hyphen")
    } else if name.len() > Name::MAX_LENGTH {
        Some("it is too long")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indexes_are_those_of_the_original() {
        for (name, index) in
            [("2", 2), ("99", 99), ("cc", 198), ("bats", 126), ("test", 148), ("100", 145), ("0", 148), ("007", 7)]
        {
            assert_eq!(Name::parse(name).unwrap().index(), index, "{name}");
        }
        assert_eq!(Name::parse(&"9".repeat(32)).unwrap().index(), 100 + 57 * 32 % 100, "too large for a number");
    }

    #[test]
    fn names_that_could_leave_their_folder_or_clash_by_case_are_refused() {
        let long = "a".repeat(33);
        for name in ["", "-a", "..", "a/b", "../../etc", "a b", "A", "ä", "a\0b", "a.b", "a_b", &long] {
            assert!(Name::parse(name).is_err(), "{name:?} must be refused");
        }
        let longest = "a".repeat(32);
        for name in ["2", "a", "a-b", "bats-app", "0", "a--", &longest] {
            assert!(Name::parse(name).is_ok(), "{name:?} must be accepted");
        }
    }

    #[test]
    fn the_refusal_shows_the_name_and_the_rule() {
        assert_eq!(
            Name::parse("My/App").unwrap_err().to_string(),
            "invalid instance name \"My/App\": it has a character that is not allowed; use lower-case letters, \
             digits and hyphens, starting with a letter or digit, at most 32 characters"
        );
    }
}
