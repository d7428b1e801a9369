//! `rdd service paths`: prints the paths of the instance's files.

use std::collections::BTreeMap;

use crate::{
    args::Paths,
    go,
    report::{Failure, Outcome},
    service::ControlPlane,
};

/// Prints the paths of the instance's files without accessing them.
pub fn run(plane: &ControlPlane<'_>, args: &Paths) -> Outcome {
    let all: BTreeMap<&str, String> =
        plane.paths().published().into_iter().map(|(key, path)| (key, path.to_string_lossy().into_owned())).collect();
    let text = render(&all, args.key.as_deref(), &args.output)?;
    Ok(plane.context.printer.text(&text)?)
}

fn render(all: &BTreeMap<&str, String>, key: Option<&str>, format: &str) -> Outcome<String> {
    let chosen: BTreeMap<&str, &str> = all
        .iter()
        .filter(|(name, _)| key.is_none_or(|key| key == **name))
        .map(|(name, path)| (*name, path.as_str()))
        .collect();
    if chosen.is_empty() {
        // Only a wrong key leaves nothing.
        let keys: Vec<&str> = all.keys().copied().collect();
        let key = go::quote(key.unwrap_or_default());
        return Err(Failure::message(format!("unknown key {key}; valid keys: {}", keys.join(", "))));
    }
    // Two spaces between the columns.
    let width = chosen.keys().map(|key| key.len()).max().unwrap_or(0) + 2;
    Ok(match format {
        "table" if key.is_some() => chosen.values().map(|path| format!("{path}\n")).collect(),
        "table" => chosen.iter().map(|(key, path)| format!("{key:width$}{path}\n")).collect(),
        "json" => serde_json::to_string(&chosen)? + "\n",
        "yaml" => serde_saphyr::to_string(&chosen)?,
        "shell" => chosen
            .iter()
            .map(|(key, path)| format!("export RDD_{}={}\n", key.to_uppercase(), shell_quote(path)))
            .collect(),
        _ => {
            let format = go::quote(format);
            let message = format!("unknown output format {format}; valid formats: table, json, or shell; also yaml");
            return Err(Failure::message(message));
        }
    })
}

/// Quotes a path as Go does, like the original, and escapes what a shell would still expand inside double quotes.
fn shell_quote(path: &str) -> String {
    go::quote(path).replace('$', "\\$").replace('`', "\\`")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::User;

    fn paths() -> BTreeMap<&'static str, String> {
        BTreeMap::from([("config", "/h/c d.yaml".to_owned()), ("dir", "/h/\"x\"".to_owned())])
    }

    #[test]
    fn every_format_with_and_without_a_key() {
        for (format, key, expected) in [
            ("table", None, "config  /h/c d.yaml\ndir     /h/\"x\"\n"),
            ("table", Some("config"), "/h/c d.yaml\n"),
            ("json", None, "{\"config\":\"/h/c d.yaml\",\"dir\":\"/h/\\\"x\\\"\"}\n"),
            ("json", Some("config"), "{\"config\":\"/h/c d.yaml\"}\n"),
            ("shell", None, "export RDD_CONFIG=\"/h/c d.yaml\"\nexport RDD_DIR=\"/h/\\\"x\\\"\"\n"),
            ("shell", Some("config"), "export RDD_CONFIG=\"/h/c d.yaml\"\n"),
            ("yaml", Some("config"), "config: /h/c d.yaml\n"),
        ] {
            assert_eq!(render(&paths(), key, format).unwrap(), expected, "{format} {key:?}");
        }
    }

    #[test]
    fn a_shell_that_reads_the_lines_gets_the_path_and_runs_nothing() {
        for path in ["/h/$HOME", "/h/`id`", "/h/$(id)", "/h/a \"b\" c"] {
            let mut shell = rdd_stdx::process::foreground("sh");
            let script = format!("export X={}; printf %s \"$X\"", shell_quote(path));
            let output = shell.args(["-c", &script]).output().unwrap();
            assert_eq!(String::from_utf8(output.stdout).unwrap(), path);
        }
    }

    #[test]
    fn what_does_not_exist_is_refused_with_what_does() {
        let refusal = |key, format| render(&paths(), key, format).unwrap_err().text();
        assert_eq!(refusal(Some("x"), "table"), "unknown key \"x\"; valid keys: config, dir");
        assert_eq!(
            refusal(None, "xml"),
            "unknown output format \"xml\"; valid formats: table, json, or shell; also yaml"
        );
    }

    #[test]
    fn the_ten_keys_are_there_and_nothing_is_made() {
        let user = User::new();
        let ran = user.run("--instance=9 service paths --output=json");
        let found: BTreeMap<String, String> = serde_json::from_str(&ran.stdout).unwrap();
        let keys: Vec<&str> = found.keys().map(String::as_str).collect();
        assert_eq!(
            keys.join(", "),
            "args_file, config, dir, docker_socket, k3s_config, lima_home, log_dir, pid_file, short_dir, tls_dir"
        );
        assert!(found["dir"].ends_with("/rancher-desktop-9"));
        assert_eq!((ran.code, std::fs::read_dir(user.home.path()).unwrap().count()), (0, 0));
    }
}
