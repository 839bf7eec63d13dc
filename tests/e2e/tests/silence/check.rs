//! `kubectl evacuate check`: the state of the installation in one command.

use std::{collections::BTreeMap, time::Instant};

use anyhow::bail;
use controlplane::eventually;
use evacuation_e2e::{
    Scene, root,
    scene::{CHECK_LIMIT, Item, PATIENCE, Report, names_in_state},
};
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use kube::{Api, api::DeleteParams};
use serde_json::json;

use crate::scene;

/// Name of the controller's ClusterRoleBinding.
const BINDING: &str = "evacuation-controller";
/// The manifest with that binding.
const ACCESS: &str = "deploy/base/access/controller.yaml";

/// Returns the items once these and no others have failed, and the exit code says so.
async fn until_failed(scene: &Scene, names: &[&str]) -> BTreeMap<String, Item> {
    let found = eventually(PATIENCE, "those items have failed", || async {
        let began = Instant::now();
        let Report { code, items } = scene.check(None).await;
        assert!(began.elapsed() < CHECK_LIMIT * 8, "the check took {:?}", began.elapsed());
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
    assert_eq!(names_in_state(&items, "ok").len(), items.len() - 4, "{items:?}");
    assert_eq!(names_in_state(&items, "notInstalled"), ["built-in responders", "gateway"], "{items:?}");
    // They hold no lease here.
    assert_eq!(names_in_state(&items, "unknown"), ["controller-manager", "scheduler"], "{items:?}");
    assert!(items["versions"].message.contains("controller not known ("), "{items:?}");
    let output = scene.platform().kubectl(&["evacuate", "check"]).await.unwrap();
    assert_eq!((output.code, output.stdout.lines().count()), (Some(0), items.len()), "{output:?}");

    let user = scene.user("newcomer", &[]).await;
    let Report { code, items } = scene.check(Some(&user.name)).await;
    assert_eq!(code, Some(0), "{items:?}");
    assert_eq!(names_in_state(&items, "failed"), [""; 0], "{items:?}");
    assert_eq!(
        names_in_state(&items, "unknown"),
        [
            "apiservice",
            "built-in responders",
            "controller",
            "controller-manager",
            "gateway",
            "scheduler",
            "store"
        ],
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
        let Report { code, items } = scene.check(None).await;
        assert!(began.elapsed() < CHECK_LIMIT * 8, "the check took {:?}", began.elapsed());
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
        let Report { code, items } = scene.check(None).await;
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
    // A drainer may read drains, but no lease: the warning with the drains says the same.
    let drainer = scene.drainer().await;
    let found = eventually(PATIENCE, "the check says so to a drainer", || async {
        let Report { code, items } = scene.check(Some(&drainer.user.name)).await;
        if names_in_state(&items, "failed") == ["controller"] {
            Ok((code, items))
        } else {
            bail!("{items:?}")
        }
    });
    let (code, items) = found.await.unwrap();
    assert_eq!(code, Some(1), "{items:?}");
    let controller = &items["controller"];
    assert!(
        controller.message.starts_with("no controller works on evacuations: the lease "),
        "{controller:?}"
    );
    let way_out = controller.way_out.as_deref().unwrap_or_default();
    assert!(way_out.starts_with("an administrator, who runs this check"), "{controller:?}");

    scene.start_controller().await;
    until_failed(&scene, &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_controller_that_renews_its_lease_without_its_binding_says_what_it_cannot_watch() {
    let scene = scene("check-blind").await;
    let bindings: Api<ClusterRoleBinding> = Api::all(scene.admin());
    bindings.delete(BINDING, &DeleteParams::default()).await.unwrap();
    let account = "system:serviceaccount:evacuation-system:evacuation-controller";
    let right = json!({"group": "", "resource": "pods", "verb": "list"});
    scene.decided(account, &right, false).await;
    // Its watches would stay open for two minutes.
    scene.kill_controller();
    scene.start_controller().await;
    let said = eventually(PATIENCE, "the check says that the controller cannot watch", || async {
        let Report { code, mut items } = scene.check(None).await;
        let controller = items.remove("controller").unwrap();
        let parts = ["has been unable to list or watch ", " other kinds since ", "Forbidden"];
        if !parts.iter().all(|part| controller.message.contains(part)) {
            bail!("{controller:?}");
        }
        assert_eq!((code, controller.state.as_str()), (Some(1), "failed"), "{controller:?}");
        Ok(controller)
    });
    let way_out = said.await.unwrap().way_out.unwrap();
    let (look, apply) = way_out.split_once("; ").unwrap();
    let look: Vec<&str> = look.split(' ').skip(1).collect();
    let looked = scene.platform().kubectl(&look).await.unwrap();
    assert!(looked.stderr.contains(&format!("\"{BINDING}\" not found")), "{looked:?}");

    let status = ["evacuate", "status"];
    let warned = eventually(PATIENCE, "the API server warns", || async {
        let output = scene.platform().kubectl(&status).await.unwrap();
        let text = "no controller works on evacuations: the controller has been unable to list or watch ";
        if output.stderr.contains(text) { Ok(()) } else { Err(output.stderr) }
    });
    warned.await.unwrap();

    assert_eq!(apply, "apply the manifests again");
    let access = root().join(ACCESS).display().to_string();
    let applied = scene.platform().kubectl(&["apply", "-f", &access]).await.unwrap();
    assert!(applied.success(), "{applied:?}");
    until_failed(&scene, &[]).await;
    let silent = eventually(PATIENCE, "the warning is gone", || async {
        let output = scene.platform().kubectl(&status).await.unwrap();
        if output.stderr.is_empty() { Ok(()) } else { Err(output.stderr) }
    });
    silent.await.unwrap();
}
