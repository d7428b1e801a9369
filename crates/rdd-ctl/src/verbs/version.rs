//! `version`: prints the versions of the client and the server.

use serde_json::{Map, Value, json};

use crate::{
    api::Call,
    context::Ctl,
    error::{Error, Result},
    flags::{Flag, Flags},
};

/// The flags of `version`.
pub(crate) const FLAGS: &[Flag] = &[Flag::switch("client"), Flag::value("output").short('o')];

/// The kubectl version that these verbs follow.
const CLIENT: &str = "v1.35.4";
/// The minor version of [`CLIENT`].
const CLIENT_MINOR: i64 = 35;

/// The client version only, which needs no server.
pub(crate) fn of_client(flags: &Flags) -> Result<String> {
    check(flags)?;
    Ok(text(flags, None))
}

/// Runs `version`.
pub(crate) fn run(ctl: &Ctl<'_>) -> Result<()> {
    let flags = &ctl.flags;
    if !flags.args.is_empty() {
        return Err(Error::text(format!("extra arguments: [{}]", flags.args.join(" "))));
    }
    check(flags)?;
    let server = ctl.call(&Call::get("/version"));
    ctl.print(&text(flags, server.as_ref().ok()))?;
    let server = server?;
    if let Some(warning) = skew_warning(&server) {
        ctl.tell(&format!("Warning: {warning}\n"));
    }
    Ok(())
}

/// A warning if the server is more than one minor version older or newer.
fn skew_warning(server: &Value) -> Option<String> {
    let mut numbers = server["gitVersion"].as_str()?.trim_start_matches('v').split('.').map(str::parse::<i64>);
    let (major, minor) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
    let is_far = major != 1 || (minor - CLIENT_MINOR).abs() > 1;
    is_far.then(|| {
        format!(
            "version difference between client (1.{CLIENT_MINOR}) and server ({major}.{minor}) exceeds the supported minor version skew of +/-1"
        )
    })
}

fn check(flags: &Flags) -> Result<()> {
    match flags.text("output") {
        "" | "yaml" | "json" => Ok(()),
        _ => Err(Error::text("--output must be 'yaml' or 'json'")),
    }
}

fn text(flags: &Flags, server: Option<&Value>) -> String {
    match flags.text("output") {
        "" => plain(server),
        "yaml" => format!("{}\n", rdd_yaml::write(&document(server))),
        _ => format!("{}\n", two_blanks(&document(server))),
    }
}

fn plain(server: Option<&Value>) -> String {
    let mut text = format!("Client Version: {CLIENT}\n");
    if let Some(server) = server {
        text.push_str(&format!("Server Version: {}\n", server["gitVersion"].as_str().unwrap_or_default()));
    }
    text
}

fn document(server: Option<&Value>) -> Value {
    let client = json!({
        "major": "1",
        "minor": "35",
        "gitVersion": CLIENT,
        "compiler": "rustc",
        "platform": format!("{}/{}", std::env::consts::OS, architecture()),
    });
    let mut document = Map::from_iter([("clientVersion".to_owned(), client)]);
    if let Some(server) = server {
        document.insert("serverVersion".to_owned(), server.clone());
    }
    Value::Object(document)
}

/// Go's name of the CPU architecture.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

fn two_blanks(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_two_minor_versions_away_is_warned_of() {
        let warning = |version: &str| skew_warning(&json!({"gitVersion": version}));
        for version in ["v1.34.0", "v1.35.4+rdd-v1", "v1.36.1+k3s1", "main"] {
            assert_eq!(warning(version), None, "{version}");
        }
        assert_eq!(
            warning("v1.31.2-gke.1").unwrap(),
            "version difference between client (1.35) and server (1.31) exceeds the supported minor version skew of +/-1"
        );
        assert_eq!(skew_warning(&json!({})), None);
    }
}
