//! The objects of a scope at one revision.

use std::sync::Arc;

use imbl::OrdMap;

use super::{entry::Entry, scope::Scope};

/// Objects of a kind by their keys. A copy takes constant time and shares what later writes leave alone, so
/// that a reader goes through the objects of one revision while the cache takes the next writes.
pub(crate) type Objects<O> = OrdMap<Arc<str>, Arc<Entry<O>>>;

/// Objects of a scope at one revision, in the order of their keys.
#[derive(Clone, Debug)]
pub(crate) struct Snapshot<O> {
    /// Revision that it shows.
    pub(crate) revision: i64,
    objects: Objects<O>,
    scope: Scope,
    after: Option<String>,
}

impl<O> Snapshot<O> {
    /// Returns the objects of a scope whose keys come after `after`.
    pub(crate) fn new(revision: i64, objects: Objects<O>, scope: &Scope, after: Option<&str>) -> Self {
        Self { revision, objects, scope: scope.clone(), after: after.map(str::to_owned) }
    }

    /// Returns no objects.
    pub(crate) fn empty(revision: i64) -> Self {
        Self::new(revision, OrdMap::new(), &Scope::default(), None)
    }

    /// Returns the objects in the order of their keys.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Entry<O>>> {
        self.entries().map(|(_, entry)| entry)
    }

    /// Returns the keys and objects, in the order of the keys.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (&str, &Arc<Entry<O>>)> {
        let entries = self.objects.range::<_, str>(self.scope.range(self.after.as_deref()));
        entries.map(|(key, entry)| (&**key, entry)).take_while(|(key, _)| self.scope.covers(key))
    }
}
