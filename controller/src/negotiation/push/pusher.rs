//! One question from end to end: find the pod or the Service, post, relay the reply.

use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use chrono::{DateTime, Utc};
use evacuation_api::{
    Answer, DEFAULT_HTTP_PATH, Evacuation, HttpEndpoint, ResponderStatus, ReviewAction, ReviewResponse,
};
use evacuation_protocol::question;
use ipnet::IpNet;
use k8s_openapi::api::{
    core::v1::{Pod, Service},
    discovery::v1::EndpointSlice,
};
use kube::{Api, Client, ResourceExt, api::ListParams};
use machinery_watch::Projected;

use super::{
    address::check_address,
    backing::{SERVICE_LABEL, check_backing},
    course::{Course, PushError},
    relay::relay,
    service::{Addressed, MAX_SLICES, service_address, trusting},
    tokens::Tokens,
    transport::{Destination, Https, Transport},
};
use crate::{
    cluster::{Cluster, Lister, ObjectKey, call, read_pod},
    negotiation::limiter::Limiter,
};

/// Maximum number of questions under way.
const AT_ONCE: usize = 256;

/// The objects that a question depends on.
pub(crate) trait ClusterView: Sync {
    /// Returns true while an Evacuation waits for this responder to answer, or to acknowledge a cancellation.
    fn waits_for(&self, evacuation: &Evacuation, responder: &str, action: ReviewAction) -> bool;

    /// Returns true when an address is a node's.
    fn is_node(&self, address: IpAddr) -> bool;

    /// Returns true when the namespace has a pod of that UID at that address.
    fn has_pod(&self, namespace: &str, uid: &str, address: IpAddr) -> bool;
}

/// Reply of an endpoint, not recorded yet.
#[derive(Debug)]
pub(crate) struct Reply {
    /// The address that was asked.
    address: SocketAddr,
    /// The answer; `None` acknowledges a cancellation.
    response: Option<ReviewResponse>,
}

/// Asks apps over HTTP.
pub(crate) struct Pusher {
    client: Client,
    lister: Arc<Lister>,
    transport: Transport,
    tokens: Tokens,
    allowed: Vec<IpNet>,
    limiter: Arc<Limiter<SocketAddr>>,
}

impl Pusher {
    /// Returns a pusher that reads pods and Services and relays answers through the client of a cluster.
    pub(crate) fn new(
        cluster: &Cluster,
        allowed: Vec<IpNet>,
        per_endpoint: usize,
    ) -> Result<Self, reqwest::Error> {
        let client = cluster.client.clone();
        Ok(Self {
            tokens: Tokens::new(client.clone()),
            client,
            lister: Arc::clone(&cluster.lister),
            transport: Transport::new()?,
            allowed,
            limiter: Limiter::new(AT_ONCE, per_endpoint),
        })
    }

    /// Posts a question. `time` reads the API server's clock.
    pub(crate) async fn ask(
        &self,
        evacuation: &Evacuation,
        responder: &str,
        action: ReviewAction,
        course: &Course,
        time: impl Fn() -> DateTime<Utc>,
        cluster: &impl ClusterView,
    ) -> Result<Reply, PushError> {
        let entry = entry(evacuation, responder)?;
        let address = self.address(evacuation, entry, cluster).await?;
        let namespace = evacuation.namespace().unwrap_or_default();
        let (_permit, waited) = self.limiter.acquire(&namespace, address).await;
        if waited {
            self.still_at(evacuation, entry, cluster, address).await?;
        }
        // Only now, for a token that waits can expire.
        let destination = self.destination(evacuation, entry, address).await?;
        let delivered = course.reached.unwrap_or_else(time);
        let request = question(evacuation, responder, action, delivered)
            .ok_or_else(|| PushError::NoEndpoint(responder.to_owned()))?;
        // The permit and the reads before can have taken their time.
        if !cluster.waits_for(evacuation, responder, action) {
            return Err(PushError::Overtaken(responder.to_owned()));
        }
        let response = self.transport.post(&destination, request, &course.sent).await?;
        Ok(Reply { address, response })
    }

    /// Relays a reply. Returns the answer, or `None` for a cancellation that is acknowledged. After
    /// [`PushError::Call`] the reply can be relayed again.
    pub(crate) async fn relay(
        &self,
        evacuation: &Evacuation,
        responder: &str,
        reply: &Reply,
        cluster: &impl ClusterView,
    ) -> Result<Option<Answer>, PushError> {
        let entry = entry(evacuation, responder)?;
        let still = || self.still_at(evacuation, entry, cluster, reply.address);
        relay(&self.client, evacuation, responder, reply.response.clone(), still).await?;
        Ok(reply.response.as_ref().map(|response| response.answer))
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
                let api: Api<Projected<Service, Addressed>> =
                    Api::namespaced(self.client.clone(), &namespace);
                let action = format!("read service {namespace}/{}", endpoint.name);
                let service = call(action, api.get_opt(&endpoint.name)).await?.map(Projected::into_inner);
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
        let api: Api<Projected<EndpointSlice, Addressed>> = Api::namespaced(self.client.clone(), namespace);
        // One more shows that there are too many.
        let most = u32::try_from(MAX_SLICES + 1).unwrap_or(u32::MAX);
        let parameters = ListParams::default().labels(&format!("{SERVICE_LABEL}={service}")).limit(most);
        let name = format!("{namespace}/{service}");
        let action = format!("list the endpointslices of service {name}");
        let slices = self.lister.list_with(action, &api, parameters, Some).await?;
        let has_pod = |uid: &str, address| cluster.has_pod(namespace, uid, address);
        Ok(check_backing(&name, namespace, &slices, &self.allowed, has_pod)?)
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
        let key = ObjectKey::new(evacuation.namespace().unwrap_or_default(), target.name.as_str());
        let pod = read_pod(&self.client, &key)
            .await?
            .filter(|pod| pod.uid() == target.uid)
            .ok_or_else(|| PushError::PodGone(target.name.clone()))?;
        address_of(&pod, endpoint, &self.allowed, |address| cluster.is_node(address))
    }
}

/// Returns the entry of a responder.
fn entry<'a>(evacuation: &'a Evacuation, responder: &str) -> Result<&'a ResponderStatus, PushError> {
    let mut responders = evacuation.status.iter().flat_map(|status| status.responders.iter().flatten());
    responders
        .find(|entry| entry.name == responder)
        .ok_or_else(|| PushError::NoEndpoint(responder.to_owned()))
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
    use tokio::net::TcpListener;
    use tower_test::mock;

    use super::*;
    use crate::{
        cluster::{EventSink, Leadership},
        negotiation::push::testing::accept_once,
    };

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
        tokio::spawn(accept_once(app));
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
        let client = Client::new(service, "default");
        let cluster = Cluster::new(client, Leadership::alone(), EventSink::default());
        let pusher = Pusher::new(&cluster, vec!["127.0.0.0/8".parse().unwrap()], 1).unwrap();
        let endpoint = SocketAddr::from(([127, 0, 0, 1], port));
        let other = pusher.limiter.acquire("ns", endpoint).await;
        let (cluster, course) = (Nothing { waits }, Course::default());
        let push = async {
            let reply =
                pusher.ask(&evacuation, "self", ReviewAction::Ask, &course, Utc::now, &cluster).await?;
            pusher.relay(&evacuation, "self", &reply, &cluster).await
        };
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
