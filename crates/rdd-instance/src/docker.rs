//! The user's docker CLI: the folder of its configuration, and the context for this instance's engine.

use std::path::{Path, PathBuf};

use crate::{Environment, Instance};

/// The engine that docker uses if nothing is configured.
const DEFAULT_HOST: &str = "unix:///var/run/docker.sock";

/// The user's docker CLI, as far as it concerns this instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DockerCli {
    /// The folder of its configuration and contexts. If `DOCKER_CONFIG` is relative, so is this; it has then no
    /// definite location.
    pub folder: PathBuf,
    /// The name of the context for this instance.
    pub context: String,
    /// The host of that context.
    pub host: String,
    /// The host that docker uses without a context.
    pub default_host: String,
    /// The environment variable that overrides the current context, if one is set.
    pub overridden_by: Option<&'static str>,
}

impl Instance {
    /// The docker CLI of a user with this environment.
    pub fn docker_cli(&self, environment: &Environment) -> DockerCli {
        let home = environment.home.as_deref().unwrap_or_default();
        let folder = match &environment.docker_config {
            Some(folder) => PathBuf::from(folder),
            None => Path::new(home).join(".docker"),
        };
        let overridden_by = match (environment.docker_host, environment.docker_context) {
            (true, _) => Some("DOCKER_HOST"),
            (false, true) => Some("DOCKER_CONTEXT"),
            (false, false) => None,
        };
        DockerCli {
            folder,
            context: self.full_name(),
            host: format!("unix://{}", self.paths.docker_socket.display()),
            default_host: DEFAULT_HOST.to_owned(),
            overridden_by,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Platform;

    fn cli(set: &[(&str, &str)]) -> DockerCli {
        let lookup = |name: &str| set.iter().find(|(key, _)| *key == name).map(|(_, value)| value.into());
        let environment = Environment::from_lookup(lookup);
        Instance::resolve(&environment, Platform::Linux).unwrap().docker_cli(&environment)
    }

    // Finding 295-S4
    #[test]
    fn the_context_and_its_socket_follow_from_the_instance() {
        let home = ("HOME", "/home/ann");
        let cli = |instance| self::cli(&[home, ("RDD_INSTANCE", instance)]);
        assert_eq!(cli("2").context, "rancher-desktop-2");
        assert_eq!(cli("2").host, "unix:///home/ann/.rd2/docker.sock");
        assert_eq!(
            (cli("bats").context, cli("bats").host),
            ("rancher-desktop-bats".to_owned(), "unix:///home/ann/.rdbats/docker.sock".to_owned(),)
        );
        assert_eq!(cli("2").folder, Path::new("/home/ann/.docker"));
    }

    #[test]
    fn variables_say_where_the_settings_are_and_whether_contexts_matter() {
        let home = ("HOME", "/home/ann");
        assert_eq!(cli(&[home, ("DOCKER_CONFIG", "/etc/d")]).folder, Path::new("/etc/d"));
        assert_eq!(cli(&[home, ("DOCKER_CONFIG", "")]).folder, Path::new("/home/ann/.docker"));
        assert_eq!(cli(&[home]).overridden_by, None);
        assert_eq!(cli(&[home, ("DOCKER_CONTEXT", "x")]).overridden_by, Some("DOCKER_CONTEXT"));
        assert_eq!(cli(&[home, ("DOCKER_HOST", "x"), ("DOCKER_CONTEXT", "x")]).overridden_by, Some("DOCKER_HOST"));
        assert_eq!(cli(&[home, ("DOCKER_HOST", "")]).overridden_by, None);
    }
}
