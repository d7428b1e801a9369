//! Random requests never cause a panic or a server error, and complete in bounded time.

use std::sync::LazyLock;

use http::HeaderMap;
use proptest::prelude::*;
use rdd_apiserver::represent::read_body;
use tokio::runtime::Runtime;

use crate::support::{THINGS, WIDGETS, World};

static RUNTIME: LazyLock<Runtime> =
    LazyLock::new(|| tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap());

/// An API with a few objects, shared by all cases.
static WORLD: LazyLock<World> = LazyLock::new(|| {
    RUNTIME.block_on(async {
        let world = World::new().await;
        for name in ["a", "b", "c"] {
            world.put(name, 1, "1").await;
        }
        world
    })
});

const DOCUMENTS: [&str; 4] = [
    r#"{"apiVersion":"v1","kind":"Widget","metadata":{"name":"w","labels":{"a":"b"}},"spec":{"n":[1,2.5e3,-7,"\u00e9\n"]}}"#,
    "apiVersion: v1\nkind: Widget\nmetadata:\n  name: w\nspec: &s\n  on: yes\n  list: [1, 0x1f, ~, *s]\n  text: |\n    a\n    b\n",
    "a: &a {x: 1}\nb: {<<: *a, y: 'q'}\n? c\n: - d\n  - !!str 5\n",
    "\u{feff}--- >-\n  folded\n...\n---\n[a, {b: c}]\n",
];

/// One of the documents, with some bytes inserted, removed or replaced.
fn mutated() -> impl Strategy<Value = Vec<u8>> {
    let edit = (any::<prop::sample::Index>(), 0_u8..3, any::<u8>());
    (0..DOCUMENTS.len(), prop::collection::vec(edit, 0..12)).prop_map(|(which, edits)| {
        let mut bytes = DOCUMENTS[which].as_bytes().to_vec();
        for (index, how, byte) in edits {
            let at = index.index(bytes.len().max(1));
            match how {
                0 => bytes.insert(at.min(bytes.len()), byte),
                1 if !bytes.is_empty() => {
                    bytes.remove(at);
                }
                _ => bytes.splice(at.min(bytes.len()).., []).for_each(drop),
            }
        }
        bytes
    })
}

/// A query of randomly joined parts.
fn query() -> impl Strategy<Value = String> {
    let names = prop::sample::select(vec![
        "labelSelector",
        "fieldSelector",
        "resourceVersion",
        "resourceVersionMatch",
        "limit",
        "continue",
        "includeObject",
        "pretty",
        "sendInitialEvents",
        "allowWatchBookmarks",
    ]);
    let values = prop_oneof![
        "[a-z0-9.=!,()%& ]{0,12}",
        prop::sample::select(vec![
            "0",
            "1",
            "-1",
            "99999999999999999999",
            "Exact",
            "NotOlderThan",
            "metadata.name=a",
            "spec.size=1",
            "on in (1,2)",
            "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6LTEsInN0YXJ0IjoiYVx1MDAwMCJ9",
            "true",
            "None",
        ])
        .prop_map(str::to_owned),
    ];
    prop::collection::vec((names, values), 0..4).prop_map(|pairs| {
        let encode = |text: String| text.bytes().map(|byte| format!("%{byte:02x}")).collect::<String>();
        pairs.into_iter().map(|(name, value)| format!("{name}={}", encode(value))).collect::<Vec<_>>().join("&")
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn any_body_is_read_or_refused(bytes in mutated(), is_yaml: bool) {
        let mut headers = HeaderMap::new();
        if is_yaml {
            headers.insert("content-type", "application/yaml".parse().unwrap());
        }
        match read_body(&headers, &bytes.into(), &WORLD.target(WIDGETS).0) {
            Err(status) => prop_assert_eq!(status.code, 400),
            Ok(document) => {
                // A document that can be read survives a round trip.
                let again = rdd_yaml::read(&rdd_yaml::write(&document.value)).unwrap();
                prop_assert_eq!(again.duplicates, None);
                prop_assert_eq!(rdd_meta::go_json::to_string(&again.value), rdd_meta::go_json::to_string(&document.value));
            }
        }
    }

    #[test]
    fn any_query_and_any_accept_header_is_answered(
        query in query(),
        accept in prop_oneof!["[ -~]{0,40}", "application/(json|yaml)(;(as|v|g|q|stream|sv)=[A-Za-z0-9.]{0,6}){0,4}(,\\*/\\*)?"],
        watch: bool,
    ) {
        let path = if watch { format!("{THINGS}?watch=1&timeoutSeconds=-1&{query}") } else { format!("{THINGS}?{query}") };
        // Create it before time is paused, because its store has a thread of its own.
        let world = &*WORLD;
        // Paused time makes waits for events that never come instant.
        let told = RUNTIME.block_on(async {
            tokio::time::pause();
            let told = world.ask(&path, &[("accept", &accept)]).await;
            tokio::time::resume();
            told
        });
        prop_assert!([200, 400, 406, 410, 422, 500, 504].contains(&told.code.as_u16()), "{} {}", told.code, told.text());
    }
}
