//! Five apps, what they said, and a check of what became of their pods.

use std::{
    collections::BTreeMap,
    process::Command,
    sync::{Arc, Mutex},
    time::Duration,
};

use chrono::{DateTime, TimeDelta, Utc};
use controlplane::{Process, eventually};
use evacuation_client::{Answer, Question};
use evacuation_e2e::scene::{PATIENCE, Running};
use k8s_openapi::{
    api::{
        apps::v1::Deployment,
        core::v1::{Pod, ServiceAccount},
        rbac::v1::ClusterRoleBinding,
    },
    jiff::Timestamp,
};
use kube::{Api, ResourceExt, api::PostParams};
use serde_json::{Value, json};

use crate::stage::Stage;

/// Time that the app `delays` needs after it was asked.
const WORK: Duration = Duration::from_secs(30);
/// Seconds in which the app `silent` should answer, and does not.
const SILENCE: i64 = 4;

/// The apps by what they do when they are asked.
pub(crate) const APPS: [&str; 5] = ["accepts", "delays", "refuses", "silent", "unregistered"];

/// What an app said, and when.
type Log = Arc<Mutex<Vec<(DateTime<Utc>, &'static str)>>>;

/// The apps, each with one pod of a Deployment of its name.
pub(crate) struct Cast {
    pods: BTreeMap<&'static str, Pod>,
    logs: BTreeMap<&'static str, Log>,
    /// True when the caller overrides refusals.
    overridden: bool,
    began: DateTime<Utc>,
    _apps: Vec<Running>,
}

/// Returns a Deployment whose pods have these responders, and these fields in their spec.
fn deployment(app: &str, responders: Option<&Value>, place: &Value) -> Value {
    let mut annotations =
        json!({"controlplane.test/running-after": "100ms", "controlplane.test/gone-after": "100ms"});
    if let Some(responders) = responders {
        annotations["evacuation.dev/responders"] = json!(responders.to_string());
    }
    let mut spec = json!({
        "containers": [{"name": "app", "image": "app", "resources": {"requests": {"cpu": "100m"}}}],
        "tolerations": controlplane::tolerations(),
    });
    spec.as_object_mut().unwrap().extend(place.as_object().unwrap().clone());
    json!({
        "metadata": {"name": app},
        "spec": {
            "replicas": 1, "selector": {"matchLabels": {"app": app}},
            "template": {"metadata": {"labels": {"app": app}, "annotations": annotations}, "spec": spec},
        },
    })
}

/// Returns the fields of a pod's spec that prefer the stage's node.
pub(crate) fn on_own_node(stage: &Stage) -> Value {
    json!({"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{
        "weight": 100, "preference": {"matchExpressions": [{
            "key": "kubernetes.io/hostname", "operator": "In", "values": [stage.node()],
        }]},
    }]}}})
}

impl Cast {
    /// Brings the apps on the stage, each in a pod with these fields in its spec.
    pub(crate) async fn enter(stage: &Stage, place: &Value) -> Self {
        let (watching, silent) =
            (json!([{"name": "self"}]), json!([{"name": "self", "timeoutSeconds": SILENCE}]));
        let responders = |app| match app {
            "unregistered" => None,
            "silent" => Some(&silent),
            _ => Some(&watching),
        };
        let (mut pods, mut logs, mut apps) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
        for app in APPS {
            stage.create::<Deployment>(deployment(app, responders(app), place)).await;
        }
        for app in APPS {
            let pod = stage.ready_pods(app, 1, &[]).await.remove(0);
            let log: Log = Arc::default();
            if !matches!(app, "unregistered" | "silent") {
                let said = Arc::clone(&log);
                apps.push(stage.app(&pod, move |_: Question| std::future::ready(says(app, &said))).await);
            }
            pods.insert(app, pod);
            logs.insert(app, log);
        }
        Self { pods, logs, overridden: false, began: Utc::now(), _apps: apps }
    }

    /// The same before a caller that overrides refusals.
    pub(crate) fn overridden(self) -> Self {
        Self { overridden: true, ..self }
    }

    pub(crate) fn pod(&self, app: &str) -> &Pod {
        &self.pods[app]
    }

    /// Waits until the pods that may go are gone.
    pub(crate) async fn leaves(&self, stage: &Stage) {
        for app in APPS.into_iter().filter(|app| self.overridden || *app != "refuses") {
            let pod = self.pod(app);
            let gone = eventually(PATIENCE, &format!("the pod that {app} is gone"), || async {
                let found = stage.pods.api().get_opt(&pod.name_any()).await.unwrap();
                match found.filter(|found| found.uid() == pod.uid()) {
                    None => Ok(()),
                    Some(_) => Err("it is there"),
                }
            })
            .await;
            gone.unwrap();
        }
    }

    /// Judges what the caller did from the audit log and the apps' logs alone.
    pub(crate) fn check(&self, stage: &Stage, caller: &str) {
        let events = stage.control_plane().audit_events().unwrap();
        let at = |time: Option<Timestamp>| {
            time.and_then(|time| DateTime::from_timestamp_micros(time.as_microsecond())).unwrap()
        };
        let mut calls = 0;
        for event in events.iter().filter(|event| event.namespace() == stage.namespace()) {
            let evicts = event.resource() == "pods"
                && matches!((event.verb(), event.subresource()), ("create", "eviction") | ("delete", ""));
            let Some((app, _)) = self.pods.iter().find(|(_, pod)| pod.name_any() == event.name()) else {
                continue;
            };
            let kubelet = event.user() == "kwok";
            if !evicts || kubelet || event.stage() != "ResponseComplete" {
                continue;
            }
            let (time, code) = (at(event.answered()), event.code());
            if event.user() == caller {
                calls += 1;
                assert!(matches!(code, 200 | 201 | 404 | 429), "{app}: {code} {:?}", event.value());
                let took = time - at(event.received());
                assert!(took < TimeDelta::milliseconds(1900), "{app}: the call took {took}");
            }
            let passed = matches!(code, 200 | 201);
            match *app {
                "unregistered" => assert_ne!(code, 429, "a pod without responders is not held up"),
                "refuses" if !self.overridden => assert!(!passed, "it refused: {:?}", event.value()),
                "silent" if passed => {
                    assert!(time - self.began >= TimeDelta::seconds(SILENCE), "its time was not over");
                }
                app @ ("accepts" | "delays" | "refuses") if passed => {
                    let log = self.logs[app].lock().unwrap();
                    let last = if app == "refuses" { "refuse" } else { "accept" };
                    let answered = log.iter().find(|(_, said)| *said == last);
                    let (when, _) = answered.unwrap_or_else(|| panic!("{app} was not asked: {log:?}"));
                    assert!(*when <= time, "{app} answered at {when}, and was evicted at {time}");
                }
                _ => {}
            }
        }
        assert!(calls >= 5, "{caller} called {calls} times");
        let delays = self.logs["delays"].lock().unwrap();
        let (first, last) = (delays.first().unwrap().0, delays.last().unwrap().0);
        assert!((last - first).to_std().unwrap() >= WORK, "it had its time: {delays:?}");
    }
}

/// Answers as an app of that kind does.
fn says(app: &'static str, log: &Log) -> Answer {
    let now = Utc::now();
    let first = log.lock().unwrap().first().map(|(time, _)| *time);
    let (word, answer) = match app {
        "refuses" => ("refuse", Answer::refuse("a backup runs")),
        "delays" if first.is_none_or(|first| now < first + WORK) => {
            ("delay", Answer::delay(Duration::from_secs(3)).ask_again().message("jobs are left"))
        }
        _ => ("accept", Answer::accept()),
    };
    log.lock().unwrap().push((now, word));
    answer
}

/// Runs a program until it is dropped.
pub(crate) fn running(stage: &Stage, name: &str, command: Command) -> Process {
    let name = format!("{name}-{}", stage.namespace());
    Process::spawn(name, command, &stage.control_plane().logs()).unwrap()
}

/// Creates a service account of kube-system with every right, and returns a kubeconfig of it.
pub(crate) async fn kubeconfig(stage: &Stage, account: &str) -> std::path::PathBuf {
    let accounts: Api<ServiceAccount> = Api::namespaced(stage.admin(), "kube-system");
    let bindings: Api<ClusterRoleBinding> = Api::all(stage.admin());
    let params = PostParams::default();
    let wanted = |value: Value| serde_json::from_value(value).unwrap();
    accounts.create(&params, &wanted(json!({"metadata": {"name": account}}))).await.unwrap();
    let binding = json!({
        "metadata": {"name": account},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": "kube-system"}],
    });
    bindings.create(&params, &serde_json::from_value(binding).unwrap()).await.unwrap();
    let token = stage.control_plane().service_account_token("kube-system", account, None).await.unwrap();
    stage.control_plane().kubeconfig_for_token(account, &token).unwrap()
}
