//! Measures a durable write on this disk without a database.

use std::{
    fs::File,
    io::Write,
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};

const APPENDS_MAX: usize = 200;
const TAKES: Duration = Duration::from_secs(1);

/// The durations in seconds of 4 KiB appends, each followed by fdatasync.
pub(crate) fn fdatasync_times(folder: &Path) -> Result<Vec<f64>> {
    let path = folder.join("fdatasync");
    let mut file = File::create(&path).with_context(|| format!("create {}", path.display()))?;
    let page = [0x5a; 4096];
    let mut times = Vec::new();
    let begun = Instant::now();
    while times.len() < APPENDS_MAX && (times.len() < 10 || begun.elapsed() < TAKES) {
        let started = Instant::now();
        file.write_all(&page)
            .and_then(|()| file.sync_data())
            .with_context(|| format!("append to {}", path.display()))?;
        times.push(started.elapsed().as_secs_f64());
    }
    std::fs::remove_file(&path).with_context(|| format!("remove {}", path.display()))?;
    Ok(times)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_append_takes_some_time_and_leaves_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let times = fdatasync_times(folder.path()).unwrap();
        assert!(times.len() >= 10 && times.iter().all(|time| *time > 0.0));
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
