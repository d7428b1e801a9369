//! What requests cost at n items and at 2n.

use std::{fmt, time::Duration};

use serde_json::{Value, json};

use crate::{
    cases::{Case, Endpoint, Outcome},
    server::{Answer, TestServer, thread_cpu},
};

/// What a request must cost at n. Less is noise.
const MEASURABLE: Duration = Duration::from_millis(50);
/// What twice the items may cost.
const RATIO_MAX: f64 = 2.5;
/// How often a request that looks too slow is measured: the best of these counts.
const TRIES: usize = 3;
const JSON: &str = "application/json";
const TABLE: &str = "application/json;as=Table;g=meta.k8s.io;v=v1";
/// The number of items with which the answer is checked. Also the first n.
const COUNT_MIN: usize = 200;
/// How much longer the next list may be than the one before.
const GROWTH_MAX: f64 = 16.0;
/// Bodies end here, as the server's limit is 3 MiB.
const BODY_BYTES_MAX: usize = 2_900_000;

/// How a list reaches the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Request {
    Create,
    Update,
    Merge,
    Strategic,
    Json,
    Apply,
    Table,
    Delete,
}

const REQUESTS: [Request; 8] = [
    Request::Create,
    Request::Update,
    Request::Merge,
    Request::Strategic,
    Request::Json,
    Request::Apply,
    Request::Table,
    Request::Delete,
];

/// What reaches a status.
const STATUS_REQUESTS: [Request; 5] =
    [Request::Update, Request::Merge, Request::Strategic, Request::Json, Request::Apply];

/// How a verdict was reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Basis {
    /// The request costs at least 50 ms at n.
    Measured,
    /// 2n is the longest list that fits into a body, and costs less than 50 ms at n.
    Longest,
}

/// What one request of one case cost.
#[derive(Debug)]
pub(crate) struct Verdict {
    case: String,
    request: Request,
    count: usize,
    once: Duration,
    twice: Duration,
    pub(crate) basis: Basis,
    pub(crate) spent: Duration,
}

impl Verdict {
    /// Growth cannot hurt where the longest list that fits into a request is cheap.
    pub(crate) fn is_linear(&self) -> bool {
        self.ratio() <= RATIO_MAX || self.is_cheap()
    }

    /// Whether the longest list costs less than can be measured.
    fn is_cheap(&self) -> bool {
        self.basis == Basis::Longest && self.twice < MEASURABLE
    }

    fn ratio(&self) -> f64 {
        self.twice.as_secs_f64() / self.once.as_secs_f64().max(1e-6)
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { case, request, count, once, twice, basis, spent, .. } = self;
        let ratio = self.ratio();
        write!(
            f,
            "{case}: {request:?} ({basis:?}, in {spent:.0?}): {count} items {once:.0?}, twice as many {twice:.0?}, {ratio:.1} times"
        )
    }
}

/// Measures the requests of a case.
pub(crate) fn judge(server: &TestServer, case: &Case) -> Vec<Verdict> {
    requests_of(case).map(|request| judge_request(server, case, request)).collect()
}

/// What is wrong with the answers to a short list.
pub(crate) fn find_mistakes(server: &TestServer, case: &Case) -> Vec<String> {
    requests_of(case)
        .filter_map(|request| {
            let mistake = find_mistake(case, request, &run(server, case, request, COUNT_MIN))?;
            Some(format!("{}: {request:?} {mistake}", case.name()))
        })
        .collect()
}

fn requests_of(case: &Case) -> impl Iterator<Item = Request> {
    let requests = match (case.endpoint, case.is_first) {
        (Endpoint::Object, true) => &REQUESTS[..],
        // Each kind validates in its own way.
        (Endpoint::Object, false) => &[Request::Create],
        (Endpoint::Status, true) => &STATUS_REQUESTS,
        (Endpoint::Status, false) | (Endpoint::Finalize, _) => &[Request::Update],
    };
    requests.iter().copied().filter(|request| case.has(*request))
}

fn judge_request(server: &TestServer, case: &Case, request: Request) -> Verdict {
    let began = thread_cpu();
    let probe = run(server, case, request, COUNT_MIN);
    let mut verdict = measure(server, case, request, probe.cpu);
    for _ in 1..TRIES {
        if verdict.is_linear() {
            break;
        }
        let another = measure_at(server, case, request, verdict.count);
        if another.ratio() < verdict.ratio() {
            verdict = another;
        }
    }
    verdict.spent = thread_cpu() - began;
    verdict
}

/// What is wrong with the answer to a list of [`COUNT_MIN`] items.
fn find_mistake(case: &Case, request: Request, answer: &Answer) -> Option<String> {
    let code = match (case.outcome, request) {
        (Outcome::Invalid, _) => 422,
        (_, Request::Create) => 201,
        _ => 200,
    };
    let start = |body: &[u8]| String::from_utf8_lossy(body).chars().take(700).collect::<String>();
    if answer.code != code {
        return Some(format!("answered {} instead of {code}: {}", answer.code, start(&answer.body)));
    }
    let has_list = !matches!(request, Request::Table | Request::Delete);
    if has_list && case.outcome != Outcome::Invalid {
        let expected = if case.outcome == Outcome::Stored { COUNT_MIN } else { 0 };
        let count = case.count_items(&answer.json());
        let is_right = if case.outcome == Outcome::Stored { count >= expected } else { count < COUNT_MIN };
        return (!is_right).then(|| format!("{count} items in the answer: {}", start(&answer.body)));
    }
    None
}

/// Finds a length that costs enough, and measures it and twice that.
fn measure(server: &TestServer, case: &Case, request: Request, probe: Duration) -> Verdict {
    // Numbers get longer with the list.
    let bytes_per_item = case.object(0, COUNT_MIN).to_string().len() / COUNT_MIN + 6;
    let count_max = (BODY_BYTES_MAX / 2 / bytes_per_item).max(COUNT_MIN);
    // Preparing these costs more than they do, so they are not repeated to find a length: twice n is the longest list.
    if matches!(request, Request::Table | Request::Delete) {
        return measure_at(server, case, request, count_max);
    }
    let (mut count, mut once) = (COUNT_MIN, probe);
    while once < MEASURABLE && count < count_max {
        let growth = MEASURABLE.as_secs_f64() * 1.2 / once.as_secs_f64().max(1e-4);
        count = ((count as f64 * growth.clamp(1.2, GROWTH_MAX)) as usize).min(count_max);
        once = run(server, case, request, count).cpu;
    }
    measure_at(server, case, request, count)
}

/// Measures so many items and twice as many, or fewer if only the longer list is refused: a kind may have a limit of its own.
fn measure_at(server: &TestServer, case: &Case, request: Request, mut count: usize) -> Verdict {
    loop {
        let (once, twice) = (run(server, case, request, count), run(server, case, request, count * 2));
        if once.code == twice.code || count <= COUNT_MIN {
            let is_handled = matches!(twice.code, 200 | 201 | 422);
            assert!(is_handled, "{}: {request:?} of {count} items: {}", case.name(), twice.code);
            return mk_verdict(case, request, count, once.cpu, twice.cpu);
        }
        count /= 2;
    }
}

fn mk_verdict(case: &Case, request: Request, count: usize, once: Duration, twice: Duration) -> Verdict {
    let basis = if once >= MEASURABLE { Basis::Measured } else { Basis::Longest };
    Verdict { case: case.name(), request, count, once, twice, basis, spent: Duration::ZERO }
}

fn run(server: &TestServer, case: &Case, request: Request, count: usize) -> Answer {
    let number = server.next_number();
    let (path, endpoint) = (case.path_of(number), case.endpoint_of(number));
    let object = case.object(number, count);
    let create = |object: &Value| server.send_json("POST", &case.collection, JSON, object);
    let patch = |patch_type: &str, patch: &Value| {
        server.send_json("PATCH", &endpoint, &format!("application/{patch_type}"), patch)
    };
    // A status is written to an object that is there, by any request.
    if !matches!(request, Request::Create | Request::Table | Request::Delete | Request::Apply)
        || case.endpoint != Endpoint::Object
    {
        let created = create(&case.plain(number));
        assert_eq!(created.code, 201, "{}: {}", case.name(), String::from_utf8_lossy(&created.body));
    }
    let answer = match request {
        Request::Create => create(&object),
        Request::Update => {
            let mut object = object;
            object["metadata"]["resourceVersion"] = server.get(&path)["metadata"]["resourceVersion"].take();
            server.send_json("PUT", &endpoint, JSON, &object)
        }
        Request::Merge => patch("merge-patch+json", &object),
        // The second one merges into what the first one has left.
        Request::Strategic => {
            patch("strategic-merge-patch+json", &object).and(patch("strategic-merge-patch+json", &object))
        }
        Request::Json => patch("json-patch+json", &case.json_patch(number, count)),
        Request::Apply => {
            let mut object = object;
            object["metadata"].as_object_mut().unwrap().remove("managedFields");
            let apply = |manager: &str| {
                let path = format!("{endpoint}?fieldManager={manager}&force=true");
                server.send_json("PATCH", &path, "application/apply-patch+yaml", &object)
            };
            apply("a").and(apply("b"))
        }
        Request::Table | Request::Delete => match create(&object) {
            created if created.code != 201 => created,
            _ if request == Request::Table => server.send_as("GET", &path, JSON, TABLE, Vec::new()),
            _ => server.send("DELETE", &path, JSON, Vec::new()),
        },
    };
    if case.has_finalizers() {
        server.send_json("PATCH", &path, "application/merge-patch+json", &json!({"metadata": {"finalizers": null}}));
    }
    // Definitions and namespaces go by themselves, some time later.
    server.send("DELETE", &path, JSON, Vec::new());
    answer
}
