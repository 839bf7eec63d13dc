//! Discovery, one document for each level: `/apis`, `/apis/GROUP`, `/apis/GROUP/VERSION`.

use base64::{Engine, engine::general_purpose::STANDARD};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{
    APIGroup, APIGroupList, APIResource, APIResourceList, GroupVersionForDiscovery,
};
use sha2::{Digest, Sha256};

use crate::{ServedGroup, ServedResource, ServedSubresource, ServedVersion};

/// The document at `/apis`.
pub fn api_group_list(groups: &[ServedGroup]) -> APIGroupList {
    APIGroupList { groups: groups.iter().map(api_group).collect() }
}

/// The document at `/apis/GROUP`.
pub fn api_group(group: &ServedGroup) -> APIGroup {
    let version = |version: &str| GroupVersionForDiscovery {
        group_version: format!("{}/{version}", group.group),
        version: version.to_owned(),
    };
    APIGroup {
        name: group.group.clone(),
        preferred_version: Some(version(&group.preferred)),
        server_address_by_client_cidrs: None,
        versions: group.versions.iter().map(|served| version(&served.version)).collect(),
    }
}

/// The document at `/apis/GROUP/VERSION`: every resource, each followed by its subresources.
pub fn api_resource_list(group: &ServedGroup, version: &ServedVersion) -> APIResourceList {
    APIResourceList {
        group_version: format!("{}/{}", group.group, version.version),
        resources: version
            .resources
            .iter()
            .flat_map(|resource| {
                std::iter::once(api_resource(group, resource))
                    .chain(resource.subresources.iter().map(|sub| api_subresource(resource, sub)))
            })
            .collect(),
    }
}

fn api_resource(group: &ServedGroup, resource: &ServedResource) -> APIResource {
    let hash = |stored: &String| storage_version_hash(&group.group, stored, &resource.kind);
    APIResource {
        categories: not_empty(&resource.categories),
        kind: resource.kind.clone(),
        name: resource.plural.clone(),
        namespaced: resource.namespaced,
        short_names: not_empty(&resource.short_names),
        singular_name: resource.singular.clone(),
        storage_version_hash: resource.stored_version.as_ref().map(hash),
        verbs: resource.discovered_verbs(),
        ..APIResource::default()
    }
}

/// Source: `k8s.io/apiserver/pkg/endpoints/discovery/storageversionhash.go`.
fn storage_version_hash(group: &str, version: &str, kind: &str) -> String {
    let hash = Sha256::digest(format!("{group}/{version}/{kind}"));
    STANDARD.encode(hash.get(..8).unwrap_or_default())
}

fn api_subresource(resource: &ServedResource, sub: &ServedSubresource) -> APIResource {
    let other = sub.group_version.as_ref();
    APIResource {
        group: other.map(|other| other.group.clone()),
        kind: sub.kind.clone(),
        name: format!("{}/{}", resource.plural, sub.name),
        namespaced: resource.namespaced,
        verbs: sub.verbs.clone(),
        version: other.map(|other| other.version.clone()),
        ..APIResource::default()
    }
}

fn not_empty(words: &[String]) -> Option<Vec<String>> {
    (!words.is_empty()).then(|| words.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn the_group_list_names_every_version_and_the_preferred_one() {
        let list = serde_json::to_value(api_group_list(&[fixture::kitchen_group()])).unwrap();
        insta::assert_json_snapshot!(list, @r#"
        {
          "apiVersion": "v1",
          "groups": [
            {
              "apiVersion": "v1",
              "kind": "APIGroup",
              "name": "kitchen.dev",
              "preferredVersion": {
                "groupVersion": "kitchen.dev/v1alpha1",
                "version": "v1alpha1"
              },
              "versions": [
                {
                  "groupVersion": "kitchen.dev/v1alpha1",
                  "version": "v1alpha1"
                }
              ]
            }
          ],
          "kind": "APIGroupList"
        }
        "#);
    }

    #[test]
    fn a_stored_kind_has_the_hash_of_its_storage_version() {
        // What kube-apiserver 1.37 says of deployments.
        assert_eq!(storage_version_hash("apps", "v1", "Deployment"), "8aSe+NMegvE=");
        let mut group = fixture::kitchen_group();
        group.versions[0].resources[1].stored_version = None;
        let list = api_resource_list(&group, &group.versions[0]);
        let hash = |name: &str| {
            let found = list.resources.iter().find(|resource| resource.name == name).unwrap();
            found.storage_version_hash.clone()
        };
        assert!(hash("pots").is_some_and(|hash| hash.len() == 12));
        assert_eq!(hash("pots/status"), None);
        assert_eq!(hash("ownpots"), None);
    }

    #[test]
    fn a_resource_that_most_callers_may_not_list_is_discovered_without_the_verb() {
        let mut group = fixture::kitchen_group();
        group.versions[0].resources[1].list_in_discovery = false;
        let list = api_resource_list(&group, &group.versions[0]);
        let found = list.resources.iter().find(|resource| resource.name == "ownpots").unwrap();
        assert_eq!(found.verbs, ["get", "watch"]);
    }

    #[test]
    fn a_subresource_of_another_group_says_so_and_one_of_its_own_does_not() {
        let group = fixture::kitchen_group();
        let list = api_resource_list(&group, &group.versions[0]);
        let found = |name: &str| list.resources.iter().find(|resource| resource.name == name).unwrap();
        assert_eq!(found("pots").short_names.as_deref(), Some(&["pt".to_owned()][..]));
        assert_eq!(found("pots").singular_name, "pot");
        assert_eq!(found("pots").categories, None);
        assert_eq!(found("pots/status").kind, "Pot");
        assert_eq!(found("pots/status").group, None);
        assert_eq!(found("pots/stir").verbs, ["create"]);
        let scale = found("pots/scale");
        assert_eq!((scale.group.as_deref(), scale.version.as_deref()), (Some("autoscaling"), Some("v1")));
    }
}
