//! The instances' part of a support bundle: files, logs, configuration and the state of the API server.

use std::{
    fs, io,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use rdd_stdx::process::background;

use super::redact;
use crate::{
    bounded::{Outcome, run},
    processes::Info,
};

/// The maximum number of bytes of a log; the end of a longer one is kept.
const LOG_BYTES_MAX: usize = 1 << 20;
/// The maximum number of files that are listed per home folder.
const FILES_MAX: usize = 10_000;
/// The timeout of a request to the API server.
const API_TAKES: Duration = Duration::from_secs(2);
/// The API paths in a bundle.
const API_PATHS: &[&str] = &["/readyz?verbose", "/metrics"];

/// Lists the files of a home folder and copies its logs and configuration without secrets.
pub(super) fn copy(home: &Path, into: &Path) -> io::Result<()> {
    fs::create_dir(into)?;
    let files = list(home);
    let lines = files.iter().map(|(path, about)| format!("{about} {}\n", path.display()));
    fs::write(into.join("files.txt"), lines.collect::<String>())?;
    for (path, _) in files.iter().filter(|(path, _)| is_worth_copying(path)) {
        let Ok(content) = fs::read(path) else { continue };
        let end = &content[content.len().saturating_sub(LOG_BYTES_MAX)..];
        let flat = path.strip_prefix(home).unwrap_or(path).to_string_lossy().replace('/', "__");
        // A file whose name begins with a dot would be overlooked in the bundle.
        let flat = flat.trim_start_matches('.');
        fs::write(into.join(flat), redact(&String::from_utf8_lossy(end)))?;
    }
    Ok(())
}

/// Whether a file is a log or a configuration in a format that [`redact`] understands. Keys, certificates and databases are never copied.
fn is_worth_copying(path: &Path) -> bool {
    let extension = path.extension().and_then(|extension| extension.to_str());
    matches!(extension, Some("log" | "yaml" | "json" | "pid"))
        || path.file_name().is_some_and(|name| name == "kube.config")
}

fn list(folder: &Path) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    let mut pending = vec![folder.to_owned()];
    while let Some(next) = pending.pop() {
        let Ok(entries) = fs::read_dir(&next) else { continue };
        for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
            let Ok(meta) = path.symlink_metadata() else { continue };
            if found.len() == FILES_MAX {
                return found;
            }
            if meta.is_dir() {
                pending.push(path.clone());
            }
            found.push((path, describe(&meta)));
        }
    }
    found.sort();
    found
}

fn describe(meta: &fs::Metadata) -> String {
    use std::os::unix::fs::MetadataExt;
    let kind = if meta.is_dir() {
        'd'
    } else if meta.is_symlink() {
        'l'
    } else {
        '-'
    };
    format!("{kind}{:04o} {}:{} {:>10}", meta.mode() & 0o7777, meta.uid(), meta.gid(), meta.len())
}

/// The replies of the API server of each instance among these processes, requested with the program that the daemon runs.
pub(super) fn api_state(processes: &[Info]) -> String {
    let mut asked = Vec::new();
    let mut text = String::new();
    for process in processes.iter().filter(|process| process.name == "rdd" && !process.is_zombie()) {
        let (Some(instance), Some(home)) = (process.instance(), process.home()) else { continue };
        if asked.contains(&(instance.clone(), home.clone())) {
            continue;
        }
        for path in API_PATHS {
            text.push_str(&format!("instance {instance}: GET {path}\n{}\n", ask(process.pid, &instance, &home, path)));
        }
        asked.push((instance, home));
    }
    if text.is_empty() { "(no rdd process)\n".to_owned() } else { text }
}

/// Calls a path with the daemon's own `rdd ctl`, or else with kubectl and the instance's kubeconfig.
fn ask(pid: u32, instance: &str, home: &Path, path: &str) -> String {
    let dressed = |program: &str, arguments: &[&str]| {
        let mut command = background(program, Path::new("/"));
        command.args(arguments).env_clear().env("RDD_INSTANCE", instance).env("HOME", home);
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command
    };
    // The daemon's executable, even if its file has been replaced or removed.
    let daemon = format!("/proc/{pid}/exe");
    let first = answer(&mut dressed(&daemon, &["ctl", "get", "--raw", path]));
    let config = first.as_ref().err().and_then(|_| answer(&mut dressed(&daemon, &["svc", "paths", "config"])).ok());
    let second =
        config.map(|config| answer(&mut dressed("kubectl", &["--kubeconfig", config.trim(), "get", "--raw", path])));
    match (first, second) {
        (Ok(text), _) | (Err(_), Some(Ok(text))) => text,
        (Err(reason), None) => format!("({reason})"),
        (Err(reason), Some(Err(other))) => format!("({reason}; with kubectl: {other})"),
    }
}

/// The output of a command that succeeds in time; otherwise the reason why not.
fn answer(command: &mut Command) -> Result<String, String> {
    match run(command, API_TAKES, |_| ()) {
        Ok(Outcome::Ended(output)) if output.code == Some(0) => Ok(output.stdout),
        Ok(Outcome::Ended(output)) => Err(output.stderr.trim().to_owned()),
        Ok(Outcome::TimedOut(_)) => Err(format!("no answer within {API_TAKES:?}")),
        Err(error) => Err(error.to_string()),
    }
}
