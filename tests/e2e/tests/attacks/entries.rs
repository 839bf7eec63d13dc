//! Entries of a tenant in the Evacuation of its own pod.

use evacuation_api::Evacuation;
use evacuation_e2e::{
    PodSpec, Scene,
    scene::{Bystander, User, entry, first, wanting},
};
use kube::api::PostParams;
use serde_json::{Value, json};

use crate::tenant::{scene, tenant};

/// The most entries that an Evacuation ever holds.
const MOST: usize = 32;

/// A window that opens in two years.
fn far() -> Value {
    json!({"schedule": "0 3 1 1 *", "durationSeconds": 3600, "timeZone": "Etc/UTC"})
}

/// Creates an Evacuation as the tenant, with as many of these entries as the server accepts.
async fn asks(scene: &Scene, tenant: &User, pod: &str, entries: &[Value]) -> Evacuation {
    let api = scene.evacuations_as(&tenant.client);
    for count in (1..=entries.len()).rev() {
        match api.create(&PostParams::default(), &wanting(pod, &entries[..count])).await {
            Ok(created) => return created,
            Err(kube::Error::Api(status)) if status.code == 422 => {}
            Err(other) => panic!("{other}"),
        }
    }
    panic!("the server accepts no entry of the tenant")
}

/// The entries of a pod have a share for each owner.
///
/// # Attack
///
/// - Attacker: a tenant with the role `edit`
/// - Act: fills the entries of its pod's Evacuation
/// - Promise: 8
#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_that_fills_the_entries_of_its_pod_keeps_no_drain_out() {
    let scene = scene("entries").await;
    let (beside, tenant, node) = tokio::join!(Bystander::new(&scene), tenant(&scene), scene.own_node());
    let pod = scene.pod("db-0", PodSpec::watching().on(&node)).await;
    let entries: Vec<Value> =
        (0..MOST).map(|n| entry(&format!("tenant.acme.io/{n}"), json!({"window": far()}))).collect();
    let asked = asks(&scene, &tenant, "db-0", &entries).await;

    let _app = scene.app(&pod, |_| async { evacuation_client::Answer::accept() }).await;
    tokio::join!(beside.drains(&scene), beside.drainer().drains(&scene, &node));
    scene.pods.gone(&pod).await.unwrap();
    let accepted = first(&scene.get(&asked).await).answer_time.unwrap().0;
    assert!(accepted <= scene.evicted_once("db-0"), "the app accepted at {accepted}");
}

/// Entries are keyed by owner and name.
///
/// # Attack
///
/// - Attacker: a tenant with the role `edit`
/// - Act: writes an entry with the name that a drain will use
/// - Promise: 3, 8
#[tokio::test(flavor = "multi_thread")]
async fn an_entry_with_the_name_of_anothers_drain_does_not_make_it_fail() {
    let scene = scene("name").await;
    let (beside, tenant, node) = tokio::join!(Bystander::new(&scene), tenant(&scene), scene.own_node());
    let pod = scene.pod("db-0", PodSpec::default().on(&node)).await;
    // The name of the drain's entry, which the tenant can guess once the drain is there.
    let drain = beside.drainer().prepares(&node).await;
    let taken = entry(&drain.entry_name().unwrap(), json!({"window": far()}));
    asks(&scene, &tenant, "db-0", &[taken]).await;
    beside.drainer().resumes(&drain).await;

    tokio::join!(beside.drains(&scene), beside.drainer().drains(&scene, &node));
    scene.pods.gone(&pod).await.unwrap();
    scene.evicted_once("db-0");
}
