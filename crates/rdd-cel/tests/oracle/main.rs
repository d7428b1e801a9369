//! Compares this crate with CEL in Kubernetes: generated expressions, the vectors of the CEL specification, and rules of real CRDs.

mod crds;
mod generate;
mod generated;
mod mutated;
mod ours;
mod patterns;
mod rules;
mod vectors;
