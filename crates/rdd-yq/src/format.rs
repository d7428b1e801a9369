//! Parses documents and writes results: YAML, JSON, properties.

use rdd_meta::go_text::json_float;
use rdd_yaml::{ScalarStyle, YamlContent, YamlNode, YamlStream};
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

use crate::{
    YqError,
    nodes::{Kind, NodeId, NodeKey, Nodes},
    operators::{float, float_text, integer},
};

/// The format of an input file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InputFormat {
    /// YAML, in any number of documents.
    Yaml,
    /// JSON, in any number of documents.
    Json,
}

/// The format of results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputFormat {
    /// YAML.
    Yaml,
    /// JSON.
    Json,
    /// `path.to.value = text`.
    Properties,
}

/// Options for writing results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutputOptions {
    /// The format.
    pub format: OutputFormat,
    /// The indentation of one level. With 0, JSON is written on one line.
    pub indent: usize,
    /// Whether scalars are written without quotes. `None` means yes, except for JSON.
    pub unwrap_scalars: Option<bool>,
    /// Whether to write `---` between documents.
    pub separators: bool,
    /// Whether to drop the styles of the input.
    pub pretty: bool,
}

impl Default for OutputOptions {
    fn default() -> Self {
        Self { format: OutputFormat::Yaml, indent: 2, unwrap_scalars: None, separators: true, pretty: false }
    }
}

/// Parses all documents of a text.
pub(crate) fn read(text: &str, format: InputFormat) -> Result<YamlStream, YqError> {
    match format {
        InputFormat::Yaml => rdd_yaml::read_documents(text).map_err(|error| YqError::new(error.to_string())),
        InputFormat::Json => {
            let trees = serde_json::Deserializer::from_str(text).into_iter::<JsonTree>();
            let documents = trees.map(|tree| tree.map(|JsonTree(node)| node)).collect::<Result<_, _>>();
            let documents = documents.map_err(|error| YqError::new(error.to_string()))?;
            Ok(YamlStream { documents, has_comments: false, has_anchors: false })
        }
    }
}

/// JSON as a tree that keeps the order of keys.
struct JsonTree(YamlNode);

fn json_scalar(text: String, style: ScalarStyle) -> JsonTree {
    JsonTree(YamlNode { tag: None, content: YamlContent::Scalar { text, style } })
}

impl<'de> Deserialize<'de> for JsonTree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(JsonVisitor)
    }
}

struct JsonVisitor;

impl<'de> Visitor<'de> for JsonVisitor {
    type Value = JsonTree;

    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<JsonTree, E> {
        Ok(json_scalar("null".to_owned(), ScalarStyle::Plain))
    }

    fn visit_bool<E>(self, value: bool) -> Result<JsonTree, E> {
        Ok(json_scalar(value.to_string(), ScalarStyle::Plain))
    }

    fn visit_i64<E>(self, value: i64) -> Result<JsonTree, E> {
        Ok(json_scalar(value.to_string(), ScalarStyle::Plain))
    }

    fn visit_u64<E>(self, value: u64) -> Result<JsonTree, E> {
        Ok(json_scalar(value.to_string(), ScalarStyle::Plain))
    }

    fn visit_f64<E>(self, value: f64) -> Result<JsonTree, E> {
        Ok(json_scalar(float_text(value), ScalarStyle::Plain))
    }

    fn visit_str<E>(self, value: &str) -> Result<JsonTree, E> {
        Ok(json_scalar(value.to_owned(), ScalarStyle::Text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<JsonTree, A::Error> {
        let mut items = Vec::new();
        while let Some(JsonTree(item)) = access.next_element()? {
            items.push(item);
        }
        Ok(JsonTree(YamlNode { tag: None, content: YamlContent::Sequence { items, is_flow: false } }))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<JsonTree, A::Error> {
        let mut entries = Vec::new();
        while let Some((key, JsonTree(value))) = access.next_entry::<String, JsonTree>()? {
            entries.push((json_scalar(key, ScalarStyle::Text).0, value));
        }
        Ok(JsonTree(YamlNode { tag: None, content: YamlContent::Mapping { entries, is_flow: false } }))
    }
}

/// Writes a node with a line break at the end.
pub(crate) fn write_node(nodes: &Nodes, at: NodeId, format: OutputFormat, indent: usize) -> Result<String, YqError> {
    match format {
        OutputFormat::Yaml => Ok(rdd_yaml::write_document(&nodes.unload(at)?, indent)),
        OutputFormat::Json => {
            let mut text = String::new();
            // For its error: `unload` checks the depth, which the recursion below relies on.
            nodes.unload(at)?;
            write_json(nodes, at, indent, 0, &mut text)?;
            text.push('\n');
            Ok(text)
        }
        OutputFormat::Properties => {
            nodes.unload(at)?;
            let mut text = String::new();
            write_properties(nodes, at, nodes.path(at).len(), &mut text);
            Ok(text)
        }
    }
}

fn write_json(nodes: &Nodes, at: NodeId, indent: usize, level: usize, text: &mut String) -> Result<(), YqError> {
    let children: Vec<(Option<NodeId>, NodeId)> = match nodes[at].kind {
        Kind::Scalar => return write_json_scalar(nodes, at, text),
        Kind::Sequence => nodes[at].content.iter().map(|item| (None, *item)).collect(),
        Kind::Mapping => nodes.entries(at).into_iter().map(|(key, value)| (Some(key), value)).collect(),
    };
    let (open, close) = if nodes[at].kind == Kind::Mapping { ('{', '}') } else { ('[', ']') };
    text.push(open);
    let is_empty = children.is_empty();
    for (place, (key, value)) in children.into_iter().enumerate() {
        if place > 0 {
            text.push(',');
        }
        new_line(indent, level + 1, text);
        if let Some(key) = key {
            write_json_text(&nodes[key].text, text);
            text.push_str(if indent == 0 { ":" } else { ": " });
        }
        write_json(nodes, value, indent, level + 1, text)?;
    }
    if !is_empty {
        new_line(indent, level, text);
    }
    text.push(close);
    Ok(())
}

fn new_line(indent: usize, level: usize, text: &mut String) {
    if indent > 0 {
        text.push('\n');
        text.push_str(&" ".repeat(indent * level));
    }
}

fn write_json_text(value: &str, text: &mut String) {
    let quoted = serde_json::Value::from(value).to_string();
    // Go's encoder escapes these two, serde's does not.
    text.push_str(&quoted.replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029"));
}

fn write_json_scalar(nodes: &Nodes, at: NodeId, text: &mut String) -> Result<(), YqError> {
    let node = &nodes[at];
    match node.basic_tag() {
        "!!null" => text.push_str("null"),
        "!!bool" => text.push_str(if node.is_truthy() { "true" } else { "false" }),
        "!!int" | "!!float" => match (integer(&node.text), float(&node.text)) {
            (Some(number), _) => text.push_str(&number.to_string()),
            (None, Some(number)) if number.is_finite() => text.push_str(&json_float(number)),
            _ => return Err(YqError::new(format!("json: unsupported value: {}", node.text))),
        },
        _ => write_json_text(&node.text, text),
    }
    Ok(())
}

/// Writes one line for each scalar below a node, with its path relative to the first `from` keys.
fn write_properties(nodes: &Nodes, at: NodeId, from: usize, text: &mut String) {
    if nodes[at].kind != Kind::Scalar {
        nodes.children(at).into_iter().for_each(|child| write_properties(nodes, child, from, text));
        return;
    }
    let path: Vec<String> = nodes.path(at)[from..]
        .iter()
        .map(|key| match key {
            NodeKey::Text(key) => nodes[*key].text.clone(),
            NodeKey::Index(index) => index.to_string(),
        })
        .collect();
    let value = nodes[at].text.replace('\\', "\\\\").replace('\n', "\\n");
    text.push_str(&format!("{} = {value}\n", path.join(".")));
}
