//! The host driver keeps the contract, with real engines: Docker over its own containerd.
#![cfg(target_os = "linux")]

mod room;

use room::HostSubject;

fn subject(test: &str) -> Option<HostSubject> {
    room::enter(test).then(HostSubject::moby)
}

rdd_driver::contract!(subject);
