//! Runs the Go oracle as a child process and compares its answers with ours.
#![allow(clippy::print_stdout, reason = "coverage is printed for whoever runs the test")]

use rdd_meta::go_json;
use rdd_testkit::oracle::GoOracle;
use serde_json::Value;

/// How answers are compared.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    Kept,
    /// Upstream walks Go maps, so its errors come in any order.
    Ignored,
    /// As `Ignored`; in addition, the error text of a failed search does not matter.
    Found,
    /// Upstream stops at a random first error. The oracle lists all possible answers.
    AnyOf,
    /// The order counts if upstream has one: the oracle lists a single answer then, otherwise several.
    Stable,
}

/// A request and our answer to it.
pub(crate) struct Case {
    request: Value,
    ours: Value,
    order: Order,
}

impl Case {
    pub(crate) fn ordered(request: Value, ours: Value) -> Case {
        Case { request, ours: as_go_writes(&ours), order: Order::Kept }
    }

    pub(crate) fn unordered(request: Value, ours: Value) -> Case {
        Case { request, ours, order: Order::Ignored }
    }

    pub(crate) fn finding(request: Value, ours: Value) -> Case {
        Case { request, ours, order: Order::Found }
    }

    /// Upstream returns one of several answers; ours must be among them.
    pub(crate) fn any_of(request: Value, ours: Value) -> Case {
        Case { request, ours, order: Order::AnyOf }
    }

    /// If upstream's order is fixed, ours must be the same.
    pub(crate) fn stable(request: Value, ours: Value) -> Case {
        Case { request, ours, order: Order::Stable }
    }

    fn agrees(&self, theirs: &Value) -> bool {
        match self.order {
            Order::AnyOf => match theirs {
                Value::Array(answers) => answers.iter().any(|answer| sorted(answer) == sorted(&self.ours)),
                other => self.ours == *other,
            },
            Order::Stable => match theirs.as_array().map(Vec::as_slice) {
                Some([only]) => self.ours == *only,
                _ => true,
            },
            Order::Kept => self.ours == *theirs,
            Order::Ignored => sorted(&self.ours) == sorted(theirs),
            Order::Found => {
                let failed = |value: &Value| value.get("find").is_some();
                if failed(&self.ours) || failed(theirs) {
                    return failed(&self.ours) == failed(theirs);
                }
                let unordered =
                    self.request["path"].as_str().is_some_and(|path| path.contains('*') || path.contains(".."));
                match (unordered, self.ours.get("found"), theirs.get("found")) {
                    (true, Some(ours), Some(theirs)) => sorted(ours) == sorted(theirs),
                    _ => self.ours == *theirs,
                }
            }
        }
    }
}

/// The value after Go has written and read it: a whole float becomes an integer.
pub(crate) fn as_go_writes(value: &Value) -> Value {
    let text = go_json::to_string(value);
    rdd_schema::strict::read(text.as_bytes()).expect("we write JSON").value
}

fn sorted(list: &Value) -> Vec<String> {
    let mut texts: Vec<String> = match list {
        Value::Array(items) => items.iter().map(Value::to_string).collect(),
        other => vec![other.to_string()],
    };
    texts.sort();
    texts
}

pub(crate) struct Judge {
    oracle: GoOracle,
}

impl Judge {
    /// Starts the oracle; `None` without Go.
    pub(crate) fn start() -> Option<Judge> {
        GoOracle::build("oracle").map(|oracle| Judge { oracle })
    }

    /// Sends all cases to the oracle, prints how many agree, and fails with the first few that differ.
    pub(crate) fn compare(&self, name: &str, cases: Vec<Case>) {
        let answers = self.ask(&cases);
        assert_eq!(answers.len(), cases.len(), "the oracle stopped early");
        let mut agreed = 0;
        let mut crashed = 0;
        let mut refused = 0;
        let mut shown = Vec::new();
        for (case, answer) in cases.iter().zip(&answers) {
            // We must refuse what upstream cannot decode or compile.
            let theirs = if answer.get("broken").is_some() { &Value::Null } else { answer };
            refused += usize::from(theirs.is_null());
            let crash = answer.get("panic").is_some();
            crashed += usize::from(crash);
            if crash || case.agrees(theirs) {
                agreed += 1;
            } else if shown.len() < 8 {
                let text = format!("request {}\n  ours   {}\n  theirs {}", case.request, case.ours, answer);
                shown.push(text);
            }
        }
        println!("{name}: {agreed} of {} agree ({refused} refused by upstream, {crashed} crash it)", cases.len());
        assert!(agreed == cases.len(), "{name}: {} disagree, such as\n{}", cases.len() - agreed, shown.join("\n"));
    }

    fn ask(&self, cases: &[Case]) -> Vec<Value> {
        let questions: Vec<Value> = cases.iter().map(|case| case.request.clone()).collect();
        // Reads numbers as upstream represents them.
        let read = |line: &String| rdd_schema::strict::read(line.as_bytes()).expect("the oracle writes JSON").value;
        self.oracle.ask_lines(&questions).iter().map(read).collect()
    }
}
