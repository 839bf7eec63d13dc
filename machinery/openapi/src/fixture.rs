//! Served groups for tests: the Evacuation API itself, and makers of small ones.

use evacuation_api::{Evacuation, EvacuationResponse, SelfEvacuation};
use k8s_openapi::api::autoscaling::v1::Scale;
use schemars::{JsonSchema, Schema, schema_for};

use crate::{GroupVersion, Info, ServedGroup, ServedResource, ServedSubresource, ServedVersion};

pub(crate) fn info() -> Info {
    Info { title: "Evacuation API".to_owned(), version: "v0.1.0".to_owned() }
}

/// `evacuation.dev/v1alpha1`, with a scale that it does not have.
pub(crate) fn evacuation_group() -> ServedGroup {
    let all = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
    let respond = ServedSubresource {
        name: "respond".to_owned(),
        kind: "EvacuationResponse".to_owned(),
        group_version: None,
        verbs: words(&["create"]),
        schema: Some(schema_for!(EvacuationResponse)),
    };
    let status = ServedSubresource {
        name: "status".to_owned(),
        kind: "Evacuation".to_owned(),
        group_version: None,
        verbs: words(&["get", "patch", "update"]),
        schema: None,
    };
    let scale = ServedSubresource {
        name: "scale".to_owned(),
        kind: "Scale".to_owned(),
        group_version: Some(GroupVersion { group: "autoscaling".to_owned(), version: "v1".to_owned() }),
        verbs: words(&["get", "update"]),
        schema: Some(schema_for!(Scale)),
    };
    let mut evacuations = resource("evacuations", "Evacuation", &all, schema_for!(Evacuation));
    evacuations.short_names = words(&["evac"]);
    evacuations.subresources = vec![status, respond.clone(), scale];
    let mut own =
        resource("selfevacuations", "SelfEvacuation", &["get", "list", "watch"], schema_for!(SelfEvacuation));
    own.subresources = vec![respond];
    group("evacuation.dev", "v1alpha1", vec![evacuations, own])
}

/// `example.dev/v1` with one cluster-scoped kind `Widget`.
pub(crate) fn widget_group<T: JsonSchema>() -> ServedGroup {
    let mut widgets = resource("widgets", "Widget", &["create", "get", "list"], schema_for!(T));
    widgets.namespaced = false;
    group("example.dev", "v1", vec![widgets])
}

fn group(group: &str, version: &str, resources: Vec<ServedResource>) -> ServedGroup {
    ServedGroup {
        group: group.to_owned(),
        versions: vec![ServedVersion { version: version.to_owned(), resources }],
        preferred: version.to_owned(),
    }
}

fn resource(plural: &str, kind: &str, verbs: &[&str], schema: Schema) -> ServedResource {
    ServedResource {
        plural: plural.to_owned(),
        singular: kind.to_lowercase(),
        kind: kind.to_owned(),
        list_kind: format!("{kind}List"),
        namespaced: true,
        short_names: Vec::new(),
        categories: Vec::new(),
        verbs: words(verbs),
        schema,
        subresources: Vec::new(),
    }
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}
