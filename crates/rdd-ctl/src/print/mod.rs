//! The output formats of `-o`.

pub(crate) mod columns;
mod go_syntax;
pub(crate) mod json;
pub(crate) mod table;
pub(crate) mod tabs;

use std::fs;

use rdd_meta::go_text::quote;
use serde_json::Value;

use crate::{
    discovery::{kind_string, split_group_version},
    error::{Error, Result},
    flags::{Flag, Flags, Kind},
    jsonpath::Template,
};
use columns::Columns;
use tabs::Tabs;

/// The flags of every verb that prints objects.
pub(crate) const FLAGS: &[Flag] = &[
    Flag::value("output").short('o'),
    Flag::value("template"),
    Flag::of("allow-missing-template-keys", Kind::Bool, "true"),
    Flag::switch("show-managed-fields"),
];

/// A format of `-o`.
#[derive(Debug, Clone)]
pub(crate) enum Format {
    /// Text for people: a table for `get`, a line with the result for other verbs.
    Human {
        /// `-o wide`.
        wide: bool,
    },
    /// `-o json`.
    Json,
    /// `-o yaml`.
    Yaml,
    /// `-o name`.
    Name,
    /// `-o jsonpath=…` and its variants.
    Path {
        /// The parsed template.
        template: Template,
        /// The template's text.
        text: String,
        /// `-o jsonpath-as-json`.
        as_json: bool,
    },
    /// `-o custom-columns=…` and `-o custom-columns-file=…`.
    Columns(Columns),
}

const COMMON: &[&str] = &[
    "go-template",
    "go-template-file",
    "json",
    "jsonpath",
    "jsonpath-as-json",
    "jsonpath-file",
    "kyaml",
    "name",
    "template",
    "templatefile",
    "yaml",
];
const GET_ONLY: &[&str] = &["custom-columns", "custom-columns-file", "wide"];

impl Format {
    /// Parses `-o` and `--template`. Only `get` supports tables and columns.
    pub(crate) fn of(flags: &Flags, is_get: bool) -> Result<Self> {
        let output = flags.text("output");
        let template = flags.text("template");
        let output = if output.is_empty() && !template.is_empty() { "go-template" } else { output };
        let (name, value) = output.split_once('=').map_or((output, ""), |(name, value)| (name, value));
        let takes_value = matches!(
            name,
            "jsonpath"
                | "jsonpath-file"
                | "jsonpath-as-json"
                | "go-template"
                | "go-template-file"
                | "template"
                | "templatefile"
        ) || (is_get && matches!(name, "custom-columns" | "custom-columns-file"));
        if !takes_value && name != output {
            return Err(unknown(output, is_get));
        }
        let value = if template.is_empty() { value } else { template };
        match name {
            "" => Ok(Self::Human { wide: false }),
            "wide" if is_get => Ok(Self::Human { wide: true }),
            "json" => Ok(Self::Json),
            "yaml" => Ok(Self::Yaml),
            "name" => Ok(Self::Name),
            "kyaml" => Err(elsewhere("kyaml")),
            "go-template" | "go-template-file" | "template" | "templatefile" if value.is_empty() => {
                Err(Error::text("template format specified but no template given"))
            }
            "go-template" | "go-template-file" | "template" | "templatefile" => Err(elsewhere(name)),
            "jsonpath" | "jsonpath-file" | "jsonpath-as-json" => path(flags, name, value),
            "custom-columns" | "custom-columns-file" if is_get => custom_columns(flags, name, value),
            _ => Err(unknown(output, is_get)),
        }
    }

    /// Whether the format is text for people.
    pub(crate) fn is_human(&self) -> bool {
        matches!(self, Self::Human { .. })
    }
}

fn unknown(output: &str, is_get: bool) -> Error {
    let mut formats: Vec<&str> = COMMON.to_vec();
    if is_get {
        formats.extend(GET_ONLY);
    }
    formats.sort_unstable();
    Error::text(format!(
        "unable to match a printer suitable for the output format {}, allowed formats are: {}",
        quote(output),
        formats.join(",")
    ))
}

/// The error for formats that need Go's template engine, which only kubectl has.
fn elsewhere(format: &str) -> Error {
    Error::text(format!(
        "the output format {} is not built in\nhint: use -o jsonpath=…, or install kubectl: `rdd kubectl` runs the one on PATH; \
         for the service, set KUBECONFIG=$(rdd svc paths config)",
        quote(format)
    ))
}

fn path(flags: &Flags, name: &str, value: &str) -> Result<Format> {
    if value.is_empty() {
        return Err(Error::text("template format specified but no template given"));
    }
    let text = match name {
        "jsonpath-file" => fs::read_to_string(value).map_err(|error| {
            Error::text(format!("error reading --template {value}, {}", go_io("open", value, &error)))
        })?,
        _ => value.to_owned(),
    };
    let parsed =
        Template::parse(&text).map_err(|error| Error::text(format!("error parsing jsonpath {text}, {error}")))?;
    let template = parsed.allow_missing_keys(flags.is_on("allow-missing-template-keys"));
    Ok(Format::Path { template, text, as_json: name == "jsonpath-as-json" })
}

fn custom_columns(flags: &Flags, name: &str, value: &str) -> Result<Format> {
    if value.is_empty() {
        return Err(Error::text("custom-columns format specified but no custom columns given"));
    }
    if name == "custom-columns" {
        return Ok(Format::Columns(Columns::of_spec(value, flags.is_on("no-headers"))?));
    }
    let text = fs::read_to_string(value)
        .map_err(|error| Error::text(format!("error reading template {value}, {}\n", go_io("open", value, &error))))?;
    Ok(Format::Columns(Columns::of_file(&text)?))
}

/// Go's message for a failed file operation.
pub(crate) fn go_io(operation: &str, path: &str, error: &std::io::Error) -> String {
    let why = match error.kind() {
        std::io::ErrorKind::NotFound => "no such file or directory".to_owned(),
        std::io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
        std::io::ErrorKind::IsADirectory => return format!("read {path}: is a directory"),
        std::io::ErrorKind::NotADirectory => "not a directory".to_owned(),
        _ => error.to_string(),
    };
    format!("{operation} {path}: {why}")
}

/// Prints objects in one format.
#[derive(Debug)]
pub(crate) struct Printer {
    format: Format,
    show_managed_fields: bool,
    printed: usize,
    tabs: Tabs,
    /// The operation, such as `created`, for the line with the result.
    pub(crate) operation: String,
}

impl Printer {
    /// A printer configured by the flags.
    pub(crate) fn new(format: Format, flags: &Flags, operation: &str) -> Self {
        Self {
            format,
            show_managed_fields: flags.is_on("show-managed-fields"),
            printed: 0,
            tabs: Tabs::for_tables(),
            operation: operation.to_owned(),
        }
    }

    /// The format.
    pub(crate) fn format(&self) -> &Format {
        &self.format
    }

    /// The text of an object or a list.
    pub(crate) fn print(&mut self, object: &Value) -> Result<String> {
        self.printed += 1;
        match &mut self.format {
            Format::Human { .. } => names(object, &self.operation),
            Format::Name => names(object, ""),
            Format::Json => Ok(json::to_string(&self.shown(object))),
            Format::Yaml => {
                let separator = if self.printed > 1 { "---\n" } else { "" };
                Ok(format!("{separator}{}", rdd_yaml::write(&self.shown(object))))
            }
            Format::Path { template, text, as_json } => {
                let rendered = if *as_json { template.render_json(object) } else { template.render(object) };
                rendered.map_err(|error| template_failed(text, &error.to_string(), object))
            }
            Format::Columns(columns) => {
                columns.print(object, &mut self.tabs)?;
                Ok(self.tabs.flush())
            }
        }
    }

    /// The text of a watch event.
    pub(crate) fn print_event(&mut self, kind: &str, object: &Value) -> Result<String> {
        let event = |object: &Value| serde_json::json!({ "type": kind, "object": object });
        match &self.format {
            Format::Human { .. } | Format::Name => self.print(object),
            Format::Json => {
                self.printed += 1;
                Ok(format!("{}\n", go_struct_event(kind, &self.shown(object))))
            }
            Format::Yaml => {
                self.printed += 1;
                let separator = if self.printed > 1 { "---\n" } else { "" };
                Ok(format!("{separator}{}", rdd_yaml::write(&event(&self.shown(object)))))
            }
            Format::Path { .. } | Format::Columns(_) => self.print(&event(object)),
        }
    }

    fn shown(&self, object: &Value) -> Value {
        let mut shown = object.clone();
        if !self.show_managed_fields {
            omit_managed_fields(&mut shown);
            if let Some(items) = shown.get_mut("items").and_then(Value::as_array_mut) {
                items.iter_mut().for_each(omit_managed_fields);
            }
        }
        shown
    }
}

/// A `WatchEvent` in Go's field order.
fn go_struct_event(kind: &str, object: &Value) -> String {
    let mut text = String::from("{\"type\":");
    rdd_meta::go_json::write_string(&mut text, kind);
    text.push_str(",\"object\":");
    rdd_meta::go_json::write_value(&mut text, object);
    text.push('}');
    text
}

fn omit_managed_fields(object: &mut Value) {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
}

fn template_failed(template: &str, why: &str, object: &Value) -> Error {
    Error::text(format!(
        "error executing jsonpath {}: Error executing template: {why}. Printing more information for debugging the template:\n\
         \ttemplate was:\n\t\t{template}\n\tobject given to jsonpath engine was:\n\t\t{}\n\n\n",
        quote(template),
        go_syntax::go_syntax(object)
    ))
}

/// `kind.group/name` with the operation.
fn names(object: &Value, operation: &str) -> Result<String> {
    if let Some(items) = object["items"].as_array() {
        return items.iter().map(|item| names(item, operation)).collect();
    }
    let (kind, version) = (object["kind"].as_str().unwrap_or_default(), object["apiVersion"].as_str());
    if kind.is_empty() {
        return Err(Error::text(
            "missing apiVersion or kind; try GetObjectKind().SetGroupVersionKind() if you know the type",
        ));
    }
    let (group, _) = split_group_version(version.unwrap_or_default());
    let name = object["metadata"]["name"].as_str().filter(|name| !name.is_empty()).unwrap_or("<unknown>");
    let operation = if operation.is_empty() { String::new() } else { format!(" {operation}") };
    Ok(format!("{}/{name}{operation}\n", kind_string(group, kind)))
}
