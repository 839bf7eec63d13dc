//! Mistakes in the description of a kind, which a server reports before it serves anything.

use std::{error::Error, marker::PhantomData, sync::Arc};

use machinery_server::{
    ApiError, BuildError, EveryNamespace, KindInfo, Object, Registry, RequestContext, ScalePaths, Server,
    ServerOptions, Strategy, kind,
};
use machinery_validation::FieldError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::support::{TestAuthenticator, TestAuthorizer, embedded};

kind! {
    /// A jar, which is right.
    struct Jar in "larder.dev", "v1", "jars", Namespaced {
        spec: JarSpec,
        #[serde(default)]
        status: JarStatus,
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
struct JarSpec {
    spoons: i32,
    label: String,
    fill: f64,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
struct JarStatus {
    spoons: i32,
    label: String,
}

kind! {
    /// A lid, one of whose fields has a pattern that never ends.
    struct Lid in "larder.dev", "v1", "lids", Namespaced {
        spec: LidSpec,
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
struct LidSpec {
    rings: Vec<Ring>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
struct Ring {
    #[schemars(extend("pattern" = "^[a-z"))]
    colour: String,
}

kind! {
    /// A shelf, whose list has an identity that does not exist.
    struct Shelf in "larder.dev", "v1", "shelves", Namespaced {
        #[schemars(extend("x-kubernetes-list-type" = "bag"))]
        jars: Vec<String>,
    }
}

/// A kind without rules, and with such a scale.
struct Plain<O> {
    scale: Option<ScalePaths>,
    kind: PhantomData<fn() -> O>,
}

impl<O: Object> Strategy for Plain<O> {
    type Object = O;

    fn info(&self) -> KindInfo {
        KindInfo { namespaced: true, singular: "thing", short_names: &[], categories: &[] }
    }

    fn scale(&self, _: &str) -> Option<ScalePaths> {
        self.scale
    }

    fn prepare_for_create(&self, _: &RequestContext, _: &mut O) {}

    fn validate(&self, _: &RequestContext, _: &O) -> Vec<FieldError> {
        Vec::new()
    }

    fn prepare_for_update(&self, _: &RequestContext, _: &mut O, _: &O) -> Result<(), ApiError> {
        Ok(())
    }

    fn validate_update(&self, _: &RequestContext, _: &O, _: &O) -> Vec<FieldError> {
        Vec::new()
    }
}

/// Builds a server of one kind. Returns what it refuses: each error of the chain.
async fn refusals<O: Object>(scale: Option<ScalePaths>) -> Vec<String> {
    let folder = tempfile::tempdir().expect("a folder");
    let strategy = Plain::<O> { scale, kind: PhantomData };
    let registry = Registry::new(embedded(&folder).await, "/registry", strategy);
    let built: Result<Server, BuildError> = Server::builder(ServerOptions::default())
        .resource(registry)
        .authenticator(Arc::new(TestAuthenticator))
        .authorizer(Arc::new(TestAuthorizer))
        .namespaces(Arc::new(EveryNamespace))
        .build();
    let mut chain = Vec::new();
    let refused = built.err();
    let mut next: Option<&dyn Error> = refused.as_ref().map(|error| error as &dyn Error);
    while let Some(error) = next {
        chain.push(error.to_string());
        next = error.source();
    }
    chain
}

#[tokio::test]
async fn a_kind_with_a_pattern_that_is_not_valid_is_not_served() {
    assert_eq!(refusals::<Jar>(None).await, [""; 0], "one that is right is");
    let refused = refusals::<Lid>(None).await;
    let problem = "kind Lid: field spec.rings[*].colour has the pattern \"^[a-z\", which is not valid";
    assert_eq!(refused.get(1).map(String::as_str), Some(problem), "{refused:?}");
    assert!(refused.last().expect("a reason").contains("unclosed character class"), "{refused:?}");
}

#[tokio::test]
async fn a_kind_whose_objects_cannot_be_merged_is_not_served() {
    let refused = refusals::<Shelf>(None).await;
    assert_eq!(refused.get(1).map(String::as_str), Some("kind Shelf cannot be merged"));
    assert!(refused.last().expect("a reason").contains("\"bag\""), "{refused:?}");
}

#[tokio::test]
async fn a_scale_whose_paths_are_no_fields_of_its_kind_is_not_served() {
    let right = ScalePaths {
        spec_replicas: "spec.spoons",
        status_replicas: "status.spoons",
        selector: Some("status.label"),
    };
    for right in
        [right, ScalePaths { selector: Some("spec.label"), ..right }, ScalePaths { selector: None, ..right }]
    {
        assert_eq!(refusals::<Jar>(Some(right)).await, [""; 0], "{right:?}");
    }
    let spec = |spec_replicas| ScalePaths { spec_replicas, ..right };
    let status = |status_replicas| ScalePaths { status_replicas, ..right };
    let selector = |selector| ScalePaths { selector: Some(selector), ..right };
    for (paths, problem) in [
        (spec("spec.replicas"), "\"spec.replicas\" of the scale is no integer below spec"),
        (spec("spec.label"), "\"spec.label\" of the scale is no integer below spec"),
        (spec("spec.fill"), "\"spec.fill\" of the scale is no integer below spec"),
        (spec("status.spoons"), "\"status.spoons\" of the scale is no integer below spec"),
        (spec("spec"), "\"spec\" of the scale is no integer below spec"),
        (spec(".spec.spoons"), "\".spec.spoons\" of the scale is no integer below spec"),
        (status("status.replicas"), "\"status.replicas\" of the scale is no integer below status"),
        (selector("status.spoons"), "\"status.spoons\" of the scale is no string below spec or status"),
        (selector("metadata.name"), "\"metadata.name\" of the scale is no string below spec or status"),
    ] {
        assert_eq!(refusals::<Jar>(Some(paths)).await, [format!("jars.larder.dev v1: the path {problem}")]);
    }
}
