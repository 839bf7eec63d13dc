//! An object of a review, as far as the webhooks that decide read it.

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{DeleteOptions, ObjectMeta};
use kube::{Resource, core::ClusterResourceScope};
use serde::Deserialize;

/// A pod, or an Eviction, with only what a decision depends on.
///
/// The caller chooses the rest of an Eviction, and whoever may change a pod the rest of that. None of it is
/// decoded: a review that the gateway cannot read lets the call pass.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(from = "Body")]
pub(crate) struct Reviewed {
    /// Its name, UID and resourceVersion.
    pub(crate) metadata: ObjectMeta,
    /// The options of an Eviction.
    pub(crate) delete_options: Option<DeleteOptions>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Body {
    metadata: Option<Metadata>,
    delete_options: Option<DeleteOptions>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    name: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
}

impl From<Body> for Reviewed {
    fn from(body: Body) -> Self {
        let Metadata { name, uid, resource_version } = body.metadata.unwrap_or_default();
        let metadata = ObjectMeta { name, uid, resource_version, ..ObjectMeta::default() };
        Self { metadata, delete_options: body.delete_options }
    }
}

impl Resource for Reviewed {
    type DynamicType = ();
    type Scope = ClusterResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        Cow::Borrowed("Pod")
    }

    fn group((): &()) -> Cow<'_, str> {
        Cow::Borrowed("")
    }

    fn version((): &()) -> Cow<'_, str> {
        Cow::Borrowed("v1")
    }

    fn plural((): &()) -> Cow<'_, str> {
        Cow::Borrowed("pods")
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}
