//! The table of mutants by layer: plausible mistakes, each with the test that must fail.

mod oracles;
mod product;
mod pure;
mod server;
mod world;

/// A mistake that a programmer could make.
#[derive(Debug)]
pub(super) struct Mutation {
    /// A description of the defect.
    pub(super) name: &'static str,
    /// The package of the source file and of the test.
    pub(super) package: &'static str,
    /// The test target: `lib`, `bin`, or the name of an integration test.
    pub(super) target: &'static str,
    /// The source file, relative to the package's folder.
    pub(super) file: &'static str,
    /// The text to replace; it occurs exactly once in the file.
    pub(super) text: &'static str,
    pub(super) replacement: &'static str,
    /// The full name of the test that must fail.
    pub(super) caught_by: &'static str,
}

/// All rows.
pub(super) fn rows() -> impl Iterator<Item = &'static Mutation> {
    [oracles::MUTATIONS, pure::MUTATIONS, world::MUTATIONS, server::MUTATIONS, product::MUTATIONS].into_iter().flatten()
}
