//! Computes the hash of a document from its inputs, so that caches can use it before the document is generated.

use ring::digest::{Context, SHA512};

use super::render::Flavor;
use crate::{
    discovery::upper_hex,
    registry::{ResourceDef, Served},
};

/// The version of the generator. It must change with the output, because clients cache documents for a year.
const FORM: &str = "1";

/// The hash of a group-version's document. `release` identifies the program, and with it the built-in definitions.
pub(super) fn of_version(served: &Served, release: &str, group: &str, version: &str) -> String {
    let mut context = begin(release, Flavor::V3);
    served.in_group(group).for_each(|def| add(&mut context, def, Some(version)));
    upper_hex(context.finish().as_ref())
}

/// The hash of the version 2 document.
pub(super) fn of_all(served: &Served, release: &str) -> String {
    let mut context = begin(release, Flavor::V2);
    served.all().for_each(|def| add(&mut context, def, None));
    upper_hex(context.finish().as_ref())
}

fn begin(release: &str, flavor: Flavor) -> Context {
    let mut context = Context::new(&SHA512);
    context.update(format!("{FORM}\n{release}\n{flavor:?}\n").as_bytes());
    context
}

/// Adds everything of a resource that documents contain. The schema of a custom resource is represented by its revision.
fn add(context: &mut Context, def: &ResourceDef, only: Option<&str>) {
    let ResourceDef { group, plural, kind, list_kind, namespaced, verbs, .. } = def;
    for version in def.versions.iter().filter(|version| only.is_none_or(|only| version.name == only)) {
        let parts: Vec<_> = version.subresources.iter().map(|part| (part.name, part.verbs)).collect();
        let custom = def.custom.as_ref().map(|custom| (&custom.uid, custom.revision.0));
        let returns = def.manners.returns_deleted;
        let text = format!(
            "{:?}\n",
            (group, &version.name, plural, kind, list_kind, namespaced, verbs, parts, custom, returns)
        );
        context.update(text.as_bytes());
    }
}
