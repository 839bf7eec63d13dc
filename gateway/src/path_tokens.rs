//! The proof of a caller: the secret token in the path of each webhook.
//!
//! Only the kube-apiserver knows the token, from the webhook configuration. A request without it is rejected
//! before its body is read.

use std::{
    fmt,
    sync::{PoisonError, RwLock},
    time::Duration,
};

use sha2::{Digest, Sha256};
use tokio::time::Instant;

/// Time for which a replaced token is accepted: kube-apiservers take up a changed configuration one by one.
const REPLACED: Duration = Duration::from_mins(1);

/// Digest of a token. Comparing digests tells a caller nothing about the token by the time that it takes.
type TokenDigest = [u8; 32];

#[derive(Default)]
struct Accepted {
    current: Option<TokenDigest>,
    replaced: Option<(TokenDigest, Instant)>,
}

/// Tokens that prove that a call comes from the kube-apiserver. Without one, each call is rejected.
#[derive(Default)]
pub(crate) struct PathTokens(RwLock<Accepted>);

impl fmt::Debug for PathTokens {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("PathTokens").finish_non_exhaustive()
    }
}

impl PathTokens {
    /// Makes this token the current one. Returns true when it replaces another, which is then accepted for
    /// [`REPLACED`].
    pub(crate) fn accept(&self, token: &str) -> bool {
        let mut accepted = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let digest = digest(token);
        if accepted.current == Some(digest) {
            return false;
        }
        accepted.replaced = accepted.current.map(|replaced| (replaced, Instant::now()));
        accepted.current = Some(digest);
        accepted.replaced.is_some()
    }

    /// Returns true when a token is known.
    pub(crate) fn is_known(&self) -> bool {
        self.0.read().unwrap_or_else(PoisonError::into_inner).current.is_some()
    }

    /// Returns true when the token proves its bearer.
    pub(crate) fn proves(&self, token: &str) -> bool {
        let accepted = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let digest = Some(digest(token));
        let replaced = accepted.replaced.filter(|(_, since)| since.elapsed() < REPLACED);
        digest == accepted.current || digest == replaced.map(|(replaced, _)| replaced)
    }
}

fn digest(token: &str) -> TokenDigest {
    Sha256::digest(token.as_bytes()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// # Attack
    ///
    /// - Attacker: a pod that reaches the gateway's Service
    /// - Act: calls a webhook without the token, or with a token that was replaced
    /// - Promise: 12
    #[tokio::test(start_paused = true)]
    async fn only_the_current_token_proves_a_caller_and_the_replaced_one_for_a_minute() {
        let tokens = PathTokens::default();
        assert!(!tokens.is_known() && !tokens.proves("") && !tokens.proves("a"));
        assert!(!tokens.accept("a") && tokens.is_known());
        assert!(tokens.proves("a") && !tokens.proves("") && !tokens.proves("b"));
        assert!(tokens.accept("b") && !tokens.accept("b"));
        assert!(tokens.proves("a") && tokens.proves("b"));
        tokio::time::advance(REPLACED).await;
        assert!(!tokens.proves("a") && tokens.proves("b"));
    }

    #[test]
    fn tokens_are_not_shown() {
        let tokens = PathTokens::default();
        tokens.accept("secret");
        assert_eq!(format!("{tokens:?}"), "PathTokens(..)");
    }
}
