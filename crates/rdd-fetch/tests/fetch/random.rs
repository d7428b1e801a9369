//! Whatever servers do, in whatever order: the file under its final name is right or absent.

use std::{fs, time::Duration};

use proptest::prelude::*;
use rdd_fetch::Fetcher;

use crate::{
    server::{Do, Server, content},
    ways::{asset, files},
};

const LENGTH: usize = 40_000;

fn step() -> impl Strategy<Value = Do> {
    prop_oneof![
        Just(Do::Serve),
        (0..LENGTH).prop_map(Do::Cut),
        (0..LENGTH).prop_map(Do::Cut),
        Just(Do::IgnoreRange),
        Just(Do::WrongPart),
        Just(Do::LieAboutPart),
        (-100..100_i64).prop_map(Do::LieAboutLength),
        (0..LENGTH + 10).prop_map(Do::NoLength),
        Just(Do::OtherContent),
        (1..100_000_usize).prop_map(Do::Longer),
        prop_oneof![Just(404), Just(416), Just(429), Just(500), Just(204)].prop_map(Do::Status),
        Just(Do::Redirect("/elsewhere".to_owned())),
        Just(Do::HangUp),
        Just(Do::Nonsense),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_file_is_right_or_absent(
        first in proptest::collection::vec(step(), 0..8),
        second in proptest::collection::vec(step(), 0..8),
        knows_length: bool,
        tries in 1..4_usize,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let folder = tempfile::tempdir().unwrap();
            let bytes = content(LENGTH);
            let (one, two) = (Server::start(&bytes, first).await, Server::start(&bytes, second).await);
            let mut asset = asset(vec![one.url("k3s"), two.url("k3s")], &bytes);
            asset.bytes = asset.bytes.filter(|_| knows_length);
            let fetcher = Fetcher::new(folder.path()).with_patience(4, Duration::from_secs(5), Duration::ZERO);
            for _ in 0..tries {
                let fetched = fetcher.fetch(&asset, |_| {}).await;
                let named: Vec<_> = files(folder.path()).into_iter().filter(|path| path.ends_with("k3s")).collect();
                prop_assert_eq!(named.len(), usize::from(fetched.is_ok()));
                if let Ok(path) = fetched {
                    prop_assert!(fs::read(path).unwrap() == bytes);
                    return Ok(());
                }
            }
            // When all is well again, so is the file.
            for _ in 0..9 {
                if let Ok(path) = fetcher.fetch(&asset, |_| {}).await {
                    prop_assert!(fs::read(path).unwrap() == bytes);
                    return Ok(());
                }
            }
            Err(TestCaseError::fail("it never came"))
        })?;
    }
}
