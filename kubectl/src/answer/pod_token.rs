//! A client that is the target pod, by a token that is bound to it.

use anyhow::{Context, bail};
use evacuation_api::Evacuation;
use k8s_openapi::api::{
    authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec},
    core::v1::{Pod, ServiceAccount},
};
use kube::{Api, Client, api::PostParams};

use crate::connection::{NamespacedConnection, bearer};

/// Life of the token, in seconds: the shortest that the API takes.
const TOKEN_SECONDS: i64 = 600;

/// Returns a client that acts as the target pod of the Evacuation.
pub(super) async fn pod_client(
    connection: &NamespacedConnection,
    client: &Client,
    evacuation: &Evacuation,
) -> anyhow::Result<Client> {
    let target = &evacuation.spec.target.pod;
    let full = format!("{}/{}", client.default_namespace(), target.name);
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    let pod = pods.get(&target.name).await.with_context(|| format!("pod {full} cannot be read"))?;
    if pod.metadata.uid != target.uid {
        bail!("pod {full} is gone; the pod of that name is another one");
    }
    let account = pod.spec.and_then(|spec| spec.service_account_name);
    let account = account.unwrap_or_else(|| "default".to_owned());
    let request = TokenRequest {
        spec: Some(TokenRequestSpec {
            bound_object_ref: Some(BoundObjectReference {
                api_version: Some("v1".to_owned()),
                kind: Some("Pod".to_owned()),
                name: Some(target.name.clone()),
                uid: target.uid.clone(),
            }),
            expiration_seconds: Some(TOKEN_SECONDS),
            ..TokenRequestSpec::default()
        }),
        ..TokenRequest::default()
    };
    let accounts: Api<ServiceAccount> = Api::default_namespaced(client.clone());
    let issued = accounts.create_token_request(&account, &PostParams::default(), &request).await;
    let issued = issued.with_context(|| {
        format!("an answer as self takes a token of pod {full}, which cannot be requested")
    })?;
    let token = issued.status.and_then(|status| status.token).context("the API issued no token")?;
    let mut config = connection.config().await?;
    config.auth_info = bearer(&token)?;
    connection.client_of(config)
}
