//! Callers with a bearer token.

use std::time::Duration;

use async_trait::async_trait;
use http::{HeaderMap, header::AUTHORIZATION};
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, TokenReviewStatus};
use kube::{Api, Client, api::PostParams};
use rustls::pki_types::CertificateDer;
use sha2::{Digest, Sha256};

use crate::{
    AuthError, Authenticator, UserInfo,
    review::{AnswerCache, ask},
};

const CREDENTIAL: &str = "bearer token";
const REVIEW: &str = "the TokenReview";
/// Time for which an accepted token is not reviewed again (upstream's `CacheTTL`).
const ACCEPTED_FOR: Duration = Duration::from_secs(10);
/// Time for which a rejected token is not reviewed again. It is short, because a token may become valid when
/// kube-apiserver's caches catch up. It is not zero, so that a client in a loop does not load kube-apiserver.
const REJECTED_FOR: Duration = Duration::from_secs(1);

/// Authenticates callers by a TokenReview of their bearer token.
///
/// Accepted tokens are cached for 10 s and rejected ones for 1 s, by their SHA-256. RBAC:
/// `system:auth-delegator`.
pub struct TokenAuthenticator {
    reviews: Api<TokenReview>,
    answers: AnswerCache<[u8; 32], Result<UserInfo, String>>,
}

impl TokenAuthenticator {
    /// Posts the reviews with this client.
    pub fn new(client: Client) -> Self {
        Self { reviews: Api::all(client), answers: AnswerCache::new(size) }
    }

    async fn review(&self, token: &str) -> Result<Result<UserInfo, String>, AuthError> {
        let review = TokenReview {
            spec: TokenReviewSpec { token: token.to_owned(), audiences: None },
            ..TokenReview::default()
        };
        let parameters = PostParams::default();
        let answer = ask(REVIEW, || self.reviews.create(&parameters, &review)).await?;
        Ok(judge(answer.status.unwrap_or_default()))
    }
}

#[async_trait]
impl Authenticator for TokenAuthenticator {
    async fn authenticate(
        &self,
        headers: &HeaderMap,
        _peer: &[CertificateDer<'static>],
    ) -> Result<Option<UserInfo>, AuthError> {
        let Some(token) = bearer_token(headers) else {
            return Ok(None);
        };
        let keep = |judgement: &Result<_, _>| {
            if judgement.is_ok() { ACCEPTED_FOR } else { REJECTED_FOR }
        };
        let judgement = self.answers.get(Sha256::digest(token).into(), self.review(token), keep).await?;
        judgement.map(Some).map_err(|reason| AuthError::invalid(CREDENTIAL, reason))
    }
}

fn size(_: &[u8; 32], answer: &Result<Result<UserInfo, String>, AuthError>) -> usize {
    match answer {
        Ok(Ok(user)) => user.size(),
        Ok(Err(reason)) => reason.len(),
        Err(_) => 0,
    }
}

/// Returns the token of the `Authorization` header; `None` when there is none, or credentials of another
/// scheme.
fn bearer_token(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(AUTHORIZATION)?.to_str().ok()?;
    let (scheme, rest) = value.trim().split_once(' ')?;
    // Text after the token is ignored, and a second space before it makes it empty: both as upstream.
    let token = rest.split(' ').next()?;
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

fn judge(status: TokenReviewStatus) -> Result<UserInfo, String> {
    if !status.authenticated.unwrap_or_default() {
        return Err(status.error.unwrap_or_else(|| "kube-apiserver does not know it".to_owned()));
    }
    let user = status.user.unwrap_or_default();
    let name = user.username.filter(|name| !name.is_empty()).ok_or("kube-apiserver named no user for it")?;
    let extra = user.extra.unwrap_or_default().into_iter().map(|(key, values)| (key.to_lowercase(), values));
    Ok(UserInfo {
        name,
        uid: user.uid.filter(|uid| !uid.is_empty()),
        groups: user.groups.unwrap_or_default(),
        extra: extra.collect(),
    })
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn the_token_is_what_follows_the_word_bearer() {
        let cases = [
            ("Bearer abc", Some("abc")),
            ("bearer abc", Some("abc")),
            ("  Bearer abc  ", Some("abc")),
            ("Bearer abc def", Some("abc")),
            ("Bearer  abc", None),
            ("Bearer", None),
            ("Bearer ", None),
            ("Basic abc", None),
            ("", None),
        ];
        for (value, token) in cases {
            let headers = HeaderMap::from_iter([(AUTHORIZATION, HeaderValue::from_static(value))]);
            assert_eq!(bearer_token(&headers), token, "{value:?}");
        }
        assert_eq!(bearer_token(&HeaderMap::new()), None);
    }

    #[test]
    fn a_review_that_names_nobody_authenticates_nobody() {
        let nameless = TokenReviewStatus { authenticated: Some(true), ..TokenReviewStatus::default() };
        assert!(judge(nameless).is_err());
        assert!(judge(TokenReviewStatus::default()).is_err());
    }
}
