//! Scenarios against the real binary. They live in `tests/`; this library is empty on purpose.
