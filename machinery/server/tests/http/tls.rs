use machinery_auth::{ServingCertificate, server_config};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::support::{Kitchen, Pki, Setup, pot};

const POTS: &str = "/apis/kitchen.dev/v1/namespaces/n/pots";

#[tokio::test]
async fn over_tls_the_authenticators_see_the_clients_certificates() {
    let pki = Pki::new();
    let folder = tempfile::tempdir().expect("a folder");
    let (certificate, key) = pki.serving("localhost");
    let write = |name: &str, pem: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, pem).expect("written");
        path
    };
    let (certificate, key) = (write("serving.crt", &certificate), write("serving.key", &key));
    let shutdown = CancellationToken::new();
    let serving = ServingCertificate::start(certificate, key, shutdown.clone()).await.expect("read");
    let config = server_config(serving).expect("a configuration");
    let kitchen = Kitchen::with(Setup { tls: Some((config, pki.ca_pem())), ..Setup::default() }).await;

    let unknown = kitchen.client_of("").certified(&pki.ca_pem(), None);
    unknown.get(POTS).await.refused(401, "Unauthorized");
    let (certificate, key) = pki.client("anna");
    let pem = format!("{certificate}{key}");
    let known = kitchen.client_of("").certified(&pki.ca_pem(), Some(&pem));
    let created = known.post(POTS, &pot("a", json!({"dish": "soup"}))).await.expect(201);
    assert_eq!(created["spec"]["owner"], "1 certificates");
    shutdown.cancel();
}
