//! What the standard library lacks: clock, locks, durable files, files with a trusted owner, log files, host names, the limit of open files, processes, socket owners, owned tasks and what they are about, error chains, growing delays.

pub mod backoff;
pub mod chain;
pub mod clock;
pub mod dns;
pub mod file;
pub mod lock;
pub mod logfile;
pub mod open_files;
pub mod owned;
pub mod pem;
pub mod process;
pub mod scope;
pub mod socket;
pub mod task;
