//! A watcher that does not read.

use std::sync::Arc;

use evacuation_api::EvacuationResponder;
use evacuation_e2e::{
    Scene,
    scene::{Bystander, PATIENCE},
};
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, ServerName, pem::PemObject},
};
use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpSocket, TcpStream},
};
use tokio_rustls::{TlsConnector, client::TlsStream};

use crate::tenant::{delayed, scene, tenant};

/// Size of each change in bytes.
const SIZE: usize = 250_000;
/// Number of changes: 50 MB in all, more than the queue of a watcher and the buffers of a connection hold.
const CHANGES: usize = 200;
/// End of a reply in chunks.
const LAST_CHUNK: &[u8] = b"\r\n0\r\n\r\n";

/// Asks for a watch over a connection of its own, with small buffers, and reads nothing of the reply.
async fn watch(scene: &Scene, token: &str, resource_version: &str) -> TlsStream<TcpStream> {
    let ca = scene.control_plane().pki().ca_pem();
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(ca.as_bytes()).unwrap()).unwrap();
    let config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    let port = scene.platform().apiserver_ports()[0];
    let stream = socket.connect(([127, 0, 0, 1], port).into()).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let mut stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap();
    let request = format!(
        "GET /apis/evacuation.dev/v1alpha1/namespaces/{}/evacuationresponders?watch=true&resourceVersion={resource_version} \
         HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\r\n",
        scene.namespace()
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    stream.flush().await.unwrap();
    stream
}

/// A watcher has a bound on what waits for it.
///
/// # Attack
///
/// - Attacker: a pod with the right to watch
/// - Act: opens watches and reads nothing
/// - Promise: 8
#[tokio::test(flavor = "multi_thread")]
async fn a_watcher_that_does_not_read_is_ended_and_the_server_forgets_what_it_missed() {
    let scene = scene("watcher").await;
    let (beside, tenant, ()) = tokio::join!(Bystander::new(&scene), tenant(&scene), delayed(&scene));
    scene.account("reader").await;
    let account = format!("system:serviceaccount:{}:reader", scene.namespace());
    scene.bind(&account, "ClusterRole", "view").await;
    let right = json!({"group": "evacuation.dev", "resource": "evacuationresponders", "verb": "watch"});
    scene.decided(&account, &right, true).await;
    let token = scene.control_plane().service_account_token(scene.namespace(), "reader", None).await;
    let registered = scene.register("large", "tenant.acme.io/large", json!({})).await;
    let since = registered.metadata.resource_version.unwrap();
    let mut stalled = watch(&scene, &token.unwrap(), &since).await;

    let api: Api<EvacuationResponder> = Api::namespaced(tenant.client.clone(), scene.namespace());
    let padding = "x".repeat(SIZE);
    let changes = async {
        for number in 0..CHANGES {
            let patch = json!({"metadata": {"annotations": {"padding": format!("{number} {padding}")}}});
            api.patch("large", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
        }
    };
    tokio::join!(changes, beside.drains(&scene));
    // The server ends the watch; what it still sends is less than what happened. The last chunk is the end:
    // the connection may stay open for other requests. A closed or reset connection is an end, too.
    let mut read = Vec::new();
    while !read.ends_with(LAST_CHUNK) {
        // The buffers are small, so the rest arrives slowly. A watch that goes on falls silent after it.
        let more = tokio::time::timeout(PATIENCE, stalled.read_buf(&mut read)).await;
        match more.unwrap_or_else(|_| panic!("the server goes on after {} bytes", read.len())) {
            Ok(0) | Err(_) => break,
            Ok(_) => {}
        }
    }
    assert!(read.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&read[..read.len().min(300)]));
    assert!(read.len() < SIZE * CHANGES / 2, "{} bytes were kept for it", read.len());
    scene.left_alone("delayed");
}
