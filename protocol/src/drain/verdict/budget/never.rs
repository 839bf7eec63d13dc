//! A budget that never allows a disruption as it is, and one that is not computed.

use chrono::{DateTime, Utc};
use evacuation_api::{
    Answer, DrainBlockerReason, NO_REPLACEMENT_REASON, ONE_AT_A_TIME_ANNOTATION, REPLACEMENT_RESPONDER,
    ResponderState, ResponderStatus, from_condition_time, parse_one_at_a_time,
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

/// The way out for a pod whose replacement responder is silent.
const NOT_ANSWERED: &str =
    "see if the built-in responders work (kubectl evacuate check), and drain again; or ";
/// The way out for a pod whose replacement was not ready in time.
const NOT_READY: &str = "see why its replacement was not ready, and drain again; or ";
/// The way out while the disruption controller counts a replacement.
const IS_COUNTED: &str = "nothing is needed, because the budget counts the replacement within seconds";

/// What becomes of a replacement that is to be ready before the pod goes.
#[derive(Default)]
struct Replacing {
    /// What is known of it, with `; ` before it.
    known: String,
    /// The way out by it, with `; or ` after it.
    way_out: &'static str,
    /// The time by which the budget counts a replacement that is ready.
    counted_by: Option<DateTime<Utc>>,
}

impl Replacing {
    fn new(known: impl Into<String>, way_out: &'static str) -> Self {
        Self { known: known.into(), way_out, counted_by: None }
    }

    /// Returns what the replacement responder has made of the pod.
    fn of(said: &ResponderStatus) -> Self {
        let tell = |what: &str| {
            format!("; responder {REPLACEMENT_RESPONDER} {what}{}", text::remark(said.message.as_deref()))
        };
        match (said.answer, said.state) {
            _ if said.reason.as_deref() == Some(NO_REPLACEMENT_REASON) => {
                Self::new(tell(&format!("answered {NO_REPLACEMENT_REASON}")), "")
            }
            (Some(Answer::Accept), _) => Self {
                counted_by: said.answer_time.map(|time| after(time.0, COUNTED_SECONDS)),
                ..Self::new(tell("accepted"), "")
            },
            (Some(Answer::Refuse), _) => Self::new(tell("refused"), NOT_READY),
            (Some(Answer::Delay), ResponderState::Interrupted) => {
                Self::new(tell("was not done when its delay ended"), NOT_READY)
            }
            (None, ResponderState::Interrupted) => Self::new(tell("did not answer"), NOT_ANSWERED),
            _ => Self::default(),
        }
    }
}

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
        let replacing = self.replacing();
        let since = blocked_since(self.ask);
        let cause = self.view.cause() + &replacing.known;
        if let Some(time) = replacing.counted_by.filter(|time| self.ask.now < *time) {
            let hold = self.hold_by(DrainBlockerReason::BudgetAllowsNone, since, cause, IS_COUNTED);
            return hold.changing_at(Some(time));
        }
        let spec = self.budget.spec.as_ref();
        let is_number = spec.is_some_and(|spec| matches!(spec.min_available, Some(IntOrString::Int(_))));
        let way_out = format!(
            "{unready_goes}{}let the budget allow one disruption: {}{}; or have the pod deleted at a \
             deadline, which the budget does not prevent: {}",
            replacing.way_out,
            command::allow_one(self.budget, expected, controller(pod).is_some()),
            if is_number { "; or add a replica" } else { "" },
            command::delete_at_deadline(self.ask.pod),
        );
        self.hold_by(DrainBlockerReason::BudgetAllowsNone, since, cause, &way_out).stuck()
    }

    /// Returns what becomes of a replacement. Where its responder is not registered, it can be, for a pod of
    /// a ReplicaSet.
    fn replacing(&self) -> Replacing {
        let pod = self.ask.pod.pod;
        let mut responders = self.ask.status.responders.iter().flatten();
        if let Some(said) = responders.find(|responder| responder.name == REPLACEMENT_RESPONDER) {
            return Replacing::of(said);
        }
        if controller(pod).is_none_or(|owner| owner.kind != "ReplicaSet") {
            return Replacing::default();
        }
        let annotations = pod.metadata.annotations.as_ref();
        let said = annotations.and_then(|annotations| annotations.get(ONE_AT_A_TIME_ANNOTATION));
        // The responder takes a value that it cannot read for true, too.
        if said.is_some_and(|said| parse_one_at_a_time(said).unwrap_or(true)) {
            let text =
                format!("; by its annotation {ONE_AT_A_TIME_ANNOTATION} no replacement runs beside the pod");
            return Replacing::new(text, "");
        }
        Replacing::new("", REPLACED_FIRST)
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
