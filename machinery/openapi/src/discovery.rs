//! Discovery, one document for each level: `/apis`, `/apis/GROUP`, `/apis/GROUP/VERSION`.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{
    APIGroup, APIGroupList, APIResource, APIResourceList, GroupVersionForDiscovery,
};

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
                std::iter::once(api_resource(resource))
                    .chain(resource.subresources.iter().map(|sub| api_subresource(resource, sub)))
            })
            .collect(),
    }
}

fn api_resource(resource: &ServedResource) -> APIResource {
    APIResource {
        categories: not_empty(&resource.categories),
        kind: resource.kind.clone(),
        name: resource.plural.clone(),
        namespaced: resource.namespaced,
        short_names: not_empty(&resource.short_names),
        singular_name: resource.singular.clone(),
        verbs: resource.verbs.clone(),
        ..APIResource::default()
    }
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
        let list = serde_json::to_value(api_group_list(&[fixture::evacuation_group()])).unwrap();
        insta::assert_json_snapshot!(list, @r#"
        {
          "apiVersion": "v1",
          "groups": [
            {
              "apiVersion": "v1",
              "kind": "APIGroup",
              "name": "evacuation.dev",
              "preferredVersion": {
                "groupVersion": "evacuation.dev/v1alpha1",
                "version": "v1alpha1"
              },
              "versions": [
                {
                  "groupVersion": "evacuation.dev/v1alpha1",
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
    fn a_subresource_of_another_group_says_so_and_one_of_its_own_does_not() {
        let group = fixture::evacuation_group();
        let list = api_resource_list(&group, &group.versions[0]);
        let found = |name: &str| list.resources.iter().find(|resource| resource.name == name).unwrap();
        assert_eq!(found("evacuations").short_names.as_deref(), Some(&["evac".to_owned()][..]));
        assert_eq!(found("evacuations").singular_name, "evacuation");
        assert_eq!(found("evacuations").categories, None);
        assert_eq!(found("evacuations/status").kind, "Evacuation");
        assert_eq!(found("evacuations/status").group, None);
        assert_eq!(found("evacuations/respond").verbs, ["create"]);
        let scale = found("evacuations/scale");
        assert_eq!((scale.group.as_deref(), scale.version.as_deref()), (Some("autoscaling"), Some("v1")));
    }
}
