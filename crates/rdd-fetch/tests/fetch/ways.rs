//! The ways to a file: the cache, a folder, addresses, the publisher's list.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use rdd_fetch::{Asset, Check, Error, Fetcher, Progress, PublishedFile, Sha256};
use rdd_stdx::chain::Chain;

use crate::server::{Do, Server, content};

pub(crate) fn asset(urls: Vec<String>, bytes: &[u8]) -> Asset {
    Asset { name: "v1/k3s".to_owned(), urls, check: Check::Sha256(Sha256::of(bytes)), bytes: Some(bytes.len() as u64) }
}

pub(crate) fn fetcher(folder: &Path) -> Fetcher {
    Fetcher::new(folder.join("cache")).with_patience(6, Duration::from_millis(500), Duration::from_millis(1))
}

/// All files below a folder, but for locks.
pub(crate) fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![folder.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else if !path.ends_with(".lock") {
                found.push(path);
            }
        }
    }
    found
}

#[tokio::test]
async fn a_file_is_downloaded_once_and_then_comes_from_the_cache() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = content(300_000);
    let server = Server::start(&bytes, Vec::new()).await;
    let (asset, fetcher) = (asset(vec![server.url("k3s")], &bytes), fetcher(folder.path()));
    let (tell, seen) = Progress::channel();
    let path = fetcher.fetch(&asset, tell).await.unwrap();
    assert_eq!(fs::read(&path).unwrap(), bytes);
    assert_eq!((path.file_name().unwrap(), files(folder.path())), ("k3s".as_ref(), vec![path.clone()]));
    assert_eq!((seen.borrow().bytes, seen.borrow().total), (300_000, Some(300_000)));
    assert_eq!(fetcher.fetch(&asset, |_| panic!("nothing is loaded")).await.unwrap(), path);
    assert_eq!(server.asked().len(), 1);
}

#[tokio::test]
async fn a_cached_file_that_was_damaged_is_fetched_again() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = content(1_000);
    let server = Server::start(&bytes, Vec::new()).await;
    let (asset, fetcher) = (asset(vec![server.url("k3s")], &bytes), fetcher(folder.path()));
    let path = fetcher.fetch(&asset, |_| {}).await.unwrap();
    fs::write(&path, &bytes[1..]).unwrap();
    assert_eq!(fs::read(fetcher.fetch(&asset, |_| {}).await.unwrap()).unwrap(), bytes);
    assert_eq!(server.asked().len(), 2);
}

#[tokio::test]
async fn a_file_in_the_offline_folder_needs_no_network() {
    let folder = tempfile::tempdir().unwrap();
    let offline = folder.path().join("offline");
    let bytes = content(1_000);
    let nowhere = asset(vec!["http://127.0.0.1:1/k3s".to_owned()], &bytes);
    for name in ["k3s", "v1/k3s"] {
        fs::create_dir_all(offline.join("v1")).unwrap();
        fs::write(offline.join(name), &bytes).unwrap();
        let fetcher = fetcher(&folder.path().join(name.replace('/', "-"))).with_offline(Some(offline.clone()));
        assert_eq!(fs::read(fetcher.fetch(&nowhere, |_| {}).await.unwrap()).unwrap(), bytes);
        fs::remove_file(offline.join(name)).unwrap();
    }
}

#[tokio::test]
async fn a_wrong_file_in_the_offline_folder_is_passed_over() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = content(1_000);
    fs::write(folder.path().join("k3s"), "an older version").unwrap();
    let server = Server::start(&bytes, Vec::new()).await;
    let fetcher = fetcher(folder.path()).with_offline(Some(folder.path().to_owned()));
    let path = fetcher.fetch(&asset(vec![server.url("k3s")], &bytes), |_| {}).await.unwrap();
    assert_eq!(fs::read(&path).unwrap(), bytes);
    assert_eq!(files(&folder.path().join("cache")), [path]);
}

#[tokio::test]
async fn a_wrong_file_that_nobody_can_replace_is_named_with_both_digests() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = content(1_000);
    let wrong = folder.path().join("k3s");
    fs::write(&wrong, "an older version").unwrap();
    let fetcher = fetcher(folder.path()).with_offline(Some(folder.path().to_owned()));
    let server = Server::start(&bytes, vec![Do::Status(404)]).await;
    let error = fetcher.fetch(&asset(vec![server.url("k3s")], &bytes), |_| {}).await.unwrap_err();
    let (found, expected) = (Sha256::of(b"an older version"), Sha256::of(&bytes));
    let said = format!(
        "{} is not what was published: its SHA-256 digest is {found}, not {expected}; put the right one there",
        wrong.display()
    );
    let chain = Chain(&error).to_string();
    assert!(chain.starts_with(&said) && chain.ends_with("status 404"), "{chain}");
    assert!(fetcher.is_offline("v1/k3s") && !fetcher.is_offline("v1/other") && !fetcher.is_offline("../k3s"));
}

#[tokio::test]
async fn where_nothing_helps_the_message_names_the_file_and_the_way_out() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = content(10);
    let error = fetcher(folder.path()).fetch(&asset(Vec::new(), &bytes), |_| {}).await.unwrap_err();
    let way = "put it into the folder that RDD_OFFLINE_DIR names";
    assert_eq!(error.to_string(), format!("v1/k3s is not in the cache and has no address ({way})"));
    let server = Server::start(&bytes, vec![Do::Status(404)]).await;
    let error =
        fetcher(folder.path()).fetch(&asset(vec![server.url("k3s?secret=1")], &bytes), |_| {}).await.unwrap_err();
    let said = format!(
        "download v1/k3s from {} (without a network: {way}): the server answered with status 404",
        server.url("k3s")
    );
    assert_eq!(Chain(&error).to_string(), said);
    assert_eq!(server.asked().len(), 1, "what is not there is not asked for again");
}

#[tokio::test]
async fn the_next_address_is_tried_and_what_came_from_the_first_is_used() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = content(200_000);
    let first = Server::start(&bytes, vec![Do::Cut(100_000), Do::Status(404)]).await;
    let second = Server::start(&bytes, Vec::new()).await;
    let asset = asset(vec![first.url("k3s"), second.url("k3s")], &bytes);
    let path = fetcher(folder.path()).fetch(&asset, |_| {}).await.unwrap();
    assert_eq!(fs::read(path).unwrap(), bytes);
    let asked = second.asked();
    assert!(asked[0].from > 0 && asked[0].if_range.is_none(), "{asked:?}");
}

fn published(server: &Server, entry: &str) -> Check {
    let list =
        PublishedFile { name: "v1/sha256sum-amd64.txt".to_owned(), urls: vec![server.url("sha256sum-amd64.txt")] };
    Check::Published { list, entry: entry.to_owned() }
}

#[tokio::test]
async fn the_publishers_list_says_which_file_is_right_and_is_asked_for_once() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = content(1_000);
    let list = Server::start(format!("{}  k3s\n", Sha256::of(&bytes)).as_bytes(), vec![Do::Status(503)]).await;
    let server = Server::start(&bytes, Vec::new()).await;
    let mut asset = asset(vec![server.url("k3s")], &bytes);
    asset.check = published(&list, "k3s");
    let fetcher = fetcher(folder.path());
    for _ in 0..2 {
        assert_eq!(fs::read(fetcher.fetch(&asset, |_| {}).await.unwrap()).unwrap(), bytes);
    }
    assert_eq!((list.asked().len(), server.asked().len()), (2, 1));
    asset.check = published(&list, "k3s-arm64");
    let error = fetcher.fetch(&asset, |_| {}).await.unwrap_err();
    let said = "the list v1/sha256sum-amd64.txt has no SHA-256 digest of \"k3s-arm64\", so nothing could be verified";
    assert_eq!(error.to_string(), said);
}

#[tokio::test]
async fn list_and_file_may_both_be_in_the_offline_folder() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = content(1_000);
    let server = Server::start(b"", Vec::new()).await;
    let mut asset = asset(Vec::new(), &bytes);
    asset.check = published(&server, "k3s");
    fs::write(folder.path().join("sha256sum-amd64.txt"), format!("{} *k3s\n", Sha256::of(&bytes))).unwrap();
    fs::write(folder.path().join("k3s"), &bytes).unwrap();
    let fetcher = fetcher(folder.path()).with_offline(Some(folder.path().to_owned()));
    assert_eq!(fs::read(fetcher.fetch(&asset, |_| {}).await.unwrap()).unwrap(), bytes);
    assert!(server.asked().is_empty());
}

#[tokio::test]
async fn a_list_that_never_ends_or_is_no_text_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    for (list, said) in
        [(vec![b'a'; 2 << 20], "it is longer than 1048576 bytes"), (vec![0xff, 0xfe, 0], "it is not a list of digests")]
    {
        let server = Server::start(&list, Vec::new()).await;
        let mut asset = asset(Vec::new(), b"");
        asset.check = published(&server, "k3s");
        let error = fetcher(folder.path()).fetch(&asset, |_| {}).await.unwrap_err();
        assert!(Chain(&error).to_string().ends_with(said), "{}", Chain(&error));
    }
}

#[tokio::test]
async fn several_that_want_one_file_download_it_once() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = content(500_000);
    let server = Server::start(&bytes, vec![Do::Cut(200_000)]).await;
    let asset = asset(vec![server.url("k3s")], &bytes);
    let (one, two, three) = (fetcher(folder.path()), fetcher(folder.path()), fetcher(folder.path()));
    let (one, two, three) =
        tokio::join!(one.fetch(&asset, |_| {}), two.fetch(&asset, |_| {}), three.fetch(&asset, |_| {}));
    for path in [one, two, three] {
        assert_eq!(fs::read(path.unwrap()).unwrap(), bytes);
    }
    assert_eq!(server.asked().len(), 2, "one cut, one rest");
}

#[tokio::test]
async fn a_cache_that_cannot_be_written_is_a_clear_error() {
    let bytes = content(10);
    let fetcher = Fetcher::new("/sys/rdd-cache");
    let error = fetcher.fetch(&asset(vec!["http://127.0.0.1:1/".to_owned()], &bytes), |_| {}).await.unwrap_err();
    assert!(matches!(error, Error::Cache { .. }), "{error:?}");
    assert!(error.to_string().contains("the cache of downloads has to be writable"), "{error}");
}

#[tokio::test]
async fn a_full_disk_is_a_clear_error_and_what_came_stays() {
    if !rdd_testkit::capability::require("tmpfs") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mount = |arguments: &[&str]| {
        let status = rdd_stdx::process::foreground(arguments[0]).args(&arguments[1..]).status().unwrap();
        assert!(status.success(), "{arguments:?}");
    };
    let small = folder.path().join("small");
    fs::create_dir(&small).unwrap();
    let path = small.to_str().unwrap();
    mount(&["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", path]);
    let bytes = content(1_000_000);
    let server = Server::start(&bytes, Vec::new()).await;
    let asset = asset(vec![server.url("k3s")], &bytes);
    let fetcher = Fetcher::new(small.clone());
    let error = fetcher.fetch(&asset, |_| {}).await.map_err(|error| Chain(&error).to_string());
    mount(&["mount", "-o", "remount,size=4m", path]);
    let then = fetcher.fetch(&asset, |_| {}).await.map(|path| fs::read(path).unwrap());
    mount(&["umount", path]);
    let error = error.unwrap_err();
    assert!(error.contains("have room") && error.contains("No space left on device"), "{error}");
    assert!(then.unwrap() == bytes);
    assert_eq!(server.asked().len(), 2);
    assert!(server.asked()[1].from > 0, "{:?}", server.asked());
}

#[tokio::test]
async fn a_download_that_was_dropped_at_any_point_is_gone_on_with() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = content(3_000_000);
    let server = Server::start(&bytes, Vec::new()).await;
    let (asset, fetcher) = (asset(vec![server.url("k3s")], &bytes), fetcher(folder.path()));
    let mut drops = 0;
    let path = loop {
        // A little further each time.
        let within = Duration::from_micros(500 * drops);
        if let Ok(path) = tokio::time::timeout(within, fetcher.fetch(&asset, |_| {})).await {
            break path.unwrap();
        }
        drops += 1;
        let final_files = files(folder.path()).into_iter().filter(|path| path.ends_with("k3s"));
        assert_eq!(final_files.count(), 0, "a file under its name is whole");
    };
    assert_eq!(fs::read(path).unwrap(), bytes);
    assert!(drops > 0);
}
