//! The daemon's log files: a fresh one per start, with the title that was asked for.

use std::{fs::File, path::Path};

use crate::report::Outcome;

/// Sets the file at `path` aside and opens a new one, private and with its title.
pub fn rotate(path: &Path, keep_all: bool, title: Option<&str>) -> Outcome<File> {
    let title = title.map(|title| format!("=== {title} ==="));
    Ok(rdd_stdx::logfile::rotate(path, keep_all, title.as_deref())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_log_begins_with_its_title() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("rdd.stderr.log");
        drop(rotate(&path, false, Some("the title")).unwrap());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "=== the title ===\n");
    }
}
