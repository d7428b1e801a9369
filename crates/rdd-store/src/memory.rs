//! A store without files, for tests and for servers that need no persistence: the same writer over a map.

use std::{collections::BTreeMap, ops::ControlFlow, path::Path};

use rdd_stdx::clock::SharedClock;

use crate::{
    Error, Limits, Revision,
    engine::{
        Core, Handle, Shared, delegate_store,
        index::Index,
        row::{Between, Failure, Log, Row, RowId, State, Write},
    },
    error::Cause,
};

/// A store in memory, lost when it is dropped. It passes the same contract tests as [`sqlite`](crate::sqlite), but makes no
/// backups.
#[derive(Debug)]
pub struct MemoryStore(Handle);

impl MemoryStore {
    /// Creates an empty store.
    ///
    /// # Panics
    /// If the machine cannot start a thread.
    pub fn new(limits: Limits, clock: SharedClock) -> Self {
        let index = Index::new(State::default());
        let shared = Shared::new(&limits, &index);
        let core = Core::new(limits, clock, index, std::sync::Arc::clone(&shared));
        let started = Handle::start(shared, || 0, move || core.run(&mut Rows::default()));
        Self(started.expect("a thread can be started"))
    }
}

delegate_store!(MemoryStore);

/// A log in a map, which never fails.
#[derive(Debug, Default)]
pub(crate) struct Rows(BTreeMap<RowId, Row>);

impl Log for Rows {
    fn write(&mut self, write: &Write<'_>) -> Result<(), Failure> {
        for id in write.remove {
            self.0.remove(id);
        }
        self.0.extend(write.rows.iter().map(|row| (row.id, row.clone())));
        Ok(())
    }

    fn read(&mut self, after: RowId, upto: RowId, visit: &mut dyn FnMut(Row) -> ControlFlow<()>) -> Result<(), Cause> {
        // `range` panics on an inverted range.
        if after >= upto {
            return Ok(());
        }
        for row in self.0.range(RowId(after.0 + 1)..=upto).map(|(_, row)| row) {
            if visit(row.clone()).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn tidy(&mut self) -> Result<bool, Failure> {
        Ok(false)
    }

    fn copy(&mut self, _: &Path, _: &mut Between<'_, Self>) -> Result<Revision, Error> {
        Err(Error::Unsupported { what: "make a backup" })
    }

    fn seal(&mut self) {}

    fn finish(&mut self) -> Result<(), Failure> {
        Ok(())
    }
}
