//! `api-resources` and `api-versions`: list the server's resources and versions.

use std::{cmp::Ordering, rc::Rc};

use serde_json::{Value, json};

use crate::{
    context::Ctl,
    discovery::Mapping,
    error::{Error, Result},
    flags::{Flag, Kind},
    print::{json as json_text, tabs::Tabs},
};

/// The flags of `api-resources`.
pub(crate) const FLAGS: &[Flag] = &[
    Flag::value("api-group"),
    Flag::of("namespaced", Kind::Bool, "true"),
    Flag::of("verbs", Kind::List, ""),
    Flag::value("output").short('o'),
    Flag::value("sort-by"),
    Flag::switch("cached"),
    Flag::of("categories", Kind::List, ""),
    Flag::switch("no-headers"),
    Flag::switch("show-managed-fields"),
];

/// Runs `api-resources`.
pub(crate) fn resources(ctl: &Ctl<'_>) -> Result<()> {
    let flags = &ctl.flags;
    no_arguments(ctl)?;
    let output = flags.text("output");
    if !matches!(output, "" | "wide" | "name" | "json" | "yaml") {
        return Err(Error::text(format!(
            "unable to match a printer suitable for the output format {}, allowed formats are: json,kyaml,name,wide,yaml",
            rdd_meta::go_text::quote(output)
        )));
    }
    let sort = flags.text("sort-by");
    if !matches!(sort, "" | "name" | "kind") {
        return Err(Error::text("--sort-by accepts only name or kind"));
    }
    let mut found = preferred(ctl)?;
    found.retain(|mapping| is_wanted(ctl, mapping));
    found.sort_by(|left, right| order(sort, left, right));
    let text = match output {
        "name" => found.iter().map(|mapping| format!("{}\n", full_name(mapping))).collect(),
        "json" => json_text::to_string_as_struct(&document(&found), json_text::RESOURCES),
        "yaml" => rdd_yaml::write(&document(&found)),
        _ => table(&found, output == "wide", flags.is_on("no-headers")),
    };
    ctl.print(&text)
}

fn no_arguments(ctl: &Ctl<'_>) -> Result<()> {
    match ctl.flags.args.as_slice() {
        [] => Ok(()),
        args => Err(ctl.usage(&format!("unexpected arguments: [{}]", args.join(" ")))),
    }
}

/// Each resource once, in the server's preferred version.
fn preferred(ctl: &Ctl<'_>) -> Result<Vec<Rc<Mapping>>> {
    let mut found: Vec<Rc<Mapping>> = Vec::new();
    for mapping in ctl.discovery.all(&ctl.api)? {
        let is_known = found.iter().any(|known| known.group == mapping.group && known.resource == mapping.resource);
        if !is_known {
            found.push(mapping);
        }
    }
    Ok(found)
}

fn is_wanted(ctl: &Ctl<'_>, mapping: &Mapping) -> bool {
    let flags = &ctl.flags;
    let has_all = |wanted: &[String], known: &[String]| wanted.iter().all(|name| known.contains(name));
    !mapping.verbs.is_empty()
        && (!flags.is_given("api-group") || flags.text("api-group") == mapping.group)
        && (!flags.is_given("namespaced") || flags.is_on("namespaced") == mapping.namespaced)
        && has_all(flags.list("verbs"), &mapping.verbs)
        && has_all(flags.list("categories"), &mapping.categories)
}

fn order(sort: &str, left: &Mapping, right: &Mapping) -> Ordering {
    let first = match sort {
        "name" => left.resource.cmp(&right.resource),
        "kind" => left.kind.cmp(&right.kind),
        _ => left.group.cmp(&right.group),
    };
    first.then_with(|| left.resource.cmp(&right.resource))
}

fn full_name(mapping: &Mapping) -> String {
    match mapping.group.as_str() {
        "" => mapping.resource.clone(),
        group => format!("{}.{group}", mapping.resource),
    }
}

fn table(found: &[Rc<Mapping>], wide: bool, no_headers: bool) -> String {
    let mut tabs = Tabs::for_tables();
    if !no_headers {
        let more = if wide { "\tVERBS\tCATEGORIES" } else { "" };
        tabs.push(&format!("NAME\tSHORTNAMES\tAPIVERSION\tNAMESPACED\tKIND{more}\n"));
    }
    for mapping in found {
        let Mapping { resource, namespaced, kind, .. } = mapping.as_ref();
        let (short, version) = (mapping.short_names.join(","), mapping.group_version());
        tabs.push(&format!("{resource}\t{short}\t{version}\t{namespaced}\t{kind}"));
        if wide {
            tabs.push(&format!("\t{}\t{}", mapping.verbs.join(","), mapping.categories.join(",")));
        }
        tabs.push("\n");
    }
    tabs.flush()
}

fn document(found: &[Rc<Mapping>]) -> Value {
    let resource = |mapping: &Rc<Mapping>| {
        let mut resource = json!({
            "name": mapping.resource,
            "singularName": mapping.singular,
            "namespaced": mapping.namespaced,
            "version": mapping.version,
            "kind": mapping.kind,
            "verbs": mapping.verbs,
        });
        if !mapping.group.is_empty() {
            resource["group"] = mapping.group.as_str().into();
        }
        for (field, names) in [("shortNames", &mapping.short_names), ("categories", &mapping.categories)] {
            if !names.is_empty() {
                resource[field] = json!(names);
            }
        }
        resource
    };
    let resources: Vec<Value> = found.iter().map(resource).collect();
    json!({ "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "", "resources": resources })
}

/// Runs `api-versions`.
pub(crate) fn versions(ctl: &Ctl<'_>) -> Result<()> {
    no_arguments(ctl)?;
    let mut versions: Vec<String> =
        ctl.discovery.all(&ctl.api)?.iter().map(|mapping| mapping.group_version()).collect();
    versions.sort();
    versions.dedup();
    ctl.print(&versions.iter().map(|version| format!("{version}\n")).collect::<String>())
}
