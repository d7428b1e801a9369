//! Additions to the standard library: clocks, locks, atomic and trusted files, log files, DNS, processes, tasks and
//! backoff.

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
