//! Budgets of a tenant whose room is counted again and again.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use anyhow::bail;
use controlplane::eventually;
use evacuation_e2e::{
    PodSpec, Scene,
    scene::{Bystander, PATIENCE, User, entry, wanting},
};
use k8s_openapi::api::{core::v1::Pod, policy::v1::PodDisruptionBudget};
use kube::{
    Api, ResourceExt,
    api::{ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::tenant::{scene, tenant};

/// Budgets, each of which has no room for its only pod.
const BUDGETS: usize = 40;
/// Requirements of the selector of each.
const TERMS: usize = 256;
/// Connections on which the tenant changes the labels of its pods.
const CONNECTIONS: usize = 4;
/// Pause of a connection between two changes, which leaves the test most of the CPU.
const PAUSE: Duration = Duration::from_millis(20);

/// The selector of one pod, in as many requirements as it may have.
fn selector(app: &str) -> Value {
    let absent =
        (1..TERMS).map(|number| json!({"key": format!("absent-{number}"), "operator": "DoesNotExist"}));
    json!({"matchLabels": {"app": app}, "matchExpressions": absent.collect::<Vec<_>>()})
}

/// Makes the pods, and a budget and a request for each. Each request waits for room.
async fn waiting_requests(scene: &Scene, tenant: &User) -> Vec<String> {
    let budgets: Api<PodDisruptionBudget> = Api::namespaced(tenant.client.clone(), scene.namespace());
    let mut names = Vec::new();
    for number in 0..BUDGETS {
        let app = format!("app-{number}");
        let pod = scene.pod(&app, PodSpec::watching().label("app", &app)).await;
        let budget =
            json!({"metadata": {"name": app}, "spec": {"minAvailable": 1, "selector": selector(&app)}});
        budgets.create(&PostParams::default(), &serde_json::from_value(budget).unwrap()).await.unwrap();
        names.push(pod.name_any());
    }
    let counted = eventually(PATIENCE, "the budgets are counted", || async {
        let all = budgets.list(&ListParams::default()).await?.items;
        let seen = |budget: &&PodDisruptionBudget| {
            budget.status.as_ref().is_some_and(|status| status.observed_generation.is_some())
        };
        let counted = all.iter().filter(seen).count();
        if counted == BUDGETS { Ok(()) } else { bail!("{counted}") }
    });
    counted.await.unwrap();
    let requests = scene.evacuations_as(&tenant.client);
    for name in &names {
        let request = wanting(name, &[entry("tenant.acme.io/pace", json!({}))]);
        let asked = requests.create(&PostParams::default(), &request).await.unwrap();
        scene.until_condition(&asked, "Blocked", "AwaitingTurn").await;
    }
    names
}

/// Changes of labels, until this is dropped.
struct Flapping {
    changes: Arc<AtomicUsize>,
    _tasks: JoinSet<()>,
}

impl Flapping {
    fn begin(scene: &Scene, tenant: &User, names: &[String]) -> Self {
        let changes = Arc::<AtomicUsize>::default();
        let mut tasks = JoinSet::new();
        for connection in 0..CONNECTIONS {
            let api: Api<Pod> = Api::namespaced(tenant.client.clone(), scene.namespace());
            let (names, changes) = (names.to_vec(), Arc::clone(&changes));
            tasks.spawn(async move {
                for (turn, name) in names.iter().cycle().skip(connection).step_by(CONNECTIONS).enumerate() {
                    let patch = json!({"metadata": {"labels": {"turn": turn.to_string()}}});
                    api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
                    changes.fetch_add(1, Ordering::Relaxed);
                    tokio::time::sleep(PAUSE).await;
                }
            });
        }
        Self { changes, _tasks: tasks }
    }

    /// Waits until each pod has changed once more.
    async fn flows(&self) {
        let before = self.changes.load(Ordering::Relaxed);
        let flows = eventually(PATIENCE, "the labels change", || async {
            let changes = self.changes.load(Ordering::Relaxed) - before;
            if changes >= BUDGETS { Ok(()) } else { Err(changes) }
        });
        flows.await.unwrap();
    }
}

/// The room of a tenant's budgets is counted beside the work for others.
///
/// # Attack
///
/// - Attacker: a tenant with the role `edit`
/// - Act: has the room of forty budgets with 256 requirements counted at each change of its pods' labels
/// - Promise: 8
#[tokio::test(flavor = "multi_thread")]
async fn budgets_that_are_counted_again_and_again_hold_up_no_other_drain() {
    let scene = scene("counted").await;
    let (beside, tenant) = tokio::join!(Bystander::new(&scene), tenant(&scene));
    let names = waiting_requests(&scene, &tenant).await;
    let flapping = Flapping::begin(&scene, &tenant, &names);
    flapping.flows().await;
    beside.drains(&scene).await;
    flapping.flows().await;
    drop(flapping);
    for name in &names {
        let pod = scene.pods.api().get(name).await.unwrap();
        assert!(pod.metadata.deletion_timestamp.is_none(), "its budget has no room for {name}");
        scene.left_alone(name);
    }
}
