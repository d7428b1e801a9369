//! Decides what `backend: auto` means on this machine.

use rdd_driver::Drivers;
use rdd_instance::Platform;
use rdd_types::app::Backend;

/// The facts that decide the backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Facts {
    /// Whether this daemon has a driver for Lima.
    pub has_driver: bool,
    /// Whether `limactl` is installed.
    pub has_limactl: bool,
    /// Whether hardware acceleration of virtual machines is available.
    pub has_accelerator: bool,
    /// Whether the user is root; limactl refuses to run as root.
    pub is_root: bool,
}

/// The `vmType` that Lima uses on this platform.
pub fn lima_vm_type(platform: Platform) -> &'static str {
    match platform {
        Platform::Linux => "qemu",
        Platform::MacOs => "vz",
        Platform::Windows => "wsl2",
    }
}

/// The `vmType` of a backend on this platform. `auto`, in an App that bypassed defaulting, means the host, which works everywhere.
pub fn vm_type_of(backend: Backend, platform: Platform) -> &'static str {
    match backend {
        Backend::Lima => lima_vm_type(platform),
        Backend::Host | Backend::Auto => "host",
    }
}

/// The backends that these drivers support for this user.
pub fn available(drivers: &Drivers, platform: Platform) -> Vec<Backend> {
    let known = [(Backend::Lima, lima_vm_type(platform)), (Backend::Host, "host")];
    let has_driver = |vm_type: &str| drivers.of_type(vm_type).is_some();
    // A missing limactl can be installed at any time, so only root rules Lima out: a root user stays root.
    let is_possible = |backend: Backend| backend != Backend::Lima || !is_root();
    let usable = known.into_iter().filter(|(backend, vm_type)| is_possible(*backend) && has_driver(vm_type));
    usable.map(|(backend, _)| backend).collect()
}

/// Lima where all of its requirements are met, else the host.
pub fn choose(facts: Facts) -> Backend {
    let lima = facts.has_driver && facts.has_limactl && facts.has_accelerator && !facts.is_root;
    if lima { Backend::Lima } else { Backend::Host }
}

/// Collects the facts about this machine. The costly test for acceleration runs only if everything else is there.
pub fn detect(has_driver: bool, has_limactl: bool, has_accelerator: impl FnOnce() -> bool) -> Facts {
    let is_root = is_root();
    let has_accelerator = has_driver && has_limactl && !is_root && has_accelerator();
    Facts { has_driver, has_limactl, has_accelerator, is_root }
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
    fn the_accelerator_is_tried_only_where_it_matters() {
        let never = || -> bool { panic!("nothing depends on it") };
        assert!(!detect(false, true, never).has_accelerator);
        assert!(!detect(true, false, never).has_accelerator);
    }
}
