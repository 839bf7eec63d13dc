//! Claims and permits.

use super::limiter::Limiter;
use crate::http::caller::Caller;

/// Amount and purpose of a permit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Claim {
    pub(crate) amount: usize,
    pub(crate) of_view: bool,
}

impl Claim {
    /// One request, watch or call.
    pub(crate) fn one(of_view: bool) -> Self {
        Self { amount: 1, of_view }
    }
}

/// Part of a resource in use, until it is dropped.
#[derive(Debug)]
#[must_use]
pub(crate) struct Permit(Option<Held>);

#[derive(Debug)]
struct Held {
    limiter: Limiter,
    caller: Caller,
    claim: Claim,
}

impl Permit {
    /// The permit of an administrator, which counts nothing.
    pub(super) fn uncounted() -> Self {
        Self(None)
    }

    /// A permit that the limiter has counted.
    pub(super) fn counted(limiter: Limiter, caller: Caller, claim: Claim) -> Self {
        Self(Some(Held { limiter, caller, claim }))
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if let Some(Held { limiter, caller, claim }) = self.0.take() {
            limiter.release(&caller, claim);
        }
    }
}
