//! The schema of one version of a definition, parsed and compiled on first use.

use std::{
    fmt,
    sync::{Arc, OnceLock},
};

use bytes::Bytes;
use rdd_cel::RuleSet;
use rdd_patch::shape::Shape;
use rdd_schema::{Props, Structural, pattern};
use serde::{
    Deserialize,
    de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor},
};
use serde_json::Value;

use super::{rules, shape};

/// A schema that is compiled on first use, so that it costs no time when the server starts and no memory while it is unused.
pub(super) struct Schema {
    /// The JSON of the definition; the bytes are shared with the state.
    definition: Bytes,
    /// The index of the version.
    version: usize,
    structural: OnceLock<Result<Arc<Structural>, Unusable>>,
    /// Whether a pattern may take long even for a short text. Set when the schema is compiled.
    has_slow_pattern: OnceLock<bool>,
    rules: OnceLock<Option<Box<RuleSet>>>,
    shape: OnceLock<Shape>,
}

/// Why a schema cannot be used. Definitions are validated before they are stored, so this is corruption.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Unusable {
    #[error("read the schema of a stored CustomResourceDefinition: {0}")]
    Json(Arc<serde_json::Error>),
    #[error("read the schema of a stored CustomResourceDefinition: {0}")]
    Props(rdd_schema::props::PropsError),
    #[error("compile the schema of a stored CustomResourceDefinition: {0}")]
    Structural(rdd_schema::structural::StructuralError),
}

impl Schema {
    pub(super) fn new(definition: Bytes, version: usize) -> Self {
        Self {
            definition,
            version,
            structural: OnceLock::new(),
            has_slow_pattern: OnceLock::new(),
            rules: OnceLock::new(),
            shape: OnceLock::new(),
        }
    }

    /// The compiled schema.
    pub(super) fn structural(&self) -> Result<&Arc<Structural>, &Unusable> {
        self.structural.get_or_init(|| self.compile()).as_ref()
    }

    /// The compiled rules, or `None` if there are none.
    pub(super) fn rules(&self) -> Option<&RuleSet> {
        let compile = || rules::compile(self.structural().ok()?, true).map(Box::new);
        self.rules.get_or_init(compile).as_deref()
    }

    /// Whether the next use may take long, because it compiles the schema, evaluates rules, or matches slow patterns.
    pub(super) fn is_expensive(&self) -> bool {
        self.rules.get().is_none_or(Option::is_some) || self.has_slow_pattern.get() != Some(&false)
    }

    /// Whether the status as a whole has a default. It compiles nothing, because it is also called for kinds that are only read.
    pub(super) fn has_status_default(&self) -> bool {
        match self.structural.get() {
            Some(Ok(schema)) => schema.property("status").is_some_and(|status| status.default.is_some()),
            _ => self.source().is_ok_and(|source| {
                source.pointer("/properties/status/default").is_some_and(|default| !default.is_null())
            }),
        }
    }

    /// The merge shape of the schema.
    pub(super) fn shape(&self) -> &Shape {
        self.shape.get_or_init(|| self.structural().map_or_else(|_| Shape::deduced(), shape::of))
    }

    /// The schema as its author wrote it; null if the version has none.
    pub(super) fn source(&self) -> Result<Value, serde_json::Error> {
        let mut deserializer = serde_json::Deserializer::from_slice(&self.definition);
        deserializer.deserialize_map(At::Definition(self.version)).map(Option::unwrap_or_default)
    }

    fn compile(&self) -> Result<Arc<Structural>, Unusable> {
        let source = self.source().map_err(|error| Unusable::Json(Arc::new(error)))?;
        let props = Props::parse(&source).map_err(Unusable::Props)?;
        self.has_slow_pattern.get_or_init(|| props.any(&mut |props| pattern::may_be_slow(&props.pattern)));
        Structural::compile(&props).map_err(Unusable::Structural)
    }
}

impl fmt::Debug for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_compiled = self.structural.get().is_some();
        f.debug_struct("Schema").field("version", &self.version).field("compiled", &is_compiled).finish_non_exhaustive()
    }
}

/// The position of the parser on the path `spec.versions[n].schema.openAPIV3Schema`. It skips everything else without allocating.
#[derive(Clone, Copy)]
enum At {
    Definition(usize),
    Spec(usize),
    Versions(usize),
    Version,
    Holder,
}

impl At {
    /// The next field of the path.
    fn field(self) -> &'static str {
        match self {
            Self::Definition(_) => "spec",
            Self::Spec(_) => "versions",
            Self::Versions(_) | Self::Version => "schema",
            Self::Holder => "openAPIV3Schema",
        }
    }

    fn next(self) -> Option<Self> {
        match self {
            Self::Definition(version) => Some(Self::Spec(version)),
            Self::Spec(version) => Some(Self::Versions(version)),
            Self::Versions(_) => Some(Self::Version),
            Self::Version => Some(Self::Holder),
            Self::Holder => None,
        }
    }
}

impl<'de> serde::de::DeserializeSeed<'de> for At {
    type Value = Option<Value>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for At {
    type Value = Option<Value>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a CustomResourceDefinition on the way to {:?}", self.field())
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Self::Value, M::Error> {
        let mut found = None;
        while let Some(key) = map.next_key::<std::borrow::Cow<'de, str>>()? {
            if key != self.field() {
                map.next_value::<IgnoredAny>()?;
            } else if let Some(next) = self.next() {
                found = map.next_value_seed(next)?;
            } else {
                found = Some(map.next_value()?);
            }
        }
        Ok(found)
    }

    fn visit_seq<S: SeqAccess<'de>>(self, mut list: S) -> Result<Self::Value, S::Error> {
        let Self::Versions(wanted) = self else { return Err(serde::de::Error::custom("unexpected list")) };
        let mut found = None;
        for at in 0.. {
            let more = if at == wanted {
                list.next_element_seed(Self::Version)?.map(|schema| found = schema).is_some()
            } else {
                list.next_element::<IgnoredAny>()?.is_some()
            };
            if !more {
                break;
            }
        }
        Ok(found)
    }
}

/// Whether all versions have the same schema, so that a conversion prunes nothing.
pub(super) fn have_same_schema(kinds: &[Arc<super::CustomKind>]) -> bool {
    let Some(first) = kinds.first() else { return true };
    // One pass over the definition; reading the versions one by one would parse it once per version.
    let Ok(sources) = serde_json::from_slice::<Sources>(&first.schema().definition) else { return false };
    sources.spec.versions.windows(2).all(|pair| pair[0].source() == pair[1].source())
}

/// The schemas of all versions of a definition.
#[derive(Deserialize)]
struct Sources {
    spec: SourceVersions,
}

#[derive(Deserialize)]
struct SourceVersions {
    versions: Vec<SourceVersion>,
}

#[derive(Deserialize)]
struct SourceVersion {
    schema: Option<SourceSchema>,
}

impl SourceVersion {
    fn source(&self) -> Option<&Value> {
        self.schema.as_ref()?.schema.as_ref()
    }
}

#[derive(Deserialize)]
struct SourceSchema {
    #[serde(rename = "openAPIV3Schema")]
    schema: Option<Value>,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_schema_of_one_version_is_found_among_others() {
        let definition = json!({"metadata": {"schema": 1}, "spec": {"versions": [
            {"name": "v1", "schema": {"openAPIV3Schema": {"type": "object", "title": "one"}}},
            {"name": "v2", "schema": {"openAPIV3Schema": {"type": "object", "title": "two"}}, "served": true},
            {"name": "v3"}]}, "status": {"versions": []}});
        let definition = Bytes::from(definition.to_string());
        let source = |version| Schema::new(definition.clone(), version).source().unwrap();
        assert_eq!(source(0)["title"], "one");
        assert_eq!(source(1)["title"], "two");
        assert_eq!((source(2), source(3)), (Value::Null, Value::Null));
        assert!(Schema::new(definition.clone(), 1).structural().is_ok());
        assert!(Schema::new(Bytes::from_static(b"{\"spec\":"), 0).structural().is_err());
        assert!(Schema::new(Bytes::from_static(b"{\"spec\":[]}"), 0).structural().is_err());
    }
}
