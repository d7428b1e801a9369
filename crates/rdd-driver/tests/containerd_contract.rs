//! The host driver keeps the contract, with real engines: containerd alone.
#![cfg(target_os = "linux")]

mod room;

use room::HostSubject;

fn subject(test: &str) -> Option<HostSubject> {
    room::enter(test).then(HostSubject::containerd)
}

rdd_driver::contract!(subject);
