//! A test kind with a size, which is selectable and a table column.

use std::sync::LazyLock;

use rdd_apiserver::registry::{Column, Finding, Kind, Origin};
use rdd_meta::{FieldError, Status, metadata::Metadata, names::NameRule, time::Timestamp};
use rdd_patch::{shape::Shape, ssa};
use serde_json::{Value, json};

/// A kind with a size. It validates nothing, because these tests are about reading.
#[derive(Debug)]
pub(crate) struct Thing;

static COLUMNS: LazyLock<[Column; 3]> = LazyLock::new(|| {
    let column = |name: &str, kind: &str, format: &str| Column {
        name: name.to_owned(),
        kind: kind.to_owned(),
        format: format.to_owned(),
        description: format!("<{name}>"),
        priority: 0,
    };
    [column("Name", "string", "name"), column("Size", "integer", ""), column("Age", "date", "")]
});
static FILTER: LazyLock<ssa::Filter> = LazyLock::new(ssa::Filter::default);
static FIELDS: LazyLock<Vec<String>> = LazyLock::new(|| vec!["spec.size".to_owned()]);

impl Kind for Thing {
    fn decode(&self, object: &mut Value, _: Origin) -> Result<Vec<Finding>, Status> {
        self.default(object);
        Ok(Vec::new())
    }

    fn default(&self, object: &mut Value) {
        if object["spec"].get("color").is_none() {
            object["spec"]["color"] = json!("grey");
        }
    }

    fn shape(&self) -> Shape {
        Shape::deduced()
    }

    fn empty(&self) -> std::borrow::Cow<'_, Value> {
        std::borrow::Cow::Owned(json!({}))
    }

    fn reset_fields(&self, _: &str) -> &ssa::Filter {
        &FILTER
    }

    fn name_rule(&self) -> NameRule {
        NameRule::DnsSubdomain
    }

    fn prepare_for_create(&self, _: &mut Value) {}

    fn prepare_for_update(&self, _: &str, _: &mut Value, _: &Value) {}

    fn validate_create(&self, _: &Value) -> Vec<FieldError> {
        Vec::new()
    }

    fn validate_update(&self, _: &str, _: &Value, _: &Value) -> Vec<FieldError> {
        Vec::new()
    }

    fn selectable_fields(&self) -> &[String] {
        &FIELDS
    }

    fn selectable_field(&self, object: &Value, field: &str) -> String {
        assert_eq!(field, "spec.size");
        object["spec"]["size"].as_i64().map(|size| size.to_string()).unwrap_or_default()
    }

    fn columns(&self) -> &[Column] {
        &*COLUMNS
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        let metadata = Metadata::of(object);
        let age = metadata.creation_timestamp().map_or("<unknown>".to_owned(), |created| created.age(now));
        vec![metadata.name().into(), object["spec"]["size"].clone(), age.into()]
    }
}
