//! The failure of a command: its chain of causes, hints and exit code.

use std::{error::Error, fmt, io};

use rdd_stdx::chain::Chain;

use crate::printer;

/// The exit codes of the program. Scripts rely on the numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitCode {
    /// The command succeeded, or there was nothing to do.
    Success,
    /// Any failure without a code of its own, usage errors included.
    Failure,
    /// The observed part is not ready (`rdd status`).
    NotReady,
    /// The API server rejected a change.
    Denied,
    /// A wait timed out.
    Timeout,
    /// The daemon has an incompatible version.
    IncompatibleServer,
    /// The user pressed Ctrl-C; the code that shells use for it.
    Interrupted,
    /// The exit code of a program that the command ran.
    Child(i32),
}

impl ExitCode {
    /// The number that the shell gets.
    pub const fn number(self) -> i32 {
        match self {
            Self::Success => 0,
            Self::Failure => 1,
            Self::NotReady => 2,
            Self::Denied => 3,
            Self::Timeout => 4,
            Self::IncompatibleServer => 5,
            Self::Interrupted => 130,
            Self::Child(code) => code,
        }
    }
}

/// Why a command failed, with the exit code and hints.
#[derive(Debug)]
pub struct Failure {
    error: Box<dyn Error + Send + Sync>,
    code: ExitCode,
    hints: Vec<String>,
}

/// The result of a command or a part of it.
pub type Outcome<T = ()> = Result<T, Failure>;

impl Failure {
    /// A failure with this text and no further cause.
    pub fn message(text: impl Into<String>) -> Self {
        Self::of(Box::new(Words(text.into())))
    }

    /// A failure of an attempt: what was attempted, and the error.
    pub fn caused(text: impl Into<String>, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::of(Box::new(Attempt { text: text.into(), source: source.into() }))
    }

    /// A failure from a boxed error, such as one of `anyhow`.
    pub fn of(error: Box<dyn Error + Send + Sync>) -> Self {
        Self { error, code: ExitCode::Failure, hints: Vec::new() }
    }

    /// A wait that timed out. The text contains `context deadline exceeded`, which scripts search for.
    pub fn deadline(what: impl fmt::Display) -> Self {
        Self::message(format!("{what}: context deadline exceeded")).code(ExitCode::Timeout)
    }

    /// A failure that has been reported already, or is reported by another program: only the exit code counts.
    pub fn silent(code: ExitCode) -> Self {
        Self::message("").code(code)
    }

    /// Sets the exit code.
    #[must_use]
    pub fn code(mut self, code: ExitCode) -> Self {
        self.code = code;
        self
    }

    /// Adds a hint on how to proceed. Hints keep their order.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// The exit code of the program.
    pub fn exit_code(&self) -> ExitCode {
        self.code
    }

    /// The error and its causes on one line.
    pub fn text(&self) -> String {
        Chain(self.error.as_ref()).to_string()
    }

    /// The hints that were added, or else a general one for the operating system's error.
    pub fn hints(&self) -> Vec<String> {
        // A specific hint is better than a general one.
        if self.hints.is_empty() {
            return io_kind(self.error.as_ref()).and_then(hint_for).map(str::to_owned).into_iter().collect();
        }
        self.hints.clone()
    }

    /// Whether the reader of standard output closed the pipe, which is not a failure. Any other broken pipe is one.
    pub fn is_broken_pipe(&self) -> bool {
        self.error.downcast_ref::<printer::Error>().is_some_and(printer::Error::is_broken_pipe)
    }
}

impl<E: Error + Send + Sync + 'static> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::of(Box::new(error))
    }
}

#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Words(String);

#[derive(Debug, thiserror::Error)]
#[error("{text}")]
struct Attempt {
    text: String,
    #[source]
    source: Box<dyn Error + Send + Sync>,
}

/// The first operating-system error in the chain of causes.
fn io_kind(error: &(dyn Error + 'static)) -> Option<io::ErrorKind> {
    // The operating system's error may be at any depth of the chain.
    let mut next = Some(error);
    while let Some(link) = next {
        if let Some(io) = link.downcast_ref::<io::Error>() {
            return Some(io.kind());
        }
        next = link.source();
    }
    None
}

fn hint_for(kind: io::ErrorKind) -> Option<&'static str> {
    Some(match kind {
        io::ErrorKind::PermissionDenied => "check who owns that path and that you may write there (ls -ld PATH)",
        io::ErrorKind::ReadOnlyFilesystem => {
            "that file system is read-only: set HOME (or RDD_LOG_DIR for logs) to a place that can be written"
        }
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "the disk is full: free some space and try again",
        io::ErrorKind::NotADirectory => "a part of that path is a file where a folder is needed: move it away",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chain_is_told_once_and_ends_with_the_cause() {
        let failure = Failure::caused("start the daemon", io::Error::other("no luck"));
        assert_eq!((failure.text().as_str(), failure.exit_code()), ("start the daemon: no luck", ExitCode::Failure));
    }

    #[test]
    fn refusals_of_the_operating_system_come_with_a_way_out() {
        for (kind, words) in [
            (io::ErrorKind::PermissionDenied, "who owns"),
            (io::ErrorKind::ReadOnlyFilesystem, "read-only"),
            (io::ErrorKind::StorageFull, "free some space"),
            (io::ErrorKind::NotADirectory, "is a file"),
        ] {
            let failure = Failure::caused("write args", io::Error::from(kind));
            assert!(failure.hints()[0].contains(words), "{:?}", failure.hints());
        }
        assert!(Failure::message("x").hints().is_empty());
        assert_eq!(Failure::from(io::Error::from(io::ErrorKind::StorageFull)).hint("own").hints(), ["own"]);
    }

    #[test]
    fn a_deadline_has_its_words_and_its_code() {
        let failure = Failure::deadline("wait for the daemon");
        assert_eq!(failure.text(), "wait for the daemon: context deadline exceeded");
        assert_eq!(failure.exit_code().number(), 4);
    }

    #[test]
    fn only_a_reader_that_went_away_is_no_failure() {
        let broken = || io::Error::from(io::ErrorKind::BrokenPipe);
        assert!(Failure::from(printer::Error::from(broken())).is_broken_pipe());
        assert!(!Failure::from(broken()).is_broken_pipe(), "a download that breaks off is one");
        assert!(!Failure::from(printer::Error::from(io::Error::other("x"))).is_broken_pipe());
    }

    #[test]
    fn the_numbers_are_those_that_scripts_know() {
        use ExitCode::*;
        let codes = [Success, Failure, NotReady, Denied, Timeout, IncompatibleServer, Interrupted, Child(7)];
        assert_eq!(codes.map(ExitCode::number), [0, 1, 2, 3, 4, 5, 130, 7]);
    }
}
