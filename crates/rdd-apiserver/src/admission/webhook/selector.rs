//! Label selectors as objects have them: `matchLabels` and `matchExpressions`.

use std::collections::BTreeMap;

use rdd_meta::{
    go_text::quote,
    labels::{LabelSelector, Operator, Requirement},
};
use serde::Deserialize;

/// A selector as it is stored.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Stored {
    match_labels: Option<BTreeMap<String, String>>,
    match_expressions: Option<Vec<Expression>>,
}

#[derive(Debug, Deserialize)]
struct Expression {
    #[serde(default)]
    key: String,
    #[serde(default)]
    operator: String,
    values: Option<Vec<String>>,
}

impl Stored {
    /// The selector, or why it is none, as `LabelSelectorAsSelector` says it.
    pub(super) fn compile(self) -> Result<LabelSelector, String> {
        let mut requirements = Vec::new();
        let mut require = |key: &str, operator, values| {
            Requirement::new(key, operator, values).map(|it| requirements.push(it)).map_err(|error| error.to_string())
        };
        for (key, value) in self.match_labels.unwrap_or_default() {
            require(&key, Operator::Equals, vec![value])?;
        }
        for Expression { key, operator, values } in self.match_expressions.unwrap_or_default() {
            let operator = match operator.as_str() {
                "In" => Operator::In,
                "NotIn" => Operator::NotIn,
                "Exists" => Operator::Exists,
                "DoesNotExist" => Operator::DoesNotExist,
                other => return Err(format!("{} is not a valid label selector operator", quote(other))),
            };
            require(&key, operator, values.unwrap_or_default())?;
        }
        Ok(LabelSelector::from_requirements(requirements))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_and_expressions_must_all_hold() {
        let compile = |json: &str| serde_json::from_str::<Stored>(json).unwrap().compile().map(|it| it.to_string());
        let all = r#"{"matchLabels":{"a":"1"},"matchExpressions":[{"key":"b","operator":"NotIn","values":["2"]},
            {"key":"c","operator":"Exists"},{"key":"d","operator":"DoesNotExist","values":null}]}"#;
        assert_eq!(compile(all).unwrap(), "a=1,b notin (2),c,!d");
        assert_eq!(compile("{}").unwrap(), "");
        let unknown = compile(r#"{"matchExpressions":[{"key":"b","operator":"Near"}]}"#).unwrap_err();
        assert_eq!(unknown, "\"Near\" is not a valid label selector operator");
    }
}
