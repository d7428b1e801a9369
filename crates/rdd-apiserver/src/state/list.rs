//! Lists: how a request selects the revision, and one page of the result.

use std::{fmt, sync::Arc, time::Duration};

use rdd_store::Revision;

use super::{Object, Scope, tree::Tree};

/// Which revision a list must reflect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RevisionWant {
    /// At least everything that was committed when the list was requested, by any process.
    #[default]
    Latest,
    /// The current state in memory; at least everything that was committed through this state.
    Any,
    /// At least this revision. The list waits for one that is not visible yet.
    NotOlderThan(Revision),
    /// Exactly this revision.
    Exact(Revision),
}

/// The options of a list.
#[derive(Clone, Copy)]
pub struct ListOptions<'a> {
    /// Which revision the list must reflect.
    pub want: RevisionWant,
    /// The page size; `None` and 0 mean unlimited.
    pub limit: Option<usize>,
    /// Only keys from here on: the [`next`](Page::next) of the page before.
    pub start: Option<&'a str>,
    /// Only objects that match.
    pub filter: Option<&'a (dyn Fn(&Object) -> bool + Send + Sync)>,
    /// How long to wait for a revision that is not visible yet.
    pub wait: Duration,
}

impl Default for ListOptions<'_> {
    fn default() -> Self {
        Self { want: RevisionWant::Latest, limit: None, start: None, filter: None, wait: Duration::from_secs(3) }
    }
}

impl fmt::Debug for ListOptions<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { want, limit, start, filter, wait } = self;
        let mut debug = f.debug_struct("ListOptions");
        debug.field("want", want).field("limit", limit).field("start", start);
        debug.field("filter", &filter.is_some()).field("wait", wait).finish()
    }
}

/// A page of a list.
#[derive(Debug)]
pub struct Page {
    /// The objects, in the order of their keys.
    pub objects: Vec<Arc<Object>>,
    /// The revision of the list. Request exactly this revision for the next page of the same list.
    pub revision: Revision,
    /// How many objects follow after this page; unknown with a filter.
    pub remaining: Option<usize>,
    /// The first key of the next page; `None` if this is the last.
    pub next: Option<String>,
}

/// A page of the objects that a snapshot has in a scope.
pub(super) fn page(snapshot: &Tree, revision: Revision, scope: &Scope, options: &ListOptions<'_>) -> Page {
    let end = scope.end();
    let start = options.start.unwrap_or_default().max(scope.start());
    let limit = options.limit.filter(|limit| *limit > 0).unwrap_or(usize::MAX);
    let wanted = |object: &&Arc<Object>| options.filter.is_none_or(|filter| filter(object));
    // Counted by the tree, so that the filter sees only keys within the scope and nothing compares each key with the
    // end.
    let count = snapshot.rank(&end).saturating_sub(snapshot.rank(start));
    let within = snapshot.from(start).take(count);
    let mut found = within.filter(wanted);
    let objects: Vec<Arc<Object>> = found.by_ref().take(limit).cloned().collect();
    // There is a next page only if one more object matches, so no list ends with an empty page.
    let last = objects.last().filter(|_| objects.len() == limit && found.next().is_some());
    let next = last.map(|object| format!("{}\0", object.key()));
    let remaining =
        options.filter.is_none().then(|| next.as_deref().map_or(0, |next| snapshot.rank(&end) - snapshot.rank(next)));
    Page { objects, revision, remaining, next }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::{MetadataExtract, Resource, Symbols, object::Reading};

    fn mk_tree() -> Tree {
        let pods = Resource::new("", "pods").unwrap();
        let read = |namespace, name| {
            let key = pods.key(Some(namespace), name).unwrap();
            let json = format!(r#"{{"metadata":{{"labels":{{"name":"{name}"}}}}}}"#);
            let reading = Reading::of(&key, json.as_bytes(), &MetadataExtract, &mut Symbols::default()).unwrap();
            Object::new(key, Revision(1), json.as_bytes(), reading)
        };
        let keys = [("a", "1"), ("b", "1"), ("b", "2"), ("b", "3"), ("b-c", "1"), ("c", "1")];
        keys.iter().fold(Tree::default(), |tree, (namespace, name)| tree.with(Arc::new(read(namespace, name))))
    }

    fn check(namespace: Option<&str>, options: ListOptions<'_>, expected: &str) {
        let pods = Resource::new("", "pods").unwrap();
        let scope = namespace.map_or_else(|| pods.all(), |namespace| pods.within(namespace).unwrap());
        let page = page(&mk_tree(), Revision(1), &scope, &options);
        let short = |text: &str| text.replace(pods.prefix(), "").replace('\0', "+");
        let keys: Vec<String> = page.objects.iter().map(|object| short(object.key().as_str())).collect();
        let remaining = page.remaining.map_or("?".to_owned(), |count| count.to_string());
        let next = page.next.map_or("end".to_owned(), |next| short(&next));
        assert_eq!(format!("{} | {remaining} | {next}", keys.join(" ")), expected);
    }

    #[test]
    fn a_page_is_cut_out_of_its_scope_and_says_what_follows() {
        let plain = ListOptions::default();
        let start = "/registry/core/pods/b/1\0";
        let first = |object: &Object| object.label("name") == Some("1");
        check(None, plain, "a/1 b-c/1 b/1 b/2 b/3 c/1 | 0 | end");
        check(Some("b"), plain, "b/1 b/2 b/3 | 0 | end");
        check(Some("zz"), plain, " | 0 | end");
        check(None, ListOptions { limit: Some(0), ..plain }, "a/1 b-c/1 b/1 b/2 b/3 c/1 | 0 | end");
        check(None, ListOptions { limit: Some(2), ..plain }, "a/1 b-c/1 | 4 | b-c/1+");
        check(Some("b"), ListOptions { limit: Some(1), ..plain }, "b/1 | 2 | b/1+");
        check(Some("b"), ListOptions { limit: Some(3), ..plain }, "b/1 b/2 b/3 | 0 | end");
        check(Some("b"), ListOptions { limit: Some(1), start: Some(start), ..plain }, "b/2 | 1 | b/2+");
        check(Some("a"), ListOptions { start: Some(start), ..plain }, " | 0 | end");
        check(Some("c"), ListOptions { start: Some(start), ..plain }, "c/1 | 0 | end");
        check(None, ListOptions { limit: Some(2), filter: Some(&first), ..plain }, "a/1 b-c/1 | ? | b-c/1+");
        check(Some("b"), ListOptions { limit: Some(1), filter: Some(&first), ..plain }, "b/1 | ? | end");
    }
}
