//! `auth`: shows the user's identity and permissions. Also `create token`.

use std::{io::IsTerminal, time::Duration};

use http::Method;
use serde_json::{Value, json};

use crate::{
    api::Call,
    context::Ctl,
    error::{Error, Result},
    flags::{Flag, Kind},
    print::{Format, Printer, tabs::Tabs},
};

/// The flags of `auth can-i`.
pub(crate) const CAN_I_FLAGS: &[Flag] = &[
    Flag::switch("all-namespaces").short('A'),
    Flag::switch("quiet").short('q'),
    Flag::value("subresource"),
    Flag::switch("list"),
    Flag::switch("no-headers"),
];
/// The flags of `create token`.
pub(crate) const TOKEN_FLAGS: &[Flag] = &[
    Flag::of("audience", Kind::Array, ""),
    Flag::of("duration", Kind::Duration, "0s"),
    Flag::value("bound-object-kind"),
    Flag::value("bound-object-name"),
    Flag::value("bound-object-uid"),
];

const VERBS: &[&str] = &[
    "get",
    "list",
    "watch",
    "create",
    "update",
    "patch",
    "delete",
    "deletecollection",
    "use",
    "bind",
    "impersonate",
    "*",
    "approve",
    "sign",
    "escalate",
    "attest",
];
const URL_VERBS: &[&str] = &["get", "put", "post", "head", "options", "delete", "patch", "*"];
/// The kinds that a token can be bound to.
const BOUND_KINDS: [&str; 3] = ["Node", "Pod", "Secret"];

/// Runs `auth whoami`.
pub(crate) fn whoami(ctl: &Ctl<'_>) -> Result<()> {
    let format = Format::of(&ctl.flags, false)?;
    let mut answered = Err(Error::Silent);
    // Servers before 1.28 serve it as v1beta1, servers before 1.27 as v1alpha1.
    for version in ["v1", "v1beta1", "v1alpha1"] {
        let review = json!({ "kind": "SelfSubjectReview", "apiVersion": format!("authentication.k8s.io/{version}"), "metadata": {}, "status": { "userInfo": {} } });
        let path = format!("/apis/authentication.k8s.io/{version}/selfsubjectreviews");
        answered = ctl.call(&Call::new(Method::POST, path).json(&review));
        if !answered.as_ref().is_err_and(Error::is_not_found) {
            break;
        }
    }
    let review = answered.map_err(|error| match error {
        error if error.is_not_found() => Error::text("the selfsubjectreviews API is not enabled in the cluster"),
        error if error.is_reason("Forbidden") => Error::text(
            "the selfsubjectreviews API is not enabled in the cluster or you do not have permission to call it",
        ),
        error => error,
    })?;
    match format {
        Format::Human { .. } => ctl.print(&attributes(&review["status"]["userInfo"])),
        format => {
            let text = Printer::new(format, &ctl.flags, "created").print(&review)?;
            ctl.print(&text)
        }
    }
}

fn attributes(user: &Value) -> String {
    let mut tabs = Tabs::for_tables();
    tabs.push("ATTRIBUTE\tVALUE\n");
    for (field, label) in [("username", "Username"), ("uid", "UID")] {
        if let Some(text) = user[field].as_str().filter(|text| !text.is_empty()) {
            tabs.push(&format!("{label}\t{text}\n"));
        }
    }
    if user["groups"].as_array().is_some_and(|groups| !groups.is_empty()) {
        tabs.push(&format!("Groups\t{}\n", go_texts(&user["groups"])));
    }
    for (key, values) in user["extra"].as_object().into_iter().flatten() {
        tabs.push(&format!("Extra: {key}\t{}\n", go_texts(values)));
    }
    tabs.flush()
}

/// Formats a string list like Go.
fn go_texts(values: &Value) -> String {
    let texts: Vec<&str> = values.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    format!("[{}]", texts.join(" "))
}

/// Runs `auth can-i`: exit code 0 for yes, 1 for no.
pub(crate) fn can_i(ctl: &Ctl<'_>) -> Result<()> {
    let flags = &ctl.flags;
    if flags.is_on("list") {
        return Err(super::elsewhere("auth can-i --list"));
    }
    let [verb, target] = flags.args.as_slice() else {
        return Err(Error::text(
            "you must specify two arguments: verb resource or verb resource/resourceName.\nSee 'kubectl auth can-i -h' for help and examples.",
        ));
    };
    if flags.is_on("no-headers") {
        return Err(Error::text("--no-headers cannot be set without --list specified"));
    }
    let attributes = if target.starts_with('/') {
        url_attributes(ctl, verb, target)?
    } else {
        resource_attributes(ctl, verb, target)?
    };
    let review = json!({ "kind": "SelfSubjectAccessReview", "apiVersion": "authorization.k8s.io/v1", "metadata": {}, "spec": attributes, "status": { "allowed": false } });
    let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let status = ctl.call(&Call::new(Method::POST, path).json(&review))?["status"].take();
    let is_allowed = status["allowed"] == json!(true);
    if !flags.is_on("quiet") {
        let reasons = [&status["reason"], &status["evaluationError"]].into_iter().filter_map(Value::as_str);
        let why: String = reasons.filter(|why| !why.is_empty() && !is_allowed).map(|why| format!(" - {why}")).collect();
        ctl.print(&format!("{}{why}\n", if is_allowed { "yes" } else { "no" }))?;
    }
    if is_allowed { Ok(()) } else { Err(Error::Silent) }
}

fn url_attributes(ctl: &Ctl<'_>, verb: &str, url: &str) -> Result<Value> {
    if !ctl.flags.text("subresource").is_empty() {
        return Err(Error::text("--subresource can not be used with NonResourceURL"));
    }
    if !URL_VERBS.contains(&verb) {
        warn(ctl, &format!("verb '{verb}' is not a known verb"));
    }
    Ok(json!({ "nonResourceAttributes": { "path": url, "verb": verb } }))
}

fn resource_attributes(ctl: &Ctl<'_>, verb: &str, target: &str) -> Result<Value> {
    let flags = &ctl.flags;
    let (word, name) = target.split_once('/').unwrap_or((target, ""));
    let everywhere = flags.is_on("all-namespaces");
    let (mut group, mut resource) = (String::new(), word.to_owned());
    if word != "*" {
        let lower = word.to_lowercase();
        match ctl.find(&lower) {
            Ok(mapping) => {
                if !mapping.namespaced && !everywhere {
                    let place =
                        if mapping.group.is_empty() { String::new() } else { format!(" in group '{}'", mapping.group) };
                    warn(ctl, &format!("resource '{}' is not namespace scoped{place}", mapping.resource));
                }
                (group, resource) = (mapping.group.clone(), mapping.resource.clone());
            }
            Err(Error::Text(_)) if !matches!(lower.as_str(), "users" | "groups") => {
                let (name, group) = lower.split_once('.').unwrap_or((&lower, ""));
                let place = if group.is_empty() { String::new() } else { format!(" in group '{group}'") };
                warn(ctl, &format!("the server doesn't have a resource type '{name}'{place}"));
            }
            Err(Error::Text(_)) => {}
            Err(error) => return Err(error),
        }
    }
    if !everywhere && !VERBS.contains(&verb) {
        warn(ctl, &format!("verb '{verb}' is not a known verb"));
    }
    let namespace = if everywhere { "" } else { ctl.namespace() };
    let mut attributes = json!({ "verb": verb, "resource": resource });
    let more =
        [("namespace", namespace), ("group", &group), ("subresource", flags.text("subresource")), ("name", name)];
    for (field, text) in more.into_iter().filter(|(_, text)| !text.is_empty()) {
        attributes[field] = json!(text);
    }
    Ok(json!({ "resourceAttributes": attributes }))
}

/// Prints a warning with an empty line after it, like kubectl.
fn warn(ctl: &Ctl<'_>, text: &str) {
    ctl.tell(&format!("Warning: {text}\n\n"));
}

/// Runs `create token`.
pub(crate) fn create_token(ctl: &Ctl<'_>) -> Result<()> {
    let flags = &ctl.flags;
    let name = match flags.args.as_slice() {
        [name] if !name.is_empty() => name,
        [_] => return Err(Error::text("service account name is required")),
        args => return Err(ctl.usage(&format!("exactly one NAME is required, got {}", args.len()))),
    };
    let format = Format::of(flags, false)?;
    let request = token_request(ctl)?;
    let path = format!("/api/v1/namespaces/{}/serviceaccounts/{name}/token", ctl.namespace());
    let failed = |error: Error| Error::text(format!("failed to create token: {error}"));
    let response = ctl.call(&Call::new(Method::POST, path).json(&request)).map_err(failed)?;
    let token = response["status"]["token"].as_str().filter(|token| !token.is_empty());
    let token = token.ok_or_else(|| Error::text("failed to create token: no token in server response"))?;
    match format {
        // Like kubectl: without a terminal, the output is the token without a newline.
        Format::Human { .. } if !std::io::stdout().is_terminal() => ctl.print(token),
        Format::Human { .. } => ctl.print(&format!("{token}\n")),
        format => {
            let text = Printer::new(format, flags, "created").print(&response)?;
            ctl.print(&text)
        }
    }
}

fn token_request(ctl: &Ctl<'_>) -> Result<Value> {
    let flags = &ctl.flags;
    let nanoseconds = flags.nanoseconds("duration");
    if nanoseconds < 0 {
        return Err(Error::text("--duration must be greater than or equal to 0"));
    }
    if nanoseconds % 1_000_000_000 != 0 {
        return Err(Error::text("--duration cannot be expressed in units less than seconds"));
    }
    if flags.list("audience").iter().any(String::is_empty) {
        return Err(Error::text("--audience must not be an empty string"));
    }
    let bound = |field: &str| flags.text(&format!("bound-object-{field}")).to_owned();
    let (kind, name, uid) = (bound("kind"), bound("name"), bound("uid"));
    let mut spec = json!({ "audiences": null, "expirationSeconds": null, "boundObjectRef": null });
    if !flags.list("audience").is_empty() {
        spec["audiences"] = json!(flags.list("audience"));
    }
    if nanoseconds > 0 {
        spec["expirationSeconds"] = json!(Duration::from_nanos(nanoseconds.unsigned_abs()).as_secs());
    }
    match kind.as_str() {
        "" => {
            for (field, text) in [("name", &name), ("uid", &uid)] {
                if !text.is_empty() {
                    return Err(Error::text(format!(
                        "--bound-object-{field} can only be set if --bound-object-kind is provided"
                    )));
                }
            }
        }
        kind if !BOUND_KINDS.contains(&kind) => {
            return Err(Error::text(format!("supported --bound-object-kind values are {}", BOUND_KINDS.join(", "))));
        }
        _ if name.is_empty() => {
            return Err(Error::text("--bound-object-name is required if --bound-object-kind is provided"));
        }
        kind => {
            spec["boundObjectRef"] = json!({ "kind": kind, "apiVersion": "v1", "name": name });
            if !uid.is_empty() {
                spec["boundObjectRef"]["uid"] = json!(uid);
            }
        }
    }
    Ok(
        json!({ "kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1", "metadata": {}, "spec": spec, "status": { "token": "", "expirationTimestamp": null } }),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_one_is_is_a_table_without_what_is_empty() {
        let user = json!({"username": "ann", "uid": "", "groups": ["a", "b"], "extra": {"k": ["v"]}});
        assert_eq!(attributes(&user), "ATTRIBUTE   VALUE\nUsername    ann\nGroups      [a b]\nExtra: k    [v]\n");
    }
}
