//! The binary: wiring only.

mod binlinks;
mod build;
mod datastore;
mod logging;
mod notify;
mod serve;

use std::process::ExitCode;

use mimalloc::MiMalloc;
use rdd_instance::Environment;

/// A request makes some hundred small pieces and frees them, often on another thread than the one that made them.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    let code = rdd_cli::run(std::env::args_os().collect(), Environment::of_process(), &build::INFO, &serve::serve);
    ExitCode::from(u8::try_from(code).unwrap_or(1))
}
