//! One question from end to end: find the pod or the Service, post, relay the answer.

use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use chrono::{DateTime, Utc};
use evacuation_api::{
    Answer, DEFAULT_HTTP_PATH, Evacuation, EvacuationResponse, EvacuationResponseSpec, HttpEndpoint,
    ResponderStatus, ReviewAction, ReviewResponse,
};
use evacuation_protocol::question;
use ipnet::IpNet;
use k8s_openapi::api::{
    core::v1::{Pod, Service},
    discovery::v1::EndpointSlice,
};
use kube::{
    Api, Client, ResourceExt,
    api::{ListParams, PostParams},
};
use tokio_util::sync::CancellationToken;

use super::{
    address::{AddressProblem, check_address},
    backing::{MAX_SLICES, SERVICE_LABEL, check_backing},
    service::{ServiceProblem, service_address, trusting},
    tokens::{TokenError, Tokens},
    transport::{Destination, Https, PostError, Transport},
};
use crate::{
    cluster::{CallError, ObjectKey, call},
    negotiation::limiter::Limiter,
};

/// Number of attempts to relay an answer before the question counts as failed.
const RELAY_ATTEMPTS: u32 = 6;
/// Maximum number of questions under way.
const AT_ONCE: usize = 256;

/// Failure of a question.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PushError {
    /// The Evacuation has no such responder, or no endpoint for it.
    #[error("responder {0} has no endpoint")]
    NoEndpoint(String),
    /// The pod is gone.
    #[error("pod {0} is gone")]
    PodGone(String),
    /// The pod has no address.
    #[error("pod {0} has no address")]
    NoAddress(String),
    /// The pod's address is not its own, and it did not opt in.
    #[error("pod {0} is on the host's network and its endpoint does not set allowHostNetwork")]
    HostNetwork(String),
    /// The pod's address is never asked.
    #[error("pod {pod} has {problem}, which is never asked: {address}")]
    Address {
        /// The pod's name.
        pod: String,
        /// The address.
        address: IpAddr,
        /// Kind of the address.
        problem: AddressProblem,
    },
    /// The responder's turn was over before the question could be posted.
    #[error("the turn of responder {0} is over")]
    Overtaken(String),
    /// The pod or the Service has another address than the one that was asked.
    #[error("{0} has another address by now")]
    Moved(String),
    /// The Service is not asked.
    #[error(transparent)]
    Service(#[from] ServiceProblem),
    /// There is nothing to show to the Service.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// The endpoint did not answer.
    #[error(transparent)]
    Post(#[from] PostError),
    /// The endpoint answered, and the API server takes that answer no more, or never does.
    #[error("the answer was not recorded")]
    Relay(#[source] CallError),
    /// The API could not be asked.
    #[error(transparent)]
    Call(#[from] CallError),
}

impl PushError {
    /// Returns true when the endpoint had the question, or could not get it by its owner's fault. The time
    /// to answer counts from then. An API that fails, or a pod that changes, does not cost the app its time.
    pub(crate) fn is_endpoints(&self) -> bool {
        match self {
            Self::NoEndpoint(_)
            | Self::NoAddress(_)
            | Self::HostNetwork(_)
            | Self::Address { .. }
            | Self::Service(_)
            | Self::Post(_)
            | Self::Relay(_) => true,
            Self::PodGone(_) | Self::Overtaken(_) | Self::Moved(_) | Self::Token(_) | Self::Call(_) => false,
        }
    }

    /// Returns true when the question reached the endpoint. One that broke the connection off has not read
    /// it, as far as anybody knows.
    pub(crate) fn has_reached(&self, course: &Course) -> bool {
        match self {
            Self::Post(PostError::Unreachable { source, .. }) => {
                course.sent.is_cancelled() && source.is_timeout()
            }
            Self::Post(_) | Self::Relay(_) => true,
            Self::PodGone(_) | Self::Overtaken(_) => false,
            // What failed afterwards is not the endpoint's affair.
            _ => course.sent.is_cancelled(),
        }
    }

    /// The endpoint replied, but the reply was no answer.
    pub(crate) fn is_bad_answer(&self) -> bool {
        matches!(self, Self::Relay(_))
            || matches!(self, Self::Post(error) if !matches!(error, PostError::Unreachable { .. }))
    }
}

/// Progress of the posting of a question.
#[derive(Clone, Debug, Default)]
pub(crate) struct Course {
    /// Canceled when the endpoint takes the question.
    pub(crate) sent: CancellationToken,
    /// Canceled when its reply is read, and not recorded yet.
    pub(crate) replied: CancellationToken,
    /// The time at which an earlier attempt reached the endpoint, if one did.
    pub(crate) reached: Option<DateTime<Utc>>,
}

/// The objects that a question depends on.
pub(crate) trait ClusterView: Sync {
    /// Returns true while an Evacuation waits for this responder to answer, or to acknowledge a cancellation.
    fn waits_for(&self, evacuation: &Evacuation, responder: &str, action: ReviewAction) -> bool;

    /// Returns true when an address is a node's.
    fn is_node(&self, address: IpAddr) -> bool;

    /// Returns true when the namespace has a pod of that UID at that address.
    fn has_pod(&self, namespace: &str, uid: &str, address: IpAddr) -> bool;
}

/// Asks apps over HTTP.
pub(crate) struct Pusher {
    client: Client,
    transport: Transport,
    tokens: Tokens,
    allowed: Vec<IpNet>,
    limiter: Arc<Limiter<SocketAddr>>,
}

impl Pusher {
    /// A pusher that reads pods and Services and relays answers through `client`.
    pub(crate) fn new(
        client: Client,
        allowed: Vec<IpNet>,
        per_endpoint: usize,
    ) -> Result<Self, reqwest::Error> {
        Ok(Self {
            tokens: Tokens::new(client.clone()),
            client,
            transport: Transport::new()?,
            allowed,
            limiter: Limiter::new(AT_ONCE, per_endpoint),
        })
    }

    /// Posts a question and relays the answer. Returns the answer, or `None` for a cancellation that is
    /// acknowledged. `time` reads the API server's clock.
    pub(crate) async fn push(
        &self,
        evacuation: &Evacuation,
        responder: &str,
        action: ReviewAction,
        course: &Course,
        time: impl Fn() -> DateTime<Utc>,
        cluster: &impl ClusterView,
    ) -> Result<Option<Answer>, PushError> {
        let no_endpoint = || PushError::NoEndpoint(responder.to_owned());
        let responders = evacuation.status.as_ref().and_then(|status| status.responders.as_ref());
        let entry = responders
            .and_then(|all| all.iter().find(|entry| entry.name == responder))
            .ok_or_else(no_endpoint)?;
        let address = self.address(evacuation, entry, cluster).await?;
        let still = || self.still_at(evacuation, entry, cluster, address);
        let namespace = evacuation.namespace().unwrap_or_default();
        let (permit, waited) = self.limiter.acquire(&namespace, address).await;
        if waited {
            still().await?;
        }
        // Only now, for a token that waits can expire.
        let destination = self.destination(evacuation, entry, address).await?;
        let delivered = course.reached.unwrap_or_else(time);
        let request = question(evacuation, responder, action, delivered).ok_or_else(no_endpoint)?;
        // The permit and the reads before can have taken their time.
        if !cluster.waits_for(evacuation, responder, action) {
            return Err(PushError::Overtaken(responder.to_owned()));
        }
        let reply = self.transport.post(&destination, request, &course.sent).await?;
        course.replied.cancel();
        let answer = reply.as_ref().map(|reply| reply.answer);
        // The answer is relayed for as long as it takes: that is no longer the endpoint's affair.
        drop(permit);
        self.relay(evacuation, responder, reply, still).await?;
        Ok(answer)
    }

    /// Fails unless the target or the Service, read live, is there and has this address.
    async fn still_at(
        &self,
        evacuation: &Evacuation,
        responder: &ResponderStatus,
        cluster: &impl ClusterView,
        address: SocketAddr,
    ) -> Result<(), PushError> {
        if self.address(evacuation, responder, cluster).await? == address {
            return Ok(());
        }
        Err(PushError::Moved(match &responder.service {
            Some(service) => format!("service {}", service.name),
            None => format!("pod {}", evacuation.spec.target.pod.name),
        }))
    }

    /// Address of a responder, read live: a pod's address may have become another pod's, and a Service's
    /// another's.
    async fn address(
        &self,
        evacuation: &Evacuation,
        responder: &ResponderStatus,
        cluster: &impl ClusterView,
    ) -> Result<SocketAddr, PushError> {
        match (&responder.http, &responder.service) {
            (Some(endpoint), _) => {
                let address = self.pod_address(evacuation, endpoint, cluster).await?;
                Ok(SocketAddr::new(address, endpoint.port))
            }
            (None, Some(endpoint)) => {
                let namespace = evacuation.namespace().unwrap_or_default();
                let api: Api<Service> = Api::namespaced(self.client.clone(), &namespace);
                let action = format!("read service {namespace}/{}", endpoint.name);
                let service = call(action, api.get_opt(&endpoint.name)).await?;
                let address = service_address(&namespace, endpoint, service.as_ref(), &self.allowed)?;
                // A range that the administrator opened needs no pod behind it.
                if !self.allowed.iter().any(|range| range.contains(&address.ip())) {
                    self.check_backing(&namespace, &endpoint.name, cluster).await?;
                }
                Ok(address)
            }
            (None, None) => Err(PushError::NoEndpoint(responder.name.clone())),
        }
    }

    /// Fails unless pods of the namespace stand behind a Service.
    async fn check_backing(
        &self,
        namespace: &str,
        service: &str,
        cluster: &impl ClusterView,
    ) -> Result<(), PushError> {
        let api: Api<EndpointSlice> = Api::namespaced(self.client.clone(), namespace);
        let parameters =
            ListParams::default().labels(&format!("{SERVICE_LABEL}={service}")).limit(MAX_SLICES);
        let name = format!("{namespace}/{service}");
        let slices =
            call(format!("list the endpointslices of service {name}"), api.list(&parameters)).await?;
        let has_pod = |uid: &str, address| cluster.has_pod(namespace, uid, address);
        Ok(check_backing(&name, namespace, &slices.items, &self.allowed, has_pod)?)
    }

    /// Destination of a question to a responder at that address.
    async fn destination(
        &self,
        evacuation: &Evacuation,
        responder: &ResponderStatus,
        address: SocketAddr,
    ) -> Result<Destination, PushError> {
        let Some(endpoint) = &responder.service else {
            let path = responder.http.as_ref().map_or(DEFAULT_HTTP_PATH, HttpEndpoint::path);
            return Ok(Destination::pod(address, path));
        };
        let namespace = evacuation.namespace().unwrap_or_default();
        let host = endpoint.host(&namespace);
        let https = match &endpoint.https {
            None => None,
            Some(trust) => Some(Https {
                config: trusting(&namespace, endpoint, &trust.ca_bundle)?,
                token: self.tokens.of_audience(&host).await?,
            }),
        };
        Ok(Destination { host: Some(host), https, ..Destination::pod(address, endpoint.path()) })
    }

    /// The address of the target.
    async fn pod_address(
        &self,
        evacuation: &Evacuation,
        endpoint: &HttpEndpoint,
        cluster: &impl ClusterView,
    ) -> Result<IpAddr, PushError> {
        let target = &evacuation.spec.target.pod;
        let api: Api<Pod> = Api::namespaced(self.client.clone(), &evacuation.namespace().unwrap_or_default());
        let pod = call(format!("read pod {}", target.name), api.get_opt(&target.name)).await?;
        let pod = pod
            .filter(|pod| pod.uid() == target.uid)
            .ok_or_else(|| PushError::PodGone(target.name.clone()))?;
        address_of(&pod, endpoint, &self.allowed, |address| cluster.is_node(address))
    }

    /// Posts the answer, or the acknowledgement of a cancellation, to the Evacuation. An answer in hand is
    /// not lost to an API that is away for some seconds. Before each attempt `still` makes sure that the pod
    /// that answered is the target.
    async fn relay<Still: Future<Output = Result<(), PushError>>>(
        &self,
        evacuation: &Evacuation,
        responder: &str,
        reply: Option<ReviewResponse>,
        still: impl Fn() -> Still,
    ) -> Result<(), PushError> {
        let key = ObjectKey::of(evacuation);
        let api: Api<Evacuation> = Api::namespaced(self.client.clone(), &key.namespace);
        let body = EvacuationResponse::new(relayed(evacuation, responder, reply));
        let parameters = PostParams::default();
        let mut failures = 0;
        loop {
            let attempt = async {
                still().await?;
                let request =
                    api.create_subresource::<_, EvacuationResponse>("respond", &key.name, &parameters, &body);
                let action = format!("relay the answer of {responder} to evacuation {key}");
                Ok(call(action, request).await?)
            };
            match attempt.await {
                Ok(_) => return Ok(()),
                Err(PushError::Call(error)) if is_final(&error, &key.name) => {
                    return Err(PushError::Relay(error));
                }
                Err(PushError::Call(error)) => {
                    failures += 1;
                    if failures >= RELAY_ATTEMPTS {
                        return Err(PushError::Call(error));
                    }
                    tokio::time::sleep(machinery_watch::backoff(
                        Duration::from_millis(200),
                        Duration::from_secs(5),
                        failures,
                    ))
                    .await;
                }
                Err(error) => return Err(error),
            }
        }
    }
}

/// Returns true when the API server would say the same to each further attempt to relay an answer. Its own
/// failures, and those of the kube-apiserver before it, are not the app's: it is asked again.
fn is_final(error: &CallError, evacuation: &str) -> bool {
    let Some(status) = error.status() else { return false };
    let details = status.details.as_ref();
    match status.code {
        // Without the name the API itself is not there.
        404 => details.is_some_and(|details| details.name == evacuation),
        // Without a cause others changed the object at the same moment. Some causes end by themselves.
        409 => details.is_some_and(|told| !told.causes.is_empty() && told.retry_after_seconds == 0),
        400 | 413 | 422 => true,
        // A right that is missing for a moment, as while a role is replaced, is no fault of the app either.
        _ => false,
    }
}

/// Address at which a pod is asked.
fn address_of(
    pod: &Pod,
    endpoint: &HttpEndpoint,
    allowed: &[IpNet],
    is_node: impl Fn(IpAddr) -> bool,
) -> Result<IpAddr, PushError> {
    let name = pod.name_any();
    let text = pod.status.as_ref().and_then(|status| status.pod_ip.as_deref()).unwrap_or_default();
    let Ok(address) = text.parse::<IpAddr>() else {
        return Err(PushError::NoAddress(name));
    };
    let host_network = pod.spec.as_ref().and_then(|spec| spec.host_network).unwrap_or(false);
    if (host_network || is_node(address)) && !endpoint.allows_host_network() {
        return Err(PushError::HostNetwork(name));
    }
    check_address(address, allowed).map_err(|problem| PushError::Address { pod: name, address, problem })?;
    Ok(address)
}

/// Answer that is relayed for a reply.
fn relayed(
    evacuation: &Evacuation,
    responder: &str,
    reply: Option<ReviewResponse>,
) -> EvacuationResponseSpec {
    let spec = EvacuationResponseSpec {
        responder: Some(responder.to_owned()),
        evacuation_uid: evacuation.metadata.uid.clone(),
        pod_uid: evacuation.spec.target.pod.uid.clone(),
        ..EvacuationResponseSpec::default()
    };
    match reply {
        None => EvacuationResponseSpec { acknowledge_cancellation: true, ..spec },
        Some(reply) => EvacuationResponseSpec {
            // What the reply repeats, and not what was asked: the server compares once more.
            evacuation_uid: Some(reply.evacuation_uid),
            pod_uid: Some(reply.pod_uid),
            answer: Some(reply.answer),
            delay_seconds: reply.delay_seconds,
            retry_after_seconds: reply.retry_after_seconds,
            reason: reply.reason,
            message: reply.message,
            ..spec
        },
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    };

    use http::Response;
    use http_body_util::BodyExt;
    use kube::client::Body;
    use serde_json::{Value, json};
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpListener,
    };
    use tower_test::mock;

    use super::*;

    /// A cluster without nodes and pods.
    struct Nothing {
        waits: bool,
    }

    impl ClusterView for Nothing {
        fn waits_for(&self, _: &Evacuation, _: &str, _: ReviewAction) -> bool {
            self.waits
        }

        fn is_node(&self, _: IpAddr) -> bool {
            false
        }

        fn has_pod(&self, _: &str, _: &str, _: IpAddr) -> bool {
            false
        }
    }

    #[test]
    fn a_reply_that_cannot_be_used_is_told_from_an_endpoint_that_did_not_reply() {
        let url = || "http://10.0.0.1/".to_owned();
        let status = kube::core::Status::failure("no", "Invalid").with_code(422).boxed();
        let call = || CallError::Api { action: "x".to_owned(), source: kube::Error::Api(status.clone()) };
        let table = [
            (PushError::Relay(call()), true),
            (PushError::Post(PostError::TooLong { url: url() }), true),
            (PushError::NoAddress("p".to_owned()), false),
            (PushError::Call(call()), false),
        ];
        for (error, expected) in table {
            assert_eq!(error.is_bad_answer(), expected, "{error}");
        }
    }

    #[test]
    fn a_question_has_reached_an_endpoint_that_replied_or_took_it_before_something_else_failed() {
        let status = kube::core::Status::failure("no", "Invalid").with_code(422).boxed();
        let call = || CallError::Api { action: "x".to_owned(), source: kube::Error::Api(status.clone()) };
        let too_long = || PushError::Post(PostError::TooLong { url: "http://10.0.0.1/".to_owned() });
        let (unsent, sent) = (Course::default(), Course::default());
        sent.sent.cancel();
        let table = [
            (PushError::Relay(call()), true, true),
            (too_long(), true, true),
            (PushError::Call(call()), false, true),
            (PushError::Moved("service s".to_owned()), false, true),
            (PushError::PodGone("p".to_owned()), false, false),
            (PushError::Overtaken("self".to_owned()), false, false),
        ];
        for (error, before, after) in table {
            let found = (error.has_reached(&unsent), error.has_reached(&sent));
            assert_eq!(found, (before, after), "{error}");
        }
    }

    fn pod(spec: &Value, ip: &str) -> Pod {
        serde_json::from_value(json!({"metadata": {"name": "p"}, "spec": spec, "status": {"podIP": ip}}))
            .unwrap()
    }

    #[test]
    fn a_pod_is_asked_at_an_address_of_its_own_only() {
        let plain = json!({"containers": []});
        let host = json!({"containers": [], "hostNetwork": true});
        let table = [
            (&plain, "10.0.0.1", false, "10.0.0.1"),
            (&plain, "", false, "pod p has no address"),
            (
                &plain,
                "10.9.9.9",
                false,
                "pod p is on the host's network and its endpoint does not set allowHostNetwork",
            ),
            (
                &host,
                "10.0.0.1",
                false,
                "pod p is on the host's network and its endpoint does not set allowHostNetwork",
            ),
            (&host, "10.0.0.1", true, "10.0.0.1"),
            (&host, "127.0.0.1", true, "pod p has a loopback address, which is never asked: 127.0.0.1"),
            (
                &plain,
                "169.254.169.254",
                false,
                "pod p has a link-local address, which is never asked: 169.254.169.254",
            ),
        ];
        let node: IpAddr = "10.9.9.9".parse().unwrap();
        for (spec, ip, allowed, expected) in table {
            let endpoint = HttpEndpoint { port: 80, path: None, allow_host_network: Some(allowed) };
            let found = address_of(&pod(spec, ip), &endpoint, &[], |address| address == node);
            assert_eq!(found.map_or_else(|e| e.to_string(), |a| a.to_string()), expected, "{spec} {ip}");
        }
    }

    /// Pushes one question to an app that accepts; the API shows these pods, by UID and address, one at each
    /// reading and the last for ever. The question first waits for another one to the same endpoint; `waits`
    /// is true when the Evacuation still waits for the answer then. Returns how it went, and how often an
    /// answer was relayed.
    async fn pushed(seen: Vec<(&str, &str)>, waits: bool) -> (Result<Option<Answer>, PushError>, usize) {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let app = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = app.local_addr().unwrap().port();
        tokio::spawn(async move {
            let (mut stream, _) = app.accept().await.unwrap();
            let mut asked = Vec::new();
            let mut piece = [0; 4096];
            while !asked.ends_with(b"}") {
                let read = stream.read(&mut piece).await.unwrap();
                asked.extend_from_slice(&piece[..read]);
            }
            let body = json!({"apiVersion": "evacuation.dev/v1alpha1", "kind": "EvacuationReview",
                              "response": {"evacuationUid": "e1", "podUid": "p1", "answer": "Accept"}})
            .to_string();
            let head =
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: ";
            let reply = format!("{head}{}\r\n\r\n{body}", body.len());
            stream.write_all(reply.as_bytes()).await.unwrap();
        });
        let pods: Vec<Value> = seen
            .iter()
            .map(|(uid, ip)| json!({"metadata": {"name": "p", "uid": uid}, "status": {"podIP": ip}}))
            .collect();
        let (service, mut handle) = mock::pair::<http::Request<Body>, Response<Body>>();
        let relayed = Arc::new(Mutex::new(0));
        let count = Arc::clone(&relayed);
        let read = Arc::new(AtomicUsize::new(0));
        let readings = Arc::clone(&read);
        tokio::spawn(async move {
            while let Some((request, send)) = handle.next_request().await {
                let answer = if request.method() == http::Method::GET {
                    let reading = readings.fetch_add(1, Ordering::Relaxed) + 1;
                    pods[reading.min(pods.len()) - 1].clone()
                } else {
                    *count.lock().unwrap() += 1;
                    let body = request.into_body().collect().await.unwrap().to_bytes();
                    serde_json::from_slice(&body).unwrap()
                };
                let body = serde_json::to_vec(&answer).unwrap();
                send.send_response(Response::new(Body::from(body)));
            }
        });
        let evacuation = serde_json::from_value(json!({
            "metadata": {"namespace": "ns", "name": "e", "uid": "e1"},
            "spec": {"target": {"pod": {"name": "p", "uid": "p1"}}, "requesters": [{"name": "a.b/c"}]},
            "status": {"responders": [{"name": "self", "priority": 1, "timeoutSeconds": 60, "maxDelaySeconds": 1,
                                       "http": {"port": port}, "state": "Active",
                                       "activeTime": "2026-01-01T00:00:00.000000Z"}]},
        }))
        .unwrap();
        let pusher =
            Pusher::new(Client::new(service, "default"), vec!["127.0.0.0/8".parse().unwrap()], 1).unwrap();
        let endpoint = SocketAddr::from(([127, 0, 0, 1], port));
        let other = pusher.limiter.acquire("ns", endpoint).await;
        let (cluster, course) = (Nothing { waits }, Course::default());
        let push = pusher.push(&evacuation, "self", ReviewAction::Ask, &course, Utc::now, &cluster);
        let release = async {
            while read.load(Ordering::Relaxed) == 0 {
                tokio::task::yield_now().await;
            }
            // Nothing here waits for the outside, so that the question has come to its wait by then.
            for _ in 0..1000 {
                tokio::task::yield_now().await;
            }
            drop(other);
        };
        let (outcome, ()) = tokio::join!(push, release);
        let relayed = *relayed.lock().unwrap();
        (outcome, relayed)
    }

    #[test]
    fn rule_11_only_a_reply_that_would_be_the_same_each_time_ends_the_relay_of_an_answer() {
        let table = [
            (404, json!({"name": "e", "kind": "evacuations"}), true, "the Evacuation is gone"),
            (404, json!(null), false, "the API is not there for a moment"),
            (404, json!({"name": "v1alpha1.evacuation.dev"}), false, "as before"),
            (409, json!({"causes": [{"reason": "EvacuationFinished"}]}), true, "it has ended"),
            (
                409,
                json!({"causes": [{"reason": "NotYet"}], "retryAfterSeconds": 3}),
                false,
                "it ends by itself",
            ),
            (409, json!({"name": "e"}), false, "the object has been modified"),
            (422, json!(null), true, "the answer is invalid"),
            (401, json!(null), false, "certificate authorities change"),
            (403, json!(null), false, "a role is replaced"),
            (408, json!(null), false, "the API is slow"),
            (429, json!(null), false, "the API is busy"),
            (500, json!(null), false, "the store does not answer"),
            (503, json!(null), false, "the API does not answer"),
        ];
        for (code, details, expected, what) in table {
            let status = json!({"status": "Failure", "code": code, "details": details});
            let status: kube::core::Status = serde_json::from_value(status).unwrap();
            let source = kube::Error::Api(status.boxed());
            let error = CallError::Api { action: "relay".to_owned(), source };
            assert_eq!(is_final(&error, "e"), expected, "{what}");
        }
        assert!(!is_final(&CallError::Timeout { action: "relay".to_owned() }, "e"));
    }

    #[tokio::test]
    async fn an_answer_is_relayed_only_while_the_pod_that_gave_it_is_the_target() {
        let asked = ("p1", "127.0.0.1");
        let table = [
            (vec![asked], true, Ok(Some(Answer::Accept)), 1),
            (vec![asked, asked, ("p2", "127.0.0.1")], true, Err("pod p is gone"), 0),
            (vec![asked, asked, ("p1", "127.0.0.2")], true, Err("pod p has another address by now"), 0),
            (vec![asked], false, Err("the turn of responder self is over"), 0),
        ];
        for (seen, waits, expected, relays) in table {
            let (outcome, relayed) = pushed(seen.clone(), waits).await;
            let outcome = outcome.map_err(|error| error.to_string());
            assert_eq!(outcome, expected.map_err(str::to_owned), "{seen:?}");
            assert_eq!(relayed, relays, "{seen:?}");
        }
    }
}
