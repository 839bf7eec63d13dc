//! kube's stack of layers, on a connector with `TCP_NODELAY` and keepalive, and below one that drops managed
//! fields.

use std::{error::Error, time::Duration};

use hyper_timeout::TimeoutConnector;
use hyper_util::{
    client::legacy::{Builder, connect::HttpConnector},
    rt::TokioExecutor,
};
use kube::{
    Client, Config,
    client::{Body, ClientBuilder, ConfigExt, retry::RetryPolicy},
};
use rustls::crypto::CryptoProvider;
use tower::{BoxError, ServiceBuilder, retry::RetryLayer};
use tower_http::decompression::DecompressionLayer;

use crate::{ConnectError, managed_fields::read};

/// Time without a packet after which the peer is asked whether it is there, the pause between two of these
/// probes, and their number.
const KEEPALIVE: (Duration, Duration, u32) = (Duration::from_secs(30), Duration::from_secs(10), 3);

/// Returns a client that sends each request at once, and notices within a minute that its peer is gone;
/// otherwise as kube's `Client::try_from` makes it. Behind a proxy it is kube's own. It logs no calls, and
/// does not know until when a client certificate is valid. The process gets `ring` as its provider of
/// cryptography, unless it has one.
///
/// # Errors
///
/// The certificates, the token file or the proxy of the configuration cannot be used.
pub fn client(config: Config) -> Result<Client, ConnectError> {
    build(config, false)
}

/// Returns the same client, which drops each `metadata.managedFields` from the JSON that it reads. An object
/// that is written back without its own keeps the stored ones.
///
/// # Errors
///
/// As [`client`].
pub fn lean_client(config: Config) -> Result<Client, ConnectError> {
    build(config, true)
}

fn build(config: Config, is_lean: bool) -> Result<Client, ConnectError> {
    // Without a default, rustls panics when the app is built with two providers.
    if CryptoProvider::get_default().is_none() {
        let _ = rustls::crypto::ring::default_provider().install_default();
    }
    if config.proxy_url.is_some() {
        return Client::try_from(config).map_err(failed);
    }
    let mut connector =
        TimeoutConnector::new(config.rustls_https_connector_with_connector(tcp()).map_err(failed)?);
    connector.set_connect_timeout(config.connect_timeout);
    connector.set_read_timeout(config.read_timeout);
    connector.set_write_timeout(config.write_timeout);
    connector.set_reset_reader_on_write(config.reset_reader_on_write);
    let connections = Builder::new(TokioExecutor::new()).build::<_, Body>(connector);
    let service = ServiceBuilder::new()
        .map_response(move |response| read(response, is_lean))
        .layer(config.base_uri_layer())
        .layer(DecompressionLayer::new().no_br().no_deflate().no_zstd().gzip(!config.disable_compression))
        .option_layer(config.default_retry.then(|| RetryLayer::new(RetryPolicy::server_retry())))
        .option_layer(config.auth_layer().map_err(failed)?)
        .layer(config.extra_headers_layer().map_err(failed)?)
        .map_err(BoxError::from)
        .service(connections);
    Ok(ClientBuilder::new(service, config.default_namespace).build())
}

/// A connector that does not hold a small packet back until the one before it was acknowledged, and whose
/// connections end when the peer's machine, or the load balancer before it, is gone without a word.
fn tcp() -> HttpConnector {
    let mut connector = HttpConnector::new();
    connector.enforce_http(false);
    connector.set_nodelay(true);
    let (time, interval, retries) = KEEPALIVE;
    connector.set_keepalive(Some(time));
    connector.set_keepalive_interval(Some(interval));
    connector.set_keepalive_retries(Some(retries));
    connector
}

fn failed(source: impl Error + Send + Sync + 'static) -> ConnectError {
    ConnectError::Client(Box::new(source))
}

#[cfg(test)]
mod tests {
    use std::{
        convert::Infallible,
        sync::atomic::{AtomicUsize, Ordering},
    };

    use bytes::Bytes;
    use http::{HeaderName, HeaderValue, Request, Response, StatusCode, Uri};
    use http_body_util::Full;
    use hyper::{body::Incoming, server::conn::http1, service::service_fn};
    use hyper_util::rt::TokioIo;
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::{Api, config::AuthInfo};
    use serde_json::json;
    use socket2::SockRef;
    use tokio::net::TcpListener;
    use tower::ServiceExt;

    use super::*;

    /// Requests since the start of a test's server.
    static REQUESTS: AtomicUsize = AtomicUsize::new(0);

    /// Rejects the first request as overloaded. Replies to the others with a ConfigMap of what it was sent.
    async fn reply(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
        if REQUESTS.fetch_add(1, Ordering::SeqCst) == 0 {
            let busy = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 503});
            let mut response = Response::new(Full::from(busy.to_string()));
            *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
            return Ok(response);
        }
        let header =
            |name: &str| request.headers().get(name).map_or("", |value| value.to_str().unwrap_or("?"));
        let found = json!({"metadata": {"name": "seen"}, "data": {
            "path": request.uri().path(),
            "authorization": header("authorization"),
            "accept-encoding": header("accept-encoding"),
            "x-extra": header("x-extra"),
        }});
        Ok(Response::new(Full::from(found.to_string())))
    }

    async fn serve(listener: TcpListener) {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service_fn(reply)));
        }
    }

    #[tokio::test]
    async fn a_connection_does_not_wait_for_acknowledgements_and_asks_whether_its_peer_is_there() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a listener");
        let uri: Uri =
            format!("http://{}", listener.local_addr().expect("an address")).parse().expect("a URL");
        let connection = tcp().oneshot(uri).await.expect("a connection");
        assert!(connection.inner().nodelay().expect("the option"));
        let socket = SockRef::from(connection.inner());
        assert!(socket.keepalive().expect("the option"));
        let (time, interval, retries) = KEEPALIVE;
        assert_eq!(socket.tcp_keepalive_time().expect("the option"), time);
        assert_eq!(socket.tcp_keepalive_interval().expect("the option"), interval);
        assert_eq!(socket.tcp_keepalive_retries().expect("the option"), retries);
    }

    #[tokio::test]
    async fn a_request_has_what_the_configuration_says_and_is_retried_when_it_says_so() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a listener");
        let address = listener.local_addr().expect("an address");
        let server = tokio::spawn(serve(listener));
        let mut config = Config::new(format!("http://{address}/base").parse().expect("a URL"));
        config.auth_info = AuthInfo { token: Some("secret".to_owned().into()), ..AuthInfo::default() };
        config.headers.push((HeaderName::from_static("x-extra"), HeaderValue::from_static("yes")));
        config.disable_compression = true;
        config.default_retry = false;

        let api: Api<ConfigMap> = Api::namespaced(client(config.clone()).expect("a client"), "shop");
        let refused = api.get("seen").await.expect_err("the first request is refused");
        assert!(matches!(refused, kube::Error::Api(status) if status.code == 503));

        REQUESTS.store(0, Ordering::SeqCst);
        config.default_retry = true;
        let api: Api<ConfigMap> = Api::namespaced(client(config).expect("a client"), "shop");
        let seen = api.get("seen").await.expect("the second request succeeds").data.unwrap_or_default();
        let seen: Vec<(&str, &str)> = seen.iter().map(|(key, value)| (&**key, &**value)).collect();
        assert_eq!(
            seen,
            [
                ("accept-encoding", ""),
                ("authorization", "Bearer secret"),
                ("path", "/base/api/v1/namespaces/shop/configmaps/seen"),
                ("x-extra", "yes")
            ]
        );
        server.abort();
    }

    #[test]
    fn a_proxy_is_left_to_kube_which_says_what_it_lacks() {
        let mut config = Config::new(Uri::from_static("https://127.0.0.1:1"));
        config.proxy_url = Some(Uri::from_static("http://127.0.0.1:2"));
        let error = client(config).err().expect("kube is built without proxies");
        let cause = error.source().expect("a cause").to_string();
        assert!(cause.contains("proxy"), "{cause}");
    }
}
