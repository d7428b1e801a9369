//! Checks the names, values and uses of a template's parameters.

use std::collections::BTreeSet;

use rdd_meta::go_text::is_print;
use serde_json::Value;

use super::{Problems, items, scalar_text, shown, text_of};

const NAME_PATTERN: &str = "^[a-zA-Z][a-zA-Z0-9_]*$";
/// The fields in which a template can use a parameter.
const USERS: [(&str, &[&str]); 5] = [
    ("provision", &["script", "content", "expression", "owner", "path", "permissions"]),
    ("probes", &["script"]),
    ("copyToHost", &["guest", "host"]),
    ("portForwards", &["guestSocket", "hostSocket"]),
    ("mounts", &["location", "mountPoint"]),
];

/// Checks the parameters. `is_whole` means that no base or global setting can use or define one.
pub(super) fn check(root: &Value, is_whole: bool, problems: &mut Problems) {
    let Some(params) = root.get("param").and_then(Value::as_object) else { return };
    let uses = Uses::of(root);
    for (name, value) in params {
        if !is_name(name) {
            problems.add(format!("param {} name does not match regex \"{NAME_PATTERN}\"", shown(name)));
        } else if is_whole && !has_outside_scripts(root) && !uses.contains(name) {
            problems.add(format!(
                "field `param` key {} is not used in any provision, probe, copyToHost, or portForward",
                shown(name)
            ));
        }
        let value = scalar_text(value).unwrap_or_default();
        // Lima reports each character; the first one is enough.
        if let Some(character) = value.chars().find(|character| !is_print(*character) && *character != '\t') {
            let character = rdd_meta::go_text::quote(&character.to_string());
            let character = character.trim_matches('"');
            problems.add(format!("param {} value contains unprintable character '{character}'", shown(name)));
        }
    }
}

fn is_name(name: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    name.starts_with(|first: char| first.is_ascii_alphabetic()) && name.bytes().all(is_inner)
}

/// Whether a script comes from a file, which only Lima reads.
fn has_outside_scripts(root: &Value) -> bool {
    let is_outside =
        |entry: &Value| ["file", "playbook"].iter().any(|name| entry.get(*name).is_some_and(|value| !value.is_null()));
    items(root, "provision").chain(items(root, "probes")).any(is_outside)
}

/// The uses of parameters in a template, collected in one pass.
#[derive(Debug, Default)]
struct Uses<'t> {
    /// The text after `.Param.` within `{{…}}`. For Lima it is a use of every name that is a prefix of it.
    in_templates: BTreeSet<&'t str>,
    /// The text after `PARAM_` in a word.
    in_variables: BTreeSet<&'t str>,
}

impl<'t> Uses<'t> {
    fn of(root: &'t Value) -> Self {
        let mut uses = Self::default();
        for (list, names) in USERS {
            for entry in items(root, list) {
                for name in names {
                    // Numbers and booleans contain no uses.
                    if let Some(std::borrow::Cow::Borrowed(text)) = text_of(entry, name) {
                        uses.scan(text);
                    }
                }
            }
        }
        uses
    }

    /// Finds the matches of `{{[^}]*\.Param\.NAME[^}]*}}|\bPARAM_NAME\b` for all names at once.
    fn scan(&mut self, text: &'t str) {
        for word in text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_') {
            self.in_variables.extend(word.strip_prefix("PARAM_"));
        }
        // Each stretch between closing braces is one match of `[^}]*`.
        let mut rest = text;
        while let Some(end) = rest.find('}') {
            let stretch = &rest[..end];
            rest = &rest[end + 1..];
            if rest.starts_with('}')
                && let Some(start) = stretch.find("{{")
            {
                self.in_templates.extend(stretch[start + 2..].split(".Param.").skip(1).map(leading_name));
            }
        }
    }

    fn contains(&self, name: &str) -> bool {
        let next = self.in_templates.range(name..).next();
        next.is_some_and(|used| used.starts_with(name)) || self.in_variables.contains(name)
    }
}

fn leading_name(text: &str) -> &str {
    let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len());
    &text[..end]
}
