//! A persistent ordered map of objects: cloning is free, a change copies one path.
//!
//! It is a weight-balanced binary tree (Adams; factors 3 and 2). Its subtree sizes also count the keys of a range
//! without walking it, which a list needs for its remaining count. A change copies some 15 small nodes where a wide
//! tree copies 2 kB, and the history keeps every change for minutes.

use std::{cmp::Ordering, sync::Arc};

use super::Object;

/// A persistent ordered map from key to object.
#[derive(Debug, Clone, Default)]
pub(super) struct Tree(Link);

type Link = Option<Arc<Node>>;

#[derive(Debug)]
struct Node {
    object: Arc<Object>,
    left: Link,
    right: Link,
    size: u32,
}

impl Tree {
    /// A tree of objects that are sorted by key and distinct.
    pub(super) fn from_sorted(objects: &[Arc<Object>]) -> Self {
        Self(build(objects))
    }

    #[cfg(test)]
    pub(super) fn get(&self, key: &str) -> Option<&Arc<Object>> {
        let mut link = &self.0;
        while let Some(here) = link {
            link = match key.cmp(here.key()) {
                Ordering::Less => &here.left,
                Ordering::Greater => &here.right,
                Ordering::Equal => return Some(&here.object),
            };
        }
        None
    }

    /// The tree with an object inserted, or replaced if its key exists.
    #[must_use]
    pub(super) fn with(&self, object: Arc<Object>) -> Self {
        Self(Some(insert(&self.0, object)))
    }

    /// The tree without the object of a key.
    #[must_use]
    pub(super) fn without(&self, key: &str) -> Self {
        Self(remove(&self.0, key))
    }

    /// How many keys are less than this one.
    pub(super) fn rank(&self, key: &str) -> usize {
        let (mut link, mut before) = (&self.0, 0);
        while let Some(here) = link {
            if key <= here.key() {
                link = &here.left;
            } else {
                before += size(&here.left) + 1;
                link = &here.right;
            }
        }
        before as usize
    }

    /// The objects whose keys are at least `start`, in order.
    pub(super) fn from(&self, start: &str) -> impl Iterator<Item = &Arc<Object>> + use<'_> {
        let mut path = Vec::new();
        let mut link = &self.0;
        while let Some(here) = link {
            if here.key() < start {
                link = &here.right;
            } else {
                path.push(&**here);
                link = &here.left;
            }
        }
        std::iter::from_fn(move || {
            let here: &Node = path.pop()?;
            let mut link = &here.right;
            while let Some(next) = link {
                path.push(next);
                link = &next.left;
            }
            Some(&here.object)
        })
    }
}

impl Node {
    fn key(&self) -> &str {
        self.object.key().as_str()
    }
}

fn size(link: &Link) -> u32 {
    link.as_ref().map_or(0, |node| node.size)
}

fn node(left: Link, object: Arc<Object>, right: Link) -> Arc<Node> {
    let size = size(&left) + size(&right) + 1;
    Arc::new(Node { object, left, right, size })
}

fn build(objects: &[Arc<Object>]) -> Link {
    let middle = objects.len() / 2;
    let object = objects.get(middle)?;
    Some(node(build(&objects[..middle]), Arc::clone(object), build(&objects[middle + 1..])))
}

fn insert(link: &Link, object: Arc<Object>) -> Arc<Node> {
    let Some(here) = link else { return node(None, object, None) };
    match object.key().as_str().cmp(here.key()) {
        Ordering::Less => balance(Some(insert(&here.left, object)), &here.object, here.right.clone()),
        Ordering::Greater => balance(here.left.clone(), &here.object, Some(insert(&here.right, object))),
        Ordering::Equal => node(here.left.clone(), object, here.right.clone()),
    }
}

fn remove(link: &Link, key: &str) -> Link {
    let here = link.as_ref()?;
    match key.cmp(here.key()) {
        Ordering::Less => Some(balance(remove(&here.left, key), &here.object, here.right.clone())),
        Ordering::Greater => Some(balance(here.left.clone(), &here.object, remove(&here.right, key))),
        Ordering::Equal => join(&here.left, &here.right),
    }
}

/// Joins two trees whose keys do not overlap and whose sizes are balanced.
fn join(left: &Link, right: &Link) -> Link {
    let (Some(left_node), Some(right_node)) = (left, right) else {
        return left.clone().or_else(|| right.clone());
    };
    if left_node.size > right_node.size {
        let (rest, last) = split_last(left_node);
        Some(balance(rest, &last, right.clone()))
    } else {
        let (first, rest) = split_first(right_node);
        Some(balance(left.clone(), &first, rest))
    }
}

fn split_first(here: &Arc<Node>) -> (Arc<Object>, Link) {
    let Some(left) = &here.left else { return (Arc::clone(&here.object), here.right.clone()) };
    let (first, rest) = split_first(left);
    (first, Some(balance(rest, &here.object, here.right.clone())))
}

fn split_last(here: &Arc<Node>) -> (Link, Arc<Object>) {
    let Some(right) = &here.right else { return (here.left.clone(), Arc::clone(&here.object)) };
    let (rest, last) = split_last(right);
    (Some(balance(here.left.clone(), &here.object, rest)), last)
}

/// A balanced node from two subtrees that are at most one insertion or removal out of balance.
fn balance(left: Link, object: &Arc<Object>, right: Link) -> Arc<Node> {
    let (left_size, right_size) = (size(&left), size(&right));
    let object = Arc::clone(object);
    match (&left, &right) {
        _ if left_size + right_size <= 1 => node(left, object, right),
        (_, Some(heavy)) if right_size > 3 * left_size => match &heavy.left {
            Some(inner) if inner.size >= 2 * size(&heavy.right) => node(
                Some(node(left, object, inner.left.clone())),
                Arc::clone(&inner.object),
                Some(node(inner.right.clone(), Arc::clone(&heavy.object), heavy.right.clone())),
            ),
            inner => node(Some(node(left, object, inner.clone())), Arc::clone(&heavy.object), heavy.right.clone()),
        },
        (Some(heavy), _) if left_size > 3 * right_size => match &heavy.right {
            Some(inner) if inner.size >= 2 * size(&heavy.left) => node(
                Some(node(heavy.left.clone(), Arc::clone(&heavy.object), inner.left.clone())),
                Arc::clone(&inner.object),
                Some(node(inner.right.clone(), object, right)),
            ),
            inner => node(heavy.left.clone(), Arc::clone(&heavy.object), Some(node(inner.clone(), object, right))),
        },
        _ => node(left, object, right),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::state::object::tests::mk_object;

    fn mk(name: &str, revision: u64) -> Arc<Object> {
        mk_object(name, revision, r#"{"metadata":{}}"#)
    }

    /// Every node's sides are in balance and its size is right.
    fn check(link: &Link) -> u32 {
        let Some(here) = link else { return 0 };
        let (left, right) = (check(&here.left), check(&here.right));
        assert!(left + right <= 1 || (left <= 3 * right && right <= 3 * left), "{left} beside {right}");
        assert_eq!(here.size, left + right + 1);
        here.size
    }

    fn content(tree: &Tree) -> Vec<(String, u64)> {
        tree.from("").map(|object| (object.key().as_str().to_owned(), object.revision().0)).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn it_is_a_balanced_map_and_older_copies_do_not_change(
            loaded in 0u8..40, changes in prop::collection::vec((any::<bool>(), 0u8..60), 0..200), probe in 0u8..60,
        ) {
            let name = |number: u8| format!("{number:03}");
            let mut model: BTreeMap<String, u64> = BTreeMap::new();
            let objects: Vec<_> = (0..loaded).map(|number| mk(&name(number), 1)).collect();
            let mut tree = Tree::from_sorted(&objects);
            model.extend(objects.iter().map(|object| (object.key().as_str().to_owned(), 1)));
            let mut past = Vec::new();
            for (revision, (put, number)) in (2u64..).zip(changes) {
                let object = mk(&name(number), revision);
                let key = object.key().as_str().to_owned();
                past.push((tree.clone(), model.clone()));
                if put {
                    tree = tree.with(object);
                    model.insert(key, revision);
                } else {
                    tree = tree.without(&key);
                    model.remove(&key);
                }
                check(&tree.0);
            }
            past.push((tree, model));
            let probe = mk(&name(probe), 1).key().as_str().to_owned();
            for (tree, model) in past {
                prop_assert_eq!(content(&tree), model.iter().map(|(key, at)| (key.clone(), *at)).collect::<Vec<_>>());
                prop_assert_eq!(tree.rank(&probe), model.range(..probe.clone()).count());
                prop_assert_eq!(tree.get(&probe).map(|object| object.revision().0), model.get(&probe).copied());
                prop_assert_eq!(tree.from(&probe).count(), model.range(probe.clone()..).count());
            }
        }
    }
}
