//! Decides whether the user's current context may be replaced by ours: only if it certainly does not work.

use std::fmt;

/// The result of examining the current context.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Seen {
    /// A file could not be read or parsed.
    Unreadable(String),
    /// Our context is in no file, so there is nothing to switch to.
    NotPublished,
    /// There is no current context.
    Nothing,
    /// Our context is current.
    Ours,
    /// The current context is in no file.
    ContextMissing,
    /// The context's cluster is in no file.
    ClusterMissing,
    /// The context's user is in no file.
    UserMissing,
    /// The user's credentials come from an exec plugin or an auth provider, which the probe does not run.
    NeedsProgram,
    /// The probe cannot use the entry: an unreadable file, a proxy, an invalid URL.
    Unusable(String),
    /// The server's address refuses connections.
    Refused {
        /// Whether the address is one of this machine.
        is_loopback: bool,
    },
    /// The server did not answer in time.
    TimedOut,
    /// The TLS handshake failed: either side did not accept the other's certificate.
    TlsFailed(String),
    /// A network error prevented the connection.
    Unreachable(String),
    /// The server answered with this status code.
    Answered(u16),
}

/// The decision about the current context.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Keep it.
    Keep(Keep),
    /// Make our context current.
    Switch(Switch),
}

/// Why the current context is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Keep {
    /// It is ours.
    Ours,
    /// It works.
    Answers,
    /// There is nothing to switch to.
    NotPublished,
    /// It may work.
    Doubt(Doubt),
}

/// Why the current context may work; displays as text for the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Doubt(Seen);

/// Why the current context is replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Switch {
    /// There was no current context.
    Nothing,
    /// It named a context that does not exist.
    Missing,
    /// Its server was on this machine, where nothing listens at the address.
    NothingListens,
}

/// Decides from what was seen. Finding 361-T2: any doubt keeps the current context.
pub fn judge(seen: &Seen) -> Verdict {
    match seen {
        Seen::Nothing => Verdict::Switch(Switch::Nothing),
        Seen::ContextMissing => Verdict::Switch(Switch::Missing),
        Seen::Refused { is_loopback: true } => Verdict::Switch(Switch::NothingListens),
        Seen::Ours => Verdict::Keep(Keep::Ours),
        Seen::Answered(200) => Verdict::Keep(Keep::Answers),
        Seen::NotPublished => Verdict::Keep(Keep::NotPublished),
        // A refusal by another machine may be due to a network that is not connected now. A server that gives any
        // answer exists.
        Seen::Refused { is_loopback: false }
        | Seen::Unreadable(_)
        | Seen::ClusterMissing
        | Seen::UserMissing
        | Seen::NeedsProgram
        | Seen::Unusable(_)
        | Seen::TimedOut
        | Seen::TlsFailed(_)
        | Seen::Unreachable(_)
        | Seen::Answered(_) => Verdict::Keep(Keep::Doubt(Doubt(seen.clone()))),
    }
}

impl fmt::Display for Doubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Seen::Unreadable(why) => write!(f, "a kubeconfig cannot be read: {why}"),
            Seen::ClusterMissing => f.write_str("its cluster is not there"),
            Seen::UserMissing => f.write_str("its user is not there"),
            Seen::NeedsProgram => f.write_str("its user is known by a program that was not run"),
            Seen::Unusable(why) => write!(f, "it cannot be tried from here: {why}"),
            Seen::TimedOut => f.write_str("its server did not answer in time"),
            Seen::TlsFailed(why) => write!(f, "no TLS connection to its server: {why}"),
            Seen::Unreachable(why) => write!(f, "its server cannot be reached: {why}"),
            Seen::Refused { .. } => f.write_str("its server, on another machine, refuses connections"),
            Seen::Answered(status) => write!(f, "its server answers with status {status}"),
            Seen::NotPublished | Seen::Nothing | Seen::Ours | Seen::ContextMissing => f.write_str("there is no doubt"),
        }
    }
}

impl fmt::Display for Switch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nothing => "none was current",
            Self::Missing => "the one that was named is not there",
            Self::NothingListens => "nothing listens where its server was on this machine",
        })
    }
}
