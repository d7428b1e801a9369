//! Kubeconfigs as a client reads them: several files merged by the rules of client-go, resolved into one connection.
//!
//! [`ConfigFiles`] says which files count, [`MergedConfig::load`] merges them (the first one to set a value wins), and
//! [`MergedConfig::resolve`] gives the [`ClusterConnection`] of a context and the flags of the command line.
//! [`ConfigFiles::apply`] writes single changes back, under kubectl's lock and with every other byte kept.

mod connection;
mod fields;
mod files;
mod merged;

pub use connection::{
    ClusterConnection, ConnectionOverrides, ConnectionTrust, Credentials, ExecPlugin, Impersonation, InteractiveMode,
    ResolveError,
};
pub use fields::{CLUSTER_FIELDS, CONTEXT_FIELDS, EXEC_FIELDS, USER_FIELDS};
pub use files::ConfigFiles;
pub use merged::{ConfigEntry, LoadError, MergedConfig};

#[cfg(test)]
mod tests;
