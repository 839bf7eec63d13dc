//! The client of the API.

use std::{path::Path, time::Duration};

use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};

use super::RunError;

/// Maximum time for connecting.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

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
    config.default_retry = false;
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    Client::try_from(config).map_err(|source| RunError::Client(Box::new(source)))
}
