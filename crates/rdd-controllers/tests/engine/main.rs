//! Tests of the engine's mirror over a real API in this process and a fake engine on a real socket.

mod actions;
mod findings_295;
mod hands;
mod kills;
mod mirror;
