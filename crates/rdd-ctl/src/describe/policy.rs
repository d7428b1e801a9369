//! Descriptions of roles, bindings and quotas.

use rdd_meta::metadata::Metadata;
use serde_json::Value;

use super::{Page, list_at, text_at};

/// One line of a role: at most one group, resource and name, or one non-resource URL.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Rule {
    groups: Vec<String>,
    resources: Vec<String>,
    names: Vec<String>,
    paths: Vec<String>,
    verbs: Vec<String>,
}

impl Rule {
    /// Go's formatting of a string list.
    fn list(texts: &[String]) -> String {
        format!("[{}]", texts.join(" "))
    }

    /// The sort key of a line: Go's text of the rule.
    fn order(&self) -> String {
        let [verbs, groups, resources, names, paths] =
            [&self.verbs, &self.groups, &self.resources, &self.names, &self.paths].map(|texts| Self::list(texts));
        format!("Verbs:{verbs},APIGroups:{groups},Resources:{resources},ResourceNames:{names},NonResourceURLs:{paths},")
    }

    /// The resource column, such as `deployments.apps/status`.
    fn target(&self) -> String {
        let Some(resource) = self.resources.first() else { return String::new() };
        let (resource, subresource) = match resource.split_once('/') {
            Some((resource, subresource)) => (resource, format!("/{subresource}")),
            None => (resource.as_str(), String::new()),
        };
        match self.groups.first().filter(|group| !group.is_empty()) {
            Some(group) => format!("{resource}.{group}{subresource}"),
            None => format!("{resource}{subresource}"),
        }
    }

    fn is_about_the_same(&self, other: &Self) -> bool {
        !self.resources.is_empty()
            && (&self.groups, &self.resources, &self.names) == (&other.groups, &other.resources, &other.names)
    }
}

fn texts(rule: &Value, field: &str) -> Vec<String> {
    list_at(rule, &[field]).iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// Splits a rule into rules with one verb and one target each.
fn broken_down(rule: &Value) -> Vec<Rule> {
    let [groups, resources, verbs, names, paths] =
        ["apiGroups", "resources", "verbs", "resourceNames", "nonResourceURLs"].map(|field| texts(rule, field));
    let names: Vec<Vec<String>> =
        if names.is_empty() { vec![Vec::new()] } else { names.into_iter().map(|name| vec![name]).collect() };
    let mut rules = Vec::new();
    for (group, resource) in groups.iter().flat_map(|group| resources.iter().map(move |resource| (group, resource))) {
        for (verb, names) in verbs.iter().flat_map(|verb| names.iter().map(move |names| (verb, names))) {
            rules.push(Rule {
                groups: vec![group.clone()],
                resources: vec![resource.clone()],
                names: names.clone(),
                paths: Vec::new(),
                verbs: vec![verb.clone()],
            });
        }
    }
    for (path, verb) in paths.iter().flat_map(|path| verbs.iter().map(move |verb| (path, verb))) {
        rules.push(Rule { paths: vec![path.clone()], verbs: vec![verb.clone()], ..Rule::default() });
    }
    rules
}

/// The lines of a role: one per target, with all its verbs.
fn lines(rules: &[Value]) -> Vec<Rule> {
    let mut lines: Vec<Rule> = Vec::new();
    for rule in rules.iter().flat_map(broken_down) {
        match lines.iter_mut().find(|line| line.is_about_the_same(&rule)) {
            Some(line) => {
                let news: Vec<_> = rule.verbs.into_iter().filter(|verb| !line.verbs.contains(verb)).collect();
                line.verbs.extend(news);
            }
            None => lines.push(rule),
        }
    }
    lines.sort_by_cached_key(Rule::order);
    lines
}

pub(super) fn role(object: &Value, page: &mut Page) {
    page.head(object, false);
    page.write(0, "PolicyRule:\n");
    page.write(1, "Resources\tNon-Resource URLs\tResource Names\tVerbs\n");
    page.write(1, "---------\t-----------------\t--------------\t-----\n");
    for line in lines(list_at(object, &["rules"])) {
        let [paths, names, verbs] = [&line.paths, &line.names, &line.verbs].map(|texts| Rule::list(texts));
        page.write(1, &format!("{}\t{paths}\t{names}\t{verbs}\n", line.target()));
    }
}

pub(super) fn binding(object: &Value, page: &mut Page) {
    page.head(object, false);
    page.write(0, "Role:\n");
    page.write(1, &format!("Kind:\t{}\n", text_at(object, &["roleRef", "kind"])));
    page.write(1, &format!("Name:\t{}\n", text_at(object, &["roleRef", "name"])));
    page.write(0, "Subjects:\n");
    page.write(1, "Kind\tName\tNamespace\n");
    page.write(1, "----\t----\t---------\n");
    for subject in list_at(object, &["subjects"]) {
        let [kind, name, namespace] = ["kind", "name", "namespace"].map(|field| text_at(subject, &[field]));
        page.write(1, &format!("{kind}\t{name}\t{namespace}\n"));
    }
}

/// kubectl's explanation of a scope.
fn meaning(scope: &str) -> Option<&'static str> {
    Some(match scope {
        "Terminating" => {
            "Matches all pods that have an active deadline. These pods have a limited lifespan on a node before being actively \
             terminated by the system."
        }
        "NotTerminating" => {
            "Matches all pods that do not have an active deadline. These pods usually include long running pods whose container \
             command is not expected to terminate."
        }
        "BestEffort" => {
            "Matches all pods that do not have resource requirements set. These pods have a best effort quality of service."
        }
        "NotBestEffort" => {
            "Matches all pods that have at least one resource requirement set. These pods have a burstable or guaranteed \
             quality of service."
        }
        _ => return None,
    })
}

/// Writes the scopes of a quota with their explanations.
pub(super) fn scopes(quota: &Value, (level, bullet): (usize, &str), page: &mut Page) {
    let mut scopes: Vec<&str> = list_at(quota, &["spec", "scopes"]).iter().filter_map(Value::as_str).collect();
    scopes.sort_unstable();
    if scopes.is_empty() {
        return;
    }
    page.write(level, &format!("Scopes:\t{}\n", scopes.join(", ")));
    for meaning in scopes.iter().filter_map(|scope| meaning(scope)) {
        page.write(level, &format!("{bullet} {meaning}\n"));
    }
}

pub(super) fn resource_quota(object: &Value, page: &mut Page) {
    let metadata = Metadata::of(object);
    page.write(0, &format!("Name:\t{}\n", metadata.name()));
    page.write(0, &format!("Namespace:\t{}\n", metadata.namespace()));
    scopes(object, (0, " *"), page);
    page.write(0, "Resource\tUsed\tHard\n");
    page.write(0, "--------\t----\t----\n");
    let mut hard: Vec<(&String, &Value)> = object["status"]["hard"].as_object().into_iter().flatten().collect();
    hard.sort_unstable_by_key(|(resource, _)| *resource);
    for (resource, hard) in hard {
        let used = text_at(object, &["status", "used", resource]);
        let used = if used.is_empty() { "0" } else { used };
        page.write(0, &format!("{resource}\t{used}\t{}\n", hard.as_str().unwrap_or_default()));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_allowed_to_one_target_stands_on_one_line_in_the_order_of_its_verbs() {
        let rules = [
            json!({"apiGroups": ["", "apps"], "resources": ["pods", "deployments/status"], "verbs": ["get", "list"]}),
            json!({"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "watch"]}),
            json!({"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["a", "b"], "verbs": ["*"]}),
            json!({"nonResourceURLs": ["/healthz"], "verbs": ["get"]}),
        ];
        let lines: Vec<String> = lines(&rules)
            .iter()
            .map(|line| format!("{} {} {}", line.target(), Rule::list(&line.names), Rule::list(&line.verbs)))
            .collect();
        assert_eq!(
            lines,
            [
                "secrets [a] [*]",
                "secrets [b] [*]",
                "pods [] [get list watch]",
                "deployments/status [] [get list]",
                "deployments.apps/status [] [get list]",
                "pods.apps [] [get list]",
                " [] [get]",
            ]
        );
    }
}
