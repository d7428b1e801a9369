//! Static bearer tokens: random, redacted in `Debug`, and compared in constant time.

use std::{fmt, sync::Arc};

use subtle::{Choice, ConditionallySelectable, ConstantTimeEq};

use super::{Authenticator, Credentials, Identity};

/// A bearer token. Its `Debug` is `***`.
#[derive(Clone)]
pub struct Token(String);

impl Token {
    /// Generates a token in the form of a random UUID: 122 bits from the operating system.
    pub fn random() -> Self {
        Self(uuid::Uuid::new_v4().to_string())
    }

    /// The secret. Write it only to files that only the owner can read.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// The valid tokens and their identities.
#[derive(Debug, Clone)]
pub struct Tokens(Vec<(Token, Arc<Identity>)>);

impl Tokens {
    /// Creates an authenticator for these tokens.
    pub fn new(known: impl IntoIterator<Item = (Token, Identity)>) -> Self {
        Self(known.into_iter().map(|(token, identity)| (token, Arc::new(identity))).collect())
    }

    /// Finds the identity of a token. It compares all tokens completely, so that the duration reveals only the length, which is
    /// the same for all tokens and not secret.
    fn find(&self, presented: &str) -> Option<&Arc<Identity>> {
        let mut found = u32::MAX;
        for (index, (token, _)) in (0u32..).zip(&self.0) {
            let equal = same(token.0.as_bytes(), presented.as_bytes());
            found = u32::conditional_select(&found, &index, equal);
        }
        self.0.get(usize::try_from(found).ok()?).map(|(_, identity)| identity)
    }
}

/// Compares in constant time, eight bytes at a time.
fn same(ours: &[u8], theirs: &[u8]) -> Choice {
    if ours.len() != theirs.len() {
        return Choice::from(0);
    }
    let ((ours, our_rest), (theirs, their_rest)) = (ours.as_chunks(), theirs.as_chunks());
    let words = ours.iter().zip(theirs).map(|(one, other)| u64::from_ne_bytes(*one) ^ u64::from_ne_bytes(*other));
    let bytes = our_rest.iter().zip(their_rest).map(|(one, other)| u64::from(one ^ other));
    // Collect all differences, and compare with zero only once: an early exit would reveal the position.
    words.chain(bytes).fold(0, |so_far, different| so_far | different).ct_eq(&0)
}

impl Authenticator for Tokens {
    fn authenticate(&self, credentials: &Credentials<'_>) -> Option<Arc<Identity>> {
        self.find(credentials.bearer?).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_token_stands_for_its_own_identity_and_nothing_else_for_any() {
        let (first, second) = (Token::random(), Token::random());
        let tokens = Tokens::new([(first.clone(), Identity::admin()), (second.clone(), Identity::user())]);
        let who = |presented: &str| tokens.find(presented).map(|identity| identity.name().to_owned());
        assert_eq!(who(first.reveal()).as_deref(), Some("system-admin"));
        assert_eq!(who(second.reveal()).as_deref(), Some("user"));
        assert_eq!(who(Token::random().reveal()), None);
        assert_eq!(who(&first.reveal()[..35]), None);
        for at in 0..36 {
            let mut almost = first.reveal().to_owned();
            almost.replace_range(at..=at, "x");
            assert_eq!(who(&almost), None, "byte {at} counts");
        }
        assert_eq!(who(""), None);
        assert!(Tokens::new([]).find("").is_none(), "knowing no token is not knowing the empty one");
    }

    #[test]
    fn a_token_is_a_random_uuid_that_is_never_printed() {
        let token = Token::random();
        assert_eq!(uuid::Uuid::parse_str(token.reveal()).unwrap().get_version_num(), 4);
        assert_ne!(token.reveal(), Token::random().reveal());
        assert_eq!(format!("{token:?}"), "***");
        assert!(!format!("{:?}", Tokens::new([(token.clone(), Identity::user())])).contains(token.reveal()));
    }
}
