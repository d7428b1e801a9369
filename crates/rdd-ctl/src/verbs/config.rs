//! `config`: shows kubeconfigs and changes contexts, clusters and users.

use std::path::Path;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use rdd_kubeconfig::{
    Change, List, Others,
    client_config::{CLUSTER_FIELDS, CONTEXT_FIELDS, ConfigEntry, ConfigFiles, EXEC_FIELDS, MergedConfig, USER_FIELDS},
};
use rdd_meta::go_text::quote;
use serde_json::{Map, Value, json};

use crate::{
    context::Ctl,
    error::{Error, Result},
    flags::{Flag, Kind},
    print::{Format, Printer, go_io, json as json_text, tabs::Tabs},
};

/// The flags of `config view`.
pub(crate) const VIEW_FLAGS: &[Flag] =
    &[Flag::of("merge", Kind::Bool, "true"), Flag::switch("raw"), Flag::switch("flatten"), Flag::switch("minify")];
/// The flags of `config get-contexts`.
pub(crate) const GET_CONTEXTS_FLAGS: &[Flag] = &[Flag::switch("no-headers"), Flag::value("output").short('o')];
/// The flags of `config set-context`; `--cluster`, `--user` and `--namespace` are global.
pub(crate) const SET_CONTEXT_FLAGS: &[Flag] = &[Flag::switch("current")];

/// Replaces a secret in the output.
const REDACTED: &str = "REDACTED";
/// Replaces binary data in the output.
const OMITTED: &str = "DATA+OMITTED";

/// Runs `config view`.
pub(crate) fn view(ctl: &Ctl<'_>) -> Result<()> {
    let flags = &ctl.flags;
    if !flags.args.is_empty() {
        return Err(ctl.usage(&format!("unexpected arguments: [{}]", flags.args.join(" "))));
    }
    let format = Format::of(flags, false)?;
    if !flags.is_on("merge") && ctl.config.explicit().is_none() {
        return Err(Error::text("if merge==false a precise file must be specified"));
    }
    let mut config = ctl.config.load_or_empty()?;
    if flags.is_on("minify") {
        minify(&mut config, flags.given("context"))?;
    }
    if flags.is_on("flatten") {
        flatten(&mut config)?;
    } else if !flags.is_on("raw") {
        redact(&mut config);
    }
    let document = document(&config);
    let text = match format {
        Format::Human { .. } | Format::Yaml => rdd_yaml::write(&document),
        Format::Json => json_text::to_string_in_order(&document, &field_order),
        format => Printer::new(format, flags, "").print(&document)?,
    };
    ctl.print(&text)
}

/// Reduces the config to the current context and what it refers to.
fn minify(config: &mut MergedConfig, context: Option<&str>) -> Result<()> {
    if let Some(context) = context {
        context.clone_into(&mut config.current_context);
    }
    let current = config.current_context.clone();
    if current.is_empty() {
        return Err(Error::text("current-context must exist in order to minify"));
    }
    let entry = config.contexts.get(&current).ok_or_else(|| Error::text(format!("cannot locate context {current}")))?;
    let (cluster, user) = (entry.text("cluster").map(str::to_owned), entry.text("user").map(str::to_owned));
    if let Some(cluster) = cluster.as_ref().filter(|cluster| !config.clusters.contains_key(*cluster)) {
        return Err(Error::text(format!("cannot locate cluster {cluster}")));
    }
    if let Some(user) = user.as_ref().filter(|user| !config.users.contains_key(*user)) {
        return Err(Error::text(format!("cannot locate user {user}")));
    }
    config.contexts.retain(|name, _| *name == current);
    config.clusters.retain(|name, _| Some(name) == cluster.as_ref());
    config.users.retain(|name, _| Some(name) == user.as_ref());
    Ok(())
}

/// Embeds the content of files that the config refers to.
fn flatten(config: &mut MergedConfig) -> Result<()> {
    for entry in config.users.values_mut() {
        flatten_field(entry, "client-certificate")?;
        flatten_field(entry, "client-key")?;
    }
    config.clusters.values_mut().try_for_each(|entry| flatten_field(entry, "certificate-authority"))
}

fn flatten_field(entry: &mut ConfigEntry, field: &str) -> Result<()> {
    let Some(path) = entry.text(field) else { return Ok(()) };
    let data = format!("{field}-data");
    if entry.text(&data).is_some() {
        return Err(Error::text("cannot have values for both path and contents"));
    }
    let folder = entry.origin.parent().unwrap_or(Path::new(""));
    let path = folder.join(path);
    let bytes = std::fs::read(&path).map_err(|error| Error::text(go_io("open", &path.to_string_lossy(), &error)))?;
    entry.fields.remove(field);
    entry.fields.insert(data, json!(STANDARD.encode(bytes)));
    Ok(())
}

fn redact(config: &mut MergedConfig) {
    let replace = |entry: &mut ConfigEntry, fields: &[&str], text: &str| {
        for field in fields {
            if let Some(value) = entry.fields.get_mut(*field) {
                *value = json!(text);
            }
        }
    };
    for entry in config.users.values_mut() {
        replace(entry, &["token", "password"], REDACTED);
        replace(entry, &["client-key-data", "client-certificate-data"], OMITTED);
    }
    for entry in config.clusters.values_mut() {
        replace(entry, &["certificate-authority-data"], OMITTED);
    }
}

fn document(config: &MergedConfig) -> Value {
    let list = |list: List| {
        let entry = |(name, entry): (&String, &ConfigEntry)| {
            let inner = (list.inner().to_owned(), Value::Object(entry.fields.clone()));
            Value::Object(Map::from_iter([("name".to_owned(), json!(name)), inner]))
        };
        let items: Vec<Value> = config.entries(list).iter().map(entry).collect();
        // Go writes an empty slice that was never allocated as null.
        if items.is_empty() { Value::Null } else { Value::Array(items) }
    };
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": list(List::Clusters),
        "users": list(List::Users),
        "contexts": list(List::Contexts),
        "current-context": config.current_context,
    })
}

/// Go's field order of the struct under a field.
fn field_order(under: &str) -> &'static [&'static str] {
    match under {
        "" => &["kind", "apiVersion", "clusters", "users", "contexts", "current-context"],
        "clusters" => &["name", "cluster"],
        "users" => &["name", "user"],
        "contexts" => &["name", "context"],
        "cluster" => CLUSTER_FIELDS,
        "user" => USER_FIELDS,
        "context" => CONTEXT_FIELDS,
        "exec" => EXEC_FIELDS,
        "auth-provider" | "env" | "extensions" => &["name"],
        _ => &[],
    }
}

/// Runs `config current-context`.
pub(crate) fn current_context(ctl: &Ctl<'_>) -> Result<()> {
    match ctl.config.load_or_empty()?.current_context.as_str() {
        "" => Err(Error::text("current-context is not set")),
        name => ctl.print(&format!("{name}\n")),
    }
}

/// Runs `config get-contexts`.
pub(crate) fn get_contexts(ctl: &Ctl<'_>) -> Result<()> {
    let output = ctl.flags.text("output");
    if !matches!(output, "" | "name") {
        return Err(Error::text(format!(
            "--output {output} is not available in kubectl config get-contexts; resetting to default output format"
        )));
    }
    let config = ctl.config.load_or_empty()?;
    let wanted = &ctl.flags.args;
    let missing = wanted.iter().filter(|name| !config.contexts.contains_key(*name));
    let errors = missing.map(|name| Error::text(format!("context {name} not found"))).collect();
    let shown = config.contexts.iter().filter(|(name, _)| wanted.is_empty() || wanted.contains(name));
    let mut tabs = Tabs::for_tables();
    if output.is_empty() && !ctl.flags.is_on("no-headers") {
        tabs.push("CURRENT\tNAME\tCLUSTER\tAUTHINFO\tNAMESPACE\n");
    }
    for (name, context) in shown {
        if output == "name" {
            tabs.push(&format!("{name}\n"));
            continue;
        }
        let mark = if *name == config.current_context { "*" } else { " " };
        let field = |field| context.text(field).unwrap_or_default();
        tabs.push(&format!("{mark}\t{name}\t{}\t{}\t{}\n", field("cluster"), field("user"), field("namespace")));
    }
    ctl.print(&tabs.flush())?;
    Error::aggregate(errors)
}

/// Runs `config get-clusters`.
pub(crate) fn get_clusters(ctl: &Ctl<'_>) -> Result<()> {
    print_names(ctl, List::Clusters)
}

/// Runs `config get-users`.
pub(crate) fn get_users(ctl: &Ctl<'_>) -> Result<()> {
    print_names(ctl, List::Users)
}

fn print_names(ctl: &Ctl<'_>, list: List) -> Result<()> {
    let config = ctl.config.load_or_empty()?;
    let names: String = config.entries(list).keys().map(|name| format!("{name}\n")).collect();
    ctl.print(&format!("NAME\n{names}"))
}

/// Runs `config use-context`.
pub(crate) fn use_context(ctl: &Ctl<'_>) -> Result<()> {
    let [name] = ctl.flags.args.as_slice() else { return Err(unexpected(ctl)) };
    let config = ctl.config.load_or_empty()?;
    if name.is_empty() {
        return Err(Error::text("empty context names are not allowed"));
    }
    if !config.contexts.contains_key(name) {
        return Err(Error::text(format!("no context exists with the name: {}", quote(name))));
    }
    if config.current_context != *name {
        apply(ctl.config.default_file(), &[Change::SetCurrent(name.clone())])?;
    }
    ctl.print(&format!("Switched to context {}.\n", quote(name)))
}

/// Runs `config set-context`.
pub(crate) fn set_context(ctl: &Ctl<'_>) -> Result<()> {
    let flags = &ctl.flags;
    let (is_current, named) = match (flags.is_on("current"), flags.args.as_slice()) {
        (_, [_, _, ..]) => return Err(unexpected(ctl)),
        (true, [name]) if !name.is_empty() => {
            return Err(Error::text("you cannot specify both a context name and --current"));
        }
        (true, _) => (true, ""),
        (false, [name]) if !name.is_empty() => (false, name.as_str()),
        (false, _) => return Err(Error::text("you must specify a non-empty context name or --current")),
    };
    let config = ctl.config.load_or_empty()?;
    if is_current && config.current_context.is_empty() {
        return Err(Error::text("no current context is set"));
    }
    let name = if is_current { config.current_context.clone() } else { named.to_owned() };
    let entry = config.contexts.get(&name);
    let given = ["cluster", "user", "namespace"].into_iter().filter(|field| flags.is_given(field));
    let mut fields: Vec<(&'static str, String)> = given.map(|field| (field, flags.text(field).to_owned())).collect();
    if entry.is_none() {
        // kubectl writes both fields, even if empty.
        for field in ["cluster", "user"] {
            if !fields.iter().any(|(known, _)| *known == field) {
                fields.push((field, String::new()));
            }
        }
    }
    let change = Change::Put { list: List::Contexts, name: name.clone(), fields, others: Others::Keep };
    apply(ctl.config.file_for(entry), &[change])?;
    let done = if entry.is_some() { "modified" } else { "created" };
    ctl.print(&format!("Context {} {done}.\n", quote(&name)))
}

/// Runs `config rename-context`.
pub(crate) fn rename_context(ctl: &Ctl<'_>) -> Result<()> {
    let [old, new] = ctl.flags.args.as_slice() else { return Err(unexpected(ctl)) };
    if new.is_empty() {
        return Err(Error::text("You must specify a new non-empty context name"));
    }
    let config = ctl.config.load_or_empty()?;
    let file = ctl.config.default_file().display();
    let Some(entry) = config.contexts.get(old) else {
        return Err(Error::text(format!("cannot rename the context {}, it's not in {file}", quote(old))));
    };
    if config.contexts.contains_key(new) {
        let (old, new) = (quote(old), quote(new));
        return Err(Error::text(format!(
            "cannot rename the context {old}, the context {new} already exists in {file}"
        )));
    }
    if entry.fields.contains_key("extensions") {
        return Err(Error::text(format!(
            "the context {} has extensions, which would be lost\nhint: rename it in {}",
            quote(old),
            entry.origin.display()
        )));
    }
    let texts = ["cluster", "user", "namespace"].map(|field| (field, entry.text(field).unwrap_or_default().to_owned()));
    let fields = texts.into_iter().filter(|(field, text)| *field != "namespace" || !text.is_empty()).collect();
    let list = List::Contexts;
    // A file is replaced atomically, so that readers never see the context under both names or under none.
    let mut changes = vec![
        Change::Put { list, name: new.clone(), fields, others: Others::Keep },
        Change::Remove { list, name: old.clone() },
    ];
    let (place, default_file) = (entry.origin.as_path(), ctl.config.default_file());
    let is_current = config.current_context == *old;
    if is_current && place == default_file {
        changes.push(Change::SetCurrent(new.clone()));
    }
    apply(place, &changes)?;
    if is_current && place != default_file {
        apply(default_file, &[Change::SetCurrent(new.clone())])?;
    }
    ctl.print(&format!("Context {} renamed to {}.\n", quote(old), quote(new)))
}

/// Runs `config delete-context`.
pub(crate) fn delete_context(ctl: &Ctl<'_>) -> Result<()> {
    delete(ctl, List::Contexts)
}

/// Runs `config delete-cluster`.
pub(crate) fn delete_cluster(ctl: &Ctl<'_>) -> Result<()> {
    delete(ctl, List::Clusters)
}

/// Runs `config delete-user`.
pub(crate) fn delete_user(ctl: &Ctl<'_>) -> Result<()> {
    delete(ctl, List::Users)
}

fn delete(ctl: &Ctl<'_>, list: List) -> Result<()> {
    let [name] = ctl.flags.args.as_slice() else { return Err(unexpected(ctl)) };
    let config = ctl.config.load_or_empty()?;
    let (what, file) = (list.inner(), ctl.config.default_file().display());
    let Some(entry) = config.entries(list).get(name) else {
        return Err(Error::text(format!("cannot delete {what} {name}, not in {file}")));
    };
    if list == List::Contexts && config.current_context == *name {
        ctl.tell(
            "warning: this removed your active context, use \"kubectl config use-context\" to select a different one\n",
        );
    }
    apply(&entry.origin, &[Change::Remove { list, name: name.clone() }])?;
    ctl.print(&format!("deleted {what} {name} from {file}\n"))
}

fn unexpected(ctl: &Ctl<'_>) -> Error {
    ctl.usage(&format!("Unexpected args: [{}]", ctl.flags.args.join(" ")))
}

fn apply(path: &Path, changes: &[Change]) -> Result<()> {
    let applied = ConfigFiles::apply(path, changes);
    applied.map(|_| ()).map_err(|error| Error::text(rdd_stdx::chain::Chain(&error).to_string()))
}
