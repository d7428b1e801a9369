//! The nodes of all documents, in one list. A node knows its parent, so that an expression that finds a node can change
//! the document around it.

use std::borrow::Cow;

use rdd_yaml::{ScalarStyle, YamlContent, YamlNode, core_tag};

use crate::YqError;

/// The number of nodes that an evaluation may create.
const NODES_MAX: usize = 4_000_000;
/// The depth to which nodes may nest.
const DEPTH_MAX: usize = 500;

/// The index of a node in the [`NodeArena`].
pub(crate) type NodeId = usize;

/// The type of content of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Scalar,
    Sequence,
    Mapping,
}

/// The position of a node in its parent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Key {
    None,
    /// The key of a value in a mapping.
    Node(NodeId),
    Index(usize),
}

/// A node of a document, or one that an expression created.
#[derive(Debug, Clone)]
pub(crate) struct DataNode {
    pub(crate) kind: Kind,
    pub(crate) tag: Cow<'static, str>,
    /// Whether the tag is written out, because it does not follow from the text.
    pub(crate) has_written_tag: bool,
    pub(crate) text: String,
    pub(crate) style: ScalarStyle,
    pub(crate) is_flow: bool,
    /// The items of a list, or keys and values alternating.
    pub(crate) content: Vec<NodeId>,
    pub(crate) parent: Option<NodeId>,
    pub(crate) key: Key,
    pub(crate) is_key: bool,
    pub(crate) document: usize,
    pub(crate) file: usize,
}

impl DataNode {
    pub(crate) fn is_null(&self) -> bool {
        self.tag == "!!null"
    }

    /// Whether the node counts as true in a condition: everything but null and false.
    pub(crate) fn is_truthy(&self) -> bool {
        let is_true = || ["y", "yes", "on", "true"].iter().any(|word| self.text.eq_ignore_ascii_case(word));
        !self.is_null() && (self.kind != Kind::Scalar || self.tag != "!!bool" || is_true())
    }

    /// The tag that gives the type: the node's own tag, or the type of its text if its tag is a custom one.
    pub(crate) fn basic_tag(&self) -> &str {
        if self.tag.starts_with("!!") || self.kind != Kind::Scalar { &self.tag } else { core_tag(&self.text) }
    }
}

/// The arena of all nodes. Nodes are never freed while a program runs.
#[derive(Debug, Default)]
pub(crate) struct Nodes(Vec<DataNode>);

impl std::ops::Index<NodeId> for Nodes {
    type Output = DataNode;

    fn index(&self, at: NodeId) -> &DataNode {
        &self.0[at]
    }
}

impl std::ops::IndexMut<NodeId> for Nodes {
    fn index_mut(&mut self, at: NodeId) -> &mut DataNode {
        &mut self.0[at]
    }
}

impl Nodes {
    pub(crate) fn add(&mut self, node: DataNode) -> Result<NodeId, YqError> {
        if self.0.len() >= NODES_MAX {
            return Err(YqError::new(format!("the expression makes more than {NODES_MAX} nodes")));
        }
        self.0.push(node);
        Ok(self.0.len() - 1)
    }

    /// Creates a node without a parent. It belongs to the document of the owner.
    pub(crate) fn create(
        &mut self,
        kind: Kind,
        tag: &str,
        text: &str,
        owner: Option<NodeId>,
    ) -> Result<NodeId, YqError> {
        let (document, file) = owner.map_or((0, 0), |owner| (self[owner].document, self[owner].file));
        self.add(DataNode {
            kind,
            tag: tag.to_owned().into(),
            has_written_tag: !tag.starts_with("!!"),
            text: text.to_owned(),
            style: ScalarStyle::Plain,
            is_flow: false,
            content: Vec::new(),
            parent: None,
            key: Key::None,
            is_key: false,
            document,
            file,
        })
    }

    pub(crate) fn scalar(&mut self, tag: &str, text: &str, owner: Option<NodeId>) -> Result<NodeId, YqError> {
        self.create(Kind::Scalar, tag, text, owner)
    }

    /// Creates the result of a function on a node. It takes the owner's position, so that `path` and `key` still work
    /// on the result.
    pub(crate) fn replacement(&mut self, owner: NodeId, kind: Kind, tag: &str, text: &str) -> Result<NodeId, YqError> {
        let node = self.create(kind, tag, text, Some(owner))?;
        (self[node].parent, self[node].key) = (self[owner].parent, self[owner].key);
        if self[owner].parent.is_none() {
            // The result of a function on a whole document belongs to no document.
            (self[node].document, self[node].file) = (0, 0);
        }
        Ok(node)
    }

    pub(crate) fn text(&mut self, owner: NodeId, text: &str) -> Result<NodeId, YqError> {
        self.replacement(owner, Kind::Scalar, "!!str", text)
    }

    pub(crate) fn boolean(&mut self, owner: NodeId, value: bool) -> Result<NodeId, YqError> {
        self.replacement(owner, Kind::Scalar, "!!bool", if value { "true" } else { "false" })
    }

    pub(crate) fn integer(&mut self, owner: NodeId, value: usize) -> Result<NodeId, YqError> {
        self.replacement(owner, Kind::Scalar, "!!int", &value.to_string())
    }

    /// Copies a node with its content. The copy keeps the position of the original.
    pub(crate) fn copy(&mut self, at: NodeId) -> Result<NodeId, YqError> {
        self.copy_below(at, 0)
    }

    fn copy_below(&mut self, at: NodeId, depth: usize) -> Result<NodeId, YqError> {
        if depth > DEPTH_MAX {
            return Err(YqError::new(format!("the result nests deeper than {DEPTH_MAX} levels")));
        }
        let mut node = self[at].clone();
        let children = std::mem::take(&mut node.content);
        let is_mapping = node.kind == Kind::Mapping;
        let copy = self.add(node)?;
        let mut key = Key::None;
        for (place, child) in children.into_iter().enumerate() {
            let child = self.copy_below(child, depth + 1)?;
            self[child].parent = Some(copy);
            self[child].key = match (is_mapping, place % 2) {
                (true, 0) => Key::None,
                (true, _) => key,
                (false, _) => Key::Index(place),
            };
            key = Key::Node(child);
            self[copy].content.push(child);
        }
        Ok(copy)
    }

    /// Appends a copy of a node to a list.
    pub(crate) fn push(&mut self, list: NodeId, item: NodeId) -> Result<NodeId, YqError> {
        let item = self.copy(item)?;
        let index = self[list].content.len();
        (self[item].parent, self[item].key, self[item].is_key) = (Some(list), Key::Index(index), false);
        self[list].content.push(item);
        Ok(item)
    }

    /// Adds copies of a key and a value to a mapping.
    pub(crate) fn insert(&mut self, map: NodeId, key: NodeId, value: NodeId) -> Result<NodeId, YqError> {
        let (key, value) = (self.copy(key)?, self.copy(value)?);
        (self[key].parent, self[key].key, self[key].is_key) = (Some(map), Key::None, true);
        (self[value].parent, self[value].key, self[value].is_key) = (Some(map), Key::Node(key), false);
        self[map].content.extend([key, value]);
        Ok(value)
    }

    /// Adds a copy of a value to a mapping under a new string key.
    pub(crate) fn insert_text(&mut self, map: NodeId, key: &str, value: NodeId) -> Result<NodeId, YqError> {
        let key = self.scalar("!!str", key, Some(map))?;
        self.insert(map, key, value)
    }

    /// The keys and values of a mapping; nothing for other nodes.
    pub(crate) fn entries(&self, map: NodeId) -> Vec<(NodeId, NodeId)> {
        if self[map].kind != Kind::Mapping {
            return Vec::new();
        }
        self[map].content.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect()
    }

    /// The value under a key.
    pub(crate) fn get(&self, map: NodeId, key: &str) -> Option<NodeId> {
        self.entries(map).into_iter().find(|(known, _)| self[*known].text == key).map(|(_, value)| value)
    }

    /// The children: items of a list, values of a mapping.
    pub(crate) fn children(&self, at: NodeId) -> Vec<NodeId> {
        match self[at].kind {
            Kind::Mapping => self.entries(at).into_iter().map(|(_, value)| value).collect(),
            _ => self[at].content.clone(),
        }
    }

    /// Removes a child from its parent.
    pub(crate) fn remove(&mut self, child: NodeId) {
        let Some(parent) = self[child].parent else { return };
        if self[parent].kind == Kind::Mapping {
            let content = std::mem::take(&mut self[parent].content);
            let kept = content.chunks_exact(2).filter(|pair| !pair.contains(&child)).flatten().copied().collect();
            self[parent].content = kept;
        } else {
            self[parent].content.retain(|item| *item != child);
            // The paths of the later items change with their index.
            for (index, item) in self[parent].content.clone().into_iter().enumerate() {
                self[item].key = Key::Index(index);
            }
        }
    }

    /// Assigns the value of another node. The style stays, unless the type changes.
    pub(crate) fn update(&mut self, at: NodeId, from: NodeId) -> Result<(), YqError> {
        if at == from {
            return Ok(());
        }
        let source = self.copy(from)?;
        let is_empty_collection = self[at].kind != Kind::Scalar && self[at].content.is_empty();
        if is_empty_collection || self[at].basic_tag() != self[source].basic_tag() {
            (self[at].style, self[at].is_flow) = (self[source].style, self[source].is_flow);
        }
        self[at].kind = self[source].kind;
        self[at].text = self[source].text.clone();
        self.take_content(at, source);
        self.update_tag(at, source);
        Ok(())
    }

    /// Assigns the type of another node, and its style if this node has none.
    pub(crate) fn update_attributes(&mut self, at: NodeId, from: NodeId) {
        if self[at].kind != self[from].kind {
            self[at].content.clear();
            self[at].text.clear();
        }
        self[at].kind = self[from].kind;
        self.update_tag(at, from);
        if self[at].style == ScalarStyle::Plain {
            self[at].style = self[from].style;
        }
        self[at].is_flow |= self[from].is_flow;
    }

    /// Assigns the tag of another node. A custom tag stays.
    fn update_tag(&mut self, at: NodeId, from: NodeId) {
        if self[at].tag.starts_with("!!") || self[at].tag.is_empty() {
            self[at].tag = self[from].tag.clone();
            self[at].has_written_tag = self[from].has_written_tag;
        }
    }

    fn take_content(&mut self, at: NodeId, from: NodeId) {
        let content = self[from].content.clone();
        for child in &content {
            self[*child].parent = Some(at);
        }
        self[at].content = content;
    }

    /// The path from the root of its document to a node, outermost step first.
    pub(crate) fn path(&self, at: NodeId) -> Vec<NodeKey> {
        let mut path = Vec::new();
        let mut next = Some(at);
        while let Some(node) = next {
            match self[node].key {
                Key::Node(key) => path.push(NodeKey::Text(key)),
                Key::Index(index) => path.push(NodeKey::Index(index)),
                Key::None if self[node].is_key => path.push(NodeKey::Text(node)),
                Key::None => {}
            }
            next = self[node].parent;
        }
        path.reverse();
        path
    }

    /// Adds a document or a part of one, and returns its root.
    pub(crate) fn load(&mut self, tree: &YamlNode, document: usize, file: usize) -> Result<NodeId, YqError> {
        let (kind, tag, text, style, is_flow) = match &tree.content {
            YamlContent::Scalar { text, style: ScalarStyle::Plain } => {
                (Kind::Scalar, core_tag(text), text.clone(), ScalarStyle::Plain, false)
            }
            YamlContent::Scalar { text, style } => (Kind::Scalar, "!!str", text.clone(), *style, false),
            YamlContent::Sequence { is_flow, .. } => {
                (Kind::Sequence, "!!seq", String::new(), ScalarStyle::Plain, *is_flow)
            }
            YamlContent::Mapping { is_flow, .. } => {
                (Kind::Mapping, "!!map", String::new(), ScalarStyle::Plain, *is_flow)
            }
        };
        let at = self.create(kind, tag, &text, None)?;
        let node = &mut self[at];
        if let Some(tag) = &tree.tag {
            (node.tag, node.has_written_tag) = (tag.clone().into(), true);
        }
        // [`ScalarStyle::Text`] marks a string from JSON; its type is in the tag already.
        node.style = if style == ScalarStyle::Text { ScalarStyle::Plain } else { style };
        (node.is_flow, node.document, node.file) = (is_flow, document, file);
        match &tree.content {
            YamlContent::Scalar { .. } => {}
            YamlContent::Sequence { items, .. } => {
                for (index, item) in items.iter().enumerate() {
                    let item = self.load(item, document, file)?;
                    (self[item].parent, self[item].key) = (Some(at), Key::Index(index));
                    self[at].content.push(item);
                }
            }
            YamlContent::Mapping { entries, .. } => {
                for (key, value) in entries {
                    let (key, value) = (self.load(key, document, file)?, self.load(value, document, file)?);
                    (self[key].parent, self[key].is_key) = (Some(at), true);
                    (self[value].parent, self[value].key) = (Some(at), Key::Node(key));
                    self[at].content.extend([key, value]);
                }
            }
        }
        Ok(at)
    }

    /// Converts a node to a tree for writing. Returns an error if it nests too deep.
    pub(crate) fn unload(&self, at: NodeId) -> Result<YamlNode, YqError> {
        self.unload_below(at, 0)
    }

    fn unload_below(&self, at: NodeId, depth: usize) -> Result<YamlNode, YqError> {
        if depth > DEPTH_MAX {
            return Err(YqError::new(format!("the result nests deeper than {DEPTH_MAX} levels")));
        }
        let node = &self[at];
        let content = match node.kind {
            Kind::Scalar => {
                // The tag says string, so the writer must add quotes if the text alone would read as another type.
                let is_text = node.style == ScalarStyle::Plain && !node.has_written_tag && node.tag == "!!str";
                let style = if is_text { ScalarStyle::Text } else { node.style };
                YamlContent::Scalar { text: node.text.clone(), style }
            }
            Kind::Sequence => {
                let items =
                    node.content.iter().map(|item| self.unload_below(*item, depth + 1)).collect::<Result<_, _>>()?;
                YamlContent::Sequence { items, is_flow: node.is_flow }
            }
            Kind::Mapping => {
                let entries = self.entries(at).into_iter();
                let entries = entries
                    .map(|(key, value)| Ok((self.unload_below(key, depth + 1)?, self.unload_below(value, depth + 1)?)))
                    .collect::<Result<_, YqError>>()?;
                YamlContent::Mapping { entries, is_flow: node.is_flow }
            }
        };
        let tag = node.has_written_tag.then(|| node.tag.to_string());
        Ok(YamlNode { tag, content })
    }
}

/// A step of a path: a key, by its node, or an index.
#[derive(Debug, Clone, Copy)]
pub(crate) enum NodeKey {
    Text(NodeId),
    Index(usize),
}
