//! Runs deep recursion on a thread with a large stack, so that callers can have small stacks.

use std::panic;
use std::thread;

/// Several times what the deepest expression of the grammar needs. Untouched pages cost no memory.
const STACK_BYTES: usize = 64 << 20;

/// Runs `work`, on a large stack if `is_deep`. Returns `None` if no thread can be started.
pub(crate) fn with_room<T: Send>(is_deep: bool, work: impl FnOnce() -> T + Send) -> Option<T> {
    if !is_deep {
        return Some(work());
    }
    thread::scope(|scope| {
        let started = thread::Builder::new().name("cel".into()).stack_size(STACK_BYTES).spawn_scoped(scope, work);
        match started.ok()?.join() {
            Ok(value) => Some(value),
            // A panic on the other thread continues on this one, as if `work` had run here.
            Err(cause) => panic::resume_unwind(cause),
        }
    })
}
