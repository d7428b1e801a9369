//! Runs the engine contract against a real dockerd, which proves that the fake behaves like a real engine.
#![cfg(target_os = "linux")]

mod room;

use std::path::PathBuf;

use bytes::Bytes;
use rdd_docker::suite::{self, Subject};

struct Real {
    engine: room::Dockerd,
    archive: Bytes,
}

impl Subject for Real {
    fn socket(&self) -> PathBuf {
        self.engine.socket().to_owned()
    }

    fn archive(&self) -> Bytes {
        self.archive.clone()
    }
}

#[test]
fn dockerd_keeps_the_contract() {
    if !room::enter("dockerd_keeps_the_contract") {
        return;
    }
    let engine = room::Dockerd::start();
    let archive = room::archive().into();
    suite::keep_all(&Real { engine, archive });
}
