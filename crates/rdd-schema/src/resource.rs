//! The validation of whole custom resources, in the order in which upstream's strategy does it. Rules come after, elsewhere.

use rdd_meta::{go_text, names::NameRule};
use serde_json::Value;

use crate::{
    crd::Scale,
    default,
    field::{Error, ErrorKind, Path},
    listtype,
    objectmeta::{self, Malformed},
    prune,
    strict::Finding,
    structural::Structural,
    validate,
};

/// What a version of a custom resource is validated by.
#[derive(Clone, Copy, Debug)]
pub struct Resource<'a> {
    pub group: &'a str,
    pub version: &'a str,
    pub kind: &'a str,
    pub namespaced: bool,
    pub schema: &'a Structural,
    pub scale: Option<&'a Scale>,
}

/// Where an object comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A client: what is malformed is refused.
    Request,
    /// An apply, whose result the schema has typed already: the same, but nulls stay for the checks to find.
    Apply,
    /// The store: it was accepted once, so malformed metadata is dropped and a missing generation becomes 1.
    Storage,
}

/// An object that cannot be one, in upstream's words: a bad request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct DecodeError(String);

impl Resource<'_> {
    /// Makes an object of this kind what its schema says: prunes it, drops nulls, types its metadata and that of embedded
    /// resources, and fills in defaults. Returns what was unknown, for field validation, in upstream's order.
    ///
    /// Objects of another kind (options that pass through the same door) only get their metadata typed.
    ///
    /// # Errors
    /// When the type is no text or metadata is malformed.
    pub fn decode(&self, object: &mut Value, origin: Origin) -> Result<Vec<Finding>, DecodeError> {
        let malformed = if origin == Origin::Storage { Malformed::Drop } else { Malformed::Refuse };
        let kind = typed("kind", object, "string", own_text).map_err(DecodeError)?.unwrap_or_default();
        let api_version = typed("apiVersion", object, "string", own_text).map_err(DecodeError)?.unwrap_or_default();
        let metadata = match object.get("metadata") {
            Some(metadata) => Some(objectmeta::decode_root(metadata, malformed).map_err(DecodeError)?),
            None => None,
        };
        let (group, version) = match api_version.split_once('/') {
            Some((_, version)) if version.contains('/') => {
                return Err(DecodeError(format!("unexpected GroupVersion string: {api_version}")));
            }
            Some(parts) => parts,
            None => ("", api_version.as_str()),
        };
        let is_ours = group == self.group && kind == self.kind && version == self.version;
        let mut unknown = metadata.as_ref().map(|(_, _, unknown)| unknown.clone()).unwrap_or_default();
        if is_ours {
            unknown.extend(prune::prune(object, self.schema, true));
            if origin != Origin::Apply {
                default::prune_nulls(object, Some(self.schema));
            }
            let coerced = objectmeta::coerce(&Path::Nil, object, self.schema, false, malformed);
            unknown.extend(coerced.map_err(|error| DecodeError(error.to_string()))?);
        }
        if let (Some((mut metadata, generation, _)), Some(entries)) = (metadata, object.as_object_mut()) {
            if is_ours && origin == Origin::Storage && generation == 0 {
                metadata["generation"] = 1.into();
            }
            entries.insert("metadata".to_owned(), metadata);
        }
        if is_ours {
            default::fill(object, Some(self.schema));
        }
        Ok(unknown.into_iter().map(Finding::UnknownField).collect())
    }

    /// Makes an object of another version one of this version, as upstream's converting codec does: sets the apiVersion, prunes
    /// what this schema does not know, drops nulls and types the metadata of embedded resources. Fills in no defaults.
    pub fn convert(&self, object: &mut Value) {
        object["apiVersion"] = format!("{}/{}", self.group, self.version).into();
        prune::prune(object, self.schema, true);
        default::prune_nulls(object, Some(self.schema));
        // Nothing to refuse: what is malformed is dropped, and it was accepted once.
        let _ = objectmeta::coerce(&Path::Nil, object, self.schema, false, Malformed::Drop);
    }

    /// Makes an object of another version what upstream stores and reads again in this one: [`Self::convert`], with the
    /// defaults that reading fills in.
    pub fn store(&self, object: &mut Value) {
        self.convert(object);
        default::fill(object, Some(self.schema));
    }

    /// Errors of a new object.
    pub fn validate_create(&self, object: &Value) -> Vec<Error> {
        let mut errors = self.type_meta(object);
        if errors.is_empty() {
            let name_errors = |name: &str, prefix: bool| NameRule::DnsSubdomain.check_either(name, prefix);
            let metadata = object.get("metadata").unwrap_or(&Value::Null);
            let root = Path::Nil;
            let path = root.child("metadata");
            errors.extend(objectmeta::validate_metadata(&path, metadata, self.namespaced, &name_errors));
            errors.extend(validate::validate(&Path::Nil, self.schema, object));
            errors.extend(self.scale.into_iter().flat_map(|scale| scale_spec(object, scale)));
            errors.extend(self.scale.into_iter().flat_map(|scale| scale_status(object, scale)));
        }
        errors.extend(objectmeta::validate(&Path::Nil, object, self.schema, false));
        errors.extend(listtype::validate(&Path::Nil, self.schema, object));
        errors
    }

    /// Errors of an update of the whole object. Lists that were no sets or maps before need not become such.
    pub fn validate_update(&self, new: &Value, old: &Value) -> Vec<Error> {
        let mut errors = self.type_meta(new);
        if errors.is_empty() {
            errors.extend(metadata_update(new, old));
            errors.extend(validate::validate_update(&Path::Nil, self.schema, new, old));
            errors.extend(self.scale.into_iter().flat_map(|scale| scale_spec(new, scale)));
            errors.extend(self.scale.into_iter().flat_map(|scale| scale_status(new, scale)));
        }
        errors.extend(objectmeta::validate(&Path::Nil, new, self.schema, false));
        if listtype::validate(&Path::Nil, self.schema, old).is_empty() {
            errors.extend(listtype::validate(&Path::Nil, self.schema, new));
        }
        errors
    }

    /// Errors of an update of the status alone.
    pub fn validate_status_update(&self, new: &Value, old: &Value) -> Vec<Error> {
        let mut errors = self.type_meta(new);
        if errors.is_empty() {
            errors.extend(metadata_update(new, old));
            if let (Some(schema), Some(status)) = (self.schema.property("status"), new.get("status")) {
                let root = Path::Nil;
                let before = old.get("status").unwrap_or(&Value::Null);
                errors.extend(validate::validate_update(&root.child("status"), schema, status, before));
            }
            errors.extend(self.scale.into_iter().flat_map(|scale| scale_status(new, scale)));
        }
        if listtype::validate(&Path::Nil, self.schema, old).is_empty() {
            errors.extend(listtype::validate(&Path::Nil, self.schema, new));
        }
        errors
    }

    fn type_meta(&self, object: &Value) -> Vec<Error> {
        let text = |key: &str| object.get(key).and_then(Value::as_str).unwrap_or_default();
        let api_version = format!("{}/{}", self.group, self.version);
        let mut errors = Vec::new();
        for (key, wanted) in [("kind", self.kind), ("apiVersion", &api_version)] {
            if text(key) != wanted {
                errors.push(Error::invalid(key, text(key), format!("must be {wanted}")));
            }
        }
        errors
    }
}

fn own_text(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

fn metadata_update(new: &Value, old: &Value) -> Vec<Error> {
    let root = Path::Nil;
    let metadata = |object: &Value| object.get("metadata").cloned().unwrap_or_default();
    objectmeta::validate_metadata_update(&root.child("metadata"), &metadata(new), &metadata(old))
}

/// The error that stands for all rules when `errors` has one that makes evaluating them pointless.
pub fn rules_not_checked(errors: &[Error]) -> Option<Error> {
    let blocks = |error: &Error| {
        use ErrorKind::{NotSupported, Required, TooLong, TooMany, TypeInvalid};
        matches!(error.kind, NotSupported | Required | TooLong | TooMany | TypeInvalid)
    };
    let detail = "some validation rules were not checked because the object was invalid; correct the existing errors to complete \
                  validation";
    errors.iter().any(blocks).then(|| Error::invalid(Path::Nil, &Value::Null, detail))
}

/// A value by a path of plain fields; absent is fine, an object that is none is not.
fn nested<'v>(path: &str, object: &'v Value) -> Result<Option<&'v Value>, String> {
    let fields: Vec<&str> = path.strip_prefix('.').unwrap_or(path).split('.').collect();
    let mut value = object;
    for (at, field) in fields.iter().enumerate() {
        match value {
            Value::Null => return Ok(None),
            Value::Object(entries) => match entries.get(*field) {
                Some(below) => value = below,
                None => return Ok(None),
            },
            other => return Err(accessor_error(&fields[..=at], other, "map[string]interface{}")),
        }
    }
    Ok(Some(value))
}

fn accessor_error(fields: &[&str], value: &Value, wanted: &str) -> String {
    let (shown, kind) = (go_text::plain(value), go_text::type_name(value));
    format!(".{} accessor error: {shown} is of the type {kind}, expected {wanted}", fields.join("."))
}

/// The value at `path` as `read` takes it, or why it is not `wanted`.
fn typed<T>(path: &str, object: &Value, wanted: &str, read: fn(&Value) -> Option<T>) -> Result<Option<T>, String> {
    match nested(path, object)? {
        None => Ok(None),
        Some(value) => match read(value) {
            Some(value) => Ok(Some(value)),
            None => {
                let fields: Vec<&str> = path.strip_prefix('.').unwrap_or(path).split('.').collect();
                Err(accessor_error(&fields, value, wanted))
            }
        },
    }
}

/// The integer at a path of plain fields, or why what is there is none.
///
/// # Errors
/// In the words of upstream's `unstructured.NestedInt64`.
pub fn nested_integer(path: &str, object: &Value) -> Result<Option<i64>, String> {
    typed(path, object, "int64", Value::as_i64)
}

/// The string at a path of plain fields, or why what is there is none.
///
/// # Errors
/// In the words of upstream's `unstructured.NestedString`.
pub fn nested_string(path: &str, object: &Value) -> Result<Option<String>, String> {
    typed(path, object, "string", own_text)
}

fn replicas(path: &str, object: &Value) -> Option<Error> {
    match typed(path, object, "int64", Value::as_i64) {
        Err(detail) => Some(Error::invalid(path, 0, detail)),
        Ok(Some(count)) if count < 0 => Some(Error::invalid(path, count, "should be a non-negative integer")),
        Ok(Some(count)) if count > i64::from(i32::MAX) => {
            Some(Error::invalid(path, count, format!("should be less than or equal to {}", i32::MAX)))
        }
        Ok(_) => None,
    }
}

fn scale_spec(object: &Value, scale: &Scale) -> Option<Error> {
    replicas(&scale.spec_replicas_path, object)
}

fn scale_status(object: &Value, scale: &Scale) -> Vec<Error> {
    let mut errors: Vec<Error> = replicas(&scale.status_replicas_path, object).into_iter().collect();
    if let Some(path) = &scale.label_selector_path
        && let Err(detail) = typed(path, object, "string", |value| value.as_str().map(drop))
    {
        errors.push(Error::invalid(path, "", detail));
    }
    errors
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::props::Props;

    #[test]
    fn what_a_client_sends_becomes_what_the_schema_says() {
        let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
            "a": {"type": "string", "default": "x"}, "t": {"type": "object", "x-kubernetes-embedded-resource": true}}}}});
        let schema = Structural::compile(&Props::parse(&schema).unwrap()).unwrap();
        let resource =
            Resource { group: "g.io", version: "v1", kind: "Foo", namespaced: true, schema: &schema, scale: None };
        let mut object = json!({"apiVersion": "g.io/v1", "kind": "Foo", "metadata": {"name": "n", "odd": 1}, "other": 1,
            "spec": {"a": null, "t": {"metadata": {"odd": 1}}}});
        let findings = resource.decode(&mut object, Origin::Request).unwrap();
        assert_eq!(
            crate::strict::decoding_error(&findings).unwrap(),
            r#"strict decoding error: unknown field "metadata.odd", unknown field "other", unknown field "spec.t.metadata.odd""#
        );
        assert_eq!(object["spec"], json!({"a": "x", "t": {"metadata": {}}}));
        let error = resource.decode(&mut json!({"kind": 1}), Origin::Request).unwrap_err();
        assert_eq!(error.to_string(), ".kind accessor error: 1 is of the type int64, expected string");
    }

    #[test]
    fn a_resource_is_checked_as_a_whole() {
        let schema =
            Props::parse(&json!({"type": "object", "properties": {"spec": {"type": "object", "required": ["a"]}}}))
                .unwrap();
        let schema = Structural::compile(&schema).unwrap();
        let scale = Scale {
            spec_replicas_path: ".spec.n".into(),
            status_replicas_path: ".status.n".into(),
            label_selector_path: None,
        };
        let resource = Resource {
            group: "g.io",
            version: "v1",
            kind: "Foo",
            namespaced: true,
            schema: &schema,
            scale: Some(&scale),
        };
        let object = json!({"apiVersion": "g.io/v1", "kind": "Foo", "metadata": {"name": "X"}, "spec": {"n": "1"}, "status": {"n": -1}});
        let fields: Vec<String> = resource.validate_create(&object).into_iter().map(|error| error.path).collect();
        assert_eq!(fields, ["metadata.name", "metadata.namespace", "spec.a", ".spec.n", ".status.n"]);
        assert!(rules_not_checked(&resource.validate_create(&object)).is_some());
    }
}
