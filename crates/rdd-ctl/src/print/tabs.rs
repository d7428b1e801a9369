//! Aligns columns of text like Go's `text/tabwriter`.

/// A buffer of tab-terminated cells. A column is as wide as its widest cell in adjacent lines that have the column.
#[derive(Debug, Clone)]
pub(crate) struct Tabs {
    width_min: usize,
    padding: usize,
    remember: bool,
    remembered: Vec<usize>,
    text: String,
}

impl Tabs {
    /// The layout of tables: columns at least six wide, three spaces between them, widths kept over flushes.
    pub(crate) fn for_tables() -> Self {
        Self { width_min: 6, padding: 3, remember: true, remembered: Vec::new(), text: String::new() }
    }

    /// The layout of descriptions: two spaces between columns.
    pub(crate) fn for_descriptions() -> Self {
        Self { width_min: 0, padding: 2, remember: false, remembered: Vec::new(), text: String::new() }
    }

    /// Adds text.
    pub(crate) fn push(&mut self, text: &str) {
        self.text.push_str(text);
    }

    /// Forgets the column widths of earlier flushes.
    pub(crate) fn forget_widths(&mut self) {
        self.remembered.clear();
    }

    /// Returns the buffered text, aligned.
    pub(crate) fn flush(&mut self) -> String {
        let text = std::mem::take(&mut self.text);
        let mut lines: Vec<Vec<&str>> = text.split('\n').map(|line| line.split('\t').collect()).collect();
        let ends_with_newline = text.ends_with('\n');
        if ends_with_newline {
            lines.pop();
        }
        let mut aligned = String::new();
        let mut remembered = std::mem::take(&mut self.remembered);
        let mut layout = Layout { tabs: self, lines: &lines, out: &mut aligned, remembered: &mut remembered };
        layout.format(&mut Vec::new(), 0, lines.len());
        if !ends_with_newline {
            aligned.pop();
        }
        self.remembered = remembered;
        aligned
    }
}

struct Layout<'a> {
    tabs: &'a Tabs,
    lines: &'a [Vec<&'a str>],
    out: &'a mut String,
    remembered: &'a mut Vec<usize>,
}

impl Layout<'_> {
    /// Writes the lines `from..to`, whose first columns have these widths. Recurses once per column.
    fn format(&mut self, widths: &mut Vec<usize>, mut from: usize, to: usize) {
        let column = widths.len();
        let mut this = from;
        while this < to {
            if column + 1 >= self.lines[this].len() {
                this += 1;
                continue;
            }
            self.write(widths, from, this);
            from = this;
            let mut width = self.tabs.width_min;
            while this < to && column + 1 < self.lines[this].len() {
                width = width.max(self.lines[this][column].chars().count() + self.tabs.padding);
                this += 1;
            }
            if self.tabs.remember {
                if self.remembered.len() <= column {
                    self.remembered.resize(column + 1, 0);
                }
                width = width.max(self.remembered[column]);
                self.remembered[column] = width;
            }
            widths.push(width);
            self.format(widths, from, this);
            widths.pop();
            from = this;
        }
        self.write(widths, from, to);
    }

    fn write(&mut self, widths: &[usize], from: usize, to: usize) {
        for line in &self.lines[from..to] {
            for (index, cell) in line.iter().enumerate() {
                self.out.push_str(cell);
                if let Some(width) = widths.get(index) {
                    let blanks = width.saturating_sub(cell.chars().count());
                    self.out.extend(std::iter::repeat_n(' ', blanks));
                }
            }
            self.out.push('\n');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_neighbour() {
        let mut tabs = Tabs::for_descriptions();
        tabs.push("Name:\tx\nLonger name:\ty\tz\n\nA:\tb\n");
        assert_eq!(tabs.flush(), "Name:         x\nLonger name:  y  z\n\nA:  b\n");
    }

    #[test]
    fn widths_are_remembered_from_flush_to_flush() {
        let mut tabs = Tabs::for_tables();
        tabs.push("NAME\tAGE\nvery-long-name\t1s\n");
        assert_eq!(tabs.flush(), "NAME             AGE\nvery-long-name   1s\n");
        tabs.push("x\t2s\n");
        assert_eq!(tabs.flush(), "x                2s\n");
        tabs.forget_widths();
        tabs.push("x\t2s\n");
        assert_eq!(tabs.flush(), "x     2s\n");
    }
}
