//! Calls that get no slot, no decision in time, or no view of their pods.

use std::time::Duration;

use evacuation_protocol::OutageCause;
use k8s_openapi::api::core::v1::Pod;
use machinery_client::{NoSlot, Slot};

use super::{Decision, Gateway, View};
use evacuation_api::CallerRow;

use crate::{
    answer::{Answer, Unasked},
    call::Call,
    config::Table,
    judge::{Reply, Sight, Verdict},
};

/// Maximum time in which a call waits for its turn.
const TURN: Duration = Duration::from_millis(300);

/// Load of the gateway while a call gets no decision.
#[derive(Clone, Copy, Debug)]
struct Load {
    /// True while every slot is taken.
    full: bool,
    /// True in an outage of the evacuation API, in which nobody is asked.
    away: bool,
}

/// Event for which a call waits that got no decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    /// The pod or its Evacuation is read, which alone confirms that the call passes.
    Read,
    /// The eviction API counts the deletion.
    Count,
    /// A slot is free, in which the app is asked.
    Slot,
}

impl Gateway {
    /// Waits for the turn of a call that needs the API. The error is the answer where there is none.
    pub(super) async fn slot(&self, call: &Call, row: Option<&CallerRow>) -> Result<Slot, Answer> {
        self.limiter.slot(&call.user.name, TURN).await.map_err(|none| match none {
            NoSlot::Flow => Answer::Wait(Reply::busy(call, retry(row))),
            NoSlot::All => Answer::Unasked(Unasked::Busy),
        })
    }

    /// Answers a call that got no decision: its time is over, every slot is taken, or its pod was not read.
    ///
    /// The decision of the caches holds. An app that is being asked, perhaps on behalf of other calls or for
    /// another pod of the PodGroup, holds its calls up. Other calls wait as [`turn`] says, for as long as an
    /// outage lets an answer hold: so a flood of calls does not open the way to an app.
    pub(super) fn undecided(
        &self,
        call: &Call,
        view: Option<&View>,
        table: &Table,
        reason: Unasked,
    ) -> Answer {
        let full = reason == Unasked::Busy || self.limiter.is_full();
        let load = Load { full, away: self.is_api_away() };
        let row = view.map(|(pod, _)| table.row(call, pod));
        let now = self.cluster.now();
        if let Some(((pod, sight), row)) = view.zip(row) {
            let Decision { verdict, records, asked_mate, unreadable, .. } =
                self.decision(call, pod, *sight, row);
            // In an outage the judge decides by the other members.
            let asked = records.active.or(asked_mate.filter(|_| !load.away));
            let reply = match (turn(&verdict, asked.is_some(), load), verdict, asked) {
                (_, Verdict::Wait(reply), _) => return Answer::Wait(reply),
                (_, Verdict::Ask { .. }, None) if unreadable.is_some() => {
                    let name = unreadable.unwrap_or_default();
                    return Answer::Wait(Reply::unread(call, row, &name, None));
                }
                (Some(Turn::Read), _, Some(active)) => Some(Reply::waiting(call, row, &active, now)),
                (_, Verdict::Pass(pass), _) => return Answer::Pass(pass),
                (_, Verdict::Open(way), _) => return Answer::Unasked(Unasked::Outage(way)),
                (None, Verdict::Ask { .. } | Verdict::Count { .. }, Some(active)) => {
                    return Answer::Wait(Reply::waiting(call, row, &active, now));
                }
                // The kube-apiserver answers, and a deletion that is not counted could break the budget.
                (Some(Turn::Count), ..) => {
                    Some(Reply::blocked(call, row, "its deletion was not counted in time, try again"))
                }
                (Some(Turn::Slot), ..) if self.is_to_be_asked(pod, row) => {
                    Some(Reply::gateway_busy(call, row))
                }
                _ => None,
            };
            let bounded = load.full || load.away;
            if let Some(reply) = reply.filter(|_| !(bounded && self.waited_too_long(call, pod))) {
                return Answer::Wait(reply);
            }
            // What a read of the pod would confirm.
            let live = Sight::Live { drained_before: false };
            if let Verdict::Open(way) = self.decision(call, pod, live, row).verdict {
                return Answer::Unasked(Unasked::Outage(way));
            }
        }
        if self.limiter.is_crowded(&call.user.name) && !load.away {
            return Answer::Wait(Reply::busy(call, retry(row)));
        }
        Answer::Unasked(if full { Unasked::Busy } else { reason })
    }

    /// Records that a call for the pod waits for the load alone. Returns true when such calls have waited for
    /// as long as an outage lets an answer hold.
    fn waited_too_long(&self, call: &Call, pod: &Pod) -> bool {
        let uid = pod.metadata.uid.as_deref().unwrap_or_default();
        let longest = self.longest_hold.to_std().unwrap_or_default();
        !call.dry_run && self.limiter.turned_away(uid) >= longest
    }

    /// Returns true when the app of the pod is asked before it is evicted.
    fn is_to_be_asked(&self, pod: &Pod, row: &CallerRow) -> bool {
        let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
        self.is_asked(pod, row, &self.cluster.mates(pod)) || self.cluster.namespace(namespace).asks_all
    }

    /// Returns true while an outage of the evacuation API lasts.
    pub(super) fn is_api_away(&self) -> bool {
        self.cluster.outage(self.cluster.now()).is_some_and(|outage| outage.cause == OutageCause::Api)
    }
}

/// Returns the event for which a call waits that got no decision, where it waits for one.
///
/// In an outage nobody is asked, and while every slot is taken a pass that no read confirms is a pass. Not so
/// one by a recorded answer: its Evacuation could have been canceled since. A deletion is counted by the
/// kube-apiserver, which an outage of the evacuation API leaves alone.
fn turn(verdict: &Verdict, is_being_asked: bool, load: Load) -> Option<Turn> {
    match (verdict, is_being_asked) {
        (Verdict::Look, true) if !(load.full && load.away) => Some(Turn::Read),
        (Verdict::Pass(pass), true) if pass.is_of_record() && load.full && !load.away => Some(Turn::Read),
        (Verdict::Ask { .. } | Verdict::Look, false) if load.full && !load.away => Some(Turn::Slot),
        (Verdict::Count { .. }, false) => Some(Turn::Count),
        _ => None,
    }
}

/// Returns the seconds of Retry-After for a call of that row. A call for a pod that is not known has no row,
/// and gets no header: its caller could be a workload controller, whose workers a header blocks.
fn retry(row: Option<&CallerRow>) -> u32 {
    row.map_or(0, CallerRow::longest_retry_after)
}

#[cfg(test)]
mod tests {
    use evacuation_api::Requester;
    use serde_json::json;

    use super::*;
    use crate::judge::Pass;

    #[test]
    fn calls_wait_for_the_load_as_long_as_somebody_can_be_asked() {
        let entry: Box<Requester> =
            Box::new(serde_json::from_value(json!({"owner": "alice", "name": "a"})).unwrap());
        let look = Verdict::Look;
        let count = Verdict::Count { entry: entry.clone(), expired_in: None };
        let ask = Verdict::Ask { entry, expired_in: None };
        let (done, leaving) = (Verdict::Pass(Pass::RespondersDone), Verdict::Pass(Pass::Leaving));
        let table = [
            // The verdict, whether the app is asked now, and the turn at rest, full, in an outage, in both.
            (&look, true, [Some(Turn::Read), Some(Turn::Read), Some(Turn::Read), None]),
            (&look, false, [None, Some(Turn::Slot), None, None]),
            (&ask, false, [None, Some(Turn::Slot), None, None]),
            (&ask, true, [None, None, None, None]),
            (&count, false, [Some(Turn::Count); 4]),
            (&count, true, [None, None, None, None]),
            (&done, true, [None, Some(Turn::Read), None, None]),
            (&leaving, true, [None, None, None, None]),
        ];
        let loads = [(false, false), (true, false), (false, true), (true, true)];
        for (verdict, is_being_asked, expected) in table {
            let found = loads.map(|(full, away)| turn(verdict, is_being_asked, Load { full, away }));
            assert_eq!(found, expected, "{verdict:?}, being asked: {is_being_asked}");
        }
    }
}
