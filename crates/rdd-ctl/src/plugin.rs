//! Exec credential plugins: programs that a kubeconfig names to get a token or a client certificate.
//!
//! The protocol is `client.authentication.k8s.io` v1 and v1beta1. The plugin is executed directly, never through a shell; its
//! standard error is ours; its run time and output are bounded.

use std::{
    ffi::OsStr,
    fs, io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use rdd_kubeconfig::client_config::{ExecPlugin, InteractiveMode};
use rdd_meta::{go_json, go_text::quote, time::Timestamp};
use rdd_stdx::process;
use serde_json::Value;

use crate::capture::{CaptureError, capture_stdout};

/// The timeout of a plugin; long, because the user may have to log in with a browser.
const PLUGIN_TIMEOUT: Duration = Duration::from_secs(300);
/// The maximum size of a plugin's output.
const ANSWER_BYTES_MAX: usize = 1 << 20;
/// The environment variable with the `ExecCredential` request.
const EXEC_INFO: &str = "KUBERNETES_EXEC_INFO";

/// The credentials that a plugin returned.
#[derive(Clone, PartialEq, Eq, Default)]
pub(crate) struct PluginCredential {
    /// A bearer token.
    pub(crate) token: Option<String>,
    /// A client certificate and its key, both in PEM.
    pub(crate) identity: Option<(Vec<u8>, Vec<u8>)>,
    /// When they expire.
    pub(crate) expires: Option<Timestamp>,
}

impl std::fmt::Debug for PluginCredential {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PluginCredential(***)")
    }
}

/// Runs a plugin; `path` is the search path for a bare command name. Errors use client-go's wording and never quote the output.
pub(crate) fn get_credential(
    plugin: &ExecPlugin,
    path: Option<&OsStr>,
    stdin_is_terminal: bool,
) -> Result<PluginCredential, String> {
    let is_interactive = is_interactive(plugin.interactive_mode, stdin_is_terminal)?;
    let name = clean(&plugin.command);
    let program = find(&name, path).ok_or_else(|| not_found(&name, &plugin.install_hint))?;
    let mut command = process::foreground(&program);
    command.args(&plugin.args).envs(plugin.env.iter().map(|(name, value)| (name, value)));
    command.env(EXEC_INFO, exec_info(plugin, is_interactive));
    command.stdin(if is_interactive { Stdio::inherit() } else { Stdio::null() });
    let captured = capture_stdout(&mut command, PLUGIN_TIMEOUT, ANSWER_BYTES_MAX);
    let (status, answer) = captured.map_err(|error| match error {
        CaptureError::Start(error) if error.kind() == io::ErrorKind::NotFound => not_found(&name, &plugin.install_hint),
        CaptureError::Start(error) | CaptureError::Read(error) => format!("exec: {error}"),
        CaptureError::TimedOut => {
            format!("exec: executable {name} did not end within {} minutes", PLUGIN_TIMEOUT.as_secs() / 60)
        }
        CaptureError::TooLarge => format!("exec: executable {name} wrote more than {ANSWER_BYTES_MAX} bytes"),
    })?;
    if !status.success() {
        let code = status.code().unwrap_or(-1);
        return Err(format!("exec: executable {name} failed with exit code {code}"));
    }
    read_answer(&answer, &plugin.api_version)
}

fn is_interactive(mode: InteractiveMode, stdin_is_terminal: bool) -> Result<bool, String> {
    match mode {
        InteractiveMode::Never => Ok(false),
        InteractiveMode::IfAvailable => Ok(stdin_is_terminal),
        InteractiveMode::Always if stdin_is_terminal => Ok(true),
        InteractiveMode::Always => {
            Err("exec plugin cannot support interactive mode: standard input is not a terminal".to_owned())
        }
    }
}

/// Normalizes a path for messages.
fn clean(command: &str) -> String {
    Path::new(command).components().collect::<PathBuf>().to_string_lossy().into_owned()
}

/// Resolves the command: a path stays as it is, a bare name is searched in `PATH`, but never in relative folders.
fn find(command: &str, path: Option<&OsStr>) -> Option<PathBuf> {
    if command.contains('/') {
        return Some(PathBuf::from(command));
    }
    let is_program =
        |file: &PathBuf| fs::metadata(file).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0);
    std::env::split_paths(path?)
        .filter(|folder| folder.is_absolute())
        .map(|folder| folder.join(command))
        .find(is_program)
}

fn not_found(name: &str, hint: &str) -> String {
    let hint = if hint.is_empty() { String::new() } else { format!("\n\n{}", without_control(hint)) };
    format!(
        "exec: executable {name} not found\n\nIt looks like you are trying to use a client-go credential plugin that is not installed.\n\n\
         To learn more about this feature, consult the documentation available at:\n      \
         https://kubernetes.io/docs/reference/access-authn-authz/authentication/#client-go-credential-plugins{hint}"
    )
}

/// Escapes control characters: a hint from a kubeconfig must not manipulate the terminal.
fn without_control(text: &str) -> String {
    let mut shown = String::new();
    for character in text.chars() {
        if character.is_control() && !matches!(character, '\t'..='\r') {
            shown.push_str(&format!("U+{:04X}", u32::from(character)));
        } else {
            shown.push(character);
        }
    }
    shown
}

/// The `ExecCredential` request for the plugin.
fn exec_info(plugin: &ExecPlugin, is_interactive: bool) -> String {
    let cluster = plugin.cluster.as_ref().map(|cluster| format!("\"cluster\":{},", go_json::to_string(cluster)));
    format!(
        "{{\"kind\":\"ExecCredential\",\"apiVersion\":\"{}\",\"spec\":{{{}\"interactive\":{is_interactive}}}}}",
        plugin.api_version,
        cluster.unwrap_or_default()
    )
}

/// Parses the plugin's `ExecCredential` response.
fn read_answer(answer: &[u8], api_version: &str) -> Result<PluginCredential, String> {
    let undecodable = |why: &str| format!("decoding stdout: {why}");
    let text = std::str::from_utf8(answer).map_err(|_| undecodable("it is not UTF-8"))?;
    let value: Value = match serde_json::from_str(text) {
        Ok(value) => value,
        // The error does not quote the output, which may contain a part of a token.
        Err(_) => rdd_yaml::read(text).map_err(|_| undecodable("it is neither JSON nor YAML"))?.value,
    };
    if value["kind"] != "ExecCredential" {
        return Err(undecodable("it is not an ExecCredential"));
    }
    let found = value["apiVersion"].as_str().unwrap_or_default();
    if found != api_version {
        return Err(format!(
            "exec plugin is configured to use API version {api_version}, plugin returned version {}",
            quote(found).trim_matches('"')
        ));
    }
    let status = value["status"].as_object().ok_or("exec plugin didn't return a status field")?;
    let field = |name: &str| match status.get(name) {
        None | Some(Value::Null) => Ok(""),
        Some(Value::String(text)) => Ok(text.as_str()),
        Some(_) => Err(undecodable(&format!("status.{name} must be a string"))),
    };
    let (token, certificate, key) = (field("token")?, field("clientCertificateData")?, field("clientKeyData")?);
    if token.is_empty() && certificate.is_empty() && key.is_empty() {
        return Err("exec plugin didn't return a token or cert/key pair".to_owned());
    }
    if certificate.is_empty() != key.is_empty() {
        return Err("exec plugin returned only certificate or key, not both".to_owned());
    }
    let expires = match field("expirationTimestamp")? {
        "" => None,
        time => {
            Some(Timestamp::parse_time(time).map_err(|_| undecodable("status.expirationTimestamp must be a time"))?)
        }
    };
    Ok(PluginCredential {
        token: (!token.is_empty()).then(|| token.to_owned()),
        identity: (!key.is_empty()).then(|| (certificate.as_bytes().to_vec(), key.as_bytes().to_vec())),
        expires,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const V1: &str = "client.authentication.k8s.io/v1";

    fn mk_plugin(command: &str, args: &[&str]) -> ExecPlugin {
        ExecPlugin {
            command: command.to_owned(),
            args: args.iter().map(|arg| (*arg).to_owned()).collect(),
            env: vec![("GIVEN".to_owned(), "value".to_owned())],
            api_version: V1.to_owned(),
            install_hint: "ask \u{1b}[1mAnn\u{1b}[0m".to_owned(),
            interactive_mode: InteractiveMode::Never,
            cluster: None,
        }
    }

    fn path() -> Option<&'static OsStr> {
        Some(OsStr::new("/usr/bin:/bin"))
    }

    // Finding E-9
    #[test]
    fn a_plugin_is_run_by_its_arguments_and_told_what_is_wanted() {
        let script = r#"printf '{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1","status":{"token":"%s|%s|%s"}}' "$1" "$GIVEN" "$(printf %s "$KUBERNETES_EXEC_INFO" | tr '"' "'")""#;
        let mut plugin = mk_plugin("sh", &["-c", script, "sh", "a b; exit 1"]);
        plugin.cluster = Some(json!({"server": "https://x", "config": null}));
        let credential = get_credential(&plugin, path(), true).unwrap();
        assert_eq!(
            credential.token.as_deref(),
            Some(
                "a b; exit 1|value|{'kind':'ExecCredential','apiVersion':'client.authentication.k8s.io/v1','spec':{'cluster':{'config':null,'server':'https://x'},'interactive':false}}"
            )
        );
    }

    #[test]
    fn what_goes_wrong_is_told_in_the_words_of_client_go() {
        let error = |plugin: &ExecPlugin| get_credential(plugin, path(), false).unwrap_err();
        assert_eq!(error(&mk_plugin("sh", &["-c", "exit 3"])), "exec: executable sh failed with exit code 3");
        let missing = error(&mk_plugin("no-such-plugin", &[]));
        assert!(missing.starts_with("exec: executable no-such-plugin not found\n\nIt looks like"), "{missing}");
        assert!(missing.ends_with("\n\nask U+001B[1mAnnU+001B[0m"), "{missing}");
        assert!(error(&mk_plugin("/nonexistent/./x", &[])).starts_with("exec: executable /nonexistent/x not found"));
        let mut always = mk_plugin("sh", &[]);
        always.interactive_mode = InteractiveMode::Always;
        assert_eq!(error(&always), "exec plugin cannot support interactive mode: standard input is not a terminal");
        let relative = "../".repeat(30) + "bin";
        assert!(Path::new(&relative).join("sh").exists());
        assert!(find("sh", Some(OsStr::new(&relative))).is_none(), "the working folder is not trusted");
    }

    #[test]
    fn answers_are_read_and_what_is_wrong_with_them_is_told_without_quoting_them() {
        let answer = |status: &str| {
            read_answer(format!("{{\"kind\":\"ExecCredential\",\"apiVersion\":\"{V1}\"{status}}}").as_bytes(), V1)
        };
        let both = answer(
            ",\"status\":{\"token\":\"t\",\"clientCertificateData\":\"C\",\"clientKeyData\":\"K\",\"expirationTimestamp\":\"2030-01-02T03:04:05Z\"}",
        );
        let both = both.unwrap();
        assert_eq!((both.token.as_deref(), both.identity), (Some("t"), Some((b"C".to_vec(), b"K".to_vec()))));
        assert_eq!(both.expires.unwrap().format_time(), "2030-01-02T03:04:05Z");
        for (status, why) in [
            ("", "exec plugin didn't return a status field"),
            (",\"status\":{}", "exec plugin didn't return a token or cert/key pair"),
            (",\"status\":{\"clientKeyData\":\"k\"}", "exec plugin returned only certificate or key, not both"),
            (",\"status\":{\"token\":1}", "decoding stdout: status.token must be a string"),
        ] {
            assert_eq!(answer(status).unwrap_err(), why);
        }
        assert_eq!(
            read_answer(b"kind: ExecCredential\napiVersion: client.authentication.k8s.io/v1beta1\n", V1).unwrap_err(),
            format!("exec plugin is configured to use API version {V1}, plugin returned version {V1}beta1")
        );
        let error = read_answer(b"{\"status\":{\"token\":\"hunter2", V1).unwrap_err();
        assert!(error.starts_with("decoding stdout: ") && !error.contains("hunter2"), "{error}");
    }
}
