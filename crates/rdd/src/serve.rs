//! The main function of the daemon: what it opens, in which order, and how it shuts down.

use std::{
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail};
use rdd_apiserver::{
    auth::{
        Authenticators, Identity, Token, Tokens,
        serviceaccount::{OpenId, ServiceAccounts, SigningKey},
    },
    controllers::Endowment,
    core::{self, Core},
    health::Health,
    passthrough::Passthrough,
    serve::{self, Limits, Parts, Server},
    tls::Tls,
};
use rdd_cli::ServeOptions;
use rdd_client::kubeconfig::Kubeconfig;
use rdd_instance::Instance;
use rdd_runtime::{manager::Manager, metrics::Metrics};
use rdd_stdx::{
    chain::Chain,
    clock::{SharedClock, SystemClock},
    file,
    lock::{self, ProcessLock},
    open_files,
};
use rdd_store::{Store, sqlite};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing::Level;

use crate::{
    binlinks, build,
    datastore::{self, OnlineBackup},
    embedded::Embedded,
    logging::{self, RotateStderr},
    notify::Notifier,
    passthrough::Passthroughs,
};

/// The timeout for requests in progress after the first signal.
const DRAIN: Duration = Duration::from_secs(60);
/// The timeout for controllers to stop: a VM gets 30 s to shut down, and some more until it is killed.
const CONTROLLERS_STOP: Duration = Duration::from_secs(45);

/// Runs the daemon until a signal ends it. A failed start is reported to the notifier.
pub(crate) fn serve(options: ServeOptions) -> anyhow::Result<()> {
    let notifier = Notifier::new(options.environment.notify_socket());
    let served = run(&options, &notifier);
    if let Err(error) = &served {
        notifier.failed(&Chain(error.as_ref()).to_string());
    }
    served
}

fn run(options: &ServeOptions, notifier: &Notifier) -> anyhow::Result<()> {
    let clock = SystemClock::shared();
    let instance = &options.instance;
    let paths = &instance.paths;
    start_logging(options, &clock);
    file::create_dir_private(&paths.dir)?;
    // Hold the lock until the process ends: the instance counts as running while it is held.
    let _running = take_lock(instance)?;
    file::rewrite(&paths.pid_file, std::process::id().to_string().as_bytes(), file::PRIVATE)?;
    tracing::info!(instance = %instance.name, version = build::INFO.version, verbosity = options.verbosity, "starting");
    refresh_links(options);
    // Not inside the macro: tracing evaluates fields only if the level is enabled.
    let open_files = open_files::raise_limit();
    tracing::debug!(limit = open_files, "open files");

    let workers = std::thread::available_parallelism().map_or(2, usize::from).min(4);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(workers)
        .max_blocking_threads(4)
        // Bodies, schemas and expressions can be nested 127 levels deep and are processed recursively; the stack must
        // suffice also in unoptimized builds. Unused stack costs no memory.
        .thread_stack_size(8 << 20)
        .enable_all()
        .build()
        .context("start the runtime")?;
    let served = runtime.block_on(serve_until_signal(options, &clock, notifier));
    // Blocking tasks had their timeouts; the exit must not wait for those that remain.
    runtime.shutdown_background();
    served
}

fn start_logging(options: &ServeOptions, clock: &SharedClock) {
    let level = match options.verbosity {
        ..=1 => Level::INFO,
        2 | 3 => Level::DEBUG,
        4.. => Level::TRACE,
    };
    let form =
        if options.log_format == rdd_cli::record::Format::Json { logging::Form::Json } else { logging::Form::Text };
    let log = options.instance.paths.stderr_log.clone();
    let rotation = RotateStderr::for_log(log, options.environment.keep_logs);
    let output = logging::Output::Stderr(rotation.map(|rotation| Box::new(rotation) as Box<_>));
    logging::install(form, level, clock.clone(), output);
}

/// How long to wait for the lock: a command that cleans up after a stopped daemon holds it for a moment.
const LOCK_PATIENCE: Duration = Duration::from_millis(300);

fn take_lock(instance: &Instance) -> anyhow::Result<ProcessLock> {
    let began = Instant::now();
    loop {
        match ProcessLock::acquire(&instance.paths.lock_file) {
            Err(lock::Error::Held { .. }) if began.elapsed() < LOCK_PATIENCE => {
                std::thread::sleep(LOCK_PATIENCE / 30);
            }
            Err(lock::Error::Held { .. }) => bail!("control plane {:?} is already running", instance.full_name()),
            other => return Ok(other?),
        }
    }
}

/// Updates the links in the bin folder. Errors are logged, because the daemon works without the links.
fn refresh_links(options: &ServeOptions) {
    let bin = &options.instance.paths.bin_dir;
    let refreshed =
        std::env::current_exe().and_then(|program| binlinks::refresh(&program, bin, options.environment.no_symlinks));
    if let Err(error) = refreshed {
        tracing::warn!(error = %Chain(&error), "Failed to link bundled binaries");
    }
}

async fn serve_until_signal(options: &ServeOptions, clock: &SharedClock, notifier: &Notifier) -> anyhow::Result<()> {
    let mut signals = Signals::install().context("handle signals")?;
    notifier.status("opening the datastore");
    let store = open_store(options, clock)?;
    notifier.status("starting the API server");
    let (passthroughs, metrics) = (Arc::new(Passthroughs::new(&options.instance.paths)), Metrics::default());
    let (mut server, mut core) = start_server(options, clock, &store, (&passthroughs, &metrics)).await?;
    tracing::info!(address = %server.address(), revision = %store.status().head, "apiserver is serving");

    let embedded = Embedded::new(options, clock, (&server, &core, &store), (passthroughs, metrics), notifier);
    let mut controllers = None;
    let ended_by = {
        // The controllers start while the signals and the server's tasks are already watched.
        let mut starting = std::pin::pin!(embedded.start());
        loop {
            tokio::select! {
                manager = &mut starting, if controllers.is_none() => {
                    controllers = Some(manager);
                    notifier.ready();
                }
                name = signals.first() => break Ok(name),
                ended = server.ended() => break Err(format!("the API server ended by itself: {ended:?}")),
                ended = core.ended() => break Err(format!("a task of the API server ended by itself: {ended:?}")),
            }
        }
    };
    notifier.stopping();
    let outcome = match ended_by {
        Ok(name) => {
            tracing::info!(signal = name, "shutting down");
            Ok(())
        }
        Err(why) => Err(anyhow::anyhow!(why)),
    };
    // Stop the controllers before the API, because they write status while they stop.
    tokio::select! {
        () = stop(controllers) => {}
        name = signals.first() => bail!("ended at once by a second signal ({name})"),
    }
    tokio::select! {
        drained = server.shutdown(DRAIN) => {
            tracing::info!(cut_off = drained.cut_off, elapsed = ?drained.elapsed, "apiserver has stopped");
        }
        name = signals.first() => bail!("ended at once by a second signal ({name})"),
    }
    // Its tasks must not write any more when the store is closed.
    drop(core);
    store.close().await.context("close the datastore")?;
    tracing::info!("the datastore is closed");
    outcome
}

async fn stop(controllers: Option<Manager>) {
    if let Some(controllers) = controllers {
        controllers.stop(CONTROLLERS_STOP).await;
    }
}

fn open_store(options: &ServeOptions, clock: &SharedClock) -> anyhow::Result<Arc<dyn Store>> {
    let path = &options.instance.paths.datastore;
    let store_options = sqlite::Options {
        clock: clock.clone(),
        allow_network: options.environment.allow_network_home,
        ..sqlite::Options::default()
    };
    let store = sqlite::open(path, store_options)?;
    if let Some(folder) = path.parent() {
        datastore::remove_stale_copies(folder);
    }
    Ok(Arc::new(store))
}

/// The namespaces that exist from the start. `rdd-system` is for the product's own objects.
const NAMESPACES: [&str; 4] = ["default", "kube-system", "kube-public", "rdd-system"];

async fn start_server(
    options: &ServeOptions,
    clock: &SharedClock,
    store: &Arc<dyn Store>,
    (passthroughs, metrics): (&Arc<Passthroughs>, &Metrics),
) -> anyhow::Result<(Server, Core)> {
    let paths = &options.instance.paths;
    let listener = serve::bind(options.secure_port).await?;
    if listener.port() != options.secure_port {
        tracing::warn!(wanted = options.secure_port, bound = listener.port(), "the port is taken, using another");
    }
    let (admin, user) = (Token::random(), Token::random());
    let published = Arc::new(Published {
        path: paths.config.clone(),
        port: listener.port(),
        admin_token: admin.reveal().to_owned(),
        user_token: user.reveal().to_owned(),
    });
    let on_renewal = {
        let published = published.clone();
        Box::new(move |bundle: &str| {
            if let Err(error) = published.write(bundle) {
                tracing::error!(error = %Chain(error.as_ref()), "could not publish the renewed certificate");
            }
        })
    };
    let tls = Tls::open(&paths.tls_dir, clock.clone(), on_renewal)?;
    published.write(&tls.bundle())?;

    let tokens = Tokens::new([(admin, Identity::admin()), (user, Identity::user())]);
    let tls = Arc::new(tls);
    let accounts = Arc::new(ServiceAccounts::new(SigningKey::ensure(&paths.tls_dir)?, clock.clone()));
    let address = format!("https://127.0.0.1:{}", listener.port());
    let mut core = Core::open(core::Parts {
        store: store.clone(),
        clock: clock.clone(),
        version: build::kubernetes_version(),
        endowment: Endowment {
            namespaces: NAMESPACES.map(str::to_owned).to_vec(),
            ca_bundle: {
                let tls = tls.clone();
                Arc::new(move || tls.bundle())
            },
            port: listener.port(),
        },
        tokens: Some(accounts.clone()),
        reviewer: accounts.reviewer(tokens.clone()),
        plugins: Vec::new(),
    })
    .await?;
    accounts.look_up_in(Arc::clone(&core.api().state));
    let (checked, checked_readiness, measured) = (store.clone(), store.clone(), store.clone());
    let logged = clock.clone();
    // Clients look for these names on every Kubernetes API server.
    let health = Health::default()
        .check("log", move || logging::check_flow(logged.steady()))
        .check("etcd", move || datastore::is_writable(&*checked))
        .readiness("etcd-readiness", move || datastore::is_writable(&*checked_readiness));
    let health = core.add_checks(health);
    let folder = paths.datastore.parent().expect("the datastore lies in a folder").to_owned();
    let parts = Parts {
        tls,
        authenticators: Authenticators::standard(tokens).then(accounts.clone()),
        health,
        version: build::kubernetes_version(),
        figures: vec![Box::new(move || datastore::figures(&*measured))],
        backup: Some(Arc::new(OnlineBackup { store: store.clone(), folder })),
        handler: Arc::new(Passthrough::new(
            Arc::clone(passthroughs) as _,
            Arc::new(OpenId::new(accounts, address, core.endpoints())),
        )),
        limits: Limits::for_open_files(open_files::limit()),
        clock: clock.clone(),
    };
    Ok((Server::start_with(listener, parts, vec![metrics.collector()]), core))
}

/// The published kubeconfig. It is written at the start and again when the certificate is renewed.
struct Published {
    path: PathBuf,
    port: u16,
    admin_token: String,
    user_token: String,
}

impl Published {
    fn write(&self, bundle: &str) -> anyhow::Result<()> {
        let config = Kubeconfig::for_daemon(self.port, bundle, &self.admin_token, &self.user_token);
        Ok(file::rewrite(&self.path, config.render()?.as_bytes(), file::PRIVATE)?)
    }
}

/// The signals that end the daemon, and SIGHUP, which does not.
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
}

impl Signals {
    pub(crate) fn install() -> std::io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// Waits for SIGINT or SIGTERM. A closed terminal does not end the daemon.
    pub(crate) async fn first(&mut self) -> &'static str {
        loop {
            tokio::select! {
                _ = self.interrupt.recv() => return "SIGINT",
                _ = self.terminate.recv() => return "SIGTERM",
                _ = self.hangup.recv() => tracing::debug!("the terminal went away"),
            }
        }
    }
}
