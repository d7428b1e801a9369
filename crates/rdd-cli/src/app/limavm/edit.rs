//! `rdd limavm edit NAME`: opens the template of a LimaVM in an editor.

use std::{fs, path::Path};

use serde_json::Value;

use super::{editor, find};
use crate::{
    app::{
        api::{Api, Write},
        args::VmName,
        condition, names,
    },
    report::{Failure, Outcome},
    service::ControlPlane,
};

/// Opens the template of a LimaVM in the user's editor, and stores the result. The limavm controller restarts a running VM with it.
pub(super) fn run(plane: &ControlPlane<'_>, args: &VmName) -> Outcome {
    let api = Api::ensure(plane)?;
    let vm = find(&api, &args.name)?;
    let name = condition::text(&vm.object, "/status/templateConfigMap");
    if name.is_empty() {
        return Err(Failure::message(format!("LimaVM {:?} does not have a template ConfigMap", vm.name)));
    }
    let path = names::object(&names::config_maps_in(&vm.namespace), name);
    let original = template(&get(&api, &path)?, name)?.to_owned();
    let file = scratch(&vm.name)?;
    // The editor handles Ctrl-C; this process must not end by it.
    let _interrupt = api.interrupt()?;
    let mut text = original.clone();
    loop {
        text = edited(plane, file.path(), &text)?;
        match judge(&original, &text) {
            Verdict::Cleared => return Err(Failure::message("template data was cleared, aborting edit")),
            Verdict::Same => {
                api.record().info("No changes made to template, skipping update");
                return Ok(());
            }
            Verdict::Changed => {}
        }
        let Err(problem) = store(&api, &path, name, &text) else {
            api.record().success(&format!("Template ConfigMap {name:?} updated successfully"));
            return Ok(());
        };
        let question = format!("error: {}\nRetry editing with your previous changes? [y/N] ", problem.text());
        if !plane.context.ask(&question)? {
            let kept = file.keep().map_err(|error| Failure::caused("keep the edited file", error.error))?.1;
            return Err(Failure::message("aborted").hint(format!("your changes are in {}", kept.display())));
        }
    }
}

/// The outcome of an edit.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Cleared,
    Same,
    Changed,
}

/// Compares the texts. White space around a template is not a change.
fn judge(original: &str, text: &str) -> Verdict {
    match text {
        "" => Verdict::Cleared,
        text if text == original.trim() => Verdict::Same,
        _ => Verdict::Changed,
    }
}

fn scratch(vm: &str) -> Outcome<tempfile::NamedTempFile> {
    let made = tempfile::Builder::new().prefix(&format!("{vm}-template-")).suffix(".yaml").tempfile();
    made.map_err(|error| Failure::caused("create a temporary file", error))
}

/// Writes the text to the file, opens the editor, and returns the edited text without white space around it.
fn edited(plane: &ControlPlane<'_>, file: &Path, text: &str) -> Outcome<String> {
    let fail = |what: &str, error| Failure::caused(format!("{what} {}", file.display()), error);
    // Editors expect a newline at the end of the file.
    fs::write(file, format!("{}\n", text.trim_end())).map_err(|error| fail("write", error))?;
    editor::edit(&plane.context.environment, file)?;
    let text = fs::read_to_string(file).map_err(|error| fail("read", error))?;
    Ok(text.trim().to_owned())
}

fn get(api: &Api<'_>, path: &str) -> Outcome<Value> {
    api.get(path).map_err(|error| Failure::caused("failed to get template ConfigMap", error))
}

fn template<'o>(config_map: &'o Value, name: &str) -> Outcome<&'o str> {
    let data = config_map["data"].get(names::TEMPLATE_KEY).and_then(Value::as_str);
    let message = format!("template ConfigMap {name:?} does not contain key {:?}", names::TEMPLATE_KEY);
    data.ok_or_else(|| Failure::message(message))
}

/// Stores the text in the current ConfigMap, so that other changes made meanwhile, such as labels, are kept.
fn store(api: &Api<'_>, path: &str, name: &str, text: &str) -> Outcome {
    let mut config_map = get(api, path)?;
    template(&config_map, name)?;
    config_map["data"][names::TEMPLATE_KEY] = text.into();
    let written = api.write(Write::Replace, path, &config_map, false);
    written.map(drop).map_err(|error| Failure::caused("failed to update template ConfigMap", error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_edit_is_nothing_a_change_or_a_mistake() {
        for (original, text, verdict) in [
            ("a: 1\n", "a: 1", Verdict::Same),
            ("a: 1", "a: 1", Verdict::Same),
            ("a: 1\n", "a: 2", Verdict::Changed),
            ("a: 1\n", "", Verdict::Cleared),
            ("", "", Verdict::Cleared),
        ] {
            assert_eq!(judge(original, text), verdict, "{original:?} {text:?}");
        }
    }
}
