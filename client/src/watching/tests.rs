use std::{
    convert::Infallible,
    io,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use evacuation_api::{Evacuation, Requester, SelfEvacuation};
use futures::{StreamExt, stream};
use http::{Request, Response};
use http_body_util::{Full, StreamBody, combinators::BoxBody};
use kube::{
    Api, Client, Config,
    client::Body,
    runtime::{utils::Backoff, watcher},
};
use tokio::{net::TcpListener, time::Instant};
use tokio_util::sync::CancellationToken;

use super::{watch, watch_with};
use crate::{Answer, Connection, End, EvacuationHandle, Question, Responder, testing::replying};

const FOUND: &str = r#"{"metadata":{"resourceVersion":"5"},"items":[{
    "metadata":{"name":"a","namespace":"shop","uid":"1"},"spec":{"target":{"pod":{"name":"db-0"}}}}]}"#;
const ENDED: &str = concat!(
    r#"{"type":"MODIFIED","object":{"apiVersion":"evacuation.dev/v1alpha1","kind":"Evacuation","#,
    r#""metadata":{"name":"a","namespace":"shop","uid":"1","resourceVersion":"9"},"#,
    r#""spec":{"target":{"pod":{"name":"db-0"}}},"status":{"conditions":[{"type":"Evacuated","status":"True","#,
    r#""reason":"Evicted","message":"gone","lastTransitionTime":"2026-11-20T22:00:00Z"}]}}}"#,
    "\n"
);
const FORBIDDEN: (u16, &str) = (
    403,
    r#"{"kind":"Status","status":"Failure","code":403,"reason":"Forbidden",
        "message":"only a pod has evacuations of itself"}"#,
);

type Reply = BoxBody<Bytes, Infallible>;

fn whole(text: &'static str) -> Reply {
    BoxBody::new(Full::from(text))
}

fn silent() -> Reply {
    BoxBody::new(StreamBody::new(stream::pending()))
}

#[tokio::test(start_paused = true)]
async fn a_watch_whose_connection_died_silently_is_renewed_within_a_minute() {
    let next = AtomicUsize::new(0);
    let service = tower::service_fn(move |_: Request<Body>| {
        let body = match next.fetch_add(1, Ordering::Relaxed) {
            0 => whole(FOUND),
            1 => silent(),
            _ => whole(ENDED),
        };
        async move { Ok::<_, Infallible>(Response::new(body)) }
    });
    let object: Evacuation = serde_json::from_value(serde_json::json!({
        "metadata": {"name": "a", "namespace": "shop", "uid": "1"},
        "spec": {"target": {"pod": {"name": "db-0"}}},
    }))
    .unwrap();
    let api = Api::namespaced(Client::new(service, "shop"), "shop");
    let handle = EvacuationHandle::new(api, Requester::named("acme.io/a"), object, false);
    let end = tokio::time::timeout(Duration::from_mins(1), handle.wait()).await;
    assert!(matches!(end, Ok(Ok(End::Evacuated { .. }))), "{end:?}");
}

/// Pauses of no length, counted.
#[derive(Clone, Default)]
struct Counted(Arc<AtomicUsize>);

impl Iterator for Counted {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Some(Duration::ZERO)
    }
}

impl Backoff for Counted {
    fn reset(&mut self) {
        panic!("no attempt succeeded");
    }
}

#[tokio::test]
async fn a_server_that_accepts_and_closes_gets_one_connection_a_pause() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let accepted = Arc::new(AtomicUsize::new(0));
    let count = accepted.clone();
    tokio::spawn(async move {
        while let Ok((connection, _)) = listener.accept().await {
            count.fetch_add(1, Ordering::Relaxed);
            drop(connection);
        }
    });
    let _ = rustls::crypto::ring::default_provider().install_default();
    let config = Config::new(format!("http://{address}").parse().unwrap());
    let api: Api<SelfEvacuation> = Api::namespaced(Client::try_from(config).unwrap(), "shop");
    let pauses = Counted::default();
    let events = watch_with(api, watcher::Config::default(), pauses.clone());
    let failed = events.filter(|event| std::future::ready(event.is_err())).take(20);
    assert_eq!(failed.count().await, 20);
    assert_eq!(accepted.load(Ordering::Relaxed), 20);
    assert_eq!(pauses.0.load(Ordering::Relaxed), 20);
}

/// Times of the requests to an API with these replies, in their order; the last one is repeated. `None` is a
/// broken connection.
async fn requests(replies: Vec<Option<fn() -> Reply>>, within: Duration) -> Vec<Duration> {
    let begun = Instant::now();
    let times = Arc::new(Mutex::new(Vec::new()));
    let record = times.clone();
    let service = tower::service_fn(move |_: Request<Body>| {
        let mut times = record.lock().unwrap();
        let reply = replies.get(times.len()).or(replies.last()).copied().flatten();
        times.push(begun.elapsed());
        std::future::ready(match reply {
            Some(body) => Ok(Response::new(body())),
            None => Err(io::Error::from(io::ErrorKind::ConnectionReset)),
        })
    });
    let api: Api<Evacuation> = Api::namespaced(Client::new(service, "shop"), "shop");
    let events = watch(api, watcher::Config::default()).for_each(|_| std::future::ready(()));
    tokio::time::timeout(within, events).await.unwrap_err();
    times.lock().unwrap().clone()
}

#[tokio::test(start_paused = true)]
async fn the_pauses_between_failures_grow_from_a_tenth_of_a_second_to_five_seconds() {
    let times = requests(vec![None], Duration::from_mins(10)).await;
    let pauses: Vec<_> = times.windows(2).map(|pair| pair[1].saturating_sub(pair[0])).collect();
    assert!(pauses[0] >= Duration::from_millis(100) && pauses[0] <= Duration::from_millis(210), "{pauses:?}");
    let long = Duration::from_millis(2500)..=Duration::from_millis(5010);
    assert!(pauses[8..].iter().all(|pause| long.contains(pause)), "{pauses:?}");
    // 18 requests came in 3 s before.
    assert!((120..=250).contains(&times.len()), "{}", times.len());
}

#[tokio::test(start_paused = true)]
async fn a_list_that_succeeds_before_each_refused_watch_does_not_shorten_the_pauses() {
    let mut replies: Vec<Option<fn() -> Reply>> = Vec::new();
    for _ in 0..1000 {
        replies.extend([Some((|| whole(FOUND)) as fn() -> Reply), None]);
    }
    let times = requests(replies, Duration::from_mins(10)).await;
    assert!((240..=500).contains(&times.len()), "{}", times.len());
}

#[tokio::test(start_paused = true)]
async fn the_pauses_start_again_at_the_shortest_after_the_watch_worked() {
    let mut replies: Vec<Option<fn() -> Reply>> = vec![None; 20];
    replies.extend([Some((|| whole(FOUND)) as fn() -> Reply), Some(silent as fn() -> Reply), None, None]);
    let times = requests(replies, Duration::from_mins(4)).await;
    let pause = times[23].saturating_sub(times[22]);
    assert!(pause <= Duration::from_millis(210), "{times:?}");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_ends_each_watch_at_once_gets_one_watch_a_second() {
    let watches = Arc::new(AtomicUsize::new(0));
    let count = watches.clone();
    let service = tower::service_fn(move |request: Request<Body>| {
        let is_watch = request.uri().query().unwrap_or_default().contains("watch=true");
        count.fetch_add(usize::from(is_watch), Ordering::Relaxed);
        let body = whole(if is_watch { "" } else { FOUND });
        async move { Ok::<_, Infallible>(Response::new(body)) }
    });
    let api: Api<Evacuation> = Api::namespaced(Client::new(service, "shop"), "shop");
    let events = watch(api, watcher::Config::default()).for_each(|_| std::future::ready(()));
    tokio::time::timeout(Duration::from_mins(1), events).await.unwrap_err();
    // The last one can start at the very end.
    assert!((60..=61).contains(&watches.load(Ordering::Relaxed)), "{watches:?}");
}

/// Runs a responder for ten minutes at an API with these replies. Returns its log, and its last connection.
async fn logged(replies: &'static [(u16, &'static str)]) -> (String, Connection) {
    #[derive(Clone, Default)]
    struct Log(Arc<Mutex<Vec<u8>>>);
    impl io::Write for Log {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let stop = CancellationToken::new();
    let responder = Responder::of_pod(replying(replies)).until(stop.clone());
    let connection = responder.connection();
    let run = responder.run(|_: Question| std::future::ready(Answer::accept()));
    tokio::join!(run, async {
        tokio::time::sleep(Duration::from_mins(10)).await;
        stop.cancel();
    });
    let text = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    (text, connection.borrow().clone())
}

#[tokio::test(start_paused = true)]
async fn an_app_that_may_not_watch_logs_one_plain_line_and_reports_why() {
    let (log, connection) = logged(&[FORBIDDEN]).await;
    assert_eq!(log.lines().count(), 1, "{log}");
    let expected = "the watch of evacuations failed, trying again: failed to perform initial object list: \
                    only a pod has evacuations of itself\n";
    assert!(log.ends_with(expected), "{log}");
    assert!(
        matches!(&connection, Connection::Down { error, .. } if error.ends_with("only a pod has evacuations of itself")),
        "{connection:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_recovers_is_logged_once_and_reported() {
    const EMPTY: (u16, &str) = (200, r#"{"metadata":{"resourceVersion":"5"},"items":[]}"#);
    // The last reply is a list, and so a watch that cannot be read.
    let (log, _) = logged(&[FORBIDDEN, FORBIDDEN, EMPTY, FORBIDDEN, EMPTY]).await;
    assert!(log.contains("the watch of evacuations works again, after 0 s\n"), "{log}");
}
