//! The Go types of the built-in kinds as constant data, generated from `types.txt` by the build script.

mod shape;

/// A Go struct.
#[derive(Debug)]
pub struct Struct {
    /// The definition name: `io.k8s.api.core.v1.ConfigMap`.
    pub definition: &'static str,
    /// The Go name without the package: `ConfigMap`.
    pub name: &'static str,
    /// Whether server-side apply treats it as one value.
    pub atomic: bool,
    /// The fields sorted by name, including those of embedded structs.
    pub fields: &'static [Field],
    /// The indexes of the fields in the protobuf message, in the order of their numbers.
    pub(crate) numbered: &'static [usize],
}

/// A field of a struct.
#[derive(Debug)]
pub struct Field {
    /// The JSON name.
    pub name: &'static str,
    /// What it holds.
    pub kind: Type,
    /// Omitted when empty (`omitempty`): false, 0 or nil, but never a struct.
    pub omit_empty: bool,
    /// Omitted when zero (`omitzero`), including structs.
    pub omit_zero: bool,
    /// The embedded structs that it comes from, as in error messages: `RuleWithOperations.Rule`.
    pub via: &'static str,
    /// The list type.
    pub list: ListType,
    /// Whether strategic merge patch merges the list instead of replacing it.
    pub merge: bool,
    /// The merge key of the items.
    pub merge_key: Option<&'static str>,
    /// Whether server-side apply treats the field as one value, whatever its type is.
    pub atomic: bool,
    /// The published default as JSON, if it differs from Go's zero value.
    pub default: Option<&'static str>,
    /// The protobuf field numbers: those of the embedded structs that lead to the field, then its own. Empty if it is not in the
    /// message.
    pub numbers: &'static [u32],
    /// The Go name.
    pub go_name: &'static str,
}

/// The list type of a field (`x-kubernetes-list-type`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListType {
    /// Not specified.
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
    /// `[]byte`, base64 in JSON.
    Bytes,
    /// A `metav1.Time`.
    Time,
    /// A `metav1.MicroTime`.
    MicroTime,
    /// A `metav1.FieldsV1`: raw JSON.
    FieldsV1,
    /// A `resource.Quantity`.
    Quantity,
    /// An `intstr.IntOrString`.
    IntOrString,
    /// A `runtime.RawExtension`: raw JSON.
    RawExtension,
    /// Any JSON.
    Json,
    /// A schema or a list of schemas.
    SchemaOrArray,
    /// A schema or a boolean.
    SchemaOrBool,
    /// A schema or a list of property names.
    SchemaOrStringArray,
    /// A struct, by its index.
    Struct(usize),
    /// A named type with its underlying type.
    Named(&'static str, &'static Type),
    /// A pointer.
    Pointer(&'static Type),
    /// A slice.
    List(&'static Type),
    /// A map from strings.
    Map(&'static Type),
}

/// A kind in a version, with its struct.
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

/// All kinds, including lists and reviews.
pub fn kinds() -> &'static [Kind] {
    KINDS
}

/// All structs of the kinds.
pub fn structs() -> &'static [Struct] {
    STRUCTS
}

/// Finds a struct by its definition name.
pub fn structure(definition: &str) -> Option<&'static Struct> {
    STRUCTS.iter().find(|found| found.definition == definition)
}

/// Finds a kind in a version.
pub fn kind(group: &str, version: &str, kind: &str) -> Option<&'static Kind> {
    KINDS.iter().find(|found| found.kind == kind && found.group == group && found.version == version)
}

/// Upstream's description of a field; only for fields that columns show.
pub(crate) fn words(definition: &str, property: &str) -> &'static str {
    let found = WORDS.iter().find(|(known, name, _)| *known == definition && *name == property);
    found.expect("the build lists the fields of columns").2
}

/// The struct of every schema in a custom resource definition.
pub(crate) fn json_schema_props() -> &'static Struct {
    json_schema_props_type().structure().expect("it is one")
}

/// The type of [`json_schema_props`].
pub(crate) fn json_schema_props_type() -> &'static Type {
    &JSON_SCHEMA_PROPS
}

impl Kind {
    /// The struct.
    pub fn structure(&self) -> &'static Struct {
        &STRUCTS[self.structure]
    }

    /// `apps/v1`, or `v1` for the core API.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.to_owned() } else { format!("{}/{}", self.group, self.version) }
    }
}

impl Struct {
    /// Finds a field by its JSON name.
    pub fn field(&self, name: &str) -> Option<&'static Field> {
        let at = self.fields.binary_search_by(|field| field.name.cmp(name)).ok()?;
        Some(&self.fields[at])
    }
}

impl Type {
    /// The struct, if the type is one.
    pub fn structure(&self) -> Option<&'static Struct> {
        match self {
            Self::Struct(at) => Some(&STRUCTS[*at]),
            _ => None,
        }
    }

    /// The underlying type of a named type.
    pub fn underlying(&self) -> &Type {
        match self {
            Self::Named(_, below) => below.underlying(),
            other => other,
        }
    }

    /// The Go name, as in error messages.
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
