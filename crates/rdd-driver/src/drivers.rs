//! The registry that maps `vmType` to drivers.

use std::sync::Arc;

use rdd_instance::{Environment, Instance};
use rdd_stdx::clock::SharedClock;

use crate::{Driver, Error, template};

/// The drivers of this host, in order of preference.
#[derive(Debug, Clone, Default)]
pub struct Drivers {
    drivers: Vec<Arc<dyn Driver>>,
}

impl Drivers {
    /// A registry of these drivers. The first one runs templates without `vmType`.
    pub fn new(drivers: Vec<Arc<dyn Driver>>) -> Self {
        Self { drivers }
    }

    /// All drivers for this operating system. A template without `vmType` uses Lima, or the host driver for root, because
    /// `limactl` refuses to run as root.
    #[cfg(target_os = "linux")]
    pub fn of_this_system(instance: &Instance, environment: &Environment, clock: SharedClock) -> Self {
        // rdd itself is the shim that starts QEMU with emulation.
        let lima = crate::lima::LimaDriver::new(instance, environment, std::env::current_exe().ok());
        let lima: Arc<dyn Driver> = Arc::new(lima.with_clock(Arc::clone(&clock)));
        let host: Arc<dyn Driver> = Arc::new(crate::host::HostDriver::new(instance, environment, clock));
        let is_root = rustix::process::geteuid().is_root();
        Self::new(if is_root { vec![host, lima] } else { vec![lima, host] })
    }

    /// All drivers for this operating system.
    #[cfg(not(target_os = "linux"))]
    pub fn of_this_system(_instance: &Instance, _environment: &Environment, _clock: SharedClock) -> Self {
        Self::default()
    }

    /// The driver for this `vmType`.
    pub fn of_type(&self, vm_type: &str) -> Option<&Arc<dyn Driver>> {
        self.drivers.iter().find(|driver| driver.vm_types().contains(&vm_type))
    }

    /// The driver for this template.
    pub fn pick(&self, template: &str) -> Result<&Arc<dyn Driver>, Error> {
        let vm_type = template::vm_type(template)
            .map_err(|problem| Error::InvalidTemplate { vm: String::new(), problems: vec![problem] })?;
        let found = match &vm_type {
            Some(vm_type) => self.of_type(vm_type),
            None => self.drivers.first(),
        };
        found.ok_or_else(|| {
            let known: Vec<&str> = self.drivers.iter().flat_map(|driver| driver.vm_types()).copied().collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            Error::NoDriver { vm_type: vm_type.unwrap_or_default(), known }
        })
    }

    /// Validates a template: first the choice of a driver, then by the driver's rules.
    pub fn validate(&self, template: &str) -> Result<(), Vec<String>> {
        match self.pick(template) {
            Ok(driver) => driver.validate(template),
            Err(Error::InvalidTemplate { problems, .. }) => Err(problems),
            Err(error) => Err(vec![error.to_string()]),
        }
    }

    /// All drivers, in order of preference.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<dyn Driver>> {
        self.drivers.iter()
    }
}

#[cfg(test)]
mod tests {
    use rdd_instance::Platform;
    use rdd_stdx::clock::SystemClock;

    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn a_template_picks_its_driver_or_is_told_what_there_is() {
        let environment = Environment { home: Some("/root".into()), ..Environment::default() };
        let instance = Instance::resolve(&environment, Platform::Linux).unwrap();
        let drivers = Drivers::of_this_system(&instance, &environment, SystemClock::shared());
        assert_eq!(drivers.pick("vmType: host\n").unwrap().vm_types(), ["host"]);
        assert!(drivers.pick("cpus: 2\n").is_ok(), "the first is meant when none is named");
        assert!(drivers.pick("vmType: default\n").is_ok(), "as when none is named");
        assert_eq!(drivers.pick("vmType: qemu\n").unwrap().vm_types(), ["qemu"]);
        let unknown = drivers.validate("vmType: vz\n").unwrap_err().concat();
        assert!(unknown.starts_with("no driver runs vmType \"vz\" on this machine; there is "), "{unknown}");
        assert_eq!(drivers.validate("").unwrap_err(), ["the template is empty"]);
        assert_eq!(drivers.validate("vmType: []").unwrap_err(), ["field `vmType` must be a text, and is []"]);
        assert!(Drivers::default().pick("vmType: host\n").unwrap_err().to_string().ends_with("there is none"));
    }
}
