//! Files in, an expression over them, results out.

use rdd_yaml::ScalarStyle;

use crate::{
    YqError,
    evaluate::{Context, Evaluator},
    format::{InputFormat, OutputFormat, OutputOptions, read, write_node},
    nodes::{Kind, NodeId, Nodes},
    parse::Expression,
};

/// What a file has that its documents do not keep when they are written again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileTraits {
    /// Whether there are comments.
    pub has_comments: bool,
    /// Whether there are anchors, and aliases perhaps.
    pub has_anchors: bool,
}

/// What an expression found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Results(Vec<NodeId>);

/// Finds the value of a variable of the environment.
type EnvironmentLookup<'p> = dyn Fn(&str) -> Option<String> + 'p;

/// Documents that expressions are evaluated over.
pub struct Program<'p> {
    nodes: Nodes,
    documents: Vec<NodeId>,
    file_names: Vec<String>,
    environment: Box<EnvironmentLookup<'p>>,
}

impl std::fmt::Debug for Program<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Program").field("file_names", &self.file_names).finish_non_exhaustive()
    }
}

impl<'p> Program<'p> {
    /// Without any document. The environment is what `env` and `strenv` see.
    pub fn new(environment: impl Fn(&str) -> Option<String> + 'p) -> Self {
        Self {
            nodes: Nodes::default(),
            documents: Vec::new(),
            file_names: Vec::new(),
            environment: Box::new(environment),
        }
    }

    /// Adds the documents of a file.
    pub fn add_file(&mut self, name: &str, text: &str, format: InputFormat) -> Result<FileTraits, YqError> {
        let stream =
            read(text, format).map_err(|YqError(error)| YqError::new(format!("bad file '{name}': {error}")))?;
        let file = self.file_names.len();
        self.file_names.push(name.to_owned());
        for (index, tree) in stream.documents.iter().enumerate() {
            let root = self.nodes.load(tree, index, file)?;
            self.documents.push(root);
        }
        Ok(FileTraits { has_comments: stream.has_comments, has_anchors: stream.has_anchors })
    }

    /// Evaluates an expression over each document in turn.
    pub fn evaluate(&mut self, expression: &Expression) -> Result<Results, YqError> {
        if self.documents.is_empty() {
            return self.evaluate_new(expression);
        }
        let mut found = Vec::new();
        for document in self.documents.clone() {
            found.extend(self.run(expression, vec![document], false)?);
        }
        Ok(Results(found))
    }

    /// Evaluates an expression once over all documents.
    pub fn evaluate_all(&mut self, expression: &Expression) -> Result<Results, YqError> {
        let documents = self.documents.clone();
        self.run(expression, documents, true).map(Results)
    }

    /// Evaluates an expression that needs no document.
    pub fn evaluate_new(&mut self, expression: &Expression) -> Result<Results, YqError> {
        let nothing = self.nodes.scalar("!!null", "", None)?;
        self.run(expression, vec![nothing], false).map(Results)
    }

    fn run(&mut self, expression: &Expression, nodes: Vec<NodeId>, is_together: bool) -> Result<Vec<NodeId>, YqError> {
        let mut evaluator = Evaluator {
            nodes: &mut self.nodes,
            file_names: &self.file_names,
            environment: self.environment.as_ref(),
            steps: 0,
        };
        evaluator.evaluate(&expression.root, &Context { nodes, is_together, ..Context::default() })
    }

    /// Whether there is a result that is neither null nor false.
    pub fn has_match(&self, results: &Results) -> bool {
        results.0.iter().any(|node| {
            let node = &self.nodes[*node];
            !node.is_null() && (node.tag != "!!bool" || node.text != "false")
        })
    }

    /// Writes results one after the other.
    pub fn write(&mut self, results: &Results, options: &OutputOptions) -> Result<String, YqError> {
        let mut text = String::new();
        let mut previous = None;
        for node in &results.0 {
            if options.pretty {
                self.drop_styles(*node);
            }
            let place = (self.nodes[*node].file, self.nodes[*node].document);
            let differs = previous.replace(place).is_some_and(|previous| previous != place);
            if differs && options.separators && options.format == OutputFormat::Yaml {
                text.push_str("---\n");
            }
            let unwraps = options.unwrap_scalars.unwrap_or(options.format != OutputFormat::Json);
            if self.nodes[*node].kind == Kind::Scalar && unwraps {
                text.push_str(&self.nodes[*node].text);
                text.push('\n');
            } else {
                text.push_str(&write_node(&self.nodes, *node, options.format, options.indent)?);
            }
        }
        Ok(text)
    }

    fn drop_styles(&mut self, root: NodeId) {
        let mut open = vec![root];
        while let Some(node) = open.pop() {
            open.extend(&self.nodes[node].content);
            let node = &mut self.nodes[node];
            let words = ["y", "yes", "n", "no", "on", "off"];
            // Readers of YAML 1.1 take these for truth values.
            let keeps = node.tag == "!!str" && words.iter().any(|word| node.text.eq_ignore_ascii_case(word));
            if !keeps {
                (node.style, node.is_flow) = (ScalarStyle::Plain, false);
            }
        }
    }
}
