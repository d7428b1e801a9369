//! Validates metadata like upstream's `ValidateObjectMeta` and `ValidateObjectMetaUpdate`: same messages, paths and
//! order.
//!
//! Where upstream iterates over a Go map in random order, the order here is sorted.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::{FINALIZER_FOREGROUND, FINALIZER_ORPHAN, Metadata, OwnerReference};
use crate::{
    field_error::{FieldError, Repeated},
    go_json, go_text,
    gvk::GroupVersionKind,
    labels,
    names::{NameRule, dns_1123_label},
    options::field_manager_errors,
    time::Timestamp,
};

const ANNOTATIONS_BYTES_MAX: usize = 256 * 1024;
const SUBRESOURCE_BYTES_MAX: usize = 256;
const IMMUTABLE: &str = "field is immutable";

impl Metadata<'_> {
    /// The errors of an object on creation: those that the validation of its kind `found`, or else those of a final
    /// check of the metadata. Like upstream's, the final check only runs when the kind found no errors.
    pub fn last_look(self, namespaced: bool, found: Vec<FieldError>) -> Vec<FieldError> {
        if found.is_empty() { self.validate_create(namespaced, NameRule::PathSegment) } else { found }
    }

    /// Validates the metadata of an object on creation, after its name was generated. Paths begin with `metadata`.
    pub fn validate_create(self, namespaced: bool, rule: NameRule) -> Vec<FieldError> {
        let mut errors = Vec::new();
        if !self.generate_name().is_empty() {
            let problems = rule.check_prefix(self.generate_name());
            errors.extend(invalid_each("metadata.generateName", self.generate_name(), problems));
        }
        if self.name().is_empty() {
            errors.push(FieldError::required("metadata.name", "name or generateName is required"));
        } else {
            errors.extend(invalid_each("metadata.name", self.name(), rule.check(self.name())));
        }
        errors.extend(self.namespace_errors(namespaced));
        if self.generation() < 0 {
            let why = "must be greater than or equal to 0";
            errors.push(FieldError::invalid("metadata.generation", &json!(self.generation()), why));
        }
        errors.extend(self.label_errors());
        errors.extend(self.annotation_errors());
        errors.extend(self.owner_errors());
        errors.extend(self.finalizer_errors());
        errors.extend(self.managed_fields_errors());
        errors
    }

    /// Validates the metadata of an object that replaces `old`.
    pub fn validate_update(self, old: Metadata<'_>) -> Vec<FieldError> {
        let mut errors = Vec::new();
        if old.is_terminating() {
            errors.extend(new_finalizers_error(&self.finalizers(), &old.finalizers()));
        }
        if self.resource_version().is_empty() {
            let why = "must be specified for an update";
            errors.push(FieldError::invalid_string("metadata.resourceVersion", "", why));
        }
        if self.generation() < old.generation() {
            let why = "must not be decremented";
            errors.push(FieldError::invalid("metadata.generation", &json!(self.generation()), why));
        }
        for (field, new, old) in [
            ("name", self.name(), old.name()),
            ("namespace", self.namespace(), old.namespace()),
            ("uid", self.uid(), old.uid()),
        ] {
            if new != old {
                errors.push(FieldError::invalid_string(format!("metadata.{field}"), new, IMMUTABLE));
            }
        }
        // Upstream shows these values as JSON, not as quoted strings.
        let mut unchanged = |field: &str, same: bool, new: Value| {
            if !same {
                errors.push(FieldError::invalid_text(format!("metadata.{field}"), go_json::to_string(&new), IMMUTABLE));
            }
        };
        let shown = |time: Option<Timestamp>| time.map_or(Value::Null, |time| json!(time.format_time()));
        let (new_time, old_time) = (self.creation_timestamp(), old.creation_timestamp());
        unchanged("creationTimestamp", new_time == old_time, shown(new_time));
        let (new_time, old_time) = (self.deletion_timestamp(), old.deletion_timestamp());
        unchanged("deletionTimestamp", new_time == old_time, shown(new_time));
        let (new_grace, old_grace) = (self.deletion_grace_period_seconds(), old.deletion_grace_period_seconds());
        unchanged("deletionGracePeriodSeconds", new_grace == old_grace, json!(new_grace));
        errors.extend(self.label_errors());
        errors.extend(self.annotation_errors());
        errors.extend(self.owner_errors());
        errors.extend(self.managed_fields_errors());
        errors
    }

    fn namespace_errors(self, namespaced: bool) -> Vec<FieldError> {
        let path = "metadata.namespace";
        match (namespaced, self.namespace()) {
            (true, "") => vec![FieldError::required(path, "")],
            (true, namespace) => invalid_each(path, namespace, dns_1123_label(namespace)).collect(),
            (false, "") => Vec::new(),
            (false, _) => vec![FieldError::forbidden(path, "not allowed on this type")],
        }
    }

    fn label_errors(self) -> Vec<FieldError> {
        let path = "metadata.labels";
        let of_pair = |(key, value)| {
            let of_key = invalid_each(path, key, labels::key_problems(key));
            of_key.chain(invalid_each(path, value, labels::value_problems(value)))
        };
        self.labels().flat_map(of_pair).collect()
    }

    fn annotation_errors(self) -> Vec<FieldError> {
        let path = "metadata.annotations";
        // Annotation keys are case-insensitive, so upstream validates them in lower case and shows them as they came.
        let of_key = |(key, _): (&str, &str)| {
            let problems = labels::key_problems(&key.to_lowercase());
            invalid_each(path, key, problems).collect::<Vec<_>>()
        };
        let mut errors: Vec<FieldError> = self.annotations().flat_map(of_key).collect();
        let size_bytes: usize = self.annotations().map(|(key, value)| key.len() + value.len()).sum();
        if size_bytes > ANNOTATIONS_BYTES_MAX {
            errors.push(FieldError::too_long(path, ANNOTATIONS_BYTES_MAX));
        }
        errors
    }

    fn owner_errors(self) -> Vec<FieldError> {
        let path = "metadata.ownerReferences";
        let owners = self.owner_references();
        let mut errors = Vec::new();
        let mut first_controller: Option<String> = None;
        let mut shown = Repeated::new(|| {
            let all: Vec<String> = owners.iter().map(owner_text).collect();
            format!("[{}]", all.join(","))
        });
        for owner in &owners {
            errors.extend(owner_errors(path, owner));
            if owner.controller != Some(true) {
                continue;
            }
            let name = format!("{}/{}", owner.kind, owner.name);
            match &first_controller {
                None => first_controller = Some(name),
                Some(first) => {
                    let why = format!(
                        "Only one reference can have Controller set to true. Found \"true\" in references for {first} and {name}"
                    );
                    errors.extend(shown.next().map(|all| FieldError::invalid_text(path, all, why)));
                }
            }
        }
        errors
    }

    fn finalizer_errors(self) -> Vec<FieldError> {
        let path = "metadata.finalizers";
        let finalizers = self.finalizers();
        let of_name = |name: &&str| invalid_each(path, name, labels::key_problems(name)).collect::<Vec<_>>();
        let mut errors: Vec<FieldError> = finalizers.iter().flat_map(of_name).collect();
        if finalizers.contains(&FINALIZER_ORPHAN) && finalizers.contains(&FINALIZER_FOREGROUND) {
            let why = format!("finalizer {FINALIZER_ORPHAN} and {FINALIZER_FOREGROUND} cannot be both set");
            errors.push(FieldError::invalid(path, &json!(finalizers), why));
        }
        errors
    }

    fn managed_fields_errors(self) -> Vec<FieldError> {
        let entries = self.managed_fields().iter().enumerate();
        entries.flat_map(|(index, entry)| managed_fields_entry_errors(index, entry)).collect()
    }
}

fn invalid_each<'a>(
    path: &'a str,
    value: &'a str,
    problems: Vec<String>,
) -> impl Iterator<Item = FieldError> + use<'a> {
    problems.into_iter().map(move |problem| FieldError::invalid_string(path, value, problem))
}

fn new_finalizers_error(new: &[&str], old: &[&str]) -> Option<FieldError> {
    let old: HashSet<&str> = old.iter().copied().collect();
    let mut extra: Vec<&str> = new.iter().filter(|name| !old.contains(*name)).copied().collect();
    extra.sort_unstable();
    extra.dedup();
    let quoted: Vec<String> = extra.iter().map(|name| go_text::quote(name)).collect();
    let why = format!(
        "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
        quoted.join(", ")
    );
    (!extra.is_empty()).then(|| FieldError::forbidden("metadata.finalizers", why))
}

fn owner_errors(path: &str, owner: &OwnerReference) -> Vec<FieldError> {
    let kind = owner.group_version_kind();
    let checks = [
        ("apiVersion", &owner.api_version, kind.version.is_empty(), "version must not be empty"),
        ("kind", &owner.kind, owner.kind.is_empty(), "must not be empty"),
        ("name", &owner.name, owner.name.is_empty(), "must not be empty"),
        ("uid", &owner.uid, owner.uid.is_empty(), "must not be empty"),
    ];
    let failed = checks.into_iter().filter(|(_, _, fails, _)| *fails);
    let mut errors: Vec<FieldError> = failed
        .map(|(field, value, _, why)| FieldError::invalid_string(format!("{path}.{field}"), value, why))
        .collect();
    if kind == GroupVersionKind::new("", "v1", "Event") {
        let why = format!("{kind} is disallowed from being an owner");
        errors.push(FieldError::invalid_text(path, owner_text(owner), why));
    }
    errors
}

/// Formats an owner reference as Go marshals the struct: in the order of its fields, not sorted.
fn owner_text(owner: &OwnerReference) -> String {
    let mut text = String::from("{");
    for (field, value) in
        [("apiVersion", &owner.api_version), ("kind", &owner.kind), ("name", &owner.name), ("uid", &owner.uid)]
    {
        text.push_str(&format!("\"{field}\":"));
        go_json::write_string(&mut text, value);
        text.push(',');
    }
    text.pop();
    for (field, value) in [("controller", owner.controller), ("blockOwnerDeletion", owner.block_owner_deletion)] {
        if let Some(value) = value {
            text.push_str(&format!(",\"{field}\":{value}"));
        }
    }
    text.push('}');
    text
}

fn managed_fields_entry_errors(index: usize, entry: &Value) -> Vec<FieldError> {
    let path = format!("metadata.managedFields[{index}]");
    let text = |field: &str| entry.get(field).and_then(Value::as_str).unwrap_or_default();
    let mut errors = Vec::new();
    if !matches!(text("operation"), "Apply" | "Update") {
        let why = "must be `Apply` or `Update`";
        errors.push(FieldError::invalid_string(format!("{path}.operation"), text("operation"), why));
    }
    if !matches!(text("fieldsType"), "" | "FieldsV1") {
        let why = "must be `FieldsV1`";
        errors.push(FieldError::invalid_string(format!("{path}.fieldsType"), text("fieldsType"), why));
    }
    errors.extend(field_manager_errors(&format!("{path}.manager"), text("manager")));
    if text("subresource").len() > SUBRESOURCE_BYTES_MAX {
        errors.push(FieldError::too_long(format!("{path}.subresource"), SUBRESOURCE_BYTES_MAX));
    }
    errors
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vectors;

    fn texts(errors: &[FieldError]) -> Vec<String> {
        errors.iter().map(FieldError::to_string).collect()
    }

    #[test]
    fn metadata_of_a_create_is_judged_as_upstream_judges_it() {
        for row in vectors::rows("metadataCreate") {
            let metadata = Metadata::of_metadata(row.value("metadata"));
            for (namespaced, key) in [(true, "namespaced"), (false, "cluster")] {
                let ours = texts(&metadata.validate_create(namespaced, NameRule::DnsSubdomain));
                let (mut ours, mut theirs) = (ours, row.texts(key));
                if metadata.labels().count() > 1 {
                    // Upstream's order of labels is that of a Go map.
                    ours.sort();
                    theirs.sort();
                }
                assert_eq!(ours, theirs, "{metadata:?}");
            }
        }
    }

    #[test]
    fn annotations_may_have_256_kib_in_total() {
        let judge = |length: usize| {
            let metadata = json!({"name": "a", "annotations": {"a": "x".repeat(length)}});
            texts(&Metadata::of_metadata(&metadata).validate_create(false, NameRule::DnsSubdomain))
        };
        assert_eq!(judge(262_143), [""; 0]);
        assert_eq!(judge(262_144), ["metadata.annotations: Too long: may not be more than 262144 bytes"]);
    }

    #[test]
    fn metadata_of_an_update_is_judged_as_upstream_judges_it() {
        for row in vectors::rows("metadataUpdate") {
            let (old, new) = (Metadata::of_metadata(row.value("old")), Metadata::of_metadata(row.value("new")));
            assert_eq!(texts(&new.validate_update(old)), row.texts("errors"), "{row:?}");
        }
    }
}
