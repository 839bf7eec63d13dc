//! State of the APIService of the evacuation API, as the kube-apiserver reports it.

use std::time::Duration;

use evacuation_api::{GROUP, VERSION};
use http::{Request, Response};
use http_body_util::{BodyExt, Limited};
use k8s_openapi::{
    jiff::Timestamp,
    kube_aggregator::pkg::apis::apiregistration::v1::{APIService, APIServiceCondition},
};
use kube::client::{Body, Client};
use tokio::time::timeout;

use super::failure::Server;

/// Time for reading the APIService. The command waits for it before it reports a failure.
const PATIENCE: Duration = Duration::from_secs(1);
/// The command to run first in an outage of the evacuation API: it finds the part that has failed.
pub(crate) const CHECK_FIRST: &str = "kubectl evacuate check; ";
/// Largest APIService that is read.
const BYTES: usize = 256 << 10;

/// State of the APIService of the evacuation API.
#[derive(Debug, Default)]
pub(super) enum Diagnosis {
    /// It cannot be read: the user has no right to.
    #[default]
    Unknown,
    /// The kube-apiserver does not answer.
    Unreached,
    /// There is none: the cluster was never told of the evacuation API.
    Absent,
    /// It exists.
    Found(Box<APIService>),
}

impl Diagnosis {
    /// Reads the APIService.
    pub(super) async fn read(client: &Client) -> Self {
        match timeout(PATIENCE, Self::find(client)).await {
            Ok(Ok(found)) => found.unwrap_or_default(),
            Ok(Err(_)) | Err(_) => Self::Unreached,
        }
    }

    async fn find(client: &Client) -> kube::Result<Option<Self>> {
        let path = format!("/apis/apiregistration.k8s.io/v1/apiservices/{}", api_service());
        let request = Request::get(path).body(Body::empty()).map_err(kube::Error::HttpError)?;
        Ok(Self::of_reply(client.send(request).await?).await)
    }

    async fn of_reply(reply: Response<Body>) -> Option<Self> {
        match reply.status().as_u16() {
            404 => Some(Self::Absent),
            200 => {
                let body = Limited::new(reply.into_body(), BYTES).collect().await.ok()?.to_bytes();
                Some(Self::Found(serde_json::from_slice(&body).ok()?))
            }
            _ => None,
        }
    }

    /// Returns the server to blame for an outage of that one. The evacuation API answers through the
    /// kube-apiserver.
    pub(super) fn server(&self, silent: Server) -> Server {
        if matches!(self, Self::Unreached) { Server::KubeApiserver } else { silent }
    }

    /// Returns one line that says which server does that, since when it is unavailable, and where to look.
    pub(super) fn line(&self, server: Server, deed: &str, cluster: &str) -> String {
        let server = self.server(server);
        let name = server.name(cluster);
        match server {
            Server::EvacuationApi => {
                let since = self.service().and_then(|service| unavailable(service, Timestamp::now()));
                let since = since.map(|since| format!(", {since}")).unwrap_or_default();
                let namespace = self.namespace().map(|name| format!("; kubectl get pods -n {name}"));
                format!(
                    "{name} {deed}{since}. Look at: {CHECK_FIRST}kubectl get apiservice {}{}",
                    api_service(),
                    namespace.unwrap_or_default()
                )
            }
            Server::KubeApiserver => {
                format!("{name} {deed}. Look at: kubectl config view --minify; kubectl version")
            }
        }
    }

    /// Returns the message for a cluster that does not know the group.
    pub(super) fn not_served(&self, cluster: &str) -> String {
        match self {
            Self::Found(_) => format!(
                "the cluster {cluster} does not serve {GROUP} yet. Look at: kubectl get apiservice {}",
                api_service()
            ),
            Self::Absent | Self::Unknown | Self::Unreached => format!(
                "the cluster {cluster} does not serve {GROUP}: is it installed, and is this the right context?"
            ),
        }
    }

    fn service(&self) -> Option<&APIService> {
        if let Self::Found(service) = self { Some(service) } else { None }
    }

    /// Returns the namespace of the API server's Service.
    fn namespace(&self) -> Option<&str> {
        self.service()?.spec.as_ref()?.service.as_ref()?.namespace.as_deref()
    }
}

/// Returns the name of the APIService of the evacuation API.
pub(crate) fn api_service() -> String {
    format!("{VERSION}.{GROUP}")
}

/// Returns for how long an APIService has been unavailable, and why. `None` for one that is available, or
/// whose state the kube-apiserver has not reported.
pub(crate) fn unavailable(service: &APIService, now: Timestamp) -> Option<String> {
    let conditions = service.status.as_ref()?.conditions.as_ref()?;
    let failed =
        conditions.iter().find(|condition| condition.type_ == "Available" && condition.status != "True");
    failed.map(|condition| since(condition, now))
}

/// Returns for how long an APIService has been unavailable, and why.
fn since(condition: &APIServiceCondition, now: Timestamp) -> String {
    let time = condition.last_transition_time.as_ref().map(|time| time.0);
    let duration = time.and_then(|time| Duration::try_from(now - time).ok());
    let duration = duration.map(|duration| {
        format!(" for {}", humantime::format_duration(Duration::from_secs(duration.as_secs())))
    });
    let reason = condition.reason.as_deref().unwrap_or("unknown reason");
    let message = condition.message.as_deref().map(|message| format!(": {message}"));
    format!("unavailable{} ({reason}{})", duration.unwrap_or_default(), message.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn diagnosis() -> Diagnosis {
        let service = json!({
            "metadata": {"name": "v1alpha1.evacuation.dev"},
            "spec": {"groupPriorityMinimum": 1, "versionPriority": 1,
                     "service": {"name": "evacuation-apiserver", "namespace": "evacuation-system"}},
            "status": {"conditions": [{"type": "Available", "status": "False", "reason": "MissingEndpoints",
                                       "message": "no addresses", "lastTransitionTime": "2026-01-01T00:00:00Z"}]},
        });
        Diagnosis::Found(serde_json::from_value(service).unwrap())
    }

    #[test]
    fn the_line_names_the_server_the_cause_the_time_and_the_place_to_look_at() {
        let line = diagnosis().line(
            Server::EvacuationApi,
            "does not answer (503: service unavailable)",
            "https://c",
        );
        let (before, after) = line.split_once(" for ").unwrap();
        assert_eq!(before, "the evacuation API does not answer (503: service unavailable), unavailable");
        let (_, after) = after.split_once(" (").unwrap();
        assert_eq!(
            after,
            "MissingEndpoints: no addresses). Look at: kubectl evacuate check; kubectl get apiservice \
             v1alpha1.evacuation.dev; kubectl get pods -n evacuation-system"
        );
        let now = "2026-01-01T00:01:03Z".parse().unwrap();
        assert_eq!(
            unavailable(diagnosis().service().unwrap(), now).unwrap(),
            "unavailable for 1m 3s (MissingEndpoints: no addresses)"
        );
    }

    #[test]
    fn a_cluster_without_the_api_is_named_and_not_called_slow() {
        let text = Diagnosis::Absent.not_served("https://c");
        assert_eq!(
            text,
            "the cluster https://c does not serve evacuation.dev: is it installed, and is this the right context?"
        );
    }
}
