//! The configuration of a client: a kubeconfig, or the pod's own service account.

use std::{path::Path, time::Duration};

use kube::{
    Config,
    config::{KubeConfigOptions, Kubeconfig},
};

use crate::ConnectError;

/// Timeout for opening a connection to the kube-apiserver.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Returns the configuration of that kubeconfig, else of the pod's own service account. A connection must be
/// open after 5 s.
///
/// # Errors
///
/// The kubeconfig cannot be read or used, or the process is not in a pod.
pub async fn config(kubeconfig: Option<&Path>) -> Result<Config, ConnectError> {
    let mut config = match kubeconfig {
        Some(path) => {
            let error = |source| ConnectError::Kubeconfig { path: path.to_owned(), source: Box::new(source) };
            let read = Kubeconfig::read_from(path).map_err(error)?;
            Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await.map_err(error)?
        }
        None => Config::incluster().map_err(|source| ConnectError::InCluster(Box::new(source)))?,
    };
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    Ok(config)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_kubeconfig_that_cannot_be_read_is_named() {
        let path = Path::new("/nonexistent/kubeconfig");
        let error = config(Some(path)).await.expect_err("no such file").to_string();
        assert_eq!(error, "the kubeconfig /nonexistent/kubeconfig cannot be used");
    }
}
