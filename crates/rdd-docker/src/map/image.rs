//! Maps an image to the statuses of its mirrors, one per tag.

use rdd_types::containers::{ImageStatus, MOBY};
use serde::Deserialize;

use super::{Words, or_default, time, words};
use crate::{Image, ImageListed};

/// The placeholder for a missing tag in the lists of old engines.
const NO_TAG: &str = "<none>:<none>";

/// The fields that are read of a list entry.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(crate) struct Listed {
    id: String,
    #[serde(deserialize_with = "or_default")]
    repo_tags: Vec<String>,
}

/// The fields that are read of an inspected image.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(crate) struct Inspected {
    id: String,
    #[serde(deserialize_with = "or_default")]
    repo_tags: Vec<String>,
    #[serde(deserialize_with = "or_default")]
    repo_digests: Vec<String>,
    #[serde(deserialize_with = "or_default")]
    created: String,
    #[serde(deserialize_with = "or_default")]
    architecture: String,
    #[serde(deserialize_with = "or_default")]
    os: String,
    #[serde(deserialize_with = "or_default")]
    size: i64,
    config: Option<Config>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Config {
    labels: Words,
}

/// Removes placeholders and duplicates, and sorts.
fn tags(mut tags: Vec<String>) -> Vec<String> {
    tags.retain(|tag| !tag.is_empty() && tag != NO_TAG);
    tags.sort_unstable();
    tags.dedup();
    tags
}

/// Maps a list entry.
pub(crate) fn listed(found: Listed) -> ImageListed {
    ImageListed { id: found.id, tags: tags(found.repo_tags) }
}

/// Maps an image and the statuses of its mirrors.
pub(crate) fn image(found: &Inspected) -> Image {
    let mut repo_digests = found.repo_digests.clone();
    repo_digests.retain(|digest| !digest.starts_with("<none>@"));
    repo_digests.sort_unstable();
    let plain = ImageStatus {
        architecture: found.architecture.clone(),
        conditions: Vec::new(),
        created_at: time(&found.created),
        id: found.id.clone(),
        labels: found.config.as_ref().map(|config| words(&config.labels)).unwrap_or_default(),
        namespace: MOBY.to_owned(),
        os: found.os.clone(),
        repo_digests,
        repo_tag: None,
        size: found.size,
    };
    let tags = tags(found.repo_tags.clone());
    let statuses = if tags.is_empty() {
        vec![plain]
    } else {
        tags.into_iter().map(|tag| ImageStatus { repo_tag: Some(tag), ..plain.clone() }).collect()
    };
    Image { id: found.id.clone(), statuses }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(answer: serde_json::Value) -> Image {
        image(&serde_json::from_value(answer).unwrap())
    }

    #[test]
    fn each_tag_is_a_mirror_of_its_own_and_an_image_without_is_one_too() {
        let answer = json!({
            "Id": "sha256:1", "RepoTags": ["b:1", "a:1", "b:1"], "RepoDigests": ["b@sha256:2", "a@sha256:2"],
            "Created": "2026-11-15T18:42:03.5Z", "Architecture": "amd64", "Os": "linux", "Size": 7, "Config": {"Labels": {"k": "v"}},
        });
        let found = read(answer);
        let tags: Vec<_> = found.statuses.iter().map(|status| status.repo_tag.as_deref()).collect();
        assert_eq!(tags, [Some("a:1"), Some("b:1")]);
        assert_eq!(
            serde_json::to_value(&found.statuses[0]).unwrap(),
            json!({
                "architecture": "amd64", "createdAt": "2026-11-15T18:42:03Z", "id": "sha256:1", "labels": {"k": "v"},
                "namespace": "moby", "os": "linux", "repoDigests": ["a@sha256:2", "b@sha256:2"], "repoTag": "a:1", "size": 7,
            })
        );
        for dangling in [
            json!({"Id": "sha256:1", "RepoTags": null, "RepoDigests": null, "Config": null}),
            json!({"Id": "sha256:1", "RepoTags": [], "RepoDigests": ["<none>@<none>"]}),
            json!({"Id": "sha256:1", "RepoTags": ["<none>:<none>"]}),
        ] {
            let found = read(dangling.clone());
            assert_eq!(found.statuses.len(), 1, "{dangling}");
            assert_eq!((found.statuses[0].repo_tag.as_ref(), found.statuses[0].repo_digests.len()), (None, 0));
            assert_eq!(listed(serde_json::from_value(dangling).unwrap()).tags, [""; 0]);
        }
    }
}
