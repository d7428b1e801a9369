//! Recognises a file by its first bytes, without SQLite, which would modify the file.

use std::{fs::File, io::Read, path::Path};

use rusqlite::{Connection, OpenFlags};

use super::{Error, io_error, place};

/// `rddS`, the SQLite application id of a datastore.
pub(super) const APPLICATION_ID: u32 = 0x7264_6453;

const MAGIC: &[u8; 16] = b"SQLite format 3\0";
const HEADER_BYTES: usize = 100;

/// What is at the path of a datastore.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    /// There is no main file.
    Nothing,
    /// A datastore of at least this format; the write-ahead log may hold a newer one.
    Ours { version: u32 },
}

/// The fields of a SQLite header that matter here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Header {
    page_bytes: u64,
    log_mode: bool,
    /// The size in pages; `None` if the field is stale.
    pages: Option<u64>,
    user_version: u32,
    application_id: u32,
}

/// Recognises the file at `path`.
///
/// # Errors
/// For any file that is not a datastore, and for a datastore that is truncated.
pub(super) fn recognise(path: &Path) -> Result<Found, Error> {
    let mut bytes = Vec::with_capacity(HEADER_BYTES);
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Found::Nothing),
        Err(error) => return Err(io_error("open", path)(error)),
    };
    let length = file.metadata().map_err(io_error("inspect", path))?.len();
    file.take(HEADER_BYTES as u64).read_to_end(&mut bytes).map_err(io_error("read", path))?;
    let damaged = |reason: String| Error::Damaged { path: path.to_owned(), reason };
    let Some(header) = parse(&bytes) else {
        if is_kine_log(path)? {
            return Err(Error::Kine { path: path.to_owned() });
        }
        // Our main file always has a header: it is complete before it gets its name.
        return Err(damaged(if length == 0 {
            "it is empty".to_owned()
        } else {
            "it does not begin as SQLite files do".to_owned()
        }));
    };
    if header.application_id != APPLICATION_ID {
        return Err(foreign(path, &header)?);
    }
    if !header.log_mode {
        return Err(damaged("its header does not name the write-ahead log".to_owned()));
    }
    if place::beside(path, "-journal").exists() {
        return Err(damaged("a rollback journal, which this program never makes, is beside it".to_owned()));
    }
    let has_log = place::size(&place::beside(path, "-wal")) > 0;
    if let Some(reason) = cut_short(&header, length, has_log) {
        return Err(damaged(reason));
    }
    Ok(Found::Ours { version: header.user_version })
}

fn parse(bytes: &[u8]) -> Option<Header> {
    if bytes.len() < HEADER_BYTES || &bytes[..16] != MAGIC {
        return None;
    }
    let number = |at: usize| u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    let page_bytes = match u16::from_be_bytes([bytes[16], bytes[17]]) {
        1 => 65_536,
        size => u64::from(size),
    };
    // The page count is valid only if it was written together with the change counter.
    let pages = (number(24) == number(92)).then(|| u64::from(number(28)));
    let log_mode = bytes[18] == 2 && bytes[19] == 2;
    Some(Header { page_bytes, log_mode, pages, user_version: number(60), application_id: number(68) })
}

/// Why the main file is too short, if it is. With a write-ahead log it may be: SQLite repeats an interrupted checkpoint.
fn cut_short(header: &Header, length: u64, has_log: bool) -> Option<String> {
    let expected = header.pages? * header.page_bytes;
    (!has_log && length < expected).then(|| format!("it has {length} bytes instead of {expected}"))
}

/// The error for a SQLite file that is not a datastore.
fn foreign(path: &Path, header: &Header) -> Result<Error, Error> {
    if has_kine_table(path) || is_kine_log(path)? {
        return Ok(Error::Kine { path: path.to_owned() });
    }
    let reason = match header.application_id {
        0 => "it is some other SQLite database".to_owned(),
        id => format!("it is a SQLite database of another application ({id:#010x})"),
    };
    Ok(Error::Foreign { path: path.to_owned(), reason })
}

/// Reads without side effects: SQLite opens an immutable file without its log and without locks.
fn has_kine_table(path: &Path) -> bool {
    open_immutable(path).is_ok_and(|connection| {
        let sql = "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'kine'";
        connection.query_row(sql, [], |row| row.get::<_, u32>(0)).is_ok_and(|count| count > 0)
    })
}

/// Whether the write-ahead log creates the table; the main file may not have it yet. SQL definitions are plain text in the log.
fn is_kine_log(path: &Path) -> Result<bool, Error> {
    let log = place::beside(path, "-wal");
    if !log.exists() {
        return Ok(false);
    }
    let mut file = File::open(&log).map_err(io_error("open", &log))?;
    let needles: [&[u8]; 3] = [b"CREATE TABLE kine", b"CREATE TABLE \"kine\"", b"CREATE TABLE IF NOT EXISTS kine"];
    let (mut kept, mut chunk) = (Vec::new(), vec![0; 1 << 16]);
    loop {
        let count = file.read(&mut chunk).map_err(io_error("read", &log))?;
        if count == 0 {
            return Ok(false);
        }
        kept.extend_from_slice(&chunk[..count]);
        if needles.iter().any(|needle| kept.windows(needle.len()).any(|window| window == *needle)) {
            return Ok(true);
        }
        // Keep the end of the chunk: a needle may span two chunks.
        let overlap = kept.len().saturating_sub(64);
        kept.drain(..overlap);
    }
}

/// Opens a file that no process writes to, without its log and without side effects.
pub(super) fn open_immutable(path: &Path) -> rusqlite::Result<Connection> {
    let mut uri = String::from("file:");
    for byte in std::path::absolute(path).unwrap_or_else(|_| path.to_owned()).as_os_str().as_encoded_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' => uri.push(char::from(*byte)),
            other => uri.push_str(&format!("%{other:02X}")),
        }
    }
    uri.push_str("?immutable=1");
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    Connection::open_with_flags(uri, flags)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_file_is_cut_short_unless_a_log_may_complete_it() {
        let header = Header {
            page_bytes: 4096,
            log_mode: true,
            pages: Some(3),
            user_version: 1,
            application_id: APPLICATION_ID,
        };
        assert_eq!(cut_short(&header, 3 * 4096, false), None);
        assert!(cut_short(&header, 3 * 4096 - 1, false).unwrap().contains("12287 bytes instead of 12288"));
        assert_eq!(cut_short(&header, 4096, true), None);
        assert_eq!(cut_short(&Header { pages: None, ..header }, 4096, false), None);
    }

    #[test]
    fn a_path_with_marks_of_its_own_is_opened_as_it_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("what? #1 100% ü.db");
        Connection::open(&path).unwrap().execute_batch("CREATE TABLE kine(id)").unwrap();
        assert!(has_kine_table(&path));
        assert!(!has_kine_table(&dir.path().join("what")));
    }
}
