//! Whole streams of documents as trees that keep what a reader of values forgets: order, quotes, numbers as they were written.

use super::{
    compose::{Composer, Content, Nodes},
    read::Error,
};

/// What the documents of a stream may consist of, copies by aliases included.
const NODES_MAX: usize = 5_000_000;

/// A node of a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct YamlNode {
    /// The tag, if one was written, in its short form.
    pub tag: Option<String>,
    /// What is in it.
    pub content: YamlContent,
}

/// What a node holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum YamlContent {
    /// A text, a number, a truth value or nothing, as it was written.
    Scalar {
        /// The text without quotes.
        text: String,
        /// How it was written.
        style: ScalarStyle,
    },
    /// A list.
    Sequence {
        /// What is in it.
        items: Vec<YamlNode>,
        /// Whether it is in brackets.
        is_flow: bool,
    },
    /// Keys and values, in their order.
    Mapping {
        /// What is in it.
        entries: Vec<(YamlNode, YamlNode)>,
        /// Whether it is in braces.
        is_flow: bool,
    },
}

/// How a scalar is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScalarStyle {
    /// Without quotes: what it is follows from its text.
    Plain,
    /// A string, with quotes only if it needs them. Never read, only written.
    Text,
    /// In single quotes.
    SingleQuoted,
    /// In double quotes.
    DoubleQuoted,
    /// After `|`.
    Literal,
    /// After `>`.
    Folded,
}

/// The documents of a text, and what their trees do not keep.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct YamlStream {
    /// The documents in their order.
    pub documents: Vec<YamlNode>,
    /// Whether there are comments.
    pub has_comments: bool,
    /// Whether there are anchors. Aliases are replaced by what they stand for, and merge keys by what they bring.
    pub has_anchors: bool,
}

/// Reads all documents of a text. Time and memory are bounded, aliases included.
pub fn read_documents(text: &str) -> Result<YamlStream, Error> {
    let mut composer = Composer::new(text, true);
    let mut roots = Vec::new();
    while let Some(root) = composer.next_document()? {
        roots.push(root);
    }
    let mut builder = Builder { nodes: composer.nodes(), following: Vec::new(), built: 0 };
    let has_anchors = composer.has_anchors();
    let documents = roots.into_iter().map(|root| builder.build(root, 0)).collect::<Result<_, _>>()?;
    Ok(YamlStream { documents, has_comments: composer.has_comments(), has_anchors })
}

struct Builder<'n, 't> {
    nodes: &'n Nodes<'t>,
    following: Vec<usize>,
    built: usize,
}

impl Builder<'_, '_> {
    fn build(&mut self, at: usize, depth: usize) -> Result<YamlNode, Error> {
        self.built += 1;
        if self.built > NODES_MAX || depth > super::read::DEPTH_MAX {
            return Err(Error::new("yaml: document contains excessive aliasing"));
        }
        let nodes = self.nodes;
        let node = &nodes.all[at];
        let tag = node.tag.as_deref().map(str::to_owned);
        Ok(match &node.content {
            Content::Scalar { text, tag, style, .. } => YamlNode {
                tag: tag.as_deref().map(str::to_owned),
                content: YamlContent::Scalar { text: text.to_string(), style: *style },
            },
            Content::Sequence(children) => {
                let items = children.iter().map(|child| self.build(*child, depth + 1)).collect::<Result<_, _>>()?;
                YamlNode { tag, content: YamlContent::Sequence { items, is_flow: node.is_flow } }
            }
            Content::Mapping(children) => {
                let mut entries = Vec::new();
                let mut merged = Vec::new();
                for pair in children.chunks_exact(2) {
                    let key = self.build(pair[0], depth + 1)?;
                    let value = self.build(pair[1], depth + 1)?;
                    if is_merge(&key) { merge(value, &mut merged)? } else { entries.push((key, value)) }
                }
                // What the mapping says itself has precedence.
                merged.retain(|(key, _)| !has_key(&entries, key));
                merged.extend(entries);
                YamlNode { tag, content: YamlContent::Mapping { entries: merged, is_flow: node.is_flow } }
            }
            Content::Alias { name, target } => {
                if self.following.contains(target) {
                    return Err(Error::new(format!("yaml: anchor '{name}' value contains itself")));
                }
                self.following.push(*target);
                let built = self.build(*target, depth + 1)?;
                self.following.pop();
                built
            }
        })
    }
}

fn is_merge(key: &YamlNode) -> bool {
    matches!(&key.content, YamlContent::Scalar { text, style: ScalarStyle::Plain } if text == "<<" && key.tag.is_none())
}

/// Adds the entries of a mapping, or of several of which the first has precedence.
fn merge(value: YamlNode, merged: &mut Vec<(YamlNode, YamlNode)>) -> Result<(), Error> {
    match value.content {
        YamlContent::Mapping { entries, .. } => {
            for (key, value) in entries {
                if !has_key(merged, &key) {
                    merged.push((key, value));
                }
            }
            Ok(())
        }
        YamlContent::Sequence { items, .. } => items.into_iter().try_for_each(|item| match item.content {
            YamlContent::Mapping { .. } => merge(item, merged),
            _ => Err(want_map()),
        }),
        YamlContent::Scalar { .. } => Err(want_map()),
    }
}

fn has_key(entries: &[(YamlNode, YamlNode)], key: &YamlNode) -> bool {
    entries.iter().any(|(known, _)| known.content == key.content)
}

fn want_map() -> Error {
    Error::new("yaml: map merge requires map or sequence of maps as the value")
}
