//! YAML as `sigs.k8s.io/yaml` over goyaml v2 reads and writes it: YAML 1.1 words, merge keys, bounded aliases, sorted keys.

mod read;
mod resolve;
mod write;

pub use read::{Error, Read, read};
pub use write::{write, write_v3};
