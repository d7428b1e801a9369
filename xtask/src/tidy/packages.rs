//! Checks the policy of deny.toml for third-party packages: licences, duplicates and sources.
//!
//! The file has cargo-deny's format, so cargo-deny can be used too; building it takes longer than the whole test run.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, bail};
use cargo_metadata::Metadata;
use serde_json::Value;

/// A third-party package.
#[derive(Debug, Clone)]
pub(super) struct Package {
    name: String,
    version: String,
    licence: Option<String>,
    is_crates_io: bool,
}

/// All packages of the lock file that are not in the workspace.
pub(super) fn from_metadata(metadata: &Metadata) -> Vec<Package> {
    let foreign = metadata.packages.iter().filter(|package| !metadata.workspace_members.contains(&package.id));
    let packages = foreign.map(|package| Package {
        name: package.name.to_string(),
        version: package.version.to_string(),
        licence: package.license.clone(),
        is_crates_io: package.source.as_ref().is_some_and(cargo_metadata::Source::is_crates_io),
    });
    packages.collect()
}

/// The policy of deny.toml.
#[derive(Debug, Default)]
pub(super) struct Policy {
    allowed_licences: BTreeSet<String>,
    /// The allowed duplicates as `name@version` or `name`, each with a reason.
    allowed_duplicates: BTreeMap<String, String>,
}

impl Policy {
    pub(super) fn parse(text: &str) -> Result<Self> {
        let table: Value = basic_toml::from_str(text).context("read deny.toml")?;
        let licences = table["licenses"]["allow"].as_array().context("deny.toml: licenses.allow is not a list")?;
        let allowed_licences = licences.iter().filter_map(|name| Some(name.as_str()?.to_owned())).collect();
        let mut allowed_duplicates = BTreeMap::new();
        for entry in table["bans"]["skip"].as_array().into_iter().flatten() {
            let (Some(name), Some(reason)) = (entry["crate"].as_str(), entry["reason"].as_str()) else {
                bail!("deny.toml: bans.skip: {entry} lacks a crate or a reason");
            };
            allowed_duplicates.insert(name.to_owned(), reason.to_owned());
        }
        Ok(Self { allowed_licences, allowed_duplicates })
    }
}

/// The problems: packages that the policy does not allow, and exceptions that are no longer needed.
pub(super) fn check(packages: &[Package], policy: &Policy) -> Vec<String> {
    let mut problems = Vec::new();
    for Package { name, version, licence, is_crates_io } in packages {
        match licence {
            None => problems.push(format!("{name} {version} states no licence")),
            Some(licence) if !is_allowed(licence, &policy.allowed_licences) => {
                problems.push(format!("{name} {version} is licensed {licence}, which deny.toml does not allow"));
            }
            Some(_) => {}
        }
        if !is_crates_io {
            problems.push(format!("{name} {version} does not come from crates.io"));
        }
    }
    problems.extend(check_duplicates(packages, policy));
    problems
}

fn check_duplicates(packages: &[Package], policy: &Policy) -> Vec<String> {
    let mut versions: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for package in packages {
        versions.entry(&package.name).or_default().insert(&package.version);
    }
    let mut problems = Vec::new();
    let mut used = BTreeSet::new();
    for (name, versions) in versions.iter().filter(|(_, versions)| versions.len() > 1) {
        let permission = |version: &str| policy.allowed_duplicates.keys().find(|key| matches(key, name, version));
        let (allowed, rest): (Vec<&str>, Vec<&str>) =
            versions.iter().copied().partition(|version| permission(version).is_some());
        used.extend(allowed.into_iter().filter_map(permission));
        // Like cargo-deny: skipped versions do not count, and only one other version is allowed.
        if rest.len() > 1 {
            problems.push(format!(
                "{name} is there {} times ({}): bring it to one, or give deny.toml a reason",
                rest.len(),
                rest.join(", ")
            ));
        }
    }
    for key in policy.allowed_duplicates.keys().filter(|key| !used.contains(key)) {
        problems.push(format!("deny.toml skips {key}, which is no duplicate any more: remove the entry"));
    }
    problems
}

/// Whether `key` (`name` or `name@version-prefix`) matches this package.
fn matches(key: &str, name: &str, version: &str) -> bool {
    match key.split_once('@') {
        None => key == name,
        Some((key_name, prefix)) => {
            let rest = version.strip_prefix(prefix.trim_start_matches('='));
            key_name == name && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        }
    }
}

/// Whether allowed licences satisfy an SPDX expression. `AND` binds tighter than `OR`; the deprecated `/` means `OR`.
fn is_allowed(expression: &str, allowed: &BTreeSet<String>) -> bool {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut at = 0;
    let result = any_of(&words, &mut at, allowed);
    result && at == words.len()
}

fn any_of(words: &[&str], at: &mut usize, allowed: &BTreeSet<String>) -> bool {
    let mut result = all_of(words, at, allowed);
    while words.get(*at) == Some(&"OR") {
        *at += 1;
        result |= all_of(words, at, allowed);
    }
    result
}

fn all_of(words: &[&str], at: &mut usize, allowed: &BTreeSet<String>) -> bool {
    let mut result = one(words, at, allowed);
    while words.get(*at) == Some(&"AND") {
        *at += 1;
        result &= one(words, at, allowed);
    }
    result
}

fn one(words: &[&str], at: &mut usize, allowed: &BTreeSet<String>) -> bool {
    let Some(word) = words.get(*at) else { return false };
    *at += 1;
    if *word == "(" {
        let result = any_of(words, at, allowed);
        let closes = words.get(*at) == Some(&")");
        *at += 1;
        return result && closes;
    }
    if words.get(*at) == Some(&"WITH") {
        let name = format!("{word} WITH {}", words.get(*at + 1).unwrap_or(&""));
        *at += 2;
        // An exception only adds permissions, so it is enough if the plain licence is allowed.
        return allowed.contains(&name) || allowed.contains(*word);
    }
    allowed.contains(*word)
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: &str =
        "[licenses]\nallow = [\"MIT\", \"ISC\"]\n[bans]\nskip = [{ crate = \"syn@2\", reason = \"r\" }]\n";

    fn package(name: &str, version: &str) -> Package {
        Package {
            name: name.to_owned(),
            version: version.to_owned(),
            licence: Some("MIT".to_owned()),
            is_crates_io: true,
        }
    }

    #[track_caller]
    fn finds(packages: &[Package], expected: &[&str]) {
        let problems = check(packages, &Policy::parse(POLICY).unwrap());
        assert_eq!(problems.len(), expected.len(), "{problems:?}");
        for (problem, expected) in problems.iter().zip(expected) {
            assert!(problem.contains(expected), "{expected:?} not in {problem:?}");
        }
    }

    #[test]
    fn licences_are_read_as_expressions() {
        let allowed = Policy::parse(POLICY).unwrap().allowed_licences;
        let table = [
            ("MIT", true),
            ("GPL-3.0", false),
            ("MIT OR GPL-3.0", true),
            ("GPL-3.0/MIT", true),
            ("MIT AND GPL-3.0", false),
            ("MIT AND ISC", true),
            ("(GPL-3.0 OR MIT) AND ISC", true),
            ("GPL-3.0 OR MIT AND BSD-3-Clause", false),
            ("MIT WITH LLVM-exception", true),
            ("(MIT", false),
            ("MIT ISC", false),
            ("", false),
        ];
        for (expression, expected) in table {
            assert_eq!(is_allowed(expression, &allowed), expected, "{expression}");
        }
    }

    #[test]
    fn a_duplicate_needs_a_reason_and_a_reason_needs_a_duplicate() {
        finds(&[package("syn", "2.0.1"), package("syn", "3.0.0")], &[]);
        finds(&[package("syn", "2.0.1"), package("syn", "3.0.0"), package("syn", "3.1.0")], &["syn is there 2 times"]);
        finds(
            &[package("syn", "20.0.1"), package("syn", "3.0.0")],
            &["syn is there 2 times", "skips syn@2, which is no"],
        );
        finds(&[package("syn", "2.0.1")], &["skips syn@2, which is no duplicate"]);
    }

    #[test]
    fn a_foreign_licence_a_missing_one_and_a_foreign_source_are_found() {
        let pair = [package("syn", "2.0.1"), package("syn", "3.0.0")];
        let with = |odd: Package| [pair.to_vec(), vec![odd]].concat();
        finds(
            &with(Package { licence: Some("GPL-3.0".to_owned()), ..package("a", "1") }),
            &["a 1 is licensed GPL-3.0"],
        );
        finds(&with(Package { licence: None, ..package("a", "1") }), &["a 1 states no licence"]);
        finds(&with(Package { is_crates_io: false, ..package("a", "1") }), &["a 1 does not come from crates.io"]);
    }

    #[test]
    fn a_permission_without_a_reason_is_refused() {
        assert!(Policy::parse("[licenses]\nallow = []\n[bans]\nskip = [{ crate = \"a\" }]\n").is_err());
    }
}
