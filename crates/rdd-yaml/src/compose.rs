//! Composes the tokens of a document into nodes, as goyaml v2's parser does.

use std::{borrow::Cow, collections::HashMap};

use super::{
    read::{DEPTH_MAX, Error},
    scan::{Scanner, Token, TokenKind},
    source::Mark,
    tree::ScalarStyle,
};

const CORE_TAG_PREFIX: &str = "tag:yaml.org,2002:";

/// The nodes of all documents of a text, in one list. A node refers to its children by their index in this list.
#[derive(Debug, Default)]
pub(super) struct Nodes<'t> {
    pub(super) all: Vec<Node<'t>>,
}

/// A node as it was parsed: tags are not applied and aliases are not followed yet.
#[derive(Debug)]
pub(super) struct Node<'t> {
    /// The line in which the node begins, from 1 on.
    pub(super) line: usize,
    /// Whether the node is a collection in brackets (flow style).
    pub(super) is_flow: bool,
    /// The tag of a collection. The tag of a scalar is in its content.
    pub(super) tag: Option<Box<str>>,
    pub(super) content: Content<'t>,
}

/// The content of a [`ComposedNode`]. A `usize` is an index into the [`YamlNodeArena`].
#[derive(Debug)]
pub(super) enum Content<'t> {
    Scalar {
        text: Cow<'t, str>,
        /// Whether the type of the scalar follows from its text, because it has neither quotes nor a tag.
        implicit: bool,
        tag: Option<Box<str>>,
        style: ScalarStyle,
    },
    Sequence(Vec<usize>),
    /// Keys and values alternate.
    Mapping(Vec<usize>),
    Alias {
        name: &'t str,
        /// The node that the anchor names.
        target: usize,
    },
}

/// The error for a node that nests deeper than [`DEPTH_MAX`].
pub(super) fn too_deep(line: usize) -> Error {
    Error::new(format!("yaml: line {line}: exceeded max depth of {DEPTH_MAX}"))
}

/// The properties that may precede a node: an anchor and a tag.
#[derive(Default)]
struct Properties<'t> {
    anchor: Option<&'t str>,
    tag: Option<Box<str>>,
}

/// Parses a text document by document, on demand: it does not scan what follows the requested document.
#[derive(Debug)]
pub(super) struct Composer<'t> {
    scanner: Scanner<'t>,
    nodes: Nodes<'t>,
    anchors: HashMap<&'t str, usize>,
    /// The prefix of each tag handle, from `%TAG` directives and the two defaults.
    tag_prefixes: Vec<(String, String)>,
    depth: usize,
    is_first: bool,
    is_v3: bool,
    has_anchors: bool,
}

type Composed<T = usize> = Result<T, Error>;

impl<'t> Composer<'t> {
    pub(super) fn new(text: &'t str, is_v3: bool) -> Self {
        Self {
            scanner: Scanner::new(text, is_v3),
            is_v3,
            has_anchors: false,
            nodes: Nodes::default(),
            anchors: HashMap::new(),
            tag_prefixes: Vec::new(),
            depth: 0,
            is_first: true,
        }
    }

    /// The nodes of all documents parsed so far.
    pub(super) fn nodes(&self) -> &Nodes<'t> {
        &self.nodes
    }

    pub(super) fn has_anchors(&self) -> bool {
        self.has_anchors
    }

    pub(super) fn has_comments(&self) -> bool {
        self.scanner.has_comments()
    }

    /// Parses the next document and returns its root, or `None` at the end of the stream.
    pub(super) fn next_document(&mut self) -> Composed<Option<usize>> {
        let is_implicit = std::mem::take(&mut self.is_first);
        // Anchors are local to a document.
        self.anchors.clear();
        while !is_implicit && matches!(self.peek()?, TokenKind::DocumentEnd) {
            self.scanner.take()?;
        }
        let root = match self.peek()? {
            TokenKind::StreamEnd => return Ok(None),
            TokenKind::Version { .. } | TokenKind::TagDirective { .. } | TokenKind::DocumentStart => {
                self.explicit_document()?
            }
            _ if is_implicit => {
                // The first document may begin without `---`.
                self.directives()?;
                self.node(true, false)?
            }
            _ => self.explicit_document()?,
        };
        if matches!(self.peek()?, TokenKind::DocumentEnd) {
            self.scanner.take()?;
        }
        self.tag_prefixes.clear();
        Ok(Some(root))
    }

    /// Parses a document that must begin with `---`, possibly after directives.
    fn explicit_document(&mut self) -> Composed {
        self.directives()?;
        if !matches!(self.peek()?, TokenKind::DocumentStart) {
            let mark = self.scanner.peek()?.start;
            return Err(failed(None, "did not find expected <document start>", mark));
        }
        self.scanner.take()?;
        let is_empty = matches!(
            self.peek()?,
            TokenKind::Version { .. }
                | TokenKind::TagDirective { .. }
                | TokenKind::DocumentStart
                | TokenKind::DocumentEnd
                | TokenKind::StreamEnd
        );
        if is_empty { self.empty_here() } else { self.node(true, false) }
    }

    /// Parses `%YAML` and `%TAG` directives and adds the default tag handles.
    fn directives(&mut self) -> Composed<()> {
        let mut has_version = false;
        while matches!(self.peek()?, TokenKind::Version { .. } | TokenKind::TagDirective { .. }) {
            let Token { kind, start, .. } = self.scanner.take()?;
            match kind {
                TokenKind::Version { .. } if has_version => {
                    return Err(failed(None, "found duplicate %YAML directive", start));
                }
                TokenKind::Version { major: 1, minor: 1 } => has_version = true,
                TokenKind::Version { major: 1, minor: 2 } if self.is_v3 => has_version = true,
                TokenKind::TagDirective { handle, prefix } => {
                    if self.tag_prefixes.iter().any(|(known, _)| *known == handle) {
                        return Err(failed(None, "found duplicate %TAG directive", start));
                    }
                    self.tag_prefixes.push((handle, prefix));
                }
                _ => return Err(failed(None, "found incompatible YAML document", start)),
            }
        }
        for (handle, prefix) in [("!", "!"), ("!!", CORE_TAG_PREFIX)] {
            if !self.tag_prefixes.iter().any(|(known, _)| known == handle) {
                self.tag_prefixes.push((handle.to_owned(), prefix.to_owned()));
            }
        }
        Ok(())
    }

    fn peek(&mut self) -> Composed<&TokenKind<'t>> {
        self.scanner.peek().map(|token| &token.kind)
    }

    fn add(&mut self, start: Mark, anchor: Option<&'t str>, content: Content<'t>) -> usize {
        let at = self.nodes.all.len();
        self.nodes.all.push(Node { line: start.line + 1, is_flow: false, tag: None, content });
        // The anchor is valid within its own node already, and it replaces an earlier anchor of the same name.
        if let Some(anchor) = anchor {
            self.anchors.insert(anchor, at);
            self.has_anchors = true;
        }
        at
    }

    /// Adds a null node in place of a node that the text leaves out.
    fn empty(&mut self, mark: Mark) -> usize {
        self.add(
            mark,
            None,
            Content::Scalar { text: Cow::Borrowed(""), implicit: true, tag: None, style: ScalarStyle::Plain },
        )
    }

    fn empty_here(&mut self) -> Composed {
        let mark = self.scanner.peek()?.start;
        Ok(self.empty(mark))
    }

    /// Parses a node.
    ///
    /// `in_block` allows collections that are marked by indentation; `may_be_indentless` also allows a sequence whose
    /// dashes are at the column of its key.
    fn node(&mut self, in_block: bool, may_be_indentless: bool) -> Composed {
        let start = self.scanner.peek()?.start;
        if let TokenKind::Alias(name) = *self.peek()? {
            self.scanner.take()?;
            let Some(&target) = self.anchors.get(name) else {
                return Err(Error::new(format!("yaml: unknown anchor '{name}' referenced")));
            };
            return Ok(self.add(start, None, Content::Alias { name, target }));
        }
        let Properties { anchor, tag } = self.properties(start)?;
        let has_properties = anchor.is_some() || tag.is_some();
        let Token { kind, start: mark, .. } = self.scanner.peek()?;
        let mark = *mark;
        match kind {
            TokenKind::BlockEntry if may_be_indentless => {
                self.collection(start, anchor, tag, false, Content::Sequence(Vec::new()), Self::indentless_sequence)
            }
            TokenKind::Scalar { .. } => {
                let TokenKind::Scalar { text, style } = self.scanner.take()?.kind else {
                    unreachable!("take() returns the token that peek() returned")
                };
                // The tag `!` means "not plain", so goyaml resolves such a scalar again.
                let implicit = if tag.is_none() { style == ScalarStyle::Plain } else { tag.as_deref() == Some("!") };
                Ok(self.add(start, anchor, Content::Scalar { text, implicit, tag, style }))
            }
            TokenKind::FlowSequenceStart => {
                self.collection(start, anchor, tag, true, Content::Sequence(Vec::new()), Self::flow_sequence)
            }
            TokenKind::FlowMappingStart => {
                self.collection(start, anchor, tag, true, Content::Mapping(Vec::new()), Self::flow_mapping)
            }
            TokenKind::BlockSequenceStart if in_block => {
                self.collection(start, anchor, tag, false, Content::Sequence(Vec::new()), Self::block_sequence)
            }
            TokenKind::BlockMappingStart if in_block => {
                self.collection(start, anchor, tag, false, Content::Mapping(Vec::new()), Self::block_mapping)
            }
            // A tag or an anchor alone is a node too: `a: !!str` has an empty value.
            _ if has_properties => {
                let implicit = tag.is_none();
                let text = Cow::Borrowed("");
                Ok(self.add(start, anchor, Content::Scalar { text, implicit, tag, style: ScalarStyle::Plain }))
            }
            _ => Err(failed(Some(start), "did not find expected node content", mark)),
        }
    }

    /// Parses an anchor and a tag, in either order.
    fn properties(&mut self, start: Mark) -> Composed<Properties<'t>> {
        let mut anchor = None;
        let mut tag = None;
        for _ in 0..2 {
            match *self.peek()? {
                TokenKind::Anchor(name) if anchor.is_none() => anchor = Some(name),
                TokenKind::Tag { .. } if tag.is_none() => {
                    let Token { kind: TokenKind::Tag { handle, suffix }, start, .. } = self.scanner.take()? else {
                        unreachable!("take() returns the token that peek() returned")
                    };
                    tag = Some((handle, suffix, start));
                    continue;
                }
                _ => break,
            }
            self.scanner.take()?;
        }
        let tag = tag.map(|(handle, suffix, mark)| self.resolve_tag(&handle, suffix, start, mark)).transpose()?;
        Ok(Properties { anchor, tag })
    }

    /// Resolves the handle of a tag and returns the tag in its short form: `tag:yaml.org,2002:int` becomes `!!int`.
    fn resolve_tag(&self, handle: &str, suffix: String, start: Mark, mark: Mark) -> Composed<Box<str>> {
        let tag = if handle.is_empty() {
            suffix
        } else {
            let Some((_, prefix)) = self.tag_prefixes.iter().find(|(known, _)| known == handle) else {
                return Err(failed(Some(start), "found undefined tag handle", mark));
            };
            format!("{prefix}{suffix}")
        };
        Ok(tag.strip_prefix(CORE_TAG_PREFIX).map_or_else(|| tag.clone(), |core| format!("!!{core}")).into())
    }

    /// Parses a collection: adds its node, then lets `read_children` parse its children.
    fn collection(
        &mut self,
        start: Mark,
        anchor: Option<&'t str>,
        tag: Option<Box<str>>,
        is_flow: bool,
        content: Content<'t>,
        read_children: fn(&mut Self, &mut Vec<usize>) -> Composed<()>,
    ) -> Composed {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(too_deep(start.line + 1));
        }
        // The node is added before its children, so that an alias within it can refer to it.
        let at = self.add(start, anchor, content);
        (self.nodes.all[at].tag, self.nodes.all[at].is_flow) = (tag, is_flow);
        let mut found = Vec::new();
        read_children(self, &mut found)?;
        if let Content::Sequence(children) | Content::Mapping(children) = &mut self.nodes.all[at].content {
            *children = found;
        }
        self.depth -= 1;
        Ok(at)
    }

    /// Parses the items of `- a` lists that are indented further than their parent.
    fn block_sequence(&mut self, children: &mut Vec<usize>) -> Composed<()> {
        let context = self.scanner.take()?.start;
        loop {
            let Token { kind, start, end } = self.scanner.take()?;
            match kind {
                TokenKind::BlockEntry => {
                    let child = match self.peek()? {
                        TokenKind::BlockEntry | TokenKind::BlockEnd => self.empty(end),
                        _ => self.node(true, false)?,
                    };
                    children.push(child);
                }
                TokenKind::BlockEnd => return Ok(()),
                _ => return Err(failed(Some(context), "did not find expected '-' indicator", start)),
            }
        }
    }

    /// Parses the items of a list whose dashes are at the column of the parent's key. No token marks its end.
    fn indentless_sequence(&mut self, children: &mut Vec<usize>) -> Composed<()> {
        while matches!(self.peek()?, TokenKind::BlockEntry) {
            let end = self.scanner.take()?.end;
            let child = match self.peek()? {
                TokenKind::BlockEntry | TokenKind::Key | TokenKind::Value | TokenKind::BlockEnd => self.empty(end),
                _ => self.node(true, false)?,
            };
            children.push(child);
        }
        Ok(())
    }

    fn block_mapping(&mut self, children: &mut Vec<usize>) -> Composed<()> {
        let context = self.scanner.take()?.start;
        loop {
            match self.peek()? {
                TokenKind::Key => {
                    let end = self.scanner.take()?.end;
                    let key = self.block_mapping_part(end)?;
                    children.push(key);
                }
                TokenKind::BlockEnd => {
                    self.scanner.take()?;
                    return Ok(());
                }
                _ => {
                    let mark = self.scanner.peek()?.start;
                    return Err(failed(Some(context), "did not find expected key", mark));
                }
            }
            let value = if matches!(self.peek()?, TokenKind::Value) {
                let end = self.scanner.take()?.end;
                self.block_mapping_part(end)?
            } else {
                self.empty_here()?
            };
            children.push(value);
        }
    }

    /// Parses a key or a value of a block mapping, which may be left out.
    fn block_mapping_part(&mut self, end: Mark) -> Composed {
        match self.peek()? {
            TokenKind::Key | TokenKind::Value | TokenKind::BlockEnd => Ok(self.empty(end)),
            _ => self.node(true, true),
        }
    }

    fn flow_sequence(&mut self, children: &mut Vec<usize>) -> Composed<()> {
        let context = self.scanner.take()?.start;
        let mut is_first = true;
        while !matches!(self.peek()?, TokenKind::FlowSequenceEnd) {
            if !std::mem::take(&mut is_first) {
                self.flow_entry(context, "did not find expected ',' or ']'")?;
            }
            match self.peek()? {
                TokenKind::Key => {
                    let start = self.scanner.peek()?.start;
                    let pair =
                        self.collection(start, None, None, true, Content::Mapping(Vec::new()), Self::flow_pair)?;
                    children.push(pair);
                }
                TokenKind::FlowSequenceEnd => break,
                _ => {
                    let child = self.node(false, false)?;
                    children.push(child);
                }
            }
        }
        self.scanner.take()?;
        Ok(())
    }

    /// Takes the comma between two items in brackets.
    fn flow_entry(&mut self, context: Mark, problem: &str) -> Composed<()> {
        let Token { kind, start, .. } = self.scanner.take()?;
        if matches!(kind, TokenKind::FlowEntry) { Ok(()) } else { Err(failed(Some(context), problem, start)) }
    }

    /// Parses a key and its value within a list in brackets: `[a: b]` is a list of one mapping.
    fn flow_pair(&mut self, children: &mut Vec<usize>) -> Composed<()> {
        self.scanner.take()?;
        let key = match self.peek()? {
            // If the key is left out, goyaml also drops the token that follows.
            TokenKind::Value | TokenKind::FlowEntry | TokenKind::FlowSequenceEnd => {
                let end = self.scanner.take()?.end;
                self.empty(end)
            }
            _ => self.node(false, false)?,
        };
        children.push(key);
        let value = self.flow_value(|next| matches!(next, TokenKind::FlowEntry | TokenKind::FlowSequenceEnd))?;
        children.push(value);
        Ok(())
    }

    /// Parses the value after a key in brackets. The value is empty if there is no colon, or if `ends` accepts the
    /// token after it.
    fn flow_value(&mut self, ends: fn(&TokenKind<'t>) -> bool) -> Composed {
        if matches!(self.peek()?, TokenKind::Value) {
            let start = self.scanner.take()?.start;
            return if ends(self.peek()?) { Ok(self.empty(start)) } else { self.node(false, false) };
        }
        self.empty_here()
    }

    fn flow_mapping(&mut self, children: &mut Vec<usize>) -> Composed<()> {
        let context = self.scanner.take()?.start;
        let mut is_first = true;
        while !matches!(self.peek()?, TokenKind::FlowMappingEnd) {
            if !std::mem::take(&mut is_first) {
                self.flow_entry(context, "did not find expected ',' or '}'")?;
            }
            match self.peek()? {
                TokenKind::Key => {
                    self.scanner.take()?;
                    let key = match self.peek()? {
                        TokenKind::Value | TokenKind::FlowEntry | TokenKind::FlowMappingEnd => self.empty_here()?,
                        _ => self.node(false, false)?,
                    };
                    children.push(key);
                    let value =
                        self.flow_value(|next| matches!(next, TokenKind::FlowEntry | TokenKind::FlowMappingEnd))?;
                    children.push(value);
                }
                TokenKind::FlowMappingEnd => break,
                // A key without `:` in braces (`{a, b}`) has an empty value.
                _ => {
                    let key = self.node(false, false)?;
                    children.push(key);
                    let value = self.empty_here()?;
                    children.push(value);
                }
            }
        }
        self.scanner.take()?;
        Ok(())
    }
}

/// An error of goyaml's parser, which counts lines from 0 and omits the number of the first line.
fn failed(context: Option<Mark>, problem: &str, mark: Mark) -> Error {
    match (mark.line, context.map_or(0, |context| context.line)) {
        (0, 0) => Error::new(format!("yaml: {problem}")),
        (0, line) | (line, _) => Error::new(format!("yaml: line {line}: {problem}")),
    }
}
