//! The client of the API.

use std::{path::Path, time::Duration};

use http::{HeaderValue, header::USER_AGENT};
use kube::Client;
use machinery_client::ConnectError;

/// Maximum time for connecting: a call is answered within 800 ms.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(500);
/// Name of the gateway in audit logs and in the `metadata.managedFields` of what it writes.
const AGENT: &str = concat!("evacuation-gateway/", env!("CARGO_PKG_VERSION"));

/// Returns a client that retries nothing by itself: the caller of the webhook does. Its lists and watches
/// leave unreadable objects out.
pub(super) async fn client(kubeconfig: Option<&Path>) -> Result<Client, ConnectError> {
    let mut config = machinery_client::config(kubeconfig).await?;
    config.headers.push((USER_AGENT, HeaderValue::from_static(AGENT)));
    config.default_retry = false;
    machinery_client::skip_unreadable(&mut config);
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    machinery_client::lean_client(config)
}
