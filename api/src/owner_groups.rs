//! The groups of a user in whose name another writes an entry.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Serialize};

/// Annotation with the [`OwnerGroups`] of the entry that a request writes for another user.
pub const OWNER_GROUPS_ANNOTATION: &str = "evacuation.dev/owner-groups";

/// Maximum number of groups.
const MAX_GROUPS: usize = 64;
/// Maximum length of a group's name, in bytes.
const MAX_GROUP_BYTES: usize = 256;

/// Groups of the owner of an entry that another user writes.
///
/// The server judges by them whether the owner may use the reserve of the object limits. It believes a writer
/// that holds the verb `override` in all namespaces, and only about the entries of the same request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnerGroups {
    /// Owner of the entry.
    pub owner: String,
    /// The owner's groups.
    pub groups: Vec<String>,
}

impl OwnerGroups {
    /// Returns the groups of that owner: the first 64, without names of more than 256 bytes.
    pub fn new(owner: &str, groups: &[String]) -> Self {
        let short = groups.iter().filter(|group| group.len() <= MAX_GROUP_BYTES);
        Self { owner: owner.to_owned(), groups: short.take(MAX_GROUPS).cloned().collect() }
    }

    /// Writes the annotation.
    pub fn write(&self, metadata: &mut ObjectMeta) {
        // Strings alone are always valid JSON.
        if let Ok(text) = serde_json::to_string(self) {
            metadata.annotations.get_or_insert_default().insert(OWNER_GROUPS_ANNOTATION.to_owned(), text);
        }
    }

    /// Returns the groups of that owner. None for an owner whom the annotation does not name.
    pub fn of(metadata: &ObjectMeta, owner: &str) -> Vec<String> {
        let text = metadata.annotations.as_ref().and_then(|all| all.get(OWNER_GROUPS_ANNOTATION));
        let read = text.and_then(|text| serde_json::from_str::<Self>(text).ok());
        read.filter(|read| read.owner == owner).map(|read| read.groups).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_groups_of_an_owner_are_bounded_and_those_of_no_other() {
        let mut groups = vec!["admins".to_owned(), "x".repeat(300)];
        groups.extend((0..100).map(|number| format!("g-{number}")));
        let mut metadata = ObjectMeta::default();
        OwnerGroups::new("jane", &groups).write(&mut metadata);
        let read = OwnerGroups::of(&metadata, "jane");
        assert_eq!((read.len(), read[0].as_str(), read[1].as_str()), (MAX_GROUPS, "admins", "g-0"));
        assert_eq!(OwnerGroups::of(&metadata, "joe"), Vec::<String>::new());
        metadata.annotations.as_mut().unwrap().insert(OWNER_GROUPS_ANNOTATION.to_owned(), "{".to_owned());
        assert_eq!(OwnerGroups::of(&metadata, "jane"), Vec::<String>::new());
    }
}
