//! Tests of `/passthrough/…`, to endpoints in this process and behind a Unix socket.

mod answers;
mod conversations;
mod support;
