//! Runs the store contract against both stores.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests too")]

mod memory {
    use rdd_stdx::clock::SharedClock;
    use rdd_store::{Limits, MemoryStore, Store, suite::Subject};

    struct InMemory;

    impl Subject for InMemory {
        fn open(&self, limits: Limits, clock: SharedClock) -> Box<dyn Store> {
            Box::new(MemoryStore::new(limits, clock))
        }

        fn keeps(&self) -> bool {
            false
        }
    }

    rdd_store::contract!(InMemory);
}

mod sqlite {
    use rdd_stdx::clock::SharedClock;
    use rdd_store::{Limits, Store, sqlite, suite::Subject};
    use tempfile::TempDir;

    struct InFile(TempDir);

    impl Subject for InFile {
        fn open(&self, limits: Limits, clock: SharedClock) -> Box<dyn Store> {
            let options = sqlite::Options { clock, limits, ..sqlite::Options::default() };
            Box::new(sqlite::open(&self.0.path().join("state.db"), options).unwrap())
        }

        fn keeps(&self) -> bool {
            true
        }
    }

    rdd_store::contract!(InFile(tempfile::tempdir().unwrap()));
}
