//! Steps and settings of a world.

use evacuation_api::Answer;

/// One step of the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // The names say it; fields are positions and seconds.
pub enum GatewayStep {
    /// The clock advances. The gateway probes in its last seconds.
    Pass { seconds: i64 },
    /// A caller tries, by the pod's name or with its UID.
    Call { caller: usize, by_uid: bool },
    /// The same, and the kube-apiserver tells the gateway of it by a review of that form.
    Review { caller: usize, by_uid: bool, form: usize },
    /// The app answers.
    Answer { answer: Answer, seconds: i64 },
    /// The controller does what is due.
    Control,
    /// The budget changes its mind.
    Shift,
    /// A node is cordoned, or is no more.
    Cordon { node: usize },
    /// Another pod gets the name.
    Replace,
    /// The evacuation API stops to answer, or answers again.
    Api,
    /// The evacuation API rejects every new entry, or takes entries again.
    Reject,
    /// The controllers lose the lease, or one leads again.
    Lead,
    /// The gateway's watch of pods stops to deliver, or catches up.
    Lag,
    /// An entry leaves, as after a rollout that was undone.
    Withdraw { entry: usize },
    /// The gateway's watch of Evacuations stops to deliver, or catches up.
    Silence,
    /// That watch delivers so many events.
    Deliver { events: usize },
    /// That watch lists everything. A list that is not whole breaks on the way.
    List { whole: bool },
    /// The Evacuations of earlier pods that have ended are deleted.
    Forget,
}

/// Settings of a world.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools)] // Each is a switch of its own.
pub struct GatewaySettings {
    /// The app is registered as `self`.
    pub registered: bool,
    /// The budget allows no disruption at first.
    pub full_budget: bool,
    /// The namespace asks all pods.
    pub asks_all: bool,
    /// Deletions count against budgets in the namespace.
    pub counts: bool,
    /// Rules that the gateway does not keep: a checker must then find a broken law.
    pub flaw: Option<GatewayFlaw>,
}

/// A rule that the gateway of a world does not keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GatewayFlaw {
    /// Answers hold for no time in an outage.
    HoldsNothing,
    /// A successor on another node counts as the pod that the caller drained.
    BlindToNodes,
    /// The age of the controller's lease is not looked at.
    NoLease,
    /// A budget holds no deletion back.
    NoPatience,
    /// Registrations are not looked at.
    BlindToRegistrations,
    /// A question that the watch has not delivered is forgotten.
    ForgetsQuestions,
    /// A pass by the record of an Evacuation is not confirmed by a read.
    ReadsNothing,
    /// An entry that the API rejects counts as an outage.
    TakesRejectionsForOutages,
}
