//! The client of the API.

use std::path::Path;

use http::{HeaderValue, header::USER_AGENT};
use kube::Client;
use machinery_client::ConnectError;

/// Name of the controller in audit logs and in the `metadata.managedFields` of what it writes.
const AGENT: &str = concat!("evacuation-controller/", env!("CARGO_PKG_VERSION"));

/// Returns a client that retries nothing by itself. kube's own retries would wait after a budget's 429, and
/// hold an attempt beyond its time.
pub(super) async fn client(kubeconfig: Option<&Path>) -> Result<Client, ConnectError> {
    let mut config = machinery_client::config(kubeconfig).await?;
    config.headers.push((USER_AGENT, HeaderValue::from_static(AGENT)));
    config.default_retry = false;
    machinery_client::client(config)
}
