//! The lease by which Kubernetes' own controllers show that they act on EvictionRequests.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use k8s_openapi::api::coordination::v1::Lease;
use tokio::time::Instant;

use crate::cluster::{Watched, lock};

/// The lease, as it was last seen. It compares no clocks of other machines: a lease has run out when it was
/// not seen to change for its duration.
pub(super) struct OthersLease {
    held_until: Mutex<Option<Instant>>,
    listed: AtomicBool,
    changed: Box<dyn Fn() + Send + Sync>,
}

impl OthersLease {
    /// Returns a lease that nobody was seen to hold. `changed` is called when somebody takes it or gives it
    /// back. That it has run out is told by [`OthersLease::held_until`] alone.
    pub(super) fn new(changed: impl Fn() + Send + Sync + 'static) -> Self {
        Self { held_until: Mutex::default(), listed: AtomicBool::new(false), changed: Box::new(changed) }
    }

    /// Returns the time at which the lease runs out, if somebody holds it.
    pub(super) fn held_until(&self) -> Option<Instant> {
        lock(&self.held_until).filter(|until| Instant::now() < *until)
    }

    /// Returns true once the API said whether somebody holds the lease.
    pub(super) fn is_listed(&self) -> bool {
        self.listed.load(Ordering::Acquire)
    }

    fn see(&self, until: Option<Instant>) {
        let was_held = self.held_until().is_some();
        *lock(&self.held_until) = until;
        if until.is_some() != was_held {
            (self.changed)();
        }
    }
}

/// Returns the time at which a lease that is seen now runs out.
fn runs_out(lease: &Lease) -> Option<Instant> {
    let spec = lease.spec.as_ref()?;
    spec.holder_identity.as_deref().filter(|holder| !holder.is_empty())?;
    let seconds = u64::try_from(spec.lease_duration_seconds?).ok()?;
    Instant::now().checked_add(Duration::from_secs(seconds))
}

impl Watched<Lease> for OthersLease {
    fn project(lease: &mut Lease) {
        lease.metadata.managed_fields = None;
    }

    fn reset(&self, leases: Vec<Arc<Lease>>) {
        let first = !self.listed.swap(true, Ordering::AcqRel);
        self.see(leases.iter().filter_map(|lease| runs_out(lease)).max());
        if first {
            (self.changed)();
        }
    }

    fn apply(&self, lease: Lease) {
        self.see(runs_out(&lease));
    }

    fn delete(&self, _: &Lease) {
        self.see(None);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, atomic::AtomicUsize};

    use serde_json::json;

    use super::*;

    fn lease(holder: &str, seconds: i32) -> Lease {
        let spec = json!({"holderIdentity": holder, "leaseDurationSeconds": seconds});
        serde_json::from_value(json!({"metadata": {"name": "l"}, "spec": spec})).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn a_lease_is_held_until_it_was_not_renewed_for_its_duration() {
        let changes = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&changes);
        let others = OthersLease::new(move || {
            count.fetch_add(1, Ordering::Relaxed);
        });
        others.apply(lease("", 15));
        assert_eq!(others.held_until(), None, "nobody holds it");
        others.apply(lease("kcm", 15));
        tokio::time::advance(Duration::from_secs(10)).await;
        others.apply(lease("kcm", 15));
        tokio::time::advance(Duration::from_secs(10)).await;
        assert!(others.held_until().is_some(), "it was renewed");
        tokio::time::advance(Duration::from_secs(6)).await;
        assert_eq!(others.held_until(), None);
        others.reset(vec![lease("kcm", 15).into()]);
        assert_eq!(changes.load(Ordering::Relaxed), 3, "a renewal is no news");
        others.delete(&lease("kcm", 15));
        assert_eq!((others.held_until(), changes.load(Ordering::Relaxed)), (None, 4));
    }
}
