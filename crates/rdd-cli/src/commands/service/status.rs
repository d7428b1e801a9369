//! `rdd service status`: shows whether the instance exists and runs.

use std::{collections::BTreeMap, fs, time::Duration};

use jiff::Timestamp;
use serde::Serialize;

use crate::{
    args::Status,
    go,
    record::Level,
    report::{Failure, Outcome},
    service::{
        ControlPlane,
        deadline::Deadline,
        readiness::{self, Seen, Verdict},
        state::State,
    },
};

/// The timeout of the readiness check for `--output`; a daemon that takes longer counts as not ready.
const LOOK_BOUND: Duration = Duration::from_secs(15);

/// The timeout of the short report's question whether the daemon refuses writes.
const READ_ONLY_LOOK_BOUND: Duration = Duration::from_secs(2);

/// The state as JSON or YAML.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    name: String,
    created: bool,
    running: bool,
    pid: Option<u32>,
    ready: bool,
    /// Why the daemon refuses writes; absent if it accepts them.
    read_only: Option<String>,
    server: Option<String>,
    version: Option<String>,
    started_at: Option<String>,
    paths: BTreeMap<&'static str, String>,
}

/// Prints the state of the instance. Succeeds whatever the state is.
pub fn run(plane: &ControlPlane<'_>, args: &Status) -> Outcome {
    let state = plane.observe()?;
    let Some(format) = args.output.as_deref() else {
        let record = plane.record().showing(Level::Info);
        lines(&plane.name(), state, plane.context.is_developer_mode()).iter().for_each(|line| record.info(line));
        let deadline = Deadline::after(Some(READ_ONLY_LOOK_BOUND));
        if state.daemon.is_running()
            && let Some(reason) = readiness::look_for_read_only(plane, deadline)
        {
            record.warn(&reason);
        }
        return Ok(());
    };
    let encode: fn(&Report) -> Outcome<String> = match format {
        "json" => |report| Ok(serde_json::to_string_pretty(report)? + "\n"),
        "yaml" => |report| Ok(serde_saphyr::to_string(report)?),
        _ => {
            let format = go::quote(format);
            return Err(Failure::message(format!("unknown output format {format}; valid formats: json or yaml")));
        }
    };
    // A daemon that does not run is not asked, which would take until the timeout.
    let seen = if state.daemon.is_running() {
        readiness::look(plane, Deadline::after(Some(LOOK_BOUND)))
    } else {
        Seen::default()
    };
    plane.context.printer.text(&encode(&report(plane, state, seen))?)?;
    Ok(())
}

fn lines(name: &str, state: State, developer: bool) -> Vec<String> {
    let mut lines = vec![
        format!("{name:?} control plane has been created: {}", state.created),
        format!("{name:?} control plane has been started: {}", state.daemon.is_running()),
        format!("{name:?} control plane PID is: {}", state.daemon.pid_or_zero()),
    ];
    lines.extend(developer.then(|| "developer mode is enabled".to_owned()));
    lines
}

fn report(plane: &ControlPlane<'_>, state: State, seen: Seen) -> Report {
    let running = state.daemon.is_running();
    // The daemon writes its PID once, when it starts, so the time of the file is the start time.
    let written = fs::metadata(&plane.paths().pid_file).and_then(|meta| meta.modified());
    let started = written.ok().filter(|_| running).and_then(|time| Timestamp::try_from(time).ok());
    Report {
        name: plane.name(),
        created: state.created,
        running,
        pid: Some(state.daemon.pid_or_zero()).filter(|pid| *pid != 0),
        ready: readiness::judge(&seen, plane.expected_version()) == Verdict::Ready,
        read_only: seen.failing.filter(|_| seen.read_only),
        server: seen.server,
        version: seen.version,
        started_at: started.map(|time| time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()),
        paths: plane.paths().published().map(|(key, path)| (key, path.to_string_lossy().into_owned())).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{service::state::Daemon, testing::User};
    use rdd_stdx::lock::ProcessLock;

    #[test]
    fn the_lines_are_those_that_scripts_know() {
        let running = State { created: true, daemon: Daemon::Running(Some(7)) };
        assert_eq!(
            lines("rancher-desktop-2", running, true),
            [
                "\"rancher-desktop-2\" control plane has been created: true",
                "\"rancher-desktop-2\" control plane has been started: true",
                "\"rancher-desktop-2\" control plane PID is: 7",
                "developer mode is enabled",
            ]
        );
        assert_eq!(lines("x", State { created: false, daemon: Daemon::Stopped }, false).len(), 3);
    }

    #[test]
    fn the_text_is_shown_at_any_level_on_standard_error() {
        let ran = User::new().run("svc status --log-level=fatal --log-format=json");
        assert_eq!((ran.code, ran.stdout.as_str()), (0, ""));
        assert_eq!(ran.stderr.lines().count(), 3);
        assert!(ran.stderr.contains("control plane has been started: false"), "{}", ran.stderr);
    }

    #[test]
    fn the_data_tells_what_runs_and_what_does_not() {
        let user = User::new();
        user.run("svc create");
        let read = |line| serde_json::from_str::<serde_json::Value>(&user.run(line).stdout).unwrap();
        let stopped = read("svc status -o json");
        assert_eq!(stopped["name"], "rancher-desktop-2");
        assert_eq!((&stopped["created"], &stopped["running"]), (&true.into(), &false.into()));
        assert!(stopped["pid"].is_null() && stopped["startedAt"].is_null() && stopped["server"].is_null());
        assert!(stopped["paths"]["config"].as_str().unwrap().ends_with("/config.yaml"));

        let paths = user.instance().paths;
        let _lock = ProcessLock::acquire(&paths.lock_file).unwrap();
        fs::write(&paths.pid_file, "1").unwrap();
        let running = read("svc status -o json");
        assert_eq!((&running["running"], &running["ready"]), (&true.into(), &false.into()));
        assert_eq!(running["pid"], std::process::id(), "from the kernel, not from the file");
        assert!(running["startedAt"].as_str().unwrap().ends_with('Z'));
        assert!(user.run("svc status -o yaml").stdout.contains("running: true\n"));
        assert_eq!(user.run("svc status -o xml").code, 1);
    }
}
