//! YAML as `sigs.k8s.io/yaml` over goyaml v2 reads and writes it: the words of YAML 1.1 (`yes`, `on`), merge keys, bounded
//! aliases, sorted keys.
//!
//! Error messages are goyaml's, because clients see them in Status objects and command output. No IO.
//!
//! ```
//! let parsed = rdd_yaml::read("kind: App\nspec: {running: yes}\n")?;
//! assert_eq!(parsed.value["spec"]["running"], true);
//! assert_eq!(rdd_yaml::write(&parsed.value), "kind: App\nspec:\n  running: true\n");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

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
