//! Descriptions of the served resources, for the documents.

use std::collections::BTreeMap;

use kube::core::Version;
use machinery_openapi::{GroupVersion, ServedGroup, ServedResource, ServedSubresource, ServedVersion};

use super::core::Served;
use crate::{
    Verb,
    resource::{Posted, Resource},
};

/// Returns the groups of these resources, with their versions and resources in the order of their names.
pub(super) fn groups<'a>(served: impl Iterator<Item = &'a Served>) -> Vec<ServedGroup> {
    let mut groups: BTreeMap<String, BTreeMap<String, Vec<ServedResource>>> = BTreeMap::new();
    for served in served {
        let name = served.resource.name();
        let versions = groups.entry(name.group.clone()).or_default();
        versions.entry(name.version.clone()).or_default().push(resource(served));
    }
    let group = |(group, versions): (String, BTreeMap<String, Vec<ServedResource>>)| {
        let mut versions: Vec<ServedVersion> = versions
            .into_iter()
            .map(|(version, mut resources)| {
                resources.sort_by(|one, other| one.plural.cmp(&other.plural));
                ServedVersion { version, resources }
            })
            .collect();
        versions.sort_by(|one, other| {
            let (one, other) = (Version::parse(&one.version), Version::parse(&other.version));
            other.priority().cmp(&one.priority())
        });
        let preferred = versions.first().map(|version| version.version.clone()).unwrap_or_default();
        ServedGroup { group, versions, preferred }
    };
    groups.into_iter().map(group).collect()
}

fn resource(served: &Served) -> ServedResource {
    let (resource, name) = (&served.resource, served.resource.name());
    let info = resource.info();
    let mut subresources: Vec<ServedSubresource> =
        served.actions.iter().map(|a| action(a.as_ref(), served)).collect();
    if resource.has_status() {
        subresources.push(ServedSubresource {
            name: "status".to_owned(),
            kind: name.kind.clone(),
            group_version: None,
            verbs: ["get", "patch", "update"].map(str::to_owned).to_vec(),
            schema: None,
        });
    }
    subresources.extend(served.scale.as_deref().map(scale));
    let owned = |names: &[&str]| names.iter().map(ToString::to_string).collect();
    let mut verbs: Vec<String> = resource.verbs().iter().map(|verb| wire(*verb).to_owned()).collect();
    verbs.sort();
    ServedResource {
        plural: name.plural.clone(),
        singular: info.singular.to_owned(),
        kind: name.kind.clone(),
        list_kind: format!("{}List", name.kind),
        namespaced: info.namespaced,
        short_names: owned(info.short_names),
        categories: owned(info.categories),
        verbs,
        list_in_discovery: resource.lists_in_discovery(),
        stored_version: resource.stored_version(),
        schema: resource.schema(),
        subresources,
    }
}

fn scale(scale: &dyn Resource) -> ServedSubresource {
    let name = scale.name();
    ServedSubresource {
        name: "scale".to_owned(),
        kind: name.kind.clone(),
        group_version: Some(GroupVersion { group: name.group.clone(), version: name.version.clone() }),
        verbs: ["get", "patch", "update"].map(str::to_owned).to_vec(),
        schema: Some(scale.schema()),
    }
}

fn action(action: &dyn Posted, served: &Served) -> ServedSubresource {
    let (body, owner) = (action.body_name(), served.resource.name());
    let same = body.group == owner.group && body.version == owner.version;
    ServedSubresource {
        name: action.name().to_owned(),
        kind: body.kind,
        group_version: (!same).then_some(GroupVersion { group: body.group, version: body.version }),
        verbs: vec!["create".to_owned()],
        schema: Some(action.schema()),
    }
}

fn wire(verb: Verb) -> &'static str {
    match verb {
        Verb::Create => "create",
        Verb::Get => "get",
        Verb::List => "list",
        Verb::Watch => "watch",
        Verb::Update => "update",
        Verb::Patch => "patch",
        Verb::Delete => "delete",
        Verb::DeleteCollection => "deletecollection",
    }
}
