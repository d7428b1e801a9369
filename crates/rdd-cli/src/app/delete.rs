//! `rdd delete`: deletes the App and everything that it owns.

use serde_json::Value;

use super::{
    api::Api,
    args::Delete,
    condition, names, set,
    watch::{self, End, Observer, Target},
};
use crate::{
    context::Context,
    progress::Progress,
    report::{ExitCode, Failure, Outcome},
    service::{ControlPlane, deadline::Deadline},
};

/// Asks for confirmation, deletes the App, and waits until the App and what it owned are gone.
pub fn run(context: &Context<'_>, args: &Delete) -> Outcome {
    let plane = ControlPlane::of(context)?;
    if !plane.observe()?.created {
        // Without an instance there is no App, and connecting would create the instance.
        plane.record().success("App does not exist; nothing to delete");
        return Ok(());
    }
    let api = Api::ensure(&plane)?;
    let Some(app) = set::find(&api)? else {
        api.record().success("App does not exist; nothing to delete");
        return Ok(());
    };
    let what = what_goes(&plane.name(), &app);
    context.confirm(&what, args.yes)?;
    if args.yes {
        api.record().info(&what);
    }
    let uid = condition::text(&app, "/metadata/uid").to_owned();
    match api.remove(&set::path(), &uid) {
        Ok(()) => {}
        // Another client deleted the App first.
        Err(error) if error.is_absent() => {}
        Err(error) => return Err(error.while_writing("failed to delete App")),
    }
    if !args.waiting.wait {
        api.record().success("App is being deleted");
        return Ok(());
    }
    let mut interrupt = api.interrupt()?;
    let target = Target { collection: names::APPS.to_owned(), name: names::APP.to_owned() };
    let mut gone = Gone { uid, holding_up: None };
    let progress = Progress::start(api.record(), "Waiting for App to be deleted");
    let end =
        watch::follow(&api, &target, Deadline::after(args.waiting.timeout.as_bound()), &mut interrupt, &mut gone)?;
    // The progress line is removed before the result is printed.
    drop(progress);
    match end {
        End::Found(()) => {
            api.record().success("App deleted");
            Ok(())
        }
        End::Deadline => Err(timed_out(&gone)),
        End::Interrupted => Err(Failure::message("stopped waiting for App to be deleted")
            .code(ExitCode::Interrupted)
            .hint("deletion continues in the background; check with: rdd status")),
    }
}

/// The text of the confirmation: everything that the user loses.
fn what_goes(instance: &str, app: &Value) -> String {
    let namespace = match condition::text(app, "/spec/namespace") {
        "" => names::APP_NAMESPACE,
        namespace => namespace,
    };
    format!(
        "this deletes the App of {instance:?} with its settings, its VM {:?} in namespace {namespace:?}, and every \
         container, image and volume in it",
        names::APP_VM
    )
}

fn timed_out(gone: &Gone) -> Failure {
    let held = gone.holding_up.as_deref().unwrap_or("no update received");
    Failure::deadline(format!("timed out waiting for App to be deleted: {held}"))
        .hint("deletion continues in the background; check with: rdd status")
}

/// Observes an object until it is gone, or until another object has its name.
#[derive(Debug)]
pub(super) struct Gone {
    /// The UID of the object that goes.
    pub(super) uid: String,
    /// Why the object still exists, if known.
    pub(super) holding_up: Option<String>,
}

impl Observer for Gone {
    type Found = ();

    fn see(&mut self, object: Option<&Value>) -> Outcome<Option<()>> {
        let Some(object) = object.filter(|object| condition::text(object, "/metadata/uid") == self.uid) else {
            return Ok(Some(()));
        };
        let finalizers = object.pointer("/metadata/finalizers").and_then(Value::as_array);
        let names: Vec<&str> = finalizers.into_iter().flatten().filter_map(Value::as_str).collect();
        self.holding_up = Some(format!("waiting for finalizers: {}", names.join(", "))).filter(|_| !names.is_empty());
        Ok(None)
    }

    fn lost(&mut self) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::User;
    use serde_json::json;

    #[test]
    fn what_goes_is_named() {
        let text = what_goes("rancher-desktop-2", &json!({"spec": {"namespace": "rancher-desktop"}}));
        for part in ["\"rancher-desktop-2\"", "\"rd\"", "\"rancher-desktop\"", "container, image and volume"] {
            assert!(text.contains(part), "{text}");
        }
        assert!(what_goes("x", &json!({})).contains("\"default\""));
    }

    #[test]
    fn nothing_is_made_in_order_to_delete_it() {
        let user = User::new();
        let ran = user.run("delete");
        assert_eq!((ran.code, ran.messages()), (0, vec!["App does not exist; nothing to delete".to_owned()]));
        assert_eq!(std::fs::read_dir(user.home.path()).unwrap().count(), 0);
    }

    #[test]
    fn another_object_of_the_same_name_means_that_the_first_is_gone() {
        let object = |uid: &str| json!({"metadata": {"uid": uid, "finalizers": ["a/cleanup", "b"]}});
        let mut gone = Gone { uid: "one".to_owned(), holding_up: None };
        assert_eq!(gone.see(Some(&object("one"))).unwrap(), None);
        assert_eq!(
            timed_out(&gone).text(),
            "timed out waiting for App to be deleted: waiting for finalizers: a/cleanup, b: context deadline exceeded"
        );
        assert_eq!(gone.see(Some(&object("two"))).unwrap(), Some(()));
        assert_eq!(gone.see(None).unwrap(), Some(()));
    }
}
