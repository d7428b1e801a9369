//! The everyday language of [mikefarah's yq](https://github.com/mikefarah/yq), version 4: expressions that read and
//! change YAML documents. No IO: the caller passes in the documents and the environment variables.
//!
//! ```
//! use rdd_yq::{InputFormat, OutputFormat, OutputOptions, Expression, Program};
//!
//! let expression = Expression::parse(r#".name = "rdd" | .tags[0]"#)?;
//! let mut program = Program::new(|_| None);
//! program.add_file("a.yaml", "tags: [one, two]\n", InputFormat::Yaml)?;
//! let results = program.evaluate(&expression)?;
//! let options = OutputOptions { format: OutputFormat::Yaml, ..OutputOptions::default() };
//! assert_eq!(program.write(&results, &options)?, "one\n");
//! # Ok::<(), rdd_yq::YqError>(())
//! ```

mod evaluate;
mod format;
mod functions;
mod lex;
mod nodes;
mod operators;
mod parse;
mod program;

pub use format::{InputFormat, OutputFormat, OutputOptions};
pub use parse::Expression;
pub use program::{FileTraits, Program, Results};

/// The version of yq whose language this crate implements a part of.
pub const LANGUAGE_VERSION: &str = "4.54.1";

/// An error in an expression, in a document, or during evaluation. The message is yq's where yq has one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct YqError(String);

impl YqError {
    fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }

    /// An expression that cannot be parsed: yq's words, after those that scripts look for.
    fn bad_expression(reason: impl std::fmt::Display) -> Self {
        Self(format!("invalid input: bad expression, {reason}"))
    }
}
