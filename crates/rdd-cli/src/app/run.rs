//! `rdd run COMMAND`: runs a command with the containers and the Kubernetes cluster of this instance.

use std::{
    env,
    ffi::{OsStr, OsString},
    fs, io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::ExitStatus,
    time::Duration,
};

use rdd_instance::DockerCli;
use rdd_stdx::process::{self, Process, Signal};
use serde_json::Value;
use tokio::signal::unix::{SignalKind, signal};

use super::{api::Api, condition, names::conditions, property::Assignments, set};
use crate::{
    commands::help,
    context::Context,
    go,
    report::{ExitCode, Failure, Outcome},
    service::ControlPlane,
};

/// The timeout for the App to settle.
const SETTLE_BOUND: Duration = Duration::from_secs(300);
/// Commands that need Kubernetes.
const KUBERNETES_COMMANDS: [&str; 2] = ["kubectl", "helm"];
/// The exit code for a command that a signal ended, as in Go.
const ENDED_BY_SIGNAL: i32 = 255;

/// Ensures that the App is running and settled, runs the command with the instance's environment, and exits with its exit code.
pub fn run(context: &Context<'_>, words: &[OsString]) -> Outcome {
    if words.first().is_some_and(|word| word == "-h" || word == "--help") {
        return help::print(context, &["rdd", "run"].map(str::to_owned));
    }
    // Go's flag parser removes a leading `--` too.
    let words = words.strip_prefix(&[OsString::from("--")]).unwrap_or(words);
    let Some((program, arguments)) = words.split_first() else {
        return Err(Failure::message("run requires a command to execute"));
    };
    let plane = ControlPlane::of(context)?;
    let api = Api::ensure(&plane)?;
    let found = set::find(&api)?;
    // A terminal user who runs one command after the other needs no report that nothing had to be done.
    if !(api.record().is_for_people() && found.as_ref().is_some_and(is_ready)) {
        let further = match found {
            None if needs_kubernetes(program) => [("kubernetes.enabled".to_owned(), "true".to_owned())].into(),
            _ => Assignments::new(),
        };
        let app = set::write_running(&api, true, &further)?;
        set::wait_up_to(&api, &app, Some(SETTLE_BOUND))?;
    }

    let path = path_for(&plane.paths().bin_dir, context.environment.path.as_deref());
    let found = look_up(program, &path).map_err(|why| {
        let name = program.to_string_lossy();
        Failure::message(format!("run {name}: exec: {}: {why}", go::quote(&name)))
    })?;
    let mut command = process::foreground(found);
    command
        .args(arguments)
        .env("PATH", &path)
        .env("KUBECONFIG", plane.paths().short_dir.join("kube.config"))
        .env("RDD_INSTANCE", plane.instance.name.as_str());
    match way_to_engine(&plane.instance.docker_cli(&context.environment), &plane.paths().docker_socket) {
        Way::Context(name) => command.env("DOCKER_CONTEXT", name).env_remove("DOCKER_HOST"),
        Way::Host(host) => command.env("DOCKER_HOST", host).env_remove("DOCKER_CONTEXT"),
    };
    use std::os::unix::process::CommandExt as _;
    // The program sees the name that the user typed, not the path that was found.
    command.arg0(program);
    let status =
        follow(&api, command).map_err(|error| Failure::caused(format!("run {}", program.to_string_lossy()), error))?;
    match status.code() {
        Some(0) => Ok(()),
        code => Err(Failure::silent(ExitCode::Child(code.unwrap_or(ENDED_BY_SIGNAL)))),
    }
}

/// How the command's docker client finds the engine of this instance.
#[derive(Debug, PartialEq, Eq)]
enum Way {
    /// By the name of its Docker context.
    Context(String),
    /// By its address.
    Host(String),
}

/// Chooses the Docker context, which scripts expect, or else the address.
///
/// The context may be missing although the engine runs: the daemon was started with another `DOCKER_CONFIG`, or could not write it. The
/// address works in both cases.
fn way_to_engine(cli: &DockerCli, socket: &Path) -> Way {
    if socket.exists() && !rdd_docker::context::is_described(cli) {
        return Way::Host(cli.host.clone());
    }
    Way::Context(cli.context.clone())
}

/// Whether the App is wanted and has settled at its current generation.
fn is_ready(app: &Value) -> bool {
    let settled = condition::condition(app, conditions::SETTLED);
    let settled = settled.is_some_and(|settled| settled.is_true() && settled.is_of(condition::generation(app)));
    settled && app.pointer("/spec/running") == Some(&Value::Bool(true)) && !condition::is_deleting(app)
}

fn needs_kubernetes(program: &OsStr) -> bool {
    let name = Path::new(program).file_name().unwrap_or_default().to_string_lossy().into_owned();
    KUBERNETES_COMMANDS.contains(&name.strip_suffix(".exe").unwrap_or(&name))
}

/// Prepends the instance's bin folder to PATH. An empty PATH adds nothing: an empty entry would mean the working folder.
fn path_for(bin_dir: &Path, path: Option<&OsStr>) -> OsString {
    let mut joined = bin_dir.as_os_str().to_owned();
    if let Some(path) = path.filter(|path| !path.is_empty()) {
        joined.push(":");
        joined.push(path);
    }
    joined
}

/// Finds the program on the PATH that the command gets. The error is Go's text.
fn look_up(program: &OsStr, path: &OsStr) -> Result<PathBuf, String> {
    if program.as_encoded_bytes().contains(&b'/') {
        let found = PathBuf::from(program);
        return match fs::metadata(&found) {
            Ok(meta) if meta.is_dir() => Err("is a directory".to_owned()),
            Ok(meta) if meta.permissions().mode() & 0o111 == 0 => Err("permission denied".to_owned()),
            Ok(_) => Ok(found),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(format!("stat {}: no such file or directory", found.display()))
            }
            Err(error) => Err(error.to_string()),
        };
    }
    let is_program =
        |file: &PathBuf| fs::metadata(file).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0);
    let found = env::split_paths(path)
        .filter(|folder| folder.is_absolute())
        .map(|folder| folder.join(program))
        .find(is_program);
    found.ok_or_else(|| "executable file not found in $PATH".to_owned())
}

/// Runs the command to its end. Ctrl-C reaches it directly, since it is in the same process group; a SIGTERM or SIGHUP to this process is
/// forwarded.
fn follow(api: &Api<'_>, mut command: std::process::Command) -> io::Result<ExitStatus> {
    let mut child = command.spawn()?;
    let handle = Process::open(child.id())?;
    api.block_on(async {
        let (mut polite, mut hangup) = (signal(SignalKind::terminate())?, signal(SignalKind::hangup())?);
        let mut ended = signal(SignalKind::child())?;
        loop {
            // Checked after the listener was installed: an earlier exit is seen here, a later one wakes the loop.
            if let Some(status) = child.try_wait()? {
                return Ok(status);
            }
            let pass_on = tokio::select! {
                _ = ended.recv() => continue,
                _ = polite.recv() => Signal::TERM,
                _ = hangup.recv() => Signal::HUP,
            };
            if let Some(handle) = &handle {
                handle.signal(pass_on)?;
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::User;

    #[test]
    fn commands_that_need_kubernetes_are_known_by_their_name() {
        for (program, expected) in [
            ("kubectl", true),
            ("/usr/bin/helm", true),
            ("helm.exe", true),
            ("docker", false),
            ("kubectl-neat", false),
            ("", false),
        ] {
            assert_eq!(needs_kubernetes(OsStr::new(program)), expected, "{program}");
        }
    }

    #[test]
    fn an_app_is_ready_when_it_is_on_and_settled_at_its_present_settings() {
        let app = |running: bool, status: &str, observed: i64| {
            serde_json::json!({"metadata": {"generation": 2}, "spec": {"running": running}, "status": {"conditions": [
                {"type": "Settled", "status": status, "observedGeneration": observed}]}})
        };
        assert!(is_ready(&app(true, "True", 2)));
        assert!(
            !is_ready(&app(false, "True", 2)) && !is_ready(&app(true, "False", 2)) && !is_ready(&app(true, "True", 1))
        );
        assert!(!is_ready(&serde_json::json!({"spec": {"running": true}})));
    }

    #[test]
    fn the_engine_is_found_by_its_context_and_where_that_is_missing_by_its_address() {
        let folder = tempfile::tempdir().unwrap();
        let cli = DockerCli {
            folder: folder.path().join(".docker"),
            context: "ours".to_owned(),
            host: "unix:///s".to_owned(),
            default_host: String::new(),
            overridden_by: None,
        };
        let (socket, context) = (folder.path().join("s"), Way::Context("ours".to_owned()));
        assert_eq!(way_to_engine(&cli, &socket), context, "there is no engine of docker's");
        fs::write(&socket, "").unwrap();
        assert_eq!(way_to_engine(&cli, &socket), Way::Host("unix:///s".to_owned()));
        rdd_docker::context::DockerContext::new(cli.clone()).publish().unwrap();
        assert_eq!(way_to_engine(&cli, &socket), context);
    }

    #[test]
    fn our_programs_come_first_and_an_empty_path_stays_empty() {
        let bin = Path::new("/home/x/.rd2/bin");
        assert_eq!(path_for(bin, Some(OsStr::new("/usr/bin:/bin"))), "/home/x/.rd2/bin:/usr/bin:/bin");
        assert_eq!(path_for(bin, None), "/home/x/.rd2/bin");
        assert_eq!(path_for(bin, Some(OsStr::new(""))), "/home/x/.rd2/bin");
    }

    #[test]
    fn a_program_that_is_not_there_is_reported_in_the_known_words() {
        let folder = tempfile::tempdir().unwrap();
        let plain = folder.path().join("plain");
        fs::write(&plain, "").unwrap();
        fs::set_permissions(&plain, fs::Permissions::from_mode(0o644)).unwrap();
        let path = folder.path().as_os_str();
        for (program, why) in [
            ("nothing".into(), "executable file not found in $PATH"),
            ("plain".into(), "executable file not found in $PATH"),
            (plain.clone().into_os_string(), "permission denied"),
            (folder.path().into(), "is a directory"),
            ("./nothing".into(), "stat ./nothing: no such file or directory"),
        ] {
            assert_eq!(look_up(&program, path).unwrap_err(), why, "{program:?}");
        }
        fs::set_permissions(&plain, fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(look_up(OsStr::new("plain"), path).unwrap(), plain);
    }

    #[test]
    fn help_and_an_empty_command_start_nothing() {
        let user = User::new();
        let ran = user.run("run --help");
        assert_eq!(ran.code, 0);
        assert!(ran.stdout.contains("Usage: rdd run"), "{}", ran.stdout);
        for line in ["run", "run --"] {
            let ran = user.run(line);
            assert_eq!((ran.code, ran.messages()), (1, vec!["run requires a command to execute".to_owned()]), "{line}");
        }
        assert_eq!(fs::read_dir(user.home.path()).unwrap().count(), 0);
    }
}
