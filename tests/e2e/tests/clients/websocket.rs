//! Watches over WebSocket, as consoles in browsers open them: through kube-apiserver, and of the API server
//! itself.

use std::{sync::Arc, time::Duration};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use evacuation_api::EvacuationResponder;
use evacuation_e2e::Scene;
use futures::StreamExt;
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, ServerName, pem::PemObject},
};
use serde_json::{Value, json};
use tokio::{net::TcpStream, time::timeout};
use tokio_rustls::{TlsConnector, client::TlsStream};
use tokio_tungstenite::{
    WebSocketStream, client_async,
    tungstenite::{Message, client::IntoClientRequest},
};

use crate::workbench::Workbench;

const PATIENCE: Duration = Duration::from_mins(2);
/// Subprotocol that consoles offer besides the token.
const PROTOCOL: &str = "base64.binary.k8s.io";

type Socket = WebSocketStream<TlsStream<TcpStream>>;

/// Returns the token of a new service account that may watch that resource.
pub(crate) async fn console_token(bench: &Workbench, resource: &str) -> String {
    bench.account("console").await;
    let account = format!("system:serviceaccount:{}:console", bench.namespace());
    bench.bind(&account, "ClusterRole", "view").await;
    let right = json!({"group": "evacuation.dev", "resource": resource, "verb": "watch"});
    bench.decided(&account, &right, true).await;
    bench.control_plane().service_account_token(bench.namespace(), "console", None).await.unwrap()
}

/// Opens a WebSocket as a browser does: with an origin, and the token among the subprotocols.
async fn connect(scene: &Scene, port: u16, path: &str, token: &str) -> Socket {
    let ca = scene.control_plane().pki().ca_pem();
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(ca.as_bytes()).unwrap()).unwrap();
    let config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    let stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap();
    let mut request = format!("wss://localhost:{port}{path}").into_client_request().unwrap();
    let token = URL_SAFE_NO_PAD.encode(token);
    let protocols = format!("base64url.bearer.authorization.k8s.io.{token}, {PROTOCOL}");
    request.headers_mut().insert("sec-websocket-protocol", protocols.parse().unwrap());
    request.headers_mut().insert("origin", "https://console.acme.io".parse().unwrap());
    let (socket, response) = timeout(PATIENCE, client_async(request, stream)).await.unwrap().unwrap();
    assert_eq!(response.headers()["sec-websocket-protocol"], PROTOCOL);
    socket
}

async fn event(socket: &mut Socket) -> Value {
    loop {
        let message =
            timeout(PATIENCE, socket.next()).await.unwrap().expect("an event, not the end").unwrap();
        if let Message::Text(text) = message {
            assert!(text.ends_with('\n'), "as kube-apiserver ends its own: {text}");
            return serde_json::from_str(&text).unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_console_watches_through_kube_apiserver_and_directly() {
    let bench = Workbench::new("websocket").await;
    let token = console_token(&bench, "evacuationresponders").await;
    bench.register("db", "db.acme.io/failover", json!({})).await;
    let kube = bench.control_plane().server().rsplit(':').next().unwrap().parse().unwrap();
    let own = bench.platform().apiserver_ports()[0];
    let namespace = bench.namespace();
    let path =
        format!("/apis/evacuation.dev/v1alpha1/namespaces/{namespace}/evacuationresponders?watch=true");
    let mut sockets = [connect(&bench, kube, &path, &token).await, connect(&bench, own, &path, &token).await];
    for socket in &mut sockets {
        let event = event(socket).await;
        assert_eq!((&event["type"], &event["object"]["metadata"]["name"]), (&json!("ADDED"), &json!("db")));
    }
    let api: Api<EvacuationResponder> = bench.api();
    for round in ["one", "two"] {
        let change = Patch::Merge(json!({"metadata": {"annotations": {"round": round}}}));
        api.patch("db", &PatchParams::default(), &change).await.unwrap();
        for socket in &mut sockets {
            let event = event(socket).await;
            assert_eq!(event["type"], "MODIFIED");
            assert_eq!(event["object"]["metadata"]["annotations"]["round"], round);
        }
    }
    for mut socket in sockets {
        socket.close(None).await.unwrap();
        let rest = timeout(PATIENCE, socket.collect::<Vec<_>>()).await.expect("the server closes, too");
        assert!(matches!(rest.first(), Some(Ok(Message::Close(_))) | None), "{rest:?}");
    }

    // The same client on a kind of kube-apiserver's own.
    let path = format!("/api/v1/namespaces/{namespace}/pods?watch=true");
    let mut socket = connect(&bench, kube, &path, &token).await;
    assert_eq!(event(&mut socket).await["object"]["kind"], "Pod");
    drop(socket);
    bench.close().await;
}
