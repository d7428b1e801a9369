//! The types of the built-in kinds as Go has them: constant data, made from `types.txt` when this crate is built.

mod shape;

/// A Go struct.
#[derive(Debug)]
pub struct Struct {
    /// The name of its definition: `io.k8s.api.core.v1.ConfigMap`.
    pub definition: &'static str,
    /// Its name in Go, without the package: `ConfigMap`.
    pub name: &'static str,
    /// Whether server-side apply takes it for one value.
    pub atomic: bool,
    /// Its fields by name, those of embedded structs included.
    pub fields: &'static [Field],
    /// Which of them protobuf's message has, in the order of their numbers.
    pub(crate) numbered: &'static [usize],
}

/// A field of a struct.
#[derive(Debug)]
pub struct Field {
    /// Its name in JSON.
    pub name: &'static str,
    /// What it holds.
    pub kind: Type,
    /// Left out when empty: false, 0, nothing, but never a struct.
    pub omit_empty: bool,
    /// Left out when zero, structs included.
    pub omit_zero: bool,
    /// The embedded structs that it comes from, as complaints name them: `RuleWithOperations.Rule`.
    pub via: &'static str,
    /// How the items of a list relate.
    pub list: ListType,
    /// Whether strategic merge patch merges a list instead of replacing it.
    pub merge: bool,
    /// By which field of the items.
    pub merge_key: Option<&'static str>,
    /// Whether server-side apply takes this object for one value, whatever its type says.
    pub atomic: bool,
    /// The published default, as JSON, where it is not Go's zero.
    pub default: Option<&'static str>,
    /// Where it is in protobuf's message: its number, after those of the embedded structs that it comes from. Empty if it is
    /// in none.
    pub numbers: &'static [u32],
    /// Its name in Go.
    pub go_name: &'static str,
}

/// How the items of a list relate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListType {
    /// Nothing is said.
    Unset,
    /// The list is one value.
    Atomic,
    /// Each item is its own key.
    Set,
    /// These fields of an item are its key.
    Map(&'static [&'static str]),
}

/// A Go type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Type {
    /// `bool`
    Bool,
    /// `int32`
    Int32,
    /// `int64`
    Int64,
    /// `float64`
    Float64,
    /// `string`
    String,
    /// `[]byte`, in JSON base64.
    Bytes,
    /// A `metav1.Time`.
    Time,
    /// A `metav1.MicroTime`.
    MicroTime,
    /// A `metav1.FieldsV1`: JSON as it is.
    FieldsV1,
    /// A `resource.Quantity`.
    Quantity,
    /// An `intstr.IntOrString`.
    IntOrString,
    /// A `runtime.RawExtension`: JSON as it is.
    RawExtension,
    /// Any JSON.
    Json,
    /// A schema or several.
    SchemaOrArray,
    /// A schema, or whether anything goes.
    SchemaOrBool,
    /// A schema or names of properties.
    SchemaOrStringArray,
    /// One of the structs.
    Struct(usize),
    /// Another type under a name of its own.
    Named(&'static str, &'static Type),
    /// What may be nil.
    Pointer(&'static Type),
    /// A slice.
    List(&'static Type),
    /// A map from strings.
    Map(&'static Type),
}

/// A kind in a version, and the struct it is.
#[derive(Debug)]
pub struct Kind {
    /// The group; empty for the core API.
    pub group: &'static str,
    /// The version.
    pub version: &'static str,
    /// The kind.
    pub kind: &'static str,
    structure: usize,
}

include!(concat!(env!("OUT_DIR"), "/types.rs"));

/// All kinds, lists and questions among them.
pub fn kinds() -> &'static [Kind] {
    KINDS
}

/// All structs that the kinds are made of.
pub fn structs() -> &'static [Struct] {
    STRUCTS
}

/// A struct by the name of its definition.
pub fn structure(definition: &str) -> Option<&'static Struct> {
    STRUCTS.iter().find(|found| found.definition == definition)
}

/// A kind in a version.
pub fn kind(group: &str, version: &str, kind: &str) -> Option<&'static Kind> {
    KINDS.iter().find(|found| found.kind == kind && found.group == group && found.version == version)
}

/// What upstream says of a field; only of those that columns show.
pub(crate) fn words(definition: &str, property: &str) -> &'static str {
    let found = WORDS.iter().find(|(known, name, _)| *known == definition && *name == property);
    found.expect("the build lists the fields of columns").2
}

/// The struct that every schema in a definition of a custom resource is.
pub(crate) fn json_schema_props() -> &'static Struct {
    json_schema_props_type().structure().expect("it is one")
}

/// The same as a type.
pub(crate) fn json_schema_props_type() -> &'static Type {
    &JSON_SCHEMA_PROPS
}

impl Kind {
    /// The struct it is.
    pub fn structure(&self) -> &'static Struct {
        &STRUCTS[self.structure]
    }

    /// `apps/v1`, or `v1` for the core API.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.to_owned() } else { format!("{}/{}", self.group, self.version) }
    }
}

impl Struct {
    /// A field by its name in JSON.
    pub fn field(&self, name: &str) -> Option<&'static Field> {
        let at = self.fields.binary_search_by(|field| field.name.cmp(name)).ok()?;
        Some(&self.fields[at])
    }
}

impl Type {
    /// The struct, if it is one.
    pub fn structure(&self) -> Option<&'static Struct> {
        match self {
            Self::Struct(at) => Some(&STRUCTS[*at]),
            _ => None,
        }
    }

    /// The type beneath its names.
    pub fn underlying(&self) -> &Type {
        match self {
            Self::Named(_, below) => below.underlying(),
            other => other,
        }
    }

    /// Its name in Go, as complaints have it.
    pub fn go_name(&self) -> String {
        match self {
            Self::Bool => "bool".to_owned(),
            Self::Int32 => "int32".to_owned(),
            Self::Int64 => "int64".to_owned(),
            Self::Float64 => "float64".to_owned(),
            Self::String => "string".to_owned(),
            Self::Bytes => "[]uint8".to_owned(),
            Self::Time => "v1.Time".to_owned(),
            Self::MicroTime => "v1.MicroTime".to_owned(),
            Self::FieldsV1 => "v1.FieldsV1".to_owned(),
            Self::Quantity => "resource.Quantity".to_owned(),
            Self::IntOrString => "intstr.IntOrString".to_owned(),
            Self::RawExtension => "runtime.RawExtension".to_owned(),
            Self::Json => "v1.JSON".to_owned(),
            Self::SchemaOrArray => "v1.JSONSchemaPropsOrArray".to_owned(),
            Self::SchemaOrBool => "v1.JSONSchemaPropsOrBool".to_owned(),
            Self::SchemaOrStringArray => "v1.JSONSchemaPropsOrStringArray".to_owned(),
            Self::Struct(at) => format!("v1.{}", STRUCTS[*at].name),
            Self::Named(name, _) => (*name).to_owned(),
            Self::Pointer(below) => format!("*{}", below.go_name()),
            Self::List(below) => format!("[]{}", below.go_name()),
            Self::Map(below) => format!("map[string]{}", below.go_name()),
        }
    }
}
