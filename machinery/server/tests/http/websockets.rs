//! Watches over WebSocket, as browsers open them.

use std::time::Duration;

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use futures::{SinkExt, StreamExt};
use machinery_server::ServerOptions;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpSocket, TcpStream},
    time::timeout,
};
use tokio_tungstenite::{
    WebSocketStream, client_async,
    tungstenite::{
        Error, Message,
        client::IntoClientRequest,
        handshake::client::Response,
        protocol::{CloseFrame, frame::coding::CloseCode},
    },
};

use crate::support::{Kitchen, Setup, eventually, pot};

const POTS: &str = "/apis/kitchen.dev/v1/namespaces/n/pots";
const WATCH: &str = "/apis/kitchen.dev/v1/namespaces/n/pots?watch=1";
const PATIENCE: Duration = Duration::from_secs(20);

type Socket = WebSocketStream<TcpStream>;

async fn connect(
    kitchen: &Kitchen,
    path: &str,
    headers: &[(&str, &str)],
) -> Result<(Socket, Response), Error> {
    let stream = TcpStream::connect(kitchen.address()).await.expect("a connection");
    connect_on(stream, kitchen, path, headers).await
}

async fn connect_on(
    stream: TcpStream,
    kitchen: &Kitchen,
    path: &str,
    headers: &[(&str, &str)],
) -> Result<(Socket, Response), Error> {
    let url = format!("{}{path}", kitchen.url().replace("http://", "ws://"));
    let mut request = url.into_client_request().expect("a request");
    for (name, value) in headers {
        let name = http::HeaderName::from_bytes(name.as_bytes()).expect("a name");
        request.headers_mut().append(name, value.parse().expect("a value"));
    }
    timeout(PATIENCE, client_async(request, stream)).await.expect("in time")
}

async fn open(kitchen: &Kitchen, path: &str) -> Socket {
    connect(kitchen, path, &[("x-user", "cook")]).await.expect("a WebSocket").0
}

async fn next(socket: &mut Socket) -> Option<Message> {
    timeout(PATIENCE, socket.next())
        .await
        .expect("a message in time")
        .map(|message| message.expect("a message"))
}

async fn event(socket: &mut Socket) -> Value {
    let message = next(socket).await.expect("a message");
    serde_json::from_str(message.to_text().expect("text")).expect("JSON")
}

async fn watches(kitchen: &Kitchen) -> u64 {
    let text = kitchen.client().get("/metrics").await.text();
    let line = text.lines().find(|line| line.starts_with("apiserver_longrunning_requests"));
    line.and_then(|line| line.rsplit(' ').next()?.parse().ok()).unwrap_or_default()
}

fn refused(result: Result<(Socket, Response), Error>) -> u16 {
    match result.map(drop) {
        Err(Error::Http(response)) => response.status().as_u16(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn each_event_is_a_text_message_and_the_end_of_the_watch_closes_the_socket() {
    let kitchen = Kitchen::open().await;
    let client = kitchen.client();
    client.create_pot("a", json!({"dish": "soup"})).await;
    client.create_pot("b", json!({"dish": "soup"})).await;
    let mut socket = open(&kitchen, &format!("{WATCH}&timeoutSeconds=2&allowWatchBookmarks=true")).await;
    for (event_type, name) in [("ADDED", Some("a")), ("ADDED", Some("b")), ("BOOKMARK", None)] {
        let event = event(&mut socket).await;
        assert_eq!(
            (&event["type"], event["object"]["metadata"]["name"].as_str()),
            (&json!(event_type), name)
        );
    }
    let created = client.create_pot("c", json!({"dish": "soup"})).await;
    assert_eq!(event(&mut socket).await, json!({"type": "ADDED", "object": created}));
    assert_eq!(event(&mut socket).await["type"], "BOOKMARK", "at the end");
    let end = next(&mut socket).await.expect("a message");
    assert_eq!(end, Message::Close(Some(CloseFrame { code: CloseCode::Normal, reason: "".into() })));
    eventually("the watch is over", || async { watches(&kitchen).await == 0 }).await;
}

#[tokio::test]
async fn pings_are_answered_and_all_else_that_a_client_sends_is_dropped() {
    let kitchen = Kitchen::open().await;
    let mut socket = open(&kitchen, WATCH).await;
    for _ in 0..100 {
        socket.feed(Message::text("x".repeat(10_000))).await.expect("sent");
    }
    socket.send(Message::Ping("are you there".into())).await.expect("sent");
    assert_eq!(next(&mut socket).await, Some(Message::Pong("are you there".into())));
    kitchen.client().create_pot("a", json!({"dish": "soup"})).await;
    assert_eq!(event(&mut socket).await["type"], "ADDED");
    socket.close(None).await.expect("closed");
    assert!(matches!(next(&mut socket).await, Some(Message::Close(_))));
    eventually("the watch is over", || async { watches(&kitchen).await == 0 }).await;
}

#[tokio::test]
async fn a_frame_that_is_too_large_closes_the_socket_before_all_of_it_is_read() {
    let kitchen = Kitchen::open().await;
    let mut stream = TcpStream::connect(kitchen.address()).await.expect("a connection");
    let head = format!(
        "GET {WATCH} HTTP/1.1\r\nHost: k\r\nX-User: cook\r\nConnection: keep-alive, Upgrade\r\nUpgrade: WebSocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.expect("sent");
    // A masked text frame that announces 2^40 bytes.
    let frame = [0x81, 0xff, 0, 0, 1, 0, 0, 0, 0, 0, 1, 2, 3, 4];
    stream.write_all(&frame).await.expect("sent");
    stream.write_all(&vec![0; 100_000]).await.expect("sent");
    let mut reply = Vec::new();
    timeout(PATIENCE, stream.read_to_end(&mut reply)).await.expect("the end in time").expect("a reply");
    let text = String::from_utf8_lossy(&reply);
    assert!(text.starts_with("HTTP/1.1 101"), "{text}");
    assert!(text.contains("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="), "the answer to that key: {text}");
    let close = [&[0x88, 2][..], &1009_u16.to_be_bytes()].concat();
    assert!(reply.ends_with(&close), "{reply:?}");
}

#[tokio::test]
async fn a_client_that_leaves_ends_its_watch() {
    let kitchen = Kitchen::open().await;
    let socket = open(&kitchen, WATCH).await;
    eventually("the watch runs", || async { watches(&kitchen).await == 1 }).await;
    drop(socket);
    eventually("the watch is over", || async { watches(&kitchen).await == 0 }).await;
}

#[tokio::test]
async fn a_client_that_reads_nothing_is_cut_off() {
    let options = ServerOptions { send_timeout: Duration::from_secs(2), ..ServerOptions::default() };
    let kitchen = Kitchen::with(Setup { options, ..Setup::default() }).await;
    let client = kitchen.client();
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.set_recv_buffer_size(4096).expect("a small buffer");
    let address = format!("127.0.0.1:{}", kitchen.address().1).parse().expect("an address");
    let stream = socket.connect(address).await.expect("a connection");
    let deaf = connect_on(stream, &kitchen, WATCH, &[("x-user", "cook")]).await.expect("a WebSocket").0;
    eventually("the watch runs", || async { watches(&kitchen).await == 1 }).await;
    let dish = "soup".repeat(100_000);
    let deadline = tokio::time::Instant::now() + PATIENCE;
    for at in 0.. {
        client.post(POTS, &pot(&format!("p{at}"), json!({"dish": dish}))).await.expect(201);
        if watches(&kitchen).await == 0 {
            break;
        }
        assert!(tokio::time::Instant::now() < deadline, "the watch goes on");
    }
    drop(deaf);
}

#[tokio::test]
async fn limits_rights_and_bad_options_hold_before_the_upgrade() {
    let options = ServerOptions { max_watches_of_one: 1, ..ServerOptions::default() };
    let kitchen = Kitchen::with(Setup { options, ..Setup::default() }).await;
    let cook = [("x-user", "cook")];
    let _first = open(&kitchen, WATCH).await;
    assert_eq!(refused(connect(&kitchen, WATCH, &cook).await), 429);
    assert_eq!(refused(connect(&kitchen, &format!("{WATCH}&labelSelector=!"), &cook).await), 400);
    assert_eq!(refused(connect(&kitchen, &format!("{WATCH}&resourceVersion=x"), &cook).await), 400);
    assert_eq!(refused(connect(&kitchen, "/apis/kitchen.dev/v1/none?watch=1", &cook).await), 404);
    // As upstream: only a watch is upgraded. tungstenite shows any other status as a refusal.
    assert_eq!(refused(connect(&kitchen, POTS, &cook).await), 200);
    let baker = connect(&kitchen, WATCH, &[("x-user", "baker")]).await;
    assert!(baker.is_ok(), "another caller is served");
}

#[tokio::test]
async fn a_token_that_comes_as_a_subprotocol_authenticates_and_is_not_sent_back() {
    let kitchen = Kitchen::open().await;
    let bearer =
        |token: &str| format!("base64url.bearer.authorization.k8s.io.{}", URL_SAFE_NO_PAD.encode(token));
    let with = |protocols: String| {
        let kitchen = &kitchen;
        async move { connect(kitchen, WATCH, &[("sec-websocket-protocol", protocols.as_str())]).await }
    };
    let (_, response) = with(format!("{}, base64.binary.k8s.io", bearer("slow"))).await.expect("a WebSocket");
    assert_eq!(response.headers()["sec-websocket-protocol"], "base64.binary.k8s.io");
    assert_eq!(refused(with(bearer("cook")).await), 401, "no other subprotocol");
    assert_eq!(refused(with(format!("{0},{0},x", bearer("cook"))).await), 401, "two tokens");
    assert_eq!(refused(with(format!("{},x", bearer("a\nb"))).await), 401, "no token");
    let anonymous = with("base64.binary.k8s.io".to_owned()).await;
    assert_eq!(refused(anonymous), 401);
}

#[tokio::test]
async fn the_end_of_the_server_closes_the_socket() {
    let mut kitchen = Kitchen::open().await;
    let mut socket = open(&kitchen, WATCH).await;
    eventually("the watch runs", || async { watches(&kitchen).await == 1 }).await;
    kitchen.close().await;
    assert!(matches!(next(&mut socket).await, Some(Message::Close(_))));
}
