//! Admission plugins in writes of a scale. As upstream, they see the scale and not the object.

use k8s_openapi::api::autoscaling::v1::Scale;
use serde_json::Value;

use crate::{
    AdmissionAttributes, ApiError, MutableObject, RequestContext,
    registry::{
        admit::{Admitted, keep_record},
        metadata,
    },
    resource::decode_typed_value,
    resource_name::ResourceName,
    stored::to_value,
};

impl Admitted {
    /// Lets the plugins change a scale of the resource `owner`.
    pub(super) async fn mutate_scale(
        &self,
        context: &RequestContext,
        owner: &ResourceName,
        scale: &mut Scale,
        old: &Scale,
    ) -> Result<(), ApiError> {
        if !self.plugins.mutates() {
            return Ok(());
        }
        let (name, old) = (old.metadata.name.clone().unwrap_or_default(), to_value(old)?);
        let before = scale.metadata.clone();
        let mut mutable = MutableScale { value: to_value(scale)?, scale };
        let attributes = self.attributes_of_scale(context, owner, &name);
        self.plugins.mutate(&attributes, Some(&mut mutable), Some(&old)).await?;
        keep_record(context, &mut scale.metadata, &before);
        Ok(())
    }

    /// Lets the plugins refuse a scale as it would be stored.
    pub(super) async fn validate_scale(
        &self,
        context: &RequestContext,
        owner: &ResourceName,
        scale: &Scale,
        old: &Scale,
    ) -> Result<(), ApiError> {
        if !self.plugins.validates() {
            return Ok(());
        }
        let name = old.metadata.name.clone().unwrap_or_default();
        let attributes = self.attributes_of_scale(context, owner, &name);
        self.plugins.validate(&attributes, Some(&to_value(scale)?), Some(&to_value(old)?)).await
    }

    fn attributes_of_scale<'a>(
        &'a self,
        context: &'a RequestContext,
        owner: &'a ResourceName,
        name: &'a str,
    ) -> AdmissionAttributes<'a> {
        AdmissionAttributes {
            context,
            group: &owner.group,
            version: &owner.version,
            converter: Some(&self.scaled),
            resource: &owner.plural,
            kind: "Scale",
            kind_version: Some(("autoscaling", "v1")),
            name,
            options: Some(&self.options),
        }
    }
}

/// Scale in the hands of a plugin.
struct MutableScale<'a> {
    scale: &'a mut Scale,
    value: Value,
}

impl MutableObject for MutableScale<'_> {
    fn value(&self) -> &Value {
        &self.value
    }

    fn replace(&mut self, value: Value) -> Result<(), ApiError> {
        let mut scale: Scale = decode_typed_value(&ResourceName::of::<Scale>(), value)?;
        metadata::keep_server_owned(&mut scale.metadata, &self.scale.metadata);
        self.value = to_value(&scale)?;
        *self.scale = scale;
        Ok(())
    }
}
