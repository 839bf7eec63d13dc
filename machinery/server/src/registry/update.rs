//! Replacing and patching an object or its status.

use async_trait::async_trait;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use machinery_validation::{validate_metadata, validate_metadata_update};

use super::{
    Registry,
    admit::Admitted,
    metadata,
    write::{Decision, Next, Written},
};
use crate::{
    ApiError, RequestContext, Strategy,
    resource::{Applied, Body},
    stored::Stored,
};

/// Part of an object that is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// The object itself.
    Main,
    /// Its status, by the subresource `status`.
    Status,
    /// Its number of replicas, by the subresource `scale`.
    Scale,
}

/// Makes the new object from the old one; called again when the old one changed.
pub(crate) type Make<O> = Box<dyn FnMut(&Stored<O>) -> Result<O, ApiError> + Send>;

/// Change that a caller asks for.
pub(super) enum Change<O> {
    /// The object becomes what this function makes of it.
    Make(Make<O>),
    /// A configuration is applied to it.
    Apply(Applied),
}

/// Update by a caller: the hooks of the strategy apply.
struct Update<O> {
    part: Part,
    change: Change<O>,
    admitted: Option<Admitted>,
}

#[async_trait]
impl<S: Strategy> Decision<S> for Update<S::Object> {
    async fn decide(
        &mut self,
        registry: &Registry<S>,
        context: &RequestContext,
        old: &Stored<S::Object>,
    ) -> Result<Next<S::Object>, ApiError> {
        let strategy = &registry.strategy;
        let mut object = match &mut self.change {
            Change::Make(make) => make(old)?,
            Change::Apply(applied) => {
                let name = kube::Resource::meta(&**old).name.as_deref().unwrap_or_default();
                registry.merge(context, self.part, name, Some(old), applied).await?
            }
        };
        let old_meta = kube::Resource::meta(&**old);
        metadata::restore(kube::Resource::meta_mut(&mut object), old_meta, context, &registry.resource)?;
        strategy.default(context, &mut object);
        registry.check_size(&object, Some(old))?;
        if matches!(self.change, Change::Make(_)) {
            registry.track(context, self.part, Some(old), &mut object)?;
        }
        if let Some(admitted) = &self.admitted {
            registry.mutate_admitted(admitted, context, &mut object, Some(old)).await?;
        }
        registry.pass_rules(context, self.part, &mut object, old).await?;
        if let Some(admitted) = &self.admitted {
            registry.validate_admitted(admitted, context, &object, Some(old)).await?;
        }
        finish(object, old)
    }

    fn is_admitted(&self) -> bool {
        self.admitted.is_some()
    }

    fn is_limited(&self) -> bool {
        self.part != Part::Status
    }
}

/// Change by the server's own code: no hooks.
struct Mutation<F> {
    change: F,
}

#[async_trait]
impl<S, F> Decision<S> for Mutation<F>
where
    S: Strategy,
    F: FnMut(&mut S::Object) -> Result<(), ApiError> + Send,
{
    async fn decide(
        &mut self,
        _: &Registry<S>,
        _: &RequestContext,
        old: &Stored<S::Object>,
    ) -> Result<Next<S::Object>, ApiError> {
        let mut object = S::Object::clone(old);
        (self.change)(&mut object)?;
        finish(object, old)
    }
}

/// Decides on the new version of an object. An unchanged object is kept. A terminating object without
/// finalizers is removed. Any other is written, and its generation incremented when more than metadata and
/// status changed.
pub(super) fn finish<O: crate::Object>(mut object: O, old: &Stored<O>) -> Result<Next<O>, ApiError> {
    let meta = object.meta();
    let removed = meta.deletion_timestamp.is_some() && meta.finalizers.as_ref().is_none_or(Vec::is_empty);
    if object == **old && !removed && !old.is_outdated() {
        return Ok(Next::Keep);
    }
    if metadata::content_differs(&object, old)? {
        let meta = object.meta_mut();
        meta.generation = Some(meta.generation.unwrap_or_default() + 1);
    }
    Ok(if removed { Next::Remove(object) } else { Next::Write(object) })
}

impl<S: Strategy> Registry<S> {
    /// Lets the rules of the strategy change or refuse an update of a part.
    pub(super) async fn pass_rules(
        &self,
        context: &RequestContext,
        part: Part,
        object: &mut S::Object,
        old: &Stored<S::Object>,
    ) -> Result<(), ApiError> {
        let (strategy, old_meta) = (&self.strategy, kube::Resource::meta(&**old));
        match part {
            Part::Main | Part::Scale => strategy.prepare_for_update(context, object, old)?,
            Part::Status => {
                // As upstream, the status subresource does not change the metadata. The preconditions were
                // checked before.
                let meta = kube::Resource::meta_mut(object);
                let managed_fields = meta.managed_fields.take();
                *meta = ObjectMeta { managed_fields, ..old_meta.clone() };
                strategy.prepare_for_status_update(context, object, old)?;
            }
        }
        let mut errors = validate_metadata(kube::Resource::meta(object), strategy.info().namespaced);
        errors.extend(validate_metadata_update(kube::Resource::meta(object), old_meta));
        errors.extend(match part {
            Part::Main | Part::Scale => strategy.validate_update(context, object, old),
            Part::Status => strategy.validate_status_update(context, object, old),
        });
        errors.extend(self.check_scale(context, object)?);
        if !errors.is_empty() {
            return Err(ApiError::Invalid(errors));
        }
        metadata::warn_of_finalizers(context, kube::Resource::meta(object), Some(old_meta));
        if part != Part::Status {
            strategy.admit_update(context, object, old).await?;
        }
        kube::Resource::meta_mut(object).resource_version.clone_from(&old_meta.resource_version);
        metadata::keep_unchanged_ownership(object, old);
        Ok(())
    }

    /// Updates an object or its status to what `make` returns for the present one.
    pub(crate) async fn update_stored(
        &self,
        context: &RequestContext,
        name: &str,
        part: Part,
        make: Make<S::Object>,
    ) -> Result<Written<S::Object>, ApiError> {
        self.update_by(context, name, part, Change::Make(make)).await
    }

    /// Returns the first problem of an update with an invalid object. As upstream, name, existence, UID and
    /// version of the object come before its content.
    pub(crate) async fn first_problem(
        &self,
        context: &RequestContext,
        name: &str,
        body: &Body,
        invalid: ApiError,
    ) -> ApiError {
        let given = body.metadata();
        match given.name.as_deref() {
            None | Some("") => return metadata::no_name(name),
            Some(given) if given != name => return metadata::another_name(given, name),
            Some(_) => {}
        }
        let stored = match self.get_stored(&context.namespace, name).await {
            Err(error) => return error,
            Ok(stored) => stored,
        };
        let old = kube::Resource::meta(&**stored);
        match (metadata::update_problems(&given, old, context, &self.resource), invalid) {
            (Ok(problems), ApiError::Invalid(errors)) => {
                ApiError::Invalid(problems.into_iter().chain(errors).collect())
            }
            (Err(error), _) | (Ok(_), error) => error,
        }
    }

    /// Applies a configuration to an object or its status.
    pub(crate) async fn apply_stored(
        &self,
        context: &RequestContext,
        name: &str,
        part: Part,
        applied: Applied,
    ) -> Result<Written<S::Object>, ApiError> {
        self.update_by(context, name, part, Change::Apply(applied)).await
    }

    async fn update_by(
        &self,
        context: &RequestContext,
        name: &str,
        part: Part,
        change: Change<S::Object>,
    ) -> Result<Written<S::Object>, ApiError> {
        let admitted = self.intercept(context, name);
        self.write(context, &context.namespace, name, Update { part, change, admitted }).await
    }

    pub(super) async fn mutate_stored<F>(
        &self,
        context: &RequestContext,
        namespace: &str,
        name: &str,
        change: F,
    ) -> Result<Written<S::Object>, ApiError>
    where
        F: FnMut(&mut S::Object) -> Result<(), ApiError> + Send,
    {
        self.write(context, namespace, name, Mutation { change }).await
    }
}
