//! Served groups for tests: a kitchen, and makers of small groups.

use k8s_openapi::{
    api::autoscaling::v1::Scale,
    apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta},
};
use schemars::{JsonSchema, Schema, schema_for};
use serde::{Deserialize, Serialize};

use crate::{GroupVersion, Info, ServedGroup, ServedResource, ServedSubresource, ServedVersion};

/// A pot.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Pot {
    api_version: Option<String>,
    kind: Option<String>,
    #[serde(default)]
    metadata: ObjectMeta,
    spec: PotSpec,
    status: Option<PotStatus>,
}

/// Content of a pot.
#[derive(Serialize, Deserialize, JsonSchema)]
struct PotSpec {
    /// Recipe.
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    steps: Vec<Step>,
}

/// One step of a recipe.
#[derive(Serialize, Deserialize, JsonSchema)]
struct Step {
    name: String,
    /// Heat of the stove.
    heat: Heat,
}

/// Heat of a stove.
#[derive(Serialize, Deserialize, JsonSchema)]
enum Heat {
    /// It simmers.
    Low,
    /// It boils.
    High,
}

/// State of a pot.
#[derive(Serialize, Deserialize, JsonSchema)]
struct PotStatus {
    #[serde(default)]
    conditions: Vec<Condition>,
}

/// A pot of the caller's own.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct OwnPot {
    api_version: Option<String>,
    kind: Option<String>,
    #[serde(default)]
    metadata: ObjectMeta,
    spec: PotSpec,
}

/// Posted by those who stir.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Stirring {
    api_version: Option<String>,
    kind: Option<String>,
    times: i64,
}

pub(crate) fn info() -> Info {
    Info { title: "Pot API".to_owned(), version: "v0.1.0".to_owned() }
}

/// `kitchen.dev/v1alpha1`, with a scale that it does not have.
pub(crate) fn kitchen_group() -> ServedGroup {
    let all = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
    let respond = ServedSubresource {
        name: "stir".to_owned(),
        kind: "Stirring".to_owned(),
        group_version: None,
        verbs: words(&["create"]),
        schema: Some(schema_for!(Stirring)),
    };
    let status = ServedSubresource {
        name: "status".to_owned(),
        kind: "Pot".to_owned(),
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
    let mut pots = resource("pots", "Pot", &all, schema_for!(Pot));
    pots.short_names = words(&["pt"]);
    pots.subresources = vec![status, respond.clone(), scale];
    let mut own = resource("ownpots", "OwnPot", &["get", "list", "watch"], schema_for!(OwnPot));
    own.subresources = vec![respond];
    group("kitchen.dev", "v1alpha1", vec![pots, own])
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
        list_in_discovery: true,
        stored_version: Some("v1alpha1".to_owned()),
        schema,
        subresources: Vec::new(),
    }
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}
