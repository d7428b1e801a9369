//! `rdd limavm shell INSTANCE [COMMAND…]` and `rdd shell [COMMAND…]`: run a shell or a command in a VM.

use std::{
    ffi::{OsStr, OsString},
    fs,
    os::unix::{fs::PermissionsExt, process::CommandExt},
    path::{Path, PathBuf},
};

use rdd_stdx::process;
use serde_json::Value;

use super::{Vm, find};
use crate::{
    app::{
        api::Api,
        condition,
        names::{self, conditions},
    },
    commands::help,
    context::Context,
    report::{Failure, Outcome},
    service::ControlPlane,
};

/// A parsed command line.
#[derive(Debug, Default, PartialEq, Eq)]
struct Request {
    help: bool,
    shell: Option<OsString>,
    workdir: Option<OsString>,
    instance: String,
    command: Vec<OsString>,
}

/// Opens a shell in a VM, or runs a command in it, and exits with its exit code.
pub(super) fn run(plane: &ControlPlane<'_>, words: &[OsString]) -> Outcome {
    let request = parse(words, None)?;
    if request.help {
        return help::print(plane.context, &["rdd", "limavm", "shell"].map(str::to_owned));
    }
    open(plane, &request, None)
}

/// Like [`run`], in the VM of the App.
pub(in crate::app) fn run_in_app(context: &Context<'_>, words: &[OsString]) -> Outcome {
    let request = parse(words, Some(names::APP_VM))?;
    if request.help {
        return help::print(context, &["rdd", "shell"].map(str::to_owned));
    }
    // A user who has not started the App yet does not know the name of its VM.
    open(&ControlPlane::of(context)?, &request, Some("start the App first: rdd start"))
}

fn open(plane: &ControlPlane<'_>, request: &Request, hint_if_absent: Option<&str>) -> Outcome {
    let api = Api::ensure(plane)?;
    let vm = find(&api, &request.instance);
    let vm = vm.map_err(|failure| hint_if_absent.into_iter().fold(failure, Failure::hint))?;
    refuse_host(&api, &vm)?;
    let name = &vm.name;
    // The LimaVM may exist in the API before its VM has been created.
    if !plane.paths().lima_home.join(name).is_dir() {
        return Err(Failure::message(format!("instance {name:?} does not exist on disk")));
    }
    let running = condition::condition(&vm.object, conditions::RUNNING);
    if !running.as_ref().is_some_and(condition::Condition::is_true) {
        let state = running.map_or_else(|| "Unknown".to_owned(), |running| running.reason);
        let hint = format!("use 'rdd lima start {name}' first");
        return Err(Failure::message(format!("instance {name:?} is not running (status: {state}), {hint}")));
    }
    let limactl = find_limactl(plane).ok_or_else(|| {
        let hint = "install Lima, or set RDD_LIMACTL to its path";
        Failure::message("limactl is not on PATH; it is needed to open a shell in a VM").hint(hint)
    })?;
    let mut command = process::foreground(&limactl);
    command.env("LIMA_HOME", &plane.paths().lima_home).arg("shell");
    for (flag, value) in [("--shell", &request.shell), ("--workdir", &request.workdir)] {
        command.args(value.iter().flat_map(|value| [OsStr::new(flag), value]));
    }
    // limactl knows the keys and ports of the VM, and exits with the exit code of the command.
    let error = command.arg(name).args(&request.command).exec();
    Err(Failure::caused(format!("run {}", limactl.display()), error))
}

/// Parses our flags up to the first other word. The rest is the name of the VM, unless that is `known`, and the command to run.
fn parse(words: &[OsString], known: Option<&str>) -> Outcome<Request> {
    let mut request = Request::default();
    let mut words = words.iter();
    let mut rest = Vec::new();
    while let Some(word) = words.next() {
        let text = word.to_string_lossy();
        let (name, value) = match text.split_once('=') {
            Some((name, value)) => (name, Some(OsString::from(value))),
            None => (text.as_ref(), None),
        };
        let slot = match name {
            "-h" | "--help" => return Ok(Request { help: true, ..request }),
            "--shell" => &mut request.shell,
            "--workdir" => &mut request.workdir,
            "--" => {
                rest.extend(words.cloned());
                break;
            }
            _ if name.starts_with("--") => return Err(Failure::message(format!("unknown flag: {name}"))),
            _ if name.len() > 1 && name.starts_with('-') => {
                let short = name[1..].chars().next().unwrap_or_default();
                return Err(Failure::message(format!("unknown shorthand flag: '{short}' in {name}")));
            }
            _ => {
                rest.push(word.clone());
                rest.extend(words.cloned());
                break;
            }
        };
        let missing = || Failure::message(format!("flag needs an argument: {name}"));
        *slot = Some(value.or_else(|| words.next().cloned()).ok_or_else(missing)?);
    }
    let mut rest = rest.into_iter();
    request.instance = match known {
        Some(known) => known.to_owned(),
        None => {
            let first = rest.next().ok_or_else(|| Failure::message("requires at least 1 arg(s), only received 0"))?;
            first.to_string_lossy().into_owned()
        }
    };
    request.command = rest.collect();
    Ok(request)
}

/// Refuses a LimaVM with the host driver: it has no VM, its containers run on the host.
fn refuse_host(api: &Api<'_>, vm: &Vm) -> Outcome {
    let config_map = condition::text(&vm.object, "/status/templateConfigMap");
    if config_map.is_empty() {
        return Ok(());
    }
    let path = names::object(&names::config_maps_in(&vm.namespace), config_map);
    let config_map = api.find(&path).map_err(|error| Failure::caused("failed to get template ConfigMap", error))?;
    let template = config_map.as_ref().and_then(|map| map["data"].get(names::TEMPLATE_KEY)?.as_str());
    if template.is_some_and(is_host) {
        let message = format!("LimaVM {:?} has no VM: its containers run on this host (vmType host)", vm.name);
        return Err(
            Failure::message(message).hint("to use its containers: rdd run COMMAND, for example: rdd run docker ps")
        );
    }
    Ok(())
}

/// Whether a template selects the host driver.
pub(in crate::app) fn is_host(template: &str) -> bool {
    let read: Result<Value, _> = serde_saphyr::from_str(template);
    read.is_ok_and(|template| template.get("vmType").and_then(Value::as_str) == Some("host"))
}

/// Finds `limactl`: `RDD_LIMACTL`, then PATH, then the instance's bin folder.
pub(super) fn find_limactl(plane: &ControlPlane<'_>) -> Option<PathBuf> {
    let environment = &plane.context.environment;
    if let Some(chosen) = &environment.limactl {
        return Some(PathBuf::from(chosen));
    }
    let path = environment.path.clone().unwrap_or_default();
    let folders = std::env::split_paths(&path).filter(|folder| folder.is_absolute());
    folders
        .chain([plane.paths().bin_dir.clone()])
        .map(|folder| folder.join("limactl"))
        .find(|file| is_executable_file(file))
}

fn is_executable_file(file: &Path) -> bool {
    fs::metadata(file).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::User;

    fn words(line: &str) -> Vec<OsString> {
        line.split_whitespace().map(OsString::from).collect()
    }

    #[test]
    fn flags_come_before_the_instance_and_what_follows_is_the_machines() {
        let request = parse(&words("--shell /bin/sh --workdir=/tmp rd ls --help -l"), None).unwrap();
        assert_eq!(request.instance, "rd");
        assert_eq!((request.shell.unwrap(), request.workdir.unwrap()), ("/bin/sh".into(), "/tmp".into()));
        assert_eq!(request.command, words("ls --help -l"));
        assert!(parse(&words("--help"), None).unwrap().help);
        assert_eq!(parse(&words("-- rd"), None).unwrap().instance, "rd");
        let request = parse(&words("--workdir=/tmp ls -l"), Some("rd")).unwrap();
        assert_eq!((request.instance.as_str(), request.command), ("rd", words("ls -l")));
        assert!(parse(&[], Some("rd")).unwrap().command.is_empty());
    }

    #[test]
    fn wrong_usage_is_told_in_the_known_words() {
        for (line, message) in [
            ("", "requires at least 1 arg(s), only received 0"),
            ("--shell", "flag needs an argument: --shell"),
            ("--nothing rd", "unknown flag: --nothing"),
            ("-x rd", "unknown shorthand flag: 'x' in -x"),
        ] {
            assert_eq!(parse(&words(line), None).unwrap_err().text(), message);
            assert_eq!(User::new().run(&format!("limavm shell {line}")).messages(), [message]);
        }
    }

    #[test]
    fn a_template_says_whether_there_is_a_machine() {
        for (template, expected) in [
            ("vmType: host\nparam:\n  X: y\n", true),
            ("vmType: \"host\"", true),
            ("vmType: qemu", false),
            ("# vmType: host\n{}", false),
            ("images: []\nparam:\n  vmType: host\n", false),
            (": nonsense [", false),
        ] {
            assert_eq!(is_host(template), expected, "{template}");
        }
    }
}
