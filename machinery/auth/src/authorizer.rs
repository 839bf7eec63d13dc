//! The trait of authorizers.

use async_trait::async_trait;

use crate::{Attributes, AuthError};

/// Verdict on an action of a caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The action is allowed.
    Allowed,
    /// The action is denied, also when no rule allows it.
    Denied {
        /// Reason in the authorizer's words, often empty. It is for the caller, after
        /// [`Attributes::forbidden_message`].
        reason: String,
    },
}

impl Verdict {
    /// Returns true when the action is allowed.
    pub fn is_allowed(&self) -> bool {
        matches!(self, Self::Allowed)
    }
}

/// Verdict with its reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// The verdict.
    pub verdict: Verdict,
    /// Reason in the authorizer's words, often empty. It is for the audit log.
    pub reason: String,
}

impl From<Verdict> for Decision {
    fn from(verdict: Verdict) -> Self {
        let reason = match &verdict {
            Verdict::Allowed => String::new(),
            Verdict::Denied { reason } => reason.clone(),
        };
        Self { verdict, reason }
    }
}

/// Decides which actions of callers are allowed.
#[async_trait]
pub trait Authorizer: Send + Sync {
    /// Decides on the action of `attributes.user`.
    ///
    /// # Errors
    ///
    /// [`AuthError::Unavailable`] when there is no verdict. The request must then be rejected.
    async fn authorize(&self, attributes: &Attributes) -> Result<Verdict, AuthError>;

    /// Decides as [`authorize`](Self::authorize), and returns the reason of a permission, too, if the
    /// authorizer knows one.
    ///
    /// # Errors
    ///
    /// Those of [`authorize`](Self::authorize).
    async fn decide(&self, attributes: &Attributes) -> Result<Decision, AuthError> {
        self.authorize(attributes).await.map(Decision::from)
    }
}

/// Allows every action of every caller: for servers on loopback and for tests.
#[derive(Clone, Copy, Debug, Default)]
pub struct AlwaysAllow;

#[async_trait]
impl Authorizer for AlwaysAllow {
    async fn authorize(&self, _: &Attributes) -> Result<Verdict, AuthError> {
        Ok(Verdict::Allowed)
    }
}
