//! Tests of definitions and custom resources without a server.

mod definition;
mod kind;
mod life;
mod support;
mod versions;
