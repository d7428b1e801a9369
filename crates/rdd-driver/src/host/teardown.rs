//! Ends an engine in any state, so that only its data remains.

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

/// The timeout for `containerd` to end; it has no containers to wait for.
const CONTAINERD_TAKES: Duration = Duration::from_secs(10);
/// The time that helper processes get to end after their engine.
const HELPERS_TAKE: Duration = Duration::from_secs(3);
/// The timeout for killed processes to disappear.
const KILL_TAKES: Duration = Duration::from_secs(10);
/// The backoff between observations of a teardown; each observation reads all of `/proc`.
const BACKOFF: Backoff = Backoff::new(Duration::from_millis(5), Duration::from_millis(160));

/// Stops all processes of a machine and removes what only a running engine needs.
///
/// # Flow
/// Asks K3s, `dockerd`, the remaining containers and `containerd` to end, in this order, within `grace`; kills what is
/// left; then removes mounts, control groups, network, sockets and the run folder.
///
/// # Guarantees
/// Idempotent, from any state: an interrupted teardown is completed by the next one.
///
/// # Errors
/// [`Error::StillRunning`] if processes survive the kill.
pub(super) async fn teardown(machine: &Machine, grace: Duration) -> Result<Stopped, Error> {
    let deadline = Instant::now() + grace;
    let was_running = !machine.processes().is_empty() || is_attached(machine)?;
    let mut graceful = true;
    // Kubernetes first: it would restart the containers that the engine stops.
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

/// Reports whether the machine uses a running engine: for a machine without processes, one that rdd does not own.
fn is_attached(machine: &Machine) -> Result<bool, Error> {
    Ok(matches!(machine.look()?, crate::Found::Running(_)))
}

fn signal_failed(action: &str) -> impl FnOnce(io::Error) -> Error + use<> {
    let action = action.to_owned();
    move |source| Error::System { action, source }
}

/// Asks a part to end. Returns `false` if it is still running at the deadline.
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

/// Resumes paused containers, so that they receive signals.
fn thaw(machine: &Machine) {
    mounts::cgroups(&machine.engine.cgroup).iter().for_each(|group| mounts::thaw_cgroup(group));
}

/// The containerd shims of a machine, one for each container.
fn shims(machine: &Machine) -> Vec<Seen> {
    let mut processes = machine.processes();
    processes.retain(|seen| seen.program().starts_with("containerd-shim"));
    processes
}

/// Asks the containers that no engine stopped to end. Returns `false` if some are still running at the deadline.
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
        // Each container is asked once, and also those that appear while the loop runs.
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

/// Kills the processes that remain. Helpers get a moment to end by themselves first, if `patient`. Returns `false` if
/// it killed any.
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

/// Kills a process. Without root, processes of other users in a container's namespace cannot be killed from here; they
/// end with the container's first process, which can be killed.
pub(super) fn kill(seen: &Seen) -> Result<(), Error> {
    match seen.signal(Signal::KILL) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
        other => other.map_err(signal_failed("kill a process")),
    }
}

/// All processes of a machine: those with its mark, their descendants, and those in its control group.
fn left_of(machine: &Machine) -> Vec<Seen> {
    let mut left = machine.processes();
    // rdd itself may run in a container of this engine; it must not kill itself.
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

/// Removes what only a running engine needs. Assumes that no process of it runs.
async fn clear(machine: &Machine) -> Result<(), Error> {
    let engine = &machine.engine;
    mounts::unmount_below(&[&engine.data_root, &engine.containerd_root, &engine.k3s_root, &engine.run_dir])?;
    remove_cgroups(machine).await;
    let remembered = machine.remembered_network();
    // Without the tools, the driver has created no network.
    if let Ok(Some(tools)) = machine.tools() {
        Wiring { engine, tools: &tools }.remove(&remembered.bridges).await?;
    }
    let settings = machine.started_with()?.and_then(|template| machine.settings_of(&template).ok());
    if let Some(settings) = settings {
        remove_socket(&machine.docker_socket(&settings))?;
    }
    remove_socket(&engine.docker_socket)?;
    // Last: the run folder shows the next daemon that a teardown is not complete.
    machine.remove_folder(&engine.run_dir).await
}

/// Removes the machine's control groups. A group can be busy for a moment after its last process; one that stays is
/// harmless.
async fn remove_cgroups(machine: &Machine) {
    remove_groups(mounts::cgroups(&machine.engine.cgroup)).await;
}

/// The control group of pods, which the kubelet creates below that of the engine.
const POD_GROUPS: &str = "kubepods";

/// Removes the control groups of pods. Assumes that the cluster's processes have ended.
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

/// Removes a link or a socket on which no process listens. Other files do not belong to rdd and stay.
fn remove_socket(path: &Path) -> Result<(), Error> {
    let Ok(meta) = path.symlink_metadata() else { return Ok(()) };
    let is_deserted = || UnixStream::connect(path).is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused);
    if meta.is_symlink() || (meta.file_type().is_socket() && is_deserted()) {
        file::remove_if_present(path)?;
    }
    Ok(())
}
