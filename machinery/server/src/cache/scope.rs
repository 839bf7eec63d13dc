//! Scope of a read: a part of the keys of a kind, and the treatment of what cannot be read there.

use std::ops::Bound;

/// Scope of a read: all objects of a kind, those of a namespace, or one.
///
/// Keys are relative to the kind's prefix: `NAMESPACE/NAME`, or `NAME` for cluster-scoped kinds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Scope {
    /// Namespace with a slash, or empty.
    prefix: String,
    /// Whole key of the only object in scope.
    only: Option<String>,
    /// True when the reader skips objects that cannot be read; otherwise one of them fails the read.
    skips_unreadable: bool,
}

impl Scope {
    /// The objects of a namespace (all for an empty one), or only the one of that name.
    pub(crate) fn new(namespace: &str, name: Option<&str>, namespaced: bool) -> Self {
        let prefix = if namespace.is_empty() { String::new() } else { format!("{namespace}/") };
        // A name makes no key when the namespace is open. The selector does the rest then.
        let only =
            name.filter(|_| !namespaced || !namespace.is_empty()).map(|name| format!("{prefix}{name}"));
        Self { prefix, only, skips_unreadable: false }
    }

    /// Returns the scope for a reader that skips objects that cannot be read, or fails on them.
    pub(crate) fn skipping_unreadable(self, skips_unreadable: bool) -> Self {
        Self { skips_unreadable, ..self }
    }

    /// Returns true when the reader skips objects that cannot be read.
    pub(crate) fn skips_unreadable(&self) -> bool {
        self.skips_unreadable
    }

    /// Returns true when an object of that key is in scope.
    pub(crate) fn covers(&self, key: &str) -> bool {
        match &self.only {
            Some(only) => only == key,
            None => key.starts_with(&self.prefix),
        }
    }

    /// Returns the namespace with a slash; empty for all.
    pub(crate) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Returns the whole key of the only object in scope, else the namespace with a slash, or nothing for
    /// all.
    pub(crate) fn part(&self) -> &str {
        self.only.as_deref().unwrap_or(&self.prefix)
    }

    /// Returns a range of keys that starts after `after` and covers the scope. It may contain more at its
    /// end.
    pub(crate) fn range<'a>(&'a self, after: Option<&'a str>) -> (Bound<&'a str>, Bound<&'a str>) {
        let start = self.part();
        match after {
            Some(after) if after >= start => (Bound::Excluded(after), Bound::Unbounded),
            _ => (Bound::Included(start), Bound::Unbounded),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scope_covers_its_namespace_and_no_neighbour() {
        let cases = [
            (Scope::new("", None, true), "a/x", true),
            (Scope::new("a", None, true), "a/x", true),
            (Scope::new("a", None, true), "ab/x", false),
            (Scope::new("a", None, true), "a-b/x", false),
            (Scope::new("a", Some("x"), true), "a/x", true),
            (Scope::new("a", Some("x"), true), "a/xy", false),
            (Scope::new("", Some("x"), true), "b/y", true),
            (Scope::new("", Some("x"), false), "x", true),
            (Scope::new("", Some("x"), false), "y", false),
        ];
        for (scope, key, covered) in cases {
            assert_eq!(scope.covers(key), covered, "{scope:?} {key}");
        }
    }
}
