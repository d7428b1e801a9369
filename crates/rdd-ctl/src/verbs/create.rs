//! `create`: creates objects from files, and namespaces, config maps and secrets from flags.

use std::{fs, path::Path, rc::Rc};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use rdd_meta::go_text::quote;
use serde_json::{Map, Value, json};

use crate::{
    context::Ctl,
    discovery::Mapping,
    error::{Error, Result},
    flags::{Flag, Kind},
    print::{Format, go_io, json as json_text},
    selection::{Info, Wanted, select},
    source,
    write::{DRY_RUN, DryRun, Manner, VALIDATE, annotate_configuration, field_validation, is_annotated, printer},
};

/// The flags of all forms of `create`.
pub(crate) const FLAGS: &[Flag] =
    &[DRY_RUN, VALIDATE, Flag::switch("save-config"), Flag::of("field-manager", Kind::Text, "kubectl-create")];

/// The flags of `create -f`.
pub(crate) const FILE_FLAGS: &[Flag] = &[
    Flag::value("selector").short('l'),
    Flag::value("raw"),
    Flag::switch("edit"),
    Flag::switch("windows-line-endings"),
    Flag::switch("record"),
];

/// The flags of the forms with data.
pub(crate) const DATA_FLAGS: &[Flag] = &[
    Flag::of("from-file", Kind::List, ""),
    Flag::of("from-literal", Kind::Array, ""),
    Flag::of("from-env-file", Kind::List, ""),
    Flag::switch("append-hash"),
];

/// The flags of `create secret`.
pub(crate) const SECRET_FLAGS: &[Flag] = &[Flag::value("type")];

/// Runs `create -f`.
pub(crate) fn run(ctl: &Ctl<'_>) -> Result<()> {
    if !ctl.flags.args.is_empty() {
        return Err(ctl.usage(&format!("Unexpected args: [{}]", ctl.flags.args.join(" "))));
    }
    let dry_run = DryRun::of(ctl)?;
    let manner =
        Manner { dry_run, field_manager: ctl.flags.text("field-manager"), field_validation: field_validation(ctl)? };
    let mut printer = printer(ctl, dry_run, "created")?;
    require_files(ctl)?;
    for flag in ["raw", "edit"] {
        if ctl.flags.is_given(flag) {
            return Err(super::elsewhere(&format!("create --{flag}")));
        }
    }
    let selector = Some(ctl.flags.text("selector").trim().to_owned()).filter(|text| !text.is_empty());
    let validate = manner.field_validation != "Ignore";
    let selected = select(ctl, &Wanted { label_selector: selector, keep_going: true, validate, ..Wanted::default() })?;
    let (mut errors, mut count) = (Vec::new(), 0);
    for item in selected.items {
        let done = item.and_then(|mut info| {
            if ctl.flags.is_on("save-config") || is_annotated(info.object()) {
                annotate_configuration(info.object.get_or_insert(Value::Null));
            }
            if dry_run != DryRun::Client {
                let created = manner.create(ctl, &info).map_err(|error| error.when("creating", &info.source))?;
                info.object = Some(created);
            }
            count += 1;
            ctl.print(&printer.print(info.object())?)
        });
        errors.extend(done.err());
    }
    Error::aggregate(errors)?;
    if count == 0 { Err(Error::text("no objects passed to create")) } else { Ok(()) }
}

/// Requires a file.
pub(crate) fn require_files(ctl: &Ctl<'_>) -> Result<()> {
    if source::is_given(ctl) { Ok(()) } else { Err(Error::text("must specify one of -f and -k")) }
}

/// The single name argument.
fn name<'a>(ctl: &'a Ctl<'_>) -> Result<&'a str> {
    match ctl.flags.args.as_slice() {
        [name] if name.is_empty() => Err(Error::text("name must be specified")),
        [name] => Ok(name),
        args => Err(ctl.usage(&format!("exactly one NAME is required, got {}", args.len()))),
    }
}

/// Runs `create namespace`.
pub(crate) fn namespace(ctl: &Ctl<'_>) -> Result<()> {
    let name = name(ctl)?;
    let object =
        json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name }, "spec": {}, "status": {} });
    make(ctl, object, "namespaces", false, |error| error)
}

/// Runs `create configmap`.
pub(crate) fn configmap(ctl: &Ctl<'_>) -> Result<()> {
    let name = name(ctl)?;
    check_sources(ctl)?;
    let mut data = Data { kind: "ConfigMap", name: name.to_owned(), text: Map::new(), binary: Map::new() };
    data.add_files(ctl)?;
    data.add_literals(ctl)?;
    data.add_env_files(ctl, "env config file cannot be a directory")?;
    let mut object = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata(ctl, name) });
    if !data.binary.is_empty() {
        object["binaryData"] = Value::Object(data.binary);
    }
    if !data.text.is_empty() {
        object["data"] = Value::Object(data.text);
    }
    make(ctl, object, "configmaps", true, |error| Error::text(format!("failed to create configmap: {error}")))
}

/// Runs `create secret generic`.
pub(crate) fn secret(ctl: &Ctl<'_>) -> Result<()> {
    let name = name(ctl)?;
    check_sources(ctl)?;
    let mut data = Data { kind: "Secret", name: name.to_owned(), text: Map::new(), binary: Map::new() };
    data.add_literals(ctl)?;
    data.add_files(ctl)?;
    data.add_env_files(ctl, "env secret file cannot be a directory")?;
    let mut object = json!({ "apiVersion": "v1", "kind": "Secret", "metadata": metadata(ctl, name) });
    if !data.binary.is_empty() {
        object["data"] = Value::Object(data.binary);
    }
    if !ctl.flags.text("type").is_empty() {
        object["type"] = ctl.flags.text("type").into();
    }
    make(ctl, object, "secrets", true, |error| Error::text(format!("failed to create secret {error}")))
}

fn metadata(ctl: &Ctl<'_>, name: &str) -> Value {
    match ctl.is_namespace_explicit() {
        true => json!({ "name": name, "namespace": ctl.namespace() }),
        false => json!({ "name": name }),
    }
}

fn check_sources(ctl: &Ctl<'_>) -> Result<()> {
    let given = |flag| !ctl.flags.list(flag).is_empty();
    if given("from-env-file") && (given("from-file") || given("from-literal")) {
        return Err(Error::text("from-env-file cannot be combined with from-file or from-literal"));
    }
    if ctl.flags.is_on("append-hash") {
        return Err(super::elsewhere("create --append-hash"));
    }
    Ok(())
}

fn make(
    ctl: &Ctl<'_>,
    mut object: Value,
    resource: &str,
    namespaced: bool,
    failed: impl Fn(Error) -> Error,
) -> Result<()> {
    let dry_run = DryRun::of(ctl)?;
    let mut printer = printer(ctl, dry_run, "created")?;
    let manner =
        Manner { dry_run, field_manager: ctl.flags.text("field-manager"), field_validation: field_validation(ctl)? };
    if ctl.flags.is_on("save-config") {
        annotate_typed(&mut object);
    }
    if dry_run != DryRun::Client {
        let mapping = Mapping {
            group: String::new(),
            version: "v1".to_owned(),
            kind: object["kind"].as_str().unwrap_or_default().to_owned(),
            resource: resource.to_owned(),
            singular: String::new(),
            namespaced,
            verbs: Vec::new(),
            short_names: Vec::new(),
            categories: Vec::new(),
        };
        let namespace = if namespaced { ctl.namespace().to_owned() } else { String::new() };
        let info = Info {
            mapping: Some(Rc::new(mapping)),
            namespace,
            name: String::new(),
            source: String::new(),
            object: Some(object),
        };
        object = manner.create(ctl, &info).map_err(failed)?;
    }
    if matches!(printer.format(), Format::Json) {
        if !ctl.flags.is_on("show-managed-fields")
            && let Some(metadata) = object["metadata"].as_object_mut()
        {
            metadata.remove("managedFields");
        }
        return ctl.print(&json_text::to_string_as_struct(&object, json_text::OBJECTS));
    }
    ctl.print(&printer.print(&object)?)
}

/// Sets the last-applied annotation in Go's struct field order, because kubectl has these kinds as structs.
fn annotate_typed(object: &mut Value) {
    let text = json_text::compact_as_struct(object, json_text::OBJECTS) + "\n";
    if let Some(mut metadata) = rdd_meta::metadata::MetadataMut::of(object) {
        metadata.set_annotation(crate::write::LAST_APPLIED, Some(&text));
    }
}

/// The data of a config map or a secret.
struct Data {
    kind: &'static str,
    name: String,
    text: Map<String, Value>,
    binary: Map<String, Value>,
}

impl Data {
    fn add(&mut self, key: &str, bytes: &[u8]) -> Result<()> {
        let problems = config_map_key_problems(key);
        let is_secret = self.kind == "Secret";
        if !problems.is_empty() {
            return Err(Error::text(if is_secret {
                format!("{} is not valid key name for a Secret {}", quote(key), problems.join(";"))
            } else {
                format!("{} is not a valid key name for a ConfigMap: {}", quote(key), problems.join(","))
            }));
        }
        for (part, known) in [("Data", &self.text), ("BinaryData", &self.binary)] {
            if known.contains_key(key) {
                return Err(Error::text(if is_secret {
                    format!("cannot add key {key}, another key by that name already exists")
                } else {
                    let (key, name) = (quote(key), quote(&self.name));
                    format!(
                        "cannot add key {key}, another key by that name already exists in {part} for ConfigMap {name}"
                    )
                }));
            }
        }
        match std::str::from_utf8(bytes) {
            Ok(text) if !is_secret => self.text.insert(key.to_owned(), text.into()),
            _ => self.binary.insert(key.to_owned(), STANDARD.encode(bytes).into()),
        };
        Ok(())
    }

    fn add_literals(&mut self, ctl: &Ctl<'_>) -> Result<()> {
        for literal in ctl.flags.list("from-literal") {
            let pair = literal.split_once('=').filter(|(key, _)| !key.is_empty());
            let (key, value) =
                pair.ok_or_else(|| Error::text(format!("invalid literal source {literal}, expected key=value")))?;
            self.add(key, value.as_bytes())?;
        }
        Ok(())
    }

    fn add_files(&mut self, ctl: &Ctl<'_>) -> Result<()> {
        for given in ctl.flags.list("from-file") {
            let (key, path) = file_source(given)?;
            let meta = fs::metadata(path).map_err(|error| unreadable(path, &error))?;
            if !meta.is_dir() {
                self.add_file(&key, Path::new(path))?;
                continue;
            }
            if given.contains('=') {
                return Err(Error::text("cannot give a key name for a directory path"));
            }
            let entries = fs::read_dir(path).map_err(|error| unreadable(path, &error))?;
            let mut files: Vec<_> =
                entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_file())).collect();
            files.sort_by_key(fs::DirEntry::file_name);
            for file in files {
                self.add_file(&file.file_name().to_string_lossy(), &file.path())?;
            }
        }
        Ok(())
    }

    fn add_file(&mut self, key: &str, path: &Path) -> Result<()> {
        let bytes = fs::read(path).map_err(|error| Error::text(go_io("open", &path.to_string_lossy(), &error)))?;
        self.add(key, &bytes)
    }

    fn add_env_files(&mut self, ctl: &Ctl<'_>, folder: &str) -> Result<()> {
        for path in ctl.flags.list("from-env-file") {
            let meta = fs::metadata(path).map_err(|error| unreadable(path, &error))?;
            if meta.is_dir() {
                return Err(Error::text(folder));
            }
            let text = fs::read_to_string(path).map_err(|error| Error::text(go_io("open", path, &error)))?;
            for line in text.trim_start_matches('\u{feff}').lines() {
                let line = line.trim_start();
                if line.is_empty() || line.starts_with('#') {
                    continue;
                }
                let (key, value) = match line.split_once('=') {
                    Some((key, value)) => (key, value.to_owned()),
                    None => (line, std::env::var(line).unwrap_or_default()),
                };
                self.add(key, value.as_bytes())?;
            }
        }
        Ok(())
    }
}

fn unreadable(path: &str, error: &std::io::Error) -> Error {
    let words = go_io("stat", path, error);
    let why = words.rsplit(": ").next().unwrap_or_default();
    Error::text(format!("error reading {path}: {why}"))
}

fn file_source(given: &str) -> Result<(String, &str)> {
    match (given.matches('=').count(), given.split_once('=')) {
        (0, _) | (_, None) => {
            let base = given.trim_end_matches('/').rsplit('/').next().unwrap_or(given);
            Ok((base.to_owned(), given))
        }
        (1, Some(("", path))) => Err(Error::text(format!("key name for file path {path} missing"))),
        (1, Some((key, ""))) => Err(Error::text(format!("file path for key name {key} missing"))),
        (1, Some((key, path))) => Ok((key.to_owned(), path)),
        _ => Err(Error::text("key names or file paths cannot contain '='")),
    }
}

fn config_map_key_problems(key: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if key.len() > 253 {
        problems.push("must be no more than 253 characters".to_owned());
    }
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    if key.is_empty() || !key.bytes().all(allowed) {
        problems.push(
            "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or \
             'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
                .to_owned(),
        );
    }
    match key {
        "." => problems.push("must not be '.'".to_owned()),
        ".." => problems.push("must not be '..'".to_owned()),
        key if key.starts_with("..") => problems.push("must not start with '..'".to_owned()),
        _ => {}
    }
    problems
}
