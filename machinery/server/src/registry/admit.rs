//! Admission plugins in the write path. They see objects in the version of the request.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde_json::Value;

use machinery_apply::validate_managed_fields;

use super::{DeleteOptions, Registry, metadata};
use crate::{
    AdmissionAttributes, ApiError, Interception, MutableObject, RequestContext, Strategy, admission::OneForm,
};

/// Plugins that intercept one write, and their view of it.
pub(super) struct Admitted {
    pub(super) plugins: Box<dyn Interception>,
    pub(super) options: Value,
    /// Versions of the resource of a scale.
    pub(super) scaled: OneForm,
}

impl<S: Strategy> Registry<S> {
    /// Sets the admission plugins. The first call counts.
    pub(crate) fn set_admission(&self, admission: Arc<dyn crate::Admission>) {
        let _ = self.admission.set(admission);
    }

    /// Returns the plugins that intercept a write; `None`, at no cost, when there are none.
    pub(super) fn intercept(&self, context: &RequestContext, name: &str) -> Option<Admitted> {
        let admission = self.admission.get()?;
        let plugins = admission.intercept(&self.attributes(context, name, None))?;
        Some(Admitted { plugins, options: context.write_options(), scaled: OneForm::default() })
    }

    /// Returns the plugins that intercept a write of a scale.
    pub(super) fn intercept_scale(&self, context: &RequestContext, name: &str) -> Option<Admitted> {
        let admission = self.admission.get()?;
        let scaled = OneForm::new(self.versions.all().iter().map(|version| version.name().version.clone()));
        let attributes = AdmissionAttributes {
            kind: "Scale",
            kind_version: Some(("autoscaling", "v1")),
            converter: Some(&scaled),
            ..self.attributes(context, name, None)
        };
        let plugins = admission.intercept(&attributes)?;
        Some(Admitted { plugins, options: context.write_options(), scaled })
    }

    /// Lets the plugins change an object.
    pub(super) async fn mutate_admitted(
        &self,
        admitted: &Admitted,
        context: &RequestContext,
        object: &mut S::Object,
        old: Option<&S::Object>,
    ) -> Result<(), ApiError> {
        if !admitted.plugins.mutates() {
            return Ok(());
        }
        let name = object.meta().name.clone().unwrap_or_default();
        let attributes = self.attributes(context, &name, Some(&admitted.options));
        let old = old.map(|old| self.value_of(context, old)).transpose()?;
        let before = object.clone();
        let mut mutable = Mutable { registry: self, context, value: self.value_of(context, object)?, object };
        admitted.plugins.mutate(&attributes, Some(&mut mutable), old.as_ref()).await?;
        keep_record(context, object.meta_mut(), before.meta());
        self.check_size(object, old.is_some().then_some(&before))
    }

    /// Lets the plugins refuse an object as it would be stored.
    pub(super) async fn validate_admitted(
        &self,
        admitted: &Admitted,
        context: &RequestContext,
        object: &S::Object,
        old: Option<&S::Object>,
    ) -> Result<(), ApiError> {
        if !admitted.plugins.validates() {
            return Ok(());
        }
        let name = object.meta().name.clone().unwrap_or_default();
        let attributes = self.attributes(context, &name, Some(&admitted.options));
        let old = old.map(|old| self.value_of(context, old)).transpose()?;
        admitted.plugins.validate(&attributes, Some(&self.value_of(context, object)?), old.as_ref()).await
    }

    /// Lets the plugins refuse a deletion. As upstream, mutating ones are called too and change nothing.
    pub(super) async fn admit_deletion(
        &self,
        admitted: &Admitted,
        context: &RequestContext,
        given: &DeleteOptions,
        old: &S::Object,
    ) -> Result<(), ApiError> {
        let name = old.meta().name.clone().unwrap_or_default();
        let options = context.delete_options(given);
        let attributes = self.attributes(context, &name, Some(&options));
        let old = self.value_of(context, old)?;
        if admitted.plugins.mutates() {
            admitted.plugins.mutate(&attributes, None, Some(&old)).await?;
        }
        if admitted.plugins.validates() {
            admitted.plugins.validate(&attributes, None, Some(&old)).await?;
        }
        Ok(())
    }

    fn attributes<'a>(
        &'a self,
        context: &'a RequestContext,
        name: &'a str,
        options: Option<&'a Value>,
    ) -> AdmissionAttributes<'a> {
        let resource = self.version(context).name();
        AdmissionAttributes {
            context,
            group: &resource.group,
            version: &resource.version,
            converter: Some(&*self.versions),
            resource: &resource.plural,
            kind: &resource.kind,
            kind_version: None,
            name,
            options,
        }
    }
}

/// Object of a registry in the hands of a plugin.
struct Mutable<'a, S: Strategy> {
    registry: &'a Registry<S>,
    context: &'a RequestContext,
    object: &'a mut S::Object,
    value: Value,
}

impl<S: Strategy> MutableObject for Mutable<'_, S> {
    fn value(&self) -> &Value {
        &self.value
    }

    fn replace(&mut self, value: Value) -> Result<(), ApiError> {
        let mut object = self.registry.version(self.context).decode_merged(self.context, value)?;
        metadata::keep_server_owned(object.meta_mut(), self.object.meta());
        self.registry.strategy.default(self.context, &mut object);
        self.value = self.registry.value_of(self.context, &object)?;
        *self.object = object;
        Ok(())
    }
}

/// Puts the record of ownership back that a plugin has broken.
pub(super) fn keep_record(context: &RequestContext, meta: &mut ObjectMeta, before: &ObjectMeta) {
    if meta.managed_fields != before.managed_fields
        && let Err(error) = validate_managed_fields(meta.managed_fields.as_deref().unwrap_or_default())
    {
        context.warnings.add(format!(
            ".metadata.managedFields was in an invalid state after admission; this could be caused by an \
             outdated mutating admission controller; please fix your requests: {error}"
        ));
        meta.managed_fields.clone_from(&before.managed_fields);
    }
}
