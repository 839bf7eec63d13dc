use std::time::Duration;

use machinery_auth::{ServingCertificate, server_config};
use serde_json::json;
use tokio::{
    io::copy,
    net::{TcpListener, TcpStream},
};
use tokio_util::sync::CancellationToken;

use crate::support::{Client, Kitchen, Pki, Setup, pot};

const POTS: &str = "/apis/kitchen.dev/v1/namespaces/n/pots";
/// Time that a client without CPU needs for its part of a handshake.
const STALL: Duration = Duration::from_secs(4);

/// Opens a kitchen whose certificate is one of that PKI.
async fn kitchen(pki: &Pki, shutdown: &CancellationToken) -> Kitchen {
    let folder = tempfile::tempdir().expect("a folder");
    let (certificate, key) = pki.serving("localhost");
    let write = |name: &str, pem: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, pem).expect("written");
        path
    };
    let (certificate, key) = (write("serving.crt", &certificate), write("serving.key", &key));
    let serving = ServingCertificate::start(certificate, key, shutdown.clone()).await.expect("read");
    let config = server_config(serving).expect("a configuration");
    Kitchen::with(Setup { tls: Some((config, pki.ca_pem())), ..Setup::default() }).await
}

#[tokio::test]
async fn over_tls_the_authenticators_see_the_clients_certificates() {
    let (pki, shutdown) = (Pki::new(), CancellationToken::new());
    let kitchen = kitchen(&pki, &shutdown).await;
    let unknown = kitchen.client_of("").certified(&pki.ca_pem(), None);
    unknown.get(POTS).await.refused(401, "Unauthorized");
    let (certificate, key) = pki.client("anna");
    let pem = format!("{certificate}{key}");
    let known = kitchen.client_of("").certified(&pki.ca_pem(), Some(&pem));
    let created = known.post(POTS, &pot("a", json!({"dish": "soup"}))).await.expect(201);
    assert_eq!(created["spec"]["owner"], "1 certificates");
    shutdown.cancel();
}

/// Relays one connection to that address. The other side gets nothing of the server for [`STALL`].
async fn relay(listener: TcpListener, address: (&'static str, u16)) {
    let (mut client, _) = listener.accept().await.expect("a connection");
    let mut server = TcpStream::connect(address).await.expect("a server");
    let ((mut from_client, mut to_client), (mut from_server, mut to_server)) =
        (client.split(), server.split());
    let back = async {
        tokio::time::sleep(STALL).await;
        copy(&mut from_server, &mut to_client).await
    };
    // Either end closes both.
    tokio::select! {
        _ = copy(&mut from_client, &mut to_server) => {}
        _ = back => {}
    }
}

#[tokio::test]
async fn a_client_that_stalls_in_its_handshake_loses_no_request() {
    let (pki, shutdown) = (Pki::new(), CancellationToken::new());
    let kitchen = kitchen(&pki, &shutdown).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("https://localhost:{}", listener.local_addr().expect("an address").port());
    let relayed = tokio::spawn(relay(listener, kitchen.address()));
    let (certificate, key) = pki.client("anna");
    let client = Client::new(&url, "").certified(&pki.ca_pem(), Some(&format!("{certificate}{key}")));
    client.post(POTS, &pot("a", json!({"dish": "soup"}))).await.expect(201);
    relayed.abort();
    shutdown.cancel();
}
