//! Admission of Notaries: refuses some values, and warns about long ones.

use rdd_runtime::admission::{Decision, Operation, Request, Webhook};
use rdd_types::rdd::{GROUP, Notary};

/// The length from which on a value causes a warning.
const CHARACTERS_MAX: usize = 24;

/// The webhook of Notaries.
pub(super) fn webhook() -> Webhook {
    let operations = [Operation::Create, Operation::Update];
    Webhook::validating::<Notary>("notary-validator", &operations, review).named(&format!("notary.{GROUP}"))
}

fn review(request: &Request) -> Decision {
    match request.new_as::<Notary>() {
        Some(Ok(notary)) => judge(&notary.spec.value),
        // An object that is not a Notary is left to the schema's validation.
        _ => Decision::allowed(),
    }
}

fn judge(value: &str) -> Decision {
    if value.get(..7).is_some_and(|start| start.eq_ignore_ascii_case("invalid")) {
        return Decision::denied(format!("spec.value cannot start with 'invalid' (case-insensitive): {value:?}"));
    }
    let length = value.chars().count();
    if length <= CHARACTERS_MAX {
        return Decision::allowed();
    }
    let warning = format!(
        "spec.value is longer than {CHARACTERS_MAX} characters ({length} chars) - consider using a shorter value for better readability"
    );
    Decision::Allowed { warnings: vec![warning] }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_judged_in_the_words_of_the_original() {
        let Decision::Denied(status) = judge("InValid-x") else { panic!("it refuses") };
        assert_eq!(status.code, 403);
        assert_eq!(status.message, r#"spec.value cannot start with 'invalid' (case-insensitive): "InValid-x""#);
        for value in ["", "inval", "not invalid", "ínvalid!", &"x".repeat(24)] {
            assert_eq!(judge(value), Decision::allowed(), "{value}");
        }
        let warned = judge(&"é".repeat(25));
        let Decision::Allowed { warnings } = warned else { panic!("it warns") };
        let text = "spec.value is longer than 24 characters (25 chars) - consider using a shorter value for better readability";
        assert_eq!(warnings, [text]);
    }
}
