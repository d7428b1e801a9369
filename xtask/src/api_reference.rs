//! Generates the reference of built-in resources from the server's registry.

use std::{fs, path::Path, sync::Arc};

use anyhow::{Context, Result};
use rdd_apiserver::{
    auth::serviceaccount::{ServiceAccounts, SigningKey},
    builtin::{self, TokenReviewer},
    registry::{ALL_VERBS, Registry, ResourceDef, SubresourceDef},
};
use rdd_stdx::clock::SystemClock;

/// The path of the reference.
const PATH: &str = "docs/reference/api.md";

const HEAD: &str = "\
# Built-in resources

Generated from the server's registry by `cargo xtask api-reference`; do not edit.

What a CustomResourceDefinition adds is served beside these, with every verb. *All* verbs are create, delete, deletecollection, get, list,
patch, update and watch; apply is a form of patch. A column in *italics* is shown by `kubectl get -o wide` only. How all of this behaves is in
[the concepts](../concepts/api-server.md).

";

const COLUMNS: &str = "\
| Resource | Kind | Short | Scope | Verbs | Subresources | Columns |
|---|---|---|---|---|---|---|
";

/// Writes the reference.
pub(crate) fn write(root: &Path) -> Result<()> {
    let path = root.join(PATH);
    let folder = path.parent().expect("the path has a folder");
    fs::create_dir_all(folder).with_context(|| format!("create folder {}", folder.display()))?;
    fs::write(&path, render(&registry()?)).with_context(|| format!("write {}", path.display()))
}

/// The problems of `cargo xtask tidy`: the reference is missing or out of date.
pub(crate) fn check(root: &Path) -> Result<Vec<String>> {
    Ok(compare(&registry()?, fs::read_to_string(root.join(PATH)).ok().as_deref()))
}

/// The registry of a daemon without CRDs. It serves no request, and its key signs nothing.
fn registry() -> Result<Registry> {
    let folder = tempfile::tempdir().context("make a folder for a key")?;
    let key = SigningKey::ensure(folder.path()).context("make a key")?;
    let clock = SystemClock::shared();
    Ok(Registry::new(builtin::resources(builtin::Parts {
        clock: clock.clone(),
        definitions: Box::new(|generic| generic),
        tokens: Some(Arc::new(ServiceAccounts::new(key, clock))),
        reviewer: TokenReviewer::new(|_, _| None),
    })))
}

fn compare(registry: &Registry, present: Option<&str>) -> Vec<String> {
    if present == Some(render(registry).as_str()) {
        return Vec::new();
    }
    vec![format!("{PATH} is not what the registry says: run `cargo xtask api-reference`")]
}

fn render(registry: &Registry) -> String {
    let mut text = String::from(HEAD);
    let mut group = None;
    for def in registry.served().all() {
        if group.as_deref() != Some(def.group.as_str()) {
            let space = if group.is_some() { "\n" } else { "" };
            text.push_str(&format!("{space}## {}\n\n{COLUMNS}", heading(def)));
            group = Some(def.group.clone());
        }
        text.push_str(&row(def));
    }
    text
}

/// The heading of a group: its versions, in the form of `apiVersion`.
fn heading(def: &ResourceDef) -> String {
    let versions: Vec<String> = def.versions.iter().map(|version| def.api_version(&version.name)).collect();
    let core = if def.group.is_empty() { " (the core API)" } else { "" };
    format!("{}{core}", versions.join(", "))
}

fn row(def: &ResourceDef) -> String {
    let version = def.versions.first();
    let subresources = version.into_iter().flat_map(|version| &version.subresources).map(part);
    let columns = version.into_iter().flat_map(|version| version.kind.columns());
    let columns = columns.map(|column| match column.priority {
        0 => column.name.clone(),
        _ => format!("*{}*", column.name),
    });
    let cells = [
        format!("`{}`", def.plural),
        def.kind.clone(),
        join(def.short_names.iter().map(|name| format!("`{name}`"))),
        if def.namespaced { "namespace" } else { "cluster" }.to_owned(),
        if def.verbs == ALL_VERBS { "*all*".to_owned() } else { def.verbs.join(", ") },
        join(subresources),
        // Resources that cannot be listed (reviews) have no table columns.
        if def.verbs.contains(&"list") { join(columns) } else { String::new() },
    ];
    format!("| {} |\n", cells.map(|cell| cell.replace('|', "\\|")).join(" | "))
}

/// A subresource with its verbs.
fn part(subresource: &SubresourceDef) -> String {
    format!("`{}` ({})", subresource.name, subresource.verbs.join(", "))
}

fn join(words: impl Iterator<Item = String>) -> String {
    words.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_resource_has_its_row_under_its_group() {
        let text = render(&registry().unwrap());
        let core = text.split("\n## ").nth(1).unwrap();
        assert!(core.starts_with("v1 (the core API)\n"), "{core}");
        assert!(
            core.contains("| `configmaps` | ConfigMap | `cm` | namespace | *all* |  | Name, Data, Age |\n"),
            "{core}"
        );
        assert!(core.contains("`token` (create)"), "{core}");
        assert!(text.contains("\n## coordination.k8s.io/v1\n"), "{text}");
        assert_eq!(text.matches("\n| `").count(), registry().unwrap().served().all().count());
    }

    #[test]
    fn drift_is_found_and_a_current_file_is_fine() {
        let registry = registry().unwrap();
        assert!(compare(&registry, Some(&render(&registry))).is_empty());
        assert_eq!(compare(&registry, Some("# old\n")).len(), 1);
        assert_eq!(compare(&registry, None).len(), 1);
    }
}
