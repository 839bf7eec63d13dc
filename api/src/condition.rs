//! Conditions and their reasons, which are API, and the questions that a status answers about them.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use crate::EvacuationStatus;

/// Declares a closed set of CamelCase words.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$word_doc:meta])* $word:ident),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name { $($(#[$word_doc])* $word),+ }

        impl $name {
            /// All words of the set.
            pub const ALL: &'static [Self] = &[$(Self::$word),+];

            /// Returns the word on the wire.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$word => stringify!($word)),+ }
            }

            /// Returns the value of a word on the wire, or `None` for a word that is not of the set.
            pub fn parse(word: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|known| known.as_str() == word)
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}

words! {
    /// The types of an Evacuation's conditions.
    ConditionType {
        /// The pod of that UID is gone, or its phase is terminal.
        Evacuated,
        /// The pod was left alone.
        Failed,
        /// The Evacuation has ended: accompanies Evacuated or Failed.
        Finished,
        /// Something holds the eviction back.
        Blocked,
    }
}

words! {
    /// Reasons of `Evacuated=True`.
    EvacuatedReason {
        /// The pod went after an eviction that the controller asked for.
        Evicted,
        /// The pod went after a deletion that the controller asked for at a deadline.
        Deleted,
        /// The pod went for another reason.
        GoneByOther,
        /// The pod's phase is Succeeded or Failed.
        TerminatedInPlace,
    }
}

words! {
    /// Reasons of `Failed=True`.
    FailedReason {
        /// A responder refused and the policy was GiveUp.
        Refused,
        /// The last requester left, or the Evacuation was deleted.
        Canceled,
        /// The last requester's deadline passed with GiveUp.
        DeadlineGaveUp,
        /// Another pod of the PodGroup refused, the pods move together, and the policy was GiveUp.
        PodGroupRefused,
        /// It was a rehearsal, and every responder was asked.
        Rehearsed,
    }
}

words! {
    /// Reasons of `Blocked`.
    BlockedReason {
        /// A PodDisruptionBudget allows no disruption now, and can allow one later.
        BudgetExhausted,
        /// A PodDisruptionBudget allows no disruption even when all of its pods are healthy.
        BudgetAllowsNone,
        /// The disruption controller cannot compute the PodDisruptionBudget.
        BudgetNotComputed,
        /// More than one PodDisruptionBudget selects the pod, which the eviction API refuses for ever.
        MultipleBudgets,
        /// A responder refused and the policy is Wait.
        Refused,
        /// An admission webhook or the API itself refused the eviction.
        EvictionRejected,
        /// The API accepted the eviction, and the pod does not terminate.
        Terminating,
        /// No responder was asked yet, because a PodDisruptionBudget lets no further pod be asked now.
        AwaitingTurn,
        /// The pod's annotation cannot be read: the controller cannot ask its responders.
        UnreadableResponders,
        /// Another pod of the PodGroup is not done, and the pods move together.
        PodGroup,
        /// Reason of `Blocked=False`: nothing holds the eviction back any more, or the Evacuation has ended.
        NotBlocked,
    }
}

words! {
    /// The types of a NodeEvacuation's conditions.
    DrainConditionType {
        /// Every pod that was to move is gone.
        Drained,
        /// A node was not drained.
        Failed,
        /// The drain has ended: accompanies Drained or Failed.
        Finished,
        /// The drain begins no node and asks no further pod.
        Paused,
        /// No controller works on the drain. The API server writes it.
        Unattended,
    }
}

words! {
    /// Reasons of a NodeEvacuation's blockers. `docs/guide/stuck.md` explains each one.
    DrainBlockerReason {
        /// A PodDisruptionBudget allows no disruption now, and can allow one later.
        BudgetExhausted,
        /// A PodDisruptionBudget allows no disruption even when all of its pods are healthy.
        BudgetAllowsNone,
        /// The disruption controller cannot compute the PodDisruptionBudget.
        BudgetNotComputed,
        /// More than one PodDisruptionBudget selects the pod.
        MultipleBudgets,
        /// The pod itself is unhealthy, and its budget protects unhealthy pods too.
        UnhealthyPod,
        /// A replacement cannot be scheduled.
        ReplacementUnschedulable,
        /// A volume of a replacement cannot be attached: another node still has it.
        ReplacementVolume,
        /// The image of a replacement cannot be pulled.
        ReplacementImage,
        /// A replacement crashes.
        ReplacementCrashing,
        /// Another pod of the budget has not been ready for a minute.
        ReplacementUnready,
        /// Another pod of the budget terminates and does not end, so that none takes its place.
        ReplacementTerminating,
        /// The budget expects a pod that nobody creates.
        ReplacementMissing,
        /// A responder asked for time.
        Delayed,
        /// A responder was asked and has not answered.
        Unanswered,
        /// A responder refused, and the request waits.
        Refused,
        /// Another pod of the PodGroup is not done, and the pods move together.
        PodGroup,
        /// A pod was left alone: its request ended without an evacuation.
        LeftAlone,
        /// Pods of the owner came to the node after its drain began, and wait for their next round.
        ComesBack,
        /// A webhook, or the API itself, rejects the eviction.
        EvictionRejected,
        /// The pod terminates.
        Terminating,
        /// The pod terminates, and a finalizer keeps it.
        Finalizer,
        /// The pod's node does not report.
        NodeUnreachable,
        /// The node shuts down gracefully, and its kubelet ends the pod.
        NodeShuttingDown,
        /// The pod's node was deleted, and Kubernetes has not removed the pod.
        NodeDeleted,
        /// The pod belongs to a DaemonSet.
        DaemonSet,
        /// The pod has an emptyDir volume.
        LocalStorage,
        /// No controller creates the pod again.
        Unmanaged,
        /// The API server does not take the request for the pod.
        RequestRejected,
        /// The controller may not do what the drain needs.
        NodeRejected,
    }
}

/// Reasons of one type of condition.
pub trait ConditionReason: Copy {
    /// The type of condition that has these reasons.
    const TYPE: ConditionType;

    /// Returns the reason of a word on the wire, or `None` for an unknown word.
    fn of(word: &str) -> Option<Self>;
}

macro_rules! reasons {
    ($($reason:ident: $type:ident),+) => {$(
        impl ConditionReason for $reason {
            const TYPE: ConditionType = ConditionType::$type;

            fn of(word: &str) -> Option<Self> {
                Self::parse(word)
            }
        }
    )+};
}

reasons!(EvacuatedReason: Evacuated, FailedReason: Failed, BlockedReason: Blocked);

impl EvacuationStatus {
    /// Returns the condition of that type, whether True or not.
    pub fn condition(&self, kind: ConditionType) -> Option<&Condition> {
        self.conditions.iter().find(|condition| condition.type_ == kind.as_str())
    }

    /// Returns the condition of that type where it is True.
    pub fn true_condition(&self, kind: ConditionType) -> Option<&Condition> {
        self.condition(kind).filter(|condition| condition.status == "True")
    }

    /// Returns true when the condition of that type is True.
    pub fn is_true(&self, kind: ConditionType) -> bool {
        self.true_condition(kind).is_some()
    }

    /// Returns the reason of the condition that `R` belongs to, where it is True and the reason is known.
    pub fn reason<R: ConditionReason>(&self) -> Option<R> {
        R::of(&self.true_condition(R::TYPE)?.reason)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_guide_and_the_reference_explain_every_blocker() {
        let guide = include_str!("../../docs/guide/stuck.md");
        let reference = include_str!("../../docs/reference/blockers.md");
        for reason in DrainBlockerReason::ALL {
            assert!(guide.lines().any(|line| line == format!("## {reason}")), "{reason}");
            assert!(reference.contains(&format!("\n| `{reason}` |")), "{reason}");
        }
    }

    #[test]
    fn a_condition_counts_only_while_it_is_true_and_its_reason_is_known() {
        let status = |value: &str, reason: &str| -> EvacuationStatus {
            let time = "2026-11-20T22:00:00Z";
            let condition = serde_json::json!({
                "type": "Blocked", "status": value, "reason": reason, "message": "", "lastTransitionTime": time,
            });
            serde_json::from_value(serde_json::json!({"conditions": [condition]})).unwrap()
        };
        for (value, reason, is_true, known) in [
            ("True", "BudgetExhausted", true, Some(BlockedReason::BudgetExhausted)),
            ("True", "NewerThanThisCrate", true, None),
            ("False", "NotBlocked", false, None),
        ] {
            let status = status(value, reason);
            assert_eq!(status.is_true(ConditionType::Blocked), is_true, "{value} {reason}");
            assert_eq!(status.reason::<BlockedReason>(), known, "{value} {reason}");
            assert!(status.condition(ConditionType::Blocked).is_some());
            assert_eq!(status.reason::<FailedReason>(), None);
        }
    }
}
