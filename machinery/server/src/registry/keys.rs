//! Where objects and claims are stored.

use crate::resource_name::ResourceName;

/// The keys of one kind: `PREFIX/GROUP/RESOURCE/[NAMESPACE/]NAME` for objects and
/// `PREFIX/claims/GROUP/RESOURCE/[NAMESPACE/]CLAIM` for claims. No group is called `claims`: groups have dots.
#[derive(Clone, Debug)]
pub(crate) struct Keys {
    objects: String,
    claims: String,
}

impl Keys {
    pub(crate) fn new(prefix: &str, resource: &ResourceName) -> Self {
        let prefix = prefix.trim_end_matches('/');
        let (group, plural) = (&resource.group, &resource.plural);
        Self {
            objects: format!("{prefix}/{group}/{plural}/"),
            claims: format!("{prefix}/claims/{group}/{plural}/"),
        }
    }

    /// What the keys of all objects start with.
    pub(crate) fn objects(&self) -> &str {
        &self.objects
    }

    /// The key of an object.
    pub(crate) fn object(&self, namespace: &str, name: &str) -> String {
        format!("{}{}", self.objects, Self::relative(namespace, name))
    }

    /// The key of a claim in a namespace.
    pub(crate) fn claim(&self, namespace: &str, claim: &str) -> String {
        format!("{}{}", self.claims, Self::relative(namespace, claim))
    }

    /// An object's key without the kind's prefix, as the cache has it.
    pub(crate) fn relative(namespace: &str, name: &str) -> String {
        if namespace.is_empty() { name.to_owned() } else { format!("{namespace}/{name}") }
    }
}
