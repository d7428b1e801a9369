//! Runs controllers in a separate process beside a daemon, with everything that such a program needs in one call.

use std::{
    path::{Path, PathBuf},
    pin::pin,
    sync::Arc,
    time::Duration,
};

use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};
use rdd_stdx::{chain::Chain, clock::SystemClock, owned};

use super::{Manager, Options, Place, Role, Started};
use crate::{Error, Registered, hooks::Https, metrics::Metrics, probe::Unhurt};

/// The pause after a start that failed.
const AGAIN: Duration = Duration::from_secs(1);
/// How often the kubeconfig is checked for changes.
const LOOK: Duration = Duration::from_millis(500);
/// How long a start that is under way may take when the program ends.
const FINISH: Duration = Duration::from_secs(10);
/// How long controllers may take to stop.
const STOP: Duration = Duration::from_secs(30);

/// A manager in a separate process, for the daemon that a kubeconfig names.
///
/// # Flow
/// [`run`](Self::run) waits for the daemon, registers, and runs the controllers. When the daemon restarts, it starts them again with the
/// new kubeconfig, because each start of the daemon creates new tokens.
///
/// # Guarantees
/// Of two programs with the same name, only one runs its controllers.
#[derive(Debug, Clone)]
pub struct Beside {
    /// The name of the manager, its key in the registry.
    pub name: String,
    /// The path of the kubeconfig, as `rdd svc paths config` prints it. It must have one context.
    pub kubeconfig: PathBuf,
    /// The directory for the certificates of webhooks, as `rdd svc paths tls_dir` prints it. Required if a controller has webhooks.
    pub certificates: Option<PathBuf>,
    /// The Unix socket on which the API server reaches the passthroughs. Required if a controller has passthroughs. The daemon only uses
    /// `controllers/<name>.sock` in the directory that `rdd svc paths short_dir` prints.
    pub passthrough_socket: Option<PathBuf>,
}

impl Beside {
    /// A manager with this name, without webhooks and passthroughs.
    pub fn new(name: impl Into<String>, kubeconfig: impl Into<PathBuf>) -> Self {
        Self { name: name.into(), kubeconfig: kubeconfig.into(), certificates: None, passthrough_socket: None }
    }

    /// Runs the controllers that `make` returns until `end` completes, then stops them gracefully. `make` is called for each start. While
    /// the daemon does not answer, or other managers run the same controllers, this waits and retries.
    pub async fn run(&self, make: impl Fn(&Client) -> Vec<Registered>, end: impl Future<Output = ()>) {
        let mut end = pin!(end);
        let mut told = String::new();
        loop {
            let mut starting = pin!(self.start(&make));
            let failed = tokio::select! {
                () = &mut end => {
                    // A start that is cut off would leave its registration and webhooks behind; a complete one can be stopped.
                    if let Ok(Ok((manager, _))) = tokio::time::timeout(FINISH, starting).await {
                        manager.stop(STOP).await;
                    }
                    return;
                }
                // A running manager ends with the program, with the daemon, or when its registration is lost.
                started = &mut starting => match started {
                    Ok((manager, kubeconfig)) => {
                        let ended = self.keep(&manager, &kubeconfig, end.as_mut()).await;
                        manager.stop(STOP).await;
                        if ended {
                            return;
                        }
                        continue;
                    }
                    Err(error) => error,
                },
            };
            let why = Chain(&failed).to_string();
            // Log a lasting failure once: only a change of the error is logged again.
            if why != told {
                tracing::warn!(error = why, "cannot start beside the daemon yet; trying again every second");
                told = why;
            }
            tokio::select! {
                () = &mut end => return,
                () = tokio::time::sleep(AGAIN) => {}
            }
        }
    }

    /// Returns true when `end` has completed, false when the daemon has restarted or the registration is lost.
    async fn keep(&self, manager: &Manager, kubeconfig: &str, end: impl Future<Output = ()>) -> bool {
        tokio::select! {
            () = end => true,
            lost = manager.keep() => {
                tracing::info!(why = lost.why, "no longer registered");
                false
            }
            () = changed(&self.kubeconfig, kubeconfig) => {
                tracing::info!("the daemon has started anew");
                false
            }
        }
    }

    async fn start(&self, make: &impl Fn(&Client) -> Vec<Registered>) -> Result<(Manager, String), Error> {
        let told = || format!("read the kubeconfig {}", self.kubeconfig.display());
        let text = owned::read_to_string(&self.kubeconfig).map_err(|error| Error::because(told(), error))?;
        let config = Kubeconfig::from_yaml(&text).map_err(|error| Error::because(told(), error))?;
        // Read again for each start, because the daemon writes new tokens.
        let config = Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await;
        let config = config.map_err(|error| Error::because(told(), error))?;
        let server = config.cluster_url.to_string();
        let client = Client::try_from(config)?;
        let controllers = make(&client);
        let options = self.options(client, &server, &controllers);
        match Manager::start(options, controllers).await? {
            Started::Running(manager) => Ok((*manager, text)),
            Started::NothingToDo(claimed) => {
                Err(Error::message(format!("others run these controllers: {:?}", claimed.others)))
            }
        }
    }

    fn options(&self, client: Client, server: &str, controllers: &[Registered]) -> Options {
        let clock = SystemClock::shared();
        let passthrough_endpoint = format!("{}/passthrough/", server.trim_end_matches('/'));
        let hooks = Https {
            port: 0,
            tls_dir: self.certificates.clone().unwrap_or_default(),
            manager: self.name.clone(),
            controllers: controllers.iter().map(|one| one.declaration().name().to_owned()).collect(),
            clock: clock.clone(),
        };
        Options {
            name: self.name.clone(),
            role: Role::External(Place {
                health_port: 0,
                metrics_port: 0,
                metrics_endpoint: String::new(),
                passthrough_endpoint,
                passthrough_socket: self.passthrough_socket.clone(),
            }),
            client,
            clock,
            hooks: Arc::new(hooks),
            probe: Arc::new(Unhurt),
            metrics: Metrics::default(),
            progress: Arc::new(|_| {}),
        }
    }
}

/// Waits until the file's text differs from `known`. A file that cannot be read counts as unchanged.
async fn changed(path: &Path, known: &str) {
    loop {
        tokio::time::sleep(LOOK).await;
        if owned::read_to_string(path).is_ok_and(|text| text != known) {
            return;
        }
    }
}
