//! A relay before a webhook, so that a connection can end just when a question is sent over it.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::SeqCst},
};

use evacuation_e2e::scene::Running;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, copy},
    net::{TcpListener, TcpStream},
};

use crate::webhook::Webhook;

/// A relay to one webhook. It ends when this is dropped.
pub(crate) struct Relay {
    client_config: Value,
    state: Arc<State>,
    _task: Running,
}

#[derive(Default)]
struct State {
    opened: AtomicUsize,
    /// Connections with a lower number end at the next byte of the client.
    ends_below: AtomicUsize,
    cut: AtomicUsize,
}

impl Relay {
    pub(crate) async fn start(webhook: &Webhook) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut client_config = webhook.client_config();
        let url: http::Uri = client_config["url"].as_str().unwrap().parse().unwrap();
        let target = url.authority().unwrap().to_string();
        client_config["url"] = json!(format!("https://{}{}", listener.local_addr().unwrap(), url.path()));
        let state = Arc::<State>::default();
        let shared = state.clone();
        let task = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let number = shared.opened.fetch_add(1, SeqCst);
                tokio::spawn(carry(client, target.clone(), number, shared.clone()));
            }
        });
        Self { client_config, state, _task: task.into() }
    }

    /// The `clientConfig` by which the webhook is called through the relay.
    pub(crate) fn client_config(&self) -> Value {
        self.client_config.clone()
    }

    /// Ends each connection that is open now as soon as the client sends over it.
    pub(crate) fn end_when_used(&self) {
        self.state.ends_below.store(self.state.opened.load(SeqCst), SeqCst);
    }

    /// Number of connections that ended under a question.
    pub(crate) fn cut(&self) -> usize {
        self.state.cut.load(SeqCst)
    }
}

async fn carry(client: TcpStream, target: String, number: usize, state: Arc<State>) {
    let Ok(server) = TcpStream::connect(target).await else { return };
    let ((mut from_client, mut to_client), (mut from_server, mut to_server)) =
        (client.into_split(), server.into_split());
    let back = tokio::spawn(async move { drop(copy(&mut from_server, &mut to_client).await) });
    let back = Running::from(back);
    let mut buffer = [0; 4096];
    while let Ok(read @ 1..) = from_client.read(&mut buffer).await {
        if number < state.ends_below.load(SeqCst) {
            state.cut.fetch_add(1, SeqCst);
            break;
        }
        if to_server.write_all(&buffer[..read]).await.is_err() {
            break;
        }
    }
    drop(back);
}
