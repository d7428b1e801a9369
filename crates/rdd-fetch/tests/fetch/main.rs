//! Downloads from servers that break, lie and change their mind: the file under its final name is right or absent.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

mod faults;
mod random;
mod server;
mod tls;
mod ways;
