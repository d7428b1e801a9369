//! Controllers in a separate process: find or start the daemon, run beside it, and end with it.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    pin::pin,
    process::Stdio,
    sync::Arc,
    time::Duration,
};

use anyhow::{Context as _, bail};
use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};
use rdd_cli::external::ExternalOptions;
use rdd_runtime::{
    hooks::Https,
    manager::{Manager, Options, Place, Role, Started},
    metrics::Metrics,
};
use rdd_stdx::{
    chain::Chain,
    clock::{SharedClock, SystemClock},
    owned, process,
};
use tokio::time::timeout;
use tracing::Level;

use crate::{
    controllers::{self, Parts},
    logging,
    serve::Signals,
};

/// The timeout for controllers to stop.
const STOP: Duration = Duration::from_secs(45);
/// How long a restarting daemon gets to publish its kubeconfig.
const RETURN: Duration = Duration::from_secs(2);
/// The timeout for a start that is no longer wanted, and the wait for another daemon after a failed start.
const FINISH: Duration = Duration::from_secs(10);

/// Runs the controllers of a group until a signal arrives, the daemon ends, or other managers run all of them.
pub(crate) fn run(options: ExternalOptions) -> anyhow::Result<()> {
    let clock = SystemClock::shared();
    let level = match options.verbosity {
        ..=1 => Level::INFO,
        2 | 3 => Level::DEBUG,
        4.. => Level::TRACE,
    };
    let output = logging::Output::open(options.log_file.as_ref()).context("open the log file")?;
    logging::install(logging::Form::Text, level, clock.clone(), output);
    let kubeconfig = ask_for_kubeconfig(&options)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        // As in the daemon: deeply nested objects are processed recursively.
        .thread_stack_size(8 << 20)
        .enable_all()
        .build()
        .context("start the runtime")?;
    let outcome = runtime.block_on(run_beside(&options, &clock, kubeconfig));
    runtime.shutdown_background();
    outcome
}

/// Runs beside successive daemons: each start of the daemon publishes new credentials.
async fn run_beside(options: &ExternalOptions, clock: &SharedClock, mut kubeconfig: String) -> anyhow::Result<()> {
    let mut signals = Signals::install().context("handle signals")?;
    loop {
        let started = {
            // Pinned, so that a signal does not drop a start halfway.
            let mut starting = pin!(start(options, clock, &kubeconfig));
            tokio::select! {
                started = &mut starting => started,
                name = signals.first() => {
                    tracing::info!(signal = name, "shutting down before the start was over");
                    // An aborted start leaves a registration and webhooks behind; a complete one can be stopped
                    // cleanly.
                    if let Ok(Ok((Started::Running(manager), _))) = timeout(FINISH, starting).await {
                        manager.stop(STOP).await;
                    }
                    return Ok(());
                }
            }
        };
        let started = match started {
            Ok(started) => started,
            Err(error) => match next_kubeconfig(&options.instance.paths.config, &kubeconfig, FINISH).await {
                Some(next) => {
                    tracing::info!(error = %Chain(error.as_ref()), "the daemon has started anew; going on beside it");
                    kubeconfig = next;
                    continue;
                }
                None => return Err(error),
            },
        };
        // Claimed by others: exit successfully, as there is no work left for this process.
        let (manager, _served) = match started {
            (Started::Running(manager), served) => (manager, served),
            (Started::NothingToDo(claimed), _) => {
                tracing::info!(others = ?claimed.others, "other managers run these controllers; there is nothing to do");
                return Ok(());
            }
        };
        let lost = tokio::select! {
            lost = manager.keep() => Some(lost),
            name = signals.first() => {
                tracing::info!(signal = name, "shutting down");
                None
            }
        };
        tokio::select! {
            () = manager.stop(STOP) => {}
            name = signals.first() => bail!("ended at once by a second signal ({name})"),
        }
        let Some(lost) = lost else { return Ok(()) };
        match next_kubeconfig(&options.instance.paths.config, &kubeconfig, RETURN).await {
            Some(next) => {
                tracing::info!(why = lost.why, "the daemon has started anew; going on beside it");
                kubeconfig = next;
            }
            None => {
                tracing::info!(why = lost.why, "the daemon is gone");
                return Ok(());
            }
        }
    }
}

/// A value that must live as long as the manager: the server of its metrics.
type Held = Box<dyn std::any::Any + Send + Sync>;

async fn start(options: &ExternalOptions, clock: &SharedClock, kubeconfig: &str) -> anyhow::Result<(Started, Held)> {
    let kubeconfig = Kubeconfig::from_yaml(kubeconfig).context("read the kubeconfig of the daemon")?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
    let config = config.context("read the kubeconfig of the daemon")?;
    let api = config.cluster_url.to_string().trim_end_matches('/').to_owned();
    let client = Client::try_from(config).context("prepare a connection to the daemon")?;
    let instance = &options.instance;
    let parts =
        Parts { instance, environment: &options.environment, verbosity: options.verbosity, clock, client: &client };
    let controllers = controllers::of_group(&parts, options.group);
    let metrics = Metrics::default();
    let hooks = Https {
        port: instance.ports.webhook,
        tls_dir: instance.paths.tls_dir.clone(),
        manager: options.group.to_owned(),
        controllers: controllers.iter().map(|one| one.declaration().name().to_owned()).collect(),
        clock: clock.clone(),
    };
    let (metrics_port, served) = hooks.serve_metrics(options.metrics_port, client.clone(), metrics.clone()).await?;
    let manager = Options {
        name: options.group.to_owned(),
        role: Role::External(Place {
            health_port: options.health_port,
            metrics_port,
            metrics_endpoint: format!("https://127.0.0.1:{metrics_port}/metrics"),
            passthrough_endpoint: format!("{api}/passthrough/"),
            passthrough_socket: Some(instance.paths.manager_socket(options.group)),
        }),
        client,
        clock: clock.clone(),
        hooks: Arc::new(hooks),
        probe: controllers::probe(),
        metrics,
        progress: Arc::new(|phase| tracing::debug!(?phase, "starting")),
    };
    Ok((Manager::start(manager, controllers).await?, served))
}

/// Waits for a kubeconfig that differs from the known one, which a newer daemon publishes. `None` if there is none in
/// time.
async fn next_kubeconfig(path: &Path, known: &str, at_most: Duration) -> Option<String> {
    let deadline = tokio::time::Instant::now() + at_most;
    loop {
        if let Ok(text) = owned::read_to_string(path)
            // The daemon rewrites the file at each start, with new tokens.
            && text != known
        {
            return Some(text);
        }
        if tokio::time::Instant::now() > deadline {
            return None;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Runs `rdd svc config`, which starts the daemon if necessary, and returns the kubeconfig.
fn ask_for_kubeconfig(options: &ExternalOptions) -> anyhow::Result<String> {
    let path = options.environment.path.clone().unwrap_or_default();
    let program = find(&path, &std::env::current_exe().context("find our own program")?)
        .context("there is no rdd, neither on PATH nor beside this program")?;
    let mut command = process::foreground(&program);
    // Errors of the command go to the user's terminal.
    command.args(["svc", "config"]).stdin(Stdio::null()).stderr(Stdio::inherit());
    let output = command.output().with_context(|| format!("run {}", program.display()))?;
    if !output.status.success() {
        bail!("{} svc config failed: {}", program.display(), output.status);
    }
    String::from_utf8(output.stdout).context("read the kubeconfig of the daemon")
}

/// Finds `rdd` on `PATH`, else beside this program.
fn find(path: &std::ffi::OsStr, own: &Path) -> Option<PathBuf> {
    let is_program =
        |path: &PathBuf| fs::metadata(path).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0);
    let on_path = std::env::split_paths(path).filter(|folder| folder.is_absolute()).map(|folder| folder.join("rdd"));
    on_path.chain(own.parent().map(|folder| folder.join("rdd"))).find(is_program)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rdd_is_found_on_the_path_and_else_beside_us() {
        let root = tempfile::tempdir().unwrap();
        let mk = |name: &str| {
            let folder = root.path().join(name);
            fs::create_dir(&folder).unwrap();
            fs::write(folder.join("rdd"), "").unwrap();
            fs::set_permissions(folder.join("rdd"), fs::Permissions::from_mode(0o755)).unwrap();
            folder
        };
        let (own, other) = (mk("own"), mk("other"));
        let own_program = own.join("rdd-controller");
        assert_eq!(find("".as_ref(), &own_program), Some(own.join("rdd")));
        assert_eq!(find(other.as_os_str(), &own_program), Some(other.join("rdd")));
        fs::remove_file(own.join("rdd")).unwrap();
        assert_eq!(find("/nonexistent".as_ref(), &own_program), None);
    }

    #[tokio::test]
    async fn only_another_kubeconfig_is_a_newer_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config.yaml");
        assert_eq!(next_kubeconfig(&path, "old", RETURN).await, None);
        fs::write(&path, "new").unwrap();
        assert_eq!(next_kubeconfig(&path, "old", RETURN).await.as_deref(), Some("new"));
    }
}
