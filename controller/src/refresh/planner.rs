//! The decision about one namespace, from what the cluster view shows of it.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex},
};

use chrono::{DateTime, Utc};

use super::{
    Limits,
    decide::{Decision, decide},
    snapshot::Snapshot,
};
use crate::cluster::{View, lock};

/// Decides about one namespace at a time, and remembers the namespaces in which a change of any pod can
/// matter.
pub(super) struct Planner {
    pub(super) limits: Limits,
    view: Arc<View>,
    /// Namespaces in which a change of any pod can matter.
    pending: Mutex<HashSet<String>>,
}

impl Planner {
    /// Returns a planner that has decided nothing yet.
    pub(super) fn new(limits: Limits, view: Arc<View>) -> Self {
        Self { limits, view, pending: Mutex::default() }
    }

    /// Decides about a namespace.
    pub(super) fn decide(&self, namespace: &str, now: DateTime<Utc>) -> Decision {
        let snapshot = Snapshot::of(&self.view.index(), namespace, now);
        let decision = decide(&snapshot, &self.limits, now);
        let mut pending = lock(&self.pending);
        if decision.pending {
            pending.insert(namespace.to_owned());
        } else {
            pending.remove(namespace);
        }
        decision
    }

    /// Returns true for a namespace in which a change of any pod can matter.
    pub(super) fn is_pending(&self, namespace: &str) -> bool {
        lock(&self.pending).contains(namespace)
    }

    /// Forgets everything.
    pub(super) fn clear(&self) {
        lock(&self.pending).clear();
    }
}
