//! An environment: what expressions may name, and the way from text to a program.

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

/// Text with more signs than this may be nested deeply.
const SIGNS_INLINE_MAX: usize = 60;

/// Why text is no program.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CompileError {
    /// It does not parse or does not check. The text is cel-go's, with places and carets.
    #[error("{0}")]
    Issues(#[from] Issues),
    /// It checks, and a constant part of it has no value.
    #[error("{0}")]
    Program(String),
}

/// Kubernetes' environment of version 1.35 (`environment/base.go`), with variables and object types added.
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

    /// Lets fields be named in backticks, which Kubernetes does not.
    #[must_use]
    pub fn with_escaped_identifiers(mut self) -> Self {
        self.syntax.escaped_identifiers = true;
        self
    }

    /// Adds `cel.bind`, which Kubernetes does not have.
    #[must_use]
    pub fn with_bindings(mut self) -> Self {
        self.syntax.bindings = true;
        self
    }

    /// Parses, checks and plans an expression.
    ///
    /// # Errors
    /// What is wrong with the text, in cel-go's words. Work and depth are bounded whatever the text.
    pub fn compile(&self, text: &str) -> Result<Program, CompileError> {
        // Every level of nesting takes a sign.
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
