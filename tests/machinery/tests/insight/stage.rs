//! A control plane with a server behind it that serves pans, and a custom resource of the same shape.

use std::{net::TcpListener, path::PathBuf, sync::Arc, time::Duration};

use controlplane::{ControlPlane, eventually};
use k8s_openapi::{
    api::{core::v1::Service, rbac::v1::ClusterRoleBinding},
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
    kube_aggregator::pkg::apis::apiregistration::v1::APIService,
};
use kube::{Api, Client, api::PostParams};
use machinery_audit::{AuditLog, LogOptions, Policy};
use machinery_auth::{
    DelegatedAuthentication, ServingCertificate, SubjectAccessReviewAuthorizer, server_config,
};
use machinery_server::{KubeNamespaces, Metrics, Registry, Server, ServerOptions};
use machinery_storage::{EmbeddedOptions, EmbeddedStore};
use machinery_tracing::{Traces, TracingConfig};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::pan::PanStrategy;

const SERVER: &str = "aggregated-server";
const LONG: Duration = Duration::from_mins(1);

/// Files of the kube-apiserver and of the server.
pub(crate) struct Files {
    folder: tempfile::TempDir,
}

impl Files {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

/// The control plane and the server.
pub(crate) struct Stage {
    pub(crate) control_plane: ControlPlane,
    pub(crate) audit_log: PathBuf,
    pub(crate) traces: Traces,
    shutdown: CancellationToken,
    _files: Files,
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.shutdown.cancel();
    }
}

async fn create<K>(api: Api<K>, object: Value)
where
    K: Clone + std::fmt::Debug + DeserializeOwned + Serialize,
{
    api.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
}

impl Stage {
    /// Both servers record by this policy, and export every trusted caller's traces to that collector.
    pub(crate) async fn open(policy: &str, collector: &str) -> Self {
        let files = Files::new();
        let policy_file = files.write("policy.yaml", policy);
        let tracing = format!(
            "apiVersion: apiserver.config.k8s.io/v1\nkind: TracingConfiguration\nendpoint: {collector}\n"
        );
        let tracing_file = files.write("tracing.yaml", &tracing);
        let arguments = [
            format!("--audit-policy-file={}", policy_file.display()),
            format!("--tracing-config-file={}", tracing_file.display()),
        ];
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let control_plane =
            ControlPlane::builder().nodes(0).apiserver_args(&arguments).start().await.unwrap();
        let admin = control_plane.client().unwrap();
        let subject = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": SERVER});
        let everything = json!({
            "metadata": {"name": SERVER},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [subject],
        });
        create(Api::<ClusterRoleBinding>::all(admin.clone()), everything).await;

        let shutdown = CancellationToken::new();
        let serving = control_plane.pki().serving(&["host.default.svc", "localhost"]).unwrap();
        let serving = serving.write(&control_plane.folder().subfolder("server").unwrap(), "server").unwrap();
        let certificate =
            ServingCertificate::start(&serving.certificate, &serving.key, shutdown.child_token());
        let tls = server_config(certificate.await.unwrap()).unwrap();
        let client = control_plane.client_for_user(SERVER, None).await.unwrap();
        let authentication =
            DelegatedAuthentication::start(client.clone(), shutdown.child_token()).await.unwrap();
        let store = EmbeddedStore::open(EmbeddedOptions::new(files.path("store"))).await.unwrap();
        let audit_log = files.path("audit.log");
        let log = AuditLog::start(LogOptions { path: audit_log.clone(), ..LogOptions::default() }).unwrap();
        let config = TracingConfig::load(&tracing_file).unwrap();
        let traces = Traces::start(&config, "pans", "pans-0").unwrap();
        let metrics = Metrics::new();
        let store = metrics.measure(Arc::new(store), "");
        let server = Server::builder(ServerOptions::default())
            .resource(Registry::new(store, "", PanStrategy))
            .authenticator(authentication)
            .authorizer(Arc::new(SubjectAccessReviewAuthorizer::new(client.clone())))
            .namespaces(KubeNamespaces::start(client, shutdown.child_token()))
            .metrics(metrics)
            .audit(Policy::load(&policy_file).unwrap(), Arc::new(log))
            .traces(traces.clone())
            .build()
            .unwrap();
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(server.serve(listener, Some(tls), shutdown.clone()));

        let stage = Self { control_plane, audit_log, traces, shutdown, _files: files };
        stage.register(&admin, port).await;
        stage
    }

    /// Registers the server, and the custom resource `crd.kitchen.dev`.
    async fn register(&self, admin: &Client, port: u16) {
        let service = json!({
            "metadata": {"name": "host"},
            "spec": {"type": "ExternalName", "externalName": "localhost", "ports": [{"port": port}]},
        });
        create(Api::<Service>::namespaced(admin.clone(), "default"), service).await;
        let api_service = json!({
            "metadata": {"name": "v1.own.kitchen.dev"},
            "spec": {
                "group": "own.kitchen.dev", "version": "v1", "groupPriorityMinimum": 1000, "versionPriority": 10,
                "insecureSkipTLSVerify": true,
                "service": {"namespace": "default", "name": "host", "port": port},
            },
        });
        create(Api::<APIService>::all(admin.clone()), api_service).await;
        let size = json!({"type": "object", "properties": {"size": {"type": "integer", "minimum": 0}}});
        let schema = json!({"type": "object", "properties": {"spec": size}});
        let definition = json!({
            "metadata": {"name": "pans.crd.kitchen.dev"},
            "spec": {
                "group": "crd.kitchen.dev", "scope": "Namespaced",
                "names": {"plural": "pans", "singular": "pan", "kind": "Pan", "listKind": "PanList"},
                "versions": [{
                    "name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema},
                }],
            },
        });
        create(Api::<CustomResourceDefinition>::all(admin.clone()), definition).await;
        for group in ["own", "crd"] {
            eventually(LONG, "the kind is served", || async {
                let path = format!("/apis/{group}.kitchen.dev/v1/namespaces/default/pans");
                let request =
                    http::Request::get(path).header("user-agent", "probe").body(Vec::new()).unwrap();
                admin.request_text(request).await
            })
            .await
            .unwrap();
        }
    }
}
