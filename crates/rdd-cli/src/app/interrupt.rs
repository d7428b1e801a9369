//! Handles Ctrl-C and SIGTERM, so that an interrupted command can report what continues in the background.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// A listener for SIGINT (Ctrl-C) and SIGTERM.
#[derive(Debug)]
pub struct Interrupt {
    keyboard: Signal,
    polite: Signal,
}

impl Interrupt {
    /// Installs the handlers for the rest of the process. Must be called within a tokio runtime.
    pub fn listen() -> io::Result<Self> {
        Ok(Self { keyboard: signal(SignalKind::interrupt())?, polite: signal(SignalKind::terminate())? })
    }

    /// Waits for a signal. A signal that arrived before the call counts.
    pub async fn came(&mut self) {
        tokio::select! {
            _ = self.keyboard.recv() => {}
            _ = self.polite.recv() => {}
        }
    }
}
