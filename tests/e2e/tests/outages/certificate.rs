//! The serving certificate is replaced on disk.

use evacuation_e2e::{Platform, PodSpec, scene::PATIENCE};
use std::{io::Write, net::TcpStream, sync::Arc};

use controlplane::eventually;
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned,
    pki_types::{CertificateDer, ServerName, pem::PemObject},
};

use crate::worker;

const SERVICE: &str = "evacuation-apiserver.evacuation-system.svc";

/// The certificate that the API server shows.
fn shown(platform: &Platform) -> anyhow::Result<Vec<u8>> {
    let ca = platform.control_plane().pki().ca_pem();
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(ca.as_bytes())?)?;
    let config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    let connection = ClientConnection::new(Arc::new(config), ServerName::try_from(SERVICE)?)?;
    let stream = TcpStream::connect(("127.0.0.1", platform.apiserver_ports()[0]))?;
    let mut stream = StreamOwned::new(connection, stream);
    stream.flush()?;
    let certificates = stream.conn.peer_certificates().unwrap_or_default();
    Ok(certificates.first().map(|first| first.to_vec()).unwrap_or_default())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_serving_certificate_is_shown_without_a_restart() {
    let scene = worker::scene("tls").await;
    let control_plane = scene.control_plane();
    let old = shown(scene.platform()).unwrap();
    let process = scene.platform().apiserver().pid();
    let folder = control_plane.folder().subfolder("evacuation-pki").unwrap();
    let identity = control_plane.pki().serving(&[SERVICE, "localhost", "127.0.0.1"]).unwrap();
    let files = identity.write(&folder, "apiserver").unwrap();
    let new = CertificateDer::from_pem_file(&files.certificate).unwrap();

    let reloaded = eventually(PATIENCE, "the new certificate is shown", || async {
        match shown(scene.platform()) {
            Ok(now) if now == new.as_ref() => Ok(()),
            Ok(now) if now == old => Err("the old one".to_owned()),
            other => Err(format!("{other:?}")),
        }
    });
    reloaded.await.unwrap();
    assert_eq!(scene.platform().apiserver().pid(), process, "it was not restarted");
    scene.pods.create("web-0", &PodSpec::default()).await.unwrap();
    let evacuation = scene.evacuate("web-0").await;
    scene.pods.ended(evacuation.name()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_that_cannot_be_read_leaves_the_old_one_in_use() {
    let scene = worker::scene("badtls").await;
    let control_plane = scene.control_plane();
    let old = shown(scene.platform()).unwrap();
    let folder = control_plane.folder().subfolder("evacuation-pki").unwrap();
    let server = scene.platform().apiserver();
    let mark = server.mark().unwrap();
    std::fs::write(folder.join("apiserver.crt"), "no certificate").unwrap();
    let noticed = server.wait_for_log_since(PATIENCE, mark, "certificate");
    noticed.await.unwrap();
    assert_eq!(shown(scene.platform()).unwrap(), old);
    let identity = control_plane.pki().serving(&[SERVICE, "localhost", "127.0.0.1"]).unwrap();
    identity.write(&folder, "apiserver").unwrap();
    let mended = eventually(PATIENCE, "the mended certificate is shown", || async {
        if shown(scene.platform())? == old {
            anyhow::bail!("the old one");
        }
        anyhow::Ok(())
    });
    mended.await.unwrap();
}
