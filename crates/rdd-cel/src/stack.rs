//! Room for recursion: deep expressions run on a stack of their own, so that callers can live on small ones.

use std::panic;
use std::thread;

/// What the deepest expression the grammar allows needs, several times over. Untouched pages cost nothing.
const STACK_BYTES: usize = 64 << 20;

/// Does the work, on a larger stack if it is deep. None where no thread can be had for it.
pub(crate) fn with_room<T: Send>(is_deep: bool, work: impl FnOnce() -> T + Send) -> Option<T> {
    if !is_deep {
        return Some(work());
    }
    thread::scope(|scope| {
        let started = thread::Builder::new().name("cel".into()).stack_size(STACK_BYTES).spawn_scoped(scope, work);
        match started.ok()?.join() {
            Ok(value) => Some(value),
            Err(cause) => panic::resume_unwind(cause),
        }
    })
}
