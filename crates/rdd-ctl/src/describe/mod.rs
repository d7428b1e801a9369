//! The `describe` output of an object: labels, annotations, fields and events.

mod core;
mod events;
mod generic;
mod policy;

use rdd_meta::metadata::Metadata;
use serde_json::Value;

use crate::{api::Call, context::Ctl, error::Result, print::tabs::Tabs, selection::Info};

/// Longer annotations are written on their own lines and truncated.
const ANNOTATION_MAX: usize = 140;

/// Describes one object.
pub(crate) fn describe(ctl: &Ctl<'_>, info: &Info) -> Result<String> {
    let object = ctl.call(&Call::get(info.path()))?;
    let mut page = Page::default();
    let mapping = info.mapping();
    match (mapping.group.as_str(), mapping.kind.as_str()) {
        ("", "ConfigMap") => core::config_map(ctl, &object, &mut page)?,
        ("", "Secret") => core::secret(&object, &mut page),
        ("", "Namespace") => core::namespace(ctl, &object, &mut page)?,
        ("", "ServiceAccount") => core::service_account(ctl, &object, &mut page),
        ("", "Service") => core::service(ctl, &object, &mut page),
        ("", "ResourceQuota") => policy::resource_quota(&object, &mut page),
        ("rbac.authorization.k8s.io", "Role" | "ClusterRole") => policy::role(&object, &mut page),
        ("rbac.authorization.k8s.io", "RoleBinding" | "ClusterRoleBinding") => policy::binding(&object, &mut page),
        _ => generic::any(ctl, &object, &mut page),
    }
    Ok(page.text())
}

/// A page of text with aligned columns.
#[derive(Debug)]
struct Page {
    text: String,
    tabs: Tabs,
}

impl Default for Page {
    fn default() -> Self {
        Self { text: String::new(), tabs: Tabs::for_descriptions() }
    }
}

impl Page {
    /// Adds text at an indentation level.
    fn write(&mut self, level: usize, text: &str) {
        self.tabs.push(&rdd_meta::terminal::escape(&format!("{}{text}", "  ".repeat(level))));
    }

    /// Ends the current columns: the following text is aligned separately.
    fn flush(&mut self) {
        let text = self.tabs.flush();
        self.text.push_str(&text);
    }

    fn text(mut self) -> String {
        self.flush();
        self.text
    }

    fn head(&mut self, object: &Value, with_namespace: bool) {
        let metadata = Metadata::of(object);
        self.write(0, &format!("Name:\t{}\n", metadata.name()));
        if with_namespace {
            self.write(0, &format!("Namespace:\t{}\n", metadata.namespace()));
        }
        self.labels(object);
        self.annotations(object);
    }

    fn labels(&mut self, object: &Value) {
        let labels: Vec<String> =
            Metadata::of(object).labels().map(|(key, value)| format!("{key}={value}\n")).collect();
        self.write(0, "Labels:\t");
        self.write(0, &if labels.is_empty() { "<none>\n".to_owned() } else { labels.join("\t") });
    }

    fn annotations(&mut self, object: &Value) {
        self.write(0, "Annotations:\t");
        let mut is_first = true;
        for (key, value) in Metadata::of(object).annotations().filter(|(key, _)| *key != crate::write::LAST_APPLIED) {
            if !std::mem::replace(&mut is_first, false) {
                self.write(0, "\t");
            }
            let value = value.strip_suffix('\n').unwrap_or(value);
            if value.len() + key.len() + 2 <= ANNOTATION_MAX && !value.contains('\n') {
                self.write(0, &format!("{key}: {value}\n"));
                continue;
            }
            self.write(0, &format!("{key}:\n"));
            for line in value.split('\n') {
                self.write(0, &format!("\t  {}\n", shorten(line, ANNOTATION_MAX - 2)));
            }
        }
        if is_first {
            self.write(0, "<none>\n");
        }
    }
}

fn shorten(text: &str, length: usize) -> String {
    if text.len() <= length {
        return text.to_owned();
    }
    let mut end = length;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}...", &text[..end])
}

/// The string at a path of field names, or an empty one.
fn text_at<'a>(object: &'a Value, path: &[&str]) -> &'a str {
    path.iter().fold(object, |value, name| &value[*name]).as_str().unwrap_or_default()
}

fn list_at<'a>(object: &'a Value, path: &[&str]) -> &'a [Value] {
    path.iter().fold(object, |value, name| &value[*name]).as_array().map_or(&[], Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    // Finding A-8
    #[test]
    fn what_a_terminal_would_obey_is_spelled_out_in_a_description() {
        let object = json!({
            "metadata": {
                "name": "a\u{1b}[2Jb", "namespace": "n\u{202e}s",
                "labels": {"app": "bell\u{7}"},
                "annotations": {"short": "\u{9b}31m", "long": format!("{}\u{1b}]0;title\u{7}\nnext\r", "x".repeat(80))},
            },
        });
        let mut page = Page::default();
        page.head(&object, true);
        policy::resource_quota(
            &json!({"status": {"hard": {"pods\u{8}": "1"}, "used": {"pods\u{8}": "\u{2066}0"}}}),
            &mut page,
        );
        let text = page.text();
        for shown in ["a^[[2Jb", "n\\u202es", "app=bell^G", "\\u009b31m", "^[]0;title^G", "next\\r", "pods^H"] {
            assert!(text.contains(shown), "{shown} in {text}");
        }
        assert!(!text.chars().any(rdd_meta::terminal::is_hostile), "{text:?}");
    }
}
