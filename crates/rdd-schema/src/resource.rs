//! Validation of whole custom resources, in the order of upstream's strategy. CEL rules run after it, in another crate.

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

/// A version of a custom resource, with what decoding and validation need of it.
#[derive(Clone, Copy, Debug)]
pub struct Resource<'a> {
    pub group: &'a str,
    pub version: &'a str,
    pub kind: &'a str,
    pub namespaced: bool,
    pub schema: &'a Structural,
    /// The scale subresource, if the version has one.
    pub scale: Option<&'a Scale>,
}

/// The source of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A client: malformed metadata is an error.
    Request,
    /// The result of an apply, which the schema has typed already. As `Request`, but nulls stay, so that validation reports
    /// them.
    Apply,
    /// The store, which only has objects that were accepted: malformed metadata is dropped, and a missing generation becomes 1.
    Storage,
}

/// The object cannot be decoded, with upstream's text: the server answers 400 Bad Request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct DecodeError(String);

impl Resource<'_> {
    /// Decodes an object of this kind: prunes it, drops nulls, types its metadata and that of embedded resources, and applies
    /// defaults. Returns the unknown fields, for field validation, in upstream's order.
    ///
    /// Objects of another kind, such as options that use the same decoder, only get their metadata typed.
    ///
    /// # Errors
    /// When `kind` or `apiVersion` is not a string, or when metadata is malformed and the origin does not drop it.
    pub fn decode(&self, object: &mut Value, origin: Origin) -> Result<Vec<Finding>, DecodeError> {
        let malformed = if origin == Origin::Storage { Malformed::Drop } else { Malformed::Refuse };
        // Errors of the type come before those of the metadata, as upstream reports them.
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
        // Options such as DeleteOptions use the same decoder; the schema does not apply to them.
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

    /// Converts an object of another version to this version, as upstream's converting codec does: sets the apiVersion, prunes
    /// unknown fields, drops nulls and types the metadata of embedded resources. It applies no defaults.
    pub fn convert(&self, object: &mut Value) {
        object["apiVersion"] = format!("{}/{}", self.group, self.version).into();
        prune::prune(object, self.schema, true);
        default::prune_nulls(object, Some(self.schema));
        // `Malformed::Drop` makes this infallible: malformed metadata is dropped, because the object was accepted before.
        let _ = objectmeta::coerce(&Path::Nil, object, self.schema, false, Malformed::Drop);
    }

    /// Converts an object of another version to what upstream reads back after it stored the object in this version:
    /// [`Self::convert`], then the defaults that a read applies.
    pub fn store(&self, object: &mut Value) {
        self.convert(object);
        default::fill(object, Some(self.schema));
    }

    /// Validates a new object.
    pub fn validate_create(&self, object: &Value) -> Vec<Error> {
        let mut errors = self.type_meta(object);
        // An object of the wrong type gets only the errors of its type here; the schema does not apply to it.
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

    /// Validates an update of the whole object. A list that had duplicates before may keep them.
    pub fn validate_update(&self, new: &Value, old: &Value) -> Vec<Error> {
        let mut errors = self.type_meta(new);
        if errors.is_empty() {
            errors.extend(metadata_update(new, old));
            errors.extend(validate::validate_update(&Path::Nil, self.schema, new, old));
            errors.extend(self.scale.into_iter().flat_map(|scale| scale_spec(new, scale)));
            errors.extend(self.scale.into_iter().flat_map(|scale| scale_status(new, scale)));
        }
        errors.extend(objectmeta::validate(&Path::Nil, new, self.schema, false));
        // Upstream ratchets list types as a whole: one old error turns the check off for the object.
        if listtype::validate(&Path::Nil, self.schema, old).is_empty() {
            errors.extend(listtype::validate(&Path::Nil, self.schema, new));
        }
        errors
    }

    /// Validates an update of the status alone.
    pub fn validate_status_update(&self, new: &Value, old: &Value) -> Vec<Error> {
        let mut errors = self.type_meta(new);
        if errors.is_empty() {
            errors.extend(metadata_update(new, old));
            // Only the schema of `status` applies: upstream validates nothing else on a status update.
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

/// Returns the error that stands for all CEL rules when `errors` contains one that makes their evaluation meaningless.
pub fn rules_not_checked(errors: &[Error]) -> Option<Error> {
    let blocks = |error: &Error| {
        use ErrorKind::{NotSupported, Required, TooLong, TooMany, TypeInvalid};
        matches!(error.kind, NotSupported | Required | TooLong | TooMany | TypeInvalid)
    };
    let detail = "some validation rules were not checked because the object was invalid; correct the existing errors to complete \
                  validation";
    errors.iter().any(blocks).then(|| Error::invalid(Path::Nil, &Value::Null, detail))
}

/// Returns the value at a path of plain fields. An absent field is not an error; a parent that is not an object is.
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

/// Reads the value at `path` with `read`; the error names the type `wanted`.
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

/// Returns the integer at a path of plain fields, if it is present.
///
/// # Errors
/// The text of upstream's `unstructured.NestedInt64`, when the value or a parent has the wrong type.
pub fn nested_integer(path: &str, object: &Value) -> Result<Option<i64>, String> {
    typed(path, object, "int64", Value::as_i64)
}

/// Returns the string at a path of plain fields, if it is present.
///
/// # Errors
/// The text of upstream's `unstructured.NestedString`, when the value or a parent has the wrong type.
pub fn nested_string(path: &str, object: &Value) -> Result<Option<String>, String> {
    typed(path, object, "string", own_text)
}

/// Checks the replica count at `path`: an absent count is valid.
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
