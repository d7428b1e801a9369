//! `version`: of this program and of the server.

use serde_json::{Map, Value, json};

use crate::{
    api::Call,
    context::Ctl,
    error::{Error, Result},
    flags::{Flag, Flags},
};

/// Its flags.
pub(crate) const FLAGS: &[Flag] = &[Flag::switch("client"), Flag::value("output").short('o')];

/// The kubectl whose words these verbs speak.
const CLIENT: &str = "v1.35.4";

/// Of this program alone.
pub(crate) fn of_client(flags: &Flags) -> Result<String> {
    check(flags)?;
    Ok(text(flags, None))
}

/// Tells them.
pub(crate) fn run(ctl: &Ctl<'_>) -> Result<()> {
    let flags = &ctl.flags;
    if !flags.args.is_empty() {
        return Err(Error::text(format!("extra arguments: [{}]", flags.args.join(" "))));
    }
    check(flags)?;
    let server = ctl.call(&Call::get("/version"));
    ctl.print(&text(flags, server.as_ref().ok()))?;
    server.map(|_| ())
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

/// As Go names it.
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
