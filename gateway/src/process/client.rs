//! The client of the API.

use std::{path::Path, time::Duration};

use http::{HeaderValue, header::USER_AGENT};
use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};

use super::RunError;

/// Maximum time for connecting: a call is answered within 800 ms.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(500);
/// Name of the gateway in audit logs and in the `metadata.managedFields` of what it writes.
const AGENT: &str = concat!("evacuation-gateway/", env!("CARGO_PKG_VERSION"));

/// Returns a client that retries nothing by itself: the caller of the webhook does.
pub(super) async fn client(kubeconfig: Option<&Path>) -> Result<Client, RunError> {
    let mut config = match kubeconfig {
        Some(path) => {
            let error = |source| RunError::Kubeconfig { path: path.to_owned(), source: Box::new(source) };
            let read = Kubeconfig::read_from(path).map_err(error)?;
            Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await.map_err(error)?
        }
        None => Config::incluster().map_err(|source| RunError::InCluster(Box::new(source)))?,
    };
    config.headers.push((USER_AGENT, HeaderValue::from_static(AGENT)));
    config.default_retry = false;
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    Client::try_from(config).map_err(|source| RunError::Client(Box::new(source)))
}
