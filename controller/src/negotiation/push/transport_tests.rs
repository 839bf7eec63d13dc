use std::{io::Write, net::IpAddr};

use evacuation_api::{Answer, ObjectIdentity, RefusalPolicy};
use flate2::{Compression, write::GzEncoder};
use serde_json::json;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::mpsc,
};

use super::*;

/// A real endpoint that reads a request whole and then does as it is told.
async fn endpoint_that<F, R>(reply: F) -> (IpAddr, u16, mpsc::UnboundedReceiver<String>)
where
    F: Fn(TcpStream) -> R + Send + Sync + 'static,
    R: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (requests, received) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = requests.send(read_request(&mut stream).await);
            tokio::spawn(reply(stream));
        }
    });
    (address.ip(), address.port(), received)
}

pub(super) async fn read_request(stream: &mut (impl AsyncRead + Unpin)) -> String {
    let mut text = String::new();
    let mut buffer = [0; 4096];
    loop {
        let read = stream.read(&mut buffer).await.unwrap_or(0);
        text.push_str(&String::from_utf8_lossy(&buffer[..read]));
        let length = text
            .to_ascii_lowercase()
            .split("content-length: ")
            .nth(1)
            .and_then(|rest| rest.split("\r\n").next().and_then(|n| n.parse::<usize>().ok()));
        let body = text.split_once("\r\n\r\n").map_or(0, |(_, body)| body.len());
        if read == 0 || length.is_some_and(|length| body >= length) {
            return text;
        }
    }
}

/// An endpoint that sends these bytes and closes.
pub(super) async fn endpoint_with(
    reply: impl Into<Vec<u8>>,
) -> (IpAddr, u16, mpsc::UnboundedReceiver<String>) {
    let reply = reply.into();
    endpoint_that(move |mut stream| {
        let reply = reply.clone();
        async move {
            let _ = stream.write_all(&reply).await;
            let _ = stream.shutdown().await;
        }
    })
    .await
}

pub(super) fn http(code: &str, content_type: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 {code}\r\nContent-Type: {content_type}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    )
}

pub(super) fn answer(evacuation: &str, pod: &str) -> String {
    json!({"response": {"evacuationUid": evacuation, "podUid": pod, "answer": "Delay", "delaySeconds": 10}})
        .to_string()
}

fn identity(uid: &str) -> ObjectIdentity {
    ObjectIdentity { namespace: "ns".into(), name: "db-0".into(), uid: uid.into() }
}

pub(super) fn question(action: ReviewAction) -> ReviewRequest {
    ReviewRequest {
        action,
        evacuation: identity("e1"),
        pod: identity("p1"),
        responder: "self".into(),
        requesters: Vec::new(),
        on_refusal: RefusalPolicy::Wait,
        rehearsal: false,
        answer_by: None,
        delay_until: None,
    }
}

fn at(address: IpAddr, port: u16, path: &str) -> Destination {
    Destination::pod(SocketAddr::new(address, port), path)
}

pub(super) fn transport() -> Transport {
    let _ = rustls::crypto::ring::default_provider().install_default();
    Transport { timeout: Duration::from_millis(500), ..Transport::new().unwrap() }
}

async fn ask(reply: impl Into<Vec<u8>>) -> Result<Option<ReviewResponse>, PostError> {
    let (address, port, _requests) = endpoint_with(reply).await;
    transport()
        .post(&at(address, port, "/evacuation"), question(ReviewAction::Ask), &CancellationToken::new())
        .await
}

#[tokio::test]
async fn an_answer_with_a_long_log_in_it_counts() {
    let body = json!({"response": {"evacuationUid": "e1", "podUid": "p1", "answer": "Refuse",
                                   "message": "x".repeat(65 * 1024)}});
    let reply = ask(http("200 OK", "application/json", &body.to_string())).await.unwrap().unwrap();
    assert_eq!(reply.answer, Answer::Refuse);
}

#[tokio::test]
async fn a_reply_that_breaks_off_is_told_from_none() {
    let cut = "HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n{\"response\":";
    let error = ask(cut).await.unwrap_err();
    assert!(matches!(error, PostError::Cut { .. }), "{error:?}");
    assert!(matches!(ask("").await, Err(PostError::Unreachable { source, .. }) if !source.is_timeout()));
}

#[tokio::test]
async fn an_answer_that_is_there_counts_whatever_its_reply_lacks() {
    let answer = |word: &str| {
        json!({"response": {"evacuationUid": "e1", "podUid": "p1", "answer": word, "delaySeconds": 10}})
            .to_string()
    };
    let chunk = |body: &str| format!("{:x}\r\n{body}\r\n", body.len());
    let head = |header: &str| format!("HTTP/1.1 200 OK\r\n{header}\r\n\r\n");
    let refusal = answer("Refuse");
    let short = format!("{}{refusal}", head(&format!("Content-Length: {}", refusal.len() - 2)));
    let log = "x".repeat(MAX_BODY);
    for (reply, expected) in [
        (format!("{}{}", head("Content-Length: 900"), answer("Accept")), Answer::Accept),
        (short, Answer::Refuse),
        (format!("{}{}", head("Transfer-Encoding: chunked"), chunk(&refusal)), Answer::Refuse),
        (format!("{}{}{log}", head("Connection: close"), answer("Delay")), Answer::Delay),
        (http("409 Conflict", "application/json", &refusal), Answer::Refuse),
        (http("503 Service Unavailable", "text/html", &answer("Delay")), Answer::Delay),
    ] {
        let found = ask(reply.clone()).await.unwrap_or_else(|error| panic!("{reply:.99}: {error}"));
        assert_eq!(found.unwrap().answer, expected, "{reply:.99}");
    }
    let (address, port, _requests) = endpoint_that(|mut stream| async move {
        let body = json!({"response": {"evacuationUid": "e1", "podUid": "p1", "answer": "Refuse"}});
        let _ = stream
            .write_all(format!("HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n{body}").as_bytes())
            .await;
        std::future::pending::<()>().await;
    })
    .await;
    let question = question(ReviewAction::Ask);
    let found = transport().post(&at(address, port, "/"), question, &CancellationToken::new()).await;
    assert_eq!(found.unwrap().unwrap().answer, Answer::Refuse, "the connection stays open");
}

#[tokio::test]
async fn an_answer_that_repeats_both_uids_is_taken() {
    let (address, port, mut requests) =
        endpoint_with(http("200 OK", "application/json; charset=utf-8", &answer("e1", "p1"))).await;
    let reply = transport()
        .post(&at(address, port, "/x/y"), question(ReviewAction::Ask), &CancellationToken::new())
        .await
        .unwrap()
        .unwrap();
    assert_eq!((reply.answer, reply.delay_seconds), (Answer::Delay, Some(10)));
    let request = requests.recv().await.unwrap();
    assert!(request.starts_with("POST /x/y HTTP/1.1\r\n"), "{request}");
    assert!(
        request.contains(r#""kind":"EvacuationReview""#) && request.contains(r#""action":"Ask""#),
        "{request}"
    );
}

#[tokio::test]
async fn an_answer_counts_in_whatever_type_encoding_and_compression_it_comes() {
    let answer = answer("e1", "p1");
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(answer.as_bytes()).unwrap();
    let marked = format!("\u{feff}{answer}");
    for (headers, body) in [
        ("Content-Type: text/html", answer.clone().into_bytes()),
        ("X-None: 1", answer.clone().into_bytes()),
        ("X Build: 1\r\nContent-Type : text/plain", answer.clone().into_bytes()),
        (
            "Content-Type: application/json; charset=utf-16",
            marked.encode_utf16().flat_map(u16::to_le_bytes).collect(),
        ),
        ("Content-Type: application/json; Charset=\"latin1\"", format!("{answer}\0\r\nOK").into_bytes()),
        ("Content-Encoding: gzip", gzip.finish().unwrap()),
    ] {
        let head = format!(
            "HTTP/1.1 200 OK\r\n{headers}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
            body.len()
        );
        let reply = ask([head.as_bytes(), &body].concat()).await;
        let reply = reply.unwrap_or_else(|error| panic!("{headers}: {error}")).unwrap();
        assert_eq!((reply.answer, reply.delay_seconds), (Answer::Delay, Some(10)), "{headers}");
    }
}

#[tokio::test]
async fn an_answer_to_another_question_or_of_another_pod_is_discarded() {
    for (body, wrong) in [(answer("e2", "p1"), "evacuation"), (answer("e1", "p2"), "pod")] {
        match ask(http("200 OK", "application/json", &body)).await {
            Err(PostError::WrongUid { what, .. }) => assert_eq!(what, wrong),
            other => panic!("{wrong}: {other:?}"),
        }
    }
}

#[tokio::test]
async fn nonsense_is_no_answer() {
    let consent = answer("e1", "p1").replace("Delay", "Accept");
    let table = [
        (http("200 OK", "application/json", "<html>"), "holds no answer that can be read"),
        (http("200 OK", "application/json", "{}"), "without an answer"),
        (
            http("200 OK", "text/html", "<html>"),
            "code 200, content type \"text/html\" and a body that begins with \"<html>\"",
        ),
        (
            http("200 OK", "application/json", r#"{"response": {"answer": "Maybe"}}"#),
            "response.answer is \"Maybe\"",
        ),
        (http("500 Internal Server Error", "application/json", &consent), "code 500"),
        (http("404 Not Found", "text/html", "<html>"), "code 404"),
        ("SSH-2.0-OpenSSH_9.6\r\n".to_owned(), "did not reply"),
        (String::new(), "did not reply"),
    ];
    for (reply, expected) in table {
        let error = ask(reply.clone()).await.unwrap_err().to_string();
        assert!(error.contains(expected), "{reply:?}: {error}");
    }
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let (address, port, mut requests) =
        endpoint_with(http("200 OK", "application/json", &answer("e1", "p1"))).await;
    let elsewhere = format!("http://{address}:{port}/evacuation");
    let redirect = format!(
        "HTTP/1.1 307 Temporary Redirect\r\nLocation: {elsewhere}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    );
    let error = ask(redirect).await.unwrap_err().to_string();
    assert!(error.ends_with(&format!("code 307, location {elsewhere:?} and no body")), "{error}");
    assert!(requests.try_recv().is_err(), "nobody asked where the redirect points");
}

#[tokio::test]
async fn ten_megabytes_are_not_read() {
    let reply = http("200 OK", "application/json", &" ".repeat(10 << 20));
    assert!(matches!(ask(reply).await, Err(PostError::TooLong { .. })));
}

#[tokio::test]
async fn ten_megabytes_in_chunks_without_a_length_are_not_read() {
    let chunk = format!("1000\r\n{}\r\n", " ".repeat(0x1000)).repeat(10 << 8);
    let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n";
    assert!(matches!(ask(format!("{head}{chunk}0\r\n\r\n")).await, Err(PostError::TooLong { .. })));
}

#[tokio::test]
async fn an_endpoint_that_hangs_times_out() {
    let (address, port, _requests) = endpoint_that(|stream| async move {
        let _held = stream;
        std::future::pending::<()>().await;
    })
    .await;
    let result = transport()
        .post(&at(address, port, "/"), question(ReviewAction::Ask), &CancellationToken::new())
        .await;
    assert!(matches!(result, Err(PostError::Unreachable { source, .. }) if source.is_timeout()));
}

#[tokio::test]
async fn an_endpoint_that_drips_its_reply_times_out() {
    let (address, port, _requests) = endpoint_that(|mut stream| async move {
        let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n";
        let _ = stream.write_all(head.as_bytes()).await;
        while stream.write_all(b" ").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    })
    .await;
    let result = transport()
        .post(&at(address, port, "/"), question(ReviewAction::Ask), &CancellationToken::new())
        .await;
    assert!(matches!(result, Err(PostError::Unreachable { source, .. }) if source.is_timeout()));
}

#[tokio::test]
async fn an_endpoint_that_is_not_there_did_not_reply() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let result = transport()
        .post(&Destination::pod(address, "/"), question(ReviewAction::Ask), &CancellationToken::new())
        .await;
    assert!(matches!(result, Err(PostError::Unreachable { source, .. }) if source.is_connect()));
}

#[tokio::test]
async fn any_2xx_acknowledges_a_cancellation() {
    for reply in [http("204 No Content", "text/plain", ""), http("200 OK", "text/html", "<html>")] {
        let (address, port, _requests) = endpoint_with(reply).await;
        let result = transport()
            .post(&at(address, port, "/"), question(ReviewAction::Cancel), &CancellationToken::new())
            .await;
        assert!(matches!(result, Ok(None)), "{result:?}");
    }
    let (address, port, _requests) = endpoint_with(http("500 Oops", "text/plain", "")).await;
    assert!(
        transport()
            .post(&at(address, port, "/"), question(ReviewAction::Cancel), &CancellationToken::new())
            .await
            .is_err()
    );
}

#[test]
fn endpoints_are_written_right() {
    let pod = |address: &str, path| Destination::pod(address.parse().unwrap(), path).url();
    assert_eq!(pod("10.0.0.1:8080", "/evacuation"), "http://10.0.0.1:8080/evacuation");
    assert_eq!(pod("[fd00::1]:80", "/"), "http://[fd00::1]:80/");
    let service = Destination {
        host: Some("failover.shop.svc".to_owned()),
        ..Destination::pod("10.96.0.7:443".parse().unwrap(), "/e")
    };
    assert_eq!(service.url(), "http://failover.shop.svc:443/e");
}

#[tokio::test]
async fn rule_9_a_question_is_delivered_when_the_connection_takes_it_and_not_before() {
    let (address, port, mut requests) = endpoint_that(|stream| async move {
        let _held = stream;
        std::future::pending::<()>().await;
    })
    .await;
    let sent = CancellationToken::new();
    let _ = transport().post(&at(address, port, "/"), question(ReviewAction::Ask), &sent).await;
    assert!(sent.is_cancelled(), "the endpoint hangs, and has the question");
    let request = requests.recv().await.unwrap().to_ascii_lowercase();
    assert!(
        request.contains("content-length: ") && request.contains("content-type: application/json"),
        "{request}"
    );

    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let nobody = Destination::pod(listener.local_addr().unwrap(), "/");
    drop(listener);
    let sent = CancellationToken::new();
    assert!(transport().post(&nobody, question(ReviewAction::Ask), &sent).await.is_err());
    assert!(!sent.is_cancelled(), "nobody took it");
}
