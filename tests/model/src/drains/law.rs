//! Laws of drains.

/// A property of every reachable state; [`DrainLaw::words`] says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DrainLaw {
    /// Of every release of a node.
    Cordon,
    /// Of every eviction.
    Withdrawal,
    /// Of every request.
    Cordoned,
    /// Of every request for a pod of a DaemonSet.
    Last,
    /// Rule 10, of every node that comes to its end.
    Drained,
    /// Of every plan of a paused drain.
    Paused,
    /// Liveness, from every state in which no act is under way.
    Ends,
}

impl DrainLaw {
    /// Every law.
    pub const ALL: &'static [Self] = &[
        Self::Cordon,
        Self::Withdrawal,
        Self::Cordoned,
        Self::Last,
        Self::Drained,
        Self::Paused,
        Self::Ends,
    ];

    /// The law as a sentence.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Cordon => "no drain uncordons a node that a person or another drain keeps cordoned",
            Self::Withdrawal => "no eviction follows the withdrawal of the last entry",
            Self::Cordoned => "no pod is asked on a node that was never cordoned",
            Self::Last => {
                "a pod of a DaemonSet is asked after all others of its node, and no drain asks its replacement"
            }
            Self::Drained => {
                "no node counts as drained or gone while a pod runs there that the drain was to move"
            }
            Self::Paused => "a paused drain asks no pod, and does not end",
            Self::Ends => {
                "every drain with a deadline ends unless it is paused, a deleted one goes, and no cordon and no entry is left of it"
            }
        }
    }
}
