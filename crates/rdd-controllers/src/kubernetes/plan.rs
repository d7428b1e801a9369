//! Decides the steps and the condition of Kubernetes from what is wanted and observed. No I/O.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use rdd_driver::{ClusterFound, Foundation, Upstream, Wanted};
use rdd_runtime::{Plan, conditions::find};
use rdd_types::{
    app::{App, AppStatus},
    conditions::{KUBERNETES_READY, PendingCondition, RUNNING, kubernetes as specs},
    names::annotation,
};

use super::{
    access::{Access, Validity},
    contexts::Published,
    prober::{Answer, Probe, TOLERATED},
    releases::{Release, progress},
    validity::{self, Verdict},
};
use crate::{condition, k3s_versions};

/// The interval of reconciles of a ready cluster, for changes that nothing reports, such as a removed context.
pub(super) const LOOK_AGAIN: Duration = Duration::from_secs(15);
/// After this time without an answer, the cluster is restarted.
const STUCK: Duration = Duration::from_mins(5);
/// The cluster is restarted when its certificates have less time left. K3s renews certificates at a start in their last 90 days.
const RENEWAL: Duration = Duration::from_hours(30 * 24);

/// After this many equal ends in a row, the condition reports a crash loop.
const HOPELESS_ENDS: u32 = 3;

/// Everything that the plan depends on.
#[derive(Debug, Clone)]
pub struct Observed {
    /// The App, read from the server.
    pub app: Arc<App>,
    /// Whether the App was deleted before it could be read.
    pub is_gone: bool,
    /// The bound port.
    pub port: Option<u16>,
    /// The destination of its connections.
    pub route: Option<Upstream>,
    /// Whether the prober runs.
    pub is_probing: bool,
    /// The state of the cluster, or why it is unknown or impossible.
    pub cluster: Result<ClusterFound, Trouble>,
    /// Whether this process watches the cluster's run.
    pub is_watched: bool,
    /// The last failure: the cluster ended by itself, or was unusable.
    pub failure: Option<Failure>,
    /// The state of the wanted release.
    pub release: Release,
    /// Where the cluster listens.
    pub upstream: Option<Upstream>,
    /// The access to the cluster, if its kubeconfig is complete.
    pub access: Option<Access>,
    /// The end of the certificates for which the cluster was already restarted.
    pub renewed_for: Option<Duration>,
    /// The foundation of the cluster's data, where it may matter.
    pub foundation: Option<Foundation>,
    /// The latest probe with that access.
    pub probe: Option<Probe>,
    /// A known problem of this release on this machine, for users.
    pub warning: Option<String>,
    /// What is published.
    pub published: Published,
    /// Whether the user's current context was chosen for this access.
    pub is_chosen: bool,
    /// The wall clock, as the time since the epoch.
    pub wall: Duration,
    /// The wall clock, for conditions.
    pub now: Timestamp,
}

/// Why the state of a cluster is unknown, or why there can be none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trouble {
    /// It may change by itself.
    Passing(String),
    /// It lasts until the settings or the machine change.
    Lasting(String),
}

/// Why a cluster does not run although it should.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// What happened.
    pub message: String,
    /// The time until the next attempt.
    pub wait: Duration,
    /// How often in a row it ended like this; 0 if it did not run.
    pub alike: u32,
}

/// The actions of a plan.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// Binds the published port.
    BindPort,
    /// Closes the port.
    ClosePort,
    /// Sets the destination of connections to the port.
    Connect(Option<Upstream>),
    /// Downloads the release.
    Fetch(String),
    /// Starts the cluster, or adopts one that runs.
    StartCluster(Wanted),
    /// Stops the cluster.
    StopCluster,
    /// Restarts the cluster. Fields: the release, the reason for the log, and the end of the certificates if the restart renews them.
    RestartCluster(Wanted, &'static str, Option<Duration>),
    /// Deletes the cluster's data.
    ResetCluster,
    /// Removes the reset request from the App.
    ClearRequest,
    /// Deletes a cluster that no user can have used, so that another one is created. Field: the reason.
    RemakeCluster(String),
    /// Starts the prober.
    Probe(Access),
    /// Publishes the access to the cluster.
    Publish(Access),
    /// Withdraws the publication.
    Withdraw,
    /// Makes it the user's current context, if the user has none in use.
    ChooseCurrent(Access),
    /// Writes this controller's part of the status.
    WriteStatus(Box<AppStatus>),
}

rdd_runtime::steps!(Step {
    Self::BindPort => "bind-port",
    Self::ClosePort => "close-port",
    Self::Connect(_) => "connect",
    Self::Fetch(_) => "fetch",
    Self::StartCluster(_) => "start-cluster",
    Self::StopCluster => "stop-cluster",
    Self::RestartCluster(..) => "restart-cluster",
    Self::ResetCluster => "reset-cluster",
    Self::ClearRequest => "clear-request",
    Self::RemakeCluster(_) => "remake-cluster",
    Self::Probe(_) => "probe",
    Self::Publish(_) => "publish",
    Self::Withdraw => "withdraw",
    Self::ChooseCurrent(_) => "choose-current",
    Self::WriteStatus(_) => "write-status",
});

/// What the App wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Wish {
    /// No Kubernetes.
    Off,
    /// Kubernetes is enabled, but the machine does not run.
    Idle,
    /// Kubernetes is enabled, and it is unknown whether the machine runs, because the daemon has just started.
    Unsure,
    /// This release, as a full version; `None` if it is not supported.
    Run(Option<String>),
}

pub(super) fn wish(app: &App) -> Wish {
    let kubernetes = app.spec.kubernetes.as_ref().filter(|kubernetes| kubernetes.enabled);
    let Some(kubernetes) = kubernetes.filter(|_| app.metadata.deletion_timestamp.is_none()) else { return Wish::Off };
    let known = app.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    match find(known, RUNNING).map(|running| running.status.as_str()) {
        Some("True") if app.spec.running => {
            Wish::Run(k3s_versions::full(kubernetes.version.as_deref().unwrap_or_default()))
        }
        None | Some("Unknown") if app.spec.running => Wish::Unsure,
        _ => Wish::Idle,
    }
}

/// Whether a reset of the cluster is requested.
pub(super) fn is_reset_requested(app: &App) -> bool {
    app.metadata.annotations.as_ref().is_some_and(|all| all.contains_key(annotation::RESET_KUBERNETES))
}

/// Plans the steps for an observation.
pub fn plan(seen: &Observed) -> Plan<Step> {
    if seen.is_gone {
        return Plan::of(plan_end(seen, true));
    }
    match wish(&seen.app) {
        Wish::Off => {
            let mut steps = reset(seen);
            steps.extend(plan_end(seen, true));
            // The status of an App that is being deleted does not matter any more.
            if seen.app.metadata.deletion_timestamp.is_none() {
                steps.extend(status(seen, specs::NOT_APPLICABLE.pending(), None));
            }
            Plan::of(steps)
        }
        // The port comes first: the machine's template names it.
        Wish::Idle | Wish::Unsure | Wish::Run(_) if seen.port.is_none() => {
            Plan::of([Step::BindPort]).again(Duration::ZERO)
        }
        // A running cluster may go on: an earlier daemon left it running, with its machine.
        Wish::Unsure => Plan::of(status(seen, specs::NOT_RUNNING.pending(), seen.port)),
        Wish::Idle => {
            let mut steps = reset(seen);
            steps.extend(plan_end(seen, false));
            steps.extend(status(seen, specs::NOT_RUNNING.pending(), seen.port));
            Plan::of(steps)
        }
        Wish::Run(_) if is_reset_requested(&seen.app) => {
            let mut steps: Vec<Step> = status(seen, specs::PROBING.pending(), seen.port).into_iter().collect();
            steps.extend(reset(seen));
            Plan::of(steps).again(Duration::ZERO)
        }
        Wish::Run(None) => {
            let why = "there is no such release of Kubernetes; the ConfigMap k3s-versions lists those there are";
            Plan::of(status(seen, specs::UNSUPPORTED.with_message(why), seen.port))
        }
        Wish::Run(Some(version)) => plan_cluster(seen, &version),
    }
}

fn reset(seen: &Observed) -> Vec<Step> {
    if is_reset_requested(&seen.app) { vec![Step::ResetCluster, Step::ClearRequest] } else { Vec::new() }
}

/// The steps that remove what exists; none if nothing exists.
fn plan_end(seen: &Observed, for_good: bool) -> Vec<Step> {
    let mut steps = Vec::new();
    // First the publication: clients must not find an address that leads nowhere.
    if matches!(seen.published, Published::AsWanted | Published::Otherwise) {
        steps.push(Step::Withdraw);
    }
    if seen.route.is_some() || seen.is_probing {
        steps.push(Step::Connect(None));
    }
    if seen.cluster.as_ref().is_ok_and(ClusterFound::is_running) || seen.is_watched {
        steps.push(Step::StopCluster);
    }
    if for_good && seen.port.is_some() {
        steps.push(Step::ClosePort);
    }
    steps
}

fn plan_cluster(seen: &Observed, version: &str) -> Plan<Step> {
    let tell = |pending: PendingCondition| Plan::of(status(seen, pending, seen.port));
    let found = match &seen.cluster {
        Ok(found) => found,
        Err(Trouble::Passing(why)) => return tell(specs::START_FAILED.with_message(why)).again(LOOK_AGAIN),
        Err(Trouble::Lasting(why)) => return tell(specs::UNSUPPORTED.with_message(why)).again(LOOK_AGAIN),
    };
    // Kubernetes does not support data that a newer version has used.
    if found.version().is_some_and(|used| k3s_versions::is_older(version, used)) {
        return tell(specs::DOWNGRADE_REFUSED.with_message(&downgrade(version, found.version().unwrap_or_default())));
    }
    // Another running version is replaced by the start.
    let runs_as_wanted = *found == ClusterFound::Running { version: version.to_owned() };
    let wanted = match &seen.release {
        Release::Ready { program, images } => Some(Wanted {
            version: version.to_owned(),
            program: program.clone(),
            images: images.clone(),
            port: seen.port.unwrap_or_default(),
        }),
        // A cluster that runs needs no files of the release until it ends.
        _ if runs_as_wanted && seen.is_watched => None,
        Release::Absent => {
            let steps =
                status(seen, specs::DOWNLOADING.with_message(&progress(version, 0, None)), seen.port).into_iter();
            return Plan::of(steps.chain([Step::Fetch(version.to_owned())]));
        }
        Release::Fetching { done, total } => {
            // A user may put the release into a directory meanwhile.
            return tell(specs::DOWNLOADING.with_message(&progress(version, *done, *total))).again(LOOK_AGAIN);
        }
        Release::Failed { why, again } => {
            let message = format!("Failed to download Kubernetes {version}: {why}");
            let plan = tell(specs::DOWNLOAD_FAILED.with_message(&message)).again(*again);
            return if again.is_zero() { plan.then(Step::Fetch(version.to_owned())) } else { plan };
        }
    };
    match wanted {
        Some(wanted) if !runs_as_wanted || !seen.is_watched => match validity::of_data(seen) {
            Some(verdict) if !found.is_running() => plan_other_time(seen, verdict, Vec::new()),
            _ => plan_start(seen, wanted),
        },
        wanted => plan_answers(seen, wanted.as_ref()),
    }
}

/// Plans for certificates that are not valid now: wait, recreate the cluster, or report.
fn plan_other_time(seen: &Observed, verdict: Verdict, mut steps: Vec<Step>) -> Plan<Step> {
    match verdict {
        Verdict::Early(what, left) => {
            steps.extend(status(seen, specs::PROBING_EARLY.with_message(&what), seen.port));
            Plan::of(steps).again(left.min(LOOK_AGAIN))
        }
        Verdict::Remake(why) => Plan::of(steps).then(Step::RemakeCluster(why)).again(Duration::ZERO),
        Verdict::Invalid(why) => {
            steps.extend(status(seen, specs::CERTIFICATES_INVALID.with_message(&why), seen.port));
            Plan::of(steps).again(LOOK_AGAIN)
        }
    }
}

fn plan_start(seen: &Observed, wanted: Wanted) -> Plan<Step> {
    let pending = match &seen.failure {
        Some(failure) if !failure.wait.is_zero() => {
            let told = status(seen, say_failure(failure), seen.port);
            return Plan::of(told).again(failure.wait);
        }
        Some(failure) => say_failure(failure),
        None => specs::PROBING.pending(),
    };
    Plan::of(status(seen, pending, seen.port)).then(Step::StartCluster(wanted))
}

/// The condition for a failure. After several equal ends it is a crash loop; retries go on, but commands need not wait for them.
fn say_failure(failure: &Failure) -> PendingCondition {
    match failure.alike {
        0..HOPELESS_ENDS => specs::START_FAILED.with_message(&failure.message),
        times => specs::CRASH_LOOP.with_message(&format!(
            "Kubernetes ended {} times in a row in the same way: {}",
            count(times),
            failure.message
        )),
    }
}

/// The count for the message, capped, so that the message does not change with every retry.
fn count(times: u32) -> String {
    if times > HOPELESS_ENDS { format!("more than {HOPELESS_ENDS}") } else { times.to_string() }
}

fn plan_answers(seen: &Observed, wanted: Option<&Wanted>) -> Plan<Step> {
    let mut steps = Vec::new();
    // The destination is unknown until the cluster runs, and may change with each run.
    if seen.route != seen.upstream {
        steps.push(Step::Connect(seen.upstream.clone()));
    }
    let Some(access) = &seen.access else {
        steps.extend(status(seen, specs::PROBING.pending(), seen.port));
        return Plan::of(steps).again(LOOK_AGAIN);
    };
    if let Some(wanted) = wanted {
        // Before the probe, because a cluster with expired certificates does not answer.
        if let Some(end) = due_renewal(seen, access) {
            let why = "its certificates are about to expire";
            return Plan::of(steps).then(Step::RestartCluster(wanted.clone(), why, Some(end))).again(Duration::ZERO);
        }
        // A cluster that is silent because of its certificates is not helped by this restart.
        if validity::of_running(seen, access, true).is_none()
            && seen.probe.as_ref().is_some_and(|probe| probe.silent >= STUCK)
        {
            let why = "it has not answered for too long";
            return Plan::of(steps).then(Step::RestartCluster(wanted.clone(), why, None)).again(Duration::ZERO);
        }
    }
    let Some(probe) = &seen.probe else {
        steps.extend(status(seen, specs::PROBING.pending(), seen.port));
        return Plan::of(steps).then(Step::Probe(access.clone()));
    };
    if let Some(verdict) = validity::of_running(seen, access, wanted.is_some()) {
        return plan_other_time(seen, verdict, steps);
    }
    let pending = judge(probe, is_ready(seen), seen.warning.as_deref());
    let is_published = seen.published == Published::AsWanted;
    if probe.answer.is_healthy() && !is_published {
        steps.push(Step::Publish(access.clone()));
    }
    steps.extend(status(seen, pending, seen.port));
    if probe.answer.is_healthy() && !seen.is_chosen {
        // Last: it may have to wait for a probe of another cluster.
        steps.push(Step::ChooseCurrent(access.clone()));
    }
    Plan::of(steps).again(LOOK_AGAIN)
}

/// The condition for a probe. A cluster that was ready may miss a few answers.
fn judge(probe: &Probe, was_ready: bool, warning: Option<&str>) -> PendingCondition {
    let is_tolerated = was_ready && probe.in_a_row <= TOLERATED;
    let say_ready = || match warning {
        Some(warning) => specs::READY_WITH_WARNING.with_message(&specs::warning_message(warning)),
        None => specs::READY.pending(),
    };
    match &probe.answer {
        Answer::Ready => say_ready(),
        Answer::NoNode(_) | Answer::Timeout if is_tolerated => say_ready(),
        Answer::NoNode(why) => specs::WAITING_FOR_NODE.with_message(why),
        Answer::Timeout | Answer::Failed(_) => specs::PROBING.pending(),
    }
}

fn is_ready(seen: &Observed) -> bool {
    let known = seen.app.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    find(known, KUBERNETES_READY).is_some_and(|condition| specs::READY.matches(condition))
}

/// The end of the certificates, if it is near and the cluster was not restarted for it yet.
///
/// While the clock is before the start of their validity, it does not say anything about their end.
fn due_renewal(seen: &Observed, access: &Access) -> Option<Duration> {
    let Validity { from, until } = access.validity()?;
    let is_near = seen.wall >= from && seen.wall + RENEWAL >= until;
    (is_near && seen.renewed_for != Some(until)).then_some(until)
}

fn downgrade(version: &str, used: &str) -> String {
    format!(
        "the data of the cluster was used by Kubernetes {used}, and {version} is older; choose {used} or a newer one, or forget \
         the cluster with `rdd reset --kubernetes`"
    )
}

/// The step that reports the failure of this step.
pub fn after_failure(failed: &Step, seen: &Observed, error: &str) -> Option<Step> {
    let pending = match failed {
        Step::BindPort => specs::START_FAILED.with_message(&format!("Failed to bind a port for Kubernetes: {error}")),
        Step::StartCluster(_) | Step::RestartCluster(..) => {
            specs::START_FAILED.with_message(&format!("Failed to start Kubernetes: {error}"))
        }
        Step::ResetCluster | Step::RemakeCluster(_) => {
            specs::START_FAILED.with_message(&format!("Failed to reset Kubernetes: {error}"))
        }
        Step::Publish(_) => specs::MERGE_FAILED.with_message(&format!("Failed to publish Kubernetes context: {error}")),
        _ => return None,
    };
    status(seen, pending, seen.port)
}

/// A step that writes the status; `None` if nothing changes.
fn status(seen: &Observed, pending: PendingCondition, port: Option<u16>) -> Option<Step> {
    let generation = seen.app.metadata.generation.unwrap_or_default();
    let known = seen.app.status.clone().unwrap_or_default();
    // The apply may only name this controller's own condition.
    let ours: Vec<_> = known.conditions.into_iter().filter(|one| one.type_ == KUBERNETES_READY).collect();
    let mut conditions = ours.clone();
    condition::set(&pending, &mut conditions, generation, seen.now);
    let kubernetes_port = port.map(i64::from).unwrap_or_default();
    let is_news = conditions != ours || kubernetes_port != known.kubernetes_port;
    is_news.then(|| Step::WriteStatus(Box::new(AppStatus { conditions, kubernetes_port })))
}
