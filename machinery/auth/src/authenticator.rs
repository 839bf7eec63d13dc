//! Authenticators: the trait, and combinations of them.

use async_trait::async_trait;
use http::HeaderMap;
use rustls::pki_types::CertificateDer;

use crate::{AuthError, UserInfo, user::AUTHENTICATED_GROUP, user::UNAUTHENTICATED_GROUP};

/// Identifies the caller of a request.
#[async_trait]
pub trait Authenticator: Send + Sync {
    /// Returns the caller of a request with these headers. `peer` are the certificates that the client of the
    /// connection presented, its own first; it is empty when the client presented none.
    ///
    /// `None` means that the request carries no credentials that this authenticator knows.
    ///
    /// # Errors
    ///
    /// [`AuthError::InvalidCredentials`] when the request carries such credentials and they are not valid.
    /// [`AuthError::Unavailable`] when the authenticator could not check them.
    async fn authenticate(
        &self,
        headers: &HeaderMap,
        peer: &[CertificateDer<'static>],
    ) -> Result<Option<UserInfo>, AuthError>;
}

/// Asks authenticators in turn. The first that knows the caller decides.
///
/// After a failure the next authenticator is asked. A certificate that the front proxy's CA did not sign may
/// be a user's own. When none knows the caller, the worst failure is returned: an outage precedes bad
/// credentials, because without the outage the result could differ.
pub struct AuthenticatorUnion(Vec<Box<dyn Authenticator>>);

impl AuthenticatorUnion {
    /// Combines authenticators, in this order.
    pub fn new(authenticators: Vec<Box<dyn Authenticator>>) -> Self {
        Self(authenticators)
    }
}

#[async_trait]
impl Authenticator for AuthenticatorUnion {
    async fn authenticate(
        &self,
        headers: &HeaderMap,
        peer: &[CertificateDer<'static>],
    ) -> Result<Option<UserInfo>, AuthError> {
        let mut failure: Option<AuthError> = None;
        for authenticator in &self.0 {
            match authenticator.authenticate(headers, peer).await {
                Ok(Some(user)) => return Ok(Some(user)),
                // Of several bad credentials the last is reported. It belongs to the authenticator that a
                // direct caller most likely meant.
                Err(error) if failure.as_ref().is_none_or(AuthError::is_callers_fault) => {
                    failure = Some(error);
                }
                Ok(None) | Err(_) => {}
            }
        }
        failure.map_or(Ok(None), Err)
    }
}

/// Adds `system:authenticated` to the groups of each user that another authenticator knows.
///
/// As upstream, the anonymous user does not get it. Neither does a user in `system:authenticated` or
/// `system:unauthenticated` already: kube-apiserver forwards either.
pub struct AuthenticatedGroup<A>(A);

impl<A: Authenticator> AuthenticatedGroup<A> {
    /// Adds the group to the users that `authenticator` knows.
    pub fn new(authenticator: A) -> Self {
        Self(authenticator)
    }
}

#[async_trait]
impl<A: Authenticator> Authenticator for AuthenticatedGroup<A> {
    async fn authenticate(
        &self,
        headers: &HeaderMap,
        peer: &[CertificateDer<'static>],
    ) -> Result<Option<UserInfo>, AuthError> {
        let mut user = self.0.authenticate(headers, peer).await?;
        if let Some(user) = &mut user {
            let placed = user.is_in_group(AUTHENTICATED_GROUP) || user.is_in_group(UNAUTHENTICATED_GROUP);
            if !placed && !user.is_anonymous() {
                user.groups.push(AUTHENTICATED_GROUP.to_owned());
            }
        }
        Ok(user)
    }
}

/// Treats each caller that another authenticator does not know as `system:anonymous`. The authorizer decides
/// what the anonymous user may do.
///
/// A caller with invalid credentials is still rejected. A failure never becomes the anonymous user.
pub struct Anonymous<A>(A);

impl<A: Authenticator> Anonymous<A> {
    /// Treats the callers that `authenticator` does not know as anonymous.
    pub fn new(authenticator: A) -> Self {
        Self(authenticator)
    }
}

impl Anonymous<AuthenticatorUnion> {
    /// Treats every caller as anonymous: for servers on loopback.
    pub fn everyone() -> Self {
        Self(AuthenticatorUnion::new(Vec::new()))
    }
}

#[async_trait]
impl<A: Authenticator> Authenticator for Anonymous<A> {
    async fn authenticate(
        &self,
        headers: &HeaderMap,
        peer: &[CertificateDer<'static>],
    ) -> Result<Option<UserInfo>, AuthError> {
        let user = self.0.authenticate(headers, peer).await?;
        Ok(Some(user.unwrap_or_else(UserInfo::anonymous)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Says(Result<Option<&'static str>, AuthError>);

    #[async_trait]
    impl Authenticator for Says {
        async fn authenticate(
            &self,
            _headers: &HeaderMap,
            _peer: &[CertificateDer<'static>],
        ) -> Result<Option<UserInfo>, AuthError> {
            let user = |name: &str| UserInfo { name: name.to_owned(), ..UserInfo::default() };
            self.0.clone().map(|name| name.map(user))
        }
    }

    #[tokio::test]
    async fn the_first_authenticator_that_knows_the_caller_wins_or_else_the_worst_failure() {
        let bad = |reason: &str| Says(Err(AuthError::invalid("password", reason)));
        let down = || Says(Err(AuthError::unavailable("the review", std::fmt::Error)));
        let (none, jane) = (|| Says(Ok(None)), || Says(Ok(Some("jane"))));
        let cases = [
            (vec![], "nobody"),
            (vec![none(), none()], "nobody"),
            (vec![none(), jane(), Says(Ok(Some("joe")))], "jane"),
            (vec![bad("1"), down(), jane()], "jane"),
            (vec![bad("1"), bad("2"), none()], "the password was not accepted: 2"),
            (vec![bad("1"), down()], "the review failed"),
            (vec![down(), bad("1")], "the review failed"),
        ];
        for (number, (says, expected)) in cases.into_iter().enumerate() {
            let boxed = says.into_iter().map(|says| Box::new(says) as Box<dyn Authenticator>);
            let union = AuthenticatorUnion::new(boxed.collect());
            let said = match union.authenticate(&HeaderMap::new(), &[]).await {
                Ok(Some(user)) => user.name,
                Ok(None) => "nobody".to_owned(),
                Err(error) => error.to_string(),
            };
            assert_eq!(said, expected, "case {number}");
        }
    }
}
