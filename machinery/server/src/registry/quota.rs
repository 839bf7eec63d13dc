//! Limits on the number and the size of the stored objects of a kind.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use super::{
    Keys, Registry,
    room::{MAX_WAIT, Rooms},
};
use crate::{
    ApiError, Cause, Reason, RequestContext, Stored, Strategy,
    cache::{Cache, Usage},
};

/// Part of the limit on the bytes of all namespaces up to which a namespace is small.
const SMALL_NAMESPACE: usize = 1024;

/// Limits on the stored objects of one kind.
///
/// A quarter of `namespace_objects`, `namespace_bytes` and `total_bytes` is reserved for the callers that the
/// strategy admits to the reserve ([`Strategy::may_use_reserve`]). A tenant that fills its namespace does not
/// exclude them. Half of the reserve of `total_bytes` is open to namespaces whose objects have at most a
/// 1,024th of `total_bytes`, so that a tenant with many namespaces does not exclude the others.
///
/// A kind can have shares ([`Strategy::shared_by`]): one user has at most a quarter of `namespace_objects`
/// and `namespace_bytes`, unless the strategy admits the user to the reserve.
///
/// # What counts
///
/// Every stored object counts with all its bytes, including its status and finished objects. Where a limit
/// leaves no room, objects that the strategy calls removable give way ([`Strategy::removable`]). A limit is
/// checked when a caller creates an object, and when an update by a caller makes one larger. Status updates,
/// deletions and the server's own changes count but are never refused, so that admitted objects can be
/// finished. Each replica counts the objects of its watch cache and its own writes in progress. Writes in
/// progress on another replica can exceed a limit by their number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObjectLimits {
    /// Maximum size in bytes of the metadata of an object, and of its content without metadata and status. A
    /// caller can create no object that is larger, nor make one larger that is. The record of ownership,
    /// `metadata.managedFields`, has the same limit for itself, and 512 KiB at most: an apply that exceeds it
    /// is refused, and any other write leaves the record out.
    pub object_bytes: usize,
    /// Maximum number of objects in one namespace.
    pub namespace_objects: usize,
    /// Maximum size of the objects in one namespace, in bytes.
    pub namespace_bytes: usize,
    /// Maximum size of the objects in all namespaces, in bytes. Every replica holds them in memory.
    pub total_bytes: usize,
}

impl ObjectLimits {
    /// No limits but that of the record of ownership.
    pub const NONE: Self = Self {
        object_bytes: usize::MAX,
        namespace_objects: usize::MAX,
        namespace_bytes: usize::MAX,
        total_bytes: usize::MAX,
    };
}

/// One of the limits on the objects of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Limit {
    NamespaceObjects,
    NamespaceBytes,
    TotalBytes,
    UserObjects,
    UserBytes,
}

impl Limit {
    /// Returns the reason of the cause in a refusal.
    fn reason(self) -> &'static str {
        match self {
            Self::NamespaceObjects => "NamespaceObjectLimit",
            Self::NamespaceBytes => "NamespaceByteLimit",
            Self::TotalBytes => "TotalByteLimit",
            Self::UserObjects => "UserObjectLimit",
            Self::UserBytes => "UserByteLimit",
        }
    }
}

/// The limit that a write would exceed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Exceeded {
    pub(super) limit: Limit,
    unit: String,
    requested: usize,
    used: usize,
    /// Number without the reserve.
    most: usize,
    /// Number that the write may use: with the reserve, if that is open to it.
    allowed: usize,
    /// True when it would exceed the limit with the reserve too.
    pub(super) reserve: bool,
}

impl Exceeded {
    /// Returns the number or size by which the write exceeds what it may use.
    pub(super) fn excess(&self) -> usize {
        self.used.saturating_add(self.requested).saturating_sub(self.allowed)
    }
}

/// A limit, and the use of it.
struct Check {
    limit: Limit,
    unit: String,
    requested: usize,
    used: usize,
    /// Number without the reserve.
    ordinary: usize,
    /// Number with the reserve.
    most: usize,
}

/// Limits of a kind, and the writes that the watch cache does not show yet.
#[derive(Debug)]
pub(super) struct Quota {
    limits: ObjectLimits,
    pending: Arc<Mutex<Pending>>,
    rooms: Rooms,
}

#[derive(Debug, Default)]
struct Pending {
    next: u64,
    refused: u64,
    removed: u64,
    writes: HashMap<u64, Write>,
}

/// A write that the watch cache may not show yet.
#[derive(Debug)]
struct Write {
    namespace: String,
    /// Key relative to the kind's prefix, and the revision that the write is made from; 0 for a creation.
    key: String,
    base: i64,
    usage: Usage,
    /// User in whose share it counts.
    user: Option<String>,
    /// Absent while the write is under way.
    revision: Option<i64>,
}

/// Room for a write under its kind's limits, from before the write until the watch cache shows it.
#[derive(Debug)]
#[must_use]
pub(super) struct Reservation {
    pending: Arc<Mutex<Pending>>,
    number: u64,
    committed: bool,
}

impl Reservation {
    /// The write has this revision: the room is kept until the watch cache shows it.
    pub(super) fn commit(mut self, revision: i64) {
        self.committed = true;
        if let Some(write) = lock(&self.pending).writes.get_mut(&self.number) {
            write.revision = Some(revision);
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if !self.committed {
            lock(&self.pending).writes.remove(&self.number);
        }
    }
}

fn lock(pending: &Mutex<Pending>) -> MutexGuard<'_, Pending> {
    pending.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Quota {
    pub(super) fn new(limits: ObjectLimits) -> Self {
        Self { limits, pending: Arc::default(), rooms: Rooms::default() }
    }

    pub(super) fn limits(&self) -> &ObjectLimits {
        &self.limits
    }

    /// Returns the locks of the writes that make room.
    pub(super) fn rooms(&self) -> &Rooms {
        &self.rooms
    }

    /// Number of writes that were refused.
    pub(super) fn refused(&self) -> u64 {
        lock(&self.pending).refused
    }

    /// Number of objects that gave way to writes.
    pub(super) fn removed(&self) -> u64 {
        lock(&self.pending).removed
    }

    /// Counts objects that gave way.
    pub(super) fn count_removals(&self, number: usize) {
        lock(&self.pending).removed += number as u64;
    }

    fn is_unlimited(&self) -> bool {
        let ObjectLimits { namespace_objects, namespace_bytes, total_bytes, .. } = self.limits;
        [namespace_objects, namespace_bytes, total_bytes].iter().all(|limit| *limit == usize::MAX)
    }

    /// Reserves room for a write that adds `added` to a namespace.
    fn reserve<O: crate::Object>(
        &self,
        cache: &Cache<O>,
        write: Write,
        with_reserve: bool,
    ) -> Result<Reservation, Exceeded> {
        let mut pending = lock(&self.pending);
        let (namespace, added) = (&write.namespace, write.usage);
        let shown = cache.usage();
        pending.writes.retain(|_, write| write.revision.is_none_or(|revision| revision > shown.revision()));
        let (own, total) = shown.of(namespace);
        // The cache may show a write before its outcome is known here.
        let open = |write: &&Write| !shown.shows(&write.key, write.base);
        let sum = |writes: &mut dyn Iterator<Item = &Write>, start: Usage| {
            writes.fold(start, |sum, write| sum.plus(write.usage))
        };
        let own =
            sum(&mut pending.writes.values().filter(|write| write.namespace == *namespace).filter(open), own);
        let total = sum(&mut pending.writes.values().filter(open), total);
        let sharer = write.user.as_deref().filter(|_| !with_reserve);
        let of_sharer = sharer.map(|name| {
            let same = |write: &&Write| write.namespace == *namespace && write.user.as_deref() == Some(name);
            let shown = shown.of_picked(namespace, |head| head.shared_by() == Some(name));
            (name, sum(&mut pending.writes.values().filter(same).filter(open), shown))
        });
        let limits = &self.limits;
        let check = |limit, unit: &str, requested, used, most: usize| Check {
            limit,
            unit: unit.to_owned(),
            requested,
            used,
            ordinary: most - most / 4,
            most,
        };
        let small = own.bytes.saturating_add(added.bytes) <= limits.total_bytes / SMALL_NAMESPACE;
        let kept = if small { 8 } else { 4 };
        let (unit, most) = ("bytes of all namespaces", limits.total_bytes);
        let all = check(Limit::TotalBytes, unit, added.bytes, total.bytes, most);
        let mut checks = vec![
            check(
                Limit::NamespaceObjects,
                "objects of the namespace",
                added.objects,
                own.objects,
                limits.namespace_objects,
            ),
            check(
                Limit::NamespaceBytes,
                "bytes of the namespace",
                added.bytes,
                own.bytes,
                limits.namespace_bytes,
            ),
            Check { ordinary: limits.total_bytes - limits.total_bytes / kept, ..all },
        ];
        if let Some((name, own)) = of_sharer {
            let share = |limit, what: &str, requested, used, most: usize| Check {
                ordinary: most / 4,
                ..check(limit, &format!("{what} of user {name:?}"), requested, used, most)
            };
            let (objects, bytes) = (limits.namespace_objects, limits.namespace_bytes);
            checks.push(share(Limit::UserObjects, "objects", added.objects, own.objects, objects));
            checks.push(share(Limit::UserBytes, "bytes", added.bytes, own.bytes, bytes));
        }
        for Check { limit, unit, requested, used, ordinary, most } in checks {
            let allowed = if with_reserve { most } else { ordinary };
            if requested > 0 && used.saturating_add(requested) > allowed {
                let (most, reserve) = (ordinary, with_reserve);
                return Err(Exceeded { limit, unit, requested, used, most, allowed, reserve });
            }
        }
        let number = pending.next;
        pending.next += 1;
        drop(shown);
        pending.writes.insert(number, write);
        Ok(Reservation { pending: self.pending.clone(), number, committed: false })
    }
}

impl<S: Strategy> Registry<S> {
    /// Reserves room for a write by a caller; `None` when the kind has no limits.
    ///
    /// A caller without room first gets that of objects whose work is done, then, if it may, the reserve.
    /// While another write makes room in the namespace it does not wait for that before the reserve. A
    /// caller that finds the reserve used up, or may not use it, waits for a short time.
    ///
    /// # Errors
    ///
    /// `Forbidden` with the limit as its cause.
    pub(super) async fn reserve(
        &self,
        context: &RequestContext,
        object: &S::Object,
        old: Option<&Stored<S::Object>>,
        added: Usage,
    ) -> Result<Option<Reservation>, ApiError> {
        if self.quota.is_unlimited() || added == Usage::default() {
            return Ok(None);
        }
        // Before it is filled the cache would show nothing as used.
        self.cache.wait_for(0).await?;
        let name = kube::Resource::meta(object).name.clone().unwrap_or_default();
        let user = self.strategy.shared_by(object);
        let try_reserve = |with_reserve| {
            let (namespace, user) = (context.namespace.clone(), user.clone());
            let key = Keys::relative(&namespace, &name);
            let base = old.map_or(0, Stored::revision);
            let write = Write { namespace, key, base, usage: added, user, revision: None };
            self.quota.reserve(&self.cache, write, with_reserve)
        };
        let mut result = try_reserve(false);
        if result.is_err() {
            // The cache may not show the latest deletions.
            self.catch_up().await?;
            result = try_reserve(false);
        }
        let mut exceeded = match result {
            Ok(reservation) => return Ok(Some(reservation)),
            Err(exceeded) => exceeded,
        };
        let made = self.make_room(context, &exceeded, Duration::ZERO, || try_reserve(false)).await?;
        let was_busy = made.is_none();
        match made {
            Some(Ok(reservation)) => return Ok(reservation),
            Some(Err(still)) => exceeded = still,
            None => {}
        }
        let with_reserve = self.strategy.may_use_reserve(context, object, old.map(|old| &**old)).await?;
        if with_reserve {
            exceeded = match try_reserve(true) {
                Ok(reservation) => return Ok(Some(reservation)),
                Err(exceeded) => exceeded,
            };
        }
        if was_busy || with_reserve {
            match self.make_room(context, &exceeded, MAX_WAIT, || try_reserve(with_reserve)).await? {
                Some(Ok(reservation)) => return Ok(reservation),
                Some(Err(still)) => exceeded = still,
                None => {}
            }
        }
        lock(&self.quota.pending).refused += 1;
        Err(self.exceeded(context, &name, &exceeded))
    }

    fn exceeded(&self, context: &RequestContext, name: &str, exceeded: &Exceeded) -> ApiError {
        let Exceeded { limit, unit, requested, used, most, reserve, .. } = exceeded;
        let reserve = if *reserve { ", and the reserve is used up" } else { "" };
        let detail = format!("{unit}: requested {requested}, used {used}, limit {most}{reserve}");
        tracing::info!(
            namespace = context.namespace,
            user = context.user.name,
            resource = %self.resource,
            "a write was refused because of the limit on {detail}"
        );
        ApiError::Status {
            reason: Reason::Forbidden,
            message: format!(
                "{} {name:?} is forbidden: exceeded the limit on {detail}; delete objects that are no longer needed",
                self.resource
            ),
            causes: vec![Cause { reason: limit.reason().to_owned(), message: detail, field: String::new() }],
            retry_after_seconds: None,
        }
    }
}
