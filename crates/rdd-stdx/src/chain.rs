//! Displays an error and its causes on one line, without repetitions.

use std::{error::Error, fmt};

/// Displays an error followed by its sources, separated by `: `.
///
/// Our error types never repeat their source in their own message, so the chain reads as one sentence. A source is left
/// out if the previous message already ends with its text, as with error types of some libraries.
pub struct Chain<'a>(pub &'a (dyn Error + 'a));

impl fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut said = self.0.to_string();
        f.write_str(&said)?;
        let mut next = self.0.source();
        while let Some(error) = next {
            let text = error.to_string();
            if !said.ends_with(&text) {
                write!(f, ": {text}")?;
                // Compare with the last displayed message only.
                said = text;
            }
            next = error.source();
        }
        Ok(())
    }
}

impl fmt::Debug for Chain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{text}")]
    struct Link {
        text: &'static str,
        #[source]
        source: Option<Box<Link>>,
    }

    fn link(text: &'static str, source: Option<Link>) -> Link {
        Link { text, source: source.map(Box::new) }
    }

    #[test]
    fn causes_follow_in_order() {
        let error = link("open the store", Some(link("read header", Some(link("entity not found", None)))));
        assert_eq!(Chain(&error).to_string(), "open the store: read header: entity not found");
    }

    #[test]
    fn a_cause_that_was_said_already_is_not_said_twice() {
        let error = link("read header: entity not found", Some(link("entity not found", None)));
        assert_eq!(Chain(&error).to_string(), "read header: entity not found");
    }
}
