//! Attributes of a request, for its authorization.

use crate::UserInfo;

/// Attributes of a request: a user, and a verb on a resource or on another path.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Attributes {
    /// User of the request.
    pub user: UserInfo,
    /// Verb: `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection` or one of the
    /// kind's own such as `respond`. For other paths, the HTTP method in lower case.
    pub verb: String,
    /// Resource; `None` when the request is for [`Attributes::path`].
    pub resource: Option<ResourceAttributes>,
    /// Path of a request that is for no resource, such as `/metrics`. Empty for resources.
    pub path: String,
}

/// Resource that a request is for. Empty fields mean the same as in a SubjectAccessReview.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ResourceAttributes {
    /// The API group; empty for the core group.
    pub group: String,
    /// The version, such as `v1`.
    pub version: String,
    /// Plural of the resource, such as `pods`. The resource need not exist: the verb `respond` is authorised
    /// on a virtual one.
    pub resource: String,
    /// The subresource, such as `eviction`; empty for the resource itself.
    pub subresource: String,
    /// The namespace; empty for cluster-scoped resources and for all namespaces.
    pub namespace: String,
    /// Name of the object. Empty for all objects, and for a create without a name.
    pub name: String,
}

impl ResourceAttributes {
    /// All objects of a resource, cluster-wide.
    pub fn new(group: impl Into<String>, version: impl Into<String>, resource: impl Into<String>) -> Self {
        Self { group: group.into(), version: version.into(), resource: resource.into(), ..Self::default() }
    }

    /// Narrows it to a subresource.
    #[must_use]
    pub fn subresource(mut self, subresource: impl Into<String>) -> Self {
        self.subresource = subresource.into();
        self
    }

    /// Narrows it to one namespace.
    #[must_use]
    pub fn in_namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = namespace.into();
        self
    }

    /// Narrows it to one object.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }
}

impl Attributes {
    /// A request for `verb` on a resource.
    pub fn of_resource(user: UserInfo, verb: impl Into<String>, resource: ResourceAttributes) -> Self {
        Self { user, verb: verb.into(), resource: Some(resource), path: String::new() }
    }

    /// A request for `verb` on a path that is no resource.
    pub fn of_path(user: UserInfo, verb: impl Into<String>, path: impl Into<String>) -> Self {
        Self { user, verb: verb.into(), resource: None, path: path.into() }
    }

    /// Returns the message of a denial, in kube-apiserver's words: `User "jane" cannot create resource
    /// "pods/eviction" in API group "" in the namespace "shop"`.
    pub fn forbidden_message(&self) -> String {
        let (user, verb) = (&self.user.name, &self.verb);
        let Some(resource) = &self.resource else {
            return format!("User {user:?} cannot {verb} path {:?}", self.path);
        };
        let name = if resource.subresource.is_empty() {
            resource.resource.clone()
        } else {
            format!("{}/{}", resource.resource, resource.subresource)
        };
        let what = format!("User {user:?} cannot {verb} resource {name:?} in API group {:?}", resource.group);
        if resource.namespace.is_empty() {
            format!("{what} at the cluster scope")
        } else {
            format!("{what} in the namespace {:?}", resource.namespace)
        }
    }

    /// Returns the number of bytes that the caller chose.
    pub(crate) fn controlled_size(&self) -> usize {
        let resource = self.resource.as_ref().map_or(0, |resource| {
            resource.group.len()
                + resource.version.len()
                + resource.resource.len()
                + resource.subresource.len()
                + resource.namespace.len()
                + resource.name.len()
        });
        self.verb.len() + self.path.len() + resource
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn jane() -> UserInfo {
        UserInfo { name: "jane".to_owned(), ..UserInfo::default() }
    }

    #[test]
    fn a_refusal_reads_as_kube_apiservers_does() {
        let eviction = ResourceAttributes::new("", "v1", "pods").subresource("eviction").in_namespace("shop");
        let cases = [
            (
                Attributes::of_resource(jane(), "create", eviction.named("db-0")),
                r#"User "jane" cannot create resource "pods/eviction" in API group "" in the namespace "shop""#,
            ),
            (
                Attributes::of_resource(jane(), "list", ResourceAttributes::new("apps", "v1", "deployments")),
                r#"User "jane" cannot list resource "deployments" in API group "apps" at the cluster scope"#,
            ),
            (Attributes::of_path(jane(), "get", "/metrics"), r#"User "jane" cannot get path "/metrics""#),
        ];
        for (attributes, message) in cases {
            assert_eq!(attributes.forbidden_message(), message);
        }
    }
}
