//! Keys of objects and claims.

use crate::resource_name::ResourceName;

/// Keys of one kind: `PREFIX/GROUP/RESOURCE/[NAMESPACE/]NAME` for objects and
/// `PREFIX/claims/GROUP/RESOURCE/[NAMESPACE/]CLAIM` for claims. No group is called `claims`: groups have
/// dots.
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

    /// Returns the prefix of the keys of all objects.
    pub(crate) fn objects(&self) -> &str {
        &self.objects
    }

    /// Returns the key of an object.
    pub(crate) fn object(&self, namespace: &str, name: &str) -> String {
        format!("{}{}", self.objects, Self::relative(namespace, name))
    }

    /// Returns the key of a claim in a namespace.
    pub(crate) fn claim(&self, namespace: &str, claim: &str) -> String {
        format!("{}{}", self.claims, Self::relative(namespace, claim))
    }

    /// Returns the key of an object without the prefix of the kind, as the cache has it.
    pub(crate) fn relative(namespace: &str, name: &str) -> String {
        if namespace.is_empty() { name.to_owned() } else { format!("{namespace}/{name}") }
    }
}
