//! Our answers, in the format of the oracle.

use base64::Engine as _;
use rdd_cel::{CompileError, Declarations, Environment, Fault, JsonSchema, Outcome, Shape, Type, Value};
use serde_json::{Value as Json, json};
use std::sync::Arc;

/// A schema, and the environment to evaluate expressions with it.
pub(crate) struct Ground {
    pub(crate) schema: Json,
    pub(crate) shape: Shape,
    environment: Environment,
}

impl Ground {
    pub(crate) fn new(schema: Json) -> Self {
        let shape = Shape::new(&JsonSchema::new(&schema), false);
        let (self_type, declarations) = Declarations::of(&shape, "selfType");
        let self_type = self_type.unwrap_or(Type::Dyn);
        let environment = Environment::new()
            .with_types(Arc::new(declarations))
            .with_variable("self", self_type.clone())
            .with_variable("oldSelf", self_type);
        Self { schema, shape, environment }
    }

    pub(crate) fn answer(&self, expression: &str, own: &Json, old: Option<&Json>, limit: u64) -> Json {
        let program = match self.environment.compile(expression) {
            Ok(program) => program,
            Err(CompileError::Issues(issues)) => return json!({"compile": issues.to_string()}),
            Err(other) => return json!({"program": other.to_string()}),
        };
        let mut variables = vec![("self", self.shape.value(own))];
        variables.extend(old.map(|old| ("oldSelf", self.shape.value(old))));
        let evaluation = program.evaluate(&variables, limit);
        let mut answer = json!({"type": program.output_type().to_string(), "cost": evaluation.cost});
        match evaluation.outcome {
            Ok(value) => answer["value"] = encode(&value),
            Err(fault) => answer["error"] = json!(fault.to_string()),
        }
        answer
    }
}

fn encode_outcome(outcome: Outcome<'_>) -> Json {
    match outcome {
        Ok(value) => encode(&value),
        Err(Fault::Error(text)) => json!({"err": text}),
        Err(other) => json!({"err": other.to_string()}),
    }
}

fn encode(value: &Value<'_>) -> Json {
    match value {
        Value::Null => Json::Null,
        Value::Bool(value) => json!(value),
        Value::Int(value) => json!({"i": value.to_string()}),
        Value::Uint(value) => json!({"u": value.to_string()}),
        Value::Double(value) => {
            let canonical = if value.is_nan() { 0x7ff8_0000_0000_0001 } else { value.to_bits() };
            json!({"d": format!("{canonical:x}")})
        }
        Value::String(text) => json!({"s": &**text}),
        Value::Bytes(octets) => json!({"b": base64::engine::general_purpose::STANDARD.encode(octets)}),
        Value::Timestamp(moment) => {
            let utc = jiff::Timestamp::new(moment.seconds, moment.nanos as i32).expect("timestamps are in range");
            json!({"ts": utc.to_string()})
        }
        Value::Duration(nanos) => json!({"dur": nanos.to_string()}),
        Value::Optional(None) => json!({"o": []}),
        Value::Optional(Some(inner)) => json!({"o": [encode(inner)]}),
        Value::Type(_) => json!({"type": value_text(value)}),
        Value::Quantity(quantity) => json!({"q": quantity.to_string()}),
        Value::Url(_) | Value::Ip(_) | Value::Cidr(_) | Value::Semver(_) | Value::Format(_) => {
            json!({"x": value_text(value)})
        }
        Value::List(list) => {
            json!({"l": (0..list.len()).map(|index| encode_outcome(list.get(index))).collect::<Vec<_>>()})
        }
        Value::Map(map) => {
            let mut entries: Vec<(String, Json)> = map
                .keys()
                .iter()
                .map(|key| {
                    let value = map.find(key).map_or_else(
                        |fault| json!({"err": fault.to_string()}),
                        |value| value.map_or(Json::Null, |value| encode(&value)),
                    );
                    let key = encode(key);
                    (key.to_string(), json!([key, value]))
                })
                .collect();
            entries.sort_by(|a, b| a.0.cmp(&b.0));
            json!({"m": entries.into_iter().map(|(_, entry)| entry).collect::<Vec<_>>()})
        }
        // No schema has one, so no compared expression returns one.
        Value::Authorization(_) => json!({"other": value.type_name()}),
        Value::Unknown(_) => json!({"other": "unknown"}),
    }
}

fn value_text(value: &Value<'_>) -> String {
    match value {
        Value::Url(url) => url.to_string(),
        Value::Ip(ip) => ip.to_string(),
        Value::Cidr(cidr) => cidr.to_string(),
        Value::Semver(version) => version.to_string(),
        Value::Format(format) => format.name.to_owned(),
        Value::Type(named) => named.name().to_owned(),
        other => format!("{other:?}"),
    }
}
