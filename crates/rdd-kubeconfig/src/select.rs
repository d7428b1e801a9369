//! Selects the kubeconfig to write by client-go's rules (`clientcmd.ModifyConfig`, `PathOptions.GetDefaultFilename`).

use serde_json::Value;

use crate::edit::List;

/// A loaded kubeconfig of the list.
#[derive(Debug, Clone)]
pub(crate) struct Known {
    /// Whether the file exists.
    pub(crate) exists: bool,
    /// The content; null if the file is empty.
    pub(crate) value: Value,
}

impl Known {
    pub(crate) fn entry(&self, list: List, name: &str) -> Option<&Value> {
        let entries = self.value.get(list.key())?.as_array()?;
        entries.iter().find(|entry| entry.get("name").and_then(Value::as_str) == Some(name))
    }

    pub(crate) fn current(&self) -> &str {
        self.value.get("current-context").and_then(Value::as_str).unwrap_or_default()
    }
}

/// The index of the file for new entries: the first that exists, otherwise the last.
pub(crate) fn default_file(files: &[Known]) -> usize {
    files.iter().position(|file| file.exists).unwrap_or(files.len().saturating_sub(1))
}

/// The index of the file for an entry: the first that has it, otherwise that for new entries.
pub(crate) fn file_for(files: &[Known], list: List, name: &str) -> usize {
    files.iter().position(|file| file.entry(list, name).is_some()).unwrap_or_else(|| default_file(files))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn file(value: Value) -> Known {
        Known { exists: true, value }
    }

    fn missing() -> Known {
        Known { exists: false, value: Value::Null }
    }

    #[test]
    fn an_entry_is_written_where_it_is_and_a_new_one_into_the_first_file_that_exists() {
        let ours = file(json!({"contexts": [{"name": "ours"}]}));
        let files = [missing(), file(json!({})), ours];
        assert_eq!(file_for(&files, List::Contexts, "ours"), 2);
        assert_eq!(file_for(&files, List::Clusters, "ours"), 1);
        assert_eq!(default_file(&files), 1);
    }

    #[test]
    fn where_none_exists_the_last_is_made() {
        assert_eq!(default_file(&[missing(), missing()]), 1);
        assert_eq!(default_file(&[missing()]), 0);
    }
}
