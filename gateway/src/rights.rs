//! The right of a caller to force a deletion.

use evacuation_api::{Evacuation, GROUP, VERSION};
use kube::Client;
use machinery_auth::{Attributes, AuthError, Authorizer, ResourceAttributes, SubjectAccessReviewAuthorizer};

use crate::call::Call;

/// Checks the rights of callers by SubjectAccessReviews, whose verdicts are kept for some seconds.
pub(crate) struct Rights(SubjectAccessReviewAuthorizer);

impl Rights {
    /// Returns a check by that client.
    pub(crate) fn new(client: Client) -> Self {
        Self(SubjectAccessReviewAuthorizer::new(client))
    }

    /// Returns true when the caller holds the verb `override` on the Evacuations of the pod's namespace.
    ///
    /// # Errors
    ///
    /// There is no verdict.
    pub(crate) async fn may_override(&self, call: &Call) -> Result<bool, AuthError> {
        let resource =
            ResourceAttributes::new(GROUP, VERSION, Evacuation::PLURAL).in_namespace(&call.namespace);
        let attributes = Attributes::of_resource(call.user.clone(), "override", resource);
        Ok(self.0.authorize(&attributes).await?.is_allowed())
    }
}
