//! Runs QEMU with emulation arguments, when Lima starts rdd in place of QEMU.

use std::{ffi::OsString, os::unix::process::CommandExt as _, path::Path, process::ExitCode};

use rdd_driver::lima;
use rdd_instance::Environment;
use rdd_stdx::process;

/// Whether the process was started under the name of the QEMU shim.
pub(crate) fn is_meant(argv: &[OsString]) -> bool {
    let name = argv.first().and_then(|program| Path::new(program).file_name());
    name.is_some_and(|name| name == lima::SHIM)
}

/// Replaces the process by QEMU. Returns only on failure.
pub(crate) fn run(argv: Vec<OsString>, environment: &Environment) -> ExitCode {
    let path = environment.path.clone().unwrap_or_default();
    let Some(qemu) = lima::find_qemu(&path) else {
        complain("QEMU is not on PATH");
        return ExitCode::FAILURE;
    };
    let error = process::foreground(&qemu).args(lima::emulated(argv.into_iter().skip(1))).exec();
    complain(&format!("{} cannot be started: {error}", qemu.display()));
    ExitCode::FAILURE
}

/// Writes an error to standard error, which Lima copies to its log.
fn complain(text: &str) {
    use std::io::Write as _;
    let _ = writeln!(std::io::stderr(), "{}: {text}", lima::SHIM);
}
