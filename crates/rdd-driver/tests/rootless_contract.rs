//! The host driver keeps the contract, with real engines: Docker without root.
#![cfg(target_os = "linux")]

mod room;

use room::HostSubject;

fn subject(test: &str) -> Option<HostSubject> {
    room::enter_without_root(test).then(HostSubject::rootless)
}

rdd_driver::contract!(subject);
