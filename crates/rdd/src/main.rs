//! The entry point of the `rdd` binary, which only wires the crates together.

mod binlinks;
mod build;
mod controllers;
mod datastore;
mod embedded;
#[cfg(target_os = "linux")]
mod emulate;
mod external;
mod logging;
mod machines;
mod notify;
mod passthrough;
mod serve;

use std::process::ExitCode;

use mimalloc::MiMalloc;
use rdd_cli::Product;
use rdd_instance::Environment;

/// A request allocates some hundred small blocks, and often another thread frees them; mimalloc handles this well.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

const PRODUCT: Product<'static> = Product { serve: &serve::serve, remove_machines: &machines::remove_all };

fn main() -> ExitCode {
    let (argv, environment): (Vec<_>, _) = (std::env::args_os().collect(), Environment::of_process());
    #[cfg(target_os = "linux")]
    if emulate::is_meant(&argv) {
        return emulate::run(argv, &environment);
    }
    let code = rdd_cli::external::run(&argv, &environment, &external::run);
    let code = code.unwrap_or_else(|| rdd_cli::run(argv, environment, &build::INFO, PRODUCT));
    ExitCode::from(u8::try_from(code).unwrap_or(1))
}
