//! Escapes untrusted text for output on a terminal.
//!
//! Users and containers choose the text of names, events and logs. On a terminal, control characters move the cursor,
//! ring the bell, overwrite earlier output or make the terminal send input, and bidirectional marks reorder what a line
//! shows.

use std::fmt::Write as _;

/// Whether a terminal interprets the character instead of showing it. Newlines and tabs are allowed, since they are
/// part of every layout.
pub fn is_hostile(character: char) -> bool {
    match character {
        '\n' | '\t' => false,
        // Line and paragraph separators, and marks, embeddings, overrides and isolates of bidirectional text.
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => true,
        other => other.is_control(),
    }
}

/// Replaces hostile characters with visible escapes: ESC with `^[` and a carriage return with `\r` as kubectl does,
/// other control characters with `^G` or `\u009b`.
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\r' => escaped.push_str("\\r"),
            '\u{7f}' => escaped.push_str("^?"),
            control @ '\0'..='\u{1f}' if is_hostile(control) => {
                escaped.push('^');
                escaped.extend(char::from_u32(u32::from(control) + 0x40));
            }
            hostile if is_hostile(hostile) => write!(escaped, "\\u{:04x}", u32::from(hostile)).unwrap_or_default(),
            plain => escaped.push(plain),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    // Finding A-8
    #[test]
    fn what_a_terminal_would_obey_is_spelled_out() {
        for (text, shown) in [
            ("plain ünïcode ✓", "plain ünïcode ✓"),
            ("two\nlines\tand a tab", "two\nlines\tand a tab"),
            ("\u{1b}[31mred", "^[[31mred"),
            ("over\rwritten", "over\\rwritten"),
            ("bell\u{7} back\u{8} null\0 delete\u{7f}", "bell^G back^H null^@ delete^?"),
            ("C1 \u{9b}31m \u{90}q\u{9c} \u{85}", "C1 \\u009b31m \\u0090q\\u009c \\u0085"),
            ("bidi \u{202e}cod.exe\u{2066}\u{2069}\u{200f}\u{61c}", "bidi \\u202ecod.exe\\u2066\\u2069\\u200f\\u061c"),
            ("line\u{2028}separator", "line\\u2028separator"),
        ] {
            assert_eq!(escape(text), shown);
            assert!(!escape(text).chars().any(is_hostile));
        }
    }
}
