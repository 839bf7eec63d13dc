//! Reasons to skip a pod, to refuse the drain, and to warn. Each displays as words.

use strum::Display;

/// A reason why a drain skips a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Display)]
pub enum DrainSkip {
    /// It belongs to a DaemonSet.
    #[strum(serialize = "it belongs to a DaemonSet")]
    DaemonSet,
    /// It is the mirror of a static pod.
    #[strum(serialize = "it is a mirror pod")]
    Mirror,
    /// It has been terminating for long.
    #[strum(serialize = "it has been terminating for long")]
    Terminating,
}

/// A reason why a pod stops a drain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Display)]
pub enum DrainRefusal {
    /// It belongs to a DaemonSet, and DaemonSets are not ignored.
    #[strum(serialize = "it belongs to a DaemonSet")]
    DaemonSet,
    /// It belongs to a DaemonSet that does not exist, and `force` is not set.
    #[strum(serialize = "it belongs to a DaemonSet that does not exist")]
    MissingDaemonSet,
    /// It has an emptyDir volume.
    #[strum(serialize = "it has local storage in an emptyDir volume")]
    LocalStorage,
    /// No controller replaces the pod.
    #[strum(serialize = "no controller creates it again")]
    Unmanaged,
}

/// A loss that the evacuation of a pod causes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Display)]
pub enum DrainWarning {
    /// It belongs to a DaemonSet that does not exist.
    #[strum(serialize = "it belongs to a DaemonSet that does not exist")]
    MissingDaemonSet,
    /// The data of its emptyDir volumes.
    #[strum(serialize = "the data of its emptyDir volumes is lost")]
    LocalStorage,
    /// The pod itself: no controller replaces it.
    #[strum(serialize = "no controller creates it again")]
    Unmanaged,
}
