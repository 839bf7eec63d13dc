use k8s_openapi::api::authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::{Api, PostParams};

use crate::{ControlPlane, Error, Result};

/// Lifetime of a token in seconds, longer than any test.
const LIFETIME: i64 = 6 * 60 * 60;

impl ControlPlane {
    /// A token of a service account, made by TokenRequest for the API server's own audience.
    ///
    /// With `bound_pod`, a pod's name and UID, it is bound to that pod, as the token that a kubelet mounts
    /// into it: it carries them in the user's extra and ends with the pod.
    ///
    /// # Errors
    ///
    /// Fails when there is no such account or pod.
    pub async fn service_account_token(
        &self,
        namespace: &str,
        name: &str,
        bound_pod: Option<(&str, &str)>,
    ) -> Result<String> {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client()?, namespace);
        let bound_object_ref = bound_pod.map(|(pod, uid)| BoundObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Pod".to_owned()),
            name: Some(pod.to_owned()),
            uid: Some(uid.to_owned()),
        });
        let request = TokenRequest {
            spec: Some(TokenRequestSpec {
                bound_object_ref,
                expiration_seconds: Some(LIFETIME),
                ..TokenRequestSpec::default()
            }),
            ..TokenRequest::default()
        };
        let what = format!("a token of service account {namespace}/{name}");
        let answer = accounts
            .create_token_request(name, &PostParams::default(), &request)
            .await
            .map_err(Error::request("create", what))?;
        Ok(answer.status.and_then(|status| status.token).unwrap_or_default())
    }
}
