//! A Service's endpoint, played by the test at the Service's cluster IP.

use evacuation_e2e::scene::Running;
use std::{net::SocketAddr, sync::Arc};

use controlplane::Identity;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
    sync::mpsc::{UnboundedReceiver, unbounded_channel},
};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        ServerConfig,
        pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    },
};

/// One question as it arrived.
#[derive(Debug)]
pub(crate) struct Asked {
    /// The request's head, in lower case but for the token.
    pub(crate) head: String,
    pub(crate) question: Value,
}

impl Asked {
    /// The token that was shown.
    pub(crate) fn token(&self) -> &str {
        let line = self.head.lines().find_map(|line| {
            let (name, value) = line.split_once(": ")?;
            name.eq_ignore_ascii_case("authorization").then_some(value)
        });
        line.unwrap().strip_prefix("Bearer ").unwrap()
    }
}

/// Serves TLS at that address and accepts every question.
pub(crate) async fn accepting(
    address: SocketAddr,
    identity: &Identity,
) -> (Running, UnboundedReceiver<Asked>) {
    let certificate = CertificateDer::from_pem_slice(identity.certificate_pem.as_bytes()).unwrap();
    let key = PrivateKeyDer::from_pem_slice(identity.key_pem.as_bytes()).unwrap();
    let config =
        ServerConfig::builder().with_no_client_auth().with_single_cert(vec![certificate], key).unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind(address).await.unwrap();
    let (sender, received) = unbounded_channel();
    let task = tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let Ok(mut stream) = acceptor.accept(stream).await else {
                continue;
            };
            let asked = read(&mut stream).await;
            let request = &asked.question["request"];
            let body = json!({"response": {
                "evacuationUid": request["evacuation"]["uid"], "podUid": request["pod"]["uid"], "answer": "Accept",
            }})
            .to_string();
            let head = format!(
                "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
                body.len()
            );
            // Before the answer, so that a test that saw its effect finds the question.
            let _ = sender.send(asked);
            let _ = stream.write_all(format!("{head}{body}").as_bytes()).await;
            let _ = stream.shutdown().await;
        }
    });
    (task.into(), received)
}

async fn read(stream: &mut (impl tokio::io::AsyncRead + Unpin)) -> Asked {
    let mut text = String::new();
    let mut buffer = [0; 4096];
    loop {
        let read = stream.read(&mut buffer).await.unwrap_or(0);
        text.push_str(&String::from_utf8_lossy(&buffer[..read]));
        if let Some((head, body)) = text.split_once("\r\n\r\n")
            && let Ok(question) = serde_json::from_str(body)
        {
            return Asked { head: head.to_owned(), question };
        }
        if read == 0 {
            return Asked { head: text, question: Value::Null };
        }
    }
}
