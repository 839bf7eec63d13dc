//! The input of [`decide`](crate::decide) besides the Evacuation.

use chrono::{DateTime, Utc};

use super::Push;
use crate::{
    pod::{BudgetView, PodView, holding},
    pod_group::Member,
};

/// The state around an Evacuation, as the controller sees it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct World {
    /// The target.
    pub pod: PodView,
    /// The time since which the kubelet of the target's node does not report. `None` while it reports, and
    /// for an unknown node.
    pub node_silent_since: Option<DateTime<Utc>>,
    /// Every budget that selects the target.
    pub budgets: Vec<BudgetView>,
    /// Name of a budget that lets no further pod be asked now, when the target would have to wait for that.
    pub no_room: Option<String>,
    /// The other members of the target's PodGroup, when its pods move together.
    pub group: Vec<Member>,
    /// True when it is the target's turn in the queue of its budget: a disruption is free, or the target is
    /// the queue's probe. Not read when no budget holds the pod.
    pub turn: bool,
    /// True while the evictor has no place for the target: it makes as many attempts as it makes at a time.
    /// An attempt that is due then waits, unrecorded, so that the requesters can still withdraw.
    pub busy: bool,
    /// The end of the last outage of the API that the controller noticed.
    pub recovered_at: Option<DateTime<Utc>>,
    /// The last question to the responder whose turn it is that this process delivered.
    pub asked: Option<Delivered>,
    /// Knowledge of this process about an attempt that is recorded as in flight.
    pub attempt: Attempt,
}

/// The attempts to deliver a question to an endpoint.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Delivered {
    /// The question.
    pub question: Push,
    /// The time at which it first reached the endpoint.
    pub reached: Option<DateTime<Utc>>,
    /// The time of the first attempt that did not reach the endpoint, by its own fault.
    pub unreached: Option<DateTime<Utc>>,
    /// The time at which the endpoint took the question of the attempt under way. It can still break that
    /// off.
    pub sent: Option<DateTime<Utc>>,
    /// True while this process has a reply of the endpoint that is not recorded yet.
    pub replied: bool,
    /// The last failure in words: a reply that does not count, or an endpoint that cannot be reached. It is
    /// in the responder's message until an answer counts.
    pub problem: Option<String>,
}

/// The knowledge of this process about the attempt that the status records as in flight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Attempt {
    /// None: another process recorded the attempt, or the reply was lost.
    #[default]
    Unknown,
    /// This process recorded the attempt and has not posted it.
    Recorded,
    /// This process posted the attempt and waits for the reply.
    Posted,
}

impl Delivered {
    /// Returns the time of the attempt from which the endpoint's time to answer this process counts.
    pub(super) fn tried(&self) -> Option<DateTime<Utc>> {
        self.reached.or(self.sent).or(self.unreached)
    }
}

impl World {
    /// Returns the budgets that can hold back an eviction of the target. None for a pod that the eviction API
    /// evicts whatever its budgets say: pending, terminal, terminating, or unhealthy under the one budget
    /// that lets it pass.
    pub fn holding_budgets(&self) -> &[BudgetView] {
        self.pod.live().map_or(&[], |pod| holding(pod, &self.budgets))
    }
}
