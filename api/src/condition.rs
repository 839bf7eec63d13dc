//! Conditions and their reasons, which are API.

/// Declares a closed set of CamelCase words.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$word_doc:meta])* $word:ident),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name { $($(#[$word_doc])* $word),+ }

        impl $name {
            /// Every word of the set.
            pub const ALL: &'static [Self] = &[$(Self::$word),+];

            /// The word on the wire.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$word => stringify!($word)),+ }
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
        /// That UID is gone, or its phase terminal.
        Evacuated,
        /// The pod was left alone.
        Failed,
        /// Stands beside Evacuated or Failed: nothing more will happen.
        Finished,
        /// The eviction is held back.
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
        /// The pod went, but not by the controller's doing.
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
    }
}

words! {
    /// Reasons of `Blocked`.
    BlockedReason {
        /// A PodDisruptionBudget allows no disruption now.
        BudgetExhausted,
        /// More than one PodDisruptionBudget selects the pod, which the eviction API refuses for ever.
        MultipleBudgets,
        /// A responder refused and the policy is Wait.
        Refused,
        /// An admission webhook or the API itself refused the eviction.
        EvictionRejected,
        /// The pod was told to go and does not.
        Terminating,
        /// The pod's annotation cannot be read: its responders cannot be asked.
        UnreadableResponders,
        /// Of `Blocked=False`: what held the eviction back does so no more, or the Evacuation has ended.
        NotBlocked,
    }
}
