//! Guarded writes: read, decide, write if the object is unchanged, else retry.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use machinery_storage::{KeyValue, Operation, Outcome, Precondition, Transaction};

use super::{
    ATTEMPTS, Keys, Registry, backoff,
    claims::{ClaimPlan, Stale},
};
use crate::{ApiError, RequestContext, Strategy, cache::Usage, stored::Stored};

/// Decision on an object.
pub(super) enum Next<O> {
    /// Keeps it as it is.
    Keep,
    /// Replaces it.
    Write(O),
    /// Removes it, in this last state.
    Remove(O),
}

/// Decision on an object. It is made again after a conflict.
#[async_trait]
pub(super) trait Decision<S: Strategy>: Send {
    /// Decides on the object.
    async fn decide(
        &mut self,
        registry: &Registry<S>,
        context: &RequestContext,
        old: &Stored<S::Object>,
    ) -> Result<Next<S::Object>, ApiError>;

    /// Returns true when the limits of the kind apply to the growth of the object.
    fn is_limited(&self) -> bool {
        false
    }

    /// Returns true when plugins of admission take part. They are asked once, on the stored object.
    fn is_admitted(&self) -> bool {
        false
    }
}

/// Write to be tried.
struct Proposal<O> {
    object: O,
    removed: bool,
    /// True when the limits of the kind apply to the growth of the object.
    limited: bool,
}

/// Outcome of a write.
#[derive(Debug)]
pub(crate) struct Written<O> {
    /// Object after the write, or its last state.
    pub(crate) stored: Arc<Stored<O>>,
    /// True when the object is gone.
    pub(crate) removed: bool,
}

impl<S: Strategy> Registry<S> {
    /// Carries out a decision on an object in one transaction, together with the changes of its claims.
    ///
    /// The cached copy is tried first: it nearly always is the newest, which the transaction then proves, and
    /// saves a read. A decision to fail or to keep the object is only made on the stored copy. So is one in
    /// which plugins of admission take part.
    ///
    /// # Errors
    ///
    /// `NotFound`, the errors of the decision, and `Conflict` when other writes come first too often.
    pub(super) async fn write(
        &self,
        context: &RequestContext,
        namespace: &str,
        name: &str,
        mut decision: impl Decision<S>,
    ) -> Result<Written<S::Object>, ApiError> {
        let key = self.keys.object(namespace, name);
        let on_stored = context.dry_run || decision.is_admitted();
        let cached = self.cache.get(&Keys::relative(namespace, name)).filter(|_| !on_stored);
        let mut fresh = cached.is_none();
        let mut old = match cached {
            Some(cached) => cached.object()?,
            None => self.read(&key, name).await?,
        };
        let mut stale = Stale::new();
        for attempt in 0..ATTEMPTS {
            let decided = decision.decide(self, context, &old).await;
            if !fresh && !matches!(decided, Ok(Next::Write(_) | Next::Remove(_))) {
                old = self.read(&key, name).await?;
                fresh = true;
                continue;
            }
            let (object, removed) = match decided? {
                Next::Keep => {
                    return Ok(Written { stored: old, removed: false });
                }
                Next::Write(object) => (object, false),
                Next::Remove(object) => (object, true),
            };
            let proposal = Proposal { object, removed, limited: decision.is_limited() };
            match self.try_write(context, &key, &old, proposal, &mut stale).await? {
                Ok(stored) => {
                    let stored = Arc::new(stored);
                    if !removed && !context.dry_run {
                        self.remember(&stored);
                    }
                    return Ok(Written { stored, removed });
                }
                Err(None) => return Err(self.resource.not_found(name)),
                Err(Some(present)) => {
                    old = Arc::new(self.versions.read(&present)?);
                    fresh = true;
                }
            }
            backoff(attempt).await;
        }
        Err(self.resource.modified(name))
    }

    /// Makes one attempt. The inner error is the stored object instead of the expected one.
    async fn try_write(
        &self,
        context: &RequestContext,
        key: &str,
        old: &Stored<S::Object>,
        proposal: Proposal<S::Object>,
        stale: &mut Stale,
    ) -> Result<Result<Stored<S::Object>, Option<KeyValue>>, ApiError> {
        let Proposal { mut object, removed, limited } = proposal;
        let encoded = if removed { None } else { Some(self.versions.encode(&mut object)?) };
        let size = encoded.as_ref().map_or(0, Bytes::len);
        let growth = if limited { size.saturating_sub(old.size()) } else { 0 };
        let added = Usage { objects: 0, bytes: growth };
        let reservation = self.reserve(context, &object, Some(old), added).await?;
        let after = if removed { Vec::new() } else { self.strategy.claims(&object) };
        let before = self.strategy.claims(old);
        let plan = ClaimPlan::new(self, kube::Resource::meta(&object), before, after, stale).await?;
        if context.dry_run {
            plan.judge_unwritten(self, &object).await?;
            return Ok(Ok(Stored::unsaved(object)));
        }
        let mut preconditions = vec![Precondition::Unchanged(key.to_owned(), old.revision())];
        preconditions.extend(plan.preconditions());
        let put = match encoded {
            None => Operation::Delete(key.to_owned()),
            Some(encoded) => Operation::Put(key.to_owned(), encoded),
        };
        let mut operations = vec![put];
        operations.extend(plan.operations()?);
        let states = match self.store.commit(Transaction { preconditions, operations }).await? {
            Outcome::Committed(revision) => {
                if let Some(reservation) = reservation {
                    reservation.commit(revision);
                }
                // As upstream, an object that is gone is shown in its last version.
                let revision = if removed { old.revision() } else { revision };
                return Ok(Ok(Stored::written(object, revision, size)));
            }
            Outcome::Failed(states) => states,
        };
        let mut states = states.into_iter();
        let present = states.next().flatten();
        if present.as_ref().is_some_and(|present| present.mod_revision == old.revision()) {
            plan.judge(self, &object, states.as_slice(), stale).await?;
        }
        Ok(Err(present))
    }

    async fn read(&self, key: &str, name: &str) -> Result<Arc<Stored<S::Object>>, ApiError> {
        let found = self.store.get(key).await?.found.ok_or_else(|| self.resource.not_found(name))?;
        Ok(Arc::new(self.versions.read(&found)?))
    }
}
