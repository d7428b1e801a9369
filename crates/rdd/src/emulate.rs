//! In place of QEMU, where Lima starts us under another name: the same machine, emulated.

use std::{ffi::OsString, os::unix::process::CommandExt as _, path::Path, process::ExitCode};

use rdd_driver::lima;
use rdd_instance::Environment;
use rdd_stdx::process;

/// Whether we were started as the program that stands in for QEMU.
pub(crate) fn is_meant(argv: &[OsString]) -> bool {
    let name = argv.first().and_then(|program| Path::new(program).file_name());
    name.is_some_and(|name| name == lima::SHIM)
}

/// Becomes QEMU. Returns only if it cannot.
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

/// Lima reads what QEMU writes here into its own log.
fn complain(text: &str) {
    use std::io::Write as _;
    let _ = writeln!(std::io::stderr(), "{}: {text}", lima::SHIM);
}
