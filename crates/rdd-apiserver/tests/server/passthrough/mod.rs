//! `/passthrough/…` as its clients see it, in this process and over a unix socket.

mod answers;
mod conversations;
mod support;
