//! Kubernetes' protobuf: options of deletions, metadata and failures.

use bytes::Bytes;
use serde_json::json;

use crate::support::{Kitchen, pot};

const POTS: &str = "/apis/kitchen.dev/v1/namespaces/n/pots";
const A: &str = "/apis/kitchen.dev/v1/namespaces/n/pots/a";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const METADATA: &str = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
const METADATA_LIST: &str =
    "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";
/// As k8s.io/apimachinery writes them: `propagationPolicy: Background`, all dry runs, and that UID.
const DRY_RUN_OF_ANOTHER: &[u8] =
    b"k8s\0\n\x13\n\x02v1\x12\rDeleteOptions\x12\x16\x12\x03\n\x01u\"\nBackground*\x03All\x1a\0\"\0";
/// The same without the UID.
const DRY_RUN: &[u8] = b"k8s\0\n\x13\n\x02v1\x12\rDeleteOptions\x12\x11\"\nBackground*\x03All\x1a\0\"\0";

fn contains(bytes: &[u8], part: &str) -> bool {
    bytes.windows(part.len()).any(|window| window == part.as_bytes())
}

#[tokio::test]
async fn options_of_a_deletion_are_read_as_go_clients_send_them() {
    let kitchen = Kitchen::open().await;
    let client = kitchen.client();
    client.create_pot("a", json!({"dish": "soup"})).await;
    let delete = async |path: &str, body: &'static [u8]| {
        client.send("DELETE", path, &[("content-type", PROTOBUF)], Bytes::from_static(body)).await
    };
    delete(A, DRY_RUN_OF_ANOTHER).await.refused(409, "Conflict");
    delete(A, DRY_RUN).await.expect(200);
    delete(POTS, DRY_RUN).await.expect(200);
    client.get(A).await.expect(200);
    let malformed: [&[u8]; 3] = [b"{}", b"k8s\0", b"k8s\0\x12\x01\xff"];
    for body in malformed {
        delete(A, body).await.refused(400, "BadRequest");
    }
    let status = client.send("DELETE", A, &[("content-type", "text/html")], "x".into()).await;
    let status = status.refused(415, "UnsupportedMediaType");
    assert!(status["message"].as_str().expect("text").contains(PROTOBUF), "{status}");
    let headers = [("content-type", PROTOBUF)];
    client
        .send("POST", POTS, &headers, Bytes::from_static(DRY_RUN))
        .await
        .refused(415, "UnsupportedMediaType");
}

#[tokio::test]
async fn metadata_is_sent_in_protobuf_and_objects_are_not() {
    let kitchen = Kitchen::open().await;
    let client = kitchen.client();
    let created = client.create_pot("a", json!({"dish": "soup"})).await;
    let uid = created["metadata"]["uid"].as_str().expect("a UID");
    for (path, accept, kind) in
        [(A, METADATA, "PartialObjectMetadata"), (POTS, METADATA_LIST, "PartialObjectMetadataList")]
    {
        let answer = client.get_as(path, accept).await;
        assert_eq!((answer.code, answer.header("content-type")), (200, PROTOBUF));
        assert!(answer.body.starts_with(b"k8s\0"));
        assert!(
            contains(&answer.body, kind) && contains(&answer.body, uid) && !contains(&answer.body, "soup")
        );
    }
    let both = client.get_as(A, &format!("{PROTOBUF},application/json")).await;
    assert_eq!(both.header("content-type"), "application/json");
    both.expect(200);
}

#[tokio::test]
async fn failures_are_sent_in_protobuf_to_clients_that_accept_nothing_else() {
    let kitchen = Kitchen::open().await;
    let client = kitchen.client();
    for (path, code, reason) in [(POTS, 406, "NotAcceptable"), ("/apis/kitchen.dev/v1/none", 404, "NotFound")]
    {
        let answer = client.get_as(path, PROTOBUF).await;
        assert_eq!((answer.code, answer.header("content-type")), (code, PROTOBUF));
        assert!(contains(&answer.body, "Status") && contains(&answer.body, reason));
    }
    // Metadata clients accept failures as JSON only.
    client.get_as(A, METADATA).await.refused(404, "NotFound");
    client.create_pot("a", json!({"dish": "soup"})).await;
    let deleted = client.send("DELETE", A, &[("accept", METADATA)], Bytes::new()).await;
    assert_eq!((deleted.code, deleted.header("content-type")), (200, PROTOBUF));
    assert!(contains(&deleted.body, "Success"));
}

#[tokio::test]
async fn a_watch_of_metadata_sends_frames_with_their_length() {
    let kitchen = Kitchen::open().await;
    let client = kitchen.client();
    client.post(POTS, &pot("a", json!({"dish": "soup"}))).await.expect(201);
    client.post(POTS, &pot("b", json!({"dish": "soup"}))).await.expect(201);
    let query = "watch=1&timeoutSeconds=1&allowWatchBookmarks=true";
    let answer = client.get_as(&format!("{POTS}?{query}"), METADATA_LIST).await;
    assert_eq!(answer.header("content-type"), "application/vnd.kubernetes.protobuf;stream=watch");
    let (mut rest, mut types) = (answer.body, Vec::new());
    while !rest.is_empty() {
        let length = u32::from_be_bytes(rest.split_to(4)[..].try_into().expect("a length"));
        let frame = rest.split_to(usize::try_from(length).expect("a length"));
        types.extend(["ADDED", "BOOKMARK"].into_iter().find(|known| contains(&frame, known)));
        assert!(
            contains(&frame, "k8s\0")
                && contains(&frame, "PartialObjectMetadata")
                && !contains(&frame, "soup")
        );
    }
    assert_eq!(
        types,
        ["ADDED", "ADDED", "BOOKMARK", "BOOKMARK"],
        "the state, its end, and the end of the watch"
    );
}
