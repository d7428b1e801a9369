//! Whether the user's current context may be replaced by ours: only where it is certainly of no use.

use std::fmt;

/// What was found out about the current context.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Seen {
    /// A file could not be read or understood.
    Unreadable(String),
    /// Our own context is not there, so nothing could be switched to.
    NotPublished,
    /// No context is current.
    Nothing,
    /// Ours is.
    Ours,
    /// There is none of the name.
    ContextMissing,
    /// The context refers to a cluster that is not there.
    ClusterMissing,
    /// The context refers to a user that is not there.
    UserMissing,
    /// The user is known by a program or a plugin that would have to be run.
    NeedsProgram,
    /// Something that it says cannot be used from here: a file that cannot be read, a proxy, an odd URL.
    Unusable(String),
    /// Nothing listens at its address.
    Refused {
        /// Whether that is an address of this machine.
        is_loopback: bool,
    },
    /// It did not answer in time.
    TimedOut,
    /// It is not whom we should trust, or does not trust us.
    TlsFailed(String),
    /// The network did not let us through.
    Unreachable(String),
    /// It answered with this status.
    Answered(u16),
}

/// What to do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It stays.
    Keep(Keep),
    /// Ours becomes current.
    Switch(Switch),
}

/// Why it stays.
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

/// Why one cannot be sure, as a sentence for the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Doubt(Seen);

/// Why it goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Switch {
    /// None was current.
    Nothing,
    /// It named a context that is not there.
    Missing,
    /// Nothing listens where its cluster was on this machine.
    NothingListens,
}

/// Finding 361-T2: any doubt keeps it.
pub fn judge(seen: &Seen) -> Verdict {
    match seen {
        Seen::Nothing => Verdict::Switch(Switch::Nothing),
        Seen::ContextMissing => Verdict::Switch(Switch::Missing),
        Seen::Refused { is_loopback: true } => Verdict::Switch(Switch::NothingListens),
        Seen::Ours => Verdict::Keep(Keep::Ours),
        Seen::Answered(200) => Verdict::Keep(Keep::Answers),
        Seen::NotPublished => Verdict::Keep(Keep::NotPublished),
        // Elsewhere a refusal may come from a network that one is not connected to; and who answers anything at all is there.
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
