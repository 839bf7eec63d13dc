//! Aggregated discovery: everything about every group in one document, at `/apis`.
//!
//! Source: `k8s.io/api/apidiscovery/v2`, and KEP-3352.

use serde_json::{Value, json};

use crate::{ServedGroup, ServedResource, ServedSubresource, ServedVersion};

/// A version of `apidiscovery.k8s.io`. They differ in name only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiscoveryVersion {
    /// `v2`, for clients of Kubernetes 1.30 and later.
    V2,
    /// `v2beta1`, for clients of Kubernetes 1.26 to 1.29.
    V2Beta1,
}

impl DiscoveryVersion {
    /// The name, such as `v2`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::V2 => "v2",
            Self::V2Beta1 => "v2beta1",
        }
    }

    /// The media type of the document.
    pub fn media_type(self) -> &'static str {
        match self {
            Self::V2 => "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
            Self::V2Beta1 => "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList",
        }
    }
}

/// The document at `/apis` for those who ask for aggregated discovery: an `APIGroupDiscoveryList`.
pub fn api_group_discovery_list(groups: &[ServedGroup], version: DiscoveryVersion) -> Value {
    json!({
        "kind": "APIGroupDiscoveryList",
        "apiVersion": format!("apidiscovery.k8s.io/{}", version.as_str()),
        "metadata": {},
        "items": groups.iter().map(group_discovery).collect::<Vec<_>>(),
    })
}

fn group_discovery(group: &ServedGroup) -> Value {
    // The order of the versions is the order of preference; there is no other field for it.
    let (preferred, others): (Vec<_>, Vec<_>) =
        group.versions.iter().partition(|version| version.version == group.preferred);
    json!({
        "metadata": {"name": group.group},
        "versions": preferred
            .into_iter()
            .chain(others)
            .map(|version| version_discovery(&group.group, version))
            .collect::<Vec<_>>(),
    })
}

fn version_discovery(group: &str, version: &ServedVersion) -> Value {
    json!({
        "version": version.version,
        "resources": version
            .resources
            .iter()
            .map(|resource| resource_discovery(group, &version.version, resource))
            .collect::<Vec<_>>(),
        "freshness": "Current",
    })
}

fn resource_discovery(group: &str, version: &str, resource: &ServedResource) -> Value {
    let mut discovery = json!({
        "resource": resource.plural,
        "responseKind": {"group": group, "version": version, "kind": resource.kind},
        "scope": if resource.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": resource.singular,
        "verbs": resource.discovered_verbs(),
    });
    if let Some(fields) = discovery.as_object_mut() {
        if !resource.short_names.is_empty() {
            fields.insert("shortNames".to_owned(), json!(resource.short_names));
        }
        if !resource.categories.is_empty() {
            fields.insert("categories".to_owned(), json!(resource.categories));
        }
        if !resource.subresources.is_empty() {
            let subresources: Vec<_> =
                resource.subresources.iter().map(|sub| subresource_discovery(group, version, sub)).collect();
            fields.insert("subresources".to_owned(), Value::Array(subresources));
        }
    }
    discovery
}

fn subresource_discovery(group: &str, version: &str, sub: &ServedSubresource) -> Value {
    let (group, version) = sub
        .group_version
        .as_ref()
        .map_or((group, version), |other| (other.group.as_str(), other.version.as_str()));
    json!({
        "subresource": sub.name,
        "responseKind": {"group": group, "version": version, "kind": sub.kind},
        "verbs": sub.verbs,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn aggregated_discovery_tells_kinds_scope_verbs_and_subresources() {
        let mut group = fixture::kitchen_group();
        group.versions[0].resources.truncate(1);
        insta::assert_json_snapshot!(api_group_discovery_list(&[group], DiscoveryVersion::V2));
    }

    #[test]
    fn the_preferred_version_comes_first() {
        let mut group = fixture::kitchen_group();
        let older = ServedVersion { version: "v1alpha0".to_owned(), resources: Vec::new() };
        group.versions.insert(0, older);
        let list = api_group_discovery_list(&[group], DiscoveryVersion::V2Beta1);
        assert_eq!(list["apiVersion"], "apidiscovery.k8s.io/v2beta1");
        assert_eq!(list["items"][0]["versions"][0]["version"], "v1alpha1");
        assert_eq!(list["items"][0]["versions"][1]["version"], "v1alpha0");
    }
}
