//! Checks from outside whether the daemon is ready, and waits for it.

use std::{
    collections::BTreeMap,
    fs,
    time::{Duration, Instant},
};

use rdd_stdx::owned;

use super::{
    ControlPlane,
    api::{self, Api},
    deadline::Deadline,
    spawn, state,
};
use crate::{
    progress::Progress,
    report::{ExitCode, Failure, Outcome},
};

/// The timeout of one call. A call that fails is repeated by the next check.
const CALL_BOUND: Duration = Duration::from_secs(15);
/// The timeout of one check, which makes at most four calls.
const LOOK_BOUND: Duration = CALL_BOUND.saturating_mul(4);
/// The wait before a command that was not asked to start the daemon shows that it waits.
const QUIET_WAIT: Duration = Duration::from_millis(200);
/// The delay before the first repeated check, and the maximum delay.
const FIRST_DELAY: Duration = Duration::from_millis(5);
const LAST_DELAY: Duration = Duration::from_millis(200);

/// The ConfigMap in which controller managers register, and its annotations.
const DISCOVERY: &str = "/api/v1/namespaces/rdd-system/configmaps/rdd-controller-manager";
const READY: &str = "rdd.rancherdesktop.io/ready";
const PROBLEM: &str = "rdd.rancherdesktop.io/problem";

/// The phases of a start, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// The API server does not answer yet.
    ApiServer,
    /// The API server answers, but not all of its parts are ready, or no controllers have registered.
    Controllers,
    /// The controllers' CRDs are not established yet.
    Crds,
}

impl Phase {
    const ALL: [Self; 3] = [Self::ApiServer, Self::Controllers, Self::Crds];

    /// The message for users; scripts match it.
    pub const fn message(self) -> &'static str {
        match self {
            Self::ApiServer => "waiting for API server",
            Self::Controllers => "waiting for controllers to register",
            Self::Crds => "waiting for CRDs to be established",
        }
    }

    /// The phase that the daemon's status text names; `None` for any other text.
    pub fn of_status(status: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|phase| phase.message() == status)
    }
}

/// Reports each phase once; a phase that is earlier than the last one is not reported.
#[derive(Debug, Default)]
pub struct Phases {
    told: Option<Phase>,
}

impl Phases {
    /// Returns the message to show if the phase is later than every phase before.
    pub fn advance(&mut self, phase: Phase) -> Option<&'static str> {
        (Some(phase) > self.told).then(|| {
            self.told = Some(phase);
            phase.message()
        })
    }
}

/// The state of the controllers, from the discovery ConfigMap.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub enum Controllers {
    /// The ConfigMap does not exist yet, or is from an earlier start of the daemon.
    #[default]
    Unknown,
    /// The controllers have registered.
    Registered,
    /// The controllers are ready: their CRDs are served, webhooks called and caches synced.
    Ready,
}

/// The result of one check of the daemon.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Seen {
    /// The server's URL, from the kubeconfig.
    pub server: Option<String>,
    /// The `gitVersion` that the server reports.
    pub version: Option<String>,
    /// Whether `/readyz` succeeded.
    pub ready: bool,
    /// The state of the controllers.
    pub controllers: Controllers,
    /// Why the daemon's controllers or its datastore fail, if it has reported a reason.
    pub failing: Option<String>,
    /// Whether the daemon refuses writes; `failing` has the reason.
    pub read_only: bool,
    /// Why the check could not be completed.
    pub problem: Option<String>,
    /// Whether a call timed out. Then the daemon may be ready or not.
    pub timed_out: bool,
}

/// What a check's result means.
#[derive(Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The daemon is ready.
    Ready,
    /// The daemon is in this phase of its start.
    Waiting(Phase),
    /// The daemon's version is not the expected one; waiting does not help.
    Incompatible {
        /// The version that the daemon reports.
        found: String,
    },
}

/// Judges the result of a check. `expected` is the required server version; `None` accepts any.
pub fn judge(seen: &Seen, expected: Option<&str>) -> Verdict {
    match (&seen.version, expected) {
        (None, _) => Verdict::Waiting(Phase::ApiServer),
        (Some(found), Some(expected)) if found != expected => Verdict::Incompatible { found: found.clone() },
        (Some(_), _) if !seen.ready => Verdict::Waiting(Phase::Controllers),
        (Some(_), _) => match seen.controllers {
            Controllers::Unknown => Verdict::Waiting(Phase::Controllers),
            Controllers::Registered => Verdict::Waiting(Phase::Crds),
            Controllers::Ready => Verdict::Ready,
        },
    }
}

/// Checks the daemon once, until the deadline at most. Never fails: an error becomes [`Seen::problem`].
pub fn look(plane: &ControlPlane<'_>, deadline: Deadline) -> Seen {
    let mut seen = Seen::default();
    if let Err(failure) = look_closely(plane, &mut seen, deadline) {
        seen.problem = Some(failure.text());
    }
    seen
}

/// Calls `GET path` for a check, and notes a timeout.
fn get(api: &Api, path: &str, seen: &mut Seen, deadline: Deadline) -> Outcome<(u16, Vec<u8>)> {
    let answer = api.get(path, deadline.left_up_to(CALL_BOUND));
    seen.timed_out = answer.as_ref().is_err_and(api::Error::is_timeout);
    Ok(answer?)
}

fn look_closely(plane: &ControlPlane<'_>, seen: &mut Seen, deadline: Deadline) -> Outcome {
    let api = connect(plane)?;
    seen.server = Some(api.server());
    // The version comes first: a server of another version may not have the rest.
    let (status, body) = get(&api, "/version", seen, deadline)?;
    let unexpected = |path: &str, status: u16| Failure::message(format!("{}{path} answered {status}", api.server()));
    seen.version = Some(git_version(status, &body).ok_or_else(|| unexpected("/version", status))?);
    let (status, _) = get(&api, "/readyz", seen, deadline)?;
    seen.ready = status == 200;
    if !seen.ready {
        // If the datastore refuses writes, its reason is more helpful than the status code of `/readyz`.
        seen.failing = read_only_reason(&api, deadline)?;
        seen.read_only = seen.failing.is_some();
        return Err(seen.failing.clone().map_or_else(|| unexpected("/readyz", status), Failure::message));
    }
    let (status, body) = get(&api, DISCOVERY, seen, deadline)?;
    let managers = Managers::read(status, &body).ok_or_else(|| unexpected(DISCOVERY, status))?;
    seen.controllers = managers.standing(started_at(plane));
    seen.failing = managers.problem().filter(|_| seen.controllers != Controllers::Ready);
    seen.failing.clone().map_or(Ok(()), |problem| Err(Failure::message(problem)))
}

/// The health check of the datastore, under the name that kube-apiserver uses.
const STORE_CHECK: &str = "/readyz/etcd";
/// The text before the reason of a failed health check.
const CHECK_FAILED: &str = "internal server error: ";

/// Why the datastore refuses writes; `None` if it accepts them.
fn read_only_reason(api: &Api, deadline: Deadline) -> Outcome<Option<String>> {
    let (status, body) = api.get(STORE_CHECK, deadline.left_up_to(CALL_BOUND))?;
    Ok(store_failure(status, &body).map(|reason| spawn::read_only(&reason)))
}

fn store_failure(status: u16, body: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(body);
    (status == 500).then(|| text.trim().strip_prefix(CHECK_FAILED).map(str::to_owned)).flatten()
}

/// Why a running daemon refuses writes; `None` if it accepts them or does not answer.
pub fn look_for_read_only(plane: &ControlPlane<'_>, deadline: Deadline) -> Option<String> {
    connect(plane).and_then(|api| read_only_reason(&api, deadline)).ok().flatten()
}

/// The fields of the discovery ConfigMap that concern readiness.
#[derive(Debug, Default, serde::Deserialize)]
struct Managers {
    metadata: ManagersMetadata,
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ManagersMetadata {
    creation_timestamp: String,
    annotations: BTreeMap<String, String>,
}

impl Managers {
    fn read(status: u16, body: &[u8]) -> Option<Self> {
        (status == 200).then(|| serde_json::from_slice(body).ok()).flatten()
    }

    /// The controllers' state. A ConfigMap that is older than the daemon is from an earlier start and is ignored.
    fn standing(&self, started: Option<jiff::Timestamp>) -> Controllers {
        // API timestamps have whole seconds.
        let ManagersMetadata { creation_timestamp, annotations } = &self.metadata;
        match (creation_timestamp.parse::<jiff::Timestamp>(), started) {
            (Ok(made), Some(started)) if made.as_second() < started.as_second() => Controllers::Unknown,
            _ if annotations.get(READY).is_some_and(|value| value == "true") => Controllers::Ready,
            _ => Controllers::Registered,
        }
    }

    fn problem(&self) -> Option<String> {
        self.metadata.annotations.get(PROBLEM).cloned()
    }
}

/// The daemon's start time: it writes the PID file once, when it starts.
fn started_at(plane: &ControlPlane<'_>) -> Option<jiff::Timestamp> {
    let written = fs::metadata(&plane.paths().pid_file).and_then(|meta| meta.modified()).ok()?;
    jiff::Timestamp::try_from(written).ok()
}

fn git_version(status: u16, body: &[u8]) -> Option<String> {
    #[derive(serde::Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Version {
        git_version: String,
    }
    (status == 200).then(|| serde_json::from_slice::<Version>(body).ok()).flatten().map(|version| version.git_version)
}

/// How a wait for a running daemon ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Awaited {
    /// The daemon is ready.
    Ready,
    /// The daemon serves reads only. The reason has been shown; how long it lasts is unknown, so the wait ends.
    ReadOnly,
    /// The daemon has ended: it was stopping, or crashed.
    Gone,
}

/// The requirements of a wait.
#[derive(Debug, Default, Clone, Copy)]
pub struct Wanted<'a> {
    /// The required server version; `None` accepts any.
    pub expected: Option<&'a str>,
    /// Whether the API alone is enough if controllers fail to start, for commands with which a user repairs that.
    pub api_only: bool,
}

/// Waits until the running daemon is ready or has ended.
///
/// With `progress`, every phase is shown at once; without it, only from 200 ms on. A slow answer is not a phase: a daemon that is ready but
/// slow shows nothing.
///
/// # Errors
///
/// A deadline failure at the deadline, a failure with the code `IncompatibleServer` for another version, and a failure if the lock cannot
/// be read.
pub fn wait(
    plane: &ControlPlane<'_>,
    deadline: Deadline,
    progress: Option<Progress>,
    wanted: Wanted<'_>,
) -> Outcome<Awaited> {
    wait_with(plane, deadline, progress, wanted, |deadline| look(plane, deadline))
}

fn wait_with(
    plane: &ControlPlane<'_>,
    deadline: Deadline,
    mut progress: Option<Progress>,
    wanted: Wanted<'_>,
    mut look: impl FnMut(Deadline) -> Seen,
) -> Outcome<Awaited> {
    let began = Instant::now();
    let mut phases = Phases::default();
    let mut delay = FIRST_DELAY;
    let mut failing = None;
    loop {
        let seen = look(Deadline::after(Some(deadline.left_up_to(LOOK_BOUND))));
        // A new reason is shown at once: the user may be able to help.
        if seen.failing.is_some() && failing != seen.failing {
            failing.clone_from(&seen.failing);
            plane.record().warn(failing.as_deref().unwrap_or_default());
        }
        match judge(&seen, wanted.expected) {
            Verdict::Ready => return Ok(Awaited::Ready),
            Verdict::Waiting(_) if seen.read_only => return Ok(Awaited::ReadOnly),
            Verdict::Waiting(_) if wanted.api_only && failing.is_some() => return Ok(Awaited::Ready),
            Verdict::Incompatible { found } => return Err(incompatible(&found, plane.context.build.git_version)),
            // Unknown is not a phase: the daemon may be ready and slow.
            Verdict::Waiting(_) if seen.timed_out => {}
            Verdict::Waiting(phase) => {
                let is_shown = progress.is_some() || began.elapsed() >= QUIET_WAIT;
                if let Some(message) = is_shown.then(|| phases.advance(phase)).flatten() {
                    match &progress {
                        Some(progress) => progress.phase(message),
                        None => progress = Some(Progress::start(plane.record(), message)),
                    }
                }
            }
        }
        if deadline.has_passed() {
            return Err(timed_out(plane, failing.or(seen.problem)));
        }
        // A daemon that has ended never becomes ready.
        if !state::daemon(plane.paths())?.is_running() {
            return Ok(Awaited::Gone);
        }
        std::thread::sleep(deadline.left_up_to(delay));
        // Short delays first: a warm start takes a few milliseconds.
        delay = (delay * 3 / 2).min(LAST_DELAY);
    }
}

/// The failure of a wait that timed out, with the reason if it is known.
pub fn timed_out(plane: &ControlPlane<'_>, problem: Option<String>) -> Failure {
    let mut failure = Failure::deadline(format!("timed out waiting for {:?} control plane to be ready", plane.name()));
    if let Some(problem) = problem {
        failure = failure.hint(format!("what stood in the way: {problem}"));
    }
    failure
        .hint("it goes on starting; watch it: rdd service log --follow")
        .hint("or wait longer: rdd service start --timeout=5m")
}

/// The failure for a daemon of another version.
pub fn incompatible(found: &str, expected: &str) -> Failure {
    Failure::message(format!("unsupported server version {found} (expected {expected})"))
        .code(ExitCode::IncompatibleServer)
        .hint("restart the service with this version: rdd service stop && rdd service start")
}

/// Creates a client for the running daemon.
pub fn connect(plane: &ControlPlane<'_>) -> Outcome<Api> {
    Ok(Api::from_kubeconfig(&read_config(plane)?)?)
}

/// Reads the daemon's kubeconfig.
pub fn read_config(plane: &ControlPlane<'_>) -> Outcome<String> {
    let path = &plane.paths().config;
    owned::read_to_string(path).map_err(|error| {
        let may_come = if owned::is_refusal(&error) { "" } else { " (control plane may still be starting)" };
        let reason = format!("{error}{may_come}");
        Failure::message(format!("could not read config from {}: {reason}", path.display()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::User;

    fn seen(version: Option<&str>, ready: bool) -> Seen {
        Seen { version: version.map(str::to_owned), ready, controllers: Controllers::Ready, ..Seen::default() }
    }

    /// Waits with a check function of the test and returns the output. This process holds the daemon's lock.
    fn seen_while_waiting(announced: bool, mut look: impl FnMut(Deadline) -> Seen) -> Vec<String> {
        let user = User::new();
        let paths = user.instance().paths;
        fs::create_dir_all(&paths.dir).unwrap();
        let _lock = rdd_stdx::lock::ProcessLock::acquire(&paths.lock_file).unwrap();
        user.with_context(|context| {
            let plane = ControlPlane::of(context).unwrap();
            let progress = announced.then(|| Progress::start(plane.record(), "waiting"));
            let deadline = Deadline::after(Some(Duration::from_secs(60)));
            assert_eq!(wait_with(&plane, deadline, progress, Wanted::default(), &mut look).unwrap(), Awaited::Ready);
        })
        .messages()
    }

    // Finding E-3
    #[test]
    fn a_ready_service_is_waited_for_in_silence_however_slowly_it_answers() {
        let slow = |deadline: Deadline| {
            // Each call takes its whole timeout.
            assert!(deadline.left_up_to(LOOK_BOUND) > CALL_BOUND * 3, "{deadline:?}");
            seen(Some("v1"), true)
        };
        assert!(seen_while_waiting(false, slow).is_empty());
        assert_eq!(seen_while_waiting(true, slow), ["waiting"]);
    }

    // Finding E-3
    #[test]
    fn a_look_without_an_answer_in_time_is_not_taken_for_a_service_that_is_not_ready() {
        let began = Instant::now();
        let unknown_at_first = |_: Deadline| match began.elapsed() < QUIET_WAIT * 3 {
            true => Seen { timed_out: true, ..seen(None, false) },
            false => seen(Some("v1"), true),
        };
        assert!(seen_while_waiting(false, unknown_at_first).is_empty());
    }

    // Finding E-3
    #[test]
    fn a_call_without_an_answer_is_noted_as_unknown() {
        let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let api = api::tests::mk_api(silent.local_addr().unwrap().port());
        let mut seen = Seen::default();
        let deadline = Deadline::after(Some(Duration::from_millis(50)));
        assert!(get(&api, "/version", &mut seen, deadline).is_err() && seen.timed_out);
        drop(silent);
        let deadline = Deadline::after(Some(Duration::from_secs(10)));
        assert!(get(&api, "/version", &mut seen, deadline).is_err() && !seen.timed_out, "a refusal is an answer");
    }

    // Finding E-3
    #[test]
    fn a_service_that_is_not_ready_is_news_after_a_moment() {
        let ready_after = |time: Duration| {
            let began = Instant::now();
            move |_: Deadline| if began.elapsed() < time { seen(None, false) } else { seen(Some("v1"), true) }
        };
        let message = Phase::ApiServer.message();
        assert_eq!(seen_while_waiting(false, ready_after(QUIET_WAIT * 3)), [message]);
        let mut looks = 0;
        let second = move |_: Deadline| {
            looks += 1;
            if looks == 1 { seen(None, false) } else { seen(Some("v1"), true) }
        };
        assert_eq!(
            seen_while_waiting(true, second),
            ["waiting", message],
            "a command that starts the service shows each phase"
        );
        let began = Instant::now();
        let shown = seen_while_waiting(false, second);
        // A machine too busy to check twice within that time proves nothing.
        assert!(shown.is_empty() || began.elapsed() >= QUIET_WAIT, "{shown:?}");
    }

    // Finding O-1
    #[test]
    fn ready_means_that_controllers_can_be_used() {
        for (controllers, verdict) in [
            (Controllers::Unknown, Verdict::Waiting(Phase::Controllers)),
            (Controllers::Registered, Verdict::Waiting(Phase::Crds)),
            (Controllers::Ready, Verdict::Ready),
        ] {
            assert_eq!(judge(&Seen { controllers, ..seen(Some("v1"), true) }, None), verdict);
        }
    }

    #[test]
    fn the_list_of_managers_counts_if_it_is_of_this_start() {
        let read = |annotations: &str| {
            let text = format!(r#"{{"metadata":{{"creationTimestamp":"2026-01-01T00:00:10Z",{annotations}}}}}"#);
            Managers::read(200, text.as_bytes()).unwrap()
        };
        let at = |second: i64| Some(jiff::Timestamp::from_second(1_767_225_600 + second).unwrap());
        let ready = read(r#""annotations":{"rdd.rancherdesktop.io/ready":"true"}"#);
        assert_eq!(ready.standing(at(10)), Controllers::Ready);
        assert_eq!(ready.standing(None), Controllers::Ready);
        assert_eq!(ready.standing(at(11)), Controllers::Unknown, "of an earlier start");
        let problem = read(r#""annotations":{"rdd.rancherdesktop.io/problem":"no disk"}"#);
        assert_eq!((problem.standing(at(9)), problem.problem().as_deref()), (Controllers::Registered, Some("no disk")));
        assert!(Managers::read(404, b"{}").is_none());
    }

    #[test]
    fn verdicts() {
        for (seen, expected, verdict) in [
            (seen(None, false), Some("v1"), Verdict::Waiting(Phase::ApiServer)),
            (seen(None, true), None, Verdict::Waiting(Phase::ApiServer)),
            (seen(Some("v1"), false), Some("v1"), Verdict::Waiting(Phase::Controllers)),
            (seen(Some("v1"), true), Some("v1"), Verdict::Ready),
            (seen(Some("v2"), true), Some("v1"), Verdict::Incompatible { found: "v2".to_owned() }),
            (seen(Some("v2"), false), Some("v1"), Verdict::Incompatible { found: "v2".to_owned() }),
            (seen(Some("v2"), true), None, Verdict::Ready),
        ] {
            assert_eq!(judge(&seen, expected), verdict, "{seen:?} {expected:?}");
        }
    }

    #[test]
    fn another_version_has_its_words_and_its_code() {
        let failure = incompatible("v2", "v1");
        assert_eq!(failure.text(), "unsupported server version v2 (expected v1)");
        assert_eq!(failure.exit_code().number(), 5);
    }

    #[test]
    fn phases_are_told_once_and_never_go_back() {
        use Phase::*;
        let mut phases = Phases::default();
        let told: Vec<_> = [ApiServer, ApiServer, Crds, Controllers, Crds].map(|phase| phases.advance(phase)).into();
        assert_eq!(
            told,
            [Some("waiting for API server"), None, Some("waiting for CRDs to be established"), None, None]
        );
    }

    #[test]
    fn a_status_line_names_its_phase_or_none() {
        for phase in Phase::ALL {
            assert_eq!(Phase::of_status(phase.message()), Some(phase));
        }
        assert_eq!(Phase::of_status("replaying the datastore"), None);
    }

    // Finding A-8
    #[test]
    fn a_store_that_refuses_writes_is_told_from_other_failures() {
        for (status, body, expected) in [
            (200, "ok", None),
            (404, "404 page not found\n", None),
            (500, "internal server error: no space\n", Some("no space")),
            (500, "panic", None),
            (503, "internal server error: no space\n", None),
        ] {
            assert_eq!(store_failure(status, body.as_bytes()).as_deref(), expected, "{status} {body:?}");
        }
    }

    #[test]
    fn the_version_is_read_from_a_good_answer_only() {
        assert_eq!(git_version(200, br#"{"gitVersion":"v1","major":"1"}"#).as_deref(), Some("v1"));
        assert_eq!(git_version(401, br#"{"gitVersion":"v1"}"#), None);
        assert_eq!(git_version(200, b"<html>"), None);
    }
}
