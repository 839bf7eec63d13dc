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

    /// Returns the bearer of a token that was issued for one of these audiences. Without an audience, that of
    /// kube-apiserver counts.
    ///
    /// # Errors
    ///
    /// The token is not valid for these audiences, or kube-apiserver does not answer.
    pub async fn authenticate_for(&self, token: &str, audiences: &[String]) -> Result<UserInfo, AuthError> {
        let keep = |judgement: &Result<_, _>| {
            if judgement.is_ok() { ACCEPTED_FOR } else { REJECTED_FOR }
        };
        let judgement =
            self.answers.get(question(token, audiences), self.review(token, audiences), keep).await?;
        judgement.map_err(|reason| AuthError::invalid(CREDENTIAL, reason))
    }

    async fn review(&self, token: &str, audiences: &[String]) -> Result<Result<UserInfo, String>, AuthError> {
        let audiences = (!audiences.is_empty()).then(|| audiences.to_vec());
        let review = TokenReview {
            spec: TokenReviewSpec { token: token.to_owned(), audiences },
            ..TokenReview::default()
        };
        let parameters = PostParams::default();
        let answer = ask(REVIEW, || self.reviews.create(&parameters, &review)).await?;
        Ok(judge(answer.status.unwrap_or_default(), review.spec.audiences.as_deref()))
    }
}

#[async_trait]
impl Authenticator for TokenAuthenticator {
    async fn authenticate(
        &self,
        headers: &HeaderMap,
        _peer: &[CertificateDer<'static>],
    ) -> Result<Option<UserInfo>, AuthError> {
        let value = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        match value.and_then(bearer_token) {
            Some(token) => self.authenticate_for(token, &[]).await.map(Some),
            None => Ok(None),
        }
    }
}

fn size(_: &[u8; 32], answer: &Result<Result<UserInfo, String>, AuthError>) -> usize {
    match answer {
        Ok(Ok(user)) => user.size(),
        Ok(Err(reason)) => reason.len(),
        Err(_) => 0,
    }
}

/// Digest of a token and the audiences for which it is reviewed. The length of the token separates them.
fn question(token: &str, audiences: &[String]) -> [u8; 32] {
    let mut digest = Sha256::new_with_prefix(token.len().to_le_bytes());
    digest.update(token);
    for audience in audiences {
        digest.update(audience.len().to_le_bytes());
        digest.update(audience);
    }
    digest.finalize().into()
}

/// Returns the token in the value of an `Authorization` header; `None` for credentials of another scheme.
pub fn bearer_token(value: &str) -> Option<&str> {
    let (scheme, rest) = value.trim().split_once(' ')?;
    // Text after the token is ignored, and a second space before it makes it empty: both as upstream.
    let token = rest.split(' ').next()?;
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

fn judge(status: TokenReviewStatus, audiences: Option<&[String]>) -> Result<UserInfo, String> {
    if !status.authenticated.unwrap_or_default() {
        return Err(status.error.unwrap_or_else(|| "kube-apiserver does not know it".to_owned()));
    }
    let issued_for = status.audiences.unwrap_or_default();
    // A reviewer that knows no audiences names none.
    if audiences.is_some_and(|wanted| !wanted.iter().any(|audience| issued_for.contains(audience))) {
        return Err("it was issued for another audience".to_owned());
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
            assert_eq!(bearer_token(value), token, "{value:?}");
        }
    }

    #[test]
    fn a_token_for_another_audience_authenticates_nobody() {
        let status = |audiences: &[&str]| {
            let user = serde_json::json!({"username": "jane"});
            let status = serde_json::json!({"authenticated": true, "audiences": audiences, "user": user});
            serde_json::from_value::<TokenReviewStatus>(status).unwrap()
        };
        let wanted = ["a".to_owned(), "b".to_owned()];
        assert!(judge(status(&["b"]), Some(&wanted)).is_ok());
        assert!(judge(status(&["c"]), Some(&wanted)).is_err());
        assert!(judge(status(&[]), Some(&wanted)).is_err(), "the reviewer knows no audiences");
        assert!(judge(status(&[]), None).is_ok());
        let asked = [vec![], vec!["a".to_owned()], wanted.to_vec(), vec!["ab".to_owned()]];
        let mut digests: Vec<_> = asked.iter().map(|audiences| question("t", audiences)).collect();
        digests.push(question("ta", &[]));
        digests.sort_unstable();
        digests.dedup();
        assert_eq!(digests.len(), 5, "each question has an answer of its own");
    }

    #[test]
    fn a_review_that_names_nobody_authenticates_nobody() {
        let nameless = TokenReviewStatus { authenticated: Some(true), ..TokenReviewStatus::default() };
        assert!(judge(nameless, None).is_err());
        assert!(judge(TokenReviewStatus::default(), None).is_err());
    }
}
