//! Whether the daemon can be used, asked from outside.

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

/// A call that answers at all answers within this; readiness is asked again anyway.
const CALL_BOUND: Duration = Duration::from_secs(15);
/// A look is four calls at most, each of which may take [`CALL_BOUND`].
const LOOK_BOUND: Duration = CALL_BOUND.saturating_mul(4);
/// A wait shorter than this is no news to a command that was not asked to start the service.
const QUIET_WAIT: Duration = Duration::from_millis(200);
/// How soon the first repetition comes, and how slow they get.
const FIRST_DELAY: Duration = Duration::from_millis(5);
const LAST_DELAY: Duration = Duration::from_millis(200);

/// Where managers of controllers register, and what it says about them.
const DISCOVERY: &str = "/api/v1/namespaces/rdd-system/configmaps/rdd-controller-manager";
const READY: &str = "rdd.rancherdesktop.io/ready";
const PROBLEM: &str = "rdd.rancherdesktop.io/problem";

/// What a start waits for, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Nothing answers yet.
    ApiServer,
    /// It answers, but not everything behind it is there.
    Controllers,
    /// The kinds of the controllers are being made known.
    Crds,
}

impl Phase {
    const ALL: [Self; 3] = [Self::ApiServer, Self::Controllers, Self::Crds];

    /// The message that scripts know.
    pub const fn message(self) -> &'static str {
        match self {
            Self::ApiServer => "waiting for API server",
            Self::Controllers => "waiting for controllers to register",
            Self::Crds => "waiting for CRDs to be established",
        }
    }

    /// The phase that a daemon's status line names.
    pub fn of_status(status: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|phase| phase.message() == status)
    }
}

/// Phases are told once each and never go back.
#[derive(Debug, Default)]
pub struct Phases {
    told: Option<Phase>,
}

impl Phases {
    /// The message to show, if this phase is news.
    pub fn advance(&mut self, phase: Phase) -> Option<&'static str> {
        (Some(phase) > self.told).then(|| {
            self.told = Some(phase);
            phase.message()
        })
    }
}

/// How far the controllers are, as the list of managers in the API says.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub enum Controllers {
    /// This start of the daemon has no list yet.
    #[default]
    Unknown,
    /// They have registered.
    Registered,
    /// They can be used: definitions are served, webhooks asked, watches filled.
    Ready,
}

/// What one look at the daemon found.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Seen {
    /// Where the server is, from the kubeconfig.
    pub server: Option<String>,
    /// What it reports as `gitVersion`.
    pub version: Option<String>,
    /// Whether `/readyz` says yes.
    pub ready: bool,
    /// How far its controllers are.
    pub controllers: Controllers,
    /// Why its controllers do not run, if they do not and it has said so.
    pub failing: Option<String>,
    /// Whether it serves reads and refuses writes; `failing` says why.
    pub read_only: bool,
    /// What stood in the way of asking.
    pub problem: Option<String>,
    /// Whether a call had no answer in time, which shows neither that the daemon is ready nor that it is not.
    pub timed_out: bool,
}

/// What that means.
#[derive(Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It can be used.
    Ready,
    /// Not yet.
    Waiting(Phase),
    /// It never can be, by us.
    Incompatible {
        /// What it is.
        found: String,
    },
}

/// Judges what was seen. `expected` is the version to insist on, if any.
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

/// Looks once, until the deadline at most. What cannot be asked yet is simply not there yet.
pub fn look(plane: &ControlPlane<'_>, deadline: Deadline) -> Seen {
    let mut seen = Seen::default();
    if let Err(failure) = look_closely(plane, &mut seen, deadline) {
        seen.problem = Some(failure.text());
    }
    seen
}

/// `GET path` of a look, which notes a call without an answer.
fn get(api: &Api, path: &str, seen: &mut Seen, deadline: Deadline) -> Outcome<(u16, Vec<u8>)> {
    let answer = api.get(path, deadline.left_up_to(CALL_BOUND));
    seen.timed_out = answer.as_ref().is_err_and(api::Error::is_timeout);
    Ok(answer?)
}

fn look_closely(plane: &ControlPlane<'_>, seen: &mut Seen, deadline: Deadline) -> Outcome {
    let api = connect(plane)?;
    seen.server = Some(api.server());
    let (status, body) = get(&api, "/version", seen, deadline)?;
    let unexpected = |path: &str, status: u16| Failure::message(format!("{}{path} answered {status}", api.server()));
    seen.version = Some(git_version(status, &body).ok_or_else(|| unexpected("/version", status))?);
    let (status, _) = get(&api, "/readyz", seen, deadline)?;
    seen.ready = status == 200;
    if !seen.ready {
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

/// The check of the datastore, under the name that every API server has for it.
const STORE_CHECK: &str = "/readyz/etcd";
/// What a failed check says before its reason.
const CHECK_FAILED: &str = "internal server error: ";

/// Why the datastore accepts no writes, if it does not.
fn read_only_reason(api: &Api, deadline: Deadline) -> Outcome<Option<String>> {
    let (status, body) = api.get(STORE_CHECK, deadline.left_up_to(CALL_BOUND))?;
    Ok(store_failure(status, &body).map(|reason| spawn::read_only(&reason)))
}

fn store_failure(status: u16, body: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(body);
    (status == 500).then(|| text.trim().strip_prefix(CHECK_FAILED).map(str::to_owned)).flatten()
}

/// Why a running daemon refuses writes, if it does. Looks once, and not for long.
pub fn look_for_read_only(plane: &ControlPlane<'_>, deadline: Deadline) -> Option<String> {
    connect(plane).and_then(|api| read_only_reason(&api, deadline)).ok().flatten()
}

/// The list of managers, as far as it says whether they can be used.
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

    /// A list that is older than the daemon is of an earlier start, and says nothing about this one.
    fn standing(&self, started: Option<jiff::Timestamp>) -> Controllers {
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

/// The daemon writes its PID once, when it starts.
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
    /// It can be used.
    Ready,
    /// It serves reads, and whether it ever accepts writes again is not for us to await. The user was told why.
    ReadOnly,
    /// It has ended: it was on its way down, or died.
    Gone,
}

/// What is waited for.
#[derive(Debug, Default, Clone, Copy)]
pub struct Wanted<'a> {
    /// The version to insist on, if any.
    pub expected: Option<&'a str>,
    /// Whether the API is enough if its controllers cannot start: whoever wants to help has to be able to.
    pub api_only: bool,
}

/// Waits until the running daemon can be used, or is gone.
///
/// A daemon that is ready is waited for in silence, however slowly it answers: only an answer tells whether there is
/// something to wait for. `progress` shows every phase at once; without one, a phase is shown from 200 ms on.
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
        if seen.failing.is_some() && failing != seen.failing {
            failing.clone_from(&seen.failing);
            plane.record().warn(failing.as_deref().unwrap_or_default());
        }
        match judge(&seen, wanted.expected) {
            Verdict::Ready => return Ok(Awaited::Ready),
            Verdict::Waiting(_) if seen.read_only => return Ok(Awaited::ReadOnly),
            Verdict::Waiting(_) if wanted.api_only && failing.is_some() => return Ok(Awaited::Ready),
            Verdict::Incompatible { found } => return Err(incompatible(&found, plane.context.build.git_version)),
            // Unknown is no phase: the service may be ready and slow.
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
        if !state::daemon(plane.paths())?.is_running() {
            return Ok(Awaited::Gone);
        }
        std::thread::sleep(deadline.left_up_to(delay));
        delay = (delay * 3 / 2).min(LAST_DELAY);
    }
}

/// The error for a wait that ended before the daemon was ready, with what stood in the way, if that is known.
pub fn timed_out(plane: &ControlPlane<'_>, problem: Option<String>) -> Failure {
    let mut failure = Failure::deadline(format!("timed out waiting for {:?} control plane to be ready", plane.name()));
    if let Some(problem) = problem {
        failure = failure.hint(format!("what stood in the way: {problem}"));
    }
    failure
        .hint("it goes on starting; watch it: rdd service log --follow")
        .hint("or wait longer: rdd service start --timeout=5m")
}

/// The error for a daemon that this program cannot work with.
pub fn incompatible(found: &str, expected: &str) -> Failure {
    Failure::message(format!("unsupported server version {found} (expected {expected})"))
        .code(ExitCode::IncompatibleServer)
        .hint("restart the service with this version: rdd service stop && rdd service start")
}

/// Connects to the running daemon.
pub fn connect(plane: &ControlPlane<'_>) -> Outcome<Api> {
    Ok(Api::from_kubeconfig(&read_config(plane)?)?)
}

/// The text of the daemon's kubeconfig.
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

    /// Waits with looks of a test, and gives what the user saw. The daemon is this very process.
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
            // Every call of it has its whole time.
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
        // A machine that is too busy to look twice within that time proves nothing.
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
