//! The end of a deleted drain: its requests are taken back, the responders learn it, and its nodes are
//! released.

use chrono::{DateTime, Utc};
use evacuation_api::{DrainConditionType, DrainVerdict, Evacuation, NodeEvacuation, NodeEvacuationStatus};

use super::{DrainAct, DrainPlan, DrainWorld, cordon::is_held, drain_entry, standing::is_accepted};
use crate::{responders::awaits_acknowledgement, status::is_finished, time::after};

/// Period after which an acknowledgement or a release is looked for again, in seconds.
const LOOK_AGAIN_SECONDS: i64 = 1;

/// Plans the next step of a deleted drain. Nodes are released when no request is left and every responder
/// that was asked knows. The finalizer goes when no node is held.
pub(super) fn withdraw<'a>(
    drain: &NodeEvacuation,
    mut status: NodeEvacuationStatus,
    world: &DrainWorld<'a>,
    now: DateTime<Utc>,
) -> DrainPlan<'a> {
    let name = drain.metadata.name.as_deref().unwrap_or_default();
    // Without a recorded user no entry was made.
    let entry = drain_entry(drain).map(|entry| (entry.owner, entry.name));
    let holds = |evacuation: &&&'a Evacuation| {
        let all = &evacuation.spec.requesters;
        entry.as_ref().is_some_and(|(owner, name)| all.iter().any(|r| r.owner == *owner && r.name == *name))
    };
    let open = |evacuation: &&&'a Evacuation| {
        !evacuation.status.as_ref().is_some_and(is_finished) && !is_accepted(evacuation)
    };
    let mut acts: Vec<_> =
        world.entries.iter().filter(open).filter(holds).map(|e| DrainAct::Withdraw(e)).collect();
    let unaware = |e: &&Evacuation| e.status.as_ref().is_some_and(|s| awaits_acknowledgement(s, now));
    let waits = world.entries.iter().filter(|e| unaware(e)).count();
    // The finalizer goes in a later round, also when the status does not change before it.
    let mut wake_at = Some(after(now, LOOK_AGAIN_SECONDS));
    if acts.is_empty() && waits == 0 {
        acts.extend(
            world.nodes.iter().filter(|node| is_held(node, name)).map(|node| DrainAct::Release(node)),
        );
        if acts.is_empty() {
            acts.push(DrainAct::ReleaseFinalizer);
            wake_at = None;
        }
        say(&mut status, "its nodes are being released");
    } else {
        say(&mut status, "its requests are being taken back");
    }
    DrainPlan { status, acts, wake_at, ..DrainPlan::default() }
}

/// Says that the drain was deleted. One that had ended keeps the verdict of its end.
fn say(status: &mut NodeEvacuationStatus, step: &str) {
    let ended = status.is_true(DrainConditionType::Finished);
    status.verdict = Some(if ended { status.verdict() } else { DrainVerdict::Canceled });
    status.message = Some(format!("it was deleted; {step}"));
}
