//! Reads objects from files, folders and standard input: YAML and JSON, with several documents each.

use std::{
    fs,
    io::Read as _,
    path::{Path, PathBuf},
};

use rdd_meta::go_text::quote;
use serde_json::Value;

use crate::{
    context::Ctl,
    error::{Error, Result},
    flags::{Flag, Kind},
    print::go_io,
};

/// The maximum size of an input.
pub(crate) const BYTES_MAX: u64 = 1 << 30;
/// The maximum depth of nested folders.
const FOLDERS_MAX: usize = 64;
/// kubectl's name of standard input.
const STDIN: &str = "STDIN";

/// The flags of every verb that reads files.
pub(crate) const FLAGS: &[Flag] = &[
    Flag::of("filename", Kind::List, "").short('f'),
    Flag::value("kustomize").short('k'),
    Flag::switch("recursive").short('R'),
];

/// A document and its source.
#[derive(Debug)]
pub(crate) struct Document {
    /// The file name, or `STDIN`.
    pub(crate) source: String,
    /// The object, or why it could not be read.
    pub(crate) content: Result<Value>,
}

/// The documents that `-f` names.
#[derive(Debug, Default)]
pub(crate) struct Documents {
    /// The documents in order.
    pub(crate) all: Vec<Document>,
    /// Whether `-f` names exactly one file, not a folder or standard input.
    pub(crate) is_single_file: bool,
}

/// Whether the command line names files.
pub(crate) fn is_given(ctl: &Ctl<'_>) -> bool {
    !ctl.flags.list("filename").is_empty() || !ctl.flags.text("kustomize").is_empty()
}

/// Reads everything that `-f` names.
pub(crate) fn read(ctl: &Ctl<'_>) -> Result<Documents> {
    if !ctl.flags.text("kustomize").is_empty() {
        return Err(Error::text(format!(
            "kustomizations are not built in (-k)\nhint: use `kubectl kustomize DIR | {} apply -f -`",
            ctl.program
        )));
    }
    let recursive = ctl.flags.is_on("recursive");
    let mut documents = Documents::default();
    let mut places: Vec<Option<PathBuf>> = Vec::new();
    let mut only_files = true;
    let mut errors = Vec::new();
    for name in ctl.flags.list("filename") {
        if name == "-" {
            if places.contains(&None) {
                errors.push(Error::text("standard input cannot be used for multiple arguments"));
            }
            places.push(None);
            only_files = false;
        } else if name.starts_with("http://") || name.starts_with("https://") {
            errors.push(Error::text(format!(
                "nothing is downloaded here: {name}\nhint: use `curl -fsSL {name} | {} apply -f -`",
                ctl.program
            )));
        } else {
            match expand(name, recursive) {
                Ok((files, is_folder)) => {
                    only_files &= !is_folder;
                    places.extend(files.into_iter().map(Some));
                }
                Err(error) => errors.push(error),
            }
        }
    }
    Error::aggregate(errors)?;
    documents.is_single_file = only_files && places.len() == 1;
    for place in places {
        read_place(ctl, place, &mut documents.all);
    }
    Ok(documents)
}

fn read_place(ctl: &Ctl<'_>, place: Option<PathBuf>, all: &mut Vec<Document>) {
    let (source, bytes) = match place {
        None => (STDIN.to_owned(), ctl.read_input()),
        Some(path) => {
            let source = path.to_string_lossy().into_owned();
            let read = fs::File::open(&path).and_then(|file| {
                let mut bytes = Vec::new();
                file.take(BYTES_MAX).read_to_end(&mut bytes).map(|_| bytes)
            });
            let read = read.map_err(|error| Error::text(go_io("open", &source, &error)));
            (source, read)
        }
    };
    match bytes {
        Ok(bytes) => {
            let text = decode(&bytes);
            all.extend(
                documents(&text, &source).into_iter().map(|content| Document { source: source.clone(), content }),
            );
        }
        Err(error) => all.push(Document { source, content: Err(error) }),
    }
}

/// Expands a name to files; also returns whether it is a folder. A name that does not exist may be a glob pattern.
fn expand(name: &str, recursive: bool) -> Result<(Vec<PathBuf>, bool)> {
    let missing = || Error::text(format!("the path {} does not exist", quote(name)));
    let path = Path::new(name);
    let paths = if path.exists() { vec![path.to_owned()] } else { glob(path) };
    if paths.is_empty() {
        return Err(missing());
    }
    let mut files = Vec::new();
    let mut is_folder = false;
    for path in paths {
        if path.is_dir() {
            is_folder = true;
            walk(&path, recursive, 0, &mut files)?;
        } else {
            files.push(path);
        }
    }
    if files.is_empty() {
        return Err(Error::text(format!(
            "error reading {}: recognized file extensions are [.json .yaml .yml]",
            go_list(&[name])
        )));
    }
    Ok((files, is_folder))
}

fn go_list(names: &[&str]) -> String {
    format!("[{}]", names.join(" "))
}

fn walk(folder: &Path, recursive: bool, depth: usize, files: &mut Vec<PathBuf>) -> Result<()> {
    let unreadable = |error: &std::io::Error| Error::text(go_io("open", &folder.to_string_lossy(), error));
    if depth > FOLDERS_MAX {
        return Err(Error::text(format!("folders are nested too deeply: {}", folder.display())));
    }
    let entries = fs::read_dir(folder).map_err(|error| unreadable(&error))?;
    let mut paths: Vec<PathBuf> = Vec::new();
    for entry in entries {
        paths.push(entry.map_err(|error| unreadable(&error))?.path());
    }
    paths.sort();
    for path in paths {
        let is_folder = fs::symlink_metadata(&path).is_ok_and(|meta| meta.is_dir());
        let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
        if is_folder && recursive {
            walk(&path, recursive, depth + 1, files)?;
        } else if !is_folder && matches!(extension, "json" | "yaml" | "yml") {
            files.push(path);
        }
    }
    Ok(())
}

/// The sorted files that match a pattern with wildcards in the last component.
fn glob(pattern: &Path) -> Vec<PathBuf> {
    let (Some(name), folder) = (pattern.file_name().and_then(|name| name.to_str()), pattern.parent()) else {
        return Vec::new();
    };
    if !name.contains(['*', '?']) {
        return Vec::new();
    }
    let folder = folder.filter(|folder| !folder.as_os_str().is_empty());
    let entries = fs::read_dir(folder.unwrap_or(Path::new("."))).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let mut found: Vec<PathBuf> = names
        .filter(|entry| matches(name.as_bytes(), entry.as_bytes()))
        .map(|entry| folder.map_or_else(|| PathBuf::from(&entry), |folder| folder.join(&entry)))
        .collect();
    found.sort();
    found
}

fn matches(pattern: &[u8], name: &[u8]) -> bool {
    // Greedy matching with backtracking to the last star: linear for one star, quadratic at worst.
    let (mut at, mut from, mut star, mut mark) = (0, 0, None, 0);
    while from < name.len() {
        if at < pattern.len() && (pattern[at] == b'?' || pattern[at] == name[from]) && pattern[at] != b'*' {
            at += 1;
            from += 1;
        } else if at < pattern.len() && pattern[at] == b'*' {
            star = Some(at);
            mark = from;
            at += 1;
        } else if let Some(star) = star {
            at = star + 1;
            mark += 1;
            from = mark;
        } else {
            return false;
        }
    }
    pattern[at..].iter().all(|byte| *byte == b'*')
}

/// Decodes UTF-8, or UTF-16 with a byte order mark, as some Windows tools write it.
fn decode(bytes: &[u8]) -> String {
    let units = |read: fn([u8; 2]) -> u16, bytes: &[u8]| -> Vec<u16> {
        bytes.chunks_exact(2).map(|pair| read([pair[0], pair[1]])).collect()
    };
    match bytes {
        [0xff, 0xfe, rest @ ..] => String::from_utf16_lossy(&units(u16::from_le_bytes, rest)),
        [0xfe, 0xff, rest @ ..] => String::from_utf16_lossy(&units(u16::from_be_bytes, rest)),
        [0xef, 0xbb, 0xbf, rest @ ..] => String::from_utf8_lossy(rest).into_owned(),
        bytes => String::from_utf8_lossy(bytes).into_owned(),
    }
}

/// The non-empty documents of a text. It stops after the first one that cannot be parsed.
pub(crate) fn documents(text: &str, source: &str) -> Vec<Result<Value>> {
    let failed = |why: String| Error::text(format!("error parsing {source}: {why}"));
    if text.trim_start().starts_with('{') {
        return json_documents(text).into_iter().map(|read| read.map_err(&failed)).collect();
    }
    let mut all = Vec::new();
    for document in split(text) {
        match rdd_yaml::read(&document) {
            Ok(read) if read.value.is_null() => {}
            Ok(read) => all.push(Ok(read.value)),
            Err(error) => {
                all.push(Err(failed(format!("error converting YAML to JSON: {error}"))));
                break;
            }
        }
    }
    all
}

fn json_documents(text: &str) -> Vec<Result<Value, String>> {
    let mut all = Vec::new();
    let mut stream = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    while let Some(read) = stream.next() {
        match read {
            Ok(Value::Null) => {}
            Ok(value) => all.push(Ok(value)),
            Err(error) => {
                let offset = stream.byte_offset();
                // YAML documents may follow JSON ones.
                let rest = &text[offset..];
                if offset > 0 && rest.trim_start().starts_with("---") {
                    let read = split(rest).into_iter().map(|document| {
                        rdd_yaml::read(&document).map(|read| read.value).map_err(|error| error.to_string())
                    });
                    all.extend(read.filter(|read| !matches!(read, Ok(Value::Null))));
                } else {
                    all.push(Err(json_problem(text, &error)));
                }
                break;
            }
        }
    }
    all
}

/// The message of Go's decoder, as closely as possible.
fn json_problem(text: &str, error: &serde_json::Error) -> String {
    if error.is_eof() {
        return "unexpected EOF".to_owned();
    }
    // Text that starts like JSON may be YAML in flow style.
    match rdd_yaml::read(text) {
        Err(problem) => format!("error converting YAML to JSON: {problem}"),
        Ok(_) => error.to_string(),
    }
}

/// Splits at lines that begin with `---`.
fn split(text: &str) -> Vec<String> {
    let mut documents = vec![String::new()];
    for line in text.split_inclusive('\n') {
        let separates = line.strip_prefix("---").is_some_and(|rest| {
            let rest = rest.trim();
            rest.is_empty() || rest.starts_with('#')
        });
        if separates {
            documents.push(String::new());
        } else if let Some(last) = documents.last_mut() {
            last.push_str(line);
        }
    }
    documents
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(text: &str) -> Vec<Value> {
        documents(text, "x").into_iter().map(|read| read.unwrap()).collect()
    }

    #[test]
    fn documents_are_yaml_or_json_and_empty_ones_are_none() {
        assert_eq!(values("a: 1\n---\n# nothing\n---\nb: 2\n").len(), 2);
        assert_eq!(values("---\na: 1\n--- # two\nb: yes\n")[1]["b"], true);
        assert_eq!(values("{\"a\":1}{\"b\":2}\n{\"c\":3}").len(), 3);
        assert_eq!(values("").len(), 0);
    }

    #[test]
    fn after_a_document_that_cannot_be_read_nothing_is() {
        let read = documents("a: 1\n---\na: [\n---\nb: 1\n", "f.yaml");
        assert_eq!(read.len(), 2);
        assert!(
            read[1]
                .as_ref()
                .unwrap_err()
                .to_string()
                .starts_with("error parsing f.yaml: error converting YAML to JSON: yaml:")
        );
    }

    #[test]
    fn folders_are_read_in_order_and_deeper_ones_only_if_asked() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("sub")).unwrap();
        for name in ["b.yaml", "a.json", "c.txt", "sub/d.yml"] {
            fs::write(folder.path().join(name), "{}").unwrap();
        }
        let names = |recursive| {
            let (files, _) = expand(folder.path().to_str().unwrap(), recursive).unwrap();
            files.iter().map(|file| file.file_name().unwrap().to_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(names(false), ["a.json", "b.yaml"]);
        assert_eq!(names(true), ["a.json", "b.yaml", "d.yml"]);
        let (files, _) = expand(folder.path().join("*.yaml").to_str().unwrap(), false).unwrap();
        assert_eq!(files.len(), 1);
        assert!(expand("/nonexistent/x", false).is_err());
    }

    #[test]
    fn marks_of_windows_are_taken_off() {
        assert_eq!(decode(b"\xef\xbb\xbfa: 1"), "a: 1");
        assert_eq!(decode(b"\xff\xfea\0:\0"), "a:");
    }
}
