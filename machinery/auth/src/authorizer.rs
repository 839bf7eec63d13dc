//! Whether a caller may do what it wants: the trait.

use async_trait::async_trait;

use crate::{Attributes, AuthError};

/// Whether a caller may do what it wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It may.
    Allowed,
    /// It may not; also when nobody said that it may.
    Denied {
        /// Why, in the authoriser's words; often empty. For the caller, after
        /// [`Attributes::forbidden_message`].
        reason: String,
    },
}

impl Verdict {
    /// Whether the caller may.
    pub fn is_allowed(&self) -> bool {
        matches!(self, Self::Allowed)
    }
}

/// Decides whether callers may do what they want.
#[async_trait]
pub trait Authorizer: Send + Sync {
    /// Whether `attributes.user` may do that.
    ///
    /// # Errors
    ///
    /// [`AuthError::Unavailable`] when that could not be found out; the caller must then not be let in.
    async fn authorize(&self, attributes: &Attributes) -> Result<Verdict, AuthError>;
}
