//! The goals and figures of the API server.

use serde_json::{Value, json};

use super::{Goal, Limit, MEBIBYTES, goal, mebibytes};
use crate::api::{Api, Beside, Percentiles, Protocol};

/// The goals, with the measured values if there are any.
pub(super) fn goals(api: Option<&Api>) -> Vec<Goal> {
    let of = |figure: &dyn Fn(&Api) -> Option<f64>| api.and_then(figure);
    let memory = |bytes: fn(&Api) -> u64| api.map(|api| mebibytes(bytes(api)));
    let get = |protocol: Protocol| of(&|api| api.get.get(&protocol).map(cpu_ratio));
    let list = |protocol: Protocol| of(&|api| api.list.get(&protocol).map(rate_ratio));
    vec![
        goal("GET, CPU beside a bare server, HTTP/1.1", "times", Limit::Below(1.5), get(Protocol::Http1)),
        goal("GET, CPU beside a bare server, HTTP/2", "times", Limit::Below(1.5), get(Protocol::Http2)),
        goal("LIST, rate beside a bare server, HTTP/1.1", "times", Limit::AtLeast(0.5), list(Protocol::Http1)),
        goal("LIST, rate beside a bare server, HTTP/2", "times", Limit::AtLeast(0.5), list(Protocol::Http2)),
        goal("creates, beside etcd's puts", "times", Limit::AtLeast(1.0), of(&|api| Some(api.creates_by_puts))),
        goal("commit to the last of 100 watchers, p99", "ms", Limit::Below(5.0), of(&|api| Some(api.told.p99 * 1e3))),
        goal("memory, idle", MEBIBYTES, Limit::Below(25.0), memory(|api| api.memory.idle)),
        goal("memory, 10,000 ConfigMaps", MEBIBYTES, Limit::Below(60.0), memory(|api| api.memory.filled)),
        goal("memory, 100 definitions more", MEBIBYTES, Limit::Below(40.0), memory(|api| api.memory.definitions)),
        goal("idle, part of a core", "%", Limit::Below(0.1), of(&|api| Some(api.idle_cpu * 100.0))),
        goal(
            "fresh definition to stored object, p99",
            "ms",
            Limit::Below(50.0),
            of(&|api| Some(api.fresh_definition.p99 * 1e3)),
        ),
    ]
}

fn cpu_ratio(beside: &Beside) -> f64 {
    beside.ratio.cpu
}

fn rate_ratio(beside: &Beside) -> f64 {
    beside.ratio.bytes_per_second
}

/// The figures behind the ratios.
pub(super) fn notes(api: &Api) -> Vec<String> {
    let mut notes = Vec::new();
    for (protocol, Beside { ours, bare, .. }) in &api.get {
        let (name, ours_cpu, bare_cpu) = (protocol.name(), ours.cpu * 1e6, bare.cpu * 1e6);
        let (ours, bare) = (ours.rate, bare.rate);
        notes.push(format!(
            "GET over {name}: {ours_cpu:.1} µs of CPU and {ours:.0}/s, bare {bare_cpu:.1} µs and {bare:.0}/s"
        ));
    }
    for (protocol, Beside { ours, bare, .. }) in &api.list {
        let rate = |read: &crate::api::Read| read.bytes_per_second / 1e6;
        let (name, size) = (protocol.name(), mebibytes(api.list_bytes as u64));
        notes.push(format!("LIST of {size:.1} MiB over {name}: {:.0} MB/s, bare {:.0} MB/s", rate(ours), rate(bare)));
    }
    notes.push(format!("creates over 16 connections: {:.0}/s, etcd's puts {:.0}/s", api.creates, api.puts));
    let delay =
        |what: &str, told: &Percentiles| format!("{what}: p50 {:.2} ms, p99 {:.2} ms", told.p50 * 1e3, told.p99 * 1e3);
    notes.push(delay("from a create's request to the last of 100 watchers", &api.told));
    notes.push(delay("from its answer to the last of 100 watchers", &api.told_after_answer));
    notes.push(delay("from a definition to a stored object", &api.fresh_definition));
    notes.push(format!("memory after all reads: {:.1} MiB", mebibytes(api.memory.worked)));
    notes
}

/// The figures behind the ratios, as JSON.
pub(super) fn json(api: &Api) -> Value {
    let read = |read: &crate::api::Read| json!({"perSecond": read.rate, "bytesPerSecond": read.bytes_per_second, "cpuSeconds": read.cpu});
    let beside = |figures: &std::collections::BTreeMap<Protocol, Beside>| -> Value {
        figures
            .iter()
            .map(|(protocol, beside)| {
                (protocol.name().to_owned(), json!({"ours": read(&beside.ours), "bare": read(&beside.bare)}))
            })
            .collect()
    };
    let percentiles = |delays: &Percentiles| json!({"p50Seconds": delays.p50, "p99Seconds": delays.p99});
    json!({
        "get": beside(&api.get),
        "list": beside(&api.list),
        "listBytes": api.list_bytes,
        "createsPerSecond": api.creates,
        "etcdPutsPerSecond": api.puts,
        "toldFromRequest": percentiles(&api.told),
        "toldFromAnswer": percentiles(&api.told_after_answer),
        "idleBytes": api.memory.idle,
        "filledBytes": api.memory.filled,
        "workedBytes": api.memory.worked,
        "definitionsBytes": api.memory.definitions,
        "idleCpu": api.idle_cpu,
        "freshDefinition": percentiles(&api.fresh_definition),
    })
}
