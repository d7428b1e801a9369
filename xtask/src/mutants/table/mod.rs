//! The slips, by layer: each plausible, and each with the test that must notice it.

mod oracles;
mod product;
mod pure;
mod server;
mod world;

/// A slip that someone could make.
#[derive(Debug)]
pub(super) struct Mutation {
    /// What is wrong then.
    pub(super) name: &'static str,
    /// The package that the slip and its test are in.
    pub(super) package: &'static str,
    /// `lib`, `bin`, or the name of an integration test.
    pub(super) target: &'static str,
    /// Below the package's folder.
    pub(super) file: &'static str,
    /// Occurs exactly once in the file.
    pub(super) text: &'static str,
    pub(super) replacement: &'static str,
    /// The full name of the test.
    pub(super) caught_by: &'static str,
}

/// All of them.
pub(super) fn rows() -> impl Iterator<Item = &'static Mutation> {
    [oracles::MUTATIONS, pure::MUTATIONS, world::MUTATIONS, server::MUTATIONS, product::MUTATIONS].into_iter().flatten()
}
