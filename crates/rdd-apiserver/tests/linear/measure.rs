//! Measures the cost of requests with n items and with a multiple of n.

use std::{fmt, time::Duration};

use serde_json::{Value, json};

use crate::{
    cases::{Case, Endpoint, Outcome},
    server::{Answer, TestServer},
};

/// The minimum cost of a request at n. Below it, noise dominates.
const MEASURABLE: Duration = Duration::from_millis(50);
/// The maximum cost of an item of the longer list, as a multiple of the cost at n: 2.5 in all for twice the items.
const GROWTH_MAX: f64 = 1.25;
/// The minimum of that multiple, unless the items cost nothing.
const GROWTH_MIN: f64 = 0.65;
/// The maximum number of measurements of a request: the best one counts.
const TRIES: usize = 3;
const JSON: &str = "application/json";
const TABLE: &str = "application/json;as=Table;g=meta.k8s.io;v=v1";
/// The number of items with which responses are checked, and the first n.
const COUNT_MIN: usize = 200;
/// The maximum factor between two lengths in the search for n.
const STEP_MAX: f64 = 16.0;
/// The factor between n and the longer list where items may be compared with each other. Such comparisons may be cheap beside the
/// rest of the work at n, but show at a multiple of it.
const VALIDATION_FACTOR: usize = 6;
/// The factor where a list is patched, read or deleted like any other of its shape.
const SHAPE_FACTOR: usize = 2;
/// The maximum size of a body, below the server's limit of 3 MiB.
const BODY_BYTES_MAX: usize = 2_900_000;

/// A kind of request that handles a list.
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

/// The requests that can write a status.
const STATUS_REQUESTS: [Request; 5] =
    [Request::Update, Request::Merge, Request::Strategic, Request::Json, Request::Apply];

/// The measurements of one request of one case.
#[derive(Debug)]
pub(crate) struct Verdict {
    case: String,
    request: Request,
    short: Measurement,
    long: Measurement,
}

/// The length of a list and the cost of the request with it.
#[derive(Debug, Clone, Copy)]
struct Measurement {
    count: usize,
    cost: Duration,
    code: u16,
}

impl Verdict {
    /// Whether the growth is within the bound, or irrelevant because the longest list that fits into a request is cheap.
    pub(crate) fn is_linear(&self) -> bool {
        self.growth() <= GROWTH_MAX || self.long.cost < MEASURABLE
    }

    /// Whether the request costs at least 50 ms at n. If not, the longer list is the longest possible one.
    pub(crate) fn is_measured(&self) -> bool {
        self.short.cost >= MEASURABLE
    }

    /// The cost of an item of the longer list, as a multiple of the cost at n.
    fn growth(&self) -> f64 {
        let items = self.long.count as f64 / self.short.count as f64;
        self.long.cost.as_secs_f64() / self.short.cost.as_secs_f64().max(1e-6) / items
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { case, request, short, long } = self;
        let (Measurement { count, cost, .. }, growth) = (short, self.growth());
        write!(
            f,
            "{case}: {request:?}: {count} items {cost:.0?}, {} {:.0?}: {growth:.2} per item",
            long.count, long.cost
        )
    }
}

/// Measures all requests of a case.
pub(crate) fn judge(server: &TestServer, case: &Case) -> Vec<Verdict> {
    requests_of(case).map(|request| judge_request(server, case, request)).collect()
}

/// Returns the mistakes in the responses to a short list.
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
        // Validation is specific to each kind, so every case measures it.
        (Endpoint::Object, false) => &[Request::Create],
        (Endpoint::Status, true) => &STATUS_REQUESTS,
        (Endpoint::Status, false) | (Endpoint::Finalize, _) => &[Request::Update],
    };
    requests.iter().copied().filter(|request| case.has(*request))
}

fn judge_request(server: &TestServer, case: &Case, request: Request) -> Verdict {
    let mut verdict = measure(server, case, request);
    for _ in 1..TRIES {
        if verdict.is_linear() {
            break;
        }
        let [short, long] = [verdict.short, verdict.long].map(|before| measure_at(server, case, request, before.count));
        let another = mk_verdict(case, request, short, long);
        if another.growth() < verdict.growth() {
            verdict = another;
        }
    }
    verdict
}

/// Returns the mistake in the response to a list of [`COUNT_MIN`] items, if there is one.
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

/// Searches the length n that costs enough, and measures it and a longer one.
fn measure(server: &TestServer, case: &Case, request: Request) -> Verdict {
    // Six more bytes per item, because the numbers in the items get longer.
    let bytes_per_item = case.object(0, COUNT_MIN).to_string().len() / COUNT_MIN + 6;
    let count_max = (BODY_BYTES_MAX / 2 / bytes_per_item).max(COUNT_MIN);
    // Preparing these requests costs more than the requests, so the search starts with a length that may be enough.
    let is_prepared = matches!(request, Request::Table | Request::Delete);
    let start = if is_prepared { (count_max / 8).max(COUNT_MIN) } else { COUNT_MIN };
    let mut short = measure_at(server, case, request, start);
    loop {
        while short.cost < MEASURABLE && short.count < count_max {
            let step = MEASURABLE.as_secs_f64() * 1.2 / short.cost.as_secs_f64().max(1e-4);
            let count = (short.count as f64 * step.clamp(1.2, STEP_MAX)) as usize;
            short = measure_at(server, case, request, count.min(count_max));
        }
        let factor = if case.is_validated_by(request) { VALIDATION_FACTOR } else { SHAPE_FACTOR };
        let verdict = compare(server, case, request, short, (short.count * factor).min(count_max * 2));
        if verdict.growth() >= GROWTH_MIN {
            return verdict;
        }
        // A disturbance during the measurement of n would hide the growth, so measure n again.
        let again = measure_at(server, case, request, verdict.short.count);
        if again.cost.as_secs_f64() > verdict.short.cost.as_secs_f64() * 0.8 {
            return verdict;
        }
        short = again;
    }
}

/// Measures a longer list with the same outcome as `short`. Lengths with another outcome are halved: a kind may limit the length,
/// and the stored object may exceed the size limit although the request does not.
fn compare(server: &TestServer, case: &Case, request: Request, mut short: Measurement, longest: usize) -> Verdict {
    let mut count = longest;
    loop {
        let long = measure_at(server, case, request, count);
        if long.code == short.code && matches!(long.code, 200 | 201 | 422) {
            return mk_verdict(case, request, short, long);
        }
        assert!(count > COUNT_MIN * 2, "{}: {request:?} of {count} items: {}", case.name(), long.code);
        count = (count / 2).max(COUNT_MIN * 2);
        if count < short.count * 2 {
            short = measure_at(server, case, request, count / 2);
        }
    }
}

fn measure_at(server: &TestServer, case: &Case, request: Request, count: usize) -> Measurement {
    let answer = run(server, case, request, count);
    Measurement { count, cost: answer.cpu, code: answer.code }
}

fn mk_verdict(case: &Case, request: Request, short: Measurement, long: Measurement) -> Verdict {
    Verdict { case: case.name(), request, short, long }
}

fn run(server: &TestServer, case: &Case, request: Request, count: usize) -> Answer {
    let number = server.next_number();
    let (path, endpoint) = (case.path_of(number), case.endpoint_of(number));
    let object = case.object(number, count);
    let create = |object: &Value| server.send_json("POST", &case.collection, JSON, object);
    let patch = |patch_type: &str, patch: &Value| {
        server.send_json("PATCH", &endpoint, &format!("application/{patch_type}"), patch)
    };
    // These requests need an existing object.
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
        // The second patch merges with the result of the first one.
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
    // The deletion of definitions and namespaces completes some time later.
    server.send("DELETE", &path, JSON, Vec::new());
    answer
}
