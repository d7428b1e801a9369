//! Renders the status tree as text, for terminals and for pipes.

use jiff::Timestamp;
use rdd_meta::terminal::is_hostile;

use super::tree::{Node, Report, State};
use crate::app::{help, settle};

/// How the tree is rendered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Look {
    /// Use symbols and branches, for terminals.
    pub symbols: bool,
    /// Use colour.
    pub color: bool,
    /// How long lines are handled.
    pub width: Width,
}

/// How lines that are too long are handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Width {
    /// They are printed as they are.
    Any,
    /// They wrap at this column; the rest is indented to the message column.
    Wrap(usize),
    /// They are cut at this column, so that every row stays one line that can be drawn over.
    Cut(usize),
}

/// The minimum width of the message column, however narrow the terminal is.
const ROOM_MIN: usize = 20;

/// Renders the report as lines without line ends. A wrapped message is one line that contains newlines.
pub fn lines(report: &Report, now: Timestamp, look: Look) -> Vec<String> {
    let mut rows = Vec::new();
    collect(&report.tree, "", "", look, now, &mut rows);
    // Columns are as wide as their widest cell, in characters.
    let width = |column: fn(&Row) -> &str| rows.iter().map(|row| column(row).chars().count()).max().unwrap_or(0);
    let (names, states, ages) = (width(|row| &row.name), width(|row| row.state.word()), width(|row| &row.age));
    let mut lines = vec![headline(report, look)];
    lines.extend(rows.iter().map(|row| {
        let word = paint(look, row.state, &format!("{:states$}", row.state.word()));
        let name = format!("{:names$}", row.name);
        // The symbol gets its colour after the column is padded, since escape sequences have no width.
        let name = if look.symbols {
            name.replacen(symbol(row.state), &paint(look, row.state, symbol(row.state)), 1)
        } else {
            name
        };
        // Three separators of two spaces each.
        let before = names + states + ages + 6;
        let message = match look.width {
            Width::Any => row.message.clone(),
            Width::Cut(columns) => cut(&row.message, columns.saturating_sub(before)),
            Width::Wrap(columns) => help::wrap(&row.message, columns.saturating_sub(before).max(ROOM_MIN))
                .join(&format!("\n{:before$}", "")),
        };
        format!("{name}  {word}  {:>ages$}  {message}", row.age).trim_end().to_owned()
    }));
    lines.extend(report.next.as_ref().map(|next| match look.symbols {
        true => format!("\nNext: {next}"),
        false => format!("next: {next}"),
    }));
    lines
}

struct Row {
    name: String,
    state: State,
    age: String,
    message: String,
}

fn collect(node: &Node, first: &str, others: &str, look: Look, now: Timestamp, rows: &mut Vec<Row>) {
    let name = if look.symbols {
        format!("{first}{} {}", symbol(node.state), node.title)
    } else {
        format!("{others}{}", node.title)
    };
    let age = node.since.map(|since| u64::try_from(now.duration_since(since).as_secs()).unwrap_or_default());
    let age = age.map(|seconds| settle::short(std::time::Duration::from_secs(seconds))).unwrap_or_default();
    rows.push(Row { name, state: node.state, age, message: plain(&node.message) });
    for (index, child) in node.children.iter().enumerate() {
        let last = index + 1 == node.children.len();
        let (branch, stem) = match (look.symbols, last) {
            (true, true) => ("└ ", "  "),
            (true, false) => ("├ ", "│ "),
            (false, _) => ("  ", "  "),
        };
        collect(child, &format!("{others}{branch}"), &format!("{others}{stem}"), look, now, rows);
    }
}

fn headline(report: &Report, look: Look) -> String {
    let word = if report.ready {
        "ready"
    } else if report.state == State::Off {
        "off"
    } else {
        report.state.word()
    };
    format!("{}: {}", report.name, paint(look, report.state, word))
}

fn symbol(state: State) -> &'static str {
    match state {
        State::Ready => "✓",
        State::Starting | State::Stopping => "◐",
        State::Waiting => "·",
        State::Off => "○",
        State::Failed => "✗",
        State::Unknown => "?",
    }
}

fn paint(look: Look, state: State, text: &str) -> String {
    let code = match state {
        State::Ready => "32",
        State::Starting | State::Stopping => "33",
        State::Failed => "1;31",
        State::Unknown => "35",
        State::Waiting | State::Off => "2",
    };
    if look.color { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
}

/// Replaces control characters and newlines by spaces: messages come from other programs and must not move the cursor.
pub fn plain(text: &str) -> String {
    let visible: String = text.chars().map(|c| if c == '\n' || is_hostile(c) { ' ' } else { c }).collect();
    visible.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn cut(text: &str, columns: usize) -> String {
    if text.chars().count() <= columns {
        return text.to_owned();
    }
    text.chars().take(columns.saturating_sub(1)).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::status::tree::{self, tests as mk};

    const PLAIN: Look = Look { symbols: false, color: false, width: Width::Any };

    #[test]
    fn a_pipe_gets_words_in_columns_and_nothing_else() {
        let facts = mk::running();
        let text = lines(&tree::judge(&facts), facts.now, PLAIN).join("\n");
        let expected = "\
rancher-desktop-2: ready
control plane     ready  1m00s  v1 at https://127.0.0.1:6445, PID 7
  app             ready    50s  App has reached the desired state
    host          ready    55s  Lima instance is running
      engine      ready    55s  moby at unix:///run/docker.sock
        mirrors   off           no controller mirrors the engine
      Kubernetes  off           not enabled";
        assert_eq!(text, expected);
    }

    #[test]
    fn a_terminal_gets_symbols_branches_and_what_to_do() {
        let mut facts = mk::running();
        facts.engine = Some(Err("refused".to_owned()));
        let look = Look { symbols: true, color: false, width: Width::Cut(60) };
        let text = lines(&tree::judge(&facts), facts.now, look).join("\n");
        let expected = "\
rancher-desktop-2: starting
✓ control plane     ready     1m00s  v1 at https://127.0.0.…
└ ✓ app             ready       50s  App has reached the de…
  └ ✓ host          ready       55s  Lima instance is runni…
    ├ ◐ engine      starting         unix:///run/docker.soc…
    │ └ ○ mirrors   off              no controller mirrors …
    └ ○ Kubernetes  off              not enabled

Next: rdd limavm log rd";
        assert_eq!(text, expected);
    }

    #[test]
    fn a_message_that_is_too_long_goes_on_under_itself() {
        let facts = mk::running();
        let look = Look { symbols: true, color: false, width: Width::Wrap(60) };
        let text = lines(&tree::judge(&facts), facts.now, look).join("\n");
        let indent = " ".repeat(34);
        let expected = format!("└ ✓ app             ready    50s  App has reached the\n{indent}desired state\n");
        assert!(text.contains(&expected), "{text}");
    }

    #[test]
    fn colour_is_put_around_states_only_where_it_is_welcome() {
        let facts = mk::running();
        let look = Look { symbols: true, color: true, width: Width::Any };
        let text = lines(&tree::judge(&facts), facts.now, look).join("\n");
        assert!(text.contains("\u{1b}[32m✓\u{1b}[0m control plane"), "{text}");
        assert!(!lines(&tree::judge(&facts), facts.now, PLAIN).join("\n").contains('\u{1b}'));
    }

    #[test]
    fn messages_of_others_cannot_draw() {
        assert_eq!(plain("a\u{1b}[2J\nb\t c\u{7} \u{202e}d\u{9b}"), "a [2J b c d");
    }
}
