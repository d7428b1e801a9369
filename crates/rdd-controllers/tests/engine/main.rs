//! The engine's mirror at work, over a real API in the same process and a fake engine on a real socket.

mod actions;
mod findings_295;
mod hands;
mod kills;
mod mirror;
