//! A writer is killed at any moment: the file stays complete, and the next writer is not blocked.

use std::{
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::Stdio,
    time::{Duration, Instant},
};

use rdd_stdx::process::background;

use crate::support::{Folder, NAME, cluster, merge, read, user};

const WRITER: &str = "RDD_TEST_KUBECONFIG_WRITER";

/// The writer process of the test below: writes until it is killed. Without the variable it does nothing.
#[test]
fn writer() {
    let Some(path) = std::env::var_os(WRITER).map(PathBuf::from) else { return };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let merge = merge(&[&path]);
    println!("\nwriting");
    let end = Instant::now() + Duration::from_secs(60);
    for port in (1..60_000).cycle().take_while(|_| Instant::now() < end) {
        runtime.block_on(merge.publish(&cluster(port), &user())).unwrap();
        runtime.block_on(merge.withdraw()).unwrap();
    }
}

#[test]
fn a_writer_that_is_killed_leaves_a_whole_file_and_is_in_nobodys_way() {
    const TEXT: &str = "# mine\nclusters: []\ncontexts:\n- {name: keep}\nusers: []\ncurrent-context: keep # mine\n";
    let folder = Folder::new();
    let path = folder.write("config", TEXT);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let ours = merge(&[&path]);
    for round in 0..30_u64 {
        let mut writer = background(std::env::current_exe().unwrap(), Path::new("/"));
        let writer = writer.args(["--exact", "killed::writer", "--nocapture"]).env(WRITER, &path);
        let mut writer = writer.stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(writer.stdout.take().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap() == "writing"));
        std::thread::park_timeout(Duration::from_micros(round * 700));
        writer.kill().unwrap();
        writer.wait().unwrap();
        let text = read(&path);
        assert!(text == TEXT || text.contains(NAME) && text.ends_with("current-context: keep # mine\n"), "{text}");
        runtime.block_on(ours.publish(&cluster(1), &user())).unwrap();
        runtime.block_on(ours.withdraw()).unwrap();
        assert_eq!((read(&path).as_str(), folder.names()), (TEXT, vec!["config".to_owned()]));
    }
}
