//! Description of a server: the input of every document.

use schemars::Schema;

/// An API group and its versions.
#[derive(Clone, Debug)]
pub struct ServedGroup {
    /// The group's name, such as `kitchen.dev`.
    pub group: String,
    /// Its versions, the most preferred first.
    pub versions: Vec<ServedVersion>,
    /// The version that clients should use; one of `versions`.
    pub preferred: String,
}

/// One version of an API group.
#[derive(Clone, Debug)]
pub struct ServedVersion {
    /// The version's name, such as `v1alpha1`.
    pub version: String,
    /// The resources of that version, in the order in which discovery lists them.
    pub resources: Vec<ServedResource>,
}

/// A resource: a kind under its plural name.
#[derive(Clone, Debug)]
pub struct ServedResource {
    /// The name in URLs, such as `pots`.
    pub plural: String,
    /// The name of one, such as `pot`.
    pub singular: String,
    /// The kind, such as `Pot`.
    pub kind: String,
    /// The kind of a list, such as `PotList`.
    pub list_kind: String,
    /// True if objects live in namespaces.
    pub namespaced: bool,
    /// Short names, such as `evac`.
    pub short_names: Vec<String>,
    /// Categories, such as `all`.
    pub categories: Vec<String>,
    /// The verbs on the wire, in lower case: `create`, `delete`, `deletecollection`, `get`, `list`, `patch`,
    /// `update`,
    /// `watch`. Others are listed in discovery and have no path in OpenAPI.
    pub verbs: Vec<String>,
    /// True if discovery has the verb `list`. A resource that most callers may not list is discovered without
    /// it.
    pub list_in_discovery: bool,
    /// The version in which objects of the kind are stored, if they are. Discovery has its hash.
    pub stored_version: Option<String>,
    /// The root schema of the kind's type, as `schemars::schema_for!` makes it.
    pub schema: Schema,
    /// Subresources: paths below `PLURAL/NAME`.
    pub subresources: Vec<ServedSubresource>,
}

impl ServedResource {
    /// Returns the verbs that discovery has.
    pub(crate) fn discovered_verbs(&self) -> Vec<String> {
        let listed = |verb: &&String| self.list_in_discovery || *verb != "list";
        self.verbs.iter().filter(listed).cloned().collect()
    }
}

/// A subresource, such as `status`.
#[derive(Clone, Debug)]
pub struct ServedSubresource {
    /// The last segment of the path, such as `status`.
    pub name: String,
    /// The kind that is read and written, such as `Pot` for a status.
    pub kind: String,
    /// Group and version of the kind, if they are not the resource's own.
    pub group_version: Option<GroupVersion>,
    /// The verbs on the wire: `create`, `get`, `patch`, `update`.
    pub verbs: Vec<String>,
    /// The root schema of the kind's type; without it, the kind is one that has a schema elsewhere in the
    /// same version.
    pub schema: Option<Schema>,
}

/// A group and a version of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupVersion {
    /// The group; empty for the core group.
    pub group: String,
    /// The version.
    pub version: String,
}
