//! Writes one OpenAPI document piece by piece into gzip, so that it is never in memory uncompressed.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{self, Write as _},
};

use flate2::{Compression, write::GzEncoder};
use rdd_meta::{GroupVersionKind, go_json};
use serde_json::{Value, json};

use super::{
    custom::{self, Published, TypeMeta},
    form::Form,
    gnostic, gnostic3, legacy,
    render::{self, Flavor},
    route::{self, Names, Route},
    source::{Definitions, Schemas},
};
use crate::registry::{Part, ResourceDef, Served, VersionDef};

const DELETE_OPTIONS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions";
const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
const LIST_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta";

/// The subject of a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Subject {
    /// The version 3 document of a group-version.
    Version { group: String, version: String },
    /// The version 2 document of all resources.
    Everything,
}

/// The large parts of a document, which are written entry by entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Section {
    Paths,
    Definitions,
}

/// The inputs of a document.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sources<'a> {
    pub(super) served: &'a Served,
    pub(super) definitions: &'a dyn Definitions,
    pub(super) schemas: &'a dyn Schemas,
    /// The API version of the server, such as `1.35`.
    pub(super) api: &'a str,
}

/// Writes a document and returns it compressed.
pub(super) fn write(sources: Sources<'_>, subject: &Subject, form: Form) -> io::Result<Vec<u8>> {
    let document = Document::about(sources, subject);
    let encoder = GzEncoder::new(Vec::new(), Compression::default());
    let mut output = Output { encoder, form, flavor: document.flavor, text: String::new(), message: Vec::new() };
    match (document.flavor, form) {
        (Flavor::V2, Form::Json) => document.write_v2(&mut output)?,
        (Flavor::V2, Form::Protobuf) => document.write_gnostic(&mut output)?,
        (Flavor::V3, Form::Json) => document.write_v3(&mut output)?,
        (Flavor::V3, Form::Protobuf) => document.write_gnostic3(&mut output)?,
    }
    output.encoder.finish()
}

struct Document<'a> {
    sources: Sources<'a>,
    flavor: Flavor,
    resources: Vec<(&'a ResourceDef, &'a VersionDef)>,
}

struct Output {
    encoder: GzEncoder<Vec<u8>>,
    form: Form,
    flavor: Flavor,
    /// The buffer for one piece of JSON, which is reused.
    text: String,
    /// The buffer for one protobuf message, which is reused.
    message: Vec<u8>,
}

impl Output {
    fn raw(&mut self, text: &str) -> io::Result<()> {
        self.encoder.write_all(text.as_bytes())
    }

    /// Writes a path or a definition.
    fn entry(&mut self, section: Section, first: &mut bool, name: &str, value: &Value) -> io::Result<()> {
        match (self.form, self.flavor) {
            (Form::Json, _) => self.member(first, name, value),
            (Form::Protobuf, Flavor::V2) => self.message(|message| gnostic::entry(message, section, name, value)),
            (Form::Protobuf, Flavor::V3) => self.message(|message| gnostic3::entry(message, section, name, value)),
        }
    }

    /// Writes a part of a protobuf message.
    fn message(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> io::Result<()> {
        self.message.clear();
        write(&mut self.message);
        self.encoder.write_all(&self.message)
    }

    /// Writes a member of the JSON object that is open.
    fn member(&mut self, first: &mut bool, name: &str, value: &Value) -> io::Result<()> {
        self.text.clear();
        if !std::mem::take(first) {
            self.text.push(',');
        }
        go_json::write_string(&mut self.text, name);
        self.text.push(':');
        go_json::write_value(&mut self.text, value);
        self.encoder.write_all(self.text.as_bytes())
    }
}

impl<'a> Document<'a> {
    fn about(sources: Sources<'a>, subject: &Subject) -> Self {
        let versions = |def: &'a ResourceDef| def.versions.iter().map(move |version| (def, version));
        let all = sources.served.all().flat_map(|def| versions(def));
        let (flavor, resources) = match subject {
            Subject::Everything => (Flavor::V2, all.collect()),
            Subject::Version { group, version: wanted } => {
                let here =
                    |(def, version): &(&ResourceDef, &VersionDef)| def.group == *group && version.name == *wanted;
                (Flavor::V3, all.filter(here).collect())
            }
        };
        Self { sources, flavor, resources }
    }

    fn write_v3(&self, output: &mut Output) -> io::Result<()> {
        let (is_custom, info) = self.info_v3();
        let mut first = true;
        output.raw("{")?;
        output.member(&mut first, "openapi", &"3.0.0".into())?;
        output.member(&mut first, "info", &info)?;
        output.raw(",\"paths\":{")?;
        let used = self.write_paths(output)?;
        output.raw("},\"components\":{\"schemas\":{")?;
        self.write_definitions(output, used)?;
        output.raw("}")?;
        if !is_custom {
            output.member(&mut false, "securitySchemes", &security())?;
        }
        output.raw("}}")
    }

    fn write_v2(&self, output: &mut Output) -> io::Result<()> {
        let mut first = true;
        output.raw("{")?;
        output.member(&mut first, "swagger", &"2.0".into())?;
        output.member(&mut first, "info", &self.info())?;
        output.raw(",\"paths\":{")?;
        let used = self.write_paths(output)?;
        output.raw("},\"definitions\":{")?;
        self.write_definitions(output, used)?;
        output.raw("}")?;
        output.member(&mut first, "securityDefinitions", &security())?;
        output.member(&mut first, "security", &requirements())?;
        output.raw("}")
    }

    fn write_gnostic(&self, output: &mut Output) -> io::Result<()> {
        let beside = json!({
            "swagger": "2.0",
            "info": self.info(),
            "paths": {},
            "definitions": {},
            "securityDefinitions": security(),
            "security": requirements(),
        });
        output.message(|message| gnostic::members(message, &beside))?;
        let used = self.write_paths(output)?;
        self.write_definitions(output, used)
    }

    fn write_gnostic3(&self, output: &mut Output) -> io::Result<()> {
        let (is_custom, info) = self.info_v3();
        let mut components = json!({"schemas": {}});
        if !is_custom {
            components["securitySchemes"] = security();
        }
        let beside = json!({"openapi": "3.0.0", "info": info, "paths": {}, "components": components});
        output.message(|message| gnostic3::members(message, &beside))?;
        let used = self.write_paths(output)?;
        self.write_definitions(output, used)
    }

    /// Whether the resources are custom, and the document's info, which upstream words differently for them.
    fn info_v3(&self) -> (bool, Value) {
        let is_custom = self.resources.iter().any(|(def, _)| def.custom.is_some());
        let info = match is_custom {
            true => json!({"title": "Kubernetes CRD Swagger", "version": "v0.1.0"}),
            false => self.info(),
        };
        (is_custom, info)
    }

    fn info(&self) -> Value {
        json!({"title": "Kubernetes", "version": self.sources.api})
    }

    /// Writes the paths of all resources. Returns the built-in definitions that they refer to.
    fn write_paths(&self, output: &mut Output) -> io::Result<BTreeSet<String>> {
        let mut used = BTreeSet::new();
        let mut first = true;
        for (def, version) in &self.resources {
            let names = self.names(def, version);
            // A custom resource's own definitions come from its schema, not from the built-in ones.
            let is_own = |name: &str| def.custom.is_some() && (name == names.kind || name == names.list);
            let mut routes = route::routes(def, version, &names);
            routes.sort_by(|left, right| left.path.cmp(&right.path));
            for route in &routes {
                used.extend(definitions_of(route).filter(|name| !is_own(name)).cloned());
                output.entry(Section::Paths, &mut first, &route.path, &render::path_item(self.flavor, route))?;
            }
        }
        Ok(used)
    }

    /// Writes the definitions that the paths refer to: the built-in ones, then the custom ones one by one.
    fn write_definitions(&self, output: &mut Output, mut used: BTreeSet<String>) -> io::Result<()> {
        let customs: Vec<_> = self.resources.iter().filter(|(def, _)| def.custom.is_some()).collect();
        if !customs.is_empty() {
            // The definitions of custom resources refer to these.
            used.extend([OBJECT_META, LIST_META, DELETE_OPTIONS].map(str::to_owned));
        }
        let builtin = self.builtin_definitions(used);
        let type_meta = TypeMeta::of(builtin.get(DELETE_OPTIONS));
        let mut first = true;
        for (name, definition) in &builtin {
            output.entry(Section::Definitions, &mut first, name, definition)?;
        }
        let mut written: BTreeSet<String> = builtin.into_keys().collect();
        for (def, version) in customs {
            for (name, definition) in self.custom_definitions(def, version, &type_meta) {
                // A custom group can be named so that its definitions collide with built-in ones; the built-in ones win.
                if written.insert(name.clone()) {
                    output.entry(Section::Definitions, &mut first, &name, &definition)?;
                }
            }
        }
        Ok(())
    }

    fn custom_definitions(
        &self,
        def: &ResourceDef,
        version: &VersionDef,
        type_meta: &TypeMeta,
    ) -> [(String, Value); 2] {
        let kind = def.group_version_kind(&version.name);
        let selectable = version.kind.selectable_fields();
        let published = Published { flavor: self.flavor, kind: &kind, selectable, type_meta };
        let schema = self.sources.schemas.schema(def, &version.name);
        let Names { kind: name, list, .. } = self.names(def, version);
        [
            (name, custom::definition(&published, schema)),
            (list, custom::list_definition(&published, &def.plural, &def.list_kind)),
        ]
    }

    fn builtin_definitions(&self, wanted: BTreeSet<String>) -> BTreeMap<String, Value> {
        let names: Vec<&str> = wanted.iter().map(String::as_str).collect();
        let mut found = self.sources.definitions.closure(&names);
        for name in wanted {
            // A definition that an operation refers to must exist, or clients reject the document.
            found.entry(name).or_insert_with(|| json!({"type": "object"}));
        }
        if self.flavor == Flavor::V2 {
            found.values_mut().for_each(legacy::to_v2);
        }
        found
    }

    fn names(&self, def: &ResourceDef, version: &VersionDef) -> Names {
        let builtin = |kind: &GroupVersionKind| {
            let known = self.sources.definitions.name(&kind.group, &kind.version, &kind.kind);
            known.unwrap_or_else(|| custom::definition_name(kind))
        };
        let kind = def.group_version_kind(&version.name);
        let name = if def.custom.is_some() { custom::definition_name(&kind) } else { builtin(&kind) };
        // The definition of a list has the same name except for the kind.
        let list = format!("{}{}", &name[..name.len() - def.kind.len()], def.list_kind);
        let question = |part: &Part| match part {
            Part::Question(question) => Some(builtin(&question.kind())),
            Part::View | Part::Scale(_) => None,
        };
        let questions = version.subresources.iter().map(|subresource| question(&subresource.part)).collect();
        Names { kind: name, list, questions }
    }
}

fn security() -> Value {
    let scheme = json!({"type": "apiKey", "name": "authorization", "in": "header", "description": "Bearer Token authentication"});
    json!({"BearerToken": scheme})
}

/// The security requirements, which refer to [`security`].
fn requirements() -> Value {
    json!([{"BearerToken": []}])
}

fn definitions_of(route: &Route) -> impl Iterator<Item = &String> {
    route.operations.iter().flat_map(|operation| {
        let body = operation.body.iter().map(|body| &body.definition);
        body.chain(operation.responses.iter().map(|(_, _, definition)| definition))
    })
}
