//! Wraps text at spaces to a line width.

/// Wraps lines at spaces; words that are longer than the width stay whole.
pub(crate) fn wrap(width: usize, text: &str) -> String {
    let mut wrapped = String::with_capacity(text.len());
    let mut current = 0;
    let (mut word, mut blanks) = (String::new(), String::new());
    let (mut word_width, mut blank_width) = (0, 0);
    for letter in text.chars() {
        if letter == '\n' {
            if word.is_empty() {
                if current + blank_width <= width {
                    wrapped.push_str(&blanks);
                }
            } else {
                wrapped.push_str(&blanks);
                wrapped.push_str(&word);
            }
            (blanks, blank_width) = (String::new(), 0);
            (word, word_width) = (String::new(), 0);
            wrapped.push(letter);
            current = 0;
        } else if letter.is_whitespace() && letter != '\u{a0}' {
            if blanks.is_empty() || !word.is_empty() {
                current += blank_width + word_width;
                wrapped.push_str(&blanks);
                wrapped.push_str(&word);
                (blanks, blank_width) = (String::new(), 0);
                (word, word_width) = (String::new(), 0);
            }
            blanks.push(letter);
            blank_width += 1;
        } else {
            word.push(letter);
            word_width += 1;
            if current + word_width + blank_width > width && word_width < width {
                wrapped.push('\n');
                current = 0;
                (blanks, blank_width) = (String::new(), 0);
            }
        }
    }
    if !word.is_empty() || current + blank_width <= width {
        wrapped.push_str(&blanks);
    }
    wrapped.push_str(&word);
    wrapped
}

/// Indents every line.
pub(crate) fn indent(amount: usize, text: &str) -> String {
    let blanks = " ".repeat(amount);
    format!("{blanks}{}", text.replace('\n', &format!("\n{blanks}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_broken_at_blanks() {
        assert_eq!(wrap(10, "one two three four"), "one two\nthree four");
        assert_eq!(wrap(5, "averylongword x"), "averylongword\nx");
        assert_eq!(wrap(10, "a\nb\n"), "a\nb\n");
        assert_eq!(indent(2, "a\nb"), "  a\n  b");
    }
}
