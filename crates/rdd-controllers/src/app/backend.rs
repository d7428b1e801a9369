//! What `backend: auto` means on this machine.

use std::path::{Path, PathBuf};

use rdd_driver::Drivers;
use rdd_instance::Platform;
use rdd_types::app::Backend;

/// What the choice depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Facts {
    /// Whether this daemon can drive Lima at all.
    pub has_driver: bool,
    /// Whether there is a `limactl`.
    pub has_limactl: bool,
    /// Whether virtual machines run at full speed here.
    pub has_accelerator: bool,
    /// Whether the user is root, whom limactl refuses.
    pub is_root: bool,
}

/// What Lima runs on this platform.
pub fn lima_vm_type(platform: Platform) -> &'static str {
    match platform {
        Platform::Linux => "qemu",
        Platform::MacOs => "vz",
        Platform::Windows => "wsl2",
    }
}

/// The backends that these drivers can carry out.
pub fn available(drivers: &Drivers, platform: Platform) -> Vec<Backend> {
    let known = [(Backend::Lima, lima_vm_type(platform)), (Backend::Host, "host")];
    known.into_iter().filter(|(_, vm_type)| drivers.of_type(vm_type).is_some()).map(|(backend, _)| backend).collect()
}

/// A virtual machine where one runs well, else this machine itself.
pub fn choose(facts: Facts) -> Backend {
    let lima = facts.has_driver && facts.has_limactl && facts.has_accelerator && !facts.is_root;
    if lima { Backend::Lima } else { Backend::Host }
}

/// Where a `limactl` may be.
#[derive(Debug, Clone, Default)]
pub struct Places {
    /// `RDD_LIMACTL`: nothing else counts when it is set.
    pub chosen: Option<PathBuf>,
    /// `PATH`
    pub path: Vec<PathBuf>,
    /// The instance's own bin folder.
    pub bin_dir: PathBuf,
}

/// The `limactl` to use.
pub fn find_limactl(places: &Places) -> Option<PathBuf> {
    if let Some(chosen) = &places.chosen {
        return is_program(chosen).then(|| chosen.clone());
    }
    let folders = places.path.iter().chain([&places.bin_dir]);
    folders.map(|folder| folder.join(LIMACTL)).find(|candidate| is_program(candidate))
}

const LIMACTL: &str = if cfg!(windows) { "limactl.exe" } else { "limactl" };

#[cfg(unix)]
fn is_program(path: &Path) -> bool {
    path.is_file() && rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok()
}

#[cfg(not(unix))]
fn is_program(path: &Path) -> bool {
    path.is_file()
}

/// Looks at this machine.
pub fn detect(has_driver: bool, places: &Places) -> Facts {
    Facts {
        has_driver,
        has_limactl: find_limactl(places).is_some(),
        has_accelerator: has_accelerator(),
        is_root: is_root(),
    }
}

#[cfg(target_os = "linux")]
fn has_accelerator() -> bool {
    use rustix::fs::{Access, access};
    access("/dev/kvm", Access::READ_OK | Access::WRITE_OK).is_ok()
}

#[cfg(not(target_os = "linux"))]
fn has_accelerator() -> bool {
    // vz and WSL2 are there, or Lima says what is missing.
    true
}

#[cfg(unix)]
fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[cfg(not(unix))]
fn is_root() -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lima_is_chosen_only_where_everything_it_needs_is_there() {
        let all = Facts { has_driver: true, has_limactl: true, has_accelerator: true, is_root: false };
        assert_eq!(choose(all), Backend::Lima);
        for lacking in [
            Facts { has_driver: false, ..all },
            Facts { has_limactl: false, ..all },
            Facts { has_accelerator: false, ..all },
            Facts { is_root: true, ..all },
        ] {
            assert_eq!(choose(lacking), Backend::Host, "{lacking:?}");
        }
    }

    #[test]
    #[cfg(unix)]
    fn limactl_is_the_chosen_one_or_the_first_on_the_path_or_our_own() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let mk = |name: &str, mode: u32| {
            let bin = folder.path().join(name);
            std::fs::create_dir(&bin).unwrap();
            let program = bin.join("limactl");
            std::fs::write(&program, "").unwrap();
            std::fs::set_permissions(&program, std::fs::Permissions::from_mode(mode)).unwrap();
            bin
        };
        let (data, first, own) = (mk("data", 0o644), mk("first", 0o755), mk("own", 0o755));
        let mut places =
            Places { chosen: None, path: vec![folder.path().join("none"), data, first.clone()], bin_dir: own.clone() };
        assert_eq!(find_limactl(&places), Some(first.join("limactl")));
        places.path.clear();
        assert_eq!(find_limactl(&places), Some(own.join("limactl")));
        places.chosen = Some(folder.path().join("gone"));
        assert_eq!(find_limactl(&places), None, "a choice that leads nowhere is not replaced by a guess");
    }
}
