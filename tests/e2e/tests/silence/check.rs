//! `kubectl evacuate check`: the state of the installation in one command.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use anyhow::bail;
use controlplane::{Output, eventually, output_of};
use evacuation_e2e::{Scene, scene::PATIENCE};
use serde::Deserialize;

use crate::scene;

/// Bound of the checks of a part that is down.
const LIMIT: Duration = Duration::from_secs(8);

#[derive(Debug, Deserialize)]
struct Report {
    items: Vec<Item>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Item {
    name: String,
    state: String,
    message: String,
    way_out: Option<String>,
}

/// Runs the check as a user, and returns its exit code and its items.
async fn check_as(scene: &Scene, user: Option<&str>) -> (Option<i32>, BTreeMap<String, Item>) {
    let mut command = scene.platform().kubectl_command();
    if let Some(user) = user {
        command.env("KUBECONFIG", scene.control_plane().kubeconfig_for_user(user, None).unwrap());
    }
    command.args(["evacuate", "check", "-o", "json"]);
    command.arg(format!("--request-timeout={}s", LIMIT.as_secs()));
    let Output { code, stdout, stderr } = output_of("kubectl", command).await.unwrap();
    let report: Report = serde_json::from_str(&stdout).unwrap_or_else(|_| panic!("{stdout} {stderr}"));
    (code, report.items.into_iter().map(|item| (item.name.clone(), item)).collect())
}

fn names_in_state<'a>(items: &'a BTreeMap<String, Item>, state: &str) -> Vec<&'a str> {
    items.values().filter(|item| item.state == state).map(|item| item.name.as_str()).collect()
}

/// Returns the items once these and no others have failed, and the exit code says so.
async fn until_failed(scene: &Scene, names: &[&str]) -> BTreeMap<String, Item> {
    let found = eventually(PATIENCE, "those items have failed", || async {
        let began = Instant::now();
        let (code, items) = check_as(scene, None).await;
        assert!(began.elapsed() < LIMIT * 8, "the check took {:?}", began.elapsed());
        if names_in_state(&items, "failed") != names {
            bail!("{items:?}");
        }
        assert_eq!(code, Some(i32::from(!names.is_empty())), "{items:?}");
        Ok(items)
    });
    let items = found.await.unwrap();
    println!("{items:#?}");
    items
}

#[tokio::test(flavor = "multi_thread")]
async fn a_working_installation_is_ok_and_a_user_without_rights_sees_what_is_missing() {
    let scene = scene("check").await;
    let items = until_failed(&scene, &[]).await;
    assert_eq!(names_in_state(&items, "ok").len(), items.len() - 2, "{items:?}");
    assert_eq!(names_in_state(&items, "notInstalled"), ["gateway"], "{items:?}");
    // It holds no lease here.
    assert_eq!(names_in_state(&items, "unknown"), ["controller-manager"], "{items:?}");
    assert!(items["versions"].message.contains("controller not known ("), "{items:?}");
    let output = scene.platform().kubectl(&["evacuate", "check"]).await.unwrap();
    assert_eq!((output.code, output.stdout.lines().count()), (Some(0), items.len()), "{output:?}");

    let user = scene.user("newcomer", &[]).await;
    let (code, items) = check_as(&scene, Some(&user.name)).await;
    assert_eq!(code, Some(0), "{items:?}");
    assert_eq!(names_in_state(&items, "failed"), [""; 0], "{items:?}");
    assert_eq!(
        names_in_state(&items, "unknown"),
        ["apiservice", "controller", "controller-manager", "gateway", "store"],
        "{items:?}"
    );
    assert!(items["controller"].message.contains("you cannot get resource \"leases\""), "{items:?}");
    assert_eq!(items["controller"].way_out.as_deref(), Some("a role with that right"));
    assert!(items["right to drain"].message.starts_with("no: create nodeevacuations;"), "{items:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_api_server_that_is_down_fails_its_item_and_holds_up_no_other() {
    let scene = scene("check-api").await;
    scene.platform().apiserver().kill().unwrap();
    let items = eventually(PATIENCE, "the API server's item has failed", || async {
        let began = Instant::now();
        let (code, items) = check_as(&scene, None).await;
        assert!(began.elapsed() < LIMIT * 8, "the check took {:?}", began.elapsed());
        if items["apiserver"].state != "failed" {
            bail!("{items:?}");
        }
        assert_eq!(code, Some(1), "{items:?}");
        Ok(items)
    });
    let items = items.await.unwrap();
    println!("{items:#?}");
    assert!(items["apiserver"].message.contains("the evacuation API does not answer"), "{items:?}");
    assert!(items["apiserver"].way_out.as_deref().unwrap_or_default().contains("kubectl get"), "{items:?}");
    // The kube-apiserver notices the outage after a while.
    let failed = names_in_state(&items, "failed");
    assert!(failed == ["apiserver"] || failed == ["apiserver", "apiservice"], "{items:?}");
    assert_eq!(items["store"].state, "unknown");
    for name in ["kubernetes", "controller", "clocks", "right to drain"] {
        assert_eq!(items[name].state, "ok", "{name}: {items:?}");
    }

    scene.platform().apiserver().start().unwrap();
    scene.platform().available().await.unwrap();
    until_failed(&scene, &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_is_down_fails_its_item_while_the_api_server_answers() {
    let scene = scene("check-store").await;
    let etcd = scene.platform().etcd().unwrap();
    etcd.stop().unwrap();
    let items = eventually(PATIENCE, "the store's item has failed", || async {
        let (code, items) = check_as(&scene, None).await;
        if items["store"].state != "failed" {
            bail!("{items:?}");
        }
        assert_eq!(code, Some(1), "{items:?}");
        Ok(items)
    });
    let items = items.await.unwrap();
    println!("{items:#?}");
    assert!(items["store"].message.starts_with("a list failed: "), "{items:?}");
    assert_eq!(items["apiserver"].state, "ok", "{items:?}");

    etcd.start_again().await.unwrap();
    until_failed(&scene, &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_controller_that_is_down_fails_its_item_with_the_age_of_its_lease() {
    let scene = scene("check-lease").await;
    scene.kill_controller();
    let items = until_failed(&scene, &["controller"]).await;
    let controller = &items["controller"];
    let lease = "no controller works on evacuations: its lease evacuation-system/evacuation-controller is ";
    let age = controller.message.strip_prefix(lease).and_then(|rest| rest.split(' ').next());
    let age: u64 = age.and_then(|age| age.parse().ok()).unwrap_or_else(|| panic!("{controller:?}"));
    assert!(age > 30, "{controller:?}");
    assert!(controller.way_out.as_deref().unwrap_or_default().starts_with("kubectl get pods"));

    scene.start_controller().await;
    until_failed(&scene, &[]).await;
}
