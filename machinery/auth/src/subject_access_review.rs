//! Authorisation by SubjectAccessReviews.

use std::time::Duration;

use async_trait::async_trait;
use k8s_openapi::api::authorization::v1::{
    NonResourceAttributes, ResourceAttributes as ReviewedResource, SubjectAccessReview,
    SubjectAccessReviewSpec, SubjectAccessReviewStatus,
};
use kube::{Api, Client, api::PostParams};

use crate::{
    Attributes, AuthError, Authorizer, Decision, Verdict,
    review::{AnswerCache, ask},
    user::PRIVILEGED_GROUP,
};

const REVIEW: &str = "the SubjectAccessReview";
/// Time for which a verdict is kept (upstream's `AllowCacheTTL` and `DenyCacheTTL`).
const KEPT_FOR: Duration = Duration::from_secs(10);
/// Number of bytes chosen by the caller from which on a verdict is not kept (upstream's
/// `maxControlledAttrCacheSize`).
const LARGEST_KEPT: usize = 10_000;
/// Paths that need no authorisation (upstream's `AlwaysAllowPaths`): probes have no credentials.
const OPEN_PATHS: [&str; 3] = ["/healthz", "/livez", "/readyz"];

/// Authorises by SubjectAccessReviews.
///
/// Verdicts are kept for 10 s, so that a withdrawn right works for up to that time. The group
/// `system:masters` and the paths `/healthz`, `/livez` and `/readyz` are allowed without a review. RBAC:
/// `system:auth-delegator`.
///
/// For the API groups of [`all_objects_first`](Self::all_objects_first), it asks about all objects before it
/// asks about one. In a SubjectAccessReview an empty name means all objects. So a client with the right to
/// all of them, such as a controller, costs one review and not one for each object.
pub struct SubjectAccessReviewAuthorizer {
    reviews: Api<SubjectAccessReview>,
    verdicts: AnswerCache<Attributes, Decision>,
    all_objects_first: Vec<String>,
}

impl SubjectAccessReviewAuthorizer {
    /// Posts the reviews with this client.
    pub fn new(client: Client) -> Self {
        Self { reviews: Api::all(client), verdicts: AnswerCache::new(size), all_objects_first: Vec::new() }
    }

    /// Asks about all objects of a resource of that API group before it asks about one.
    ///
    /// An authoriser of the cluster that allows all objects and denies some of them by name is not heard for
    /// this group. RBAC has no such rules.
    #[must_use]
    pub fn all_objects_first(mut self, group: &str) -> Self {
        self.all_objects_first.push(group.to_owned());
        self
    }

    /// Returns the kept decision, or that of a review.
    async fn decision(&self, attributes: Attributes) -> Result<Decision, AuthError> {
        self.verdicts.get(attributes.clone(), self.review(&attributes), |_| KEPT_FOR).await
    }

    /// Returns the question about all objects, for a question about one of a group for which it is asked.
    fn about_all_objects(&self, attributes: &Attributes) -> Option<Attributes> {
        let resource = attributes.resource.as_ref().filter(|resource| !resource.name.is_empty())?;
        let resource =
            self.all_objects_first.contains(&resource.group).then(|| resource.clone().named(""))?;
        Some(Attributes { resource: Some(resource), ..attributes.clone() })
    }

    async fn review(&self, attributes: &Attributes) -> Result<Decision, AuthError> {
        let review = SubjectAccessReview { spec: spec(attributes), ..SubjectAccessReview::default() };
        let parameters = PostParams::default();
        let answer = ask(REVIEW, || self.reviews.create(&parameters, &review)).await?;
        Ok(judge(answer.status.unwrap_or_default()))
    }
}

#[async_trait]
impl Authorizer for SubjectAccessReviewAuthorizer {
    async fn authorize(&self, attributes: &Attributes) -> Result<Verdict, AuthError> {
        self.decide(attributes).await.map(|decision| decision.verdict)
    }

    async fn decide(&self, attributes: &Attributes) -> Result<Decision, AuthError> {
        if is_always_allowed(attributes) {
            return Ok(Decision::from(Verdict::Allowed));
        }
        if attributes.controlled_size() >= LARGEST_KEPT {
            return self.review(attributes).await;
        }
        if let Some(all) = self.about_all_objects(attributes)
            && let decision = self.decision(all).await?
            && decision.verdict.is_allowed()
        {
            return Ok(decision);
        }
        self.decision(attributes.clone()).await
    }
}

fn size(attributes: &Attributes, decision: &Result<Decision, AuthError>) -> usize {
    let reason = decision.as_ref().map_or(0, |decision| decision.reason.len());
    attributes.controlled_size() + attributes.user.size() + reason
}

fn is_always_allowed(attributes: &Attributes) -> bool {
    let open = attributes.resource.is_none() && OPEN_PATHS.contains(&attributes.path.as_str());
    open || attributes.user.is_in_group(PRIVILEGED_GROUP)
}

fn spec(attributes: &Attributes) -> SubjectAccessReviewSpec {
    let verb = Some(attributes.verb.clone());
    let user = &attributes.user;
    let resource = attributes.resource.as_ref().map(|resource| ReviewedResource {
        group: Some(resource.group.clone()),
        version: Some(resource.version.clone()),
        resource: Some(resource.resource.clone()),
        subresource: Some(resource.subresource.clone()),
        namespace: Some(resource.namespace.clone()),
        name: Some(resource.name.clone()),
        verb: verb.clone(),
        ..ReviewedResource::default()
    });
    let path =
        resource.is_none().then(|| NonResourceAttributes { path: Some(attributes.path.clone()), verb });
    SubjectAccessReviewSpec {
        user: Some(user.name.clone()),
        uid: user.uid.clone(),
        groups: Some(user.groups.clone()),
        extra: Some(user.extra.clone()),
        resource_attributes: resource,
        non_resource_attributes: path,
    }
}

/// A review without an opinion denies, and so does one that both allows and denies.
fn judge(status: SubjectAccessReviewStatus) -> Decision {
    if status.allowed && !status.denied.unwrap_or_default() {
        return Decision { verdict: Verdict::Allowed, reason: status.reason.unwrap_or_default() };
    }
    let reason = status.reason.filter(|reason| !reason.is_empty()).or(status.evaluation_error);
    Decision::from(Verdict::Denied { reason: reason.unwrap_or_default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_plain_yes_is_a_yes() {
        let denied = |reason: &str| Verdict::Denied { reason: reason.to_owned() };
        let cases = [
            (true, None, "ok", None, Verdict::Allowed),
            (true, Some(false), "", None, Verdict::Allowed),
            (true, Some(true), "torn", None, denied("torn")),
            (false, None, "", None, denied("")),
            (false, None, "", Some("no such role"), denied("no such role")),
            (false, Some(true), "no", Some("why"), denied("no")),
        ];
        for (allowed, refused, reason, error, verdict) in cases {
            let status = SubjectAccessReviewStatus {
                allowed,
                denied: refused,
                reason: Some(reason.to_owned()),
                evaluation_error: error.map(ToOwned::to_owned),
            };
            assert_eq!(judge(status.clone()).verdict, verdict, "{status:?}");
        }
    }
}
