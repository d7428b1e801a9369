//! The list of all controllers and how each is created.

use std::sync::{Arc, OnceLock};

use kube::Client;
use rdd_controllers::{
    app, configmap_replicaset, containers, demo, engine, hostinfo, k3s_versions, kubernetes, limavm, mock, notary,
};
use rdd_docker::context::DockerContext;
use rdd_driver::{Drivers, LogOptions};
use rdd_instance::{Environment, Instance};
use rdd_runtime::{
    Registered,
    probe::{Probe, Unhurt},
    selection::Selection,
};
use rdd_stdx::clock::SharedClock;

/// The dependencies of controllers.
#[derive(Clone)]
pub(crate) struct Parts<'a> {
    /// The instance.
    pub(crate) instance: &'a Instance,
    /// The environment of the process.
    pub(crate) environment: &'a Environment,
    /// The verbosity (`-v`).
    pub(crate) verbosity: u8,
    /// The clock.
    pub(crate) clock: &'a SharedClock,
    /// The API client.
    pub(crate) client: &'a Client,
}

/// The selected controllers that the daemon runs itself. The mock is never among them, because it replaces others.
pub(crate) fn embedded(parts: &Parts<'_>, selection: &Selection) -> Vec<Registered> {
    selected(parts, |name, group| group != mock::GROUP && selection.selects(name, group))
}

/// The controllers of one group.
pub(crate) fn of_group(parts: &Parts<'_>, wanted: &str) -> Vec<Registered> {
    selected(parts, |_, group| group == wanted)
}

/// Creates only the wanted controllers, because some inspect the host when they are created.
fn selected(parts: &Parts<'_>, wanted: impl Fn(&str, &str) -> bool) -> Vec<Registered> {
    let Parts { instance, environment, verbosity, clock, client } = parts;
    // The drivers are shared, so that changes of one machine by several controllers wait for each other.
    let made = OnceLock::new();
    let drivers = || {
        let make = || Drivers::of_this_system(instance, environment, Arc::clone(clock));
        Drivers::clone(made.get_or_init(make))
    };
    let log =
        || LogOptions { keep_all: environment.keep_logs, title: environment.log_title.clone(), debug: *verbosity >= 1 };
    let mut controllers = Vec::new();
    let mut add = |name, group, make: &dyn Fn() -> Registered| {
        if wanted(name, group) {
            controllers.push(make());
        }
    };
    add(hostinfo::NAME, hostinfo::GROUP, &|| Registered::new(hostinfo::Controller::new(hostinfo::detect)));
    add(notary::NAME, notary::GROUP, &|| Registered::new(notary::Controller::default()));
    add(configmap_replicaset::NAME, configmap_replicaset::GROUP, &|| Registered::new(configmap_replicaset::Controller));
    add(demo::NAME, demo::GROUP, &|| Registered::new(demo::Controller::default()));
    add(k3s_versions::NAME, k3s_versions::GROUP, &|| Registered::new(k3s_versions::Controller::new((*client).clone())));
    add(containers::CONTAINER, containers::GROUP, &|| Registered::new(containers::Containers));
    add(containers::CONTAINER_NAMESPACE, containers::GROUP, &|| {
        Registered::new(containers::Defined::container_namespaces())
    });
    add(containers::IMAGE, containers::GROUP, &|| Registered::new(containers::Defined::images()));
    add(containers::VOLUME, containers::GROUP, &|| Registered::new(containers::Defined::volumes()));
    add(engine::NAME, engine::GROUP, &|| {
        let context = DockerContext::new(instance.docker_cli(environment));
        let setup = engine::Setup { socket: instance.paths.docker_socket.clone(), publisher: Arc::new(context) };
        Registered::new(engine::Controller::new((*client).clone(), setup))
    });
    add(app::NAME, app::GROUP, &|| {
        Registered::new(app::Controller::new(app::Setup::of(instance, environment, &drivers(), hostinfo::detect())))
    });
    add(limavm::NAME, limavm::GROUP, &|| {
        let setup = limavm::Setup {
            drivers: drivers(),
            log: log(),
            clock: Arc::clone(clock),
            pace: limavm::machine::Pace::default(),
        };
        Registered::new(limavm::Controller::new((*client).clone(), setup))
    });
    add(kubernetes::NAME, kubernetes::GROUP, &|| {
        Registered::new(kubernetes::Controller::new(kubernetes::Setup::of(instance, environment, drivers(), clock)))
    });
    // Only external managers select the mock; see `embedded`.
    add(mock::NAME, mock::GROUP, &|| Registered::new(mock::Controller::default()));
    controllers
}

/// The probe that is called at every step. In debug builds, a variable selects the step at which the process aborts.
pub(crate) fn probe() -> Arc<dyn Probe> {
    #[cfg(debug_assertions)]
    if let Some(probe) = kill::from_environment() {
        return Arc::new(probe);
    }
    Arc::new(Unhurt)
}

#[cfg(debug_assertions)]
mod kill {
    //! Aborts the process at a selected step, for tests of recovery.

    use rdd_runtime::probe::{KillAt, Point, Probe, Verdict};

    /// The step: `<controller>/<step>[:after][:N]`. Read only here, and only in debug builds.
    const VARIABLE: &str = "RDD_TEST_KILL_AT";

    #[derive(Debug)]
    pub(super) struct Abort(KillAt);

    pub(super) fn from_environment() -> Option<Abort> {
        let text = std::env::var(VARIABLE).ok().filter(|text| !text.is_empty())?;
        let point = KillAt::parse(&text);
        if point.is_none() {
            tracing::error!(variable = VARIABLE, value = text, "this names no step");
        }
        point.map(Abort)
    }

    impl Probe for Abort {
        fn at(&self, point: Point<'_>) -> Verdict {
            if self.0.at(point) == Verdict::Die {
                tracing::error!(controller = point.controller, step = point.step, when = ?point.when, "dying as told");
                std::process::abort();
            }
            Verdict::Go
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use kube::Config;
    use rdd_instance::Platform;
    use rdd_stdx::clock::SystemClock;

    use super::*;

    #[tokio::test]
    async fn what_is_registered_is_what_tests_kill() {
        let environment = Environment { home: Some("/nonexistent".into()), ..Environment::default() };
        let instance = Instance::resolve(&environment, Platform::current()).unwrap();
        let client = Client::try_from(Config::new("http://127.0.0.1:1".parse().unwrap())).unwrap();
        let (clock, verbosity) = (SystemClock::shared(), 0);
        let parts = Parts { instance: &instance, environment: &environment, verbosity, clock: &clock, client: &client };
        let registered = selected(&parts, |_, _| true);
        let registered: BTreeMap<_, _> = registered.iter().map(|one| (one.declaration().name(), one.steps())).collect();
        assert_eq!(registered, rdd_controllers::steps().into_iter().collect());
    }
}
