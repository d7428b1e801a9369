//! Starts or adopts an engine, up to the point where it can be watched; checks all requirements before it changes
//! anything.

use std::{os::unix::fs::symlink, path::Path};

use rdd_instance::Pool;
use rdd_stdx::file;

use super::{
    ask,
    journal::Journal,
    machine::{Host, Machine},
    network::{Remembered, Tools, Wiring},
    parts::{self, Alive, Part},
    rules::Network,
    settings::{Kind, SOCKET_PATH_MAX, Settings},
    supervise::{Engine, OwnNetwork},
};
use crate::{Error, LogOptions};

/// Starts an engine.
///
/// # Flow
/// Checks that the socket is free and the programs exist, records the start, makes the network, starts the first
/// process. [`Engine::supervise`] starts the rest.
///
/// # Assumptions
/// Nothing of the machine runs, and an earlier start was torn down.
///
/// # Errors
/// [`Error::Unsupported`] if the host lacks something, [`Error::InTheWay`] if another engine uses the socket. After an
/// error, the run folder may exist; the next start tears it down.
pub(super) async fn start(machine: &Machine, log: &LogOptions) -> Result<Engine, Error> {
    machine.check_owner()?;
    let template = machine.template()?;
    let settings = machine.settings_of(&template)?;
    let socket = machine.docker_socket(&settings);
    match &settings.engine {
        Kind::Foreign(_) | Kind::Moby => expect_free(&socket).await?,
        Kind::Containerd => {}
    }
    // Check all requirements before anything is created.
    let launch = Launch::find(&machine.host, &settings)?;
    let journal = Journal::begin(&machine.engine.folder, log, machine.host.clock.clone())?;
    machine.note_start(&template)?;
    let mut engine =
        Engine { machine: machine.clone(), settings, alive: Vec::new(), network: None, log: log.clone(), journal };
    match launch {
        Launch::Attach => attach(&engine, &socket)?,
        Launch::Rootless(program) => {
            // Without root, dockerd starts its own containerd.
            let arguments = parts::dockerd_arguments(machine, &socket, None, log);
            engine.alive.push(parts::spawn(machine, Part::Dockerd, &program, &arguments, log)?);
            engine.journal.info("started dockerd without root; its log is dockerd.log");
        }
        Launch::Own { containerd } => {
            engine.network = Some(wire(machine).await?);
            parts::write_containerd_config(machine)?;
            let arguments = parts::containerd_arguments(machine, log);
            engine.alive.push(parts::spawn(machine, Part::Containerd, &containerd, &arguments, log)?);
            engine.journal.info("started containerd; its log is containerd.log");
        }
    }
    Ok(engine)
}

/// Adopts a running engine. Returns `None` if one of its parts has ended.
pub(super) fn adopt(machine: &Machine) -> Result<Option<Engine>, Error> {
    let Some(template) = machine.started_with()? else { return Ok(None) };
    let settings = machine.settings_of(&template)?;
    let processes = machine.processes();
    let mut alive = Vec::new();
    for part in machine.parts(&settings) {
        let Some(seen) = machine.process_of(*part, &processes) else { return Ok(None) };
        let Some(adopted) = Alive::adopt(*part, &seen)? else { return Ok(None) };
        alive.push(adopted);
    }
    let network = match (&settings.engine, machine.tools()?) {
        (Kind::Foreign(_), _) | (_, None) => None,
        (_, Some(tools)) => {
            let pool = Pool::parse(&machine.remembered_network().pool);
            // The MTU matters only for starting dockerd, which runs already.
            pool.map(|pool| OwnNetwork { tools, pool, mtu: None })
        }
    };
    let journal = Journal::resume(&machine.engine.folder, machine.host.clock.clone())?;
    journal.info("adopted what an earlier daemon left running");
    Ok(Some(Engine { machine: machine.clone(), settings, alive, network, log: LogOptions::default(), journal }))
}

pub(super) const NO_RUNTIME_DIR: &str =
    "XDG_RUNTIME_DIR is not set, and without root a container engine keeps its sockets in that folder";
pub(super) const RUNTIME_DIR_REMEDY: &str = "log in with a session of your own (ssh or the console, not su or sudo), which sets it, or \
     set it to a folder that only you can read and write, and start the service again: rdd service stop && rdd start; or run \
     a virtual machine instead, for which limactl is downloaded: rdd delete && rdd set backend=lima running=true";

/// How the engine is started on this host.
#[derive(Debug)]
enum Launch {
    Attach,
    Rootless(std::path::PathBuf),
    Own { containerd: std::path::PathBuf },
}

/// Checks that this host has what these settings need.
pub(super) fn check(host: &Host, settings: &Settings) -> Result<(), Error> {
    Launch::find(host, settings).map(|_| ())
}

impl Launch {
    fn find(host: &Host, settings: &Settings) -> Result<Self, Error> {
        let launch = Self::find_programs(host, settings);
        if host.has_runtime_dir {
            return launch;
        }
        // Report both problems at once, so that the user has to restart the service only once.
        let (missing, remedy) = (NO_RUNTIME_DIR.to_owned(), RUNTIME_DIR_REMEDY.to_owned());
        Err(match launch {
            Err(Error::Unsupported { missing: also, remedy: other }) => Error::Unsupported {
                missing: format!("{missing}, and {also}"),
                remedy: format!("{remedy}; for an engine without root also: {other}"),
            },
            _ => Error::Unsupported { missing, remedy },
        })
    }

    fn find_programs(host: &Host, settings: &Settings) -> Result<Self, Error> {
        match settings.engine {
            Kind::Foreign(_) => Ok(Self::Attach),
            Kind::Moby if !host.is_root => {
                let script = host.programs.find_rootless()?;
                host.programs.find("rootlesskit")?;
                Ok(Self::Rootless(script))
            }
            Kind::Containerd if !host.is_root => Err(Error::Unsupported {
                missing: "only root can run containerd alone".to_owned(),
                remedy: "run as root, or choose the engine moby".to_owned(),
            }),
            Kind::Moby | Kind::Containerd => {
                Tools::find(&host.programs)?;
                host.programs.find("runc")?;
                if settings.engine == Kind::Moby {
                    host.programs.find("dockerd")?;
                }
                Ok(Self::Own { containerd: host.programs.find("containerd")? })
            }
        }
    }
}

/// Checks that no other engine answers at the socket: `dockerd` would silently replace it.
async fn expect_free(socket: &Path) -> Result<(), Error> {
    let length = socket.as_os_str().len();
    if length > SOCKET_PATH_MAX {
        return Err(Error::Unsupported {
            missing: format!(
                "a socket's path has {SOCKET_PATH_MAX} bytes at most, and {} has {length}",
                socket.display()
            ),
            remedy: "choose a shorter home folder or name".to_owned(),
        });
    }
    // A link was created by an earlier start of this machine, for a foreign engine.
    if socket.symlink_metadata().is_ok_and(|meta| meta.is_symlink()) {
        file::remove_if_present(socket)?;
    }
    if socket.symlink_metadata().is_err() || ask::docker_answers(socket).await.is_err() {
        return Ok(());
    }
    Err(Error::InTheWay { what: format!("another engine answers at {}", socket.display()) })
}

/// Links the machine's socket to an engine that rdd does not own.
fn attach(engine: &Engine, socket: &Path) -> Result<(), Error> {
    let Kind::Foreign(target) = &engine.settings.engine else { return Ok(()) };
    if let Some(folder) = socket.parent() {
        file::create_dir_private(folder)?;
    }
    symlink(target, socket).map_err(Error::at("link", socket))?;
    engine.journal.info(&format!("using the engine at {}", target.display()));
    Ok(())
}

/// Creates the bridge and the packet rules before the first container needs them.
async fn wire(machine: &Machine) -> Result<OwnNetwork, Error> {
    let tools = machine.tools()?.ok_or_else(|| Error::Unsupported {
        missing: "only root can make a network".to_owned(),
        remedy: "run as root".to_owned(),
    })?;
    let wiring = Wiring { engine: &machine.engine, tools: &tools };
    let pool = wiring.choose_pool(&machine.remembered_network())?;
    machine.remember_network(&Remembered { pool: pool.to_string(), bridges: Vec::new() })?;
    wiring.ensure_bridge(&pool).await?;
    wiring.apply_rules(&pool, &[Network::own(&machine.engine.bridge)]).await?;
    let mtu = wiring.small_mtu().await;
    Ok(OwnNetwork { tools, pool, mtu })
}

#[cfg(test)]
mod tests {
    use rdd_instance::{Environment, Instance, Platform};
    use rdd_stdx::clock::SystemClock;

    use super::{super::programs::Programs, *};

    fn problem(is_root: bool, has_runtime_dir: bool, programs: Programs) -> String {
        let environment = Environment { home: Some("/home/ann".into()), ..Environment::default() };
        let short_dir = Instance::resolve(&environment, Platform::Linux).unwrap().paths.short_dir;
        let host = Host { programs, is_root, has_runtime_dir, short_dir, clock: SystemClock::shared() };
        let engine = Kind::Foreign("/run/docker.sock".into());
        let foreign = check(&host, &Settings { engine, docker_socket: None });
        let own = check(&host, &Settings { engine: Kind::Moby, docker_socket: None });
        // Our sockets lie there, also for a foreign engine.
        assert_eq!(foreign.is_err(), !has_runtime_dir);
        own.map_or_else(|error| error.to_string(), |()| String::new())
    }

    // Finding E-8
    #[test]
    fn without_root_and_a_runtime_folder_everything_that_is_missing_is_named_with_what_to_do() {
        let problem = problem(false, false, Programs::nowhere());
        let parts = [
            "XDG_RUNTIME_DIR is not set",
            "dockerd-rootless.sh, which could do without, is not installed; ",
            "log in with a session of your own",
            "rdd service stop && rdd start",
            "rdd delete && rdd set backend=lima running=true",
            "apt-get install docker.io rootlesskit",
        ];
        let mut rest = problem.as_str();
        for part in parts {
            rest = rest.split_once(part).unwrap_or_else(|| panic!("{part:?} is missing in {problem}")).1;
        }
    }

    #[test]
    fn with_a_runtime_folder_it_is_not_spoken_of() {
        for is_root in [false, true] {
            let problem = problem(is_root, true, Programs::nowhere());
            assert!(!problem.is_empty() && !problem.contains("XDG_RUNTIME_DIR"), "{problem}");
        }
    }
}
