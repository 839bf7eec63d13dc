//! Deletions that count against budgets, and those that are surplus.

use std::{
    ops::ControlFlow::{self, Break},
    time::Duration,
};

use evacuation_api::{CallerRow, Requester};
use k8s_openapi::api::core::v1::Pod;
use tracing::{info, warn};

use super::{Gateway, View};
use crate::{
    answer::{Answer, Unasked},
    call::Call,
    cluster::Records,
    judge::{Pass, Reply},
    ledger::Counted,
};

impl Gateway {
    /// Counts a deletion, for a call that is answered in that time. One that a budget holds back becomes an
    /// Evacuation, which waits for the budget: by the entry, before which an expired one leaves.
    pub(super) async fn count(
        &self,
        call: &Call,
        pod: &Pod,
        row: &CallerRow,
        (entry, expired_in): (Requester, Option<String>),
        records: &Records,
        time: Duration,
    ) -> ControlFlow<Answer, View> {
        let slot = match self.slot(call, Some(row)).await {
            Ok(slot) => slot,
            Err(answer) => return Break(answer),
        };
        let counted = self.ledger.count(call, pod).await;
        drop(slot);
        if !matches!(counted, Counted::Busy(_) | Counted::Unanswered(_)) {
            self.limiter.counted(&call.namespace);
        }
        Break(match counted {
            Counted::Evicted => Answer::Pass(Pass::Counted),
            Counted::Gone => Answer::Pass(Pass::Leaving),
            Counted::Unanswered(problem) if self.is_api_away() => {
                warn!("pod {}: its deletion was not counted in an outage: {problem}", call.target());
                Answer::Unasked(Unasked::ApiDown)
            }
            // No outage of ours ends this: a webhook of others can fail for ever.
            Counted::Busy(problem) if self.was_not_counted_for_long(call, pod, true) => {
                warn!("pod {}: its deletion passes without a count: {problem}", call.target());
                Answer::Pass(Pass::Uncounted)
            }
            Counted::Unanswered(problem) if self.was_not_counted_for_long(call, pod, false) => {
                warn!("pod {}: its deletion passes without a count: {problem}", call.target());
                Answer::Pass(Pass::Uncounted)
            }
            Counted::Busy(problem) | Counted::Unanswered(problem) => {
                warn!("pod {}: its deletion was not counted, its caller waits: {problem}", call.target());
                Answer::Wait(Reply::blocked(call, row, "the kube-apiserver did not count it, try again"))
            }
            Counted::Impossible(problem) => {
                info!("pod {}: its deletion was not counted: {problem}", call.target());
                Answer::Pass(Pass::Uncounted)
            }
            Counted::Blocked(_) if self.surplus.is_surplus(call, pod, time / 4).await => {
                Answer::Pass(Pass::Surplus)
            }
            Counted::Blocked(message) if call.dry_run => Answer::Wait(Reply::blocked(call, row, &message)),
            Counted::Blocked(_) => {
                return self.ask(call, pod, row, entry, expired_in.as_deref(), records).await;
            }
        })
    }

    /// Records that the eviction API did not count a deletion. Returns true when that has lasted for as long
    /// as an outage lets an answer hold. Where the API is only `busy`, a count of another deletion of the
    /// namespace shows that the next try can succeed.
    fn was_not_counted_for_long(&self, call: &Call, pod: &Pod, busy: bool) -> bool {
        let uid = pod.metadata.uid.as_deref().unwrap_or_default();
        let namespace = Some(call.namespace.as_str()).filter(|_| busy);
        !call.dry_run
            && self.limiter.not_counted(namespace, uid) >= self.longest_hold.to_std().unwrap_or_default()
    }
}
