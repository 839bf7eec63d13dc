//! The client of the API.

use std::path::Path;

use http::{HeaderValue, header::USER_AGENT};
use kube::Client;
use machinery_client::ConnectError;

/// Returns a client of that agent that retries nothing by itself. kube's own retries would wait after a
/// budget's 429, and hold an attempt beyond its time. Its lists and watches leave unreadable objects out.
pub(super) async fn client(kubeconfig: Option<&Path>, agent: &'static str) -> Result<Client, ConnectError> {
    let mut config = machinery_client::config(kubeconfig).await?;
    config.headers.push((USER_AGENT, HeaderValue::from_static(agent)));
    config.default_retry = false;
    machinery_client::skip_unreadable(&mut config);
    machinery_client::lean_client(config)
}
