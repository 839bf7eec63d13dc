//! 600 Evacuations at 20 a second for each transport, no budget: from create to the app being asked, and from
//! Accept to the eviction call. A creation is timed by its caller, the rest by the apps and kube-apiserver's
//! audit log, on one machine's clock. Rounds alternate with those of the peers, so that what else the machine
//! does meets both. Each begins when the namespace of the one before is gone.

use std::{collections::HashMap, time::Duration};

use anyhow::ensure;
use controlplane::{AuditEvent, ControlPlane, eventually};
use evacuation_api::{EvacuationSpec, PodTarget, Requester};
use evacuation_e2e::{Platform, PlatformOptions, PodSpec, Pods};
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::{
    api::core::v1::{Namespace, Pod},
    jiff::Timestamp,
};
use kube::{
    Api, ResourceExt,
    api::{ListParams, PostParams},
};
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use crate::{
    apps::{self, Asked},
    peer,
    report::{Aim, Row},
    samples::Samples,
};

/// Number of Evacuations of a round for each transport.
pub(crate) const COUNT: usize = 200;
/// Number of rounds. The p99 of one round is its third largest figure, which differs much from run to run.
const ROUNDS: usize = 3;
/// 20 a second.
pub(crate) const PERIOD: Duration = Duration::from_millis(50);
/// The most that p50 and p99 of each figure may be, as ratios to the peer of the same run.
const ASKED_BY_WATCH: [f64; 2] = [3.0, 5.0];
const ASKED_BY_PUSH: [f64; 2] = [5.0, 8.0];
const ACCEPTED_TO_EVICTION: [f64; 2] = [3.0, 4.0];
/// The port of the apps that are pushed to.
const PORT: u16 = 8080;
/// Time limit of the end of a namespace.
const CLEAN_UP: Duration = Duration::from_mins(2);
/// Number of pods created at a time.
const AT_ONCE: usize = 20;

/// Transport of the question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Transport {
    Watch,
    Push,
}

impl Transport {
    fn word(self) -> &'static str {
        match self {
            Self::Watch => "watch",
            Self::Push => "push",
        }
    }

    fn aims(self) -> [f64; 2] {
        match self {
            Self::Watch => ASKED_BY_WATCH,
            Self::Push => ASKED_BY_PUSH,
        }
    }

    fn pod(self) -> PodSpec {
        match self {
            Self::Watch => PodSpec::watching(),
            Self::Push => PodSpec::pushed(PORT),
        }
    }
}

/// Runs the benchmark.
pub(crate) async fn run() -> anyhow::Result<Vec<Row>> {
    let options =
        PlatformOptions { control_plane: ControlPlane::builder().nodes(10), ..PlatformOptions::default() };
    let platform = Platform::start(options).await?;
    let (mut seen, mut evicted) = (Samples::default(), Samples::default());
    let mut ours = [Transport::Watch, Transport::Push].map(|it| (it, Samples::default(), Samples::default()));
    for _ in 0..ROUNDS {
        seen.append(peer::watch_latency(&platform).await?);
        settle(&platform).await?;
        evicted.append(peer::evict_latency(&platform).await?);
        settle(&platform).await?;
        for (transport, asked, acted) in &mut ours {
            let (asked_now, acted_now) = measure(&platform, *transport).await?;
            asked.append(asked_now);
            acted.append(acted_now);
            settle(&platform).await?;
        }
    }
    let mut rows = Vec::new();
    for (transport, asked, acted) in ours {
        let case = |what: &str| format!("{what} ({}), {} evacuations", transport.word(), asked.len());
        let (peer, aims) = ("configmap: create to watch event", transport.aims());
        rows.extend(figures(&case("create to asked"), &asked, peer, &seen, aims));
        rows.extend(figures(
            &case("accept to eviction"),
            &acted,
            "bare loop: annotation to eviction",
            &evicted,
            ACCEPTED_TO_EVICTION,
        ));
    }
    Ok(rows)
}

/// Waits until the namespace of the last measurement is gone: its clean-up would disturb the next one.
async fn settle(platform: &Platform) -> anyhow::Result<()> {
    let namespaces: Api<Namespace> = Api::all(platform.client()?);
    eventually(CLEAN_UP, "no namespace that is being deleted", async || {
        let all = namespaces.list(&ListParams::default()).await?;
        let ending: Vec<_> = all.iter().filter(|it| it.metadata.deletion_timestamp.is_some()).collect();
        ensure!(ending.is_empty(), "{} namespaces are being deleted", ending.len());
        Ok(())
    })
    .await
    .map_err(anyhow::Error::from)
}

/// Returns p50 and p99 of a figure, each with its aim.
fn figures(
    case: &str,
    ours: &Samples,
    peer: &'static str,
    theirs: &Samples,
    [median, tail]: [f64; 2],
) -> Vec<Row> {
    [(50, median), (99, tail)]
        .map(|(percent, aim)| {
            Row::new("latency", format!("{case}: p{percent}"), "ms", ours.quantile(percent))
                .beside(peer, theirs.quantile(percent))
                .aim(Aim::Ratio(aim))
        })
        .into()
}

/// Makes pods, several at a time.
pub(crate) async fn make_pods(pods: &Pods, spec: &PodSpec) -> anyhow::Result<Vec<Pod>> {
    let names = (0..COUNT).map(|number| format!("app-{number}"));
    stream::iter(names)
        .map(|name| async move { pods.create(&name, spec).await })
        .buffered(AT_ONCE)
        .try_collect()
        .await
}

async fn measure(platform: &Platform, transport: Transport) -> anyhow::Result<(Samples, Samples)> {
    let pods = platform.namespace(transport.word()).await?;
    let targets = make_pods(&pods, &transport.pod()).await?;
    let (asked, stop) = (Asked::default(), CancellationToken::new());
    let _stop = stop.clone().drop_guard();
    match transport {
        Transport::Watch => {
            for pod in &targets {
                apps::watch(platform, pod, &asked, &stop).await?;
            }
        }
        Transport::Push => apps::push(&targets, PORT, &asked, &stop)?,
    }
    let created = create_all(&pods, &targets).await?;
    for pod in &targets {
        pods.gone(pod).await?;
    }
    let log = platform.control_plane().audit_events()?;
    let log: Vec<&AuditEvent> = log.iter().filter(|event| event.namespace() == pods.namespace()).collect();
    let samples = (asked_samples(&created, &asked), acted_samples(&log, &targets));
    ensure!(samples.0.len() == COUNT, "{} of {COUNT} apps were asked", samples.0.len());
    ensure!(samples.1.len() == COUNT, "{} of {COUNT} pods were evicted", samples.1.len());
    Ok(samples)
}

/// Creates an Evacuation of each pod, one every [`PERIOD`], each named after its pod. Returns when each was
/// called for.
async fn create_all(pods: &Pods, targets: &[Pod]) -> anyhow::Result<HashMap<String, Timestamp>> {
    let api = pods.evacuations();
    let mut tick = interval(PERIOD);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut creations, mut created) = (Vec::new(), HashMap::new());
    for pod in targets {
        tick.tick().await;
        let name = pod.name_any();
        let entry = Requester {
            reason: Some("Benchmark".to_owned()),
            ..Requester::named("bench.evacuation.dev/latency")
        };
        let spec = EvacuationSpec::new(PodTarget { name: name.clone(), uid: pod.uid() }, vec![entry]);
        let api = api.clone();
        created.insert(name.clone(), Timestamp::now());
        creations.push(tokio::spawn(async move {
            api.create(&PostParams::default(), &evacuation_api::Evacuation::new(&name, spec)).await
        }));
    }
    for creation in creations {
        creation.await??;
    }
    Ok(created)
}

/// From the call that creates the Evacuation to the app's note.
fn asked_samples(created: &HashMap<String, Timestamp>, asked: &Asked) -> Samples {
    let asked = asked.all();
    let mut samples = Samples::default();
    for (name, created) in created {
        if let Some(asked) = asked.get(name) {
            samples.add(*created, *asked);
        }
    }
    samples
}

/// From the recording of the answer to the arrival of the eviction.
fn acted_samples(log: &[&AuditEvent], targets: &[Pod]) -> Samples {
    // An app that sees its pod go before its answer is replied to leaves, and the log has no code of success
    // for that answer.
    let answers =
        by_name(log, |event| event.subresource() == "respond" && !(400..500).contains(&event.code()));
    let evictions = by_name(log, |event| event.resource() == "pods" && event.subresource() == "eviction");
    let mut samples = Samples::default();
    for name in targets.iter().map(ResourceExt::name_any) {
        let answered: Option<Timestamp> = answers.get(&name).and_then(|event| event.answered());
        if let (Some(answered), Some(evicted)) = (answered, evictions.get(&name).and_then(|e| e.received())) {
            samples.add(answered, evicted);
        }
    }
    samples
}

/// The first event of each object that is wanted.
fn by_name<'a>(
    log: &[&'a AuditEvent],
    wanted: impl Fn(&AuditEvent) -> bool,
) -> HashMap<String, &'a AuditEvent> {
    let mut found = HashMap::new();
    for event in log.iter().filter(|event| wanted(event)) {
        found.entry(event.name().to_owned()).or_insert(*event);
    }
    found
}
