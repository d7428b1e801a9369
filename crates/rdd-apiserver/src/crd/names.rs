//! Accepted names and conditions of a definition: upstream's naming and establishing controllers as functions.

use std::collections::{BTreeSet, HashSet};

use rdd_meta::{go_text::quote, metadata::Metadata, time::Timestamp};
use rdd_schema::crd;
use serde_json::{Map, Value, json};

use super::head::Names;

/// The names that the definitions of one group hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Taken {
    resources: BTreeSet<String>,
    kinds: BTreeSet<String>,
}

impl Taken {
    /// Adds the accepted names of a definition.
    pub(super) fn add(&mut self, names: &Names) {
        let resources = [&names.plural, &names.singular].into_iter().chain(&names.short_names);
        self.resources.extend(resources.filter(|name| !name.is_empty()).cloned());
        self.kinds.extend([&names.kind, &names.list_kind].into_iter().filter(|name| !name.is_empty()).cloned());
    }

    /// Whether one of these names is taken.
    pub(super) fn clashes_with(&self, names: &Names) -> bool {
        let mut resources = [&names.plural, &names.singular].into_iter().chain(&names.short_names);
        resources.any(|name| self.resources.contains(name))
            || [&names.kind, &names.list_kind].into_iter().any(|name| self.kinds.contains(name))
    }
}

/// Accepts the requested names that are not taken, establishes the definition, and sets its conditions. `taken` are the names of the
/// other definitions of its group. Conditions whose status does not change keep their transition time.
pub(super) fn settle(definition: &mut Value, taken: &Taken, now: Timestamp) {
    if let Some(condition) = approval(definition) {
        set_condition(definition, &condition, now);
    }
    accept_names(definition, taken, now);
    establish(definition, now);
}

/// Establishes a definition with accepted names, like upstream's establishing controller, unless the CA bundle of its conversion
/// webhook is invalid. An established definition stays established.
pub(super) fn establish(definition: &mut Value, now: Timestamp) {
    if !is_true(definition, "NamesAccepted") || is_true(definition, "Established") {
        return;
    }
    let established = if crd::has_invalid_ca_bundle(definition) {
        Condition::new("Established", "False", "InvalidCABundle", "The conversion webhook CABundle is invalid")
    } else {
        Condition::new("Established", "True", "InitialNamesAccepted", "the initial names have been accepted")
    };
    set_condition(definition, &established, now);
}

/// Accepts the names that are not taken, like upstream's naming controller.
fn accept_names(definition: &mut Value, taken: &Taken, now: Timestamp) {
    let wanted = definition.pointer("/spec/names").cloned().unwrap_or_default();
    // The accepted names are the requested ones already; the conditions stay as they are.
    if definition.pointer("/status/acceptedNames").is_some_and(|accepted| *accepted == wanted) {
        return;
    }
    let accepted = definition.pointer("/status/acceptedNames").cloned().unwrap_or_default();
    let (names, conflict) = resolve(&wanted, &accepted, taken);
    status_of(definition).insert("acceptedNames".to_owned(), names);
    let (status, reason, message) = match &conflict {
        None => ("True", "NoConflicts", "no conflicts found".to_owned()),
        Some((reason, message)) => ("False", *reason, message.clone()),
    };
    set_condition(definition, &Condition { kind: "NamesAccepted", status, reason, message }, now);
    if conflict.is_some() && !has_condition(definition, "Established") {
        let refused = Condition::new("Established", "False", "NotAccepted", "not all names are accepted");
        set_condition(definition, &refused, now);
    }
}

/// Removes the accepted names and their conditions, because another definition held one of the names before.
pub(super) fn unsettle(definition: &mut Value) {
    let status = status_of(definition);
    status.remove("acceptedNames");
    if let Some(Value::Array(conditions)) = status.get_mut("conditions") {
        conditions.retain(|condition| condition["type"] != "NamesAccepted" && condition["type"] != "Established");
    }
}

/// The accepted names, and the last conflict if there are any.
fn resolve(wanted: &Value, accepted: &Value, taken: &Taken) -> (Value, Option<(&'static str, String)>) {
    let mut names = accepted.as_object().cloned().unwrap_or_default();
    let mut conflict = None;
    let single = |names: &mut Map<String, Value>, field: &str, used: &BTreeSet<String>| {
        let text = |names: &Value| names.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
        let name = text(wanted);
        // A name that was accepted before stays, even if another definition holds it too.
        if name != text(accepted) && used.contains(&name) {
            return Some(in_use(&name));
        }
        put(names, field, Some(name.into()));
        None
    };
    // As upstream, a later conflict replaces an earlier one.
    let mut found = |reason: &'static str, message: Option<String>| {
        conflict = message.map(|message| (reason, message)).or(conflict.take());
    };
    found("PluralConflict", single(&mut names, "plural", &taken.resources));
    found("SingularConflict", single(&mut names, "singular", &taken.resources));
    found("ShortNamesConflict", short_names(&mut names, wanted, accepted, taken));
    found("KindConflict", single(&mut names, "kind", &taken.kinds));
    found("ListKindConflict", single(&mut names, "listKind", &taken.kinds));
    put(&mut names, "categories", wanted.get("categories").cloned());
    for field in ["plural", "kind"] {
        // Upstream writes these two fields even if they are empty.
        names.entry(field).or_insert_with(|| "".into());
    }
    (Value::Object(names), conflict)
}

/// Accepts the short names all together or not at all. Returns the conflict, if there is one.
fn short_names(names: &mut Map<String, Value>, wanted: &Value, accepted: &Value, taken: &Taken) -> Option<String> {
    let held: HashSet<String> = texts(accepted, "shortNames").into_iter().collect();
    let mut clashes = texts(wanted, "shortNames");
    clashes.retain(|name| !held.contains(name) && taken.resources.contains(name));
    if clashes.is_empty() {
        put(names, "shortNames", wanted.get("shortNames").cloned());
        return None;
    }
    Some(aggregate(&clashes))
}

fn put(names: &mut Map<String, Value>, field: &str, value: Option<Value>) {
    match value.filter(|value| *value != "") {
        Some(value) => names.insert(field.to_owned(), value),
        None => names.remove(field),
    };
}

fn texts(names: &Value, field: &str) -> Vec<String> {
    let list = names.get(field).and_then(Value::as_array).into_iter().flatten();
    list.filter_map(|name| name.as_str().map(str::to_owned)).collect()
}

fn in_use(name: &str) -> String {
    format!("{} is already in use", quote(name))
}

/// Joins several errors like Go's aggregate, without duplicates.
fn aggregate(names: &[String]) -> String {
    let mut seen = HashSet::new();
    let texts: Vec<String> = names.iter().filter(|name| seen.insert(*name)).map(|name| in_use(name)).collect();
    match texts.as_slice() {
        [alone] => alone.clone(),
        several => format!("[{}]", several.join(", ")),
    }
}

/// The condition about the approval of a definition in a protected group (`k8s.io`, `kubernetes.io`); `None` for other groups.
fn approval(definition: &Value) -> Option<Condition> {
    const KIND: &str = "KubernetesAPIApprovalPolicyConformant";
    let group = definition.pointer("/spec/group").and_then(Value::as_str)?;
    let protected = ["k8s.io", "kubernetes.io"];
    if !protected
        .iter()
        .any(|domain| group.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.')))
    {
        return None;
    }
    let annotation = Metadata::of(definition).annotation("api-approved.kubernetes.io").unwrap_or_default();
    let needed = "protected groups must have approval annotation \"api-approved.kubernetes.io\"";
    let link = "see https://github.com/kubernetes/enhancements/pull/1111";
    let (status, reason, message) = if annotation.is_empty() {
        ("False", "MissingAnnotation", format!("{needed}, {link}"))
    } else if annotation.starts_with("unapproved") {
        ("False", "UnapprovedAnnotation", format!("not approved: {}", quote(annotation)))
    } else if rdd_schema::format::is_absolute_url(annotation) {
        ("True", "ApprovedAnnotation", format!("approved in {annotation}"))
    } else {
        let message = format!("{needed} with either a URL or a reason starting with \"unapproved\", {link}");
        ("False", "InvalidAnnotation", message)
    };
    Some(Condition { kind: KIND, status, reason, message })
}

/// A condition of a definition, without its transition time.
#[derive(Debug, Clone)]
pub(super) struct Condition {
    kind: &'static str,
    status: &'static str,
    reason: &'static str,
    message: String,
}

impl Condition {
    pub(super) fn new(
        kind: &'static str,
        status: &'static str,
        reason: &'static str,
        message: impl Into<String>,
    ) -> Self {
        Self { kind, status, reason, message: message.into() }
    }
}

fn has_condition(definition: &Value, condition: &str) -> bool {
    let conditions = definition.pointer("/status/conditions").and_then(Value::as_array).into_iter().flatten();
    conditions.into_iter().any(|found| found["type"] == condition)
}

/// Whether the condition exists and is True.
pub(super) fn is_true(definition: &Value, condition: &str) -> bool {
    let conditions = definition.pointer("/status/conditions").and_then(Value::as_array).into_iter().flatten();
    conditions.into_iter().find(|found| found["type"] == condition).is_some_and(|found| found["status"] == "True")
}

/// Sets a condition. The transition time changes only with the status.
pub(super) fn set_condition(definition: &mut Value, condition: &Condition, now: Timestamp) {
    let conditions = status_of(definition).entry("conditions").or_insert_with(|| json!([]));
    if !conditions.is_array() {
        *conditions = json!([]);
    }
    let Value::Array(conditions) = conditions else { return };
    let mut made = json!({"type": condition.kind, "status": condition.status, "reason": condition.reason,
        "message": condition.message, "lastTransitionTime": now.format_time()});
    match conditions.iter_mut().find(|found| found["type"] == condition.kind) {
        None => conditions.push(made),
        Some(found) => {
            if found["status"] == condition.status && found["lastTransitionTime"].is_string() {
                made["lastTransitionTime"] = found["lastTransitionTime"].take();
            }
            if let Some(generation) = found.get("observedGeneration").cloned() {
                made["observedGeneration"] = generation;
            }
            *found = made;
        }
    }
}

/// The status of a definition; it is created if it is absent.
pub(super) fn status_of(definition: &mut Value) -> &mut Map<String, Value> {
    if !definition.is_object() {
        *definition = json!({});
    }
    let status = &mut definition["status"];
    if !status.is_object() {
        *status = json!({});
    }
    status.as_object_mut().expect("it was made an object a line above")
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_700_000_000;

    fn mk(group: &str, names: Value) -> Value {
        json!({"metadata": {"name": "x"}, "spec": {"group": group, "names": names}})
    }

    fn names(json: &str) -> Names {
        serde_json::from_str(json).unwrap()
    }

    fn conditions(definition: &Value) -> Vec<String> {
        let text = |condition: &Value, field: &str| condition[field].as_str().unwrap().to_owned();
        let conditions = definition["status"]["conditions"].as_array().unwrap().iter();
        conditions.map(|one| ["type", "status", "reason", "message"].map(|field| text(one, field)).join("|")).collect()
    }

    fn settled(mut definition: Value, taken: &Taken) -> Value {
        settle(&mut definition, taken, Timestamp::new(NOW, 0));
        definition
    }

    fn foo() -> Value {
        json!({"plural": "foos", "singular": "foo", "kind": "Foo", "listKind": "FooList", "shortNames": ["f", "fo"], "categories": ["all"]})
    }

    #[test]
    fn a_definition_without_rivals_is_established_at_once() {
        // O-12
        let definition = settled(mk("g.io", foo()), &Taken::default());
        assert_eq!(
            conditions(&definition),
            [
                "NamesAccepted|True|NoConflicts|no conflicts found",
                "Established|True|InitialNamesAccepted|the initial names have been accepted"
            ]
        );
        assert_eq!(definition["status"]["acceptedNames"], foo());
        assert_eq!(definition["status"]["conditions"][0]["lastTransitionTime"], "2023-11-14T22:13:20Z");
    }

    #[test]
    fn each_name_that_another_holds_is_refused_in_the_words_of_the_naming_controller() {
        let check = |held: &str, reason: &str, message: &str| {
            let mut taken = Taken::default();
            taken.add(&names(held));
            let definition = settled(mk("g.io", foo()), &taken);
            let conditions = conditions(&definition);
            assert_eq!(conditions[0], format!("NamesAccepted|False|{reason}|{message}"));
            assert_eq!(conditions[1], "Established|False|NotAccepted|not all names are accepted");
        };
        check(r#"{"plural":"foos"}"#, "PluralConflict", r#""foos" is already in use"#);
        check(r#"{"shortNames":["foo"]}"#, "SingularConflict", r#""foo" is already in use"#);
        check(
            r#"{"shortNames":["fo"],"singular":"f"}"#,
            "ShortNamesConflict",
            r#"["f" is already in use, "fo" is already in use]"#,
        );
        check(r#"{"kind":"Foo","shortNames":["f"]}"#, "KindConflict", r#""Foo" is already in use"#);
        check(r#"{"kind":"FooList"}"#, "ListKindConflict", r#""FooList" is already in use"#);
    }

    #[test]
    fn a_name_that_becomes_free_is_accepted_later_and_times_tell_when() {
        let mut taken = Taken::default();
        taken.add(&names(r#"{"shortNames":["f"]}"#));
        let mut definition = settled(mk("g.io", foo()), &taken);
        assert_eq!(definition["status"]["acceptedNames"].get("shortNames"), None);
        taken.add(&names(r#"{"kind":"Foo","listKind":"FooList","singular":"foo"}"#));
        let nearly = settled(mk("g.io", foo()), &taken);
        assert_eq!(nearly["status"]["acceptedNames"], json!({"plural": "foos", "kind": "", "categories": ["all"]}));
        settle(&mut definition, &Taken::default(), Timestamp::new(NOW + 60, 0));
        assert_eq!(definition["status"]["acceptedNames"], foo());
        assert_eq!(
            conditions(&definition)[1],
            "Established|True|InitialNamesAccepted|the initial names have been accepted"
        );
        assert_eq!(definition["status"]["conditions"][0]["lastTransitionTime"], "2023-11-14T22:14:20Z");
    }

    #[test]
    fn what_is_established_stays_so_when_a_new_name_conflicts() {
        let mut definition = settled(mk("g.io", foo()), &Taken::default());
        definition["spec"]["names"]["shortNames"] = json!(["f", "zz"]);
        let mut taken = Taken::default();
        taken.add(&names(r#"{"plural":"zz"}"#));
        settle(&mut definition, &taken, Timestamp::new(NOW + 60, 0));
        assert_eq!(conditions(&definition)[0], r#"NamesAccepted|False|ShortNamesConflict|"zz" is already in use"#);
        assert!(is_true(&definition, "Established"));
        assert_eq!(definition["status"]["acceptedNames"]["shortNames"], json!(["f", "fo"]));
    }

    #[test]
    fn the_groups_of_the_community_have_a_condition_for_their_approval() {
        let check = |annotation: &str, expected: &str| {
            let mut definition = mk("x.k8s.io", foo());
            definition["metadata"]["annotations"] = json!({"api-approved.kubernetes.io": annotation});
            assert_eq!(conditions(&settled(definition, &Taken::default()))[0], expected);
        };
        let kind = "KubernetesAPIApprovalPolicyConformant";
        check("https://a.b/c", &format!("{kind}|True|ApprovedAnnotation|approved in https://a.b/c"));
        check("unapproved, x", &format!("{kind}|False|UnapprovedAnnotation|not approved: \"unapproved, x\""));
        assert_eq!(conditions(&settled(mk("notk8s.io", foo()), &Taken::default())).len(), 2);
    }
}
