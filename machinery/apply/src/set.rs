//! Sets of fields.

mod algebra;
mod named;

use std::{collections::BTreeMap, fmt};

use crate::{Path, PathElement};

/// Set of paths, as a tree.
///
/// A path in the set says nothing of the paths below it: a struct and its fields are members on their own.
/// The empty path is never a member. Equality is that of the members.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSet {
    /// No entry is empty.
    pub(crate) entries: BTreeMap<PathElement, Entry>,
}

/// Members at and below one element.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Entry {
    /// The element itself is a member.
    pub(crate) member: bool,
    /// The members below it.
    pub(crate) children: FieldSet,
}

impl Entry {
    pub(crate) fn is_empty(&self) -> bool {
        !self.member && self.children.is_empty()
    }
}

impl FieldSet {
    /// Makes an empty set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a path. The empty path is ignored.
    pub fn insert(&mut self, path: &[PathElement]) {
        let Some((last, parents)) = path.split_last() else {
            return;
        };
        let mut set = self;
        for element in parents {
            set = &mut set.entry(element).children;
        }
        set.entry(last).member = true;
    }

    fn entry(&mut self, element: &PathElement) -> &mut Entry {
        self.entries.entry(element.clone()).or_default()
    }

    /// Sets an entry, unless it is empty.
    pub(crate) fn put(&mut self, element: PathElement, entry: Entry) {
        if !entry.is_empty() {
            self.entries.insert(element, entry);
        }
    }

    /// Returns whether a path is a member. The empty path never is.
    pub fn has(&self, path: &[PathElement]) -> bool {
        let Some((last, parents)) = path.split_last() else {
            return false;
        };
        let parent = parents.iter().try_fold(self, |set, element| set.below(element));
        parent.is_some_and(|set| set.has_element(last))
    }

    /// Returns whether an element of the top level is a member.
    pub(crate) fn has_element(&self, element: &PathElement) -> bool {
        self.entries.get(element).is_some_and(|entry| entry.member)
    }

    /// Returns the members below an element of the top level, if there are any.
    pub fn below(&self, element: &PathElement) -> Option<&Self> {
        self.entries.get(element).map(|entry| &entry.children).filter(|children| !children.is_empty())
    }

    /// Returns whether there are no members.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the number of members.
    pub fn len(&self) -> usize {
        self.entries.values().map(|entry| usize::from(entry.member) + entry.children.len()).sum()
    }

    /// Returns the members. Those of one level come before those below them.
    pub fn paths(&self) -> Vec<Path> {
        let mut paths = Vec::new();
        self.collect(&mut Vec::new(), &mut paths);
        paths
    }

    fn collect(&self, prefix: &mut Vec<PathElement>, paths: &mut Vec<Path>) {
        for (element, entry) in &self.entries {
            if entry.member {
                let mut path = prefix.clone();
                path.push(element.clone());
                paths.push(Path(path));
            }
        }
        for (element, entry) in &self.entries {
            prefix.push(element.clone());
            entry.children.collect(prefix, paths);
            prefix.pop();
        }
    }
}

impl FromIterator<Path> for FieldSet {
    fn from_iter<I: IntoIterator<Item = Path>>(paths: I) -> Self {
        let mut set = Self::new();
        for Path(path) in paths {
            set.insert(&path);
        }
        set
    }
}

impl fmt::Display for FieldSet {
    /// Writes one path a line.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let paths: Vec<String> = self.paths().iter().map(ToString::to_string).collect();
        formatter.write_str(&paths.join("\n"))
    }
}

#[cfg(test)]
mod tests;
