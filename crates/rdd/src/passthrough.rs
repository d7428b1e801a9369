//! Who answers under `/passthrough`: controllers of this process, and those of managers that have registered.

use std::{
    collections::HashMap,
    path::PathBuf,
    sync::{Arc, PoisonError, RwLock},
};

use rdd_apiserver::passthrough::{Directory, Endpoint, Looked, Target};
use rdd_instance::Paths;
use rdd_runtime::{Registered, discovery::Registry};
use rdd_stdx::chain::Chain;

/// Controller and endpoint.
type Name = (String, String);

/// The passthroughs of all controllers.
pub(crate) struct Passthroughs {
    here: RwLock<HashMap<Name, Endpoint>>,
    /// Where managers of other processes are listed.
    registry: RwLock<Option<Registry>>,
    /// Where the manager of this name listens: it follows from the name, so that nobody can register another place.
    socket: Arc<dyn Fn(&str) -> PathBuf + Send + Sync>,
}

impl Passthroughs {
    /// None yet.
    pub(crate) fn new(paths: &Paths) -> Self {
        let paths = paths.clone();
        Self {
            here: RwLock::default(),
            registry: RwLock::default(),
            socket: Arc::new(move |manager| paths.manager_socket(manager)),
        }
    }

    /// From now on, asks this list of managers.
    pub(crate) fn ask(&self, registry: Registry) {
        *self.registry.write().unwrap_or_else(PoisonError::into_inner) = Some(registry);
    }

    /// From now on, these controllers answer in this process.
    pub(crate) fn answer_here(&self, controllers: &[Registered]) {
        let declared = controllers.iter().map(Registered::declaration).flat_map(|declaration| {
            let name = declaration.name();
            let endpoints = declaration.passthroughs().iter();
            endpoints.map(move |one| ((name.to_owned(), one.endpoint.to_owned()), Arc::clone(&one.handler)))
        });
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
            let Some(registry) = registry else { return Ok(None) };
            let (controller, endpoint) = name;
            let found = registry.answering(&controller, &endpoint).await.map_err(|error| Chain(&error).to_string())?;
            let under = format!("/{controller}/{endpoint}");
            let found = found.filter(|manager| is_plain(manager));
            Ok(found.map(|manager| Target::Socket { path: socket(&manager), under }))
        })
    }
}

/// Whether a manager's name means nothing but itself in a path. Anyone who may write the list chooses it.
fn is_plain(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_lead_out_of_the_folder_of_sockets() {
        for (name, plain) in
            [("app", true), ("my-own_1", true), ("", false), ("..", false), ("../docker", false), ("a.b", false)]
        {
            assert_eq!(is_plain(name), plain, "{name}");
        }
    }
}
