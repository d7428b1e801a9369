//! Compares this crate with Kubernetes' own CEL: generated expressions, the vectors of the CEL specification, the rules of real CRDs.

mod crds;
mod generate;
mod generated;
mod mutated;
mod ours;
mod patterns;
mod rules;
mod vectors;
