//! The key of a requester's entry.

use std::fmt;

/// Key of an entry of `spec.requesters`: its owner and its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequesterKey<'a> {
    /// The user that the entry belongs to.
    pub owner: &'a str,
    /// The entry's name, unique among the owner's entries.
    pub name: &'a str,
}

impl fmt::Display for RequesterKey<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", self.name, self.owner)
    }
}
