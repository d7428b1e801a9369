//! `rdd set`, `rdd start` and `rdd stop`: write the App's settings, then wait until the App has settled.

use std::time::Duration;

use rdd_meta::status::Reason;
use serde_json::{Map, Value, json};

use super::{
    api::{Api, Write},
    args::{Set, Waiting},
    condition, names,
    property::{self, Assignments},
    schema::{self, Field},
    settle::{self, Written},
};
use crate::{
    context::Context,
    report::{Failure, Outcome},
    service::ControlPlane,
};

/// How many times a write is tried when another client creates or deletes the App at the same time.
const TRIES: usize = 5;

/// `rdd set PROPERTY=VALUE…`.
pub fn run(context: &Context<'_>, args: &Set) -> Outcome {
    let assignments = property::parse(&args.properties)?;
    let plane = ControlPlane::of(context)?;
    let api = Api::ensure(&plane)?;
    let root = definition(&api)?;
    // Checked against the CRD first, for better errors than the server's.
    let change = property::change(&assignments, &root)?;
    // A dry run ends after the server's validation: nothing was stored that could be waited for.
    let app = write(&api, &change, &root, args.dry_run)?;
    if args.dry_run {
        api.record().success("App validated (dry run)");
        return Ok(());
    }
    wait(&api, &app, &args.waiting)
}

/// `rdd start`: the same as `rdd set running=true`.
pub fn start(context: &Context<'_>, waiting: &Waiting) -> Outcome {
    let plane = ControlPlane::of(context)?;
    let api = Api::ensure(&plane)?;
    let app = write_running(&api, true, &Assignments::new())?;
    wait(&api, &app, waiting)
}

/// `rdd stop`: the same as `rdd set running=false`, except that it never creates the App.
pub fn stop(context: &Context<'_>, waiting: &Waiting) -> Outcome {
    let plane = ControlPlane::of(context)?;
    let api = Api::ensure(&plane)?;
    if find(&api)?.is_none() {
        api.record().success("App does not exist; nothing to stop");
        return Ok(());
    }
    let app = write_running(&api, false, &Assignments::new())?;
    wait(&api, &app, waiting)
}

/// Sets `spec.running` and further settings of the App, creating it if it does not exist. Returns the App as written.
pub(super) fn write_running(api: &Api<'_>, running: bool, further: &Assignments) -> Outcome<Value> {
    let root = definition(api)?;
    let mut assignments = further.clone();
    assignments.insert("running".to_owned(), running.to_string());
    write(api, &property::change(&assignments, &root)?, &root, false)
}

/// Gets the App; `None` if it does not exist.
pub(super) fn find(api: &Api<'_>) -> Outcome<Option<Value>> {
    api.find(&path()).map_err(|error| Failure::caused("failed to get App", error))
}

/// The API path of the App.
pub(super) fn path() -> String {
    names::object(names::APPS, names::APP)
}

fn wait(api: &Api<'_>, app: &Value, waiting: &Waiting) -> Outcome {
    if !waiting.wait {
        return Ok(());
    }
    wait_up_to(api, app, waiting.timeout.as_bound())
}

/// Waits until the App has settled at the written generation.
///
/// Ctrl-C is handled from here on. Earlier it ends the process as usual: at most one request was sent, so nothing is left half-done.
pub(super) fn wait_up_to(api: &Api<'_>, app: &Value, bound: Option<Duration>) -> Outcome {
    settle::wait(api, &Written::of(app), bound, &mut api.interrupt()?)
}

fn definition(api: &Api<'_>) -> Outcome<Field> {
    let definition =
        api.find(names::APP_DEFINITION).map_err(|error| Failure::caused("failed to get app CRD", error))?;
    let missing = "app CRD is not installed; make sure the control plane is running with the app controller enabled";
    let definition = definition.ok_or_else(|| Failure::message(missing))?;
    Ok(schema::read(&definition)?)
}

/// Creates the App, or updates it if it exists, with a single request, so that either all settings are written or none.
///
/// # Errors
///
/// A failure if the App is being deleted, if the API server rejects the settings, or if other clients interfere on every try.
fn write(api: &Api<'_>, change: &Map<String, Value>, root: &Field, dry_run: bool) -> Outcome<Value> {
    let create = json!({
        "apiVersion": names::APP_VERSION,
        "kind": names::APP_KIND,
        "metadata": {"name": names::APP},
        "spec": property::complete(change.clone(), root),
    });
    let update = json!({"spec": change});
    let mut failure = None;
    for _ in 0..TRIES {
        let found = find(api)?;
        if found.as_ref().is_some_and(condition::is_deleting) {
            return Err(Failure::message("App is being deleted").hint("wait until it is gone: rdd delete"));
        }
        let namespace = namespace_of(found.as_ref());
        let (attempt, done, written) = match found {
            None => ("failed to create App", "App created", api.write(Write::Create, names::APPS, &create, dry_run)),
            Some(_) => ("failed to update App", "App updated", api.write(Write::Merge, &path(), &update, dry_run)),
        };
        match written {
            Ok(app) => {
                if !dry_run {
                    api.record().info(done);
                }
                return Ok(app);
            }
            // Another client created or deleted the App after it was read.
            Err(error) if error.is(Reason::AlreadyExists) || error.is_absent() => {
                failure = Some(error.while_writing(attempt));
            }
            Err(error) => return Err(with_versions(api, &namespace, change, error.while_writing(attempt))),
        }
    }
    Err(failure.expect("there was at least one try, and each that goes on leaves its failure"))
}

/// The namespace of the App's objects; the default if the App does not exist.
fn namespace_of(app: Option<&Value>) -> String {
    let said = app.and_then(|app| app["spec"]["namespace"].as_str()).filter(|said| !said.is_empty());
    said.unwrap_or(names::APP_NAMESPACE).to_owned()
}

/// Adds the available Kubernetes versions to a rejected `kubernetes.version`; the server's message names a file that users do not have.
fn with_versions(api: &Api<'_>, namespace: &str, change: &Map<String, Value>, failure: Failure) -> Failure {
    // The server has no reason or cause for this error, so its text is the only mark of it.
    let asked = change.get("kubernetes").and_then(|kubernetes| kubernetes.get("version")).is_some();
    if !asked || !failure.text().contains("is not supported") {
        return failure;
    }
    let path = format!("/api/v1/namespaces/{namespace}/configmaps/{}", names::K3S_VERSIONS);
    // The controllers publish the list once there is an App; without it, the fallback text must do.
    let map = api.find(&path).ok().flatten().unwrap_or_default();
    let channels = map["data"]["channels"].as_str().and_then(|text| serde_json::from_str(text).ok());
    failure.hint(choices(&channels.unwrap_or_default()))
}

/// The versions that a user can set, with what each channel stands for.
fn choices(channels: &Map<String, Value>) -> String {
    let named = |(channel, version): (&String, &Value)| format!("{channel} ({})", version.as_str().unwrap_or_default());
    match channels.is_empty() {
        true => "choose stable, latest, or a minor version such as 1.34".to_owned(),
        false => format!(
            "choose one of {}, or a version that `rdd ctl get configmap {} -o yaml` lists",
            channels.iter().map(named).collect::<Vec<_>>().join(", "),
            names::K3S_VERSIONS
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_named_with_what_they_stand_for() {
        let Value::Object(channels) = json!({"1.34": "1.34.6", "stable": "1.34.6"}) else { panic!("an object") };
        assert_eq!(
            choices(&channels),
            "choose one of 1.34 (1.34.6), stable (1.34.6), or a version that `rdd ctl get configmap k3s-versions -o yaml` lists"
        );
        assert_eq!(choices(&Map::new()), "choose stable, latest, or a minor version such as 1.34");
    }
}
