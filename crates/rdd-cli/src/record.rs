//! Writes messages to standard error: log records for scripts, plain lines for people at a terminal.

use std::io::Write;

use jiff::{Timestamp, Zoned, tz::TimeZone};
use rdd_meta::terminal::is_hostile;
use rdd_stdx::clock::{Clock, SharedClock};

use crate::{
    go,
    printer::Stream,
    report::{ExitCode, Failure},
};

/// The level of a message. Smaller levels are more severe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Only accepted as a threshold; no message has it.
    Panic,
    /// The command failed.
    Fatal,
    /// The command failed with an exit code of its own.
    Error,
    /// A problem that the user should know about; the command continues.
    Warn,
    /// A result or a completed step.
    Info,
    /// Details of how a step was done.
    Debug,
    /// Every detail.
    Trace,
}

impl Level {
    /// Parses a level from `--log-level` or `RDD_LOG_LEVEL`. The error text is logrus', as in the original.
    pub fn parse(text: &str) -> Result<Self, Failure> {
        Ok(match text.to_ascii_lowercase().as_str() {
            "panic" => Self::Panic,
            "fatal" => Self::Fatal,
            "error" => Self::Error,
            "warn" | "warning" => Self::Warn,
            "info" => Self::Info,
            "debug" => Self::Debug,
            "trace" => Self::Trace,
            _ => return Err(Failure::message(format!("not a valid logrus Level: {}", go::quote(text)))),
        })
    }

    /// The level's name in a record, as logrus writes it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Panic => "panic",
            Self::Fatal => "fatal",
            Self::Error => "error",
            Self::Warn => "warning",
            Self::Info => "info",
            Self::Debug => "debug",
            Self::Trace => "trace",
        }
    }

    /// The `-v` of a daemon that is started at this level.
    pub const fn verbosity(self) -> u8 {
        match self {
            Self::Debug => 2,
            Self::Trace => 4,
            _ => 0,
        }
    }
}

/// Determines the level: the flag, then the variable, then the default of the mode. Also returns whether the user chose it.
pub fn resolve_level(
    flag: &str,
    variable: Option<&str>,
    developer: impl FnOnce() -> bool,
) -> Result<(Level, bool), Failure> {
    match (flag, variable) {
        ("", None) => Ok((if developer() { Level::Debug } else { Level::Warn }, false)),
        ("", Some(variable)) => Ok((Level::parse(variable)?, true)),
        (flag, _) => Ok((Level::parse(flag)?, true)),
    }
}

/// The format of log records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Format {
    /// `key=value`, or plain lines on a terminal.
    #[default]
    Text,
    /// One JSON object per line.
    Json,
}

impl Format {
    /// Parses `--log-format`.
    pub fn parse(text: &str) -> Result<Self, Failure> {
        match text {
            "text" => Ok(Self::Text),
            "json" => Ok(Self::Json),
            _ => Err(Failure::message(format!("invalid log format: {}", go::quote(text)))),
        }
    }
}

/// The form of messages on standard error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    /// Log records, for scripts.
    Record(Format),
    /// Plain lines, for people.
    Terminal {
        /// Whether colours may be used.
        color: bool,
        /// Whether a line can be drawn over.
        redraw: bool,
    },
}

impl Look {
    /// Chooses the form. Records are for pipes and for JSON; a dumb terminal gets lines without colour and redrawing.
    pub fn of(format: Format, terminal: bool, no_color: bool, term: Option<&str>) -> Self {
        // A dumb terminal supports neither colours nor cursor movement.
        let capable = term != Some("dumb");
        match (format, terminal) {
            (Format::Text, true) => Self::Terminal { color: capable && !no_color, redraw: capable },
            (format, _) => Self::Record(format),
        }
    }
}

/// Writes messages to standard error.
#[derive(Debug, Clone)]
pub struct Recorder {
    stream: Stream,
    clock: SharedClock,
    look: Look,
    threshold: Level,
}

impl Recorder {
    /// Creates a recorder that writes messages up to the level `threshold`.
    pub fn new(stream: Stream, clock: SharedClock, look: Look, threshold: Level) -> Self {
        Self { stream, clock, look, threshold }
    }

    /// A copy that writes messages up to this level, for commands whose output is messages.
    #[must_use]
    pub fn showing(&self, level: Level) -> Self {
        Self { threshold: level, ..self.clone() }
    }

    /// The form of messages.
    pub fn look(&self) -> Look {
        self.look
    }

    /// Whether messages are plain lines for people.
    pub fn is_for_people(&self) -> bool {
        matches!(self.look, Look::Terminal { .. })
    }

    pub(crate) fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Writes an info message.
    pub fn info(&self, message: &str) {
        self.write(Level::Info, message, "");
    }

    /// Writes the info message of a completed command; on a terminal it has a check mark.
    pub fn success(&self, message: &str) {
        self.write(Level::Info, message, "✓ ");
    }

    /// Writes a warning.
    pub fn warn(&self, message: &str) {
        self.write(Level::Warn, message, "");
    }

    /// Writes a hint on how to proceed, unless the level is below warnings.
    pub fn hint(&self, hint: &str) {
        // With only errors to show, hints are noise.
        if self.threshold < Level::Warn {
            return;
        }
        let line = match self.look {
            Look::Record(Format::Text) => format!("hint: {hint}\n"),
            Look::Record(Format::Json) => json_record(Level::Info, &format!("hint: {hint}"), None, &self.now()),
            Look::Terminal { color, .. } => format!("{} {}\n", paint(color, "36", "Hint:"), visible(hint)),
        };
        self.emit(&line);
    }

    /// Writes the reason of a failed command, then its hints. A failure with an exit code of its own is an error, any other is fatal.
    pub fn failure(&self, failure: &Failure) {
        let text = failure.text();
        let coded = failure.exit_code() != ExitCode::Failure;
        // The original logs these with logrus' Fatal and Error; scripts match the level.
        let level = if coded { Level::Error } else { Level::Fatal };
        // A failure without text carries only an exit code, which only JSON records can represent.
        let carried = !text.is_empty() || self.look == Look::Record(Format::Json);
        if self.threshold >= level && carried {
            let line = match self.look {
                Look::Record(Format::Text) => text_record(level, &text, &self.now()),
                Look::Record(Format::Json) => {
                    json_record(level, &text, coded.then_some(failure.exit_code().number()), &self.now())
                }
                Look::Terminal { color, .. } => format!("{} {}\n", paint(color, "1;31", "Error:"), visible(&text)),
            };
            self.emit(&line);
        }
        failure.hints().iter().for_each(|hint| self.hint(hint));
    }

    fn write(&self, level: Level, message: &str, mark: &str) {
        if level > self.threshold {
            return;
        }
        let line = match self.look {
            Look::Record(Format::Text) => text_record(level, message, &self.now()),
            Look::Record(Format::Json) => json_record(level, message, None, &self.now()),
            Look::Terminal { color, .. } => {
                let message = visible(message);
                match (level, mark) {
                    (Level::Warn, _) => format!("{} {message}\n", paint(color, "1;33", "Warning:")),
                    (_, "") => format!("{message}\n"),
                    (_, mark) => format!("{}{message}\n", paint(color, "32", mark)),
                }
            }
        };
        self.emit(&line);
    }

    /// Writes a line. A failed write to standard error cannot be reported anywhere.
    fn emit(&self, line: &str) {
        let mut stream = self.stream.lock();
        let _ = stream.write_all(line.as_bytes()).and_then(|()| stream.flush());
    }

    fn now(&self) -> Zoned {
        local_time(self.clock.as_ref())
    }
}

/// The wall-clock time in the user's time zone.
pub fn local_time(clock: &dyn Clock) -> Zoned {
    timestamp(clock).to_zoned(TimeZone::system())
}

/// The wall-clock time.
pub fn timestamp(clock: &dyn Clock) -> Timestamp {
    let wall = clock.wall();
    Timestamp::new(i64::try_from(wall.as_secs()).unwrap_or(i64::MAX), wall.subsec_nanos().cast_signed())
        .unwrap_or(Timestamp::MAX)
}

/// Formats a record as logrus does. `msg` is the last field and always quoted: scripts match `msg="(.*)"$`.
fn text_record(level: Level, message: &str, time: &Zoned) -> String {
    format!("time=\"{}\" level={} msg={}\n", rfc3339(time), level.word(), go::quote(message))
}

fn json_record(level: Level, message: &str, exit_code: Option<i32>, time: &Zoned) -> String {
    // serde_json's map is sorted by key, as logrus sorts its fields.
    let mut record = serde_json::Map::new();
    // Only failures with a code of their own have the field, as in the original.
    if let Some(code) = exit_code {
        record.insert("exit-code".to_owned(), code.into());
    }
    record.insert("level".to_owned(), level.word().into());
    record.insert("msg".to_owned(), message.into());
    record.insert("time".to_owned(), rfc3339(time).into());
    format!("{}\n", serde_json::Value::Object(record))
}

fn rfc3339(time: &Zoned) -> String {
    // Go's RFC 3339 has `Z` for UTC, not `+00:00`.
    if time.offset().is_zero() {
        return time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    }
    time.strftime("%Y-%m-%dT%H:%M:%S%:z").to_string()
}

/// Escapes control characters for a terminal: text from other programs must not move the cursor or change colours.
pub fn visible(text: &str) -> String {
    let spelled = |c: char| if is_hostile(c) { c.escape_default().to_string() } else { c.to_string() };
    text.chars().map(spelled).collect()
}

fn paint(color: bool, code: &str, text: &str) -> String {
    if color { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Captured;
    use rdd_stdx::clock::ManualClock;
    use std::time::Duration;

    fn at(offset_hours: i8) -> Zoned {
        Timestamp::from_second(1_700_000_000)
            .unwrap()
            .to_zoned(TimeZone::fixed(jiff::tz::Offset::from_hours(offset_hours).unwrap()))
    }

    fn recorder(look: Look, threshold: Level) -> (Recorder, Captured) {
        let captured = Captured::default();
        let clock = ManualClock::shared(Duration::from_secs(1_700_000_000));
        (Recorder::new(captured.stream(), clock, look, threshold), captured)
    }

    #[test]
    fn a_record_has_its_message_quoted_and_last() {
        for (level, message, offset, expected) in [
            (Level::Info, "done", 0, r#"time="2023-11-14T22:13:20Z" level=info msg="done""#),
            (Level::Warn, "a b", 1, r#"time="2023-11-14T23:13:20+01:00" level=warning msg="a b""#),
            (Level::Fatal, "x \"y\"\n", -5, r#"time="2023-11-14T17:13:20-05:00" level=fatal msg="x \"y\"\n""#),
        ] {
            assert_eq!(text_record(level, message, &at(offset)), format!("{expected}\n"));
        }
    }

    #[test]
    fn a_json_record_names_the_exit_code_only_when_there_is_one() {
        assert_eq!(
            json_record(Level::Info, "a \"b\"", None, &at(0)),
            "{\"level\":\"info\",\"msg\":\"a \\\"b\\\"\",\"time\":\"2023-11-14T22:13:20Z\"}\n"
        );
        assert_eq!(
            json_record(Level::Error, "old", Some(5), &at(0)),
            "{\"exit-code\":5,\"level\":\"error\",\"msg\":\"old\",\"time\":\"2023-11-14T22:13:20Z\"}\n"
        );
    }

    #[test]
    fn levels_are_read_in_any_case_and_refused_in_the_known_words() {
        for (text, level) in [
            ("panic", Level::Panic),
            ("FATAL", Level::Fatal),
            ("error", Level::Error),
            ("warn", Level::Warn),
            ("Warning", Level::Warn),
            ("info", Level::Info),
            ("debug", Level::Debug),
            ("trace", Level::Trace),
        ] {
            assert_eq!(Level::parse(text).unwrap(), level);
        }
        assert_eq!(Level::parse("invalid").unwrap_err().text(), "not a valid logrus Level: \"invalid\"");
    }

    #[test]
    fn the_flag_beats_the_variable_and_the_variable_beats_the_mode() {
        for (flag, variable, developer, expected) in [
            ("", None, false, (Level::Warn, false)),
            ("", None, true, (Level::Debug, false)),
            ("", Some("error"), true, (Level::Error, true)),
            ("trace", Some("error"), false, (Level::Trace, true)),
            ("info", Some("nonsense"), false, (Level::Info, true)),
        ] {
            assert_eq!(resolve_level(flag, variable, || developer).unwrap(), expected, "{flag} {variable:?}");
        }
        assert!(resolve_level("", Some("nonsense"), || false).is_err());
        assert_eq!([Level::Info, Level::Debug, Level::Trace].map(Level::verbosity), [0, 2, 4]);
    }

    #[test]
    fn colour_needs_a_capable_terminal_and_consent() {
        for (format, terminal, no_color, term, expected) in [
            (Format::Text, true, false, Some("xterm"), Look::Terminal { color: true, redraw: true }),
            (Format::Text, true, true, Some("xterm"), Look::Terminal { color: false, redraw: true }),
            (Format::Text, true, false, Some("dumb"), Look::Terminal { color: false, redraw: false }),
            (Format::Text, false, false, Some("xterm"), Look::Record(Format::Text)),
            (Format::Json, true, false, Some("xterm"), Look::Record(Format::Json)),
        ] {
            assert_eq!(Look::of(format, terminal, no_color, term), expected);
        }
    }

    #[test]
    fn failures_are_fatal_or_coded_and_hints_follow() {
        let (record, captured) = recorder(Look::Record(Format::Text), Level::Warn);
        record.info("not shown");
        record.failure(&Failure::message("no such thing").hint("make one"));
        record.failure(&Failure::deadline("wait"));
        let lines: Vec<String> = captured.text().lines().map(|line| line.replace("T23", "T22")).collect();
        assert!(lines[0].ends_with("level=fatal msg=\"no such thing\""), "{lines:?}");
        assert_eq!(lines[1], "hint: make one");
        assert!(lines[2].ends_with("level=error msg=\"wait: context deadline exceeded\""), "{lines:?}");
        assert_eq!(lines.len(), 3);
    }

    #[test]
    fn text_of_others_cannot_draw_on_a_terminal() {
        let (record, captured) = recorder(Look::Terminal { color: false, redraw: false }, Level::Info);
        record.warn("a\u{1b}[2Jb\n\tc");
        record.failure(&Failure::message("\u{7}x").hint("\ry"));
        assert_eq!(captured.text(), "Warning: a\\u{1b}[2Jb\n\tc\nError: \\u{7}x\nHint: \\ry\n");
    }

    #[test]
    fn people_get_plain_lines_with_a_mark_at_the_end() {
        let (record, captured) = recorder(Look::Terminal { color: false, redraw: false }, Level::Info);
        record.info("starting");
        record.success("ready");
        record.warn("slow");
        record.failure(&Failure::message("broken").hint("fix it"));
        assert_eq!(captured.text(), "starting\n✓ ready\nWarning: slow\nError: broken\nHint: fix it\n");
        let (record, captured) = recorder(Look::Terminal { color: true, redraw: true }, Level::Fatal);
        record.failure(&Failure::message("broken").hint("not wanted at this level"));
        assert_eq!(captured.text(), "\u{1b}[1;31mError:\u{1b}[0m broken\n");
    }
}
