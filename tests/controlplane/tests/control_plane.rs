//! A whole control plane, and what it is for.
#![allow(clippy::unwrap_used, reason = "a test fails by panic")]

use std::net::IpAddr;
use std::time::{Duration, Instant};

use controlplane::{ControlPlane, eventually, shared};
use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Service};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::Client;
use kube::api::{Api, DeleteParams, EvictParams, ListParams, PostParams};
use serde::de::DeserializeOwned;
use serde_json::json;

const LONG: Duration = Duration::from_mins(2);

/// Returns whether a process exists and is no zombie.
fn lives(pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    status.rsplit(") ").next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with('Z'))
}

fn pids(control_plane: &ControlPlane) -> Vec<u32> {
    let components = [
        control_plane.etcd().component(),
        control_plane.apiserver(),
        control_plane.controller_manager(),
        control_plane.scheduler(),
        control_plane.kwok(),
    ];
    components.iter().map(|component| component.process().pid().unwrap()).collect()
}

async fn create<K>(client: &Client, namespace: &str, value: serde_json::Value) -> K
where
    K: kube::Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>
        + serde::Serialize
        + DeserializeOwned
        + Clone
        + std::fmt::Debug,
{
    let api: Api<K> = Api::namespaced(client.clone(), namespace);
    api.create(&PostParams::default(), &serde_json::from_value(value).unwrap()).await.unwrap()
}

fn pod(name: &str) -> serde_json::Value {
    json!({
        "metadata": { "name": name, "labels": { "app": name } },
        "spec": { "containers": [{ "name": "main", "image": "none" }] },
    })
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

async fn ready(pods: &Api<Pod>, name: &str) -> Pod {
    eventually(LONG, &format!("pod {name} is ready"), async || match pods.get(name).await {
        Ok(pod) if is_ready(&pod) => Ok(pod),
        Ok(pod) => Err(format!("{:?}", pod.status)),
        Err(error) => Err(error.to_string()),
    })
    .await
    .unwrap()
}

#[tokio::test]
async fn the_pods_of_a_deployment_get_ready_with_loopback_addresses_of_their_own() {
    let control_plane = shared().await.unwrap();
    let namespace = control_plane.namespace("deployment").await.unwrap();
    let client = control_plane.client().unwrap();
    let deployment = json!({
        "metadata": { "name": "web" },
        "spec": {
            "replicas": 3,
            "selector": { "matchLabels": { "app": "web" } },
            "template": {
                "metadata": { "labels": { "app": "web" } },
                "spec": { "containers": [{ "name": "main", "image": "none" }] },
            },
        },
    });
    create::<k8s_openapi::api::apps::v1::Deployment>(&client, namespace.name(), deployment).await;

    let pods: Api<Pod> = Api::namespaced(client, namespace.name());
    let pods = eventually(LONG, "three ready pods", async || {
        let list = pods.list(&ListParams::default()).await.map_err(|error| error.to_string())?;
        let ready = list.items.iter().filter(|pod| is_ready(pod)).count();
        if ready == 3 { Ok(list.items) } else { Err(format!("{ready} ready")) }
    })
    .await
    .unwrap();
    let mut addresses: Vec<IpAddr> = pods
        .iter()
        .map(|pod| pod.status.as_ref().unwrap().pod_ip.as_ref().unwrap().parse().unwrap())
        .collect();
    addresses.sort();
    addresses.dedup();
    assert_eq!(addresses.len(), 3, "{addresses:?}");
    for address in addresses {
        assert!(address.is_loopback());
        assert_eq!(address.to_string().split('.').nth(1), control_plane.pod_network().split('.').nth(1));
        // A process of the test may listen as the pod.
        std::net::TcpListener::bind((address, 0)).unwrap();
    }
}

#[tokio::test]
async fn a_budget_counts_and_an_eviction_is_refused_and_then_granted_and_audited() {
    let control_plane = shared().await.unwrap();
    let namespace = control_plane.namespace("budget").await.unwrap();
    let client = control_plane.client().unwrap();
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace.name());
    create::<Pod>(&client, namespace.name(), pod("db")).await;
    ready(&pods, "db").await;
    let budget = json!({
        "metadata": { "name": "db" },
        "spec": { "minAvailable": 1, "selector": { "matchLabels": { "app": "db" } } },
    });
    create::<PodDisruptionBudget>(&client, namespace.name(), budget).await;
    let budgets: Api<PodDisruptionBudget> = Api::namespaced(client, namespace.name());
    eventually(LONG, "the budget sees its pod", async || {
        let status = budgets.get("db").await.map_err(|error| error.to_string())?.status.unwrap_or_default();
        if status.current_healthy == Some(1) { Ok(()) } else { Err(format!("{status:?}")) }
    })
    .await
    .unwrap();

    let before = Instant::now();
    let refused = pods.evict("db", &EvictParams::default()).await.unwrap_err();
    assert!(matches!(&refused, kube::Error::Api(status) if status.code == 429), "{refused}");
    assert!(before.elapsed() < Duration::from_secs(5), "the client does not retry by itself");
    budgets.delete("db", &DeleteParams::default()).await.unwrap();
    let granted =
        eventually(LONG, "an eviction is granted", async || pods.evict("db", &EvictParams::default()).await);
    granted.await.unwrap();
    eventually(LONG, "the pod is gone", async || match pods.get_opt("db").await {
        Ok(None) => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await
    .unwrap();

    let events = control_plane.audit_events().unwrap();
    let evictions: Vec<_> = events
        .iter()
        .filter(|event| event.namespace() == namespace.name() && event.subresource() == "eviction")
        .collect();
    let codes: Vec<u16> = evictions.iter().map(|event| event.code()).collect();
    assert_eq!((codes.first(), codes.last()), (Some(&429), Some(&201)), "{codes:?}");
    for event in evictions {
        assert_eq!((event.verb(), event.resource(), event.name()), ("create", "pods", "db"));
        assert_eq!(event.user(), "admin");
        assert_eq!(event.value().pointer("/requestObject/metadata/name").unwrap(), "db");
        assert!(event.received().unwrap() <= event.answered().unwrap());
    }
}

#[tokio::test]
async fn annotations_play_pods_that_are_unready_slow_or_ended() {
    let control_plane = shared().await.unwrap();
    let namespace = control_plane.namespace("annotations").await.unwrap();
    let client = control_plane.client().unwrap();
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace.name());
    let annotate = async |name: &str, key: &str, value: &str| {
        let patch = json!({ "metadata": { "annotations": { key: value } } });
        pods.patch(name, &kube::api::PatchParams::default(), &kube::api::Patch::Merge(patch)).await.unwrap();
    };
    let reaches = async |name: &str, state: &str| {
        eventually(LONG, &format!("pod {name} is {state}"), async || {
            let pod = pods.get(name).await.map_err(|error| error.to_string())?;
            let phase = pod.status.as_ref().and_then(|status| status.phase.clone()).unwrap_or_default();
            let seen = format!("{phase}, {}", if is_ready(&pod) { "ready" } else { "not ready" });
            if seen == state { Ok(()) } else { Err(seen) }
        })
        .await
        .unwrap();
    };
    let mut unready = pod("unready");
    unready["metadata"]["annotations"] = json!({ "controlplane.test/ready": "false" });
    let mut slow = pod("slow");
    slow["metadata"]["annotations"] = json!({ "controlplane.test/running-after": "1h" });
    for value in [unready, slow, pod("ending")] {
        create::<Pod>(&client, namespace.name(), value).await;
    }

    reaches("unready", "Running, not ready").await;
    annotate("unready", "controlplane.test/ready", "true").await;
    reaches("unready", "Running, ready").await;
    annotate("unready", "controlplane.test/ready", "false").await;
    reaches("unready", "Running, not ready").await;

    reaches("ending", "Running, ready").await;
    annotate("ending", "controlplane.test/phase", "Failed").await;
    reaches("ending", "Failed, not ready").await;
    reaches("slow", "Pending, not ready").await;
}

#[tokio::test]
async fn a_token_bound_to_a_pod_says_which() {
    let control_plane = shared().await.unwrap();
    let namespace = control_plane.namespace("token").await.unwrap();
    let client = control_plane.client().unwrap();
    let pod: Pod = create(&client, namespace.name(), pod("app")).await;
    let uid = pod.metadata.uid.unwrap();
    let token =
        control_plane.service_account_token(namespace.name(), "default", Some(("app", &uid))).await.unwrap();

    let reviews: Api<SelfSubjectReview> = Api::all(control_plane.client_with_token(&token).await.unwrap());
    let review = reviews.create(&PostParams::default(), &SelfSubjectReview::default()).await.unwrap();
    let user = review.status.unwrap().user_info.unwrap();
    assert_eq!(user.username.unwrap(), format!("system:serviceaccount:{}:default", namespace.name()));
    let extra = user.extra.unwrap();
    assert_eq!(extra["authentication.kubernetes.io/pod-name"], ["app"]);
    assert_eq!(extra["authentication.kubernetes.io/pod-uid"], [uid]);

    let kubeconfig = control_plane.kubeconfig_for_token("app", &token).unwrap();
    let mut command = control_plane.kubectl_command(&[]);
    command.env("KUBECONFIG", kubeconfig).args(["auth", "whoami"]);
    let output = controlplane::output_of("kubectl", command).await.unwrap();
    assert!(output.success() && output.stdout.contains("pod-uid"), "{output:?}");
}

#[tokio::test]
async fn real_kubectl_finds_plugins_in_the_folders_given() {
    let control_plane = shared().await.unwrap();
    let nodes = control_plane.kubectl(&["get", "nodes", "-o", "name"]).await.unwrap();
    assert!(nodes.success(), "{nodes:?}");
    assert!(nodes.stdout.contains("node/node-1"), "{nodes:?}");
    let missing = control_plane.kubectl(&["get", "pod", "no-such-pod"]).await.unwrap();
    assert_eq!(missing.code, Some(1));
    assert!(missing.stderr.contains("NotFound"), "{missing:?}");

    let folder = controlplane::Folder::new("plugin").unwrap();
    let plugin = folder.path().join("kubectl-hello");
    std::fs::write(&plugin, "#!/bin/sh\necho hello; kubectl version --client\n").unwrap();
    std::fs::set_permissions(&plugin, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let mut command = control_plane.kubectl_command(&[folder.path()]);
    command.arg("hello");
    let output = controlplane::output_of("kubectl", command).await.unwrap();
    assert!(output.stdout.starts_with("hello\nClient Version"), "{output:?}");
}

#[tokio::test]
async fn an_aggregated_api_behind_an_external_name_is_called_by_the_front_proxy() {
    let control_plane = shared().await.unwrap();
    let namespace = control_plane.namespace("aggregated").await.unwrap();
    let client = control_plane.client().unwrap();
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let service = json!({
        "metadata": { "name": "host" },
        "spec": { "type": "ExternalName", "externalName": "localhost", "ports": [{ "port": port }] },
    });
    create::<Service>(&client, namespace.name(), service).await;
    let services: Api<APIService> = Api::all(client);
    let api_service = json!({
        "metadata": { "name": "v1.host.test" },
        "spec": {
            "group": "host.test", "version": "v1", "groupPriorityMinimum": 1000, "versionPriority": 10,
            "insecureSkipTLSVerify": true,
            "service": { "namespace": namespace.name(), "name": "host", "port": port },
        },
    });
    services.create(&PostParams::default(), &serde_json::from_value(api_service).unwrap()).await.unwrap();

    // The server is not one: it is enough that it is called, and that the caller offers TLS (a handshake
    // record, 22).
    let (mut connection, _) = tokio::time::timeout(LONG, listener.accept()).await.unwrap().unwrap();
    let mut record = [0; 1];
    tokio::io::AsyncReadExt::read_exact(&mut connection, &mut record).await.unwrap();
    drop((connection, listener));
    assert_eq!(record, [22]);
    eventually(LONG, "the failure is told", async || {
        let conditions =
            services.get("v1.host.test").await.unwrap().status.and_then(|status| status.conditions);
        let seen = format!("{conditions:?}");
        if seen.contains("FailedDiscoveryCheck") { Ok(()) } else { Err(seen) }
    })
    .await
    .unwrap();
    services.delete("v1.host.test", &DeleteParams::default()).await.unwrap();
}

#[tokio::test]
async fn a_user_without_rights_is_refused_by_rbac() {
    let control_plane = shared().await.unwrap();
    let pods: Api<Pod> =
        Api::default_namespaced(control_plane.client_for_user("nobody", None).await.unwrap());
    let refused = pods.list(&ListParams::default()).await.unwrap_err();
    assert!(matches!(&refused, kube::Error::Api(status) if status.code == 403), "{refused}");
}

#[tokio::test]
async fn components_come_back_on_their_ports_with_their_data_and_all_go_at_the_end() {
    let control_plane = ControlPlane::builder().nodes(1).start().await.unwrap();
    let client = control_plane.client().unwrap();
    let value = json!({ "metadata": { "name": "kept" }, "data": { "key": "value" } });
    create::<ConfigMap>(&client, "default", value).await;
    let server = control_plane.server().to_owned();

    control_plane.apiserver().stop().unwrap();
    let maps: Api<ConfigMap> = Api::default_namespaced(client);
    assert!(maps.get("kept").await.is_err());
    control_plane.etcd().stop().unwrap();
    control_plane.etcd().start_again().await.unwrap();
    control_plane.apiserver().start().await.unwrap();
    assert_eq!(maps.get("kept").await.unwrap().data.unwrap()["key"], "value");
    assert_eq!(control_plane.server(), server);

    control_plane.apiserver().pause().unwrap();
    let answer = tokio::time::timeout(Duration::from_secs(2), maps.get("kept")).await;
    assert!(answer.is_err(), "a paused server answers nothing");
    control_plane.apiserver().resume().unwrap();
    maps.get("kept").await.unwrap();
    assert_eq!(control_plane.add_nodes(1).await.unwrap(), ["node-2"]);

    let (pids, folder) = (pids(&control_plane), control_plane.folder().path().to_owned());
    assert!(pids.iter().all(|&pid| lives(pid)) && folder.is_dir());
    control_plane.stop().await.unwrap();
    assert!(!pids.iter().any(|&pid| lives(pid)), "{pids:?}");
    assert!(!folder.exists());
}

/// Not a test of its own: the owner that the next test kills. It tells what it owns, and waits.
#[tokio::test]
#[ignore = "run by another test"]
async fn owner() {
    let Ok(report) = std::env::var("OWNER_REPORT") else {
        return;
    };
    let control_plane = shared().await.unwrap();
    let report = std::path::Path::new(&report);
    let unfinished = report.with_extension("unfinished");
    let pids: Vec<String> = pids(control_plane).iter().map(u32::to_string).collect();
    std::fs::write(&unfinished, format!("{}\n{}", pids.join(" "), control_plane.folder().path().display()))
        .unwrap();
    std::fs::rename(unfinished, report).unwrap();
    std::future::pending::<()>().await;
}

#[tokio::test]
async fn sigkill_of_the_owner_leaves_no_process_and_no_file() {
    let folder = controlplane::Folder::new("test").unwrap();
    let report = folder.path().join("report");
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    command
        .args(["owner", "--exact", "--ignored"])
        .env("OWNER_REPORT", &report)
        .env_remove("CONTROLPLANE_KEEP");
    let owner = controlplane::Process::spawn("owner", command, folder.path()).unwrap();
    let text =
        owner.wait_for(LONG, "the owner's report", async || std::fs::read_to_string(&report)).await.unwrap();
    let (pids, files) = text.split_once('\n').unwrap();
    let pids: Vec<u32> = pids.split(' ').map(|pid| pid.parse().unwrap()).collect();
    assert!(pids.iter().all(|&pid| lives(pid)), "{pids:?}");
    owner.kill().unwrap();
    eventually(LONG, "nothing is left", async || {
        let alive: Vec<u32> = pids.iter().copied().filter(|&pid| lives(pid)).collect();
        let there = std::path::Path::new(files).exists();
        if alive.is_empty() && !there { Ok(()) } else { Err(format!("processes {alive:?}, files: {there}")) }
    })
    .await
    .unwrap();
}
