//! Which objects of a kind a reader wants, by their keys.

use std::ops::Bound;

/// Which objects of a kind a reader wants, by their keys: all, those of a namespace, or one.
///
/// Keys are relative to the kind's prefix: `NAMESPACE/NAME`, or `NAME` for cluster-scoped kinds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Scope {
    /// The namespace with a slash, or empty.
    prefix: String,
    /// The whole key of the only object that is wanted.
    only: Option<String>,
}

impl Scope {
    /// The objects in a namespace (all for an empty one), and of these only the one of that name, where given.
    pub(crate) fn new(namespace: &str, name: Option<&str>, namespaced: bool) -> Self {
        let prefix = if namespace.is_empty() { String::new() } else { format!("{namespace}/") };
        // A name alone does not make a key when the namespace is open; selectors do the rest then.
        let only =
            name.filter(|_| !namespaced || !namespace.is_empty()).map(|name| format!("{prefix}{name}"));
        Self { prefix, only }
    }

    /// Whether an object of that key is wanted.
    pub(crate) fn covers(&self, key: &str) -> bool {
        match &self.only {
            Some(only) => only == key,
            None => key.starts_with(&self.prefix),
        }
    }

    /// The namespace with a slash; empty for all.
    pub(crate) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// The range of keys that holds all that is wanted after `after`; may hold more at its end.
    pub(crate) fn range<'a>(&'a self, after: Option<&'a str>) -> (Bound<&'a str>, Bound<&'a str>) {
        let start = self.only.as_deref().unwrap_or(&self.prefix);
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
