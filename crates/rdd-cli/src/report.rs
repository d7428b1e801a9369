//! What a failed command tells its user: the chain of causes once, then hints, then the exit code.

use std::{error::Error, fmt, io};

use rdd_stdx::chain::Chain;

use crate::printer;

/// How the program ends. Scripts rely on the numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitCode {
    /// Done, or nothing to do.
    Success,
    /// Everything that has no code of its own, wrong usage included.
    Failure,
    /// What was asked about is not ready.
    NotReady,
    /// The API server refused a change.
    Denied,
    /// A wait ended at its bound.
    Timeout,
    /// The daemon is of another version than this program.
    IncompatibleServer,
    /// Somebody did not want to wait: as a shell counts a program that Ctrl-C ended.
    Interrupted,
    /// As the program ended that was run.
    Child(i32),
}

impl ExitCode {
    /// The number that the shell sees.
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

/// Why a command ends without having done its work.
#[derive(Debug)]
pub struct Failure {
    error: Box<dyn Error + Send + Sync>,
    code: ExitCode,
    hints: Vec<String>,
}

/// What a command gives back.
pub type Outcome<T = ()> = Result<T, Failure>;

impl Failure {
    /// A failure that has no cause but its own words.
    pub fn message(text: impl Into<String>) -> Self {
        Self::of(Box::new(Words(text.into())))
    }

    /// A failure that wraps another one: what was attempted, then why it did not work.
    pub fn caused(text: impl Into<String>, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::of(Box::new(Attempt { text: text.into(), source: source.into() }))
    }

    /// A failure from a part that reports with `anyhow`.
    pub fn of(error: Box<dyn Error + Send + Sync>) -> Self {
        Self { error, code: ExitCode::Failure, hints: Vec::new() }
    }

    /// A wait that ended at its bound; the text always has the words scripts look for.
    pub fn deadline(what: impl fmt::Display) -> Self {
        Self::message(format!("{what}: context deadline exceeded")).code(ExitCode::Timeout)
    }

    /// An end that has been told already, or that is not ours to tell: nothing but a code.
    pub fn silent(code: ExitCode) -> Self {
        Self::message("").code(code)
    }

    /// With this exit code.
    #[must_use]
    pub fn code(mut self, code: ExitCode) -> Self {
        self.code = code;
        self
    }

    /// With a way out for the user. Hints keep their order.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// How the program ends.
    pub fn exit_code(&self) -> ExitCode {
        self.code
    }

    /// The whole chain on one line.
    pub fn text(&self) -> String {
        Chain(self.error.as_ref()).to_string()
    }

    /// Ways out: those given, or else what the operating system's refusal suggests.
    pub fn hints(&self) -> Vec<String> {
        if self.hints.is_empty() {
            return io_kind(self.error.as_ref()).and_then(hint_for).map(str::to_owned).into_iter().collect();
        }
        self.hints.clone()
    }

    /// Whether the reader of our output went away: nobody is left to tell. Other broken pipes are failures.
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

/// The first refusal of the operating system in the chain.
fn io_kind(error: &(dyn Error + 'static)) -> Option<io::ErrorKind> {
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
