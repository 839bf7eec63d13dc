use std::{
    io,
    sync::atomic::{AtomicUsize, Ordering},
};

use evacuation_api::{Evacuation, NodeEvacuation};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api,
    api::{ListParams, PostParams},
};

use super::*;

const LIMIT: Duration = Duration::from_secs(20);
const EMPTY: &str = r#"{"metadata":{},"items":[]}"#;
const UNREACHED: &str = "service unavailable\n";
const BUSY: &str = r#"{"status":"Failure","message":"later","reason":"TooManyRequests","code":429}"#;

/// A reply of the test's server.
type Reply = Result<(u16, &'static str, &'static str), io::ErrorKind>;

/// A kube-apiserver that has that reply to each attempt with the evacuation API, and its requests so far.
/// The APIService of the evacuation API is absent.
struct Stage {
    client: Client,
    outages: Arc<Outages>,
    attempts: Arc<AtomicUsize>,
}

fn stage(reply: impl Fn(usize) -> Reply + Send + 'static) -> Stage {
    let attempts = Arc::new(AtomicUsize::new(0));
    let count = attempts.clone();
    let service = tower::service_fn(move |request: Request<Body>| {
        let reply = if request.uri().path().contains("/apiservices/") {
            Ok((404, "application/json", "{}"))
        } else {
            reply(count.fetch_add(1, Ordering::Relaxed))
        };
        async move {
            let (code, kind, text) = reply.map_err(io::Error::from)?;
            let reply = Response::builder().status(code).header("content-type", kind);
            Ok::<_, BoxError>(reply.body(Body::from(text.as_bytes().to_vec()))?)
        }
    });
    let outages = Arc::new(Outages::default());
    let answering = Answering::new(Client::new(service, "shop"), LIMIT, outages.clone(), "https://c");
    Stage { client: Client::new(answering, "shop"), outages, attempts }
}

impl Stage {
    async fn list(&self) -> Result<(), String> {
        let api: Api<NodeEvacuation> = Api::all(self.client.clone());
        api.list(&ListParams::default()).await.map(drop).map_err(|error| error.to_string())
    }

    async fn create(&self) -> String {
        let api: Api<Evacuation> = Api::default_namespaced(self.client.clone());
        let new = Evacuation::new("a", serde_json::from_str(r#"{"target":{"pod":{"name":"p"}}}"#).unwrap());
        api.create(&PostParams::default(), &new).await.unwrap_err().to_string()
    }

    fn attempts(&self) -> usize {
        self.attempts.load(Ordering::Relaxed)
    }
}

#[tokio::test(start_paused = true)]
async fn a_short_outage_is_passed_over_in_silence() {
    let stage = stage(|attempt| match attempt {
        0..3 => Ok((503, "text/plain", UNREACHED)),
        _ => Ok((200, "application/json", EMPTY)),
    });
    stage.list().await.unwrap();
    assert_eq!((stage.attempts(), stage.outages.lines().len()), (4, 0));
}

#[tokio::test(start_paused = true)]
async fn an_outage_is_named_after_two_seconds_and_ends_the_request_at_its_limit() {
    let stage = stage(|_| Ok((503, "text/plain", UNREACHED)));
    let began = Instant::now();
    let mut request = std::pin::pin!(stage.list());
    let first = tokio::time::timeout(SILENCE + Duration::from_millis(10), &mut request).await;
    assert!(first.is_err());
    let lines = stage.outages.lines();
    let expected = "the evacuation API does not answer (503: service unavailable). Look at: kubectl \
                    evacuate check; kubectl get apiservice v1alpha1.evacuation.dev";
    assert!(lines.len() == 1 && lines[0].starts_with(expected), "{lines:?}");
    let error = request.await.unwrap_err();
    assert!(error.contains(expected), "{error}");
    assert!(began.elapsed() <= LIMIT);
    let attempts = stage.attempts();
    tokio::time::sleep(LIMIT * 10).await;
    assert_eq!(stage.attempts(), attempts, "an attempt after the command had failed");
}

#[tokio::test(start_paused = true)]
async fn the_line_of_an_outage_goes_when_the_server_answers_again() {
    let began = Instant::now();
    let stage = stage(move |_| match began.elapsed().as_secs() {
        0..10 => Err(io::ErrorKind::ConnectionReset),
        _ => Ok((200, "application/json", EMPTY)),
    });
    let mut request = std::pin::pin!(stage.list());
    let first = tokio::time::timeout(SILENCE + Duration::from_millis(10), &mut request).await;
    assert!(first.is_err());
    assert!(stage.outages.lines()[0].starts_with("the kube-apiserver https://c does not answer"));
    request.await.unwrap();
    assert!(stage.outages.lines().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_write_is_repeated_only_while_the_server_cannot_have_received_it() {
    let never = "nothing was written, because the evacuation API does not answer";
    let perhaps = "it may have been carried out, but the evacuation API does not answer";
    let busy = "nothing was written, because the evacuation API has no room for the request (429: later).";
    let broken = "it may have been carried out, but the kube-apiserver https://c does not answer";
    for (reply, repeated, expected) in [
        (Ok((503, "text/plain", UNREACHED)), true, never),
        (Ok((503, "text/plain", "error trying to reach service: dial tcp: refused")), true, never),
        (Ok((503, "text/plain", "error trying to reach service: EOF")), false, perhaps),
        (Ok((503, "application/json", r#"{"message":"etcd","reason":"x","code":503}"#)), false, perhaps),
        (Ok((504, "application/json", "{}")), false, perhaps),
        (Ok((429, "application/json", BUSY)), true, busy),
        (Err(io::ErrorKind::ConnectionRefused), true, "nothing was written"),
        (Err(io::ErrorKind::ConnectionReset), false, broken),
    ] as [(Reply, bool, &str); 8]
    {
        let stage = stage(move |_| reply);
        let error = stage.create().await;
        assert!(error.contains(expected), "{reply:?}: {error}");
        assert_eq!(stage.attempts() > 1, repeated, "{reply:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_cluster_without_the_api_is_named_at_once() {
    let stage = stage(|_| Ok((404, "text/plain; charset=utf-8", "404 page not found\n")));
    let error = stage.list().await.unwrap_err();
    assert!(error.contains("is it installed, and is this the right context?"), "{error}");
    assert_eq!(stage.attempts(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_object_that_does_not_exist_is_no_outage() {
    let status = r#"{"kind":"Status","status":"Failure","message":"gone","reason":"NotFound","code":404}"#;
    let stage = stage(move |_| Ok((404, "application/json", status)));
    let api: Api<Pod> = Api::default_namespaced(stage.client.clone());
    assert!(api.get_opt("a").await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn managed_fields_that_nobody_can_read_hide_no_pod() {
    let pods = r#"{"metadata":{},"items":[{"metadata":{"name":"p","managedFields":[{"time":"never"}]}}]}"#;
    let stage = stage(move |_| Ok((200, "application/json", pods)));
    let api: Api<Pod> = Api::default_namespaced(stage.client.clone());
    assert_eq!(api.list(&ListParams::default()).await.unwrap().items.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_kube_apiserver_that_hangs_is_named_in_place_of_the_evacuation_api() {
    let silent = std::future::pending::<Result<Response<Body>, BoxError>>;
    let service = tower::service_fn(move |_: Request<Body>| silent());
    let outages = Arc::new(Outages::default());
    let answering = Answering::new(Client::new(service, "shop"), LIMIT, outages.clone(), "https://c");
    let api: Api<NodeEvacuation> = Api::all(Client::new(answering, "shop"));
    let error = api.list(&ListParams::default()).await.unwrap_err().to_string();
    assert!(error.contains("the kube-apiserver https://c does not answer (no reply within 20s)"), "{error}");
    let lines = outages.lines();
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(
        lines[0].starts_with("the kube-apiserver https://c does not answer (no reply for 2 s)"),
        "{lines:?}"
    );
}
