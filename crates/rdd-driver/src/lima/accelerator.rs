//! Detects whether VMs run with hardware acceleration, by a trial: an existing `/dev/kvm` may not work. Rewrites QEMU's
//! arguments where it does not.

use std::{
    ffi::{OsStr, OsString},
    io::Write as _,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use rdd_stdx::{
    file, owned,
    process::{self, Process, Signal},
};

use super::limactl::is_program;
use crate::Error;

/// How VMs run on this host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Accelerator {
    /// With hardware acceleration.
    Kvm,
    /// In software, which is slow.
    Emulation {
        /// Why there is no acceleration, for people.
        why: String,
    },
}

const KVM: &str = "/dev/kvm";
/// The timeout of the trial.
const TRIAL_TAKES: Duration = Duration::from_secs(10);
/// The QMP commands of the trial: query the status of an empty VM and quit.
const TRIAL: &[u8] = b"{\"execute\":\"qmp_capabilities\"}\n{\"execute\":\"query-status\"}\n{\"execute\":\"quit\"}\n";

/// The name of QEMU for this host's architecture.
fn qemu_name() -> String {
    format!("qemu-system-{}", std::env::consts::ARCH)
}

/// The variable that selects the QEMU for Lima.
pub(super) fn qemu_variable() -> String {
    format!("QEMU_SYSTEM_{}", std::env::consts::ARCH.to_ascii_uppercase())
}

/// The first program with this name in these folders.
pub(super) fn find_in(path: &OsStr, name: &str) -> Option<PathBuf> {
    let folders = std::env::split_paths(path).filter(|folder| folder.is_absolute());
    folders.map(|folder| folder.join(name)).find(|program| is_program(program))
}

/// The first QEMU on this `PATH`.
pub fn find_qemu(path: &OsStr) -> Option<PathBuf> {
    find_in(path, &qemu_name())
}

/// Tries out the acceleration with this QEMU.
pub(super) fn try_out(qemu: &Path) -> Accelerator {
    use rustix::fs::{Access, access};
    let emulation = |why: String| Accelerator::Emulation { why };
    if !Path::new(KVM).exists() {
        return emulation(format!("this machine has no {KVM}"));
    }
    if access(KVM, Access::READ_OK | Access::WRITE_OK).is_err() {
        return emulation(format!("this user may not use {KVM}; its group is often called kvm"));
    }
    match trial(qemu) {
        Ok(()) => Accelerator::Kvm,
        Err(why) => emulation(format!("{KVM} does not work here: {why}")),
    }
}

fn trial(qemu: &Path) -> Result<(), String> {
    let said = |error: std::io::Error| error.to_string();
    // No disks and no devices: QEMU only has to create the VM and execute the commands.
    let mut command = process::background(qemu, Path::new("/"));
    command.args([
        "-nodefaults",
        "-no-user-config",
        "-display",
        "none",
        "-accel",
        "kvm",
        "-cpu",
        "host",
        "-qmp",
        "stdio",
    ]);
    command.args(["-machine", if cfg!(target_arch = "aarch64") { "virt" } else { "q35" }]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(said)?;
    if let Some(mut stdin) = child.stdin.take() {
        // A QEMU that has ended already reports the reason itself.
        let _ = stdin.write_all(TRIAL);
    }
    let process = Process::open(child.id()).map_err(said)?;
    let in_time = process.as_ref().is_none_or(|process| process.wait(TRIAL_TAKES).unwrap_or(false));
    if let Some(process) = process.filter(|_| !in_time) {
        let _ = process.signal(Signal::KILL);
    }
    let output = child.wait_with_output().map_err(said)?;
    if !in_time {
        return Err(format!("an empty machine did not end within {TRIAL_TAKES:?}"));
    }
    let answer = String::from_utf8_lossy(&output.stdout);
    if output.status.success() && !answer.contains("internal-error") {
        return Ok(());
    }
    let complaint = String::from_utf8_lossy(&output.stderr);
    let line = complaint.lines().next().map(str::trim).filter(|line| !line.is_empty());
    Err(line.map_or_else(|| output.status.to_string(), super::words::fit))
}

/// The name of the link to rdd that replaces QEMU.
pub const SHIM: &str = "rdd-qemu-emulated";

/// Links rdd under the name [`SHIM`], and returns the value of the variable that makes Lima start it as QEMU.
pub(super) fn install_shim(program: &Path, folder: &Path) -> Result<OsString, Error> {
    file::create_dir_private(folder)?;
    let link = folder.join(SHIM);
    // Another build of rdd may have left the link.
    if std::fs::read_link(&link).ok().as_deref() != Some(program) {
        owned::replace_with_link(&link, program).map_err(Error::at("link", &link))?;
    }
    Ok(quoted(link.as_os_str()))
}

/// Quotes a path for Lima, which splits the value like a shell.
fn quoted(path: &OsStr) -> OsString {
    use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
    let mut value = b"'".to_vec();
    for byte in path.as_bytes() {
        match byte {
            b'\'' => value.extend_from_slice(b"'\\''"),
            other => value.push(*other),
        }
    }
    value.push(b'\'');
    OsString::from_vec(value)
}

/// Rewrites QEMU's arguments to use emulation instead of an accelerator.
///
/// Lima passes `-machine q35,accel=kvm` and `-cpu host`. The emulation options are those that Lima uses for a guest
/// with another architecture than the host.
pub fn emulated(arguments: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    const EMULATION: &str = "tcg,thread=multi,tb-size=512";
    let mut rewritten = Vec::new();
    let mut arguments = arguments.into_iter();
    while let Some(argument) = arguments.next() {
        let option = argument.to_string_lossy().into_owned();
        rewritten.push(argument);
        if !matches!(option.as_str(), "-machine" | "-M" | "--machine" | "-accel" | "--accel" | "-cpu" | "--cpu") {
            continue;
        }
        // The option is the last argument, without a value: pass it on unchanged.
        let Some(value) = arguments.next() else { break };
        let text = value.to_string_lossy();
        let mut parts: Vec<&str> = text.split(',').collect();
        match option.trim_start_matches('-') {
            "cpu" if parts[0] == "host" => {
                // `host` requires KVM; `max` has all features that the emulation supports.
                parts[0] = "max";
                rewritten.push(parts.join(",").into());
            }
            "accel" if parts[0] == "kvm" => rewritten.push(EMULATION.into()),
            "machine" | "M" if parts.contains(&"accel=kvm") => {
                // The interrupt controller of the kernel exists only with KVM.
                parts.retain(|part| *part != "accel=kvm" && !part.starts_with("kernel-irqchip="));
                rewritten.push(parts.join(",").into());
                rewritten.extend(["-accel", EMULATION].map(OsString::from));
            }
            _ => rewritten.push(value),
        }
    }
    rewritten
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn emulation_takes_the_place_of_the_accelerator_and_all_else_stays() {
        let check = |line: &str, expected: &str| {
            let rewritten = emulated(line.split(' ').map(OsString::from));
            let words: Vec<_> = rewritten.iter().map(|word| word.to_string_lossy()).collect();
            assert_eq!(words.join(" "), expected);
        };
        check(
            "-m 4096 -cpu host,-pdpe1gb -machine q35,accel=kvm -smp 2,sockets=1 -name lima-rd",
            "-m 4096 -cpu max,-pdpe1gb -machine q35 -accel tcg,thread=multi,tb-size=512 -smp 2,sockets=1 -name lima-rd",
        );
        check("-machine q35,accel=kvm,kernel-irqchip=off", "-machine q35 -accel tcg,thread=multi,tb-size=512");
        check("-M none -accel help", "-M none -accel help");
        check("-accel kvm", "-accel tcg,thread=multi,tb-size=512");
        check("-cpu help -machine q35", "-cpu help -machine q35");
        check("-cpu qemu64 -drive file=accel=kvm", "-cpu qemu64 -drive file=accel=kvm");
        check("-cpu", "-cpu");
    }

    #[test]
    fn a_link_to_us_stands_in_for_qemu_and_follows_when_we_move() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("it's here");
        let value = install_shim(Path::new("/bin/true"), &place).unwrap();
        assert_eq!(value.to_string_lossy(), format!("'{}/it'\\''s here/{SHIM}'", folder.path().display()));
        install_shim(Path::new("/bin/false"), &place).unwrap();
        install_shim(Path::new("/bin/false"), &place).unwrap();
        assert_eq!(std::fs::read_link(place.join(SHIM)).unwrap(), Path::new("/bin/false"));
        assert_eq!(std::fs::read_dir(&place).unwrap().count(), 1);
    }

    // Finding A-1
    #[test]
    fn what_is_planted_beside_the_link_is_neither_replaced_nor_in_the_way() {
        let folder = tempfile::tempdir().unwrap();
        let planted = folder.path().join(format!("{SHIM}.{}", std::process::id()));
        let left = folder.path().join(format!(".{SHIM}.0123456789abcdef.tmp"));
        std::fs::create_dir(&planted).unwrap();
        std::os::unix::fs::symlink("/bin/false", &left).unwrap();
        install_shim(Path::new("/bin/true"), folder.path()).unwrap();
        assert_eq!(std::fs::read_link(folder.path().join(SHIM)).unwrap(), Path::new("/bin/true"));
        assert_eq!((planted.is_dir(), left.symlink_metadata().is_ok()), (true, false));
    }

    #[test]
    fn a_qemu_that_fails_is_an_answer() {
        assert!(trial(Path::new("/bin/false")).unwrap_err().contains("exit status: 1"));
        assert!(trial(Path::new("/nonexistent")).is_err());
        assert_eq!(trial(Path::new("/bin/true")), Ok(()));
    }
}
