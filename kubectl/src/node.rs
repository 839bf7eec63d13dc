//! `kubectl evacuate node NODE`

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    pin::pin,
    time::Duration,
};

use anyhow::Context;
use clap::Args;
use evacuation_client::Requester;
use evacuation_protocol::{DrainFilters, DrainRefusal, DrainSkip, pick};
use futures::{StreamExt, stream};
use k8s_openapi::api::{
    apps::v1::DaemonSet,
    core::v1::{Node as CoreNode, Pod},
};
use kube::{
    Api, Client, ResourceExt,
    api::{ListParams, Patch, PatchParams},
};

use crate::{
    Exit,
    complaint::complaint,
    connection::Connection,
    dry_run::{DryRun, DryRunFlag},
    output::{say, warn},
    progress::{self, Lines},
    requester_flags::{OnRefusal, RequesterFlags, drain_name, timeout},
    tracker::Tracker,
};

/// Number of pods that are asked at a time.
const AT_ONCE: usize = 16;

/// Drain a node by asking: cordon it, ask each of its pods to move, and show the answers.
///
/// Exit codes: 0 all pods are gone, 1 an error, 2 a pod was left alone because it refused, 3 the timeout was
/// reached.
#[derive(Args, Debug)]
#[allow(clippy::struct_excessive_bools, reason = "the flags are kubectl drain's")]
pub struct Node {
    /// The node's name.
    #[arg(value_name = "NODE")]
    name: String,
    /// Consequence of a refusal. With wait, the command waits until the app changes its answer.
    #[arg(long, value_enum, ignore_case = true, default_value = "give-up")]
    on_refusal: OnRefusal,
    #[command(flatten)]
    requester: RequesterFlags,
    /// Leave pods of DaemonSets alone. Without the flag such a pod stops the command.
    #[arg(long)]
    ignore_daemonsets: bool,
    /// Continue even if there are pods with emptyDir volumes, whose data is lost.
    #[arg(long)]
    delete_emptydir_data: bool,
    /// Continue even if there are pods without a controller, which nothing creates again.
    #[arg(long)]
    force: bool,
    /// Only the pods with these labels.
    #[arg(long, value_name = "LABELS")]
    pod_selector: Option<String>,
    /// Skip pods whose grace period ended more than this many seconds ago; 0 skips none.
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    skip_wait_for_delete_timeout: u32,
    /// Stop waiting after this time, with exit code 3; 0 means never. The evacuations continue.
    #[arg(long, value_name = "DURATION", value_parser = timeout)]
    timeout: Option<Duration>,
    #[command(flatten)]
    dry_run: DryRunFlag,
    #[command(flatten)]
    connection: Connection,
}

/// The pods that a drain asks.
struct Chosen {
    pods: Vec<Pod>,
    /// Warnings about data or pods that are lost, and about pods that are left alone.
    warnings: Vec<String>,
}

impl Node {
    /// Carries the command out.
    ///
    /// # Errors
    ///
    /// The node does not exist or cannot be cordoned, or its pods cannot be listed.
    pub async fn run(self) -> anyhow::Result<Exit> {
        let client = self.connection.client().await?;
        let nodes: Api<CoreNode> = Api::all(client.clone());
        let node =
            nodes.get(&self.name).await.with_context(|| format!("node {} cannot be read", self.name))?;
        let Some(first) = self.choose(&client).await? else {
            return Ok(Exit::Errors);
        };
        let dry_run = self.dry_run.dry_run;
        let name = |user: &str| drain_name(&self.name, user);
        let requester = self.requester.requester(&client, Some(self.on_refusal), name).await?;
        if dry_run != DryRun::Client {
            rehearse(&requester, &first.pods).await?;
        }
        self.cordon(&nodes, &node).await?;
        // More pods could come before the cordon.
        let Some(chosen) = self.choose(&client).await? else {
            eprintln!("error: pods came to node {} before it was cordoned", self.name);
            return Ok(Exit::Errors);
        };
        for warning in &chosen.warnings {
            eprintln!("warning: {warning}");
        }
        if dry_run == DryRun::Client {
            for pod in &chosen.pods {
                say(format_args!("pod/{} asked{}", full_name(pod), dry_run.note()))?;
            }
            return Ok(Exit::Done);
        }
        if dry_run == DryRun::Server {
            let (_, failed) = ask(&requester.dry_run(), &chosen.pods, dry_run).await?;
            return Ok(if failed { Exit::Errors } else { Exit::Done });
        }
        let (tracker, failed) = ask(&requester, &chosen.pods, dry_run).await?;
        let exit = progress::wait(Api::all(client), tracker, self.timeout, Lines::Output).await?;
        if failed {
            return Ok(Exit::Errors);
        }
        if exit == Exit::Done {
            say(format_args!("node/{} evacuated", self.name))?;
        }
        Ok(exit)
    }

    /// The pods to ask. When the drain must not begin, prints the reasons and returns `None`.
    async fn choose(&self, client: &Client) -> anyhow::Result<Option<Chosen>> {
        let pods = self.pods(client).await?;
        let filters = DrainFilters {
            ignore_daemon_sets: self.ignore_daemonsets,
            delete_empty_dir_data: self.delete_emptydir_data,
            force: self.force,
            skip_wait_for_delete_seconds: i64::from(self.skip_wait_for_delete_timeout),
            missing_daemon_sets: missing_daemon_sets(client, &pods).await?,
        };
        let picked = pick(&pods, &filters, chrono::Utc::now());
        for (pod, why) in &picked.refused {
            eprintln!("error: {}: {} (use {})", full_name(pod), why, flag(*why));
        }
        // kubectl drain does not mention mirror pods and pods that have ended either.
        let told = |skip: &DrainSkip| matches!(skip, DrainSkip::DaemonSet | DrainSkip::Terminating);
        let skipped = picked.skipped.iter().filter(|(_, skip)| told(skip));
        let skipped = skipped.map(|(pod, skip)| format!("{} is left alone: {skip}", full_name(pod)));
        let losses = picked.warnings.iter().map(|(pod, loss)| format!("{}: {loss}", full_name(pod)));
        Ok(picked.refused.is_empty().then(|| Chosen {
            warnings: skipped.chain(losses).collect(),
            pods: picked.evacuate.into_iter().cloned().collect(),
        }))
    }

    async fn pods(&self, client: &Client) -> anyhow::Result<Vec<Pod>> {
        let mut params = ListParams::default().fields(&format!("spec.nodeName={}", self.name));
        if let Some(labels) = &self.pod_selector {
            params = params.labels(labels);
        }
        let pods = Api::<Pod>::all(client.clone()).list(&params).await;
        Ok(pods.with_context(|| format!("the pods of node {} cannot be listed", self.name))?.items)
    }

    async fn cordon(&self, nodes: &Api<CoreNode>, node: &CoreNode) -> anyhow::Result<()> {
        if node.spec.as_ref().and_then(|spec| spec.unschedulable) == Some(true) {
            say(format_args!("node/{} already cordoned", self.name))?;
            return Ok(());
        }
        let dry_run = self.dry_run.dry_run;
        if dry_run != DryRun::Client {
            let patch = serde_json::json!({"spec": {"unschedulable": true}});
            let params = PatchParams { dry_run: dry_run == DryRun::Server, ..PatchParams::default() };
            let cordoned = nodes.patch(&self.name, &params, &Patch::Merge(&patch)).await;
            cordoned.with_context(|| format!("node {} cannot be cordoned", self.name))?;
        }
        say(format_args!("node/{} cordoned{}", self.name, dry_run.note()))?;
        Ok(())
    }
}

/// The controllers of pods that are DaemonSets and do not exist, as `NAMESPACE/NAME`.
async fn missing_daemon_sets(client: &Client, pods: &[Pod]) -> anyhow::Result<BTreeSet<String>> {
    let mut looked_at = BTreeMap::new();
    for pod in pods {
        let owners = pod.owner_references().iter();
        let Some(owner) = owners.into_iter().find(|o| o.controller == Some(true) && o.kind == "DaemonSet")
        else {
            continue;
        };
        let namespace = pod.namespace().unwrap_or_default();
        let key = format!("{namespace}/{}", owner.name);
        if looked_at.contains_key(&key) {
            continue;
        }
        let found =
            Api::<DaemonSet>::namespaced(client.clone(), &namespace).get_metadata_opt(&owner.name).await;
        let found = found.with_context(|| format!("daemonset {key} cannot be read"))?;
        looked_at.insert(key, found.is_some());
    }
    Ok(looked_at.into_iter().filter(|(_, exists)| !exists).map(|(key, _)| key).collect())
}

/// Fails when the server refuses the entry, before the node is cordoned in vain. One pod is enough: an error
/// of a single pod shows when it is asked.
async fn rehearse(requester: &Requester, pods: &[Pod]) -> anyhow::Result<()> {
    let Some(pod) = pods.first() else { return Ok(()) };
    match requester.clone().dry_run().evacuate_pod(pod).await {
        Err(error) if !error.is_pod_gone() => Err(error.into()),
        _ => Ok(()),
    }
}

/// The flag that lets the drain continue.
fn flag(why: DrainRefusal) -> &'static str {
    match why {
        DrainRefusal::DaemonSet => "--ignore-daemonsets",
        DrainRefusal::LocalStorage => "--delete-emptydir-data",
        DrainRefusal::MissingDaemonSet | DrainRefusal::Unmanaged => "--force",
    }
}

/// Asks each pod, several at a time. An error with one is printed, and the others are still asked.
async fn ask(requester: &Requester, pods: &[Pod], dry_run: DryRun) -> io::Result<(Tracker, bool)> {
    let mut tracker = Tracker::default();
    let (mut failed, mut warned) = (false, false);
    let asked = stream::iter(pods).map(async |pod| (pod, requester.evacuate_pod(pod).await));
    let mut asked = pin!(asked.buffered(AT_ONCE));
    while let Some((pod, outcome)) = asked.next().await {
        match outcome {
            Ok(evacuation) => {
                // The warnings are the same for every pod.
                if !std::mem::replace(&mut warned, true) {
                    warn(&evacuation);
                }
                say(format_args!("pod/{} asked{}", full_name(pod), dry_run.note()))?;
                tracker.follow(evacuation.object());
            }
            // Another requester moved the pod: the goal is reached.
            Err(error) if error.is_pod_gone() => {
                say(format_args!("pod/{} is gone{}", full_name(pod), dry_run.note()))?;
            }
            Err(error) => {
                failed = true;
                eprintln!("error: {}", complaint(&error.into()));
            }
        }
    }
    Ok((tracker, failed))
}

fn full_name(pod: &Pod) -> String {
    format!("{}/{}", pod.namespace().unwrap_or_default(), pod.name_any())
}

#[cfg(test)]
mod tests {
    use std::{
        convert::Infallible,
        sync::{
            Arc, Mutex,
            atomic::{AtomicUsize, Ordering},
        },
    };

    use http::{Request, Response};
    use kube::client::Body;

    use super::*;

    const VANISHED: (u16, &str) = (
        422,
        r#"{"kind":"Status","status":"Failure","code":422,"reason":"Invalid",
            "details":{"causes":[{"reason":"FieldValueNotFound","field":"spec.target.pod.name"}]}}"#,
    );
    const REPLACED: (u16, &str) = (
        409,
        r#"{"kind":"Status","status":"Failure","code":409,"reason":"Conflict",
            "details":{"causes":[{"reason":"WrongPod","field":"spec.target.pod.uid"}]}}"#,
    );
    const INVALID: (u16, &str) = (
        422,
        r#"{"kind":"Status","status":"Failure","code":422,"reason":"Invalid",
            "details":{"causes":[{"reason":"FieldValueInvalid","field":"spec.target.pod.name"}]}}"#,
    );
    const CREATED: (u16, &str) = (
        201,
        r#"{"metadata":{"name":"a","namespace":"shop","uid":"1"},"spec":{"target":{"pod":{"name":"db-0","uid":"P"}}}}"#,
    );

    /// Asks the pod `db-0` of an API with that reply. Returns the number of followed evacuations, the
    /// failure, and the request.
    async fn ask_one(reply: (u16, &'static str)) -> (usize, bool, serde_json::Value) {
        let sent = Arc::new(Mutex::new(serde_json::Value::Null));
        let record = sent.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let record = record.clone();
            async move {
                let body = request.into_body().collect_bytes().await.unwrap();
                *record.lock().unwrap() = serde_json::from_slice(&body).unwrap();
                let body = Body::from(reply.1.as_bytes().to_vec());
                Ok::<_, Infallible>(Response::builder().status(reply.0).body(body).unwrap())
            }
        });
        let requester = Requester::new(Client::new(service, "shop"), "acme.io/a");
        let mut pod = Pod::default();
        pod.metadata.name = Some("db-0".to_owned());
        pod.metadata.namespace = Some("shop".to_owned());
        pod.metadata.uid = Some("P".to_owned());
        let (tracker, failed) = ask(&requester, &[pod], DryRun::None).await.unwrap();
        let sent = sent.lock().unwrap().clone();
        (tracker.len(), failed, sent)
    }

    #[tokio::test]
    async fn a_pod_that_left_before_it_was_asked_is_no_error() {
        for (reply, followed, failed) in
            [(VANISHED, 0, false), (REPLACED, 0, false), (INVALID, 0, true), (CREATED, 1, false)]
        {
            let (found, error, _) = ask_one(reply).await;
            assert_eq!((found, error), (followed, failed), "{reply:?}");
        }
    }

    #[tokio::test]
    async fn several_pods_are_asked_at_a_time_and_not_all() {
        let under_way = Arc::new((AtomicUsize::new(0), AtomicUsize::new(0)));
        let count = Arc::clone(&under_way);
        let service = tower::service_fn(move |_: Request<Body>| {
            let count = Arc::clone(&count);
            async move {
                count.1.fetch_max(count.0.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
                for _ in 0..100 {
                    tokio::task::yield_now().await;
                }
                count.0.fetch_sub(1, Ordering::Relaxed);
                let body = Body::from(CREATED.1.as_bytes().to_vec());
                Ok::<_, Infallible>(Response::builder().status(CREATED.0).body(body).unwrap())
            }
        });
        let requester = Requester::new(Client::new(service, "shop"), "acme.io/a");
        let pods: Vec<Pod> = (0..40)
            .map(|at| {
                let mut pod = Pod::default();
                pod.metadata.name = Some(format!("db-{at}"));
                pod.metadata.namespace = Some("shop".to_owned());
                pod
            })
            .collect();
        let (_, failed) = ask(&requester, &pods, DryRun::None).await.unwrap();
        assert!(!failed);
        assert_eq!(under_way.1.load(Ordering::Relaxed), AT_ONCE);
    }

    #[tokio::test]
    async fn a_drain_asks_the_pod_that_it_saw_on_the_node() {
        let (_, _, sent) = ask_one(CREATED).await;
        assert_eq!(sent["spec"]["target"]["pod"]["uid"], "P");
    }
}
