//! A kind of the server: pans, of the group `own.kitchen.dev`.

use std::borrow::Cow;

use k8s_openapi::{NamespaceResourceScope, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use machinery_server::{ApiError, KindInfo, RequestContext, Strategy};
use machinery_validation::{FieldError, FieldPath};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Pan {
    #[serde(default)]
    pub(crate) api_version: String,
    #[serde(default)]
    pub(crate) kind: String,
    #[serde(default)]
    pub(crate) metadata: ObjectMeta,
    pub(crate) spec: PanSpec,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct PanSpec {
    #[serde(default)]
    pub(crate) size: i64,
}

impl kube::Resource for Pan {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        "Pan".into()
    }

    fn group((): &()) -> Cow<'_, str> {
        "own.kitchen.dev".into()
    }

    fn version((): &()) -> Cow<'_, str> {
        "v1".into()
    }

    fn plural((): &()) -> Cow<'_, str> {
        "pans".into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

pub(crate) struct PanStrategy;

impl Strategy for PanStrategy {
    type Object = Pan;

    fn info(&self) -> KindInfo {
        KindInfo { namespaced: true, singular: "pan", short_names: &[], categories: &[] }
    }

    fn has_status(&self) -> bool {
        false
    }

    fn prepare_for_create(&self, _: &RequestContext, _: &mut Pan) {}

    fn validate(&self, _: &RequestContext, pan: &Pan) -> Vec<FieldError> {
        let field = FieldPath::new("spec").child("size");
        let negative = pan.spec.size < 0;
        negative.then(|| FieldError::invalid(&field, "-1", "must be at least 0")).into_iter().collect()
    }

    fn prepare_for_update(&self, _: &RequestContext, _: &mut Pan, _: &Pan) -> Result<(), ApiError> {
        Ok(())
    }

    fn validate_update(&self, context: &RequestContext, pan: &Pan, _: &Pan) -> Vec<FieldError> {
        self.validate(context, pan)
    }
}
