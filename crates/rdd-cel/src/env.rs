//! The environment of expressions: the variables and types that they may use, and their compilation to programs.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::check;
use crate::declare::{Declarations, TypeProvider};
use crate::parse::{self, Syntax};
use crate::plan;
use crate::program::Program;
use crate::source::{Issues, Source};
use crate::stack;
use crate::types::Type;

/// An expression with more punctuation than this may be nested deeply and is compiled on a stack of its own.
const SIGNS_INLINE_MAX: usize = 60;

/// The expression does not compile.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CompileError {
    /// The expression does not parse or its types are wrong. The text is cel-go's, with positions and carets.
    #[error("{0}")]
    Issues(#[from] Issues),
    /// The expression is correct, but a constant part of it fails to evaluate.
    #[error("{0}")]
    Program(String),
}

/// Kubernetes' environment of version 1.35 (`environment/base.go`), which variables and object types can be added to.
#[derive(Clone)]
pub struct Environment {
    pub(crate) variables: BTreeMap<String, Type>,
    pub(crate) types: Arc<dyn TypeProvider>,
    syntax: Syntax,
}

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Environment").field("variables", &self.variables).finish_non_exhaustive()
    }
}

impl Default for Environment {
    fn default() -> Self {
        Self { variables: BTreeMap::new(), types: Arc::new(Declarations::default()), syntax: Syntax::default() }
    }
}

impl Environment {
    /// The environment without variables.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Declares a variable.
    #[must_use]
    pub fn with_variable(mut self, name: &str, variable_type: Type) -> Self {
        self.variables.insert(name.into(), variable_type);
        self
    }

    /// Declares object types.
    #[must_use]
    pub fn with_types(mut self, types: Arc<dyn TypeProvider>) -> Self {
        self.types = types;
        self
    }

    /// Allows field names in backticks, which Kubernetes does not.
    #[must_use]
    pub fn with_escaped_identifiers(mut self) -> Self {
        self.syntax.escaped_identifiers = true;
        self
    }

    /// Adds the macro `cel.bind`, which Kubernetes does not have.
    #[must_use]
    pub fn with_bindings(mut self) -> Self {
        self.syntax.bindings = true;
        self
    }

    /// Parses, checks and plans an expression.
    ///
    /// Time and depth are bounded for every text.
    ///
    /// # Errors
    /// [`CompileError::Issues`] with everything that is wrong with the text, [`CompileError::Program`] when a constant part
    /// fails.
    pub fn compile(&self, text: &str) -> Result<Program, CompileError> {
        // Every level of nesting needs punctuation, so its count bounds the depth.
        let signs = text.bytes().filter(u8::is_ascii_punctuation).count();
        let made = stack::with_room(signs > SIGNS_INLINE_MAX, || {
            let source = Source::new(text);
            let parsed = parse::parse(&source, self.syntax)?;
            let checked = check::check(&source, parsed, self)?;
            plan::plan(&checked).map_err(CompileError::Program)
        });
        made.unwrap_or_else(|| Err(CompileError::Program("no thread for a deep expression".into())))
    }
}
