//! The directory of passthrough endpoints: those of controllers in this process, and those of registered managers.

use std::{
    collections::HashMap,
    path::PathBuf,
    sync::{Arc, PoisonError, RwLock},
};

use rdd_apiserver::passthrough::{Directory, Endpoint, Looked, Target};
use rdd_instance::Paths;
use rdd_runtime::{
    Registered,
    discovery::{Entry, Registry},
};
use rdd_stdx::chain::Chain;

/// The names of a controller and its endpoint.
type Name = (String, String);

/// The passthrough endpoints of all controllers.
pub(crate) struct Passthroughs {
    here: RwLock<HashMap<Name, Endpoint>>,
    /// The registry of managers in other processes.
    registry: RwLock<Option<Registry>>,
    /// The socket of a manager. It is derived from the manager's name, so that a registration cannot redirect requests.
    socket: Arc<dyn Fn(&str) -> PathBuf + Send + Sync>,
}

impl Passthroughs {
    /// Creates an empty directory.
    pub(crate) fn new(paths: &Paths) -> Self {
        let paths = paths.clone();
        Self {
            here: RwLock::default(),
            registry: RwLock::default(),
            socket: Arc::new(move |manager| paths.manager_socket(manager)),
        }
    }

    /// Sets the registry of managers.
    pub(crate) fn ask(&self, registry: Registry) {
        *self.registry.write().unwrap_or_else(PoisonError::into_inner) = Some(registry);
    }

    /// Registers the endpoints of controllers in this process.
    pub(crate) fn answer_here(&self, controllers: &[Registered]) {
        let declared = controllers.iter().map(Registered::declaration).flat_map(|declaration| {
            let name = declaration.name();
            let endpoints = declaration.passthroughs().iter();
            endpoints.map(move |one| ((name.to_owned(), one.endpoint.to_owned()), Arc::clone(&one.handler)))
        });
        // Replaces the whole table, so that a retried start leaves no stale endpoints.
        *self.here.write().unwrap_or_else(PoisonError::into_inner) = declared.collect();
    }
}

impl Directory for Passthroughs {
    fn find(&self, controller: &str, endpoint: &str) -> Looked {
        let name = (controller.to_owned(), endpoint.to_owned());
        if let Some(here) = self.here.read().unwrap_or_else(PoisonError::into_inner).get(&name) {
            let here = Target::Here(Arc::clone(here));
            return Box::pin(async move { Ok(Some(here)) });
        }
        let registry = self.registry.read().unwrap_or_else(PoisonError::into_inner).clone();
        let socket = Arc::clone(&self.socket);
        Box::pin(async move {
            // The server starts before the registry is set.
            let Some(registry) = registry else { return Ok(None) };
            let (controller, endpoint) = name;
            let found = registry.answering(&controller, &endpoint).await.map_err(|error| Chain(&error).to_string())?;
            let under = format!("/{controller}/{endpoint}");
            Ok(found.and_then(|(manager, entry)| target(&manager, &entry, under, &*socket)))
        })
    }
}

/// The address of a manager: the socket derived from its name, whatever it registered. Only a manager of the original
/// Rancher Desktop, which has neither an ID nor such a socket, is reached on its registered loopback port.
fn target(manager: &str, entry: &Entry, under: String, socket: &dyn Fn(&str) -> PathBuf) -> Option<Target> {
    let path = is_plain(manager).then(|| socket(manager));
    // Managers of rdd always register an ID.
    if entry.id.is_empty()
        && !path.as_ref().is_some_and(|path| path.exists())
        && let Some(port) = loopback_port(&entry.passthrough_endpoint)
    {
        return Some(Target::Loopback { port, under });
    }
    path.map(|path| Target::Socket { path, under })
}

/// The port of `http://localhost:<port>/`; `None` for every other URL.
fn loopback_port(endpoint: &str) -> Option<u16> {
    let rest = endpoint.strip_prefix("http://")?;
    let rest = rest.strip_prefix("localhost:").or_else(|| rest.strip_prefix("127.0.0.1:"))?;
    let port = rest.strip_suffix('/').unwrap_or(rest);
    let is_number = port.bytes().all(|byte| byte.is_ascii_digit());
    port.parse().ok().filter(|port| is_number && *port != 0)
}

/// Whether a manager's name is safe as a part of a path. Anyone who may write to the registry can choose it.
fn is_plain(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn mk_entry(id: &str, endpoint: &str) -> Entry {
        Entry {
            health_port: 1,
            metrics_port: 2,
            enabled_controllers: None,
            enabled_passthroughs: BTreeMap::new(),
            start_time: String::new(),
            health_endpoint: String::new(),
            metrics_endpoint: String::new(),
            passthrough_endpoint: endpoint.to_owned(),
            id: id.to_owned(),
        }
    }

    // Finding E-5
    #[test]
    fn only_a_manager_of_the_original_is_reached_on_a_port_and_only_on_one_of_loopback() {
        let place = |id: &str, endpoint: &str| {
            let socket = |name: &str| PathBuf::from(format!("/run/{name}.sock"));
            match target("mine", &mk_entry(id, endpoint), "/a/b".to_owned(), &socket) {
                Some(Target::Loopback { port, under }) => format!("{port} {under}"),
                Some(Target::Socket { path, .. }) => path.display().to_string(),
                other => format!("{other:?}"),
            }
        };
        assert_eq!(place("", "http://localhost:9091/"), "9091 /a/b");
        assert_eq!(place("", "http://127.0.0.1:9091"), "9091 /a/b");
        assert_eq!(place("an-id", "http://localhost:9091/"), "/run/mine.sock");
        for elsewhere in [
            "",
            "http://localhost/",
            "http://localhost:0/",
            "http://localhost:+80/",
            "http://localhost:65536/",
            "http://localhost:80@evil.example/",
            "http://localhost:80/path",
            "http://localhost.evil.example:80/",
            "http://10.0.0.1:80/",
            "http://0.0.0.0:80/",
            "http://[::1]:80/",
            "https://localhost:80/",
            "unix:///var/run/docker.sock",
        ] {
            assert_eq!(place("", elsewhere), "/run/mine.sock", "{elsewhere}");
        }
    }

    #[test]
    fn a_name_cannot_lead_out_of_the_folder_of_sockets() {
        for (name, plain) in
            [("app", true), ("my-own_1", true), ("", false), ("..", false), ("../docker", false), ("a.b", false)]
        {
            assert_eq!(is_plain(name), plain, "{name}");
        }
    }
}
