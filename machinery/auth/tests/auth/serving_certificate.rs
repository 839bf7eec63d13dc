use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use machinery_auth::{ServingCertificate, server_config};
use rustls::{ServerConfig, pki_types::CertificateDer, version::TLS13};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::{
    certificate::{Ca, Leaf},
    handshake::{client, handshake, presented},
};

/// A server whose certificate is in a folder.
struct Server {
    ca: Ca,
    folder: tempfile::TempDir,
    config: Arc<ServerConfig>,
    shutdown: CancellationToken,
}

impl Server {
    async fn start(first: impl FnOnce(&Ca, &Path)) -> Self {
        let (ca, folder, shutdown) =
            (Ca::new("serving"), tempfile::tempdir().unwrap(), CancellationToken::new());
        first(&ca, folder.path());
        let [certificate, key] = files(folder.path());
        let certificate = ServingCertificate::start(certificate, key, shutdown.clone()).await.unwrap();
        let config = Arc::new(server_config(certificate).unwrap());
        Self { ca, folder, config, shutdown }
    }

    /// Certificate that a client sees now.
    fn presents(&self) -> CertificateDer<'static> {
        let (connection, _) = handshake(client(&self.ca, None, &TLS13), Arc::clone(&self.config)).unwrap();
        presented(connection.peer_certificates()).unwrap().clone()
    }

    async fn presents_soon(&self, leaf: &Leaf) -> bool {
        let start = Instant::now();
        while start.elapsed() < Duration::from_secs(20) {
            if self.presents() == leaf.certificate {
                return true;
            }
            sleep(Duration::from_secs(1)).await;
        }
        false
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shutdown.cancel();
    }
}

fn files(folder: &Path) -> [PathBuf; 2] {
    ["tls.crt", "tls.key"].map(|name| folder.join(name))
}

fn write(leaf: &Leaf, folder: &Path) {
    fs::create_dir_all(folder).unwrap();
    let [certificate, key] = files(folder);
    fs::write(certificate, &leaf.pem).unwrap();
    fs::write(key, &leaf.key_pem).unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_new_pair_is_served_without_a_restart() {
    let server = Server::start(|ca, folder| write(&ca.server("first"), folder)).await;
    let second = server.ca.server("second");
    assert!(server.presents() != second.certificate);
    write(&second, server.folder.path());
    assert!(server.presents_soon(&second).await);
}

#[tokio::test(start_paused = true)]
async fn a_secret_that_kubernetes_swaps_is_followed() {
    // As the kubelet lays volumes out: the files link to `..data/`, which links to a folder with a time as
    // its name.
    let server = Server::start(|ca, folder| {
        write(&ca.server("first"), &folder.join("..1"));
        symlink("..1", folder.join("..data")).unwrap();
        for name in ["tls.crt", "tls.key"] {
            symlink(Path::new("..data").join(name), folder.join(name)).unwrap();
        }
    })
    .await;
    let (folder, second) = (server.folder.path(), server.ca.server("second"));
    write(&second, &folder.join("..2"));
    symlink("..2", folder.join("..data_tmp")).unwrap();
    fs::rename(folder.join("..data_tmp"), folder.join("..data")).unwrap();
    fs::remove_dir_all(folder.join("..1")).unwrap();
    assert!(server.presents_soon(&second).await);
}

#[tokio::test(start_paused = true)]
async fn a_pair_that_cannot_be_used_leaves_the_old_one_until_a_good_one_comes() {
    type Breakage = fn(&Ca, &Path);
    let breakages: [(&str, Breakage); 4] = [
        ("the key of another certificate", |ca, folder| {
            fs::write(folder.join("tls.key"), &ca.server("other").key_pem).unwrap();
        }),
        ("half a certificate", |_, folder| {
            fs::write(folder.join("tls.crt"), "-----BEGIN CERT").unwrap();
        }),
        ("no key", |_, folder| {
            fs::write(folder.join("tls.key"), "").unwrap();
        }),
        ("a missing file", |_, folder| {
            fs::remove_file(folder.join("tls.crt")).unwrap();
        }),
    ];
    for (what, breakage) in breakages {
        let server = Server::start(|ca, folder| write(&ca.server("first"), folder)).await;
        let first = server.presents();
        breakage(&server.ca, server.folder.path());
        sleep(Duration::from_secs(30)).await;
        assert!(server.presents() == first, "{what}");
        let good = server.ca.server("good");
        write(&good, server.folder.path());
        assert!(server.presents_soon(&good).await, "{what}");
    }
}

#[tokio::test]
async fn a_server_does_not_start_without_a_pair() {
    let (ca, folder) = (Ca::new("serving"), tempfile::tempdir().unwrap());
    let [certificate, key] = files(folder.path());
    let missing = ServingCertificate::start(&certificate, &key, CancellationToken::new()).await;
    assert!(missing.unwrap_err().to_string().contains("tls.crt cannot be read"));

    write(&ca.server("first"), folder.path());
    fs::write(&key, &ca.server("other").key_pem).unwrap();
    let mismatch = ServingCertificate::start(&certificate, &key, CancellationToken::new()).await;
    assert!(mismatch.unwrap_err().to_string().contains("make no pair"));
}
