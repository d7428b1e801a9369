//! Reads all documents of a text as trees that keep what JSON values lose: the order of keys, quotes, and numbers as
//! written.

use super::{
    compose::{Composer, Content, Nodes},
    read::Error,
};

/// The number of nodes that the trees of a stream may have, copies by aliases included.
const NODES_MAX: usize = 5_000_000;

/// A node of a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct YamlNode {
    /// The tag in its short form, if the text has one.
    pub tag: Option<String>,
    /// The content of the node.
    pub content: YamlContent,
}

/// The content of a [`YamlNode`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum YamlContent {
    /// A string, number, boolean or null, as it was written.
    Scalar {
        /// The text without quotes.
        text: String,
        /// How the scalar was written.
        style: ScalarStyle,
    },
    /// A sequence.
    Sequence {
        /// The items.
        items: Vec<YamlNode>,
        /// Whether it is written in brackets (flow style).
        is_flow: bool,
    },
    /// A mapping, with its keys in the order of the text.
    Mapping {
        /// Keys with their values.
        entries: Vec<(YamlNode, YamlNode)>,
        /// Whether it is written in braces (flow style).
        is_flow: bool,
    },
}

/// How a scalar is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScalarStyle {
    /// Without quotes: the type follows from the text.
    Plain,
    /// A string that gets quotes only if it needs them. Only for writing; a reader never returns it.
    Text,
    /// In single quotes.
    SingleQuoted,
    /// In double quotes.
    DoubleQuoted,
    /// A literal block, after `|`.
    Literal,
    /// A folded block, after `>`.
    Folded,
}

/// The documents of a text, and whether the text has parts that their trees do not keep.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct YamlStream {
    /// The documents in order.
    pub documents: Vec<YamlNode>,
    /// Whether the text has comments.
    pub has_comments: bool,
    /// Whether the text has anchors. The trees have copies in place of aliases, and merged entries in place of merge
    /// keys.
    pub has_anchors: bool,
}

/// Reads all documents of a text, by the rules of goyaml v3.
///
/// Aliases are replaced by copies of their targets. Time and memory are bounded: an error is returned if the trees
/// would be too large or too deep.
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

/// Builds trees from composed nodes.
struct Builder<'n, 't> {
    nodes: &'n Nodes<'t>,
    following: Vec<usize>,
    built: usize,
}

impl Builder<'_, '_> {
    fn build(&mut self, at: usize, depth: usize) -> Result<YamlNode, Error> {
        self.built += 1;
        // The same message for depth: only aliases can nest deeper than the composer allows.
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
                // The mapping's own entries win over merged ones.
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

/// Adds the entries of a merge value: a mapping, or a list of mappings of which the first has precedence.
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
