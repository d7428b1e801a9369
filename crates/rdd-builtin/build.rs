//! Generates two things from `types.txt`: the table of types as Rust, and the OpenAPI definitions with upstream's descriptions.

#[path = "build/definitions.rs"]
mod definitions;
#[path = "build/descriptions.rs"]
mod descriptions;
#[path = "build/rust.rs"]
mod rust;
#[path = "build/table.rs"]
mod table;

use std::{env, fs, io::Write, path::Path};

fn main() {
    println!("cargo::rerun-if-changed=types.txt");
    println!("cargo::rerun-if-changed=build");
    println!("cargo::rerun-if-changed=build.rs");
    let table = table::Table::parse(&fs::read_to_string("types.txt").expect("types.txt is beside this file"));
    let folder = env::var("OUT_DIR").expect("cargo sets OUT_DIR");
    let folder = Path::new(&folder);
    let described = descriptions::all();
    fs::write(folder.join("types.rs"), rust::write(&table, &described)).expect("OUT_DIR can be written");
    let definitions = definitions::build(&table, &described);
    let text = serde_json::to_vec(&definitions).expect("definitions are JSON");
    let mut deflated = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::best());
    deflated.write_all(&text).expect("a vector takes everything");
    let deflated = deflated.finish().expect("a vector takes everything");
    fs::write(folder.join("definitions.deflate"), deflated).expect("OUT_DIR can be written");
}
