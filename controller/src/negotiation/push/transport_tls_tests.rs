//! Services over HTTPS: who is trusted, and what they are shown.

use std::sync::Arc;

use evacuation_api::{Answer, CaBundle, HttpsTrust, ServiceEndpoint};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::{
    ServerConfig,
    pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer},
};
use tokio::{
    io::AsyncWriteExt,
    net::TcpListener,
    sync::mpsc::{UnboundedReceiver, unbounded_channel},
};
use tokio_rustls::TlsAcceptor;

use super::{
    tests::{answer, endpoint_with, http, question, read_request, transport},
    *,
};
use crate::negotiation::push::service::trusting;

const HOST: &str = "failover.shop.svc";

type Authority = CertifiedIssuer<'static, KeyPair>;

fn authority() -> Authority {
    let mut parameters = CertificateParams::default();
    parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(parameters, KeyPair::generate().unwrap()).unwrap()
}

/// A real endpoint with a certificate of that authority for that name, which sends these bytes; without bytes
/// it drips.
async fn endpoint(
    authority: &Authority,
    name: &str,
    reply: Option<String>,
) -> (SocketAddr, UnboundedReceiver<String>) {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new([name.to_owned()]).unwrap().signed_by(&key, authority).unwrap();
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let config = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (requests, received) = unbounded_channel();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let Ok(mut stream) = acceptor.accept(stream).await else {
                continue;
            };
            let _ = requests.send(read_request(&mut stream).await);
            if let Some(reply) = &reply {
                let _ = stream.write_all(reply.as_bytes()).await;
                let _ = stream.shutdown().await;
                continue;
            }
            let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n";
            let _ = stream.write_all(head.as_bytes()).await;
            while stream.write_all(b" ").await.is_ok() && stream.flush().await.is_ok() {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    });
    (address, received)
}

/// The Service at that address, trusted by that authority.
fn service(address: SocketAddr, authority: &Authority) -> Destination {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let trust = HttpsTrust { ca_bundle: CaBundle(authority.pem().into_bytes()) };
    let endpoint =
        ServiceEndpoint { name: "failover".to_owned(), port: address.port(), path: None, https: None };
    Destination {
        host: Some(HOST.to_owned()),
        https: Some(Https {
            config: trusting("shop", &endpoint, &trust.ca_bundle).unwrap(),
            token: "the-token".to_owned(),
        }),
        ..Destination::pod(address, "/evacuation")
    }
}

async fn ask(destination: &Destination) -> Result<Option<ReviewResponse>, PostError> {
    transport().post(destination, question(ReviewAction::Ask), &CancellationToken::new()).await
}

fn good() -> String {
    http("200 OK", "application/json", &answer("e1", "p1"))
}

#[tokio::test]
async fn a_service_that_the_bundle_vouches_for_is_asked_by_its_name_and_shown_the_token() {
    let ca = authority();
    let (address, mut requests) = endpoint(&ca, HOST, Some(good())).await;
    let reply = ask(&service(address, &ca)).await.unwrap().unwrap();
    assert_eq!((reply.answer, reply.delay_seconds), (Answer::Delay, Some(10)));
    let request = requests.recv().await.unwrap().to_ascii_lowercase();
    for line in [
        "post /evacuation http/1.1\r\n".to_owned(),
        "authorization: bearer the-token\r\n".to_owned(),
        format!("host: {HOST}:{}\r\n", address.port()),
    ] {
        assert!(request.contains(&line), "{line:?}: {request}");
    }
}

#[tokio::test]
async fn a_certificate_for_another_name_or_of_another_authority_is_shown_nothing() {
    let (ca, other) = (authority(), authority());
    for (signer, name) in [(&ca, "failover.other.svc"), (&ca, "127.0.0.1"), (&other, HOST)] {
        let (address, mut requests) = endpoint(signer, name, Some(good())).await;
        let error = ask(&service(address, &ca)).await.unwrap_err();
        assert!(matches!(error, PostError::Unreachable { .. }), "{name}: {error}");
        assert!(requests.try_recv().is_err(), "{name} heard the question");
    }
}

#[tokio::test]
async fn a_service_that_speaks_no_tls_hears_nothing_of_the_question() {
    let ca = authority();
    let (address, port, mut requests) = endpoint_with(good()).await;
    let address = SocketAddr::new(address, port);
    assert!(ask(&service(address, &ca)).await.is_err());
    let heard = requests.try_recv().unwrap_or_default();
    assert!(!heard.contains("the-token") && !heard.contains("EvacuationReview"), "{heard}");
}

#[tokio::test]
async fn a_service_in_plain_text_is_shown_no_token() {
    let (address, port, mut requests) = endpoint_with(good()).await;
    let destination = Destination {
        host: Some(HOST.to_owned()),
        ..Destination::pod(SocketAddr::new(address, port), "/evacuation")
    };
    assert!(ask(&destination).await.unwrap().is_some());
    let request = requests.recv().await.unwrap().to_ascii_lowercase();
    assert!(request.contains(&format!("host: {HOST}:{port}")), "{request}");
    assert!(!request.contains("authorization"), "{request}");
}

#[tokio::test]
async fn a_redirect_of_a_service_is_not_followed() {
    let ca = authority();
    let (elsewhere, mut requests) = endpoint(&ca, HOST, Some(good())).await;
    let redirect = format!(
        "HTTP/1.1 302 Found\r\nLocation: https://{HOST}:{}/evacuation\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
        elsewhere.port()
    );
    let (address, _asked) = endpoint(&ca, HOST, Some(redirect)).await;
    let error = ask(&service(address, &ca)).await.unwrap_err().to_string();
    assert!(error.contains(" replied with code 302, location "), "{error}");
    assert!(requests.try_recv().is_err(), "nobody asked where the redirect points");
}

#[tokio::test]
async fn a_service_that_drips_its_reply_times_out() {
    let ca = authority();
    let (address, _requests) = endpoint(&ca, HOST, None).await;
    let result = ask(&service(address, &ca)).await;
    assert!(matches!(result, Err(PostError::Unreachable { source, .. }) if source.is_timeout()));
}
