//! Shares of the calls that are in progress at the same time.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout,
};

/// Slots for calls, with a share for each flow, such as a user or a namespace.
///
/// # Guarantees
///
/// A flow never has more slots than its share. Its calls beyond the share wait, and hold up no other flow.
/// Calls with priority have no share, and the reserve besides. A flow without calls is forgotten, so there
/// are never more flows than calls.
#[derive(Debug)]
pub struct Shares {
    all: Arc<Semaphore>,
    reserve: Arc<Semaphore>,
    flows: Flows,
    of_flow: usize,
}

/// The slots of each flow that has a slot, or waits for one.
type Flows = Arc<Mutex<HashMap<String, Arc<Semaphore>>>>;

/// Permission for one call. It ends when it is dropped.
#[derive(Debug)]
pub struct Slot {
    _of_flow: Option<Share>,
    _of_all: OwnedSemaphorePermit,
    was_free: bool,
}

/// Part of the share of a flow.
#[derive(Debug)]
struct Share {
    permit: Option<OwnedSemaphorePermit>,
    flow: String,
    flows: Flows,
}

/// Reason for which there is no slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoSlot {
    /// The flow has too many calls in progress.
    Flow,
    /// All flows together have too many calls in progress.
    All,
}

impl Shares {
    /// Returns `all` slots, of which one flow has at most `of_flow`.
    pub fn new(all: usize, of_flow: usize) -> Self {
        Self::with_reserve(all, of_flow, 0)
    }

    /// Returns `all` slots. One flow has at most `of_flow` of them, and `reserve` of them are for calls with
    /// priority.
    pub fn with_reserve(all: usize, of_flow: usize, reserve: usize) -> Self {
        Self {
            all: Arc::new(Semaphore::new(all.saturating_sub(reserve))),
            reserve: Arc::new(Semaphore::new(reserve)),
            flows: Flows::default(),
            of_flow,
        }
    }

    /// Waits for a slot of that flow: at most for `patience` until its share has one, and for as long again
    /// until one of all slots is free.
    ///
    /// # Errors
    ///
    /// The share, or all slots, were taken all the time.
    pub async fn slot(&self, flow: &str, patience: Duration) -> Result<Slot, NoSlot> {
        let mut own = Share { permit: None, flow: flow.to_owned(), flows: Arc::clone(&self.flows) };
        // Neither semaphore is ever closed.
        own.permit = timeout(patience, self.share(flow).acquire_owned()).await.ok().and_then(Result::ok);
        if own.permit.is_none() {
            return Err(NoSlot::Flow);
        }
        if let Ok(of_all) = Arc::clone(&self.all).try_acquire_owned() {
            return Ok(Slot { _of_flow: Some(own), _of_all: of_all, was_free: true });
        }
        let of_all = timeout(patience, Arc::clone(&self.all).acquire_owned()).await.ok().and_then(Result::ok);
        Ok(Slot { _of_flow: Some(own), _of_all: of_all.ok_or(NoSlot::All)?, was_free: false })
    }

    /// Waits at most for `patience` for a slot for a call with priority. The reserve is for the time when
    /// others have the rest.
    ///
    /// # Errors
    ///
    /// All slots were taken all the time.
    pub async fn priority_slot(&self, patience: Duration) -> Result<Slot, NoSlot> {
        if let Ok(of_all) = Arc::clone(&self.all).try_acquire_owned() {
            return Ok(Slot { _of_flow: None, _of_all: of_all, was_free: true });
        }
        let either = async {
            tokio::select! {
                biased;
                of_all = Arc::clone(&self.all).acquire_owned() => of_all,
                reserved = Arc::clone(&self.reserve).acquire_owned() => reserved,
            }
        };
        let of_all = timeout(patience, either).await.ok().and_then(Result::ok);
        Ok(Slot { _of_flow: None, _of_all: of_all.ok_or(NoSlot::All)?, was_free: false })
    }

    /// Returns the number of slots that a flow has.
    pub fn taken(&self, flow: &str) -> usize {
        let flows = self.flows.lock().unwrap_or_else(PoisonError::into_inner);
        flows.get(flow).map_or(0, |share| self.of_flow.saturating_sub(share.available_permits()))
    }

    /// Returns true while every slot outside of the reserve is taken.
    pub fn is_full(&self) -> bool {
        self.all.available_permits() == 0
    }

    fn share(&self, flow: &str) -> Arc<Semaphore> {
        let mut flows = self.flows.lock().unwrap_or_else(PoisonError::into_inner);
        flows.entry(flow.to_owned()).or_insert_with(|| Arc::new(Semaphore::new(self.of_flow))).clone()
    }
}

impl Slot {
    /// Returns true when a slot outside of the reserve was free as soon as the flow's share had one.
    pub fn was_free(&self) -> bool {
        self.was_free
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.permit = None;
        let mut flows = self.flows.lock().unwrap_or_else(PoisonError::into_inner);
        // Waiting calls and other slots hold the semaphore, too.
        if flows.get(&self.flow).is_some_and(|share| Arc::strong_count(share) == 1) {
            flows.remove(&self.flow);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOON: Duration = Duration::from_millis(10);

    #[tokio::test(start_paused = true)]
    async fn a_flow_that_keeps_its_share_for_ever_waits_and_others_do_not() {
        let shares = Shares::new(4, 2);
        let kept = [shares.slot("mallory", SOON).await.unwrap(), shares.slot("mallory", SOON).await.unwrap()];
        assert_eq!(shares.slot("mallory", SOON).await.unwrap_err(), NoSlot::Flow);
        tokio::time::advance(Duration::from_hours(1)).await;
        assert_eq!(shares.slot("mallory", SOON).await.unwrap_err(), NoSlot::Flow, "it is not forgotten");
        assert!(shares.slot("alice", Duration::ZERO).await.unwrap().was_free());
        assert_eq!((shares.taken("mallory"), shares.taken("alice")), (2, 0));
        drop(kept);
        assert!(shares.slot("mallory", SOON).await.unwrap().was_free());
    }

    #[tokio::test(start_paused = true)]
    async fn all_flows_together_are_bounded() {
        let shares = Shares::new(2, 1);
        let slots = [shares.slot("a", SOON).await.unwrap(), shares.slot("b", SOON).await.unwrap()];
        assert!(shares.is_full());
        assert_eq!(shares.slot("c", SOON).await.unwrap_err(), NoSlot::All);
        let next = shares.slot("c", Duration::from_mins(1));
        let (next, ()) = tokio::join!(next, async {
            tokio::task::yield_now().await;
            drop(slots);
        });
        assert!(!next.unwrap().was_free());
    }

    #[tokio::test(start_paused = true)]
    async fn many_flows_leave_the_reserve_to_calls_with_priority() {
        let shares = Shares::with_reserve(16, 4, 2);
        let mut taken = Vec::new();
        for flow in 0..32 {
            taken.extend(shares.slot(&format!("flow-{flow}"), SOON).await.ok());
        }
        assert_eq!((taken.len(), shares.is_full()), (14, true));
        assert_eq!(shares.slot("late", SOON).await.unwrap_err(), NoSlot::All);
        assert!(shares.priority_slot(SOON).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn calls_with_priority_have_the_free_slots_and_the_reserve() {
        let shares = Shares::with_reserve(16, 4, 2);
        for _ in 0..2 {
            let mut taken = Vec::new();
            while let Ok(slot) = shares.priority_slot(SOON).await {
                taken.push(slot);
            }
            assert_eq!(taken.len(), 16, "each slot came back to where it was from");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_flow_without_calls_is_forgotten_also_when_one_is_canceled_while_it_waits() {
        let shares = Shares::new(4, 1);
        let slot = shares.slot("jane", SOON).await.unwrap();
        assert_eq!(shares.slot("jane", SOON).await.unwrap_err(), NoSlot::Flow);
        timeout(SOON, shares.slot("jane", Duration::MAX)).await.unwrap_err();
        assert_eq!(shares.flows.lock().unwrap().len(), 1);
        drop(slot);
        assert!(shares.flows.lock().unwrap().is_empty());
    }
}
