//! Ctrl-C, seen instead of suffered: a command that is interrupted says what goes on without it.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// The wish to end, by Ctrl-C or by a polite signal.
#[derive(Debug)]
pub struct Interrupt {
    keyboard: Signal,
    polite: Signal,
}

impl Interrupt {
    /// Listens from now on, for as long as this process lives. To be called within a runtime.
    pub fn listen() -> io::Result<Self> {
        Ok(Self { keyboard: signal(SignalKind::interrupt())?, polite: signal(SignalKind::terminate())? })
    }

    /// Returns when it came, also if that was before the call.
    pub async fn came(&mut self) {
        tokio::select! {
            _ = self.keyboard.recv() => {}
            _ = self.polite.recv() => {}
        }
    }
}
