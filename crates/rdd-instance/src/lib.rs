//! One instance as a value: its name, index, paths, ports and environment.
//!
//! Nothing here accesses files, sockets or the process environment, except [`Environment::of_process`]. `main` resolves
//! the [`Instance`] once and passes it down; no other crate derives paths or ports.

mod docker;
mod engine;
pub mod env;
mod kubeconfig;
mod name;
mod paths;
mod ports;

pub use docker::DockerCli;
pub use engine::{Engine, Pool};
pub use env::Environment;
pub use name::{InvalidName, Name};
pub use paths::{Paths, Platform};
pub use ports::Ports;

/// Everything that follows from an instance's name, for one user on one machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instance {
    /// The instance's name, as in `2` or `bats`.
    pub name: Name,
    /// The paths of its files.
    pub paths: Paths,
    /// The ports that it tries first.
    pub ports: Ports,
}

/// Why the environment does not determine an instance.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The name is invalid.
    #[error(transparent)]
    InvalidName(#[from] InvalidName),
    /// The home folder, on which every path is based, is unknown.
    #[error("cannot tell where this instance lives: {variable} is not set (set it to your home folder)")]
    NoHome {
        /// `HOME`, or `USERPROFILE` on Windows.
        variable: &'static str,
    },
    /// The home folder is relative, so every working folder would have another instance.
    #[error("cannot tell where this instance lives: {variable} is {value:?}, which is not an absolute path")]
    RelativeHome {
        /// `HOME`, or `USERPROFILE` on Windows.
        variable: &'static str,
        /// The value of the variable.
        value: String,
    },
}

impl Instance {
    /// Resolves the instance of this environment on this platform.
    ///
    /// # Errors
    /// When the instance's name is invalid, or the home folder is unset or relative.
    pub fn resolve(environment: &Environment, platform: Platform) -> Result<Self, Error> {
        let name = Name::parse(environment.instance.as_deref().unwrap_or(Name::DEFAULT))?;
        let variable = platform.home_variable();
        let home = environment.home.as_deref().ok_or(Error::NoHome { variable })?;
        if !platform.is_absolute(home) {
            return Err(Error::RelativeHome { variable, value: home.to_string_lossy().into_owned() });
        }
        let paths = Paths::of(&name, platform, home, environment.log_dir.as_deref());
        let ports = Ports::of(name.index());
        Ok(Self { name, paths, ports })
    }

    /// The name with the product's prefix, as people see it: `rancher-desktop-2`.
    pub fn full_name(&self) -> String {
        self.name.full()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(set: &[(&str, &str)]) -> Environment {
        Environment::from_lookup(|name| set.iter().find(|(key, _)| *key == name).map(|(_, value)| value.into()))
    }

    #[test]
    fn the_default_instance_is_2() {
        let instance = Instance::resolve(&environment(&[("HOME", "/home/ann")]), Platform::Linux).unwrap();
        assert_eq!(instance.full_name(), "rancher-desktop-2");
        assert_eq!(instance.ports.api, 6445);
        assert_eq!(instance.paths.config.to_str(), Some("/home/ann/.local/share/rancher-desktop-2/config.yaml"));
    }

    #[test]
    fn an_empty_variable_counts_as_unset() {
        let env = environment(&[("HOME", "/h"), ("RDD_INSTANCE", ""), ("RDD_LOG_DIR", "")]);
        let instance = Instance::resolve(&env, Platform::Linux).unwrap();
        assert_eq!(instance.name.as_str(), "2");
        assert_eq!(instance.paths.log_dir.to_str(), Some("/h/.local/state/rancher-desktop-2"));
    }

    #[test]
    fn without_a_home_the_error_names_the_variable() {
        let error = Instance::resolve(&environment(&[]), Platform::Linux).unwrap_err();
        assert_eq!(
            error.to_string(),
            "cannot tell where this instance lives: HOME is not set (set it to your home folder)"
        );
        assert_eq!(
            Instance::resolve(&environment(&[]), Platform::Windows).unwrap_err(),
            Error::NoHome { variable: "USERPROFILE" }
        );
        assert!(Instance::resolve(&environment(&[("HOME", "ann")]), Platform::Linux).is_err());
    }
}
