//! A server on a free port, and callers of it.

use std::{net::TcpListener, sync::Arc, time::Duration};

use chrono::Utc;
use evacuation_apiserver::{CurrentSettings, LimitOptions, Parts, assemble};
use evacuation_protocol::NegotiationSettings;
use machinery_server::Metrics;
use machinery_storage::{EmbeddedOptions, EmbeddedStore, Operation, Store, Transaction};
use reqwest::{Client, Method, RequestBuilder};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use crate::{
    cluster::{Cluster, SHOP, Shared, USER_HEADER},
    reply::Reply,
};

const API: &str = "/apis/evacuation.dev/v1alpha1";
const READY: Duration = Duration::from_secs(20);

/// A server and its pretended cluster. Ends with the value.
pub(crate) struct Server {
    pub(crate) cluster: Arc<Cluster>,
    store: Arc<EmbeddedStore>,
    client: Client,
    base: String,
    shutdown: CancellationToken,
    _folder: TempDir,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shutdown.cancel();
    }
}

impl Server {
    /// A server in whose cluster jane and joe may evict pods, and where the pod db-0 has the UID u-0.
    pub(crate) async fn start() -> Self {
        Self::with_limits(LimitOptions::default()).await
    }

    /// The same with settings of the cluster's administrator.
    pub(crate) async fn with_settings(settings: NegotiationSettings) -> Self {
        Self::with(LimitOptions::default(), settings).await
    }

    /// The same with other limits.
    pub(crate) async fn with_limits(limits: LimitOptions) -> Self {
        Self::with(limits, NegotiationSettings::default()).await
    }

    async fn with(limits: LimitOptions, settings: NegotiationSettings) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let folder = tempfile::tempdir().unwrap();
        let store = EmbeddedStore::open(EmbeddedOptions::new(folder.path().join("store"))).await.unwrap();
        let store = Arc::new(store);
        let cluster = Arc::new(Cluster::default());
        cluster.add_pod("db-0", "u-0");
        cluster.grant("jane", "create pods/eviction");
        cluster.grant("joe", "create pods/eviction");
        let shared = Arc::new(Shared(Arc::clone(&cluster)));
        let server = assemble(Parts {
            store: store.clone(),
            pods: shared.clone(),
            sights: shared.clone(),
            authenticator: shared.clone(),
            authorizer: shared.clone(),
            namespaces: shared,
            shutdown_delay: Duration::ZERO,
            leader: None,
            limits,
            settings: CurrentSettings::fixed(settings),
            audit: None,
            traces: None,
            admission: None,
            metrics: Metrics::new(),
        })
        .unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let shutdown = CancellationToken::new();
        tokio::spawn(server.serve(listener, None, shutdown.clone()));
        let this = Self { cluster, store, client: Client::new(), base, shutdown, _folder: folder };
        this.until_ready().await;
        this
    }

    async fn until_ready(&self) {
        let url = format!("{}/readyz", self.base);
        let ready = async {
            while !self.client.get(&url).send().await.is_ok_and(|reply| reply.status().is_success()) {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(READY, ready).await.expect("the server gets ready");
    }

    /// A person, of the group `people`.
    /// The server's metrics.
    pub(crate) async fn metrics(&self) -> String {
        let user = self.user("jane").user;
        let request = self.client.get(format!("{}/metrics", self.base)).header(USER_HEADER, user);
        request.send().await.unwrap().text().await.unwrap()
    }

    pub(crate) fn user(&self, name: &str) -> Caller<'_> {
        self.caller(&json!({"name": name, "groups": ["people"], "extra": {}}))
    }

    /// A service account without a pod, such as the controller's.
    pub(crate) fn service_account(&self, namespace: &str, name: &str) -> Caller<'_> {
        let name = format!("system:serviceaccount:{namespace}:{name}");
        self.caller(&json!({"name": name, "groups": ["system:serviceaccounts"], "extra": {}}))
    }

    /// A pod, by a token that is bound to it.
    pub(crate) fn pod(&self, namespace: &str, account: &str, name: &str, uid: &str) -> Caller<'_> {
        self.caller(&json!({
            "name": format!("system:serviceaccount:{namespace}:{account}"),
            "groups": ["system:serviceaccounts"],
            "extra": {
                "authentication.kubernetes.io/pod-name": name,
                "authentication.kubernetes.io/pod-uid": uid,
            },
        }))
    }

    /// The pod db-0 of [`Server::start`].
    pub(crate) fn target(&self) -> Caller<'_> {
        self.pod(SHOP, "db", "db-0", "u-0")
    }

    /// The controller, which the rules treat as any other writer.
    pub(crate) fn controller(&self) -> Caller<'_> {
        self.service_account("evacuation-system", "evacuation-controller")
    }

    fn caller(&self, user: &Value) -> Caller<'_> {
        Caller { server: self, user: user.to_string(), namespace: SHOP.to_owned() }
    }

    /// Creates an Evacuation of db-0 by jane, with one entry of that content beside its name.
    pub(crate) async fn evacuation(&self, name: &str, entry: Value) -> Value {
        self.user("jane")
            .create(&evacuation(name, "db-0", &[requester("jane.example.com/a", entry)]))
            .await
            .ok()
    }

    /// Changes a stored object, past the rules.
    pub(crate) async fn rewrite(&self, path: &str, change: impl FnOnce(&mut Value)) {
        let key = format!("/evacuation.dev/{path}");
        let stored = self.store.get(&key).await.unwrap().found.unwrap();
        let mut object: Value = serde_json::from_slice(&stored.value).unwrap();
        change(&mut object);
        let put = Operation::Put(key, object.to_string().into());
        self.store.commit(Transaction { preconditions: vec![], operations: vec![put] }).await.unwrap();
    }

    /// Gives an Evacuation these responders, as if they had been registered before it was created. Those that
    /// are Active become so now.
    pub(crate) async fn begin(&self, name: &str, responders: &[Value]) -> Value {
        let mut responders = responders.to_vec();
        for responder in responders.iter_mut().filter(|responder| responder["state"] == "Active") {
            responder["activeTime"] = json!(evacuation_api::Timestamp(Utc::now()));
        }
        let change = |object: &mut Value| object["status"]["responders"] = json!(responders);
        self.rewrite(&format!("evacuations/{SHOP}/{name}"), change).await;
        self.user("jane").get(&format!("evacuations/{name}")).await.ok()
    }
}

/// Somebody who makes requests.
pub(crate) struct Caller<'a> {
    server: &'a Server,
    user: String,
    namespace: String,
}

impl Caller<'_> {
    /// The same caller in another namespace; empty for all of them.
    pub(crate) fn in_namespace(mut self, namespace: &str) -> Self {
        namespace.clone_into(&mut self.namespace);
        self
    }

    pub(crate) async fn create(&self, object: &Value) -> Reply {
        self.create_with(object, "").await
    }

    /// The same with a query, such as `?dryRun=All`.
    pub(crate) async fn create_with(&self, object: &Value, query: &str) -> Reply {
        send(self.request(Method::POST, &format!("evacuations{query}")).json(object)).await
    }

    /// Creates an object of another kind.
    pub(crate) async fn create_of(&self, resource: &str, object: &Value) -> Reply {
        send(self.request(Method::POST, resource).json(object)).await
    }

    /// Updates an object of another kind.
    pub(crate) async fn update_of(&self, resource: &str, object: &Value) -> Reply {
        let name = object["metadata"]["name"].as_str().unwrap();
        send(self.request(Method::PUT, &format!("{resource}/{name}")).json(object)).await
    }

    /// Updates what is at that path.
    pub(crate) async fn update_at(&self, path: &str, object: &Value) -> Reply {
        send(self.request(Method::PUT, path).json(object)).await
    }

    /// Reads, changes and updates what is at that path.
    pub(crate) async fn edit_at(&self, path: &str, change: impl FnOnce(&mut Value)) -> Reply {
        let mut object = self.get(path).await.ok();
        change(&mut object);
        self.update_at(path, &object).await
    }

    /// Applies a merge patch to what is at that URL.
    pub(crate) async fn merge_patch_at(&self, url: &str, patch: Value) -> Reply {
        let request = self.request(Method::PATCH, url);
        send(request.header("content-type", "application/merge-patch+json").body(patch.to_string())).await
    }

    /// Deletes what is at that path.
    pub(crate) async fn delete_at(&self, path: &str) -> Reply {
        send(self.request(Method::DELETE, path)).await
    }

    pub(crate) async fn get(&self, path: &str) -> Reply {
        send(self.request(Method::GET, path)).await
    }

    pub(crate) async fn get_table(&self, path: &str) -> Reply {
        let accept = "application/json;as=Table;v=v1;g=meta.k8s.io";
        send(self.request(Method::GET, path).header("accept", accept)).await
    }

    pub(crate) async fn update(&self, object: &Value) -> Reply {
        let name = object["metadata"]["name"].as_str().unwrap();
        send(self.request(Method::PUT, &format!("evacuations/{name}")).json(object)).await
    }

    /// Reads, changes and updates the object.
    pub(crate) async fn edit(&self, name: &str, change: impl FnOnce(&mut Value)) -> Reply {
        let mut object = self.get(&format!("evacuations/{name}")).await.ok();
        change(&mut object);
        self.update(&object).await
    }

    /// Reads, changes and updates the status.
    pub(crate) async fn edit_status(&self, name: &str, change: impl FnOnce(&mut Value)) -> Reply {
        let mut object = self.get(&format!("evacuations/{name}")).await.ok();
        change(&mut object["status"]);
        self.update_status(&object).await
    }

    pub(crate) async fn update_status(&self, object: &Value) -> Reply {
        let name = object["metadata"]["name"].as_str().unwrap();
        send(self.request(Method::PUT, &format!("evacuations/{name}/status")).json(object)).await
    }

    pub(crate) async fn merge_patch(&self, name: &str, patch: Value) -> Reply {
        let request = self.request(Method::PATCH, &format!("evacuations/{name}"));
        send(request.header("content-type", "application/merge-patch+json").body(patch.to_string())).await
    }

    pub(crate) async fn strategic_patch(&self, name: &str, patch: Value) -> Reply {
        let request = self.request(Method::PATCH, &format!("evacuations/{name}"));
        let request = request.header("content-type", "application/strategic-merge-patch+json");
        send(request.body(patch.to_string())).await
    }

    pub(crate) async fn json_patch(&self, name: &str, patch: Value) -> Reply {
        let request = self.request(Method::PATCH, &format!("evacuations/{name}"));
        send(request.header("content-type", "application/json-patch+json").body(patch.to_string())).await
    }

    /// Applies a configuration of an Evacuation as that manager.
    pub(crate) async fn apply(&self, name: &str, manager: &str, configuration: &Value) -> Reply {
        self.apply_at(&format!("evacuations/{name}?fieldManager={manager}"), configuration).await
    }

    /// Applies a configuration to what is at that URL.
    pub(crate) async fn apply_at(&self, url: &str, configuration: &Value) -> Reply {
        let request = self.request(Method::PATCH, url);
        let request = request.header("content-type", "application/apply-patch+yaml");
        send(request.body(configuration.to_string())).await
    }

    pub(crate) async fn delete(&self, name: &str) -> Reply {
        send(self.request(Method::DELETE, &format!("evacuations/{name}"))).await
    }

    /// Posts an answer to `evacuations/NAME/respond`.
    pub(crate) async fn respond(&self, name: &str, spec: Value) -> Reply {
        self.respond_to("evacuations", name, spec).await
    }

    /// Posts an answer to `RESOURCE/NAME/respond`.
    pub(crate) async fn respond_to(&self, resource: &str, name: &str, spec: Value) -> Reply {
        let body =
            json!({"apiVersion": "evacuation.dev/v1alpha1", "kind": "EvacuationResponse", "spec": spec});
        send(self.request(Method::POST, &format!("{resource}/{name}/respond")).json(&body)).await
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let base = &self.server.base;
        let url = if self.namespace.is_empty() {
            format!("{base}{API}/{path}")
        } else {
            format!("{base}{API}/namespaces/{}/{path}", self.namespace)
        };
        self.server.client.request(method, url).header(USER_HEADER, &self.user)
    }
}

async fn send(request: RequestBuilder) -> Reply {
    let reply = request.send().await.unwrap();
    let code = reply.status().as_u16();
    let warnings =
        reply.headers().get_all("warning").iter().map(|value| value.to_str().unwrap().to_owned()).collect();
    let text = reply.text().await.unwrap();
    let body = serde_json::from_str(&text).unwrap_or_else(|_| json!({"text": text}));
    Reply { code, warnings, body }
}

/// A change of an object or a status.
pub(crate) type Change = fn(&mut Value);

/// An Evacuation of that pod.
pub(crate) fn evacuation(name: &str, pod: &str, requesters: &[Value]) -> Value {
    json!({
        "apiVersion": "evacuation.dev/v1alpha1",
        "kind": "Evacuation",
        "metadata": {"name": name},
        "spec": {"target": {"pod": {"name": pod}}, "requesters": requesters},
    })
}

/// An entry of that name.
pub(crate) fn requester(name: &str, mut entry: Value) -> Value {
    entry["name"] = json!(name);
    entry
}

/// Adds an entry, as one who joins.
pub(crate) fn join(object: &mut Value, entry: Value) {
    object["spec"]["requesters"].as_array_mut().unwrap().push(entry);
}

/// Removes an entry, as one who withdraws.
pub(crate) fn leave(object: &mut Value, name: &str) {
    object["spec"]["requesters"].as_array_mut().unwrap().retain(|entry| entry["name"] != name);
}

/// A responder in that state, as the controller writes it.
pub(crate) fn responder(name: &str, priority: i32, state: &str) -> Value {
    json!({"name": name, "priority": priority, "timeoutSeconds": 60, "maxDelaySeconds": 3600, "state": state})
}
