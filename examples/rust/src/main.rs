//! greeter: a controller in Rust, in a process of its own beside the daemon.
//!
//! ```sh
//! cargo run -p greeter -- "$(rdd svc paths config)"
//! ```

mod greeting;

use anyhow::Context as _;
use rdd_runtime::{Registered, manager::Beside};
use tokio::signal::unix::{SignalKind, signal};

use crate::greeting::Greeter;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let kubeconfig = std::env::args_os().nth(1).context("usage: greeter KUBECONFIG")?;
    let mut terminate = signal(SignalKind::terminate())?;
    let end = async {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = tokio::signal::ctrl_c() => {}
        }
    };
    Beside::new("greeter", kubeconfig).run(|_| vec![Registered::new(Greeter)], end).await;
    Ok(())
}
