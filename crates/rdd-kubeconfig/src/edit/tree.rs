//! Parses a document into a tree of nodes with their positions in the text.

use std::ops::Range;

use granit_parser::{Event, Options, Parser, ScalarStyle, Span, StructureStyle};

use super::{Refused, splice::find_indicator};

/// The nodes of one document, which refer to each other by index.
#[derive(Debug, Default)]
pub(super) struct Tree {
    pub(super) nodes: Vec<Node>,
    pub(super) root: Option<usize>,
    /// The positions of anchors and of aliases, with the parser's number of the anchor.
    anchors: Vec<(usize, usize)>,
    aliases: Vec<(usize, usize)>,
}

/// A node and its range of bytes.
#[derive(Debug)]
pub(super) struct Node {
    /// The start of the node, including its anchor and tag.
    pub(super) start: usize,
    /// The start of the content.
    pub(super) body: usize,
    /// The end. For a block scalar, this is the start of a line or the end of the text.
    pub(super) end: usize,
    pub(super) shape: Shape,
}

#[derive(Debug)]
pub(super) enum Shape {
    Scalar { text: String, style: ScalarStyle },
    Sequence { is_flow: bool, items: Vec<usize> },
    Mapping { is_flow: bool, pairs: Vec<(usize, usize)>, key: Option<usize> },
    Alias,
}

impl Tree {
    /// Parses a text with at most one document.
    pub(super) fn parse(text: &str) -> Result<Self, Refused> {
        if let Some(lone) = lone_carriage_return(text) {
            return Err(Refused::at(text, lone, "a carriage return stands alone"));
        }
        let mut options = Options::default();
        options.set_emit_comments(false);
        options.emit_anchor_events = true;
        let mut tree = Self::default();
        let mut open = Vec::new();
        let mut documents = 0;
        for event in Parser::new_from_str_with_options(text, options) {
            let (event, span) =
                event.map_err(|error| Refused { line: error.marker().line(), why: error.info().to_string() })?;
            if matches!(event, Event::DocumentStart(..)) {
                documents += 1;
                if documents > 1 {
                    return Err(Refused { line: span.start.line(), why: "a second document begins".to_owned() });
                }
            }
            tree.take(text, event, span, &mut open)?;
        }
        Ok(tree)
    }

    fn take(&mut self, text: &str, event: Event<'_>, span: Span, open: &mut Vec<usize>) -> Result<(), Refused> {
        let place = span.byte_range().filter(|place| place.start <= place.end && place.end <= text.len());
        let place =
            place.ok_or_else(|| Refused { line: span.start.line(), why: "its place is not known".to_owned() })?;
        let shape = match event {
            Event::Scalar(value, style, ..) => Shape::Scalar { text: value.into_owned(), style },
            Event::SequenceStart(style, ..) => Shape::Sequence { is_flow: is_flow(style), items: Vec::new() },
            Event::MappingStart(style, ..) => Shape::Mapping { is_flow: is_flow(style), pairs: Vec::new(), key: None },
            Event::Alias(anchor) => {
                self.aliases.push((anchor, place.start));
                Shape::Alias
            }
            Event::Anchor(anchor, _) => {
                self.anchors.push((anchor, place.start));
                if let Some(node) = self.nodes.last_mut() {
                    node.start = node.start.min(place.start);
                }
                return Ok(());
            }
            Event::SequenceEnd | Event::MappingEnd => {
                if let Some(closed) = open.pop() {
                    self.close(closed, place.end);
                }
                return Ok(());
            }
            _ => return Ok(()),
        };
        let is_block = matches!(&shape, Shape::Scalar { style: ScalarStyle::Literal | ScalarStyle::Folded, .. });
        let end = if is_block { end_of_block(text, &place) } else { place.end };
        let tag = span.tag_start().and_then(|tag| tag.byte_offset());
        let start = tag.map_or(place.start, |tag| tag.min(place.start));
        self.nodes.push(Node { start, body: place.start, end, shape });
        let made = self.nodes.len() - 1;
        self.adopt(text, open.last().copied(), made);
        if matches!(self.nodes[made].shape, Shape::Sequence { .. } | Shape::Mapping { .. }) {
            open.push(made);
        }
        Ok(())
    }

    fn adopt(&mut self, text: &str, parent: Option<usize>, child: usize) {
        match parent.map(|parent| &mut self.nodes[parent].shape) {
            Some(Shape::Sequence { items, .. }) => items.push(child),
            Some(Shape::Mapping { pairs, key, .. }) => match key.take() {
                Some(key) => {
                    pairs.push((key, child));
                    self.put_behind_the_colon(text, key, child);
                }
                None => *key = Some(child),
            },
            _ => self.root = Some(child),
        }
    }

    /// For an absent value, the parser reports the position of the key's end. This moves it behind the colon.
    fn put_behind_the_colon(&mut self, text: &str, key: usize, value: usize) {
        let end = self.nodes[key].end;
        let node = &mut self.nodes[value];
        if (node.start, node.body, node.end) != (end, end, end) {
            return;
        }
        if let Some(colon) = find_indicator(text, end, b':') {
            (node.start, node.body, node.end) = (colon + 1, colon + 1, colon + 1);
        }
    }

    /// A flow collection ends at its bracket, a block collection at its last child.
    fn close(&mut self, closed: usize, end: usize) {
        let last = match &self.nodes[closed].shape {
            Shape::Sequence { is_flow: false, items } => items.last().copied(),
            Shape::Mapping { is_flow: false, pairs, .. } => pairs.last().map(|pair| pair.1),
            _ => None,
        };
        self.nodes[closed].end = last.map_or(end, |last| self.nodes[last].end);
    }

    pub(super) fn node(&self, at: usize) -> &Node {
        &self.nodes[at]
    }

    /// The position of an anchor in `gone` to which an alias outside refers.
    pub(super) fn needed_anchor(&self, gone: &Range<usize>) -> Option<usize> {
        let is_needed = |id| self.aliases.iter().any(|(alias, at)| *alias == id && !gone.contains(at));
        self.anchors.iter().find(|(id, at)| gone.contains(at) && is_needed(*id)).map(|(_, at)| *at)
    }
}

impl Node {
    pub(super) fn has_properties(&self) -> bool {
        self.start != self.body
    }

    /// Whether the node is null, explicitly or by being empty.
    pub(super) fn is_null(&self) -> bool {
        match &self.shape {
            Shape::Scalar { text, style: ScalarStyle::Plain } => {
                self.body == self.end || matches!(text.as_str(), "~" | "null" | "Null" | "NULL" | "")
            }
            _ => false,
        }
    }

    pub(super) fn scalar(&self) -> Option<&str> {
        match &self.shape {
            Shape::Scalar { text, .. } => Some(text),
            _ => None,
        }
    }
}

fn is_flow(style: StructureStyle) -> bool {
    matches!(style, StructureStyle::Flow)
}

/// The parser ends a block scalar at the start of the next node; this excludes the white space before that.
fn end_of_block(text: &str, place: &Range<usize>) -> usize {
    let line = text[..place.end].rfind('\n').map_or(0, |newline| newline + 1);
    let is_blank = text[line..place.end].bytes().all(|byte| byte == b' ');
    if line > place.start && is_blank { line } else { place.end }
}

fn lone_carriage_return(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    (0..bytes.len()).find(|at| bytes[*at] == b'\r' && bytes.get(at + 1) != Some(&b'\n'))
}
