//! The client of the API.

use std::{path::Path, time::Duration};

use http::{HeaderValue, header::USER_AGENT};
use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};

use super::RunError;

/// Maximum time for connecting.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Name of the controller in audit logs and in the `metadata.managedFields` of what it writes.
const AGENT: &str = concat!("evacuation-controller/", env!("CARGO_PKG_VERSION"));

/// Returns a client that retries nothing by itself. kube's own retries would wait after a budget's 429, and
/// hold an attempt beyond its time.
pub(super) async fn client(kubeconfig: Option<&Path>) -> Result<Client, RunError> {
    let mut config = match kubeconfig {
        Some(path) => {
            let read = Kubeconfig::read_from(path)
                .map_err(|source| RunError::Kubeconfig { path: path.to_owned(), source: Box::new(source) })?;
            Config::from_custom_kubeconfig(read, &KubeConfigOptions::default())
                .await
                .map_err(|source| RunError::Kubeconfig { path: path.to_owned(), source: Box::new(source) })?
        }
        None => Config::incluster().map_err(|source| RunError::InCluster(Box::new(source)))?,
    };
    config.headers.push((USER_AGENT, HeaderValue::from_static(AGENT)));
    config.default_retry = false;
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    Client::try_from(config).map_err(|source| RunError::Client(Box::new(source)))
}
