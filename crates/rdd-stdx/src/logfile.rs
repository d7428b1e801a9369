//! Rotates log files at each start and keeps the last five.

use std::{
    fs::{self, File},
    io::{self, Write},
    path::Path,
};

use crate::file::{self, Error};

/// How many old files are kept.
const KEPT: u64 = 5;

/// The steps of a rotation.
#[derive(Debug, PartialEq, Eq)]
struct Rotation {
    /// The number for the current file.
    number: u64,
    /// The old files to remove.
    prune: Vec<String>,
}

/// Plans a rotation. The new number is one above the highest existing one; gaps are not filled.
fn plan(names: &[String], stem: &str, keep_all: bool) -> Rotation {
    let numbers: Vec<u64> = names.iter().filter_map(|name| number_of(name, stem)).collect();
    let number = numbers.iter().max().map_or(1, |highest| highest.saturating_add(1));
    let mut old: Vec<u64> = numbers.into_iter().filter(|old| old.saturating_add(KEPT) <= number && !keep_all).collect();
    old.sort_unstable();
    Rotation { number, prune: old.into_iter().map(|old| format!("{stem}.{old}.log")).collect() }
}

/// Parses the number of an old file: 12 for `rdd.stderr.12.log` and the stem `rdd.stderr`. Other spellings are ignored.
fn number_of(name: &str, stem: &str) -> Option<u64> {
    let digits = name.strip_prefix(stem)?.strip_prefix('.')?.strip_suffix(".log")?;
    let number: u64 = digits.parse().ok()?;
    // Names like `rdd.stderr.012.log` are not ours and must not be pruned.
    (number.to_string() == digits).then_some(number)
}

/// Renames `<stem>.log` at `path` to `<stem>.<N>.log` and opens a new private file with `title` as its first line.
/// Keeps the newest five old files, or all of them.
pub fn rotate(path: &Path, keep_all: bool, title: Option<&str>) -> Result<File, Error> {
    set_aside(path, keep_all)?;
    let mut log = file::open_append_private(path)?;
    if let Some(title) = title {
        writeln!(log, "{title}").map_err(failed("write", path))?;
    }
    Ok(log)
}

/// Renames the file like [`rotate`], but leaves opening the new one to another program.
pub fn set_aside(path: &Path, keep_all: bool) -> Result<(), Error> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let names: Vec<String> = fs::read_dir(folder)
        .and_then(|entries| entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect())
        .map_err(failed("list", folder))?;
    let Rotation { number, prune } = plan(&names, &stem, keep_all);
    match fs::rename(path, folder.join(format!("{stem}.{number}.log"))) {
        // A missing file is normal at the first start.
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed("rotate log", path)(error)),
        _ => {}
    }
    for name in prune {
        file::remove_if_present(&folder.join(name))?;
    }
    Ok(())
}

fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
    move |source| Error { action, path: path.to_owned(), source }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn numbers_grow_and_five_old_files_remain() {
        for (existing, keep_all, number, prune) in [
            (&[][..], false, 1, &[][..]),
            (&[1, 2], false, 3, &[]),
            (&[1, 2, 3, 4, 5], false, 6, &[1]),
            (&[2, 3, 4, 5, 6], false, 7, &[2]),
            (&[1, 9], false, 10, &[1]),
            (&[1, 2, 3, 40], false, 41, &[1, 2, 3]),
            (&[1, 2, 3, 40], true, 41, &[]),
        ] {
            let names: Vec<String> = existing.iter().map(|number| format!("rdd.stderr.{number}.log")).collect();
            let expected = prune.iter().map(|number| format!("rdd.stderr.{number}.log")).collect();
            assert_eq!(plan(&names, "rdd.stderr", keep_all), Rotation { number, prune: expected }, "{existing:?}");
        }
    }

    #[test]
    fn only_our_own_spelling_is_a_numbered_log() {
        for (name, number) in [
            ("rdd.stderr.1.log", Some(1)),
            ("rdd.stderr.log", None),
            ("rdd.stdout.1.log", None),
            ("rdd.stderr.01.log", None),
            ("rdd.stderr.+1.log", None),
            ("rdd.stderr.x.log", None),
            ("rdd.stderr.1.log.gz", None),
            ("xrdd.stderr.1.log", None),
        ] {
            assert_eq!(number_of(name, "rdd.stderr"), number, "{name}");
        }
    }

    #[test]
    fn each_start_gets_a_new_private_file_and_the_old_one_is_numbered() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("rdd.stderr.log");
        for round in 1..=8 {
            let mut log = rotate(&path, false, Some("=== the title ===")).unwrap();
            writeln!(log, "round {round}").unwrap();
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o600);
        }
        let mut names: Vec<_> =
            fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        let expected = ["3", "4", "5", "6", "7"].map(|number| format!("rdd.stderr.{number}.log"));
        assert_eq!(names, [&expected[..], &["rdd.stderr.log".to_owned()]].concat());
        assert_eq!(fs::read_to_string(&path).unwrap(), "=== the title ===\nround 8\n");
        let newest_old = fs::read_to_string(dir.path().join("rdd.stderr.7.log")).unwrap();
        assert_eq!(newest_old, "=== the title ===\nround 7\n");
    }

    #[test]
    fn a_folder_that_cannot_be_read_is_named() {
        let error = rotate(Path::new("/nonexistent/rdd.stderr.log"), false, None).unwrap_err();
        assert_eq!(error.to_string(), "list /nonexistent");
    }
}
