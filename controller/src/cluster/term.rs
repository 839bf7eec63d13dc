//! One term of acting: from getting the lease to giving it up.

use std::sync::Mutex;

use tokio_util::sync::CancellationToken;

use super::lock;

/// The current term. Its token ends what is in progress when this process may no longer act.
#[derive(Debug, Default)]
pub(crate) struct Term(Mutex<CancellationToken>);

impl Term {
    /// Begins a term that ends with `token`.
    pub(crate) fn begin(&self, token: CancellationToken) {
        *lock(&self.0) = token;
    }

    /// Returns the token of the current term.
    pub(crate) fn token(&self) -> CancellationToken {
        lock(&self.0).clone()
    }
}
