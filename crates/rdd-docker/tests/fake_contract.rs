//! Runs the engine contract against the fake engine.
#![expect(clippy::unwrap_used, reason = "the helpers of tests fail a test by panicking")]

use std::path::PathBuf;

use bytes::Bytes;
use rdd_docker::{fake::FakeEngine, suite::Subject};

struct Fake {
    engine: FakeEngine,
    _folder: tempfile::TempDir,
}

impl Subject for Fake {
    fn socket(&self) -> PathBuf {
        self.engine.socket().to_owned()
    }

    fn archive(&self) -> Bytes {
        Bytes::from_static(b"not an archive")
    }
}

fn subject() -> Fake {
    let folder = tempfile::tempdir().unwrap();
    let engine = FakeEngine::start(&folder.path().join("docker.sock")).unwrap();
    Fake { engine, _folder: folder }
}

rdd_docker::contract!(subject);
