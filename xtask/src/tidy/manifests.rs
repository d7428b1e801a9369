//! Checks that every manifest inherits the workspace's settings, so that each is stated once.

use serde_json::Value;

use super::File;

const INHERITED: &[&str] = &["version", "edition", "rust-version", "license", "publish"];

/// The problems of all manifests of the workspace's crates.
pub(super) fn check(files: &[File]) -> Vec<String> {
    let ours =
        |path: &str| path == "xtask/Cargo.toml" || (path.starts_with("crates/") && path.ends_with("/Cargo.toml"));
    files.iter().filter(|file| ours(&file.path)).flat_map(|file| check_one(&file.path, &file.text)).collect()
}

fn check_one(path: &str, text: &str) -> Vec<String> {
    let manifest: Value = match basic_toml::from_str(text) {
        Ok(manifest) => manifest,
        Err(error) => return vec![format!("{path}: {error}")],
    };
    let mut problems = Vec::new();
    for key in INHERITED {
        if manifest["package"][key]["workspace"] != Value::Bool(true) {
            problems.push(format!("{path}: {key} is not inherited: write `{key}.workspace = true`"));
        }
    }
    if manifest["lints"]["workspace"] != Value::Bool(true) {
        problems.push(format!("{path}: lints are not inherited: write `[lints]` with `workspace = true`"));
    }
    if !manifest["package"]["description"].is_string() {
        problems.push(format!("{path}: says not what the crate is for: write a description"));
    }
    for table in ["dependencies", "dev-dependencies", "build-dependencies"] {
        for (name, dependency) in manifest[table].as_object().into_iter().flatten() {
            // A crate depends on itself to enable one of its features in its own tests.
            let is_itself = dependency["path"] == ".";
            if dependency["workspace"] != Value::Bool(true) && !is_itself {
                problems.push(format!("{path}: {name} states its own version: put it into [workspace.dependencies]"));
            }
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "\
[package]
name = \"rdd-x\"
description = \"x\"
version.workspace = true
edition.workspace = true
rust-version.workspace = true
license.workspace = true
publish.workspace = true
[lints]
workspace = true
[dependencies]
serde.workspace = true
tokio = { workspace = true, features = [\"rt\"] }
[dev-dependencies]
rdd-x = { path = \".\", features = [\"suite\"] }
";

    #[test]
    fn a_manifest_that_inherits_passes() {
        assert_eq!(check_one("Cargo.toml", GOOD), [""; 0]);
    }

    #[test]
    fn each_thing_stated_twice_is_found() {
        let table = [
            ("edition.workspace = true", "edition = \"2021\"", "edition is not inherited"),
            ("license.workspace = true", "", "license is not inherited"),
            ("version.workspace = true\n", "version = \"1.0.0\"\n", "version is not inherited"),
            ("[lints]\nworkspace = true", "", "lints are not inherited"),
            ("serde.workspace = true", "serde = \"1\"", "serde states its own version"),
            ("description = \"x\"", "", "write a description"),
            ("[package]", "[package", "Cargo.toml: "),
        ];
        for (good, bad, expected) in table {
            let problems = check_one("Cargo.toml", &GOOD.replacen(good, bad, 1));
            assert!(problems.iter().any(|problem| problem.contains(expected)), "{expected:?} not in {problems:?}");
        }
    }

    #[test]
    fn only_our_manifests_are_checked() {
        let file = |path: &str| File { path: path.to_owned(), text: "[workspace]\n".to_owned() };
        assert!(check(&[file("Cargo.toml"), file("fuzz/Cargo.toml")]).is_empty());
        assert!(!check(&[file("crates/rdd-x/Cargo.toml")]).is_empty());
    }
}
