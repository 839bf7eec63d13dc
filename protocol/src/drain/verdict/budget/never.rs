//! A budget that never allows a disruption as it is, and one that is not computed.

use chrono::{DateTime, Utc};
use evacuation_api::{
    DrainBlockerReason, NO_REPLACEMENT_REASON, ONE_AT_A_TIME_ANNOTATION, REPLACEMENT_RESPONDER,
    from_condition_time, parse_one_at_a_time,
};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::{
    super::{Hold, command, eviction::blocked_since, text},
    one::{COUNTED_SECONDS, One},
};
use crate::{
    pod::{controller, sync_failure},
    time::after,
};

/// The way out for a pod of a Deployment.
const REPLACED_FIRST: &str = "register the responder surge.evacuation.dev/replacement for the pod, if the \
                              built-in responders are installed, and drain again, unless two of its pods must \
                              not run at once (strategy Recreate, maxSurge 0, a host port, a claim with \
                              ReadWriteOncePod); or ";

impl One<'_> {
    /// Returns the hold by a budget that the disruption controller failed to compute.
    pub(super) fn not_computed(&self) -> Hold {
        let failed_since = sync_failure(self.budget).map(|c| from_condition_time(&c.last_transition_time));
        self.uncounted(failed_since)
    }

    /// The disruption controller counts only pods with a controller, unless the limit is a number of
    /// `minAvailable`. A budget that counts no pod allows no disruption, and reports no failure.
    pub(super) fn not_counted(&self) -> Hold {
        self.uncounted(None)
    }

    /// Returns the hold by a budget that does not count its pods, since that time or for longer.
    fn uncounted(&self, since: Option<DateTime<Utc>>) -> Hold {
        let metadata = &self.budget.metadata;
        let way_out = format!(
            "let the budget select only pods whose owner has the subresource scale; or use minAvailable with a \
             number; or delete the budget: {}; or have the pod deleted at a deadline, which the budget does not \
             prevent: {}",
            command::delete_budgets(&self.name(), metadata.namespace.as_deref().unwrap_or_default()),
            command::delete_at_deadline(self.ask.pod)
        );
        let blocked = blocked_since(self.ask);
        let since = since.map_or(blocked, |since| since.max(blocked));
        self.hold_by(DrainBlockerReason::BudgetNotComputed, since, self.view.cause(), &way_out).stuck()
    }

    /// Returns the hold by a budget of that many pods that needs all of them.
    pub(super) fn needs_all(&self, expected: i32) -> Hold {
        let unready_goes = if self.ask.live.ready {
            String::new()
        } else {
            format!(
                "as the pod is not ready, set unhealthyPodEvictionPolicy: AlwaysAllow in the budget: {}; or ",
                command::let_unready_go(self.budget)
            )
        };
        let pod = self.ask.pod.pod;
        let is_of_set = controller(pod).is_some_and(|owner| owner.kind == "ReplicaSet");
        let alone = self.stays_alone().filter(|_| is_of_set);
        let spec = self.budget.spec.as_ref();
        let is_number = spec.is_some_and(|spec| matches!(spec.min_available, Some(IntOrString::Int(_))));
        let way_out = format!(
            "{unready_goes}{}let the budget allow one disruption: {}{}; or have the pod deleted at a \
             deadline, which the budget does not prevent: {}",
            if is_of_set && alone.is_none() { REPLACED_FIRST } else { "" },
            command::allow_one(self.budget, expected, controller(pod).is_some()),
            if is_number { "; or add a replica" } else { "" },
            command::delete_at_deadline(self.ask.pod),
        );
        let cause = self.view.cause() + &alone.unwrap_or_default();
        let since = blocked_since(self.ask);
        self.hold_by(DrainBlockerReason::BudgetAllowsNone, since, cause, &way_out).stuck()
    }

    /// Returns the reason, with `; ` before it, for which no replacement can be ready before the pod goes:
    /// the replacement responder said so, or would.
    fn stays_alone(&self) -> Option<String> {
        let responders = self.ask.status.responders.iter().flatten();
        let said = responders.into_iter().find(|responder| {
            responder.name == REPLACEMENT_RESPONDER
                && responder.reason.as_deref() == Some(NO_REPLACEMENT_REASON)
        });
        if let Some(said) = said {
            let remark = text::remark(said.message.as_deref());
            return Some(format!(
                "; responder {REPLACEMENT_RESPONDER} answered {NO_REPLACEMENT_REASON}{remark}"
            ));
        }
        let annotations = self.ask.pod.pod.metadata.annotations.as_ref()?;
        let said = annotations.get(ONE_AT_A_TIME_ANNOTATION)?;
        // The responder takes a value that it cannot read for true, too.
        parse_one_at_a_time(said).unwrap_or(true).then(|| {
            format!("; by its annotation {ONE_AT_A_TIME_ANNOTATION} no replacement runs beside the pod")
        })
    }

    /// Returns the hold by a budget that is legal and allows nothing: the disruption controller expects no
    /// pod of it.
    pub(super) fn without_limit(&self) -> Hold {
        let is_owned = controller(self.ask.pod.pod).is_some();
        let way_out = format!(
            "set one of them: {}; or have the pod deleted at a deadline, which the budget does not prevent: {}",
            command::allow_one(self.budget, self.view.current_healthy, is_owned),
            command::delete_at_deadline(self.ask.pod),
        );
        self.hold_by_state(&way_out).stuck()
    }

    /// Returns the hold by a budget whose owner is scaled to 0, and whose pods are still there. One whose
    /// pods are new looks the same until they are counted.
    pub(super) fn expects_none(&self) -> Hold {
        let way_out = format!(
            "delete the pod, which its owner no longer wants: {}; or scale the owner up",
            command::delete(self.ask.pod.pod)
        );
        let hold = self.hold_by_state(&way_out);
        let counted = after(hold.since, COUNTED_SECONDS);
        hold.stuck_from(counted, self.ask.now)
    }
}
