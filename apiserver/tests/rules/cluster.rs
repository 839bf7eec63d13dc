//! Answers of the cluster: its pods, its namespaces, and the rights of users.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
};

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use evacuation_api::NodeEvacuation;
use evacuation_apiserver::{Budgets, Plan, Pods, PodsError, SightError, Sights};
use evacuation_protocol::{DrainSight, preview};
use http::HeaderMap;
use k8s_openapi::api::core::v1::Pod;
use machinery_auth::{Attributes, AuthError, Authenticator, Authorizer, UserInfo, Verdict};
use machinery_server::{ApiError, NamespaceState, Namespaces};
use rustls::pki_types::CertificateDer;
use serde_json::{Value, json};

/// The namespace of most tests.
pub(crate) const SHOP: &str = "shop";
/// The header by which the tests say who they are.
pub(crate) const USER_HEADER: &str = "x-test-user";

/// One pretended cluster. What it was asked is noted, in order.
#[derive(Default)]
pub(crate) struct Cluster {
    pods: Mutex<BTreeMap<(String, String), Pod>>,
    grants: Mutex<BTreeSet<String>>,
    terminating: Mutex<BTreeSet<String>>,
    asked: Mutex<Vec<String>>,
    budgets: Mutex<Budgets>,
    /// Calls that get no answer: `pods` or `rights`.
    outage: Mutex<Option<&'static str>>,
}

impl Cluster {
    /// Adds or replaces a pod of [`SHOP`] that runs as the service account `db`.
    pub(crate) fn add_pod(&self, name: &str, uid: &str) {
        self.add_pod_as(name, uid, json!({}), json!({"serviceAccountName": "db"}));
    }

    /// The same with other metadata and spec.
    pub(crate) fn add_pod_as(&self, name: &str, uid: &str, metadata: Value, spec: Value) {
        let mut pod = json!({
            "metadata": {"name": name, "namespace": SHOP, "uid": uid},
            "spec": {"containers": [{"name": "app", "image": "app"}], "nodeName": "node-a"},
            "status": {"phase": "Running"},
        });
        merge(&mut pod["metadata"], metadata);
        merge(&mut pod["spec"], spec);
        let pod = serde_json::from_value(pod).unwrap();
        self.pods.lock().unwrap().insert((SHOP.to_owned(), name.to_owned()), pod);
    }

    /// Replaces db-0, UID u-0, by a pod that runs and registers these responders in its annotation.
    pub(crate) fn register(&self, responders: &Value) {
        let annotations = json!({"evacuation.dev/responders": responders.to_string()});
        self.add_running_pod("db-0", "u-0", json!({"annotations": annotations, "labels": {"app": "db"}}));
    }

    /// Adds or replaces a pod of [`SHOP`] with a running container.
    pub(crate) fn add_running_pod(&self, name: &str, uid: &str, metadata: Value) {
        self.add_pod_as(name, uid, metadata, json!({"serviceAccountName": "db"}));
        let container = json!({"name": "app", "image": "app", "imageID": "", "ready": true, "restartCount": 0,
                               "state": {"running": {}}});
        let mut pods = self.pods.lock().unwrap();
        let pod = pods.get_mut(&(SHOP.to_owned(), name.to_owned())).unwrap();
        let status = pod.status.get_or_insert_default();
        status.container_statuses = Some(vec![serde_json::from_value(container).unwrap()]);
    }

    /// Changes the pod db-0.
    pub(crate) fn change_pod(&self, change: impl FnOnce(&mut Pod)) {
        change(self.pods.lock().unwrap().get_mut(&(SHOP.to_owned(), "db-0".to_owned())).unwrap());
    }

    /// Replaces the budgets of every namespace.
    pub(crate) fn set_budgets(&self, budgets: Budgets) {
        *self.budgets.lock().unwrap() = budgets;
    }

    pub(crate) fn remove_pod(&self, name: &str) {
        self.pods.lock().unwrap().remove(&(SHOP.to_owned(), name.to_owned()));
    }

    /// Grants a user or a group a verb on a resource, or on one of its objects:
    /// `grant("jane", "create pods/eviction")`, `grant("op", "respond responders db.acme.io/failover")`.
    pub(crate) fn grant(&self, user: &str, act: &str) {
        self.grants.lock().unwrap().insert(format!("{user} {act}"));
    }

    pub(crate) fn revoke(&self, user: &str, act: &str) {
        self.grants.lock().unwrap().remove(&format!("{user} {act}"));
    }

    pub(crate) fn terminate_namespace(&self, name: &str) {
        self.terminating.lock().unwrap().insert(name.to_owned());
    }

    /// From now on, `pods` or `rights` cannot be found out; nothing is in the way after `None`.
    pub(crate) fn break_down(&self, what: Option<&'static str>) {
        *self.outage.lock().unwrap() = what;
    }

    fn is_down(&self, what: &str) -> bool {
        *self.outage.lock().unwrap() == Some(what)
    }

    /// Returns the calls since the last time. A repeated call counts once, because the server decides again
    /// when it had decided by an older version of the object.
    pub(crate) fn asked(&self) -> Vec<String> {
        let mut seen = BTreeSet::new();
        let asked = std::mem::take(&mut *self.asked.lock().unwrap());
        asked.into_iter().filter(|what| seen.insert(what.clone())).collect()
    }

    fn note(&self, what: String) {
        self.asked.lock().unwrap().push(what);
    }
}

fn merge(into: &mut Value, from: Value) {
    let Value::Object(from) = from else { panic!("not an object: {from}") };
    for (key, value) in from {
        into[key] = value;
    }
}

/// The roles that a cluster fills.
#[derive(Clone)]
pub(crate) struct Shared(pub(crate) Arc<Cluster>);

#[async_trait]
impl Pods for Shared {
    async fn get(&self, namespace: &str, name: &str) -> Result<Option<Pod>, PodsError> {
        self.0.note(format!("get pod {name}"));
        if self.0.is_down("pods") {
            return Err(PodsError::Timeout { namespace: namespace.to_owned(), name: name.to_owned() });
        }
        Ok(self.0.pods.lock().unwrap().get(&(namespace.to_owned(), name.to_owned())).cloned())
    }

    async fn budgets(&self, _namespace: &str, _user: &str) -> Budgets {
        self.0.budgets.lock().unwrap().clone()
    }
}

/// All nodes are those that the drain names, and all pods are on them.
#[async_trait]
impl Sights for Shared {
    async fn preview(
        &self,
        drain: &NodeEvacuation,
        _user: &str,
        now: DateTime<Utc>,
    ) -> Result<Plan, SightError> {
        if self.0.is_down("pods") {
            return Err(SightError::Timeout);
        }
        let node = |name: &String| {
            serde_json::from_value(json!({"metadata": {"name": name, "uid": name}, "spec": {}})).unwrap()
        };
        let sight = DrainSight {
            nodes: drain.spec.nodes.names.iter().map(node).collect(),
            pods: self.0.pods.lock().unwrap().values().cloned().collect(),
            ..DrainSight::default()
        };
        Ok(Plan { status: preview(drain, &sight, now), left_out: Vec::new() })
    }
}

#[async_trait]
impl Authorizer for Shared {
    /// Everybody may do everything to Evacuations, but for what the tests are about: that needs a grant.
    async fn authorize(&self, attributes: &Attributes) -> Result<Verdict, AuthError> {
        let Some(resource) = &attributes.resource else {
            return Ok(Verdict::Allowed);
        };
        let is_evacuation =
            matches!(resource.resource.as_str(), "evacuations" | "selfevacuations" | "evacuationresponders");
        let everywhere = attributes.verb == "create" && resource.namespace.is_empty();
        // The creator of a cluster-scoped object always creates it everywhere.
        let is_drain = matches!(resource.resource.as_str(), "nodeevacuations" | "nodeevacuationrules");
        if attributes.verb != "override" && (is_drain || (is_evacuation && !everywhere)) {
            return Ok(Verdict::Allowed);
        }
        let subresource = if resource.subresource.is_empty() { "" } else { "/" };
        let act = format!("{} {}{subresource}{}", attributes.verb, resource.resource, resource.subresource);
        let of_object = format!("{act} {}", resource.name);
        self.0.note(of_object.clone());
        if self.0.is_down("rights") {
            let source = Arc::new(std::io::Error::other("down"));
            return Err(AuthError::Unavailable { action: "the review", source });
        }
        let grants = self.0.grants.lock().unwrap();
        let mut names = std::iter::once(&attributes.user.name).chain(&attributes.user.groups);
        let granted =
            names.any(|name| [&act, &of_object].iter().any(|act| grants.contains(&format!("{name} {act}"))));
        Ok(if granted { Verdict::Allowed } else { Verdict::Denied { reason: String::new() } })
    }
}

#[async_trait]
impl Namespaces for Shared {
    async fn state(&self, name: &str) -> Result<NamespaceState, ApiError> {
        let terminating = self.0.terminating.lock().unwrap().contains(name);
        Ok(if terminating { NamespaceState::Terminating } else { NamespaceState::Active })
    }
}

#[async_trait]
impl Authenticator for Shared {
    async fn authenticate(
        &self,
        headers: &HeaderMap,
        _: &[CertificateDer<'static>],
    ) -> Result<Option<UserInfo>, AuthError> {
        let Some(header) = headers.get(USER_HEADER) else {
            return Ok(None);
        };
        let user: Value = serde_json::from_slice(header.as_bytes()).unwrap();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let extra = user["extra"].as_object().unwrap().iter();
        Ok(Some(UserInfo {
            name: text(&user["name"]),
            groups: user["groups"].as_array().unwrap().iter().map(text).collect(),
            extra: extra.map(|(key, value)| (key.clone(), vec![text(value)])).collect(),
            ..UserInfo::default()
        }))
    }
}
