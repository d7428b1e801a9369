//! Turns Ctrl-C and SIGTERM into a flag, so that an interrupted run still writes support bundles and leaves no process.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use anyhow::{Context, Result};
use tokio::signal::unix::{SignalKind, signal};

/// A flag that is set once the run should end.
#[derive(Debug, Clone, Default)]
pub(super) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    pub(super) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Handles SIGINT and SIGTERM for the rest of this process.
pub(super) fn watch() -> Result<Interrupt> {
    let interrupt = Interrupt::default();
    let flag = interrupt.clone();
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_io().build().context("start the signal watch")?;
    let (mut interrupts, mut terminations) = {
        let _guard = runtime.enter();
        let listen = |kind| signal(kind).context("listen for signals");
        (listen(SignalKind::interrupt())?, listen(SignalKind::terminate())?)
    };
    std::thread::spawn(move || {
        runtime.block_on(async {
            let either = std::future::poll_fn(|context| {
                if interrupts.poll_recv(context).is_ready() {
                    std::task::Poll::Ready(())
                } else {
                    terminations.poll_recv(context).map(drop)
                }
            });
            either.await;
            flag.0.store(true, Ordering::Relaxed);
            // Keeps the listeners: dropping them would not restore the default action anyway.
            std::future::pending::<()>().await;
        });
    });
    Ok(interrupt)
}
