//! One fault, one test.

use std::fs;

use rdd_fetch::{Error, Failure};
use rdd_stdx::chain::Chain;

use crate::{
    server::{Do, Server, content},
    ways::{asset, fetcher, files},
};

const LENGTH: usize = 200_000;

/// Fetches from a server with this plan: how it ended, and which bytes were asked from.
async fn run(plan: Vec<Do>) -> (Result<(), Error>, Vec<usize>) {
    let folder = tempfile::tempdir().unwrap();
    let bytes = content(LENGTH);
    let server = Server::start(&bytes, plan).await;
    let result = fetcher(folder.path()).fetch(&asset(vec![server.url("k3s")], &bytes), |_| {}).await;
    let result = result.map(|path| assert!(fs::read(path).unwrap() == bytes));
    if result.is_err() {
        assert!(!files(folder.path()).iter().any(|path| path.ends_with("k3s")));
    }
    (result, server.asked().into_iter().map(|asked| asked.from).collect())
}

#[tokio::test]
async fn a_connection_that_is_cut_is_gone_on_with_where_it_was() {
    let (result, asked) = run(vec![Do::Cut(70_000), Do::Cut(70_000)]).await;
    result.unwrap();
    assert_eq!(asked, [0, 70_000, 140_000]);
}

#[tokio::test]
async fn a_server_that_ignores_ranges_gives_the_file_anew() {
    let (result, asked) = run(vec![Do::Cut(70_000), Do::IgnoreRange]).await;
    result.unwrap();
    assert_eq!(asked, [0, 70_000]);
}

#[tokio::test]
async fn the_wrong_part_is_not_taken() {
    let (result, asked) = run(vec![Do::Cut(70_000), Do::WrongPart]).await;
    result.unwrap();
    assert_eq!(asked, [0, 70_000, 70_000]);
}

#[tokio::test]
async fn a_part_that_lies_is_found_out_by_the_digest_and_all_begins_anew() {
    let (result, asked) = run(vec![Do::Cut(70_000), Do::LieAboutPart]).await;
    result.unwrap();
    assert_eq!(asked, [0, 70_000, 0]);
}

#[tokio::test]
async fn parts_that_lie_again_and_again_are_given_up() {
    // Each attempt makes progress, so that the number of attempts alone does not end this.
    let plan = (0..20).flat_map(|_| [Do::Cut(70_000), Do::LieAboutPart]).collect();
    let (result, asked) = run(plan).await;
    assert!(matches!(result, Err(Error::Download { source: Failure::Part, .. })), "{result:?}");
    assert_eq!(asked, [0, 70_000].repeat(4));
}

#[tokio::test]
async fn a_length_that_lies_does_no_harm() {
    let (result, _) = run(vec![Do::LieAboutLength(10)]).await;
    assert!(matches!(result, Err(Error::Download { source: Failure::Length { .. }, .. })), "{result:?}");
    let (result, _) = run(vec![Do::LieAboutLength(-10)]).await;
    assert!(matches!(result, Err(Error::Download { source: Failure::Length { .. }, .. })), "{result:?}");
}

#[tokio::test]
async fn an_answer_without_a_length_that_ends_early_is_gone_on_with() {
    let (result, asked) = run(vec![Do::NoLength(70_000)]).await;
    result.unwrap();
    assert_eq!(asked, [0, 70_000]);
}

#[tokio::test]
async fn another_file_is_refused_with_both_digests() {
    let (result, asked) = run(vec![Do::OtherContent, Do::OtherContent]).await;
    let error = result.unwrap_err();
    assert!(Chain(&error).to_string().contains("its SHA-256 digest is "), "{}", Chain(&error));
    assert_eq!(asked, [0, 0]);
}

#[tokio::test]
async fn a_file_that_goes_on_and_on_is_cut_off() {
    let (result, _) = run(vec![Do::Longer(500_000)]).await;
    assert!(matches!(result, Err(Error::Download { source: Failure::Length { .. }, .. })), "{result:?}");
}

#[tokio::test]
async fn what_passes_is_waited_for() {
    for step in [Do::Status(503), Do::Status(429), Do::Status(500), Do::HangUp, Do::Silence, Do::Nonsense] {
        let (result, asked) = run(vec![step.clone(), step.clone()]).await;
        result.unwrap_or_else(|error| panic!("{step:?}: {}", Chain(&error)));
        assert_eq!(asked, [0, 0, 0], "{step:?}");
    }
}

#[tokio::test]
async fn what_does_not_pass_is_given_up_after_a_bound() {
    let (result, asked) = run(vec![Do::Status(503); 50]).await;
    assert!(matches!(result, Err(Error::Download { source: Failure::Status(503), .. })));
    assert_eq!(asked.len(), 6);
}

#[tokio::test]
async fn redirects_are_followed_within_a_bound_and_never_into_the_clear() {
    let (result, asked) = run(vec![Do::Redirect("/a".to_owned()), Do::Redirect("b".to_owned())]).await;
    result.unwrap();
    assert_eq!(asked.len(), 3);
    let (result, asked) = run(vec![Do::Redirect("/loop".to_owned()); 50]).await;
    assert!(matches!(result, Err(Error::Download { source: Failure::Redirects, .. })), "{result:?}");
    assert_eq!(asked.len(), 11);
    for away in ["http://example.org/k3s", "file:///etc/passwd", "ftp://127.0.0.1/x"] {
        let (result, _) = run(vec![Do::Redirect(away.to_owned())]).await;
        assert!(matches!(result, Err(Error::Download { source: Failure::Address { .. }, .. })), "{result:?}");
    }
}

#[tokio::test]
async fn a_file_that_changed_meanwhile_is_not_mixed_with_what_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let (old, new) = (vec![1; LENGTH], content(LENGTH));
    let server = Server::start(&old, vec![Do::Cut(70_000), Do::Status(404)]).await;
    let asset = asset(vec![server.url("k3s")], &new);
    assert!(fetcher(folder.path()).fetch(&asset, |_| {}).await.is_err());
    server.change(&new, "\"two\"");
    let path = fetcher(folder.path()).fetch(&asset, |_| {}).await.unwrap();
    assert!(fs::read(path).unwrap() == new);
    let asked = server.asked();
    assert_eq!((asked.len(), asked[2].from, asked[2].if_range.as_deref()), (3, 70_000, Some("\"one\"")));
}

#[tokio::test]
async fn a_beginning_that_was_damaged_on_disk_is_found_out() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = content(LENGTH);
    let server = Server::start(&bytes, vec![Do::Cut(70_000), Do::Status(404)]).await;
    let asset = asset(vec![server.url("k3s")], &bytes);
    assert!(fetcher(folder.path()).fetch(&asset, |_| {}).await.is_err());
    let partial =
        files(folder.path()).into_iter().find(|path| path.extension().is_some_and(|it| it == "partial")).unwrap();
    fs::write(&partial, vec![0; 90_000]).unwrap();
    let path = fetcher(folder.path()).fetch(&asset, |_| {}).await.unwrap();
    assert!(fs::read(path).unwrap() == bytes);
    assert_eq!(server.asked().iter().map(|asked| asked.from).collect::<Vec<_>>(), [0, 70_000, 90_000, 0]);
}

#[tokio::test]
async fn a_file_that_was_complete_but_had_no_name_yet_gets_it() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = content(LENGTH);
    let server = Server::start(&bytes, vec![Do::Cut(70_000), Do::Status(404)]).await;
    let mut wanted = asset(vec![server.url("k3s")], &bytes);
    assert!(fetcher(folder.path()).fetch(&wanted, |_| {}).await.is_err());
    let partial =
        files(folder.path()).into_iter().find(|path| path.extension().is_some_and(|it| it == "partial")).unwrap();
    fs::write(&partial, &bytes).unwrap();
    wanted.bytes = None;
    let path = fetcher(folder.path()).fetch(&wanted, |_| {}).await.unwrap();
    assert!(fs::read(path).unwrap() == bytes);
    assert_eq!(server.asked().last().unwrap().from, LENGTH, "the server says that there is no more");
}
