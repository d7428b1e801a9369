//! Maps a volume to the status of its mirror.

use jiff::Timestamp;
use rdd_types::{
    Time,
    containers::{MOBY, VolumeStatus},
};
use serde::Deserialize;

use super::{Words, or_default, time, words};

/// The fields that are read of an inspected volume.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(crate) struct Inspected {
    name: String,
    #[serde(deserialize_with = "or_default")]
    driver: String,
    #[serde(deserialize_with = "or_default")]
    mountpoint: String,
    #[serde(deserialize_with = "or_default")]
    created_at: String,
    #[serde(deserialize_with = "or_default")]
    scope: String,
    labels: Words,
    options: Words,
}

/// Maps the status of the volume's mirror.
pub(crate) fn volume(found: &Inspected) -> VolumeStatus {
    VolumeStatus {
        // The field is required, but volume plugins may omit the time.
        created_at: Some(time(&found.created_at).unwrap_or(Time(Timestamp::UNIX_EPOCH))),
        driver: found.driver.clone(),
        labels: words(&found.labels),
        mountpoint: found.mountpoint.clone(),
        name: found.name.clone(),
        namespace: MOBY.to_owned(),
        options: words(&found.options),
        scope: found.scope.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn said(answer: Value) -> Value {
        serde_json::to_value(volume(&serde_json::from_value(answer).unwrap())).unwrap()
    }

    #[test]
    fn a_volume_is_taken_over_and_null_is_nothing() {
        let local = json!({
            "CreatedAt": "2026-11-15T18:42:03Z", "Driver": "local", "Labels": null, "Mountpoint": "/data/_data",
            "Name": "data", "Options": null, "Scope": "local",
        });
        let expected = json!({
            "createdAt": "2026-11-15T18:42:03Z", "driver": "local", "mountpoint": "/data/_data", "name": "data",
            "namespace": "moby", "scope": "local",
        });
        assert_eq!(said(local), expected);
        let plugin = json!({"Name": "far", "Driver": "nfs", "Labels": {"a": "1"}, "Options": {"o": null}, "New": [1]});
        let expected = json!({
            "createdAt": "1970-01-01T00:00:00Z", "driver": "nfs", "labels": {"a": "1"}, "mountpoint": "", "name": "far",
            "namespace": "moby", "options": {"o": ""}, "scope": "",
        });
        assert_eq!(said(plugin), expected);
    }
}
