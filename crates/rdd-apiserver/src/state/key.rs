//! Keys of objects: `/registry/<group or core>/<resource>/[<namespace>/]<name>`.

use std::{fmt, sync::Arc};

use super::Error;

const ROOT: &str = "/registry/";

/// The key prefix of a resource of a group, the unit in which objects are listed and watched. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Resource {
    /// `/registry/<group>/<resource>/`.
    prefix: Arc<str>,
}

/// The key of an object. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key(Arc<str>);

/// The keys of a list or watch: all objects of a resource, or those of one namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scope {
    resource: Resource,
    /// The prefix of its keys; it ends with a slash.
    prefix: Arc<str>,
}

impl Resource {
    /// The prefix of a resource from its group, which is empty for the core group, and its plural name.
    pub fn new(group: &str, resource: &str) -> Result<Self, Error> {
        let group = if group.is_empty() { "core" } else { group };
        let prefix = format!("{ROOT}{group}/{resource}/");
        if is_segment(group) && is_segment(resource) {
            Ok(Self { prefix: prefix.into() })
        } else {
            Err(Error::InvalidKey { text: prefix })
        }
    }

    /// The key of one object.
    pub fn key(&self, namespace: Option<&str>, name: &str) -> Result<Key, Error> {
        self.key_text(namespace, name).map(|text| Key(text.into()))
    }

    /// The key as a string, for lookups.
    pub(super) fn key_text(&self, namespace: Option<&str>, name: &str) -> Result<String, Error> {
        let mut text = String::with_capacity(self.prefix.len() + namespace.map_or(0, str::len) + 1 + name.len());
        text.push_str(&self.prefix);
        if let Some(namespace) = namespace {
            text.push_str(namespace);
            text.push('/');
        }
        text.push_str(name);
        let valid = is_segment(name) && namespace.is_none_or(is_segment);
        if valid { Ok(text) } else { Err(Error::InvalidKey { text }) }
    }

    /// The scope of all its objects.
    pub fn all(&self) -> Scope {
        Scope { resource: self.clone(), prefix: Arc::clone(&self.prefix) }
    }

    /// The scope of its objects in one namespace.
    pub fn within(&self, namespace: &str) -> Result<Scope, Error> {
        let prefix = format!("{}{namespace}/", self.prefix);
        if is_segment(namespace) {
            Ok(Scope { resource: self.clone(), prefix: prefix.into() })
        } else {
            Err(Error::InvalidKey { text: prefix })
        }
    }

    /// The prefix of its keys.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }
}

impl Key {
    /// Parses a key of the store; `None` if it is not the key of an object.
    pub fn parse(text: Arc<str>) -> Option<Self> {
        let segments: Vec<&str> = text.strip_prefix(ROOT)?.split('/').collect();
        let valid = matches!(segments.len(), 3 | 4) && segments.into_iter().all(is_segment);
        valid.then_some(Self(text))
    }

    /// The key as stored.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Its resource.
    pub fn resource(&self) -> Resource {
        Resource { prefix: self.0[..self.resource_end()].into() }
    }

    /// Whether the key belongs to a resource.
    pub fn is_of(&self, resource: &Resource) -> bool {
        self.resource_prefix() == &*resource.prefix
    }

    /// The prefix of [`resource`](Self::resource), without allocating.
    pub(super) fn resource_prefix(&self) -> &str {
        &self.0[..self.resource_end()]
    }

    /// The namespace, if the object is namespaced.
    pub fn namespace(&self) -> Option<&str> {
        self.0[self.resource_end()..].split_once('/').map(|(namespace, _)| namespace)
    }

    /// The name.
    pub fn name(&self) -> &str {
        self.0.rsplit('/').next().unwrap_or_default()
    }

    fn resource_end(&self) -> usize {
        let slashes = self.0.bytes().enumerate().filter(|(_, byte)| *byte == b'/');
        slashes.map(|(index, _)| index + 1).nth(3).expect("a key has at least four slashes")
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Scope {
    /// The resource.
    pub fn resource(&self) -> &Resource {
        &self.resource
    }

    /// Whether a key is in this scope.
    pub fn contains(&self, key: &Key) -> bool {
        key.0.starts_with(&*self.prefix)
    }

    /// The first key that can be in this scope.
    pub(super) fn start(&self) -> &str {
        &self.prefix
    }

    /// The first key after this scope: the prefix with its closing slash replaced by `0`, the character after `/`.
    pub(super) fn end(&self) -> String {
        format!("{}0", &self.prefix[..self.prefix.len() - 1])
    }
}

impl std::borrow::Borrow<str> for Resource {
    fn borrow(&self) -> &str {
        &self.prefix
    }
}

impl std::borrow::Borrow<str> for Key {
    fn borrow(&self) -> &str {
        &self.0
    }
}

fn is_segment(text: &str) -> bool {
    !text.is_empty() && !text.bytes().any(|byte| matches!(byte, b'/' | 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_tells_its_resource_namespace_and_name() {
        let maps = Resource::new("", "configmaps").unwrap();
        let key = maps.key(Some("default"), "a").unwrap();
        assert_eq!(key.as_str(), "/registry/core/configmaps/default/a");
        assert_eq!((key.resource(), key.namespace(), key.name()), (maps, Some("default"), "a"));
        let vms = Resource::new("lima.example.dev", "limavms").unwrap();
        let key = vms.key(None, "rd").unwrap();
        assert_eq!((key.resource(), key.namespace(), key.name()), (vms, None, "rd"));
    }

    #[test]
    fn only_keys_of_objects_are_read() {
        for text in ["/registry/core/pods/a", "/registry/core/pods/ns/a"] {
            assert_eq!(Key::parse(text.into()).unwrap().as_str(), text);
        }
        for text in ["", "/other/core/pods/a", "/registry/core/pods", "/registry/core//a", "/registry/a/b/c/d/e"] {
            assert!(Key::parse(text.into()).is_none(), "{text:?}");
        }
    }

    #[test]
    fn a_part_with_a_slash_or_nothing_in_it_makes_no_key() {
        let maps = Resource::new("", "configmaps").unwrap();
        assert!(maps.key(Some("a/b"), "c").is_err());
        assert!(maps.key(Some(""), "c").is_err());
        assert!(maps.key(None, "").is_err());
        assert!(maps.within("a/b").is_err());
        assert!(Resource::new("", "").is_err());
    }

    #[test]
    fn a_scope_holds_its_namespace_and_no_other_that_begins_alike() {
        let maps = Resource::new("", "configmaps").unwrap();
        let scope = maps.within("team").unwrap();
        for (namespace, within) in [("team", true), ("team-b", false), ("team.c", false), ("tea", false)] {
            let key = maps.key(Some(namespace), "x").unwrap();
            assert_eq!(scope.contains(&key), within, "{namespace}");
            assert_eq!((scope.start()..scope.end().as_str()).contains(&key.as_str()), within, "{namespace}");
        }
    }
}
