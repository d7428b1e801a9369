//! `wait`: waits until objects exist, are deleted, have a condition, or have a value at a path.

use std::{
    ops::ControlFlow,
    time::{Duration, Instant},
};

use rdd_meta::go_text::quote;
use serde_json::Value;

use crate::{
    api::{Call, Event, WatchEnd},
    context::Ctl,
    error::{Error, Refusal, Result},
    flags::{Flag, Kind},
    jsonpath::{Template, relaxed},
    print::{Format, Printer},
    selection::{Info, Wanted, select},
};

/// The flags of `wait`.
pub(crate) const FLAGS: &[Flag] = &[
    Flag::of("timeout", Kind::Duration, "30s"),
    Flag::value("for"),
    Flag::value("selector").short('l'),
    Flag::value("field-selector"),
    Flag::switch("all"),
    Flag::switch("all-namespaces").short('A'),
    Flag::switch("local"),
];

/// A negative timeout means one week.
const WEEK: Duration = Duration::from_secs(168 * 3600);
/// The polling interval for an object that does not exist yet.
const POLL: Duration = Duration::from_millis(500);
/// The delay before the next watch after one ended.
const AGAIN: Duration = Duration::from_millis(50);
const TIMED_OUT: &str = "timed out waiting for the condition";

/// The end of a wait.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Deadline {
    /// The deadline.
    pub(crate) at: Instant,
    /// Whether to check only once.
    pub(crate) is_zero: bool,
}

impl Deadline {
    fn has_passed(self) -> bool {
        Instant::now() >= self.at
    }
}

/// The condition to wait for.
#[derive(Debug)]
enum Goal {
    Create,
    Delete,
    Condition { name: String, status: String },
    Path { template: Template, value: Option<String> },
}

/// Runs `wait`.
pub(crate) fn run(ctl: &Ctl<'_>) -> Result<()> {
    let format = Format::of(&ctl.flags, false)?;
    let mut printer = Printer::new(format, &ctl.flags, "condition met");
    let goal = goal(ctl.flags.text("for"))?;
    let nanoseconds = ctl.flags.nanoseconds("timeout");
    let bound = if nanoseconds < 0 { WEEK } else { ctl.flags.duration("timeout") };
    let deadline = Deadline { at: ctl.after(bound), is_zero: nanoseconds == 0 };
    let some = |flag: &str| Some(ctl.flags.text(flag).trim().to_owned()).filter(|text| !text.is_empty());
    let wanted = Wanted {
        args: ctl.flags.args.clone(),
        label_selector: some("selector"),
        field_selector: some("field-selector"),
        type_means_all: ctl.flags.is_on("all"),
        all_namespaces: ctl.flags.is_on("all-namespaces"),
        latest: true,
        require_object: true,
        keep_going: true,
        ..Wanted::default()
    };
    if matches!(goal, Goal::Create) {
        until_created(ctl, &wanted, deadline)?;
    }
    let selected = select(ctl, &wanted)?;
    let (mut errors, mut count) = (Vec::new(), 0);
    for item in selected.items {
        let met = match item {
            Err(error) if matches!(goal, Goal::Delete) && error.is_not_found() => continue,
            Err(error) => Err(error),
            Ok(info) => {
                count += 1;
                meet(ctl, &goal, &info, deadline)
            }
        };
        match met.and_then(|object| ctl.print(&printer.print(&object)?)) {
            Ok(()) => {}
            Err(error) => errors.push(error),
        }
    }
    Error::aggregate(errors)?;
    if count == 0 && !matches!(goal, Goal::Delete) {
        return Err(Error::text("no matching resources found"));
    }
    Ok(())
}

fn goal(text: &str) -> Result<Goal> {
    if text.eq_ignore_ascii_case("delete") {
        return Ok(Goal::Delete);
    }
    if text.eq_ignore_ascii_case("create") {
        return Ok(Goal::Create);
    }
    if let Some(condition) = text.strip_prefix("condition=") {
        let (name, status) = condition.split_once('=').unwrap_or((condition, "true"));
        return Ok(Goal::Condition { name: name.to_owned(), status: status.to_owned() });
    }
    match text.strip_prefix("jsonpath=") {
        Some(path) => path_goal(path),
        None => Err(Error::text(format!("unrecognized condition: {}", quote(text)))),
    }
}

fn path_goal(text: &str) -> Result<Goal> {
    let parts = split_path(text);
    let (path, value) = match parts.as_slice() {
        [path] => (path, None),
        [path, value] => (path, Some(value.trim_matches(['\'', '"']).to_owned())),
        _ => {
            return Err(Error::text(
                "jsonpath wait format must be --for=jsonpath='{.status.readyReplicas}'=3 or \
                 --for=jsonpath='{.status.readyReplicas}'",
            ));
        }
    };
    let path = relaxed(path).map_err(|error| Error::text(error.to_string()))?;
    if value.as_deref() == Some("") {
        return Err(Error::text(
            "jsonpath wait has to have a value after equal sign, like --for=jsonpath='{.status.readyReplicas}'=3",
        ));
    }
    if path.is_empty() {
        return Err(Error::text("jsonpath expression cannot be empty"));
    }
    let template = Template::parse(&path).map_err(|error| Error::text(error.to_string()))?.allow_missing_keys(true);
    Ok(Goal::Path { template, value })
}

/// Splits at single equals signs; double ones belong to a filter.
fn split_path(text: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        let last = parts.last_mut().expect("there is always one");
        match letter {
            '=' if letters.peek() == Some(&'=') => {
                letters.next();
                last.push_str("==");
            }
            '=' => parts.push(String::new()),
            letter => last.push(letter),
        }
    }
    parts
}

/// Waits until all selected objects exist, and at least one does.
fn until_created(ctl: &Ctl<'_>, wanted: &Wanted, deadline: Deadline) -> Result<()> {
    loop {
        let selected = select(ctl, wanted)?;
        let failed = selected.items.iter().filter_map(|item| item.as_ref().err());
        let serious: Vec<Error> = failed.filter(|error| !error.is_not_found()).cloned().collect();
        Error::aggregate(serious)?;
        if !selected.items.is_empty() && selected.items.iter().all(Result::is_ok) {
            return Ok(());
        }
        if deadline.has_passed() {
            return Err(Error::text(TIMED_OUT));
        }
        ctl.api.pause(POLL.min(deadline.at.saturating_duration_since(Instant::now())));
    }
}

fn meet(ctl: &Ctl<'_>, goal: &Goal, info: &Info, deadline: Deadline) -> Result<Value> {
    if info.name.is_empty() {
        return Err(Error::text("resource name must be provided"));
    }
    match goal {
        Goal::Create => Ok(info.object().clone()),
        Goal::Delete => until_deleted(ctl, info, None, deadline).map(|()| info.object().clone()),
        Goal::Condition { name, status } => {
            until(ctl, info, deadline, &|object| Ok(has_condition(object, name, status)))
        }
        Goal::Path { template, value } => {
            until(ctl, info, deadline, &|object| at_path(object, template, value.as_deref()))
        }
    }
}

/// Whether a condition has a status and was observed at the current generation.
pub(crate) fn has_condition(object: &Value, name: &str, status: &str) -> bool {
    let conditions = object["status"]["conditions"].as_array();
    let named = |condition: &&Value| {
        let found = condition["type"].as_str().is_some_and(|found| found.eq_ignore_ascii_case(name));
        found && condition["status"].is_string()
    };
    let Some(condition) = conditions.into_iter().flatten().find(named) else { return false };
    let generation = object["metadata"]["generation"].as_i64();
    let observed = condition["observedGeneration"].as_i64().or(object["status"]["observedGeneration"].as_i64());
    if let (Some(generation), Some(observed)) = (generation, observed)
        && observed < generation
    {
        return false;
    }
    condition["status"].as_str().is_some_and(|found| found.eq_ignore_ascii_case(status))
}

fn at_path(object: &Value, template: &Template, value: Option<&str>) -> Result<bool> {
    let found = template.find(object).map_err(|error| Error::text(error.to_string()))?;
    let Some(first) = found.first().and_then(|results| results.first()) else { return Ok(false) };
    if found.len() > 1 {
        return Err(Error::text("given jsonpath expression matches more than one list"));
    }
    if found[0].len() > 1 {
        return Err(Error::text("given jsonpath expression matches more than one value"));
    }
    let Some(value) = value else { return Ok(true) };
    if first.is_object() || first.is_array() {
        return Err(Error::text("jsonpath leads to a nested object or list which is not supported"));
    }
    Ok(rdd_meta::go_text::plain(first).trim() == value.trim())
}

fn late(info: &Info) -> Error {
    Error::text(format!("{TIMED_OUT} on {}", info.object_name()))
}

/// Waits until the object passes the check and returns it. A missing object is an error.
fn until(ctl: &Ctl<'_>, info: &Info, deadline: Deadline, passes: &dyn Fn(&Value) -> Result<bool>) -> Result<Value> {
    loop {
        if deadline.is_zero {
            let object = ctl.call(&Call::get(info.path()))?;
            return match passes(&object)? {
                true => Ok(object),
                false => Err(Error::text(format!("condition not met for {}", info.object_name()))),
            };
        }
        let (object, version) = look(ctl, info)?;
        let object = object.ok_or_else(|| not_found(info))?;
        if passes(&object)? {
            return Ok(object);
        }
        let mut met = None;
        follow(ctl, info, &version, deadline, &mut |event| {
            if event.kind == "DELETED" || !passes(&event.object)? {
                return Ok(ControlFlow::Continue(()));
            }
            met = Some(event.object);
            Ok(ControlFlow::Break(()))
        })?;
        match met {
            Some(object) => return Ok(object),
            None if deadline.has_passed() => return Err(late(info)),
            None => ctl.api.pause(AGAIN),
        }
    }
}

/// Waits until the object is gone, or an object with another uid has its name.
pub(crate) fn until_deleted(ctl: &Ctl<'_>, info: &Info, uid: Option<&str>, deadline: Deadline) -> Result<()> {
    loop {
        let object = match ctl.call(&Call::get(info.path())) {
            Err(error) if error.is_not_found() => return Ok(()),
            found => found?,
        };
        if uid.is_some_and(|uid| object["metadata"]["uid"] != uid) {
            return Ok(());
        }
        if deadline.is_zero {
            return Err(Error::text(format!("condition not met for {}", info.object_name())));
        }
        let (there, version) = look(ctl, info)?;
        if there.is_none() {
            return Ok(());
        }
        let mut gone = false;
        follow(ctl, info, &version, deadline, &mut |event| {
            gone = event.kind == "DELETED";
            Ok(if gone { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })?;
        if gone {
            return Ok(());
        }
        if deadline.has_passed() {
            return Err(late(info));
        }
        ctl.api.pause(AGAIN);
    }
}

fn not_found(info: &Info) -> Error {
    let mapping = info.mapping();
    let resource = rdd_meta::GroupResource::new(mapping.group.clone(), mapping.resource.clone());
    let status = rdd_meta::Status::not_found(&resource, &info.name);
    Error::Refused(Box::new(Refusal::read(404, &status.to_wire(), "GET", &mapping.resource, &info.name)))
}

fn collection(info: &Info) -> Call {
    Call::get(info.mapping().path(&info.namespace, "")).query("fieldSelector", format!("metadata.name={}", info.name))
}

/// Reads the object, if it exists, and the resource version to watch from.
fn look(ctl: &Ctl<'_>, info: &Info) -> Result<(Option<Value>, String)> {
    let mut list = ctl.call(&collection(info))?;
    let version = list["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned();
    let mut object = list["items"].as_array_mut().and_then(|items| items.pop());
    if let Some(fields) = object.as_mut().and_then(Value::as_object_mut) {
        fields.entry("apiVersion").or_insert_with(|| info.mapping().group_version().into());
        fields.entry("kind").or_insert_with(|| info.mapping().kind.clone().into());
    }
    Ok((object, version))
}

/// Watches until the callback breaks, the server ends the watch, or the deadline passes. After an `ERROR` event the caller lists
/// again.
fn follow(
    ctl: &Ctl<'_>,
    info: &Info,
    version: &str,
    deadline: Deadline,
    on: &mut dyn FnMut(Event) -> Result<ControlFlow<()>>,
) -> Result<WatchEnd> {
    let call = collection(info).query("watch", "true").query("resourceVersion", version);
    let watched = ctl.api.watch(&call, Some(deadline.at), &mut |event| match event.kind.as_str() {
        "BOOKMARK" => Ok(ControlFlow::Continue(())),
        "ERROR" => Ok(ControlFlow::Break(())),
        _ => on(event),
    });
    match watched {
        Err(error) if error.is_reason("Expired") || error.is_reason("Gone") => Ok(WatchEnd::Closed),
        watched => watched,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_condition_counts_only_for_what_the_object_is_now() {
        let object = |observed: i64| {
            json!({
                "metadata": { "generation": 2 },
                "status": { "conditions": [{ "type": "Ready", "status": "True", "observedGeneration": observed }] }
            })
        };
        assert!(has_condition(&object(2), "ready", "true"));
        assert!(!has_condition(&object(1), "Ready", "True"), "it is about an older generation");
        assert!(!has_condition(&object(2), "Ready", "False"));
        assert!(!has_condition(&json!({}), "Ready", "True"));
    }

    #[test]
    fn goals_are_read_as_kubectl_reads_them() {
        for (text, expected) in [
            ("", "unrecognized condition: \"\""),
            ("jsonpath=", "jsonpath expression cannot be empty"),
            (
                "jsonpath={.a}=",
                "jsonpath wait has to have a value after equal sign, like --for=jsonpath='{.status.readyReplicas}'=3",
            ),
            (
                "jsonpath={.a",
                "unexpected path string, expected a 'name1.name2' or '.name1.name2' or '{name1.name2}' or '{.name1.name2}'",
            ),
        ] {
            assert_eq!(goal(text).unwrap_err().to_string(), expected, "{text}");
        }
        assert_eq!(split_path("{.a[?(@.b==\"c\")]}=d"), ["{.a[?(@.b==\"c\")]}", "d"]);
        assert!(
            matches!(goal("condition=Ready=Unknown").unwrap(), Goal::Condition { name, status } if name == "Ready" && status == "Unknown")
        );
        assert!(matches!(goal("Delete").unwrap(), Goal::Delete));
    }
}
