//! Rotates the daemon's log files: each start writes to new ones.

use std::{fs::File, path::Path};

use crate::report::Outcome;

/// Rotates the file at `path` and opens a new private one that begins with the title, if any.
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
