//! Edits the user's kubeconfig entry by entry, without changing any other byte and without corrupting concurrent
//! writes.
//!
//! [`edit()`] is a pure function: one change to one text. [`Merge`] finds the right file, locks it like kubectl and
//! replaces it atomically. [`judge`] decides whether the user's current context may be switched. [`Source`] reads the
//! kubeconfig that K3s writes, and [`OwnFile`] writes the kubeconfig of the instance alone. [`client_config`] reads
//! kubeconfigs as a client of any cluster does.

pub mod client_config;
pub mod edit;
mod entry;
mod file;
mod judge;
mod lock;
mod merge;
mod own;
mod probe;
mod select;
mod situation;
mod source;

pub use edit::{Change, List, Others, Refused, edit};
pub use entry::{Cluster, User};
pub use file::Error;
pub use judge::{Doubt, Keep, Seen, Switch, Verdict, judge};
pub use merge::{Merge, Outcome};
pub use own::OwnFile;
pub use probe::{Answer, NetworkProbe, Probe};
pub use situation::{Endpoint, Trust};
pub use source::{InvalidSource, Source};
