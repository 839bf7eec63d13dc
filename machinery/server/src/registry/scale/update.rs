//! Reading and writing the scale of an object.

use std::sync::Arc;

use async_trait::async_trait;
use k8s_openapi::api::autoscaling::v1::Scale;
use machinery_validation::FieldError;
use serde_json::Value;

use super::{ScalePaths, document, owners};
use crate::{
    ApiError, RequestContext, Strategy,
    registry::{
        Part, Registry,
        admit::Admitted,
        metadata,
        update::finish,
        write::{Decision, Next},
    },
    resource::{Applied, Patch, method_not_allowed, patch_typed},
    stored::{Stored, to_value},
    structure::KindStructure,
};

/// Change of a scale that a caller asks for.
#[derive(Clone, Debug)]
pub(crate) enum ScaleChange {
    /// The scale is replaced.
    Replace(Box<Scale>),
    /// It is patched.
    Patch(Patch),
    /// A configuration is applied to it.
    Apply(Applied),
}

/// Update of an object by its scale.
struct ScaleUpdate {
    change: ScaleChange,
    structure: Arc<KindStructure>,
    admitted: Option<Admitted>,
}

impl ScaleUpdate {
    /// Returns the scale that the caller asks for, with its owners.
    fn changed(&self, context: &RequestContext, before: &Scale) -> Result<Scale, ApiError> {
        let structure = &self.structure;
        let mut scale = match &self.change {
            ScaleChange::Replace(scale) => Scale::clone(scale),
            ScaleChange::Patch(patch) => {
                patch_typed(context, patch, &to_value(before)?, structure.get()?.shape())?
            }
            ScaleChange::Apply(applied) => return owners::merge(context, structure, before, applied),
        };
        scale = document::sent(scale);
        owners::track(context, structure, before, &mut scale)?;
        Ok(scale)
    }

    /// Refuses a scale of another object or version.
    fn check<S: Strategy>(
        &self,
        registry: &Registry<S>,
        context: &RequestContext,
        scale: &Scale,
        before: &Scale,
    ) -> Result<(), ApiError> {
        let (given, old) = (&scale.metadata, &before.metadata);
        let name = old.name.as_deref().unwrap_or_default();
        registry.check_names(context, name, given)?;
        let uid = given.uid.as_deref().filter(|uid| !uid.is_empty());
        if let (ScaleChange::Replace(_), Some(uid)) = (&self.change, uid)
            && old.uid.as_deref() != Some(uid)
        {
            return Err(metadata::uid_conflict(&registry.resource, name, uid, old));
        }
        Ok(())
    }
}

#[async_trait]
impl<S: Strategy> Decision<S> for ScaleUpdate {
    async fn decide(
        &mut self,
        registry: &Registry<S>,
        context: &RequestContext,
        old: &Stored<S::Object>,
    ) -> Result<Next<S::Object>, ApiError> {
        let paths = registry.scale_paths(context)?;
        let version = registry.version(context);
        let mut value = registry.value_of(context, old)?;
        let mut before = document::scale_of(&value, paths);
        document::mark_missing(&mut before);
        let mut before = document::sent(before);
        registry.show_owners(&mut before, old)?;
        let mut scale = self.changed(context, &before)?;
        self.check(registry, context, &scale, &before)?;
        if let Some(admitted) = &self.admitted {
            admitted.mutate_scale(context, version.name(), &mut scale, &before).await?;
        }
        document::set_replicas(&mut value, paths, document::wanted(&scale, paths)?)?;
        let entries = scale.metadata.managed_fields.take().unwrap_or_default();
        let entries = registry.owners_of_scale(&version.name().api_version(), &entries, old)?;
        let record = registry.record(entries, matches!(self.change, ScaleChange::Apply(_)))?;
        let old_meta = kube::Resource::meta(&**old);
        let wanted = metadata::wanted_version(&scale.metadata)?;
        if wanted.is_some() && wanted != old_meta.resource_version {
            return Err(registry.resource.modified(old_meta.name.as_deref().unwrap_or_default()));
        }
        let mut object = version.decode_merged(context, value)?;
        *kube::Resource::meta_mut(&mut object) = old_meta.clone();
        kube::Resource::meta_mut(&mut object).managed_fields = record;
        // The rules of the strategy learn which version the caller insists on.
        kube::Resource::meta_mut(&mut object).resource_version = wanted;
        registry.strategy.default(context, &mut object);
        registry.check_size(&object, Some(old))?;
        registry.pass_rules(context, Part::Scale, &mut object, old).await?;
        if let Some(admitted) = &self.admitted {
            let after = document::sent(document::scale_of(&registry.value_of(context, &object)?, paths));
            admitted.validate_scale(context, version.name(), &after, &before).await?;
        }
        finish(object, old)
    }

    fn is_admitted(&self) -> bool {
        self.admitted.is_some()
    }

    fn is_limited(&self) -> bool {
        true
    }
}

impl<S: Strategy> Registry<S> {
    /// Returns the scale of a stored object.
    ///
    /// # Errors
    ///
    /// The object has no number of replicas.
    pub(crate) fn scale_of(
        &self,
        context: &RequestContext,
        stored: &Stored<S::Object>,
    ) -> Result<Scale, ApiError> {
        let paths = self.scale_paths(context)?;
        let scale = document::scale_of(&self.value_of(context, stored)?, paths);
        if scale.spec.as_ref().is_none_or(|spec| spec.replicas.is_none()) {
            return Err(document::no_replicas(paths));
        }
        Ok(document::sent(scale))
    }

    /// Changes the scale of an object by the rules for updates of the object, and returns the new scale.
    pub(crate) async fn update_scale(
        &self,
        context: &RequestContext,
        name: &str,
        structure: &Arc<KindStructure>,
        change: ScaleChange,
    ) -> Result<Scale, ApiError> {
        let admitted = self.intercept_scale(context, name);
        let update = ScaleUpdate { change, structure: structure.clone(), admitted };
        let written = self.write(context, &context.namespace, name, update).await?;
        let value: Value = self.value_of(context, &written.stored)?;
        Ok(document::sent(document::scale_of(&value, self.scale_paths(context)?)))
    }

    /// Returns the numbers of replicas of an object that are negative. A kind without `scale` has none.
    pub(in crate::registry) fn check_scale(
        &self,
        context: &RequestContext,
        object: &S::Object,
    ) -> Result<Vec<FieldError>, ApiError> {
        match self.strategy.scale(&self.version(context).name().version) {
            Some(paths) => Ok(document::problems(&self.value_of(context, object)?, paths)),
            None => Ok(Vec::new()),
        }
    }

    fn scale_paths(&self, context: &RequestContext) -> Result<ScalePaths, ApiError> {
        self.strategy.scale(&self.version(context).name().version).ok_or_else(method_not_allowed)
    }
}
