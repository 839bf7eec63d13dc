//! Creation.

use std::sync::Arc;

use machinery_storage::{KeyValue, Operation, Outcome, Precondition, Transaction};
use machinery_validation::validate_metadata;
use serde_json::Value;

use super::{
    ATTEMPTS, Part, Registry, backoff,
    claims::{ClaimPlan, Stale},
    metadata,
};
use crate::{ApiError, Reason, RequestContext, Strategy, cache::Usage, resource::Applied, stored::Stored};

/// Number of names that are tried for one `generateName`.
const NAMES: usize = 8;

/// State of the record of ownership in an object to be created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tracking {
    /// The object is as the caller sent it.
    Due,
    /// An apply has made the record.
    Done,
}

impl<S: Strategy> Registry<S> {
    /// Creates an object and returns it as stored.
    pub(crate) async fn create_stored(
        &self,
        context: &RequestContext,
        object: S::Object,
    ) -> Result<Arc<Stored<S::Object>>, ApiError> {
        let meta = kube::Resource::meta(&object);
        let named = meta.name.as_deref().is_some_and(|name| !name.is_empty());
        let prefix = meta.generate_name.clone().filter(|prefix| !named && !prefix.is_empty());
        let Some(prefix) = prefix else {
            return self.create_named(context, object, Tracking::Due).await;
        };
        for _ in 0..NAMES {
            let mut candidate = object.clone();
            kube::Resource::meta_mut(&mut candidate).name = Some(metadata::generated_name(&prefix));
            match self.create_named(context, candidate, Tracking::Due).await {
                Err(error) if error.reason() == Reason::AlreadyExists && !has_causes(&error) => {}
                result => return result,
            }
        }
        let message =
            format!("{} with names that start with {prefix:?} exist already; try again", self.resource);
        Err(ApiError::status(Reason::AlreadyExists, message).retry_after(1))
    }

    /// Creates the object of that name from an applied configuration.
    pub(crate) async fn create_applied(
        &self,
        context: &RequestContext,
        name: &str,
        applied: &Applied,
    ) -> Result<Arc<Stored<S::Object>>, ApiError> {
        let mut object = self.merge(context, Part::Main, name, None, applied).await?;
        // As upstream, the version of an object that is gone does not matter.
        kube::Resource::meta_mut(&mut object).resource_version = None;
        self.create_named(context, object, Tracking::Done).await
    }

    /// Refuses a configuration of another name than the path, and one for an object that exists.
    pub(super) fn check_new_names(&self, name: &str, configuration: &Value) -> Result<(), ApiError> {
        let text = |pointer: &str| configuration.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        match text("/metadata/name") {
            "" => return Err(metadata::no_name(name)),
            given if given != name => return Err(metadata::another_name(given, name)),
            _ => {}
        }
        let uid = text("/metadata/uid");
        if uid.is_empty() {
            return Ok(());
        }
        let why = format!(
            "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
        );
        Err(self.resource.conflict(name, &why))
    }

    async fn create_named(
        &self,
        context: &RequestContext,
        mut object: S::Object,
        tracking: Tracking,
    ) -> Result<Arc<Stored<S::Object>>, ApiError> {
        let namespaced = self.strategy.info().namespaced;
        let name = kube::Resource::meta(&object).name.clone().unwrap_or_default();
        let version = kube::Resource::meta(&object).resource_version.clone();
        let admitted = self.intercept(context, &name);
        metadata::fill_in(kube::Resource::meta_mut(&mut object), context, namespaced)?;
        self.strategy.default(context, &mut object);
        self.check_size(&object, None)?;
        if tracking == Tracking::Due {
            self.track(context, Part::Main, None, &mut object)?;
        }
        if let Some(admitted) = &admitted {
            self.mutate_admitted(admitted, context, &mut object, None).await?;
        }
        self.strategy.prepare_for_create(context, &mut object);
        let mut errors = validate_metadata(kube::Resource::meta(&object), namespaced);
        errors.extend(self.strategy.validate(context, &object));
        errors.extend(self.check_scale(context, &object)?);
        if !errors.is_empty() {
            return Err(ApiError::Invalid(errors));
        }
        metadata::warn_of_finalizers(context, kube::Resource::meta(&object), None);
        self.strategy.admit_create(context, &mut object).await?;
        if let Some(admitted) = &admitted {
            self.validate_admitted(admitted, context, &object, None).await?;
        }
        // As upstream, this comes after everything else.
        metadata::check_unversioned(version.as_deref())?;
        self.insert(context, object).await
    }

    /// Writes a new object and its claims in one transaction.
    async fn insert(
        &self,
        context: &RequestContext,
        mut object: S::Object,
    ) -> Result<Arc<Stored<S::Object>>, ApiError> {
        let key = self.key_of(&object);
        let name = kube::Resource::meta(&object).name.clone().unwrap_or_default();
        let encoded = self.versions.encode(&mut object)?;
        let reservation = self.reserve(context, &object, None, Usage::object(encoded.len())).await?;
        let mut stale = Stale::new();
        for attempt in 0..ATTEMPTS {
            let claims = self.strategy.claims(&object);
            let plan =
                ClaimPlan::new(self, kube::Resource::meta(&object), Vec::new(), claims, &stale).await?;
            if context.dry_run {
                if let Some(present) = self.store.get(&key).await?.found {
                    return Err(self.exists(&name, &present));
                }
                plan.judge_unwritten(self, &object).await?;
                return Ok(Arc::new(Stored::unsaved(object)));
            }
            let mut preconditions = vec![Precondition::Absent(key.clone())];
            preconditions.extend(plan.preconditions());
            let mut operations = vec![Operation::Put(key.clone(), encoded.clone())];
            operations.extend(plan.operations()?);
            let states = match self.store.commit(Transaction { preconditions, operations }).await? {
                Outcome::Committed(revision) => {
                    if let Some(reservation) = reservation {
                        reservation.commit(revision);
                    }
                    let stored = Arc::new(Stored::written(object, revision, encoded.len()));
                    self.remember(&stored);
                    return Ok(stored);
                }
                Outcome::Failed(states) => states,
            };
            let claimed = match states.split_first() {
                Some((None, claimed)) => claimed,
                Some((Some(present), _)) => return Err(self.exists(&name, present)),
                None => return Err(self.resource.already_exists(&name)),
            };
            plan.judge(self, &object, claimed, &mut stale).await?;
            backoff(attempt).await;
        }
        Err(self.resource.modified(&name))
    }
}

impl<S: Strategy> Registry<S> {
    /// Returns the error of a name that is taken. As upstream, it says when the other object is terminating.
    fn exists(&self, name: &str, present: &KeyValue) -> ApiError {
        let terminating = self
            .versions
            .read(present)
            .is_ok_and(|present| kube::Resource::meta(&*present).deletion_timestamp.is_some());
        if terminating {
            let message = format!("object is being deleted: {} {name:?} already exists", self.resource);
            return ApiError::status(Reason::AlreadyExists, message);
        }
        self.resource.already_exists(name)
    }
}

/// A conflict with causes is a claim's: another name would not help.
fn has_causes(error: &ApiError) -> bool {
    matches!(error, ApiError::Status { causes, .. } if !causes.is_empty())
}
