//! `rdd reset`: recreates the VM of the App. The App and its settings stay.

use std::time::Duration;

use rdd_meta::status::Reason;
use serde_json::{Value, json};

use super::{
    api::{Api, Error, Write},
    args::Reset,
    condition::{self, Condition},
    names::{self, conditions},
    reset_kubernetes, set,
    settle::{self, Written},
    watch::{self, End, Observer, Target},
};
use crate::{
    context::Context,
    progress::Progress,
    report::{ExitCode, Failure, Outcome},
    service::{ControlPlane, deadline::Deadline},
};

/// How often the deletion of the VM is retried while the app controller adds its finalizer again.
const TRIES: u32 = 10;
/// The first delay between retries; it grows with each.
const PAUSE: Duration = Duration::from_millis(20);

/// Asks for confirmation, deletes the LimaVM, and waits until the app controller has created another and the App has settled.
pub fn run(context: &Context<'_>, args: &Reset) -> Outcome {
    let plane = ControlPlane::of(context)?;
    if !plane.observe()?.created {
        plane.record().success("App does not exist; nothing to reset");
        return Ok(());
    }
    let api = Api::ensure(&plane)?;
    let Some(app) = set::find(&api)? else {
        api.record().success("App does not exist; nothing to reset");
        return Ok(());
    };
    if args.kubernetes {
        return reset_kubernetes::run(context, &api, &app, args);
    }
    let namespace = condition::text(&app, "/spec/namespace");
    let path = names::object(
        &names::vms_in(if namespace.is_empty() { names::APP_NAMESPACE } else { namespace }),
        names::APP_VM,
    );
    let vm = api.find(&path).map_err(|error| Failure::caused("failed to get LimaVM", error))?;
    let Some(vm) = vm else {
        api.record().success("App has no VM; nothing to reset");
        return Ok(());
    };
    let what = format!(
        "this deletes the VM of {:?} with every container, image and volume in it, and creates a new one; settings are kept",
        plane.name()
    );
    context.confirm(&what, args.yes)?;
    if args.yes {
        api.record().info(&what);
    }
    reset(&api, &app, &path, &vm, args)
}

fn reset(api: &Api<'_>, app: &Value, path: &str, vm: &Value, args: &Reset) -> Outcome {
    let mut interrupt = api.interrupt()?;
    let uid = condition::text(vm, "/metadata/uid");
    remove(api, path, uid).map_err(|error| error.while_writing("failed to delete LimaVM"))?;
    if !args.waiting.wait {
        api.record().success("App is being reset");
        return Ok(());
    }
    let deadline = Deadline::after(args.waiting.timeout.as_bound());
    let collection = path.rsplit_once('/').map_or(path, |(collection, _)| collection).to_owned();
    let target = Target { collection, name: names::APP_VM.to_owned() };
    // Settled may describe the old VM for a moment, so the new one is observed first.
    let mut renewal = Renewal::begin(uid, Progress::start(api.record(), "Waiting for the VM to be deleted"));
    let end = watch::follow(api, &target, deadline, &mut interrupt, &mut renewal)?;
    let state = renewal.end();
    let continues = "the reset continues in the background; follow it with: rdd status --watch";
    match end {
        End::Found(()) => {}
        End::Deadline => {
            let failure = Failure::deadline(format!("timed out waiting for the VM to be recreated: {state}"));
            return Err(failure.hint(continues));
        }
        End::Interrupted => {
            let failure = Failure::message("stopped waiting for the VM to be recreated");
            return Err(failure.code(ExitCode::Interrupted).hint(continues));
        }
    }
    // Both waits share one timeout.
    let left = args.waiting.timeout.as_bound().map(|bound| deadline.left_up_to(bound));
    settle::wait(api, &Written::of(app), left, &mut interrupt)?;
    api.record().success("App has been reset");
    Ok(())
}

/// Observes the LimaVM until a new one exists and is in its desired state.
#[derive(Debug)]
struct Renewal<'u> {
    /// The UID of the LimaVM that was deleted.
    old: &'u str,
    /// What the wait is for now, for the error when it times out.
    state: String,
    progress: Option<Progress>,
}

impl<'u> Renewal<'u> {
    fn begin(old: &'u str, progress: Progress) -> Self {
        Self { old, state: "no update received".to_owned(), progress: Some(progress) }
    }

    fn is_at(&mut self, state: impl Into<String>) {
        let state = state.into();
        if state != self.state {
            if let Some(progress) = &self.progress {
                progress.phase(&state);
            }
            self.state = state;
        }
    }

    fn end(self) -> String {
        self.state
    }
}

impl Observer for Renewal<'_> {
    type Found = ();

    fn see(&mut self, vm: Option<&Value>) -> Outcome<Option<()>> {
        let Some(vm) = vm else {
            self.is_at("the new VM has not been created");
            return Ok(None);
        };
        if condition::text(vm, "/metadata/uid") == self.old {
            self.is_at(format!("the old VM is waiting for finalizers: {}", finalizers(vm).join(", ")));
            return Ok(None);
        }
        let running = condition::condition(vm, conditions::RUNNING);
        let wanted = vm.pointer("/spec/running") == Some(&Value::Bool(true));
        let created = condition::condition(vm, conditions::CREATED);
        // A VM that should not run has reached its state when it has stopped.
        let holds = |condition: &Condition| condition.is_true() || (!wanted && condition.reason == conditions::STOPPED);
        let open =
            [created.filter(|condition| !condition.is_true()), running.clone().filter(|condition| !holds(condition))];
        match open.into_iter().flatten().next() {
            Some(condition) => self.is_at(condition.to_string()),
            None if running.is_none() => self.is_at("the new VM has not reported its state"),
            None => return Ok(Some(())),
        }
        Ok(None)
    }

    fn lost(&mut self) {
        self.is_at("waiting for the control plane to respond");
    }
}

/// Deletes the LimaVM as the app controller would: removes the App's finalizer, then deletes it. Both steps are idempotent.
fn remove(api: &Api<'_>, path: &str, uid: &str) -> Result<(), Error> {
    let mut tried = 0;
    loop {
        match remove_once(api, path, uid) {
            // The app controller added its finalizer again, or another writer changed the object, in between.
            Err(error) if (error.is_denial() || error.is(Reason::Conflict)) && tried < TRIES => {}
            Err(error) if error.is_absent() => return Ok(()),
            done => return done,
        }
        tried += 1;
        std::thread::sleep(PAUSE * tried);
    }
}

fn remove_once(api: &Api<'_>, path: &str, uid: &str) -> Result<(), Error> {
    let Some(vm) = api.find(path)?.filter(|vm| condition::text(vm, "/metadata/uid") == uid) else { return Ok(()) };
    // The guard rejects the deletion of a LimaVM that an App owns.
    if is_claimed(&vm) {
        api.write(Write::Merge, path, &without_claim(&vm), false)?;
    }
    // An earlier try, or another client, has deleted it already.
    if condition::is_deleting(&vm) { Ok(()) } else { api.remove(path, uid) }
}

fn finalizers(vm: &Value) -> Vec<&str> {
    vm.pointer("/metadata/finalizers")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect()
}

fn is_claimed(vm: &Value) -> bool {
    finalizers(vm).contains(&names::OWNED_BY_APP)
}

/// A patch that removes the App's finalizer. The resourceVersion makes it fail if the list has changed meanwhile.
fn without_claim(vm: &Value) -> Value {
    let rest: Vec<&str> = finalizers(vm).into_iter().filter(|finalizer| *finalizer != names::OWNED_BY_APP).collect();
    json!({"metadata": {"finalizers": rest, "resourceVersion": condition::text(vm, "/metadata/resourceVersion")}})
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::User;

    #[test]
    fn only_the_apps_claim_is_taken_off() {
        let vm = json!({"metadata": {"resourceVersion": "7", "finalizers": ["rdd.rancherdesktop.io/cleanup", names::OWNED_BY_APP]}});
        assert!(is_claimed(&vm));
        assert_eq!(
            without_claim(&vm),
            json!({"metadata": {"finalizers": ["rdd.rancherdesktop.io/cleanup"], "resourceVersion": "7"}})
        );
        assert!(!is_claimed(&json!({})));
    }

    #[test]
    fn a_new_machine_counts_once_it_is_as_it_should_be() {
        let vm = |uid: &str, running: bool, list: &[(&str, &str, &str)]| {
            let list: Vec<Value> = list
                .iter()
                .map(|(kind, status, reason)| json!({"type": kind, "status": status, "reason": reason, "message": "m"}))
                .collect();
            json!({"metadata": {"uid": uid, "finalizers": ["f"]}, "spec": {"running": running}, "status": {"conditions": list}})
        };
        let created = ("Created", "True", "Created");
        let mut renewal = Renewal { old: "old", state: String::new(), progress: None };
        let mut look = |vm: Option<Value>| (renewal.see(vm.as_ref()).unwrap().is_some(), renewal.state.clone());
        assert_eq!(
            look(Some(vm("old", true, &[created]))),
            (false, "the old VM is waiting for finalizers: f".to_owned())
        );
        assert_eq!(look(None), (false, "the new VM has not been created".to_owned()));
        assert_eq!(look(Some(vm("new", true, &[]))), (false, "the new VM has not reported its state".to_owned()));
        let starting = [created, ("Running", "False", "Starting")];
        assert_eq!(look(Some(vm("new", true, &starting))), (false, "Running=False: m (Starting)".to_owned()));
        let failed = [("Created", "False", "CreateFailed")];
        assert_eq!(look(Some(vm("new", true, &failed))), (false, "Created=False: m (CreateFailed)".to_owned()));
        assert!(look(Some(vm("new", true, &[created, ("Running", "True", "Started")]))).0);
        assert!(look(Some(vm("new", false, &[created, ("Running", "False", "Stopped")]))).0);
        assert!(!look(Some(vm("new", true, &[created, ("Running", "False", "Stopped")]))).0);
    }

    #[test]
    fn nothing_is_made_in_order_to_reset_it() {
        let user = User::new();
        let ran = user.run("reset");
        assert_eq!((ran.code, ran.messages()), (0, vec!["App does not exist; nothing to reset".to_owned()]));
        assert_eq!(std::fs::read_dir(user.home.path()).unwrap().count(), 0);
    }
}
