//! Probes the cluster through the published port, with the published kubeconfig, like any other client.

use std::{
    collections::BTreeMap,
    error::Error as StdError,
    fmt::Debug,
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures::future::BoxFuture;
use jiff::Timestamp;
use k8s_openapi::api::{
    coordination::v1::Lease,
    core::v1::{Node, NodeCondition},
};
use kube::{Api, Client, Config, ResourceExt, api::ListParams, config::AuthInfo};
use rdd_runtime::Trigger;
use rdd_stdx::{chain::Chain, task::Group};
use tokio::time::Instant;

use super::access::Access;

/// The namespace in which kubelets renew the leases of their nodes.
const NODE_LEASES: &str = "kube-node-lease";
/// The timeout of a request.
const ANSWER_TAKES: Duration = Duration::from_secs(3);
/// The first and the longest interval of probes of a cluster that is not ready.
const FIRST_DELAY: Duration = Duration::from_millis(50);
const LONGEST_DELAY: Duration = Duration::from_secs(5);
/// The longest interval while the cluster may still be starting: a command waits for it, and should end soon after it is ready.
const STARTING_DELAY: Duration = Duration::from_millis(250);
/// How long a cluster may be starting.
const STARTING_TAKES: Duration = Duration::from_mins(2);
/// The growth of the interval from probe to probe, in tenths.
const GROWTH_TENTHS: u32 = 12;
/// The interval of probes of a ready cluster.
const READY_EVERY: Duration = Duration::from_secs(15);
/// The interval after a ready cluster missed an answer.
const DOUBT_EVERY: Duration = Duration::from_secs(5);

/// The outcome of a probe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// The cluster is healthy, and has a ready node.
    Ready,
    /// The cluster is healthy, but no node is ready, for this reason.
    NoNode(String),
    /// The cluster did not answer in time.
    Timeout,
    /// The connection failed, another server answered, or the cluster is unhealthy: the error for the log.
    Failed(String),
}

impl Answer {
    fn is_like(&self, other: &Self) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }

    /// Whether the API is healthy.
    pub fn is_healthy(&self) -> bool {
        matches!(self, Self::Ready | Self::NoNode(_))
    }
}

/// The latest probe and its history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probe {
    /// The outcome.
    pub answer: Answer,
    /// How many probes in a row had such an outcome.
    pub in_a_row: u32,
    /// How long the API has not been healthy; zero if it is.
    pub silent: Duration,
}

/// Sends probes.
pub trait Ask: Debug + Send + Sync {
    /// Sends one probe, with a timeout.
    fn ask<'a>(&'a self, access: &'a Access, seen: &'a mut Heartbeats) -> BoxFuture<'a, Answer>;
}

/// Distinguishes a live node from one that is Ready only in the data of an earlier run.
///
/// A kubelet that ends leaves its node as it was, and the node stays Ready for forty seconds. A cluster that is restarted within that
/// time shows a Ready node before its kubelet runs. A node counts as alive if its lease or its heartbeat is later than the start of the
/// cluster, by the clock of the cluster's machine; or if either has changed since the first probe, whatever any clock shows.
#[derive(Debug, Default)]
pub struct Heartbeats {
    started_at: Option<Duration>,
    /// The heartbeats of the first probe, by the node's UID.
    first: Option<BTreeMap<String, Heartbeat>>,
}

/// The last reports of a kubelet.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Heartbeat {
    /// When it renewed its lease.
    renewed: Option<Timestamp>,
    /// When it updated its node's condition.
    reported: Option<Timestamp>,
}

impl Heartbeats {
    /// For a cluster that was started at this time since the epoch, by the clock of its machine.
    pub fn since(started_at: Option<Duration>) -> Self {
        Self { started_at, first: None }
    }

    /// Whether the kubelet of each of these nodes runs, in their order.
    fn are_alive(&mut self, nodes: &[Node], leases: &[Lease]) -> Vec<bool> {
        let now: Vec<(String, Heartbeat)> =
            nodes.iter().map(|node| (node.uid().unwrap_or_default(), find_heartbeat(node, leases))).collect();
        let first = self.first.get_or_insert_with(|| now.iter().cloned().collect());
        let mut are_alive = Vec::with_capacity(now.len());
        for (uid, now) in &now {
            are_alive.push(match first.get_mut(uid) {
                // The node has registered since the first probe.
                None => true,
                Some(first) => {
                    let has_changed =
                        differs(&mut first.renewed, now.renewed) | differs(&mut first.reported, now.reported);
                    has_changed || is_later(now, self.started_at)
                }
            });
        }
        are_alive
    }
}

/// Whether a time differs from the first probe. If it was unknown then, the current time becomes the first.
fn differs(first: &mut Option<Timestamp>, now: Option<Timestamp>) -> bool {
    now.is_some_and(|now| *first.get_or_insert(now) != now)
}

fn is_later(heartbeat: &Heartbeat, started_at: Option<Duration>) -> bool {
    let Some(start) = started_at.and_then(|at| Timestamp::from_millisecond(i64::try_from(at.as_millis()).ok()?).ok())
    else {
        return false;
    };
    [heartbeat.renewed, heartbeat.reported].into_iter().flatten().any(|at| at > start)
}

fn find_heartbeat(node: &Node, leases: &[Lease]) -> Heartbeat {
    let lease = leases.iter().find(|lease| lease.name_any() == node.name_any());
    let renewed = lease.and_then(|lease| lease.spec.as_ref()?.renew_time.as_ref());
    let reported = ready_condition(node).and_then(|condition| condition.last_heartbeat_time.as_ref());
    Heartbeat { renewed: renewed.map(|time| time.0), reported: reported.map(|time| time.0) }
}

/// Probes one cluster repeatedly, and enqueues the App when the outcome changes.
#[derive(Debug)]
pub(crate) struct Prober {
    ask: Arc<dyn Ask>,
    under_way: Mutex<Option<UnderWay>>,
}

#[derive(Debug)]
struct UnderWay {
    access: Access,
    latest: Arc<Mutex<Option<Probe>>>,
    _task: Group<()>,
}

impl Prober {
    pub(crate) fn new(ask: Arc<dyn Ask>) -> Self {
        Self { ask, under_way: Mutex::default() }
    }

    /// Probes the cluster with this access from now on. Does nothing if it already does.
    pub(crate) fn watch(&self, access: &Access, started_at: Option<Duration>, wake: Trigger) {
        let mut under_way = lock(&self.under_way);
        if under_way.as_ref().is_some_and(|one| one.access == *access) {
            return;
        }
        let latest = Arc::default();
        let mut task = Group::default();
        let heartbeats = Heartbeats::since(started_at);
        let asking =
            keep_asking(Arc::clone(&self.ask), access.clone(), heartbeats, Arc::clone(&latest), move || wake.wake());
        task.spawn("kubernetes probe", asking);
        *under_way = Some(UnderWay { access: access.clone(), latest, _task: task });
    }

    /// Stops probing.
    pub(crate) fn stop(&self) {
        *lock(&self.under_way) = None;
    }

    /// The access that is probed.
    pub(crate) fn target(&self) -> Option<Access> {
        lock(&self.under_way).as_ref().map(|one| one.access.clone())
    }

    /// The latest probe with this access; `None` before the first outcome.
    pub(crate) fn latest(&self, access: &Access) -> Option<Probe> {
        let under_way = lock(&self.under_way);
        let one = under_way.as_ref().filter(|one| one.access == *access)?;
        lock(&one.latest).clone()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn keep_asking(
    ask: Arc<dyn Ask>,
    access: Access,
    mut heartbeats: Heartbeats,
    latest: Arc<Mutex<Option<Probe>>>,
    wake: impl Fn() + Send + Sync,
) {
    let mut delay = FIRST_DELAY;
    let began = Instant::now();
    let mut healthy_at = began;
    let mut was_ready = false;
    loop {
        let answer = ask.ask(&access, &mut heartbeats).await;
        if answer.is_healthy() {
            healthy_at = Instant::now();
        }
        // The lock is not held across the probe, which may take seconds.
        let before = lock(&latest).clone();
        let probe = follow(before.as_ref(), answer, healthy_at.elapsed());
        note(before.as_ref(), &probe);
        let is_ready = probe.answer == Answer::Ready;
        // For a cluster that was ready, each miss counts. One that was never ready is reconciled regularly anyway.
        let is_news = before.as_ref().is_none_or(|before| before.answer != probe.answer) || (was_ready && !is_ready);
        *lock(&latest) = Some(probe);
        if is_news {
            wake();
        }
        let pause = match (is_ready, was_ready) {
            (true, _) => READY_EVERY,
            (false, true) => DOUBT_EVERY,
            (false, false) => delay,
        };
        let longest = if began.elapsed() < STARTING_TAKES { STARTING_DELAY } else { LONGEST_DELAY };
        delay = if is_ready { FIRST_DELAY } else { (delay * GROWTH_TENTHS / 10).min(longest) };
        // The short interval lasts as long as the cluster may still be reported as ready.
        was_ready =
            is_ready || (was_ready && lock(&latest).as_ref().is_some_and(|probe| probe.in_a_row < TOLERATED + 1));
        tokio::time::sleep(pause).await;
    }
}

/// How many answers in a row a ready cluster may miss.
pub(crate) const TOLERATED: u32 = 2;

fn follow(before: Option<&Probe>, answer: Answer, since_healthy: Duration) -> Probe {
    let in_a_row = before.filter(|before| before.answer.is_like(&answer)).map_or(1, |before| before.in_a_row + 1);
    let silent = if answer.is_healthy() { Duration::ZERO } else { since_healthy };
    Probe { answer, in_a_row, silent }
}

/// Logs a probe if its outcome changed.
fn note(before: Option<&Probe>, now: &Probe) {
    if before.is_some_and(|before| before.answer.is_like(&now.answer)) {
        return;
    }
    match &now.answer {
        Answer::Ready => tracing::info!("Kubernetes answers, and a node is ready"),
        Answer::NoNode(why) => tracing::info!(why, "Kubernetes answers, and no node is ready"),
        Answer::Timeout => tracing::info!(after = ?ANSWER_TAKES, "Kubernetes does not answer in time"),
        Answer::Failed(why) => tracing::info!(why, "Kubernetes does not answer yet"),
    }
}

/// Sends probes over the network.
#[derive(Default)]
pub struct Network {
    client: tokio::sync::Mutex<Option<(Access, Client)>>,
}

impl Debug for Network {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Network").finish_non_exhaustive()
    }
}

impl Ask for Network {
    fn ask<'a>(&'a self, access: &'a Access, seen: &'a mut Heartbeats) -> BoxFuture<'a, Answer> {
        Box::pin(async move {
            let mut kept = self.client.lock().await;
            let client = match &*kept {
                Some((known, client)) if known == access => client.clone(),
                _ => match client(access) {
                    Ok(client) => client,
                    Err(why) => return Answer::Failed(why),
                },
            };
            let answer = ask(&client, seen).await;
            // A failed connection may hang forever, for example after the host slept: the next probe opens a new one.
            *kept = (answer == Answer::Ready).then(|| (access.clone(), client));
            answer
        })
    }
}

fn client(access: &Access) -> Result<Client, String> {
    let url = access.server().parse().map_err(|error| format!("its address is none: {error}"))?;
    let mut config = Config::new(url);
    config.root_cert = Some(authorities(&access.authority));
    config.connect_timeout = Some(ANSWER_TAKES);
    config.read_timeout = Some(ANSWER_TAKES);
    // The prober itself repeats requests.
    config.default_retry = false;
    let mut who = AuthInfo { token: access.token.clone().map(Into::into), ..AuthInfo::default() };
    if let serde_json::Value::Object(user) = access.user() {
        // The same rendering as in the published kubeconfig, so that the probe tests what clients use.
        let data = |key: &str| user.get(key).and_then(|value| value.as_str()).map(str::to_owned);
        who.client_certificate_data = data("client-certificate-data");
        who.client_key_data = data("client-key-data").map(Into::into);
    }
    config.auth_info = who;
    Client::try_from(config).map_err(|error| Chain(&error).to_string())
}

/// The certificates of a PEM bundle, in DER.
fn authorities(bundle: &[u8]) -> Vec<Vec<u8>> {
    x509_parser::pem::Pem::iter_from_buffer(bundle).filter_map(Result::ok).map(|pem| pem.contents).collect()
}

async fn ask(client: &Client, seen: &mut Heartbeats) -> Answer {
    let request = http::Request::get("/healthz").body(Vec::new());
    let Ok(request) = request else { return Answer::Failed("no request".to_owned()) };
    match tokio::time::timeout(ANSWER_TAKES, client.request_text(request)).await {
        Err(_) => return Answer::Timeout,
        // The client has timeouts of its own, which may end first.
        Ok(Err(error)) if is_timeout(&error) => return Answer::Timeout,
        Ok(Err(error)) => return Answer::Failed(Chain(&error).to_string()),
        Ok(Ok(_)) => {}
    }
    let nodes: Api<Node> = Api::all(client.clone());
    match tokio::time::timeout(ANSWER_TAKES, nodes.list(&ListParams::default())).await {
        Err(_) => Answer::NoNode(format!("Cannot reach cluster: no answer within {ANSWER_TAKES:?}")),
        Ok(Err(kube::Error::Api(status))) => Answer::NoNode(format!("Cannot list nodes: {}", status.message)),
        Ok(Err(error)) => Answer::NoNode(format!("Cannot reach cluster: {}", Chain(&error))),
        Ok(Ok(list)) => judge(&list.items, &list_leases(client).await, seen),
    }
}

/// The leases of nodes. If they cannot be listed, the heartbeats in the nodes' conditions are used alone.
async fn list_leases(client: &Client) -> Vec<Lease> {
    let leases: Api<Lease> = Api::namespaced(client.clone(), NODE_LEASES);
    match tokio::time::timeout(ANSWER_TAKES, leases.list(&ListParams::default())).await {
        Ok(Ok(list)) => list.items,
        Ok(Err(_)) | Err(_) => Vec::new(),
    }
}

fn ready_condition(node: &Node) -> Option<&NodeCondition> {
    node.status.as_ref()?.conditions.as_ref()?.iter().find(|condition| condition.type_ == "Ready")
}

fn judge(nodes: &[Node], leases: &[Lease], seen: &mut Heartbeats) -> Answer {
    let is_ready = |node: &Node| ready_condition(node).is_some_and(|condition| condition.status == "True");
    // Called for every probe, also without a Ready node, so that changes since the first probe are seen.
    let are_alive = seen.are_alive(nodes, leases);
    match nodes {
        [] => Answer::NoNode("No node has registered yet".to_owned()),
        nodes if nodes.iter().zip(are_alive).any(|(node, is_alive)| is_alive && is_ready(node)) => Answer::Ready,
        nodes if nodes.iter().any(is_ready) => {
            Answer::NoNode("No node has reported since Kubernetes was started".to_owned())
        }
        _ => Answer::NoNode("No node is Ready yet".to_owned()),
    }
}

fn is_timeout(error: &(dyn StdError + 'static)) -> bool {
    let mut next = Some(error);
    while let Some(link) = next {
        let timed_out = |error: &io::Error| error.kind() == io::ErrorKind::TimedOut;
        if link.downcast_ref::<io::Error>().is_some_and(timed_out) {
            return true;
        }
        next = link.source();
    }
    false
}

#[cfg(test)]
mod tests {
    use k8s_openapi::{
        api::{coordination::v1::LeaseSpec, core::v1::NodeStatus},
        apimachinery::pkg::apis::meta::v1::{MicroTime, Time},
    };

    use super::*;

    fn node(ready: Option<&str>) -> Node {
        let condition =
            |status: &str| NodeCondition { type_: "Ready".into(), status: status.into(), ..Default::default() };
        let conditions = ready.map(|status| vec![condition(status)]);
        Node { status: Some(NodeStatus { conditions, ..Default::default() }), ..Default::default() }
    }

    #[test]
    fn one_ready_node_is_enough_and_every_lack_has_its_words() {
        let no = |why: &str| Answer::NoNode(why.to_owned());
        // The first probe found no node.
        let judge = |nodes: &[Node]| {
            judge(nodes, &[], &mut Heartbeats { first: Some(BTreeMap::new()), ..Heartbeats::default() })
        };
        assert_eq!(judge(&[]), no("No node has registered yet"));
        assert_eq!(judge(&[node(None)]), no("No node is Ready yet"));
        assert_eq!(judge(&[node(Some("False")), node(Some("Unknown"))]), no("No node is Ready yet"));
        assert_eq!(judge(&[node(Some("False")), node(Some("True"))]), Answer::Ready);
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + second).unwrap()
    }

    /// A Ready node with a heartbeat at this second, and its lease renewed at that second.
    fn reported(heartbeat: i64, renewed: Option<i64>) -> (Node, Vec<Lease>) {
        let mut node = node(Some("True"));
        (node.metadata.name, node.metadata.uid) = (Some("n".to_owned()), Some("u".to_owned()));
        if let Some(conditions) = node.status.as_mut().and_then(|status| status.conditions.as_mut()) {
            conditions[0].last_heartbeat_time = Some(Time(at(heartbeat)));
        }
        let lease = |renewed| {
            let spec = LeaseSpec { renew_time: Some(MicroTime(at(renewed))), ..LeaseSpec::default() };
            let mut lease = Lease { spec: Some(spec), ..Lease::default() };
            lease.metadata.name = Some("n".to_owned());
            lease
        };
        (node, renewed.map(lease).into_iter().collect())
    }

    // Finding E-21
    #[test]
    fn a_node_that_was_ready_in_an_earlier_start_counts_when_its_kubelet_has_reported_in_this_one() {
        let stale = Answer::NoNode("No node has reported since Kubernetes was started".to_owned());
        let start = |second: i64| Some(Duration::from_secs(1_800_000_000_u64.saturating_add_signed(second)));
        let look = |seen: &mut Heartbeats, (node, leases): (Node, Vec<Lease>)| judge(&[node], &leases, seen);
        // The cluster started at 10; the lease of the previous run is from 7.
        let mut seen = Heartbeats::since(start(10));
        assert_eq!(look(&mut seen, reported(5, Some(7))), stale);
        assert_eq!(look(&mut seen, reported(5, Some(7))), stale, "however often it is asked");
        assert_eq!(look(&mut seen, reported(5, Some(13))), Answer::Ready);
        // A cluster that was adopted has reported long before.
        assert_eq!(look(&mut Heartbeats::since(start(10)), reported(5, Some(13))), Answer::Ready);
        assert_eq!(look(&mut Heartbeats::since(start(10)), reported(5, Some(10))), stale, "not later");
        // The clock was set back after the start: a change counts, whatever the clock shows.
        let mut seen = Heartbeats::since(start(1000));
        assert_eq!(look(&mut seen, reported(5, Some(7))), stale);
        assert_eq!(look(&mut seen, reported(5, Some(17))), Answer::Ready);
        // The start is unknown, or there are no leases.
        let mut seen = Heartbeats::since(None);
        assert_eq!(look(&mut seen, reported(5, None)), stale);
        assert_eq!(look(&mut seen, reported(15, None)), Answer::Ready);
        assert_eq!(look(&mut Heartbeats::since(start(10)), reported(15, None)), Answer::Ready);
        // A lease that was unknown at the first probe is no change at the second.
        let mut seen = Heartbeats::since(start(10));
        assert_eq!(look(&mut seen, reported(5, None)), stale);
        assert_eq!(look(&mut seen, reported(5, Some(7))), stale);
        assert_eq!(look(&mut seen, reported(5, Some(8))), Answer::Ready);
        // A node of the same name with another UID is another node.
        let mut seen = Heartbeats::since(None);
        assert_eq!(look(&mut seen, reported(5, Some(7))), stale);
        let (mut other, leases) = reported(5, Some(7));
        other.metadata.uid = Some("other".to_owned());
        assert_eq!(judge(&[other], &leases, &mut seen), Answer::Ready);
    }

    #[test]
    fn like_answers_are_counted_and_a_good_one_ends_the_silence() {
        let second = Duration::from_secs(1);
        let first = follow(None, Answer::Timeout, second);
        let second_miss = follow(Some(&first), Answer::Timeout, 2 * second);
        assert_eq!((first.in_a_row, second_miss.in_a_row, second_miss.silent), (1, 2, 2 * second));
        let other = follow(Some(&second_miss), Answer::Failed("refused".into()), 3 * second);
        assert_eq!((other.in_a_row, other.silent), (1, 3 * second));
        let again = follow(Some(&other), Answer::Failed("reset".into()), 4 * second);
        assert_eq!(again.in_a_row, 2, "another way to fail is still failing");
        assert_eq!(follow(Some(&again), Answer::Ready, Duration::ZERO).silent, Duration::ZERO);
    }

    /// Answers at once, and records the time of each probe.
    #[derive(Debug, Default)]
    struct Patient(Mutex<Vec<Instant>>);

    impl Ask for Patient {
        fn ask<'a>(&'a self, _: &'a Access, _: &'a mut Heartbeats) -> BoxFuture<'a, Answer> {
            lock(&self.0).push(Instant::now());
            Box::pin(async { Answer::Failed("refused".into()) })
        }
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_starts_is_asked_four_times_a_second_and_one_that_never_does_less_and_less() {
        let asked = Arc::new(Patient::default());
        let access = Access { authority: Vec::new(), certificate: None, key: None, token: None, port: 1 };
        let seen = Heartbeats::default();
        let asking = keep_asking(Arc::clone(&asked) as Arc<dyn Ask>, access, seen, Arc::default(), || ());
        let _ = tokio::time::timeout(Duration::from_mins(10), asking).await;
        let times = lock(&asked.0).clone();
        let pauses: Vec<(Duration, Duration)> =
            times.windows(2).map(|pair| (pair[0] - times[0], pair[1] - pair[0])).collect();
        let starting = pauses.iter().filter(|(at, _)| *at < Duration::from_mins(2));
        assert!(starting.clone().all(|(_, pause)| *pause <= Duration::from_millis(251)) && starting.count() < 600);
        assert!(pauses.last().unwrap().1 >= Duration::from_secs(5), "{:?}", pauses.last());
    }

    #[tokio::test]
    async fn nobody_at_the_port_is_a_failure_and_a_silent_one_a_timeout() {
        let issued = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let authority = issued.cert.pem().into_bytes();
        let access = Access { authority, certificate: None, key: None, token: Some("t".into()), port };
        let mut seen = Heartbeats::default();
        assert_eq!(Network::default().ask(&access, &mut seen).await, Answer::Timeout);
        drop(listener);
        assert!(matches!(Network::default().ask(&access, &mut seen).await, Answer::Failed(_)));
        let broken = Access { certificate: Some(b"no".to_vec()), key: Some(b"no".to_vec()), ..access };
        assert!(matches!(Network::default().ask(&broken, &mut seen).await, Answer::Failed(_)));
    }
}
