//! Collects the observed state of an instance for `rdd status`, without starting anything.

use std::{
    collections::BTreeSet,
    fs, io,
    io::{Read, Write},
    os::unix::net::UnixStream,
    path::Path,
    time::Duration,
};

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;

use crate::{
    app::{
        api::{Api, Error},
        condition, names,
        remedy::Places,
    },
    record,
    report::Outcome,
    service::{
        ControlPlane,
        deadline::Deadline,
        readiness::{self, Verdict},
        state,
    },
};

/// The timeout of every call to the daemon, the API and the engine; one that takes longer counts as not ready.
const CALL_BOUND: Duration = Duration::from_secs(3);

/// The request that Docker clients send to find out whether the engine answers.
const PING: &[u8] = b"GET /_ping HTTP/1.0\r\nHost: docker\r\n\r\n";

/// The observed state of an instance: everything that the status tree is computed from.
#[derive(Debug, Clone)]
pub struct Facts {
    /// The instance's name, as users see it.
    pub instance: String,
    /// The time of the observation; ages are relative to it.
    pub now: Timestamp,
    /// Whether the instance has been created.
    pub created: bool,
    /// The state of the control plane.
    pub daemon: Daemon,
    /// The registered controller managers; `None` if the list could not be read.
    pub discovery: Option<Discovery>,
    /// The App object.
    pub app: Known,
    /// The LimaVM object of the App.
    pub vm: Known,
    /// Paths and names that suggested commands contain.
    pub places: Places,
    /// The path of the engine's Docker socket.
    pub engine_socket: String,
    /// Whether the engine answers on that socket; `None` if it was not pinged.
    pub engine: Option<Result<(), String>>,
    /// The number of mirrors in the API; `None` if they could not be counted.
    pub mirrors: Option<Mirrors>,
}

/// The number of mirrors (API objects of the engine) of each kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Mirrors {
    /// Containers, running or not.
    pub containers: u64,
    /// Images, one per tag.
    pub images: u64,
    /// Volumes.
    pub volumes: u64,
}

/// The state of the daemon process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Daemon {
    /// No daemon runs.
    Stopped,
    /// A daemon runs.
    Running {
        /// Its PID, if it is known.
        pid: Option<u32>,
        /// The start time, taken from the PID file.
        since: Option<Timestamp>,
        /// What it answered.
        answer: Answer,
    },
}

/// How a running daemon answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// It did not answer; the reason.
    Silent(String),
    /// It has an incompatible version, which this is.
    Incompatible(String),
    /// Its controllers fail to start; the reason.
    Failing(String),
    /// It answers, but these checks of `/readyz` fail.
    NotReady(Vec<String>),
    /// It is ready.
    Ready {
        /// The URL of the API server.
        server: String,
        /// The version that it reports.
        version: String,
    },
}

/// The registered controller managers, from the discovery ConfigMap.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Discovery {
    /// Whether every controller has registered.
    pub ready: bool,
    /// The controllers that a manager runs.
    pub controllers: BTreeSet<String>,
}

/// The result of getting an object.
#[derive(Debug, Clone, PartialEq)]
pub enum Known {
    /// The request failed; the reason.
    Unknown(String),
    /// The object does not exist.
    Absent,
    /// The object.
    Present(Box<Value>),
}

/// Collects the state of an instance. A part that cannot be observed becomes a value such as [`Known::Unknown`], not an error.
///
/// # Errors
///
/// Only if the state of the instance itself (its folder, lock and PID file) cannot be observed.
pub fn gather(plane: &ControlPlane<'_>) -> Outcome<Facts> {
    let observed = plane.observe()?;
    let mut facts = Facts {
        instance: plane.name(),
        now: record::timestamp(plane.context.clock().as_ref()),
        created: observed.created,
        daemon: Daemon::Stopped,
        discovery: None,
        app: Known::Unknown("the control plane is not running".to_owned()),
        vm: Known::Unknown("the control plane is not running".to_owned()),
        places: places(plane),
        engine_socket: plane.paths().docker_socket.display().to_string(),
        engine: None,
        mirrors: None,
    };
    // Without a daemon there is nothing to ask; the other parts keep their initial values.
    let state::Daemon::Running(pid) = observed.daemon else { return Ok(facts) };
    // The daemon writes its PID once, when it starts, so the time of the file is the start time.
    let written = fs::metadata(&plane.paths().pid_file).and_then(|meta| meta.modified());
    let since = written.ok().and_then(|time| Timestamp::try_from(time).ok());
    // In whole seconds, as API timestamps are.
    let since = since.and_then(|time| Timestamp::from_second(time.as_second()).ok());
    let answer = ask(plane);
    // The API is only asked once the daemon is ready: its CRDs may not be served before.
    if matches!(answer, Answer::Ready { .. }) {
        match Api::connect(plane) {
            Ok(api) => ask_api(&api, &mut facts),
            Err(failure) => (facts.app, facts.vm) = (Known::Unknown(failure.text()), Known::Unknown(failure.text())),
        }
    } else {
        let why = Known::Unknown("the control plane cannot be asked".to_owned());
        (facts.app, facts.vm) = (why.clone(), why);
    }
    if wants_moby(&facts.app) {
        facts.engine = Some(ping(&plane.paths().docker_socket));
    }
    facts.daemon = Daemon::Running { pid, since, answer };
    Ok(facts)
}

/// Paths and names for suggested commands. `is_host` is false; a caller that knows the App sets it.
pub fn places(plane: &ControlPlane<'_>) -> Places {
    let files = plane.context.instance().map(|instance| instance.user_kubeconfigs(&plane.context.environment));
    // kubectl's rule for a list of kubeconfigs: new entries go into the first file that exists, or else into the last of the list.
    let files = files.unwrap_or_default();
    let file = files.iter().find(|file| file.exists()).or(files.last());
    Places {
        is_host: false,
        cluster_log: plane.paths().lima_home.join(names::APP_VM).join("k3s.log").display().to_string(),
        kubeconfig: file.map(|file| file.display().to_string()).unwrap_or_default(),
    }
}

fn ask(plane: &ControlPlane<'_>) -> Answer {
    let seen = readiness::look(plane, Deadline::after(Some(CALL_BOUND)));
    let verdict = readiness::judge(&seen, plane.expected_version());
    match verdict {
        // A failure of the controllers lasts, so it takes precedence over the phase.
        Verdict::Waiting(_) if seen.failing.is_some() => Answer::Failing(seen.failing.unwrap_or_default()),
        Verdict::Ready => {
            Answer::Ready { server: seen.server.unwrap_or_default(), version: seen.version.unwrap_or_default() }
        }
        Verdict::Incompatible { found } => Answer::Incompatible(found),
        Verdict::Waiting(_) if seen.version.is_some() => Answer::NotReady(failing_checks(plane)),
        Verdict::Waiting(phase) => Answer::Silent(seen.problem.unwrap_or_else(|| phase.message().to_owned())),
    }
}

/// The names of the failing checks of `/readyz`; empty if they cannot be read.
fn failing_checks(plane: &ControlPlane<'_>) -> Vec<String> {
    let Ok(api) = Api::connect(plane) else { return Vec::new() };
    let Ok((_, text)) = api.probe("/readyz?verbose", CALL_BOUND) else { return Vec::new() };
    text.lines().filter_map(|line| Some(line.strip_prefix("[-]")?.split_whitespace().next()?.to_owned())).collect()
}

fn ask_api(api: &Api<'_>, facts: &mut Facts) {
    facts.discovery = api.get_within(names::DISCOVERY, CALL_BOUND).ok().map(|list| discovery(&list));
    facts.app = known(api.get_within(&names::object(names::APPS, names::APP), CALL_BOUND));
    let namespace = match &facts.app {
        Known::Present(app) => condition::text(app, "/spec/namespace").to_owned(),
        Known::Absent => {
            facts.vm = Known::Absent;
            return;
        }
        Known::Unknown(why) => {
            facts.vm = Known::Unknown(why.clone());
            return;
        }
    };
    // The API server defaults an absent namespace to this one.
    let namespace = if namespace.is_empty() { names::APP_NAMESPACE } else { &namespace };
    facts.vm = known(api.get_within(&names::object(&names::vms_in(namespace), names::APP_VM), CALL_BOUND));
    let is_mirrored = |discovery: &Discovery| discovery.controllers.contains(names::ENGINE_CONTROLLER);
    // Without the engine controller the mirrors are stale or absent.
    if facts.discovery.as_ref().is_some_and(is_mirrored) {
        facts.mirrors = count_mirrors(api, namespace);
    }
}

fn count_mirrors(api: &Api<'_>, namespace: &str) -> Option<Mirrors> {
    // A page of one object and the remaining count: counting costs the same for five objects and five thousand.
    let count = |plural: &str| {
        let path = format!("{}?limit=1", names::mirrors_in(namespace, plural));
        api.get_within(&path, CALL_BOUND).ok().as_ref().map(length)
    };
    Some(Mirrors { containers: count("containers")?, images: count("images")?, volumes: count("volumes")? })
}

/// The length of a list, from a first page that holds fewer objects than the list.
fn length(page: &Value) -> u64 {
    let here = page["items"].as_array().map_or(0, |items| items.len() as u64);
    here + page["metadata"]["remainingItemCount"].as_u64().unwrap_or_default()
}

fn known(asked: Result<Value, Error>) -> Known {
    match asked {
        Ok(object) => Known::Present(Box::new(object)),
        Err(error) if error.is_absent() => Known::Absent,
        Err(error) => Known::Unknown(rdd_stdx::chain::Chain(&error).to_string()),
    }
}

fn discovery(list: &Value) -> Discovery {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Manager {
        #[serde(default)]
        enabled_controllers: Option<Vec<String>>,
    }
    let managers = list["data"].as_object().into_iter().flat_map(|data| data.values());
    // A manager with an unreadable entry is skipped: the status of the rest is still useful.
    let managers = managers.filter_map(|text| serde_json::from_str::<Manager>(text.as_str()?).ok());
    Discovery {
        ready: list["metadata"]["annotations"][names::READY_ANNOTATION] == "true",
        controllers: managers.flat_map(|manager| manager.enabled_controllers.unwrap_or_default()).collect(),
    }
}

fn wants_moby(app: &Known) -> bool {
    let Known::Present(app) = app else { return false };
    app.pointer("/spec/running") == Some(&Value::Bool(true))
        // An absent name defaults to moby; containerd has no Docker socket to ping.
        && matches!(condition::text(app, "/spec/containerEngine/name"), "" | "moby")
}

/// Pings the container engine on its Docker socket. An error has the reason as text.
fn ping(socket: &Path) -> Result<(), String> {
    let ask = || -> io::Result<String> {
        let mut stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(CALL_BOUND))?;
        stream.set_write_timeout(Some(CALL_BOUND))?;
        stream.write_all(PING)?;
        let mut answer = [0; 64];
        let mut length = 0;
        // Only the status line matters; one read may return part of it.
        while length < answer.len() && !answer[..length].contains(&b'\r') {
            match stream.read(&mut answer[length..])? {
                0 => break,
                more => length += more,
            }
        }
        let line = answer[..length].split(|byte| *byte == b'\r').next().unwrap_or_default();
        Ok(String::from_utf8_lossy(line).into_owned())
    };
    match ask() {
        Ok(line) if line.split(' ').nth(1) == Some("200") => Ok(()),
        Ok(line) => Err(format!("it answered {line:?}")),
        Err(error) => Err(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::os::unix::net::UnixListener;

    #[test]
    fn the_list_of_managers_is_read_whatever_is_on_it() {
        let list = json!({
            "metadata": {"annotations": {"rdd.rancherdesktop.io/ready": "true"}},
            "data": {"embedded": r#"{"enabledControllers":["app","limavm"]}"#, "alone": r#"{"enabledControllers":null}"#,
                     "mock": r#"{"enabledControllers":["engine"]}"#, "broken": "{"},
        });
        let expected = ["app", "engine", "limavm"].map(str::to_owned).into();
        assert_eq!(discovery(&list), Discovery { ready: true, controllers: expected });
        assert_eq!(discovery(&json!({})), Discovery::default());
    }

    #[test]
    fn a_list_is_as_long_as_its_first_page_and_what_it_says_is_left() {
        assert_eq!(length(&json!({"items": []})), 0);
        assert_eq!(length(&json!({"items": [{}], "metadata": {}})), 1);
        assert_eq!(length(&json!({"items": [{}], "metadata": {"remainingItemCount": 4999}})), 5000);
    }

    #[test]
    fn an_engine_is_there_when_it_says_so() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("s");
        assert!(ping(&socket).unwrap_err().contains("No such file"));
        for (answer, expected) in [
            ("HTTP/1.0 200 OK\r\n\r\nOK", Ok(())),
            (
                "HTTP/1.1 500 Internal Server Error\r\n\r\n",
                Err("it answered \"HTTP/1.1 500 Internal Server Error\"".to_owned()),
            ),
            ("", Err("it answered \"\"".to_owned())),
        ] {
            let _ = fs::remove_file(&socket);
            let listener = UnixListener::bind(&socket).unwrap();
            let engine = std::thread::spawn(move || {
                let (mut stream, _) = listener.accept().unwrap();
                let mut asked = [0; PING.len()];
                stream.read_exact(&mut asked).unwrap();
                stream.write_all(answer.as_bytes()).unwrap();
                asked
            });
            assert_eq!(ping(&socket), expected, "{answer:?}");
            assert_eq!(engine.join().unwrap(), PING);
        }
    }
}
