//! Reads kubeconfigs as a client does: merges several files by client-go's rules and resolves one connection.
//!
//! [`ConfigFiles`] lists the files, [`MergedConfig::load`] merges them (the first file with a value wins), and
//! [`MergedConfig::resolve`] returns the [`ClusterConnection`] of a context and of the command line's flags.
//! [`ConfigFiles::apply`] writes single changes back under kubectl's lock, without changing any other byte.

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
