//! Field paths, and the errors that name them.

use std::fmt::{self, Display, Write};

pub use rdd_meta::field_error::{FieldError as Error, FieldErrorKind as ErrorKind, aggregate};

/// The path of a field in an object: a stack of names, keys and indexes that borrows from the recursion which builds it.
#[derive(Clone, Copy, Debug)]
pub enum Path<'a> {
    /// No path: Go's nil path, printed `<nil>` when nothing follows.
    Nil,
    /// A field of a struct.
    Child(&'a Path<'a>, &'a str),
    /// An entry of a map.
    Key(&'a Path<'a>, &'a str),
    /// An element of a list.
    Index(&'a Path<'a>, usize),
}

impl<'a> Path<'a> {
    /// Appends a field of a struct: `.name`.
    pub fn child(&'a self, name: &'a str) -> Path<'a> {
        Path::Child(self, name)
    }

    /// Appends an entry of a map: `[key]`.
    pub fn key(&'a self, key: &'a str) -> Path<'a> {
        Path::Key(self, key)
    }

    /// Appends an element of a list: `[index]`.
    pub fn index(&'a self, index: usize) -> Path<'a> {
        Path::Index(self, index)
    }

    fn write(&self, out: &mut String) {
        match self {
            Path::Nil => {}
            // Upstream prints a child without a name as a subscript.
            Path::Child(parent, "") | Path::Key(parent, "") => {
                parent.write(out);
                out.push_str("[]");
            }
            Path::Child(parent, name) => {
                parent.write(out);
                if !matches!(parent, Path::Nil) {
                    out.push('.');
                }
                out.push_str(name);
            }
            Path::Key(parent, key) => {
                parent.write(out);
                let _ = write!(out, "[{key}]");
            }
            Path::Index(parent, index) => {
                parent.write(out);
                let _ = write!(out, "[{index}]");
            }
        }
    }
}

impl Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if matches!(self, Path::Nil) {
            return f.write_str("<nil>");
        }
        let mut out = String::new();
        self.write(&mut out);
        f.write_str(&out)
    }
}

impl From<Path<'_>> for String {
    fn from(path: Path<'_>) -> String {
        path.to_string()
    }
}

impl From<&Path<'_>> for String {
    fn from(path: &Path<'_>) -> String {
        path.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_prints_names_keys_and_indexes_and_nil() {
        let spec = Path::Nil.child("spec");
        let key = spec.key("a.b");
        assert_eq!(key.index(3).child("x").to_string(), "spec[a.b][3].x");
        assert_eq!(Path::Nil.to_string(), "<nil>");
        assert_eq!(Path::Nil.index(1).to_string(), "[1]");
        assert_eq!(spec.child("").to_string(), "spec[]");
    }
}
