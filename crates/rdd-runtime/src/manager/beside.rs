//! Controllers of anybody's, in a process of their own beside a daemon: all that such a program needs, in one call.

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

/// After a start that failed, how long until the next.
const AGAIN: Duration = Duration::from_secs(1);
/// How often the kubeconfig is looked at.
const LOOK: Duration = Duration::from_millis(500);
/// How long a start that nobody wants any more may take to be over.
const FINISH: Duration = Duration::from_secs(10);
/// How long controllers may take to bring down what they run.
const STOP: Duration = Duration::from_secs(30);

/// A manager beside the daemon that a kubeconfig names.
///
/// It waits for the daemon, registers, runs, and begins anew when the daemon does: every start of the daemon has tokens of its
/// own, so the kubeconfig is read again whenever it changes. Of two programs of the same name, one runs.
#[derive(Debug, Clone)]
pub struct Beside {
    /// Its key in the list of managers.
    pub name: String,
    /// What `rdd svc paths config` prints. Any other kubeconfig of one context does as well.
    pub kubeconfig: PathBuf,
    /// Where the certificates of webhooks are kept, for controllers that have webhooks: what `rdd svc paths tls_dir` prints.
    pub certificates: Option<PathBuf>,
    /// Where it listens for what the API server passes through to it, for controllers that have passthroughs: the daemon looks
    /// for `controllers/<name>.sock` in what `rdd svc paths short_dir` prints, and nowhere else.
    pub passthrough_socket: Option<PathBuf>,
}

impl Beside {
    /// A manager of this name, without webhooks and passthroughs.
    pub fn new(name: impl Into<String>, kubeconfig: impl Into<PathBuf>) -> Self {
        Self { name: name.into(), kubeconfig: kubeconfig.into(), certificates: None, passthrough_socket: None }
    }

    /// Runs the controllers that `make` makes, anew for each start, until `end` comes; then ends them well. While the daemon is
    /// not there, or another program of this name runs the same controllers, it waits.
    pub async fn run(&self, make: impl Fn(&Client) -> Vec<Registered>, end: impl Future<Output = ()>) {
        let mut end = pin!(end);
        let mut told = String::new();
        loop {
            let mut starting = pin!(self.start(&make));
            let failed = tokio::select! {
                () = &mut end => {
                    // Half a start leaves a registration and webhooks behind; a whole one can be taken back.
                    if let Ok(Ok((manager, _))) = tokio::time::timeout(FINISH, starting).await {
                        manager.stop(STOP).await;
                    }
                    return;
                }
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
            // Told once per change: a daemon that is away for long is one line.
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

    /// Whether the end has come, and not only that of the daemon.
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

/// Waits until a file has another text. One that cannot be read at the moment has not.
async fn changed(path: &Path, known: &str) {
    loop {
        tokio::time::sleep(LOOK).await;
        if owned::read_to_string(path).is_ok_and(|text| text != known) {
            return;
        }
    }
}
