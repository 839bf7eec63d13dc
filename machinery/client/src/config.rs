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

/// Maximum time without a byte of a reply. A watch of kube ends before, after 290 s. Without it, a server
/// that took a request and is silent since is waited for without an end.
const READ_TIMEOUT: Duration = Duration::from_mins(5);

/// Header of lists and watches about objects that the server cannot read.
const UNREADABLE_OBJECTS: HeaderName = HeaderName::from_static("unreadable-objects");

/// Value of that header.
const SKIP: HeaderValue = HeaderValue::from_static("skip");

/// Returns the configuration of that kubeconfig, else of the pod's own service account. A connection must be
/// open after 5 s, and fails when a reply is silent for 5 minutes.
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
    config.read_timeout = Some(READ_TIMEOUT);
    config.reset_reader_on_write = true;
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
    use k8s_openapi::api::core::v1::Pod;
    use kube::{Api, api::ListParams};
    use serde_json::json;
    use tokio::{io::AsyncReadExt, net::TcpListener, time::timeout};

    use super::*;

    /// Returns a kubeconfig for that server.
    fn kubeconfig(address: std::net::SocketAddr) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "c", "cluster": {"server": format!("http://{address}")}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "users": [{"name": "u", "user": {}}],
        });
        std::fs::write(file.path(), config.to_string()).expect("written");
        file
    }

    #[tokio::test]
    async fn a_request_whose_server_is_silent_fails_in_the_end() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a listener");
        let file = kubeconfig(listener.local_addr().expect("an address"));
        let config = config(Some(file.path())).await.expect("a configuration");
        let pods: Api<Pod> = Api::all(crate::client(config).expect("a client"));
        let list = tokio::spawn(async move { pods.list(&ListParams::default()).await.map(drop) });
        let (mut silent, _) = listener.accept().await.expect("a connection");
        silent.read_exact(&mut [0; 4]).await.expect("a request");
        tokio::time::pause();
        let failed = timeout(2 * READ_TIMEOUT, list).await.expect("it ended").expect("no panic");
        assert!(failed.is_err());
    }

    #[tokio::test]
    async fn a_kubeconfig_that_cannot_be_read_is_named() {
        let path = Path::new("/nonexistent/kubeconfig");
        let error = config(Some(path)).await.expect_err("no such file").to_string();
        assert_eq!(error, "the kubeconfig /nonexistent/kubeconfig cannot be used");
    }
}
