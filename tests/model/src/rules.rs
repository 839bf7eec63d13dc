//! The rules that the parts of the world keep, each of which can be switched off to see that it is needed.

/// Rules that the server and the controller keep besides calling the protocol. Every rule is kept by default.
/// A test switches one off and expects a counterexample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools)] // Each is a switch of its own.
pub struct Rules {
    /// The server refuses a controller's write that was decided on an older object.
    pub resource_version: bool,
    /// The server checks what a controller writes (rules 6 and 7).
    pub status_check: bool,
    /// The server takes answers from the active responder only (rule 4).
    pub turn: bool,
    /// The server refuses a withdrawal while an eviction is in flight or accepted.
    pub fence: bool,
    /// The server lets only its maker change or remove an entry (rule 3).
    pub ownership: bool,
    /// The server takes no edit after the end (rule 6).
    pub end: bool,
    /// The server creates no second active Evacuation of a pod (rule 1).
    pub one_active: bool,
    /// The controller posts an eviction only after the attempt is recorded.
    pub record_first: bool,
    /// The controller waits for the attempt's time to be over before it finds out what became of it.
    pub resolve_late: bool,
    /// The controller records an outcome only for its own attempt. The lease of a real controller ensures
    /// that too.
    pub attempts_apart: bool,
    /// A controller never posts an attempt whose time is over.
    pub post_in_time: bool,
    /// A controller looks again when it said that it would.
    pub wake: bool,
    /// A controller counts the time of a question from its delivery, not from when it was due.
    pub counts_delivery: bool,
    /// A controller passes no endpoint over whose reply it has.
    pub keeps_replies: bool,
}

impl Rules {
    /// All of them.
    pub const KEPT: Self = Self {
        resource_version: true,
        status_check: true,
        turn: true,
        fence: true,
        ownership: true,
        end: true,
        one_active: true,
        record_first: true,
        resolve_late: true,
        attempts_apart: true,
        post_in_time: true,
        wake: true,
        counts_delivery: true,
        keeps_replies: true,
    };
}
