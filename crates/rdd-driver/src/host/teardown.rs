//! Bringing an engine to an end, from whatever state it is in, so that nothing of it is left but its data.

use std::{
    io,
    os::unix::{fs::FileTypeExt, net::UnixStream},
    path::{Path, PathBuf},
    time::Duration,
};

use rdd_stdx::{backoff::Backoff, chain::Chain, file, process::Signal};
use tokio::time::Instant;

use super::{
    identity::{self, Seen, descendants},
    machine::Machine,
    mounts,
    network::Wiring,
    parts::Part,
};
use crate::{Error, Stopped};

/// How long `containerd` may take to end; it has nothing to wait for.
const CONTAINERD_TAKES: Duration = Duration::from_secs(10);
/// How long the last helpers of an engine that ended may take to follow it.
const HELPERS_TAKE: Duration = Duration::from_secs(3);
/// How long the kernel may take to end what was killed.
const KILL_TAKES: Duration = Duration::from_secs(10);
/// How often everything is looked at while it ends, at first and at most: a look reads all of `/proc`.
const BACKOFF: Backoff = Backoff::new(Duration::from_millis(5), Duration::from_millis(160));

/// Asks everything of a machine to end, kills what has not when `grace` is over, and removes what only a running engine
/// needs: mounts, control groups, network, sockets.
pub(super) async fn teardown(machine: &Machine, grace: Duration) -> Result<Stopped, Error> {
    let deadline = Instant::now() + grace;
    let was_running = !machine.processes().is_empty() || is_attached(machine)?;
    let mut graceful = true;
    // Kubernetes first: it would start again what the engine stops.
    graceful &= ask(machine, Part::K3s, deadline).await?;
    graceful &= ask(machine, Part::Dockerd, deadline).await?;
    graceful &= ask_containers(machine, deadline).await?;
    let deadline = deadline.min(Instant::now() + CONTAINERD_TAKES);
    graceful &= ask(machine, Part::Containerd, deadline).await?;
    graceful &= sweep(machine, graceful).await?;
    clear(machine).await?;
    Ok(match (was_running, graceful) {
        (false, _) => Stopped::Already,
        (true, true) => Stopped::Graceful,
        (true, false) => Stopped::Forced,
    })
}

/// Whether the machine uses an engine that somebody else runs.
fn is_attached(machine: &Machine) -> Result<bool, Error> {
    Ok(matches!(machine.look()?, crate::Found::Running(_)))
}

fn signal_failed(action: &str) -> impl FnOnce(io::Error) -> Error + use<> {
    let action = action.to_owned();
    move |source| Error::System { action, source }
}

/// Asks a part to end. `false` if it has not by the deadline.
pub(super) async fn ask(machine: &Machine, part: Part, deadline: Instant) -> Result<bool, Error> {
    let seen = machine.process_of(part, &machine.processes());
    let failed = || signal_failed(&format!("stop {}", part.name()));
    let Some(process) = seen.map(|seen| seen.open()).transpose().map_err(failed())?.flatten() else { return Ok(true) };
    process.signal(Signal::TERM).map_err(failed())?;
    match tokio::time::timeout_at(deadline, process.ended()).await {
        Ok(ended) => ended.map(|()| true).map_err(failed()),
        Err(_) => Ok(false),
    }
}

/// Lets paused containers go on, so that they hear what they are told.
fn thaw(machine: &Machine) {
    mounts::cgroups(&machine.engine.cgroup).iter().for_each(|group| mounts::thaw_cgroup(group));
}

/// Processes of a machine that stand between the engine and one container each.
fn shims(machine: &Machine) -> Vec<Seen> {
    let mut processes = machine.processes();
    processes.retain(|seen| seen.program().starts_with("containerd-shim"));
    processes
}

/// Asks containers to end that no engine asked. `false` if some have not by the deadline.
async fn ask_containers(machine: &Machine, deadline: Instant) -> Result<bool, Error> {
    let mut asked = Vec::new();
    let mut delays = BACKOFF.delays();
    loop {
        thaw(machine);
        let shims = shims(machine);
        let containers: Vec<Seen> =
            descendants(&shims).into_iter().filter(|seen| shims.iter().any(|shim| shim.pid == seen.parent)).collect();
        if containers.is_empty() {
            return Ok(true);
        }
        for container in containers {
            if !asked.contains(&container) {
                container.signal(Signal::TERM).map_err(signal_failed("stop a container"))?;
                asked.push(container);
            }
        }
        if Instant::now() >= deadline {
            return Ok(false);
        }
        tokio::time::sleep(delays.advance()).await;
    }
}

/// Kills what is left, if it does not end by itself in a moment. `false` if something had to be killed.
async fn sweep(machine: &Machine, patient: bool) -> Result<bool, Error> {
    let began = Instant::now();
    let mut graceful = true;
    let mut delays = BACKOFF.delays();
    loop {
        let left = left_of(machine);
        if left.is_empty() {
            return Ok(graceful);
        }
        if began.elapsed() > HELPERS_TAKE + KILL_TAKES {
            let what = left.iter().map(|seen| format!("{} ({})", seen.program(), seen.pid)).collect::<Vec<_>>();
            return Err(Error::StillRunning { vm: machine.vm.clone(), what: what.join(", ") });
        }
        if !patient || began.elapsed() > HELPERS_TAKE {
            graceful = false;
            thaw(machine);
            for seen in left {
                kill(&seen)?;
            }
        }
        tokio::time::sleep(delays.advance()).await;
    }
}

/// Without root, processes of other users of a container's namespace cannot be killed from here. They end with their
/// container's first process, which can.
pub(super) fn kill(seen: &Seen) -> Result<(), Error> {
    match seen.signal(Signal::KILL) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
        other => other.map_err(signal_failed("kill a process")),
    }
}

/// Everything that belongs to a machine: its processes, what descends from them, what is in its control group.
fn left_of(machine: &Machine) -> Vec<Seen> {
    let mut left = machine.processes();
    // We ourselves may descend from a container of this engine, and our own daemon is no part of it.
    let own = std::process::id();
    for seen in descendants(&left) {
        if seen.pid != own && !left.contains(&seen) {
            left.push(seen);
        }
    }
    for pid in mounts::cgroups(&machine.engine.cgroup).iter().flat_map(|group| mounts::cgroup_processes(group)) {
        left.extend(identity::alive(pid).filter(|seen| seen.pid != own && !left.contains(seen)));
    }
    left
}

/// Removes what only a running engine needs. Nothing of it runs any more.
async fn clear(machine: &Machine) -> Result<(), Error> {
    let engine = &machine.engine;
    mounts::unmount_below(&[&engine.data_root, &engine.containerd_root, &engine.k3s_root, &engine.run_dir])?;
    remove_cgroups(machine).await;
    let remembered = machine.remembered_network();
    // Without the tools there is no network of ours.
    if let Ok(Some(tools)) = machine.tools() {
        Wiring { engine, tools: &tools }.remove(&remembered.bridges).await?;
    }
    let settings = machine.started_with()?.and_then(|template| machine.settings_of(&template).ok());
    if let Some(settings) = settings {
        remove_socket(&machine.docker_socket(&settings))?;
    }
    remove_socket(&engine.docker_socket)?;
    // Last, since it is how the next daemon knows that there is something to clear.
    machine.remove_folder(&engine.run_dir).await
}

/// Groups can be busy for a moment after their last process has ended. One that stays costs nothing but its name.
async fn remove_cgroups(machine: &Machine) {
    remove_groups(mounts::cgroups(&machine.engine.cgroup)).await;
}

/// The control groups that the kubelet makes below that of the engine.
const POD_GROUPS: &str = "kubepods";

/// Removes the control groups of pods. Nothing of the cluster runs any more.
pub(super) async fn remove_pod_cgroups(machine: &Machine) {
    let groups = mounts::cgroups(&machine.engine.cgroup).into_iter().map(|group| group.join(POD_GROUPS));
    remove_groups(groups.filter(|group| group.is_dir()).collect()).await;
}

async fn remove_groups(groups: Vec<PathBuf>) {
    for group in groups {
        let deadline = Instant::now() + HELPERS_TAKE;
        let mut delays = BACKOFF.delays();
        while let Err(error) = mounts::remove_cgroup(&group) {
            if Instant::now() >= deadline {
                tracing::warn!(path = %group.display(), error = %Chain(&error), "a control group was not removed");
                break;
            }
            tokio::time::sleep(delays.advance()).await;
        }
    }
}

/// Removes a link that we made, or a socket where nobody listens. Anything else is not ours.
fn remove_socket(path: &Path) -> Result<(), Error> {
    let Ok(meta) = path.symlink_metadata() else { return Ok(()) };
    let is_deserted = || UnixStream::connect(path).is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused);
    if meta.is_symlink() || (meta.file_type().is_socket() && is_deserted()) {
        file::remove_if_present(path)?;
    }
    Ok(())
}
