//! Representations on the wire: negotiation, request decoding, response encoding, tables, compression and warnings.

pub(crate) mod accept;
mod answer;
mod body;
pub(crate) mod frames;
mod malformed;
mod negotiate;
mod partial;
mod pretty;
pub(crate) mod protobuf;
mod table;
mod warning;

pub use answer::{ListMetadata, Wire, error, list, object, outcome};
pub(crate) use answer::{document, document_in, shown};
pub use body::{Notation, notation, read_body, read_delete_options};
pub(crate) use body::{read_json_document, read_yaml_document};
pub use negotiate::{Encoding, Form, Include, MetaVersion, Representation, negotiate, negotiate_stream};
pub use warning::add_warnings;
