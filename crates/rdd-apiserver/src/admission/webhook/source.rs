//! The configured webhooks, compiled when a configuration changes.

use std::{
    collections::HashMap,
    sync::{Arc, PoisonError, RwLock},
};

use rdd_stdx::chain::Chain;
use rdd_store::Revision;

use super::hook::{self, Hook};
use crate::state::{Key, Object, Resource, State};

/// The webhooks of one kind of configuration, in call order.
#[derive(Debug)]
pub(super) struct Source {
    state: Arc<State>,
    resource: Resource,
    compiled: RwLock<Compiled>,
}

#[derive(Debug, Default)]
struct Compiled {
    /// The revision of the configurations that `hooks` reflects.
    revision: Option<Revision>,
    hooks: Arc<[Arc<Hook>]>,
    /// By configuration, so that a change of one does not recompile the others.
    parts: HashMap<Key, (Revision, Vec<Arc<Hook>>)>,
}

impl Source {
    /// The webhooks of `mutatingwebhookconfigurations` or `validatingwebhookconfigurations`.
    pub(super) fn new(state: Arc<State>, plural: &str) -> Self {
        let resource = Resource::new("admissionregistration.k8s.io", plural).expect("plain words");
        Self { state, resource, compiled: RwLock::default() }
    }

    /// All webhooks: by the name of their configuration, then in its order.
    pub(super) fn hooks(&self) -> Arc<[Arc<Hook>]> {
        let seen = {
            let compiled = self.compiled.read().unwrap_or_else(PoisonError::into_inner);
            match self.state.if_changed(&self.resource, compiled.revision) {
                None => return Arc::clone(&compiled.hooks),
                Some(changed) => changed,
            }
        };
        let mut compiled = self.compiled.write().unwrap_or_else(PoisonError::into_inner);
        let (revision, objects) = seen;
        // Another request may have compiled the same change, or a newer one, between the two locks.
        if compiled.revision.is_none_or(|known| known < revision) {
            compiled.take(revision, &objects);
        }
        Arc::clone(&compiled.hooks)
    }
}

impl Compiled {
    /// `objects` are in key order, which is the order of their names.
    fn take(&mut self, revision: Revision, objects: &[Arc<Object>]) {
        let mut before = std::mem::take(&mut self.parts);
        let part = |object: &Arc<Object>| {
            let known = before.remove(object.key()).filter(|(at, _)| *at == object.revision());
            let hooks = known.map_or_else(|| compile(object), |(_, hooks)| hooks);
            (object.key().clone(), object.revision(), hooks)
        };
        let parts: Vec<_> = objects.iter().map(part).collect();
        self.hooks = parts.iter().flat_map(|(_, _, hooks)| hooks).cloned().collect();
        self.parts = parts.into_iter().map(|(key, at, hooks)| (key, (at, hooks))).collect();
        self.revision = Some(revision);
    }
}

fn compile(object: &Object) -> Vec<Arc<Hook>> {
    hook::read(object.name(), object.wire()).unwrap_or_else(|error| {
        // Validation accepted it, so the log is the only place where this shows.
        tracing::error!(object = %object.key(), error = %Chain(&error), "cannot read a webhook configuration");
        Vec::new()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admission::testing::{mk_state, put};

    const GROUP: &str = "admissionregistration.k8s.io";
    const PLURAL: &str = "validatingwebhookconfigurations";

    fn names(source: &Source) -> Vec<String> {
        source.hooks().iter().map(|hook| hook.uid.clone()).collect()
    }

    #[tokio::test]
    async fn webhooks_are_in_order_and_compiled_again_only_where_something_changed() {
        let state = mk_state().await;
        let source = Source::new(Arc::clone(&state), PLURAL);
        assert!(names(&source).is_empty());
        let hooks = |names: &[&str]| {
            let hooks: Vec<String> = names.iter().map(|name| format!(r#"{{"name":"{name}"}}"#)).collect();
            format!(r#"{{"metadata":{{}},"webhooks":[{}]}}"#, hooks.join(","))
        };
        put(&state, GROUP, PLURAL, None, "b", &hooks(&["z", "y"])).await;
        put(&state, GROUP, PLURAL, None, "a", &hooks(&["x"])).await;
        assert_eq!(names(&source), ["a/x/0", "b/z/0", "b/y/0"]);
        let before = source.hooks();
        assert!(Arc::ptr_eq(&before, &source.hooks()));
        put(&state, "", "configmaps", Some("ns"), "other", r#"{"metadata":{}}"#).await;
        assert!(Arc::ptr_eq(&before, &source.hooks()), "another resource is no reason");
        put(&state, GROUP, PLURAL, None, "a", &hooks(&["w"])).await;
        let after = source.hooks();
        assert_eq!(names(&source), ["a/w/0", "b/z/0", "b/y/0"]);
        assert!(Arc::ptr_eq(&before[1], &after[1]), "b did not change");
    }

    #[tokio::test]
    async fn a_configuration_that_cannot_be_read_does_not_hide_the_others() {
        let state = mk_state().await;
        let source = Source::new(Arc::clone(&state), PLURAL);
        put(&state, GROUP, PLURAL, None, "a", r#"{"metadata":{},"webhooks":"none"}"#).await;
        put(&state, GROUP, PLURAL, None, "b", r#"{"metadata":{},"webhooks":[{"name":"x"}]}"#).await;
        assert_eq!(names(&source), ["b/x/0"]);
    }
}
