//! Facts about the installation, as the cluster tells them.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use evacuation_api::{Blindness, GATEWAY_WEBHOOKS, GROUP, VERSION};
use evacuation_protocol::{LEADERLESS, lease_renewed};
use futures::future::join_all;
use k8s_openapi::{
    api::{
        admissionregistration::v1::ValidatingWebhookConfiguration,
        apps::v1::{Deployment, StatefulSet},
        coordination::v1::Lease,
    },
    apimachinery::pkg::version::Info,
    kube_aggregator::pkg::apis::apiregistration::v1::APIService,
};
use kube::core::ObjectList;
use serde::{Deserialize, de::IgnoredAny};

use super::{
    reader::{Read, Reader, Reply, Unread},
    rights::{RIGHTS, Right},
    trial::{self, Trial},
};
use crate::connection::api_service;

/// Namespace of the manifests, for a cluster whose APIService does not tell it.
const NAMESPACE: &str = "evacuation-system";
/// Name of the Service of the manifests, likewise.
const SERVICE: &str = "evacuation-apiserver";
/// Namespace and name of the lease of the kube-controller-manager.
pub(super) const MANAGER: [&str; 2] = ["kube-system", "kube-controller-manager"];
/// Namespace and name of the lease of the kube-scheduler.
pub(super) const SCHEDULER: [&str; 2] = ["kube-system", "kube-scheduler"];
/// Name of the controller's lease and of its Deployment.
pub(super) const CONTROLLER: &str = "evacuation-controller";
/// Name of the lease of the built-in responders and of their Deployment.
pub(super) const BUILT_IN: &str = "evacuation-built-in-responders";
/// Name of the gateway's Deployment.
pub(super) const GATEWAY: &str = "evacuation-gateway";
/// Query of the project's own objects.
const OWN: &str = "labelSelector=app.kubernetes.io%2Fpart-of%3Devacuation&limit=100";
/// Time after which a working controller has renewed its lease again: it does so every 5 s.
const RENEWAL: Duration = Duration::from_secs(6);

/// Facts about the installation and the calling user.
#[derive(Clone, Debug)]
pub(super) struct Facts {
    /// Namespace of the installation.
    pub(super) namespace: String,
    /// Name of the API server's Service, which is that of its Deployment, too.
    pub(super) service_name: String,
    /// Version of the kube-apiserver.
    pub(super) kubernetes: Read<Reply<Info>>,
    pub(super) service: Read<APIService>,
    /// Discovery of the evacuation API, which every authenticated user may read.
    pub(super) discovery: Read<Reply<IgnoredAny>>,
    /// A list of NodeEvacuations, which the API server answers from its store.
    pub(super) list: Read<Reply<IgnoredAny>>,
    /// Checks of `/readyz` of an API server, through its Service.
    pub(super) readyz: Read<String>,
    /// Version of the API server, from its OpenAPI document.
    pub(super) version: Read<String>,
    pub(super) deployments: Read<Vec<Deployment>>,
    pub(super) stateful_sets: Read<Vec<StatefulSet>>,
    pub(super) lease: Read<LeaseView>,
    /// Lease of the built-in responders, an optional part.
    pub(super) built_in: Read<LeaseView>,
    /// Lease of the kube-controller-manager, which counts budgets and replaces pods.
    pub(super) manager: Read<LeaseView>,
    /// Lease of the kube-scheduler, which gives replacements their nodes.
    pub(super) scheduler: Read<LeaseView>,
    pub(super) webhooks: Read<ValidatingWebhookConfiguration>,
    /// Trial call of the gateway. `None` without webhooks.
    pub(super) trial: Option<Read<Trial>>,
    /// Rights of the user, in the order of [`RIGHTS`].
    pub(super) rights: Vec<(&'static Right, Read<bool>)>,
    /// Namespace of the user's context.
    pub(super) user_namespace: String,
}

/// A controller's lease.
#[derive(Clone, Debug)]
pub(super) struct LeaseView {
    pub(super) lease: Lease,
    /// Time of the read, by the clock of the kube-apiserver.
    pub(super) now: DateTime<Utc>,
    /// True when a second read showed a renewal, so that a controller works whatever the clocks say.
    pub(super) was_renewed: bool,
}

impl LeaseView {
    /// Age of the lease. Negative when its controller's clock is ahead. `None` when it was never held.
    pub(super) fn age(&self) -> Option<TimeDelta> {
        lease_renewed(&self.lease).map(|renewed| self.now - renewed)
    }

    /// Returns true when a controller was seen to hold it, or held it a short time ago.
    pub(super) fn is_live(&self) -> bool {
        let longest = TimeDelta::from_std(LEADERLESS).unwrap_or_default();
        self.was_renewed || self.age().is_some_and(|age| age.abs() <= longest)
    }

    /// Returns what a controller that renews it cannot watch.
    pub(super) fn blindness(&self) -> Option<Blindness> {
        Blindness::of(&self.lease).filter(|_| self.is_live())
    }

    /// Returns the identity of the holder. `None` for a lease that was given back.
    pub(super) fn holder(&self) -> Option<&str> {
        self.lease.spec.as_ref()?.holder_identity.as_deref().filter(|holder| !holder.is_empty())
    }
}

/// OpenAPI document, of which only the version is read.
#[derive(Deserialize)]
struct Document {
    info: DocumentInfo,
}

#[derive(Deserialize)]
struct DocumentInfo {
    version: String,
}

/// Facts that are found where the APIService says.
struct Installed {
    namespace: String,
    service_name: String,
    service: Read<APIService>,
    deployments: Read<Vec<Deployment>>,
    stateful_sets: Read<Vec<StatefulSet>>,
    lease: Read<LeaseView>,
    built_in: Read<LeaseView>,
    readyz: Read<String>,
}

impl Facts {
    /// Reads all facts at once. A fact that cannot be read holds up no other.
    pub(super) async fn read(reader: &Reader, user_namespace: &str) -> Self {
        let discovery = format!("/apis/{GROUP}/{VERSION}");
        let list = format!("{discovery}/nodeevacuations?limit=1");
        let document = format!("/openapi/v3{discovery}");
        let rights = join_all(
            RIGHTS.iter().map(async |right| (right, right.is_granted(reader, user_namespace).await)),
        );
        let (installed, manager, scheduler, kubernetes, discovery, list, document, webhooks, rights) = tokio::join!(
            Installed::read(reader),
            read_lease(reader, MANAGER),
            read_lease(reader, SCHEDULER),
            reader.get("/version"),
            reader.get(&discovery),
            reader.get(&list),
            reader.get_once::<Document>(&document),
            read_webhooks(reader, user_namespace),
            rights,
        );
        let (webhooks, trial) = webhooks;
        let Installed {
            namespace,
            service_name,
            service,
            deployments,
            stateful_sets,
            lease,
            built_in,
            readyz,
        } = installed;
        Self {
            namespace,
            service_name,
            kubernetes,
            service,
            discovery,
            list,
            readyz,
            version: document.map(|reply| reply.body.info.version),
            deployments,
            stateful_sets,
            lease,
            built_in,
            manager,
            scheduler,
            webhooks,
            trial,
            rights,
            user_namespace: user_namespace.to_owned(),
        }
    }
}

impl Installed {
    async fn read(reader: &Reader) -> Self {
        let path = format!("/apis/apiregistration.k8s.io/v1/apiservices/{}", api_service());
        let service: Read<APIService> = reader.get(&path).await.map(|reply| reply.body);
        let reference = service.as_ref().ok().and_then(|service| service.spec.as_ref()?.service.as_ref());
        let namespace = reference.and_then(|reference| reference.namespace.as_deref()).unwrap_or(NAMESPACE);
        let service_name = reference.and_then(|reference| reference.name.as_deref()).unwrap_or(SERVICE);
        let port = reference.and_then(|reference| reference.port).unwrap_or(443);
        let workloads = format!("/apis/apps/v1/namespaces/{namespace}");
        let (deployments, stateful_sets) =
            (format!("{workloads}/deployments?{OWN}"), format!("{workloads}/statefulsets?{OWN}"));
        let readyz = format!(
            "/api/v1/namespaces/{namespace}/services/https:{service_name}:{port}/proxy/readyz?verbose"
        );
        let (deployments, stateful_sets, lease, built_in, readyz) = tokio::join!(
            reader.get::<ObjectList<Deployment>>(&deployments),
            reader.get::<ObjectList<StatefulSet>>(&stateful_sets),
            read_lease(reader, [namespace, CONTROLLER]),
            read_lease(reader, [namespace, BUILT_IN]),
            reader.probe(&readyz),
        );
        Self {
            namespace: namespace.to_owned(),
            service_name: service_name.to_owned(),
            deployments: deployments.map(|reply| reply.body.items),
            stateful_sets: stateful_sets.map(|reply| reply.body.items),
            lease,
            built_in,
            readyz,
            service,
        }
    }
}

/// Returns the namespace of a trial call by a user of that one. The webhooks are not called for that of the
/// manifests.
pub(super) fn called(namespace: &str) -> &str {
    if namespace == NAMESPACE { "default" } else { namespace }
}

/// Reads the gateway's webhooks, and makes a trial call if there are some.
async fn read_webhooks(
    reader: &Reader,
    namespace: &str,
) -> (Read<ValidatingWebhookConfiguration>, Option<Read<Trial>>) {
    let path =
        format!("/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/{GATEWAY_WEBHOOKS}");
    let webhooks = reader.get(&path).await.map(|reply| reply.body);
    let trial = if webhooks.is_ok() { Some(trial::call(reader, called(namespace)).await) } else { None };
    (webhooks, trial)
}

/// Reads a lease, and an old one again after the time of a renewal: its age counts by the clocks of other
/// machines, and a renewal does not.
async fn read_lease(reader: &Reader, [namespace, name]: [&str; 2]) -> Read<LeaseView> {
    let path = format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{name}");
    let first = look(reader, &path).await?;
    let is_old = first.age().is_some_and(|age| age.abs().to_std().is_ok_and(|age| age > LEADERLESS));
    if !is_old || !reader.pause(RENEWAL).await {
        return Ok(first);
    }
    match look(reader, &path).await {
        Ok(second) => {
            let was_renewed = lease_renewed(&second.lease) != lease_renewed(&first.lease);
            Ok(LeaseView { was_renewed, ..second })
        }
        Err(Unread::Absent) => Err(Unread::Absent),
        Err(_) => Ok(first),
    }
}

async fn look(reader: &Reader, path: &str) -> Read<LeaseView> {
    let reply: Reply<Lease> = reader.get(path).await?;
    let now = Utc::now() + reply.ahead.unwrap_or_default();
    Ok(LeaseView { lease: reply.body, now, was_renewed: false })
}
