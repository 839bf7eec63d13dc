//! Metrics, logs and Events of the answers to calls.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use tracing::{debug, warn};

use super::Gateway;
use crate::{
    answer::Answer,
    call::Call,
    judge::{NO_ROOM, Pass, REJECTED, UNREADABLE},
};

impl Gateway {
    /// Counts the answer, and names on the pod a call that passed against the rule.
    pub(super) fn report(&self, call: &Call, pod: Option<&Pod>, row: &str, answer: &Answer, time: Duration) {
        let webhook = call.operation.as_str();
        let verdict = match answer {
            Answer::Pass(pass) => pass.as_str(),
            Answer::Unasked(_) => "unasked",
            Answer::Wait(reply) if reply.is_held() => "held",
            Answer::Wait(_) => "wait",
        };
        self.metrics.count(webhook, row, verdict, time);
        debug!(user = %call.user.name, row, verdict, ?time, "{webhook} {}", call.target());
        let (user, verb) = (&call.user.name, call.operation.verb());
        let note = match answer {
            Answer::Unasked(reason) => {
                self.metrics.count_unasked(webhook, reason.as_str());
                let words = reason.words();
                warn!("pod {}: {user} could {verb} it {words}", call.target());
                Some((reason.event(), format!("{user} could {verb} the pod {words}")))
            }
            Answer::Pass(Pass::Forced) => Some((
                "DeletionForced",
                format!("{user} forced the deletion of the pod, which was not asked"),
            )),
            Answer::Pass(Pass::BlockedTooLong) => Some((
                "DeletionPassedBudget",
                format!(
                    "{user} could delete the pod although a budget allows no disruption: it held the deletion back for too long"
                ),
            )),
            Answer::Pass(Pass::Uncounted) => Some((
                "DeletionNotCounted",
                format!(
                    "{user} could delete the pod without a count: the eviction API cannot count it, or fails to"
                ),
            )),
            Answer::Wait(reply) if reply.cause == REJECTED => {
                self.metrics.questions_rejected.inc();
                warn!("{user} waits: {}", reply.message);
                Some(("QuestionRejected", format!("{user} waits to {verb} the pod: {}", reply.message)))
            }
            Answer::Wait(reply) if reply.cause == UNREADABLE => {
                self.metrics.calls_unreadable.inc();
                warn!("{user} waits for a repair: {}", reply.message);
                None
            }
            Answer::Wait(reply) if reply.cause == NO_ROOM => {
                self.metrics.calls_without_room.inc();
                None
            }
            Answer::Pass(_) | Answer::Wait(_) => None,
        };
        if let Some(((reason, note), pod)) = note.zip(pod).filter(|_| !call.dry_run) {
            self.events.warn(pod, reason, note);
        }
    }
}
