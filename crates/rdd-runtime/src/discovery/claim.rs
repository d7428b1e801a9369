//! Claims of controllers: of two managers that want the same controller, one gets it.
//!
//! A claim is the name of the controller in `enabledControllers` of a manager's entry. A manager writes it only if the ConfigMap is
//! unchanged since it was read, so two managers cannot claim a controller at the same time. Claims of a manager that is gone are void:
//! the next claim removes its entry in the same write.

use std::collections::{BTreeMap, BTreeSet};

use futures::future::join_all;
use serde_json::{Map, Value, json};

use super::{ATTEMPTS, Entry, Registry, is_alive, text_of};
use crate::Error;

/// The outcome of a claim.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Claimed {
    /// The controllers that this manager has now.
    pub own: BTreeSet<String>,
    /// The controllers that other managers run, each with the name of the manager.
    pub others: BTreeMap<String, String>,
}

/// Divides the wanted controllers into those that are free and those that another living manager has.
fn divide(name: &str, id: &str, wanted: &[&str], living: &BTreeMap<String, Entry>) -> Claimed {
    let mut claimed = Claimed::default();
    // Another run of a manager with our name is alive: it has our place in the list.
    let taken = living.get(name).is_some_and(|entry| entry.id != id);
    for controller in wanted {
        let holds = |entry: &Entry| entry.enabled_controllers.iter().flatten().any(|held| held == controller);
        let other = living.iter().find(|(_, entry)| entry.id != id && holds(entry)).map(|(other, _)| other.clone());
        match other.or_else(|| taken.then(|| name.to_owned())) {
            Some(other) => drop(claimed.others.insert((*controller).to_owned(), other)),
            None => drop(claimed.own.insert((*controller).to_owned())),
        }
    }
    claimed
}

/// The manager's entry, reduced to the controllers in `own`.
pub(crate) fn claiming(entry: &Entry, own: &BTreeSet<String>) -> Entry {
    let mut claiming = Entry { enabled_controllers: Some(own.iter().cloned().collect()), ..entry.clone() };
    claiming.enabled_passthroughs.retain(|controller, _| own.contains(controller));
    claiming
}

impl Registry {
    /// Registers `entry` under `name` with those of the wanted controllers that no living manager runs. If there is none, nothing is
    /// written.
    ///
    /// # Errors
    /// When the API fails, or when the ConfigMap changes between read and write too often in a row.
    pub async fn claim(&self, name: &str, entry: &Entry, wanted: &[&str]) -> Result<Claimed, Error> {
        let mut last = None;
        for _ in 0..ATTEMPTS {
            let Some(found) = self.read().await? else {
                self.ensure().await?;
                continue;
            };
            let (living, gone) = separate(found.entries, &entry.id).await;
            // Nothing is free: an entry without controllers would only mislead others.
            let claimed = divide(name, &entry.id, wanted, &living);
            if claimed.own.is_empty() {
                return Ok(claimed);
            }
            let own = claiming(entry, &claimed.own);
            // In a merge patch, null removes the entries of managers that are gone.
            let mut data: Map<String, Value> = gone.into_iter().map(|name| (name, Value::Null)).collect();
            data.insert(name.to_owned(), text_of(&own)?.into());
            match self.patch(&json!({"metadata": {"resourceVersion": found.resource_version}, "data": data})).await {
                Ok(()) => return Ok(claimed),
                Err(error) if error.is_conflict() => last = Some(error),
                Err(error) => return Err(error),
            }
        }
        Err(last.unwrap_or_else(|| Error::message("the list of who runs controllers vanishes again and again")))
    }
}

/// Separates the entries of living managers from the names of those that are gone.
async fn separate(entries: BTreeMap<String, Entry>, own: &str) -> (BTreeMap<String, Entry>, Vec<String>) {
    let asked = entries.into_iter().map(|(name, entry)| async move {
        // A manager does not ask its own health port.
        let lives = entry.id == own || is_alive(&entry).await;
        (name, entry, lives)
    });
    let (mut living, mut gone) = (BTreeMap::new(), Vec::new());
    for (name, entry, lives) in join_all(asked).await {
        if lives {
            living.insert(name, entry);
        } else {
            tracing::info!(manager = name, "a manager is gone; its controllers are free");
            gone.push(name);
        }
    }
    (living, gone)
}

#[cfg(test)]
mod tests {
    use super::{super::mk_entry as entry, *};

    fn check(wanted: &[&str], living: &[(&str, Entry)], own: &[&str], others: &[(&str, &str)]) {
        let living = living.iter().map(|(name, entry)| ((*name).to_owned(), entry.clone())).collect();
        let claimed = divide("rdd", "me", wanted, &living);
        let others = others.iter().map(|(controller, by)| ((*controller).to_owned(), (*by).to_owned())).collect();
        assert_eq!(claimed, Claimed { own: own.iter().map(|name| (*name).to_owned()).collect(), others });
    }

    #[test]
    fn what_another_runs_is_left_to_it() {
        let embedded = || ("embedded", entry("e", &["notary", "app"]));
        check(&["notary"], &[], &["notary"], &[]);
        check(&["notary", "hostinfo"], &[embedded()], &["hostinfo"], &[("notary", "embedded")]);
        check(&["notary"], &[("rdd", entry("me", &["notary"]))], &["notary"], &[]);
        check(&["notary"], &[("rdd", entry("twin", &[]))], &[], &[("notary", "rdd")]);
    }
}
