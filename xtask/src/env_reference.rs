//! Generates the reference of environment variables from the table that the program reads.

use std::{fs, path::Path};

use anyhow::{Context, Result};
use rdd_instance::env::{VARIABLES, Variable};

/// The path of the reference.
const PATH: &str = "docs/reference/environment.md";

/// Writes the reference.
pub(crate) fn write(root: &Path) -> Result<()> {
    let path = root.join(PATH);
    let folder = path.parent().expect("the path has a folder");
    fs::create_dir_all(folder).with_context(|| format!("create folder {}", folder.display()))?;
    fs::write(&path, render(VARIABLES)).with_context(|| format!("write {}", path.display()))
}

/// The problems of `cargo xtask tidy`: the reference is missing or out of date.
pub(crate) fn check(root: &Path) -> Vec<String> {
    compare(VARIABLES, fs::read_to_string(root.join(PATH)).ok().as_deref())
}

fn compare(variables: &[Variable], present: Option<&str>) -> Vec<String> {
    if present == Some(render(variables).as_str()) {
        return Vec::new();
    }
    vec![format!("{PATH} is not what the table of variables says: run `cargo xtask env-reference`")]
}

fn render(variables: &[Variable]) -> String {
    let mut text = String::from(
        "# Environment variables\n\nGenerated from `rdd_instance::env::VARIABLES` by `cargo xtask env-reference`; do not edit.\n\n\
         | Variable | Read by | Effect |\n|---|---|---|\n",
    );
    for Variable { name, read_by, effect } in variables {
        text.push_str(&format!("| `{name}` | {} | {} |\n", cell(read_by), cell(effect)));
    }
    text
}

/// Escapes text for a cell of a Markdown table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &[Variable] = &[Variable { name: "RDD_X", read_by: "the CLI", effect: "a | b" }];

    #[test]
    fn the_reference_is_a_table_whose_cells_hold() {
        assert!(render(TABLE).ends_with("|---|---|---|\n| `RDD_X` | the CLI | a \\| b |\n"));
    }

    #[test]
    fn drift_is_found_and_a_current_file_is_fine() {
        assert!(compare(TABLE, Some(&render(TABLE))).is_empty());
        assert_eq!(compare(TABLE, Some("# old\n")).len(), 1);
        assert_eq!(compare(TABLE, None).len(), 1);
    }
}
