//! Limits of one resource of the server, and the shares of callers.

/// Maximum amounts in use at once, and maximum numbers of requests that wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// By all callers together.
    pub(crate) total: usize,
    /// Part of `total` that only priority callers use.
    pub(crate) reserve: usize,
    /// By all requests for views together. Views are for everybody, and must not exclude users of the stored
    /// kinds.
    pub(crate) views: usize,
    /// By all service accounts of one namespace.
    pub(crate) of_namespace: usize,
    /// By one caller.
    pub(crate) of_caller: usize,
    /// By one caller, on views.
    pub(crate) of_caller_on_views: usize,
    /// Requests that wait for a place.
    pub(crate) waiting: Waiting,
    /// Seconds after which a refused client tries again.
    pub(crate) retry_after: u32,
}

/// Maximum numbers of requests that wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Waiting {
    /// Of all callers together.
    pub(crate) total: usize,
    /// Of one flow: a user, or the service accounts of a namespace.
    pub(crate) of_flow: usize,
    /// Of one caller.
    pub(crate) of_caller: usize,
}

impl Waiting {
    /// Nobody waits.
    pub(crate) const NONE: Self = Self { total: 0, of_flow: 0, of_caller: 0 };
}

impl Limits {
    /// The usual shares of a total: an eighth for one caller, a quarter for the service accounts of a
    /// namespace, three quarters for views, and an eighth in reserve. Nobody waits.
    pub(crate) fn shares_of(total: usize) -> Self {
        let of_caller = (total / 8).max(1);
        Self {
            total,
            reserve: total / 8,
            views: total - total / 4,
            of_namespace: (total / 4).max(1),
            of_caller,
            of_caller_on_views: of_caller,
            waiting: Waiting::NONE,
            retry_after: 1,
        }
    }
}
