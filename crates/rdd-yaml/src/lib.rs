//! YAML as `sigs.k8s.io/yaml` over goyaml v2 reads and writes it: YAML 1.1 words, merge keys, bounded aliases, sorted keys.

mod compose;
mod read;
mod resolve;
mod scan;
mod source;
mod tree;
mod write;

pub use read::{Error, Read, read};
pub use resolve::core_tag;
pub use tree::{ScalarStyle, YamlContent, YamlNode, YamlStream, read_documents};
pub use write::{write, write_document, write_v3};
