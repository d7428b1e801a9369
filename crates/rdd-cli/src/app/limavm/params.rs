//! `rdd limavm params NAME [CHANGE…]`: prints or changes the parameters of a LimaVM's template.

use serde_json::{Map, Value, json};

use super::{
    find,
    wait::{self, Wish},
};
use crate::{
    app::{
        api::{Api, Write},
        args::Params,
        condition,
    },
    report::{Failure, Outcome},
    service::ControlPlane,
};

/// Prints the parameters, or changes them and waits until they are in effect. The limavm controller restarts a running VM with them.
pub(super) fn run(plane: &ControlPlane<'_>, args: &Params) -> Outcome {
    let changes = parse(&args.changes)?;
    let api = Api::ensure(plane)?;
    let vm = find(&api, &args.name)?;
    if changes.is_empty() {
        for (name, value) in vm.object.pointer("/spec/params").and_then(Value::as_object).into_iter().flatten() {
            plane.context.printer.line(format_args!("{name}={}", value.as_str().unwrap_or_default()))?;
        }
        return Ok(());
    }
    let written = api.write(Write::Merge, &vm.path(), &json!({"spec": {"params": changes}}), false);
    let written = written.map_err(|error| Failure::caused("failed to update LimaVM", error))?;
    api.record().info(&format!("LimaVM {:?} params changed in namespace {:?}", vm.name, vm.namespace));
    if !args.waiting.wait {
        return Ok(());
    }
    let wish = Wish::InEffect(condition::generation(&written));
    let phase = format!("waiting for the params of LimaVM {:?}", vm.name);
    let failed = "failed waiting for params to be in effect";
    wait::until(&api, &vm, wish, args.waiting.timeout.as_bound(), &mut api.interrupt()?, (&phase, failed))
}

/// Parses `NAME=VALUE` and `NAME-` into a merge patch: null removes a parameter.
fn parse(words: &[String]) -> Outcome<Map<String, Value>> {
    let mut changes = Map::new();
    for word in words {
        let (name, value) = match (word.split_once('='), word.strip_suffix('-')) {
            (Some((name, value)), _) => (name, Value::from(value)),
            (None, Some(name)) => (name, Value::Null),
            (None, None) => {
                let failure = Failure::message(format!("invalid parameter change {word:?}"));
                return Err(failure.hint("use NAME=VALUE to set a parameter, NAME- to remove it"));
            }
        };
        // Lima passes a parameter to scripts as an environment variable.
        let is_name = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
            && name.starts_with(|c: char| c.is_ascii_alphabetic());
        if !is_name {
            return Err(Failure::message(format!("invalid parameter name {name:?}")));
        }
        changes.insert(name.to_owned(), value);
    }
    Ok(changes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_a_value_or_the_end_of_one() {
        let words = |list: &[&str]| list.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let parsed = parse(&words(&["CITY=Oslo=1", "COLOUR-", "EMPTY=", "DASH=x-"])).unwrap();
        assert_eq!(Value::Object(parsed), json!({"CITY": "Oslo=1", "COLOUR": null, "EMPTY": "", "DASH": "x-"}));
        for wrong in ["CITY", "=x", "-", "A B=1", "1A=1", "ä=1"] {
            assert!(parse(&words(&[wrong])).is_err(), "{wrong}");
        }
    }
}
