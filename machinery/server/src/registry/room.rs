//! Room for a write for which a limit of its kind has none: objects whose work is done give way.
//!
//! # Guarantees
//!
//! Of the flows in a namespace the one with the most removable objects gives way first, and of its objects
//! the one that is of use for the shortest time. Objects that must not be removed yet, and those that
//! finalizers hold, count, too: while the flow with the most has only such, no other gives way in its place,
//! except to a caller that may use the reserve and has used it up. Those that finalizers hold count only
//! against writes to their own namespace, so they keep no other namespace from room. A caller that makes many
//! objects removes its own history, and never that of a flow that has less. Nothing is removed where removals
//! cannot make enough room.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use futures::{StreamExt, TryStreamExt, future::BoxFuture, stream};

use super::{
    Registry,
    quota::{Exceeded, Limit, Reservation},
    write::{Decision, Next},
};
use crate::{ApiError, Reason, Removable, RequestContext, Strategy, cache::Usage, stored::Stored};

/// Maximum number of removals in progress for one write.
const CONCURRENT_REMOVALS: usize = 16;

/// Number of times that a write makes room: once for each limit of the kind, and once more for room that
/// another replica took.
const ROOM_ATTEMPTS: u32 = 4;

/// Maximum time that a write waits for another which makes room in the same namespace. The gateway's
/// question has to be answered within 800 ms.
pub(super) const MAX_WAIT: Duration = Duration::from_millis(500);

/// Locks of the writes that make room, one for each namespace, so that a write does not remove further
/// objects for the room of another.
#[derive(Debug, Default)]
pub(super) struct Rooms(Mutex<HashMap<String, Arc<tokio::sync::Mutex<()>>>>);

impl Rooms {
    /// Returns the lock of a namespace, or the one of all for the empty name. `None` when another write still
    /// holds it after `patience`. Locks that no write holds or waits for are forgotten.
    async fn lock(&self, namespace: &str, patience: Duration) -> Option<tokio::sync::OwnedMutexGuard<()>> {
        let lock = {
            let mut locks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            locks.retain(|_, lock| Arc::strong_count(lock) > 1);
            locks.entry(namespace.to_owned()).or_default().clone()
        };
        tokio::time::timeout(patience, lock.lock_owned()).await.ok()
    }
}

/// Time from which an object may be removed that finalizers hold.
const HELD: DateTime<Utc> = DateTime::<Utc>::MAX_UTC;

/// Object that may be removed.
#[derive(Clone, Copy, Debug)]
struct Candidate<'a> {
    key: &'a Arc<str>,
    namespace: &'a str,
    flow: &'a str,
    /// True when it may be removed now.
    is_due: bool,
    /// True when it may be removed only after others have released it.
    is_held: bool,
    of_use_until: DateTime<Utc>,
    /// Number or size, as the limit counts.
    amount: usize,
}

/// Removable objects of one flow in a namespace.
#[derive(Debug, Default)]
struct FlowObjects<'a> {
    amount: usize,
    /// Objects that may be removed now.
    due: Vec<Candidate<'a>>,
}

/// Returns when an object gives way. One with finalizers stays, because its removal would take time, and
/// counts in its flow.
pub(super) fn removable<S: Strategy>(strategy: &S, object: &S::Object) -> Option<Removable> {
    let meta = kube::Resource::meta(object);
    let is_held =
        meta.deletion_timestamp.is_some() || meta.finalizers.as_ref().is_some_and(|all| !all.is_empty());
    let removable = strategy.removable(object)?;
    Some(if is_held { Removable { from: HELD, ..removable } } else { removable })
}

/// Returns the keys of the objects that give way to a write in the namespace `own`. `None` when those that
/// may be removed now are less than `needed`, or when the flow with the most has none of them and the write
/// may not pass it by (`passes`).
fn choose<'a>(
    candidates: impl Iterator<Item = Candidate<'a>>,
    own: &str,
    needed: usize,
    passes: bool,
) -> Option<Vec<Arc<str>>> {
    let mut flows: BTreeMap<(&str, &str), FlowObjects<'a>> = BTreeMap::new();
    for candidate in candidates.filter(|candidate| !candidate.is_held || candidate.namespace == own) {
        let flow = flows.entry((candidate.namespace, candidate.flow)).or_default();
        flow.amount += candidate.amount;
        flow.due.extend(candidate.is_due.then_some(candidate));
    }
    for flow in flows.values_mut() {
        flow.due.sort_by(|a, b| (b.of_use_until, b.key).cmp(&(a.of_use_until, a.key)));
    }
    let (mut chosen, mut freed) = (Vec::new(), 0);
    while freed < needed {
        let giving = flows.values_mut().filter(|flow| !passes || !flow.due.is_empty());
        let largest = giving.max_by_key(|flow| flow.amount)?;
        let first = largest.due.pop()?;
        largest.amount -= first.amount;
        freed += first.amount;
        chosen.push(first.key.clone());
    }
    Some(chosen)
}

/// Removal of an object that still may be removed.
struct Removal;

#[async_trait]
impl<S: Strategy> Decision<S> for Removal {
    async fn decide(
        &mut self,
        registry: &Registry<S>,
        context: &RequestContext,
        old: &Stored<S::Object>,
    ) -> Result<Next<S::Object>, ApiError> {
        let removable = removable(&*registry.strategy, old);
        let is_due = removable.is_some_and(|removable| removable.from <= context.now);
        Ok(if is_due { Next::Remove(S::Object::clone(old)) } else { Next::Keep })
    }
}

impl<S: Strategy> Registry<S> {
    /// Returns the keys of the objects that give way to a write which exceeds a limit. `None` when they make
    /// too little room. The share of one user is the user's own to clear.
    fn giving_way(&self, context: &RequestContext, exceeded: &Exceeded) -> Option<Vec<Arc<str>>> {
        let amount: fn(Usage) -> usize = match exceeded.limit {
            Limit::NamespaceObjects => |usage| usage.objects,
            Limit::NamespaceBytes | Limit::TotalBytes => |usage| usage.bytes,
            Limit::UserObjects | Limit::UserBytes => return None,
        };
        let namespace = (exceeded.limit != Limit::TotalBytes).then_some(context.namespace.as_str());
        let view = self.cache.usage();
        let candidates = view.removable(namespace).map(|(entry, removable)| Candidate {
            key: entry.key(),
            namespace: entry.names().0,
            flow: &removable.flow,
            is_due: removable.from <= context.now,
            is_held: removable.from == HELD,
            of_use_until: removable.of_use_until,
            amount: amount(Usage::object(entry.size())),
        });
        choose(candidates, &context.namespace, exceeded.excess(), exceeded.reserve)
    }

    /// Removes objects that give way to a write, and repeats `reserve` until it has room. Returns a
    /// reservation of `None` for a dry run to which objects would give way. `None` when another write makes
    /// room in the namespace for longer than `patience`.
    ///
    /// # Errors
    ///
    /// The store does not answer. What was removed before stays so.
    pub(super) async fn make_room(
        &self,
        context: &RequestContext,
        exceeded: &Exceeded,
        patience: Duration,
        reserve: impl Fn() -> Result<Reservation, Exceeded>,
    ) -> Result<Option<Result<Option<Reservation>, Exceeded>>, ApiError> {
        let namespace = if exceeded.limit == Limit::TotalBytes { "" } else { context.namespace.as_str() };
        let Some(_making_room) = self.quota.rooms().lock(namespace, patience).await else { return Ok(None) };
        let mut result = reserve();
        for _ in 0..ROOM_ATTEMPTS {
            let Err(exceeded) = &result else { break };
            let Some(keys) = self.giving_way(context, exceeded) else { break };
            if context.dry_run {
                return Ok(Some(Ok(None)));
            }
            self.remove_all(context, keys).await?;
            result = reserve();
        }
        Ok(Some(result.map(Some)))
    }

    /// Removes objects that give way, and waits until the watch cache shows that they are gone.
    ///
    /// # Errors
    ///
    /// The store does not answer. What was removed before stays so.
    async fn remove_all(&self, context: &RequestContext, keys: Vec<Arc<str>>) -> Result<(), ApiError> {
        tracing::info!(
            namespace = context.namespace,
            user = context.user.name,
            resource = %self.resource,
            first = keys.first().map(|key| &**key),
            number = keys.len(),
            "removing objects whose work is done, to make room for a write"
        );
        let removals = stream::iter(keys).map(|key| self.remove(context, key));
        let removed: Vec<bool> = removals.buffer_unordered(CONCURRENT_REMOVALS).try_collect().await?;
        self.quota.count_removals(removed.into_iter().filter(|removed| *removed).count());
        self.catch_up().await
    }

    /// Removes one object. Returns false when it is gone already, or has to stay.
    ///
    /// The future is boxed, because a removal is a write, and a write can need room.
    fn remove<'a>(
        &'a self,
        context: &'a RequestContext,
        key: Arc<str>,
    ) -> BoxFuture<'a, Result<bool, ApiError>> {
        Box::pin(async move {
            let (namespace, name) = key.split_once('/').unwrap_or(("", &key));
            match self.write(context, namespace, name, Removal).await {
                Ok(written) => Ok(written.removed),
                Err(error) if error.reason() == Reason::NotFound => Ok(false),
                Err(error) => Err(error),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the keys that give way, of objects given as `NAMESPACE/FLOW/NUMBER` with that number as the
    /// time until which they are of use, to a write in the namespace `n`. Those from 100 on must not be
    /// removed yet, and finalizers hold those from 200 on.
    fn chosen(objects: &[&str], size: usize, needed: usize) -> Option<Vec<String>> {
        chosen_by(objects, size, needed, false)
    }

    fn chosen_by(objects: &[&str], size: usize, needed: usize, passes: bool) -> Option<Vec<String>> {
        let keys: Vec<Arc<str>> = objects.iter().map(|object| Arc::from(*object)).collect();
        let candidates = keys.iter().map(|key| {
            let mut parts = key.split('/');
            let mut part = || parts.next().expect("three parts");
            let (namespace, flow, number) = (part(), part(), part().parse().expect("a number"));
            let of_use_until = DateTime::from_timestamp(number, 0).expect("a time");
            let (is_due, is_held) = (number < 100, number >= 200);
            Candidate { key, namespace, flow, is_due, is_held, of_use_until, amount: size }
        });
        choose(candidates, "n", needed, passes).map(|keys| keys.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn the_flow_with_the_most_gives_way_first_and_its_least_useful_object_first() {
        let objects = ["n/a/4", "n/b/1", "n/a/9", "n/b/2", "n/a/5", "m/a/0"];
        // Three of a, two of b, then two of each; of equal flows the last by name.
        let order = ["n/a/4", "n/b/1", "n/a/5", "n/b/2", "n/a/9", "m/a/0"];
        for needed in 0..=order.len() {
            let keys = chosen(&objects, 1, needed).expect("enough");
            assert_eq!(keys, order.get(..needed).expect("so many"));
        }
        assert_eq!(chosen(&objects, 10, 11).expect("enough").len(), 2, "sizes add up");
    }

    #[test]
    fn fresh_objects_count_and_no_other_flow_gives_way_for_them() {
        let flood = ["n/a/100", "n/a/101", "n/a/3", "n/b/1"];
        assert_eq!(chosen(&flood, 1, 1), Some(vec!["n/a/3".to_owned()]));
        assert_eq!(chosen(&flood, 1, 2), None, "a has the most, and none that may be removed");
    }

    #[test]
    fn a_flow_with_only_held_objects_keeps_neither_those_who_act_for_all_nor_other_namespaces_from_room() {
        let held = ["n/a/200", "n/a/201", "n/b/1"];
        assert_eq!(chosen(&held, 1, 1), None);
        assert_eq!(chosen_by(&held, 1, 1, true), Some(vec!["n/b/1".to_owned()]));
        assert_eq!(chosen_by(&held, 1, 2, true), None, "b alone is too little");
        let elsewhere = ["m/a/200", "m/a/201", "n/b/1"];
        assert_eq!(chosen(&elsewhere, 1, 1), Some(vec!["n/b/1".to_owned()]));
    }

    #[tokio::test]
    async fn a_write_that_makes_room_holds_up_only_its_own_namespace() {
        let rooms = Rooms::default();
        let held = rooms.lock("shop", Duration::ZERO).await;
        assert!(held.is_some());
        assert!(rooms.lock("shop", Duration::ZERO).await.is_none(), "another write makes room there");
        assert!(rooms.lock("bank", Duration::ZERO).await.is_some());
        drop(held);
        assert!(rooms.lock("shop", Duration::ZERO).await.is_some());
        let locks = rooms.0.lock().expect("no panic").len();
        assert_eq!(locks, 1, "locks that nobody holds are forgotten");
    }

    #[test]
    fn nothing_gives_way_where_all_together_would_be_too_little() {
        assert_eq!(chosen(&["n/a/1", "n/a/2"], 1, 3), None);
        assert_eq!(chosen(&[], 1, 1), None);
    }
}
