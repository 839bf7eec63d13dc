//! Deletion. Source of the rules: `k8s.io/apiserver/pkg/registry/generic/registry/store.go`.

use async_trait::async_trait;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use machinery_storage::{Operation, Outcome, Precondition, Transaction};

use super::{
    Registry,
    admit::Admitted,
    metadata,
    write::{Decision, Next, Written},
};
use crate::{ApiError, DeleteContext, RequestContext, Strategy, resource_name::ResourceName, stored::Stored};

/// The garbage collector's finalizers.
const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";

/// Fate of the objects that an object owns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Propagation {
    /// They lose the owner.
    Orphan,
    /// They are deleted afterwards.
    Background,
    /// They are deleted before.
    Foreground,
}

/// Options of a deletion: the parts of `metav1.DeleteOptions` that apply to kinds without graceful deletion,
/// and those that only webhooks see.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeleteOptions {
    /// UID that the object must have.
    pub uid: Option<String>,
    /// resourceVersion that the object must have.
    pub resource_version: Option<String>,
    /// Fate of its dependents. By default the finalizers decide, else [`Propagation::Background`].
    pub propagation: Option<Propagation>,
    /// The older form of `propagation`, when it was sent in that form. Only webhooks see it.
    pub orphan_dependents: Option<bool>,
    /// Time that the object is given to end. Only webhooks see it.
    pub grace_period_seconds: Option<i64>,
}

impl DeleteOptions {
    fn check(&self, resource: &ResourceName, found: &ObjectMeta) -> Result<(), ApiError> {
        let name = found.name.as_deref().unwrap_or_default();
        if let Some(wanted) = &self.uid
            && found.uid.as_ref() != Some(wanted)
        {
            let found = found.uid.as_deref().unwrap_or_default();
            let why = format!(
                "the UID in the precondition ({wanted}) does not match the UID in record ({found}). The object might have \
                 been deleted and then recreated"
            );
            return Err(resource.failed_precondition(name, &why));
        }
        if let Some(wanted) = &self.resource_version
            && found.resource_version.as_ref() != Some(wanted)
        {
            let found = found.resource_version.as_deref().unwrap_or_default();
            let why = format!(
                "the ResourceVersion in the precondition ({wanted}) does not match the ResourceVersion in record \
                 ({found}). The object might have been modified"
            );
            return Err(resource.failed_precondition(name, &why));
        }
        Ok(())
    }

    /// Returns the finalizers of an object that is deleted with these options.
    fn finalizers(&self, present: Option<&Vec<String>>) -> Option<Vec<String>> {
        let present = present.map(Vec::as_slice).unwrap_or_default();
        let propagation = self.propagation.or_else(|| {
            present.iter().find_map(|finalizer| match finalizer.as_str() {
                ORPHAN => Some(Propagation::Orphan),
                FOREGROUND => Some(Propagation::Foreground),
                _ => None,
            })
        });
        let own =
            present.iter().filter(|finalizer| !matches!(finalizer.as_str(), ORPHAN | FOREGROUND)).cloned();
        let collectors = match propagation {
            Some(Propagation::Orphan) => Some(ORPHAN.to_owned()),
            Some(Propagation::Foreground) => Some(FOREGROUND.to_owned()),
            Some(Propagation::Background) | None => None,
        };
        let finalizers: Vec<String> = own.chain(collectors).collect();
        (!finalizers.is_empty()).then_some(finalizers)
    }
}

struct Deletion {
    options: DeleteOptions,
    delete: DeleteContext,
    admitted: Option<Admitted>,
}

#[async_trait]
impl<S: Strategy> Decision<S> for Deletion {
    async fn decide(
        &mut self,
        registry: &Registry<S>,
        context: &RequestContext,
        old: &Stored<S::Object>,
    ) -> Result<Next<S::Object>, ApiError> {
        self.options.check(&registry.resource, kube::Resource::meta(&**old))?;
        let mut object = S::Object::clone(old);
        registry.strategy.prepare_for_delete(context, self.delete, &mut object).await?;
        if let Some(admitted) = &self.admitted {
            registry.admit_deletion(admitted, context, &self.options, old).await?;
        }
        let meta = kube::Resource::meta_mut(&mut object);
        meta.finalizers = self.options.finalizers(meta.finalizers.as_ref());
        if meta.finalizers.is_none() {
            return Ok(Next::Remove(object));
        }
        if meta.deletion_timestamp.is_none() {
            meta.deletion_timestamp = Some(metadata::time(context.now));
            meta.deletion_grace_period_seconds = Some(0);
            // As upstream: controllers that watch the generation notice the deletion.
            meta.generation = meta.generation.map(|generation| generation + 1);
        }
        Ok(if object == **old { Next::Keep } else { Next::Write(object) })
    }

    fn is_admitted(&self) -> bool {
        self.admitted.is_some()
    }
}

impl<S: Strategy> Registry<S> {
    /// Deletes an object of `context.namespace`: removes it, or marks it as being deleted when finalizers are
    /// left.
    pub(crate) async fn delete_stored(
        &self,
        context: &RequestContext,
        name: &str,
        options: DeleteOptions,
        delete: DeleteContext,
    ) -> Result<Written<S::Object>, ApiError> {
        let admitted = self.intercept(context, name);
        self.write(context, &context.namespace, name, Deletion { options, delete, admitted }).await
    }

    /// Removes an object that cannot be decoded, without the strategy's rules and whatever its finalizers
    /// are. Its claims end with it. Source of the rules: `corrupt_obj_deleter.go` in
    /// `k8s.io/apiserver/pkg/registry/generic/registry`.
    ///
    /// # Errors
    ///
    /// `NotFound`, and `Conflict` when it can be decoded.
    pub(crate) async fn delete_undecodable(
        &self,
        context: &RequestContext,
        name: &str,
    ) -> Result<(), ApiError> {
        let key = self.keys.object(&context.namespace, name);
        let found = self.store.get(&key).await?.found.ok_or_else(|| self.resource.not_found(name))?;
        if self.versions.read(&found).is_ok() {
            let why = "the object can be decoded: delete it without \
                       ignoreStoreReadErrorWithClusterBreakingPotential";
            return Err(self.resource.conflict(name, why));
        }
        if context.dry_run {
            return Ok(());
        }
        let user = &context.user.name;
        tracing::warn!(user, key, "deleting a stored object that cannot be decoded");
        let preconditions = vec![Precondition::Unchanged(key.clone(), found.mod_revision)];
        let transaction = Transaction { preconditions, operations: vec![Operation::Delete(key)] };
        match self.store.commit(transaction).await? {
            Outcome::Committed(_) => Ok(()),
            Outcome::Failed(_) => Err(self.resource.modified(name)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_garbage_collectors_finalizers_follow_the_propagation() {
        use Propagation::{Background, Foreground, Orphan};
        let cases: [(Option<Propagation>, &[&str], &[&str]); 8] = [
            (None, &[], &[]),
            (None, &["a"], &["a"]),
            (None, &["a", "orphan"], &["a", "orphan"]),
            (None, &["foregroundDeletion"], &["foregroundDeletion"]),
            (Some(Background), &["orphan", "a"], &["a"]),
            (Some(Orphan), &["foregroundDeletion"], &["orphan"]),
            (Some(Foreground), &["a"], &["a", "foregroundDeletion"]),
            (Some(Foreground), &["orphan"], &["foregroundDeletion"]),
        ];
        for (propagation, before, after) in cases {
            let options = DeleteOptions { propagation, ..DeleteOptions::default() };
            let before: Vec<String> = before.iter().map(ToString::to_string).collect();
            assert_eq!(
                options.finalizers(Some(&before)).unwrap_or_default(),
                after,
                "{propagation:?} {before:?}"
            );
        }
    }
}
