//! The admission webhooks of the App.

use rdd_runtime::admission::{Decision, Operation, Request, Webhook};
use rdd_types::app::{App, AppSpec};

use super::admission::{Facts, fill_in, refuse};

/// The webhooks of this controller.
pub(super) fn webhooks(facts: &Facts) -> Vec<Webhook> {
    let operations = [Operation::Create, Operation::Update];
    let (defaults, rules) = (facts.clone(), facts.clone());
    vec![
        Webhook::mutating::<App>("app-defaulter", &operations, move |request: &Request| fill(request, &defaults)),
        Webhook::validating::<App>("app-validator", &operations, move |request: &Request| judge(request, &rules)),
    ]
}

fn fill(request: &Request, facts: &Facts) -> Decision {
    let Some(mut app) = request.object.clone().filter(|_| !is_only_metadata(request)) else {
        return Decision::allowed();
    };
    match fill_in(&mut app, old_spec(request).as_ref(), facts) {
        Ok(()) => Decision::Patched(app),
        Err(why) => Decision::denied(why),
    }
}

fn judge(request: &Request, facts: &Facts) -> Decision {
    if is_only_metadata(request) {
        return Decision::allowed();
    }
    match request.new_as::<App>() {
        None => Decision::allowed(),
        Some(Err(error)) => Decision::denied(format!("failed to read the App: {error}")),
        Some(Ok(app)) => {
            let why = refuse(&app.spec, old_spec(request).as_ref(), facts);
            why.map_or_else(Decision::allowed, Decision::denied)
        }
    }
}

/// Whether the update leaves the spec unchanged. Such an update is neither defaulted nor validated: an App that today's rules reject must still be
/// able to lose its finalizer, and a change of labels must not restart a VM.
fn is_only_metadata(request: &Request) -> bool {
    request.operation == Operation::Update
        && request
            .object
            .as_ref()
            .zip(request.old_object.as_ref())
            .is_some_and(|(new, old)| new.get("spec") == old.get("spec"))
}

fn old_spec(request: &Request) -> Option<AppSpec> {
    request.old_as::<App>()?.ok().map(|app| app.spec)
}
