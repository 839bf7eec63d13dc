//! An app with an endpoint, for tests.

use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

/// Answers the first question at an endpoint with Accept for evacuation `e1` and pod `p1`, and closes the
/// endpoint.
pub(crate) async fn accept_once(endpoint: TcpListener) {
    let (mut stream, _) = endpoint.accept().await.unwrap();
    drop(endpoint);
    let mut asked = Vec::new();
    let mut piece = [0; 4096];
    while !asked.ends_with(b"}") {
        let read = stream.read(&mut piece).await.unwrap();
        asked.extend_from_slice(&piece[..read]);
    }
    let body = json!({"apiVersion": "evacuation.dev/v1alpha1", "kind": "EvacuationReview",
                      "response": {"evacuationUid": "e1", "podUid": "p1", "answer": "Accept"}})
    .to_string();
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: ";
    stream.write_all(format!("{head}{}\r\n\r\n{body}", body.len()).as_bytes()).await.unwrap();
}
