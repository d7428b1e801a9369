//! Warnings for the client: each once, and limited in size.

use std::sync::{Mutex, PoisonError};

/// The maximum number of characters in total before every warning is truncated.
const TOTAL_MAX: usize = 4 * 1024;
/// The maximum number of characters of a truncated warning.
const ITEM_MAX: usize = 256;

/// Records warnings for the client while a request is handled.
///
/// Mirrors upstream's recorder (`endpoints/filters/warning.go`): no text twice, none with control characters. Once
/// there are more than 4,096 characters in total, each warning is truncated to 256, and further ones are dropped when
/// even that limit is full.
#[derive(Debug, Default)]
pub struct Warnings(Mutex<Gathered>);

#[derive(Debug, Default)]
struct Gathered {
    texts: Vec<String>,
    characters: usize,
    cutting: bool,
}

impl Warnings {
    /// Adds a warning, unless it is a duplicate or the limit is reached.
    pub fn add(&self, text: impl Into<String>) {
        let text = text.into();
        if !text.is_empty() && !text.contains(char::is_control) {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).add(text);
        }
    }

    /// Takes all warnings, in order.
    pub fn take(&self) -> Vec<String> {
        let mut gathered = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Gathered { texts, cutting, .. } = std::mem::take(&mut *gathered);
        if cutting { texts.into_iter().map(cut).collect() } else { texts }
    }
}

impl Gathered {
    fn add(&mut self, text: String) {
        let full = self.cutting && self.characters >= TOTAL_MAX;
        if full || self.texts.contains(&text) {
            return;
        }
        self.characters += length(&text, self.cutting);
        self.texts.push(text);
        if !self.cutting && self.characters > TOTAL_MAX {
            self.cutting = true;
            self.characters = self.texts.iter().map(|text| length(text, true)).sum();
        }
    }
}

fn length(text: &str, cut: bool) -> usize {
    let length = text.chars().count();
    if cut { length.min(ITEM_MAX) } else { length }
}

fn cut(mut text: String) -> String {
    if let Some((end, _)) = text.char_indices().nth(ITEM_MAX) {
        text.truncate(end);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lengths(texts: impl IntoIterator<Item = String>) -> Vec<usize> {
        let warnings = Warnings::default();
        texts.into_iter().for_each(|text| warnings.add(text));
        warnings.take().iter().map(|text| text.chars().count()).collect()
    }

    #[test]
    fn a_warning_is_said_once_and_only_if_a_header_can_carry_it() {
        let warnings = Warnings::default();
        ["a", "b", "a", "", "two\nlines"].into_iter().for_each(|text| warnings.add(text));
        assert_eq!(warnings.take(), ["a", "b"]);
    }

    #[test]
    fn all_are_cut_short_once_they_are_too_long_together() {
        assert_eq!(lengths(["ä".repeat(4_096)]), [4_096]);
        assert_eq!(lengths(["ä".repeat(4_096), "b".to_owned()]), [256, 1]);
        assert_eq!(lengths(["ä".repeat(4_097)]), [256]);
    }

    #[test]
    fn further_ones_are_dropped_when_even_the_short_ones_fill_the_room() {
        let many = (0..100).map(|number| format!("{number:03}{}", "x".repeat(997)));
        assert_eq!(lengths(many), [256; 16]);
    }
}
