//! The configuration of a client: a kubeconfig, or the pod's own service account.

use std::{path::Path, time::Duration};

use http::{HeaderName, HeaderValue, Request};
use kube::{
    Config,
    config::{KubeConfigOptions, Kubeconfig},
};

use crate::ConnectError;

/// Timeout for opening a connection to the kube-apiserver.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Header of lists and watches about objects that the server cannot read.
const UNREADABLE_OBJECTS: HeaderName = HeaderName::from_static("unreadable-objects");

/// Value of that header.
const SKIP: HeaderValue = HeaderValue::from_static("skip");

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

/// Makes lists and watches leave out the objects that an aggregated API server of this workspace cannot read,
/// where one of them would fail the request otherwise.
///
/// It is for programs that treat an object they do not see as unknown, and not as deleted: they confirm by a
/// read of that object, which fails, before they act on its absence.
pub fn skip_unreadable(config: &mut Config) {
    config.headers.push((UNREADABLE_OBJECTS, SKIP));
}

/// Makes one list or watch leave them out, as [`skip_unreadable`] does with all.
pub fn skips_unreadable<T>(mut request: Request<T>) -> Request<T> {
    request.headers_mut().insert(UNREADABLE_OBJECTS, SKIP);
    request
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
