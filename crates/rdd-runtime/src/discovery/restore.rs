//! Restores the daemon's entry in the ConfigMap of managers after other clients have changed it.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt;
use serde_json::{Map, Value, json};

use super::{ATTEMPTS, Entry, NAME, READY, Registry, Snapshot, create_parameters, labels, new_map, text_of};
use crate::{Error, error::has_code};

impl Registry {
    /// Restores the entry of the daemon's own manager, the labels and the readiness of the ConfigMap. The daemon's manager takes
    /// precedence: other entries lose the controllers that it runs. Returns whether anything was written.
    pub(crate) async fn restore(&self, name: &str, entry: &Entry) -> Result<bool, Error> {
        let told = |error: kube::Error| Error::from(error).context("restore the list of who runs controllers");
        let mut last = None;
        for _ in 0..ATTEMPTS {
            let Some(found) = self.api.get_opt(NAME).await.map_err(told)? else {
                let map = new_map(BTreeMap::from([(name.to_owned(), text_of(entry)?)]), true);
                match self.api.create(&create_parameters(), &map).await {
                    // Another client created it meanwhile: read that one.
                    Err(error) if has_code(&error, 409) => continue,
                    other => return other.map(|_| true).map_err(told),
                }
            };
            let Some(amendment) = amendment(&found, name, entry)? else { return Ok(false) };
            match self.patch(&amendment).await {
                Err(error) if error.is_conflict() => last = Some(error),
                other => return other.map(|()| true),
            }
        }
        Err(last.unwrap_or_else(|| Error::message("the list of who runs controllers vanishes again and again")))
    }
}

/// The merge patch that makes the ConfigMap ready, with this entry in it and no other entry that names the same controllers. `None` if it
/// already is so.
pub(crate) fn amendment(found: &ConfigMap, name: &str, entry: &Entry) -> Result<Option<Value>, Error> {
    let mut data = Map::new();
    for (other, mut held) in Snapshot::of(found).entries {
        let ours = |controller: &String| entry.enabled_controllers.iter().flatten().any(|own| own == controller);
        let has_ours = held.enabled_controllers.iter().flatten().any(ours);
        if other == name || !has_ours {
            continue;
        }
        held.enabled_controllers.iter_mut().for_each(|all| all.retain(|one| !ours(one)));
        held.enabled_passthroughs.retain(|controller, _| !ours(controller));
        // An entry that has lost all its controllers is removed.
        let is_empty = held.enabled_controllers.iter().flatten().next().is_none();
        data.insert(other, if is_empty { Value::Null } else { text_of(&held)?.into() });
    }
    let is_ours = |text: &String| serde_json::from_str::<Entry>(text).is_ok_and(|found| found == *entry);
    if !found.data.iter().flatten().any(|(key, text)| key == name && is_ours(text)) {
        data.insert(name.to_owned(), text_of(entry)?.into());
    }
    let is_ready = found.annotations().get(READY).is_some_and(|value| value == "true");
    let is_labelled = labels().iter().all(|(label, value)| found.labels().get(label) == Some(value));
    // Nothing to write: this also ends the loop of a restore that causes another watch event.
    if data.is_empty() && is_ready && is_labelled {
        return Ok(None);
    }
    let metadata = json!({
        "resourceVersion": found.resource_version(), "labels": labels(), "annotations": {READY: "true"},
    });
    Ok(Some(json!({"metadata": metadata, "data": data})))
}

#[cfg(test)]
mod tests {
    use super::{super::mk_entry as entry, *};

    fn check(change: impl FnOnce(&mut ConfigMap), data: Option<&[(&str, Option<Entry>)]>) {
        let own = entry("e", &["app", "notary"]);
        let other = ("x".to_owned(), text_of(&entry("x", &["theirs"])).unwrap());
        let mut map = new_map([("embedded".to_owned(), text_of(&own).unwrap()), other].into(), true);
        change(&mut map);
        let found = amendment(&map, "embedded", &own).unwrap().map(|patch| patch["data"].clone());
        let expected = data.map(|data| {
            let text = |entry: &Option<Entry>| entry.as_ref().map(|entry| text_of(entry).unwrap());
            data.iter().map(|(name, entry)| ((*name).to_owned(), json!(text(entry)))).collect::<Value>()
        });
        assert_eq!(found, expected);
    }

    #[test]
    fn a_list_is_written_only_where_it_is_not_what_it_should_be() {
        let own = || Some(entry("e", &["app", "notary"]));
        let insert = |map: &mut ConfigMap, name: &str, entry: &Entry| {
            map.data.as_mut().unwrap().insert(name.to_owned(), text_of(entry).unwrap());
        };
        check(|_| {}, None);
        check(|map| map.annotations_mut().insert("a".to_owned(), "b".to_owned()).map_or((), drop), None);
        check(|map| map.annotations_mut().clear(), Some(&[]));
        check(|map| map.labels_mut().clear(), Some(&[]));
        check(|map| map.data = None, Some(&[("embedded", own())]));
        check(|map| insert(map, "embedded", &entry("e", &["app"])), Some(&[("embedded", own())]));
        check(|map| insert(map, "thief", &entry("t", &["app"])), Some(&[("thief", None)]));
        let kept = Some(entry("t", &["own"]));
        check(|map| insert(map, "thief", &entry("t", &["app", "own"])), Some(&[("thief", kept)]));
    }
}
