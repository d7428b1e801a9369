//! Kubernetes on this host: starts, adopts, watches and stops K3s as one more process of a machine.

use std::{
    io,
    net::{Ipv4Addr, TcpListener},
    path::{Path, PathBuf},
    time::Duration,
};

use rdd_instance::Pool;
use rdd_stdx::{
    backoff::Backoff,
    chain::Chain,
    file::{self, PRIVATE},
    owned,
};
use tokio::time::Instant;

use super::{
    HostDriver, Slot, ask,
    command::run,
    identity::{Seen, descendants},
    images,
    k3s::{self, Layout, Pods, Started},
    machine::{Machine, Shape, read_json, write_json},
    mounts, needs,
    network::Wiring,
    parts::{self, Alive, Part},
    settings::{Kind, Settings},
    teardown,
};
use crate::{
    Cluster, ClusterFound, Error, Found, Foundation, Health, LogOptions, Pending, Reporter, Run, State, Stopped,
    Upstream, Wanted, kubelet, log,
};

/// The backoff of looking for the kubeconfig.
const BACKOFF: Backoff = Backoff::new(Duration::from_millis(10), Duration::from_millis(250));
/// The timeout for killed processes to disappear.
const KILL_TAKES: Duration = Duration::from_secs(10);
/// The grace period of a cluster that is reset or replaced.
const REPLACE_GRACE: Duration = Duration::from_secs(20);

impl Machine {
    fn cluster_started_file(&self) -> PathBuf {
        self.engine.run_dir.join("k3s-started.json")
    }

    fn cluster_started(&self) -> Option<Started> {
        read_json(&self.cluster_started_file())
    }

    fn cluster_process(&self) -> Option<Seen> {
        self.process_of(Part::K3s, &self.cluster_processes())
    }

    fn find_cluster(&self) -> ClusterFound {
        if let (Some(started), Some(_)) = (self.cluster_started(), self.cluster_process()) {
            return ClusterFound::Running { version: started.version };
        }
        match self.used_release() {
            Some(version) => ClusterFound::Stopped { version },
            None => ClusterFound::Absent,
        }
    }

    /// The release that used the cluster's data last; `None` if there is no data, as when K3s could not be started.
    fn used_release(&self) -> Option<String> {
        let version = owned::read_to_string(&k3s::version_file(&self.engine)).ok()?;
        k3s::data_folder(&self.engine).symlink_metadata().ok()?;
        Some(version.trim().to_owned())
    }

    /// The settings that the running engine was started with.
    fn running_settings(&self) -> Result<Settings, Error> {
        let started = self.started_with()?;
        match (self.look()?, started) {
            (Found::Running(_), Some(template)) => self.settings_of(&template),
            _ => Err(Error::NotRunning { vm: self.vm.clone() }),
        }
    }

    fn pods(&self, settings: &Settings) -> Result<Pods, Error> {
        let refused = |missing: &str, remedy: &str| {
            Err(Error::Unsupported { missing: missing.to_owned(), remedy: remedy.to_owned() })
        };
        match &settings.engine {
            // Pods need an engine that rdd starts and stops, and a kubelet that may change control groups.
            _ if !self.host.is_root => refused(
                "only root can run Kubernetes on this machine itself",
                "run as root, or choose the backend lima for a virtual machine",
            ),
            Kind::Foreign(_) => refused(
                "Kubernetes needs an engine of the instance's own",
                "take param.HOST_ENGINE_SOCKET out of the template",
            ),
            Kind::Moby => Ok(Pods::Docker(self.docker_socket(settings))),
            Kind::Containerd => Ok(Pods::Own),
        }
    }
}

impl HostDriver {
    fn node_name(&self) -> String {
        self.instance.name.full()
    }

    async fn start_cluster(&self, machine: &Machine, slot: &Slot, wanted: &Wanted) -> Result<Run, Error> {
        let settings = machine.running_settings()?;
        let pods = machine.pods(&settings)?;
        // The right release runs already: keep its watch, or adopt it after a restart of the daemon.
        if machine.find_cluster() == (ClusterFound::Running { version: wanted.version.clone() }) {
            if let Some(run) = slot.cluster.under_way() {
                return Ok(run);
            }
            if let Some(run) = self.adopt_cluster(machine, slot).await? {
                return Ok(run);
            }
        }
        self.end_cluster(machine, slot, REPLACE_GRACE, "replaced").await?;
        // A reset while the engine was stopped could not remove the containers of pods: do it now.
        if k3s::forgotten_file(&machine.engine).symlink_metadata().is_ok() {
            remove_pods(&pods).await?;
            file::remove_if_present(&k3s::forgotten_file(&machine.engine))?;
        }
        images::provide(machine, &pods, &wanted.images).await?;
        let pool = ensure_address(machine).await?;
        let alive = self.launch(machine, &pods, pool.gateway(), wanted)?;
        // A stop in the meantime did not see the process that was started above.
        if machine.started_with()?.is_none() {
            self.end_cluster(machine, slot, Duration::ZERO, "stopped").await?;
            return Err(Error::NotRunning { vm: machine.vm.clone() });
        }
        Ok(Self::watch_cluster(machine, slot, alive))
    }

    async fn adopt_cluster(&self, machine: &Machine, slot: &Slot) -> Result<Option<Run>, Error> {
        slot.cluster.end().await;
        let Some(seen) = machine.cluster_process() else { return Ok(None) };
        let Some(alive) = Alive::adopt(Part::K3s, &seen)? else { return Ok(None) };
        tracing::info!(vm = machine.vm, pid = seen.pid, "adopted Kubernetes, which an earlier daemon left running");
        Ok(Some(Self::watch_cluster(machine, slot, alive)))
    }

    /// Writes the cluster's files and starts K3s. Assumes that nothing of a cluster runs.
    fn launch(&self, machine: &Machine, pods: &Pods, address: Ipv4Addr, wanted: &Wanted) -> Result<Alive, Error> {
        let engine = &machine.engine;
        let node = self.node_name();
        let ports = k3s::choose_ports(engine, address);
        let support = mounts::cgroup_support();
        let layout = Layout {
            engine,
            pods,
            node: &node,
            address,
            ports,
            version: &wanted.version,
            is_cgroup_v1: support.is_v1,
            debug: false,
        };
        // The kubelet refuses a control group that does not exist; the engine would create it only with its first
        // container.
        mounts::make_cgroups(&engine.cgroup)?;
        if let Some(warning) = kubelet::warn_of_cgroup_v1(&wanted.version, "this machine").filter(|_| support.is_v1) {
            tracing::warn!(vm = machine.vm, warning, "Kubernetes is started on what it does not support");
        }
        file::create_dir_private(&engine.k3s_root)?;
        if k3s::config_file(engine).symlink_metadata().is_err() {
            file::write_atomic(&k3s::config_file(engine), b"{}\n", PRIVATE)?;
        }
        file::write_atomic(&k3s::network_file(engine), k3s::network(engine).as_bytes(), PRIVATE)?;
        // A kubeconfig of an earlier start has other ports and would count as ready.
        file::remove_if_present(&engine.k3s_config)?;
        // The first start on this data: mark it as unused, until `confirm` is called.
        if k3s::version_file(engine).symlink_metadata().is_err() {
            file::write_atomic(&k3s::new_file(engine), b"", PRIVATE)?;
        }
        file::write_atomic(&k3s::version_file(engine), wanted.version.as_bytes(), PRIVATE)?;
        let at = u64::try_from(machine.host.clock.wall().as_millis()).ok();
        let started = Started { version: wanted.version.clone(), address: layout.listens_at(), at };
        write_json(&machine.cluster_started_file(), &started)?;
        let alive = parts::spawn(machine, Part::K3s, &wanted.program, &layout.arguments(), &LogOptions::default())?;
        tracing::info!(vm = machine.vm, version = wanted.version, "started Kubernetes; its log is k3s.log");
        Ok(alive)
    }

    fn watch_cluster(machine: &Machine, slot: &Slot, alive: Alive) -> Run {
        let machine = machine.clone();
        slot.cluster.begin("k3s", |reporter| Box::pin(async move { supervise(&machine, alive, reporter).await }))
    }

    async fn end_cluster(&self, machine: &Machine, slot: &Slot, grace: Duration, word: &str) -> Result<Stopped, Error> {
        let reporter = slot.cluster.end().await;
        let stopped = teardown_cluster(machine, grace).await?;
        if stopped != Stopped::Already {
            tracing::info!(vm = machine.vm, how = ?stopped, "Kubernetes has stopped");
            if let Some(reporter) = reporter {
                reporter.report(stopped.exited(word));
            }
        }
        Ok(stopped)
    }
}

/// Watches K3s: reports it as running when the kubeconfig is written, and its end with the cause from its log.
async fn supervise(machine: &Machine, mut alive: Alive, reporter: &Reporter) {
    let config = machine.engine.k3s_config.clone();
    let written = async {
        let mut delays = BACKOFF.delays();
        while !std::fs::metadata(&config).is_ok_and(|meta| meta.len() > 0) {
            tokio::time::sleep(delays.advance()).await;
        }
    };
    let (_, how) = tokio::select! {
        ended = alive.ended() => ended,
        () = written => {
            reporter.report(State::Running(Health::GOOD));
            alive.ended().await
        }
    };
    let log = machine.engine.folder.join(Part::K3s.log());
    // A killed K3s has logged no cause; errors that it logged earlier are unrelated.
    let cause = if how.starts_with("signal") { log::last_line(&log) } else { log::last_cause(&log) };
    let last_words = match cause {
        Some(cause) => format!("k3s ended ({how}): {cause}"),
        None => format!("k3s ended ({how}) and left no word"),
    };
    reporter.report(State::Exited { last_words });
}

/// Stops the cluster and removes what only a running cluster needs.
///
/// Asks K3s to end within `grace`, kills what remains, and stops the containers of pods in the engine. Idempotent.
async fn teardown_cluster(machine: &Machine, grace: Duration) -> Result<Stopped, Error> {
    let engine = &machine.engine;
    let was_running = !machine.cluster_processes().is_empty();
    let is_marked_running = machine.cluster_started().is_some();
    let asked = teardown::ask(machine, Part::K3s, Instant::now() + grace).await?;
    // K3s is gone, so nothing supervises its shims and the containers of pods below them any more.
    sweep_cluster(machine).await?;
    if was_running || is_marked_running {
        if let Ok(Pods::Docker(socket)) = machine.running_settings().and_then(|settings| machine.pods(&settings))
            && let Err(why) = ask::stop_pods(&socket).await
        {
            tracing::warn!(vm = machine.vm, error = why, "some containers of pods may still run");
        }
        mounts::unmount_below(&[&engine.k3s_root])?;
        teardown::remove_pod_cgroups(machine).await;
        if let Ok(Some(tools)) = machine.tools() {
            // The bridge does not exist if no pod ever ran.
            let _ = run(&tools.ip, &["link", "del", "dev", &k3s::pod_bridge(engine)]).await;
        }
    }
    file::remove_if_present(&engine.k3s_config)?;
    // Last: the file marks a teardown that is not complete.
    file::remove_if_present(&machine.cluster_started_file())?;
    Ok(match (was_running, asked) {
        (false, _) => Stopped::Already,
        (true, true) => Stopped::Graceful,
        (true, false) => Stopped::Forced,
    })
}

async fn sweep_cluster(machine: &Machine) -> Result<(), Error> {
    let deadline = Instant::now() + KILL_TAKES;
    let mut delays = BACKOFF.delays();
    loop {
        let mut left = machine.cluster_processes();
        left.extend(descendants(&left));
        // rdd itself may run in a pod of this cluster; it must not kill itself.
        left.retain(|seen| seen.pid != std::process::id());
        if left.is_empty() {
            return Ok(());
        }
        if Instant::now() >= deadline {
            let what = left.iter().map(|seen| format!("{} ({})", seen.program(), seen.pid)).collect::<Vec<_>>();
            return Err(Error::StillRunning { vm: machine.vm.clone(), what: what.join(", ") });
        }
        for seen in left {
            teardown::kill(&seen)?;
        }
        tokio::time::sleep(delays.advance()).await;
    }
}

/// Returns the engine's address pool and makes sure that its bridge has the first address: a restart of the host's
/// network may have removed it, and then K3s cannot listen there.
async fn ensure_address(machine: &Machine) -> Result<Pool, Error> {
    let pool = Pool::parse(&machine.remembered_network().pool).ok_or_else(|| Error::Unsupported {
        missing: "the engine has no network of its own".to_owned(),
        remedy: "restart the machine".to_owned(),
    })?;
    let is_there = TcpListener::bind((pool.gateway(), 0)).is_ok();
    if !is_there && let Some(tools) = machine.tools()? {
        tracing::warn!(vm = machine.vm, address = %pool.gateway(), "the engine's bridge has lost its address, and gets it again");
        Wiring { engine: &machine.engine, tools: &tools }.ensure_bridge(&pool).await?;
    }
    Ok(pool)
}

async fn remove_pods(pods: &Pods) -> Result<(), Error> {
    let failed = |message| Error::Program { program: "removing the containers of pods".to_owned(), message };
    match pods {
        Pods::Docker(socket) => ask::remove_pods(socket).await.map_err(failed),
        Pods::Own => Ok(()),
    }
}

/// Reads a file; `None` if it is absent or still empty.
fn read_whole(path: &Path) -> Result<Option<String>, Error> {
    match owned::read_to_string(path) {
        Ok(text) => Ok(Some(text).filter(|text| !text.trim().is_empty())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::at("read", path)(error)),
    }
}

impl Cluster for HostDriver {
    fn check<'a>(&'a self, vm: &'a str, program: Option<&'a Path>) -> Pending<'a, Result<(), Error>> {
        Box::pin(async move {
            let machine = self.machine(vm)?;
            machine.expect_whole()?;
            let settings = machine.settings_of(&machine.template()?)?;
            let pods = machine.pods(&settings)?;
            let programs = &machine.host.programs;
            needs::check_host(&needs::HostFacts::read(programs))?;
            program.map_or(Ok(()), |program| needs::check_program(program, &pods, programs, &self.bundles))
        })
    }

    fn used_release(&self, vm: &str) -> Option<String> {
        self.machine(vm).ok()?.used_release()
    }

    fn warning(&self, _vm: &str, version: &str) -> Option<String> {
        kubelet::warn_of_cgroup_v1(version, "this machine").filter(|_| mounts::cgroup_support().is_v1)
    }

    fn started_at<'a>(&'a self, vm: &'a str) -> Pending<'a, Result<Option<Duration>, Error>> {
        Box::pin(async move {
            let started = self.machine(vm)?.cluster_started();
            Ok(started.and_then(|started| started.at).map(Duration::from_millis))
        })
    }

    fn inspect<'a>(&'a self, vm: &'a str) -> Pending<'a, Result<ClusterFound, Error>> {
        Box::pin(async move { Ok(self.machine(vm)?.find_cluster()) })
    }

    fn start<'a>(&'a self, vm: &'a str, wanted: &'a Wanted) -> Pending<'a, Result<Run, Error>> {
        Box::pin(async move {
            let machine = self.machine(vm)?;
            let slot = self.slot(vm);
            let _turn = slot.turn.lock().await;
            machine.expect_whole()?;
            self.start_cluster(&machine, &slot, wanted).await
        })
    }

    fn stop<'a>(&'a self, vm: &'a str, grace: Duration) -> Pending<'a, Result<Stopped, Error>> {
        Box::pin(async move {
            let machine = self.machine(vm)?;
            let slot = self.slot(vm);
            let _turn = slot.turn.lock().await;
            self.end_cluster(&machine, &slot, grace, "stopped").await
        })
    }

    fn kubeconfig<'a>(&'a self, vm: &'a str) -> Pending<'a, Result<Option<String>, Error>> {
        Box::pin(async move {
            let machine = self.machine(vm)?;
            read_whole(&machine.engine.k3s_config)
        })
    }

    fn foundation<'a>(&'a self, vm: &'a str) -> Pending<'a, Result<Option<Foundation>, Error>> {
        Box::pin(async move {
            let engine = self.machine(vm)?.engine;
            let authority = read_whole(&k3s::authority_file(&engine))?;
            let is_new = k3s::new_file(&engine).symlink_metadata().is_ok();
            Ok(authority.map(|authority| Foundation { authority, is_new }))
        })
    }

    fn confirm<'a>(&'a self, vm: &'a str) -> Pending<'a, Result<(), Error>> {
        Box::pin(async move { Ok(file::remove_if_present(&k3s::new_file(&self.machine(vm)?.engine))?) })
    }

    fn upstream<'a>(&'a self, vm: &'a str) -> Pending<'a, Result<Option<Upstream>, Error>> {
        Box::pin(async move { Ok(self.machine(vm)?.cluster_started().map(|started| Upstream::Tcp(started.address))) })
    }

    fn reset<'a>(&'a self, vm: &'a str) -> Pending<'a, Result<(), Error>> {
        Box::pin(async move {
            let machine = self.machine(vm)?;
            let slot = self.slot(vm);
            let _turn = slot.turn.lock().await;
            self.end_cluster(&machine, &slot, REPLACE_GRACE, "forgotten").await?;
            if machine.shape() == Shape::Absent {
                return Ok(());
            }
            match machine.running_settings().and_then(|settings| machine.pods(&settings)) {
                Ok(pods) => remove_pods(&pods).await?,
                // An engine that does not run cannot remove containers; the next start of a cluster does it.
                Err(Error::NotRunning { .. }) => {
                    file::write_atomic(&k3s::forgotten_file(&machine.engine), b"", PRIVATE)?;
                }
                Err(_) => {}
            }
            let removed = tokio::task::spawn_blocking(move || file::remove_dir_if_present(&machine.engine.k3s_root));
            let removed = removed.await.map_err(|error| Error::System {
                action: "remove the data of Kubernetes".to_owned(),
                source: error.into(),
            })?;
            removed
                .inspect_err(|error| tracing::warn!(error = %Chain(error), "the data of Kubernetes is still there"))?;
            Ok(())
        })
    }
}
