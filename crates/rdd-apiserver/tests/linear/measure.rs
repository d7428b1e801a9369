//! What requests cost at n items and at 2n.

use std::{fmt, time::Duration};

use serde_json::{Value, json};

use crate::{
    cases::Case,
    server::{Answer, TestServer, thread_cpu},
};

/// Times below this are noise.
const MEASURABLE: Duration = Duration::from_millis(50);
/// What twice the items may cost.
const RATIO_MAX: f64 = 2.5;
/// How often what looks too slow is measured: the best of these counts.
const TRIES: usize = 3;
const JSON: &str = "application/json";
const TABLE: &str = "application/json;as=Table;g=meta.k8s.io;v=v1";
/// The first n.
const COUNT_MIN: usize = 200;
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

/// What is measured of every list, because each kind validates in its own way.
const EVERY_LIST: [Request; 1] = [Request::Create];

/// What one request of one case cost.
#[derive(Debug)]
pub(crate) struct Verdict {
    case: String,
    request: Request,
    count: usize,
    once: Duration,
    twice: Duration,
    code: u16,
}

impl Verdict {
    /// Whether it took long enough for a quick look.
    pub(crate) fn is_judged(&self) -> bool {
        self.once >= MEASURABLE / 3
    }

    fn is_measurable(&self) -> bool {
        self.once >= MEASURABLE
    }

    pub(crate) fn is_linear(&self) -> bool {
        !self.is_measurable() || self.ratio() <= RATIO_MAX
    }

    fn ratio(&self) -> f64 {
        self.twice.as_secs_f64() / self.once.as_secs_f64().max(1e-6)
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { case, request, count, once, twice, code } = self;
        let ratio = self.ratio();
        write!(f, "{case}: {request:?} ({code}): {count} items {once:.0?}, twice as many {twice:.0?}, {ratio:.1} times")
    }
}

/// Measures the requests of a case.
pub(crate) fn judge(server: &TestServer, case: &Case) -> Vec<Verdict> {
    let requests = if case.is_first { &REQUESTS[..] } else { &EVERY_LIST };
    requests.iter().map(|request| judge_request(server, case, *request)).collect()
}

/// A quick look at first; what looks too slow is measured again, longer and several times, and the best of that counts.
fn judge_request(server: &TestServer, case: &Case, request: Request) -> Verdict {
    let count = size_for(server, case, request, MEASURABLE / 3);
    let first = measure(server, case, request, count);
    if first.ratio() <= RATIO_MAX * 0.9 || first.twice < MEASURABLE / 3 {
        return first;
    }
    let count = size_for(server, case, request, MEASURABLE);
    let mut verdict = measure(server, case, request, count);
    for _ in 1..TRIES {
        if verdict.is_linear() {
            break;
        }
        let another = measure(server, case, request, count);
        if another.ratio() < verdict.ratio() {
            verdict = another;
        }
    }
    verdict
}

/// How many items cost about so much, or as many as fit into half a body. A request that is cheap beside those that prepare it
/// (a read, a delete) is not worth longer lists.
fn size_for(server: &TestServer, case: &Case, request: Request, cost: Duration) -> usize {
    let bytes_per_item = (case.object(0, COUNT_MIN).to_string().len() / COUNT_MIN).max(1);
    let count_max = BODY_BYTES_MAX / 2 / bytes_per_item;
    let mut count = COUNT_MIN;
    loop {
        let began = thread_cpu();
        let once = run(server, case, request, count).cpu;
        let with_preparation = thread_cpu() - began;
        if once >= cost || with_preparation >= cost * 3 || count >= count_max {
            return count;
        }
        let growth = cost.as_secs_f64() * 1.2 / once.as_secs_f64().max(1e-4);
        count = ((count as f64 * growth.clamp(1.2, 8.0)) as usize).min(count_max);
    }
}

fn measure(server: &TestServer, case: &Case, request: Request, count: usize) -> Verdict {
    let (once, twice) = (run(server, case, request, count), run(server, case, request, count * 2));
    Verdict { case: case.name(), request, count, once: once.cpu, twice: twice.cpu, code: twice.code }
}

fn run(server: &TestServer, case: &Case, request: Request, count: usize) -> Answer {
    let number = server.next_number();
    let path = case.path_of(number);
    let object = case.object(number, count);
    let create = |object: &Value| server.send_json("POST", &case.collection, JSON, object);
    let patch =
        |patch_type: &str, patch: &Value| server.send_json("PATCH", &path, &format!("application/{patch_type}"), patch);
    let answer = match request {
        Request::Create => create(&object),
        Request::Update => {
            create(&case.plain(number));
            server.send_json("PUT", &path, JSON, &object)
        }
        Request::Merge => {
            create(&case.plain(number));
            patch("merge-patch+json", &object)
        }
        Request::Strategic => {
            create(&case.plain(number));
            // The second one merges into what the first one has left.
            patch("strategic-merge-patch+json", &object).and(patch("strategic-merge-patch+json", &object))
        }
        Request::Json => {
            create(&case.plain(number));
            patch("json-patch+json", &case.json_patch(number, count))
        }
        Request::Apply => {
            let mut object = object.clone();
            object["metadata"].as_object_mut().unwrap().remove("managedFields");
            let apply = |manager: &str| {
                let path = format!("{path}?fieldManager={manager}&force=true");
                server.send_json("PATCH", &path, "application/apply-patch+yaml", &object)
            };
            apply("a").and(apply("b"))
        }
        Request::Table => {
            create(&object);
            server.send_as("GET", &path, JSON, TABLE, Vec::new())
        }
        Request::Delete => {
            create(&object);
            server.send("DELETE", &path, JSON, Vec::new())
        }
    };
    if case.has_finalizers() {
        patch("merge-patch+json", &json!({"metadata": {"finalizers": null}}));
    }
    // Definitions and namespaces go by themselves, some time later.
    server.send("DELETE", &path, JSON, Vec::new());
    answer
}
