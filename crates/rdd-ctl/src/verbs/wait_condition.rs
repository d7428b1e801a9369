//! `wait-condition`: waits until an object has a condition, optionally with a reason and a minimum time, even before the object
//! exists.

use std::{ops::ControlFlow, time::Instant};

use rdd_meta::{go_text::quote, time::Timestamp};
use serde_json::Value;

use crate::{
    api::Call,
    context::Ctl,
    discovery::Mapping,
    error::{Error, Result},
    flags::{Flag, Kind},
};

/// The flags of `wait-condition`.
pub(crate) const FLAGS: &[Flag] =
    &[Flag::value("reason"), Flag::value("since"), Flag::of("timeout", Kind::Duration, "30s")];

/// The config map in which controller managers register; each start of the daemon recreates it.
const DISCOVERY: &str = "/api/v1/namespaces/rdd-system/configmaps/rdd-controller-manager";
/// The delay before the next watch after one ended.
const AGAIN: std::time::Duration = std::time::Duration::from_millis(50);

/// The expected condition.
#[derive(Debug)]
struct Wanted {
    kind: String,
    status: String,
    reason: Option<String>,
    since: Option<Timestamp>,
}

impl Wanted {
    fn is_met_by(&self, object: &Value) -> bool {
        let conditions = object["status"]["conditions"].as_array();
        conditions.into_iter().flatten().any(|condition| {
            let later = |since: &Timestamp| {
                let changed = condition["lastTransitionTime"].as_str().map(Timestamp::parse_time);
                changed.is_some_and(|changed| changed.is_ok_and(|changed| changed > *since))
            };
            condition["type"] == self.kind.as_str()
                && condition["status"] == self.status.as_str()
                && self.reason.as_ref().is_none_or(|reason| condition["reason"] == reason.as_str())
                && self.since.as_ref().is_none_or(later)
        })
    }
}

/// Runs `wait-condition`.
pub(crate) fn run(ctl: &Ctl<'_>) -> Result<()> {
    let [object, condition] = ctl.flags.args.as_slice() else {
        return Err(Error::text(format!(
            "expected TYPE/NAME and CONDITION[=STATUS] arguments, got {} arguments",
            ctl.flags.args.len()
        )));
    };
    let (word, name) =
        object.split_once('/').ok_or_else(|| Error::text(format!("expected TYPE/NAME, got {}", quote(object))))?;
    if word.is_empty() || name.is_empty() {
        return Err(Error::text(format!("both TYPE and NAME must be non-empty in {}", quote(object))));
    }
    let (kind, status) = condition.split_once('=').unwrap_or((condition, ""));
    if kind.is_empty() {
        return Err(Error::text(format!("condition type must not be empty in {}", quote(condition))));
    }
    let wanted = Wanted {
        kind: kind.to_owned(),
        status: if status.is_empty() { "True" } else { status }.to_owned(),
        reason: ctl.flags.given("reason").map(str::to_owned),
        since: since(ctl)?,
    };
    let mapping = ctl.find(word);
    let mapping = mapping.map_err(|error| match error {
        Error::Text(_) => Error::text(format!("no matches for {}", resource_string(word))),
        error => error,
    })?;
    until_met(ctl, &mapping, name, &wanted)
}

/// Go's formatting of the requested resource.
fn resource_string(word: &str) -> String {
    let (resource, group) = word.split_once('.').unwrap_or((word, ""));
    format!("{group}/, Resource={resource}")
}

fn since(ctl: &Ctl<'_>) -> Result<Option<Timestamp>> {
    let parse = |text: &str| Timestamp::parse_time(text).map_err(|error| error.to_string());
    match ctl.flags.given("since") {
        None => Ok(None),
        Some("startup") => {
            let failed = |why: String| Error::text(format!("failed to resolve startup time: {why}"));
            let found = ctl.call(&Call::get(DISCOVERY)).map_err(|error| failed(error.to_string()))?;
            Ok(Some(startup(&found).map_err(failed)?))
        }
        Some(text) => {
            let invalid = |why| Error::text(format!("invalid --since timestamp {}: {why}", quote(text)));
            Ok(Some(parse(text).map_err(invalid)?))
        }
    }
}

/// When the daemon started: it creates the config map then. If the map was deleted and recreated, the daemon's own entry is
/// older.
fn startup(list: &Value) -> std::result::Result<Timestamp, String> {
    let created = list["metadata"]["creationTimestamp"].as_str().unwrap_or_default();
    let created = Timestamp::parse_time(created).map_err(|error| error.to_string())?;
    let entry = list["data"]["embedded"].as_str().and_then(|text| serde_json::from_str::<Value>(text).ok());
    let registered = entry.and_then(|entry| Timestamp::parse_time(entry["startTime"].as_str()?).ok());
    Ok(registered.filter(|registered| *registered < created).unwrap_or(created))
}

fn until_met(ctl: &Ctl<'_>, mapping: &Mapping, name: &str, wanted: &Wanted) -> Result<()> {
    let until = ctl.after(ctl.flags.duration("timeout"));
    let namespace = if mapping.namespaced { ctl.namespace() } else { "" };
    let collection = || Call::get(mapping.path(namespace, "")).query("fieldSelector", format!("metadata.name={name}"));
    let deleted = || Error::text("resource was deleted while waiting");
    let mut was_there = false;
    loop {
        let list = ctl.call(&collection())?;
        let object = list["items"].as_array().and_then(|items| items.first());
        match object {
            Some(object) if wanted.is_met_by(object) => return Ok(()),
            None if was_there => return Err(deleted()),
            object => was_there = object.is_some(),
        }
        let version = list["metadata"]["resourceVersion"].as_str().unwrap_or_default();
        let call = collection().query("watch", "true").query("resourceVersion", version);
        let mut met = false;
        let watched = ctl.api.watch(&call, Some(until), &mut |event| {
            match event.kind.as_str() {
                "DELETED" => return Err(deleted()),
                "ERROR" => return Ok(ControlFlow::Break(())),
                "ADDED" | "MODIFIED" => {
                    // From now on a missing object means that it was deleted.
                    was_there = true;
                    met = wanted.is_met_by(&event.object);
                }
                _ => {}
            }
            Ok(if met { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        });
        match watched {
            Err(error) if error.is_reason("Expired") || error.is_reason("Gone") => {}
            watched => drop(watched?),
        }
        if met {
            return Ok(());
        }
        if Instant::now() >= until {
            return Err(Error::text("timed out waiting for the condition"));
        }
        ctl.api.pause(AGAIN);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn type_status_reason_and_time_must_all_fit_exactly() {
        let object = json!({ "status": { "conditions": [
            { "type": "Ready", "status": "True", "reason": "Up", "lastTransitionTime": "2026-01-02T03:04:05Z" }
        ] } });
        let wanted = |kind: &str, status: &str, reason: Option<&str>, since: Option<&str>| Wanted {
            kind: kind.to_owned(),
            status: status.to_owned(),
            reason: reason.map(str::to_owned),
            since: since.map(|since| Timestamp::parse_time(since).unwrap()),
        };
        assert!(wanted("Ready", "True", None, None).is_met_by(&object));
        assert!(wanted("Ready", "True", Some("Up"), Some("2026-01-02T03:04:04Z")).is_met_by(&object));
        assert!(!wanted("Ready", "True", None, Some("2026-01-02T03:04:05Z")).is_met_by(&object), "strictly later");
        assert!(!wanted("ready", "True", None, None).is_met_by(&object));
        assert!(!wanted("Ready", "true", None, None).is_met_by(&object));
        assert!(!wanted("Ready", "True", Some("Down"), None).is_met_by(&object));
    }

    #[test]
    fn a_list_of_managers_that_came_back_still_says_when_the_daemon_started() {
        let at = |entry: &str| {
            let list = json!({"metadata": {"creationTimestamp": "2026-01-02T03:04:05Z"}, "data": {"embedded": entry}});
            startup(&list).unwrap().format_time()
        };
        assert_eq!(at("{}"), "2026-01-02T03:04:05Z");
        assert_eq!(at(r#"{"startTime":"2026-01-02T03:00:00Z"}"#), "2026-01-02T03:00:00Z");
        assert_eq!(at(r#"{"startTime":"2026-01-02T04:00:00Z"}"#), "2026-01-02T03:04:05Z");
        assert!(startup(&json!({})).is_err());
    }

    #[test]
    fn an_unknown_type_is_told_as_go_prints_it() {
        assert_eq!(resource_string("x"), "/, Resource=x");
        assert_eq!(resource_string("x.y.z"), "y.z/, Resource=x");
    }
}
