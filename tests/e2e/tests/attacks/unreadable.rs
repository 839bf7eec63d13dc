//! Stored objects that the server cannot read.

use anyhow::{bail, ensure};
use controlplane::{AuditEvent, eventually, output_of};
use evacuation_api::{DrainVerdict, Evacuation, EvacuationResponder, NodeEvacuation, NodeEvacuationRule};
use evacuation_e2e::{
    PlatformOptions, PodSpec, Pool, Scene,
    scene::{Bystander, PATIENCE, answer, causes, quick, refused_saying},
};
use http::Request;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{
    Api, ResourceExt,
    api::{EvictParams, Patch, PatchParams, PostParams},
    client::Body,
};
use serde_json::json;

/// Users whose processes write to no object that they cannot see.
const OURS: &str = "system:serviceaccount:evacuation-system:";

/// A platform with a gateway.
pub(crate) static PLATFORM: Pool = Pool::new(1, || {
    let configuration =
        "apiVersion: gateway.evacuation.dev/v1alpha1\nkind: GatewayConfiguration\ncallers: []\n".to_owned();
    PlatformOptions { gateway: Some(configuration), ..PlatformOptions::default() }
});

/// Returns the namespace of the scene's objects of a resource, empty where they have none.
fn namespace_of<'s>(scene: &'s Scene, resource: &str) -> &'s str {
    if resource.starts_with("node") { "" } else { scene.namespace() }
}

/// Writes what no version of the server can decode in the place of an object of the scene.
async fn garble(scene: &Scene, resource: &str, name: &str) {
    let folder = format!("{resource}/{}", namespace_of(scene, resource));
    let key = format!("/registry/evacuation.dev/evacuation.dev/{}/{name}", folder.trim_end_matches('/'));
    scene.platform().etcd().unwrap().put(&key, "{\"spec\": 7}").await.unwrap();
    let path = format!("/apis/evacuation.dev/v1alpha1/{resource}");
    let named = eventually(PATIENCE, "the list of all namespaces names it", || async {
        let request = Request::get(&path).body(Vec::new())?;
        match scene.admin().request_text(request).await {
            Err(kube::Error::Api(status)) if status.reason == "StorageReadError" => {
                ensure!(status.message.contains(name), "{status:?}");
                Ok(())
            }
            other => bail!("{other:?}"),
        }
    });
    named.await.unwrap();
}

/// Deletes an object that cannot be read, as the guide says.
async fn delete(scene: &Scene, resource: &str, name: &str) {
    let folder = match namespace_of(scene, resource) {
        "" => resource.to_owned(),
        namespace => format!("namespaces/{namespace}/{resource}"),
    };
    let path = format!(
        "/apis/evacuation.dev/v1alpha1/{folder}/{name}?ignoreStoreReadErrorWithClusterBreakingPotential=true"
    );
    let reply = scene.admin().send(Request::delete(path).body(Body::empty()).unwrap()).await.unwrap();
    assert_eq!(reply.status().as_u16(), 200, "{reply:?}");
}

/// Starts the controller, the gateway and the API server again, and waits until they work.
pub(crate) async fn restart(scene: &Scene) {
    scene.kill_controller();
    let server = scene.platform().apiserver();
    server.kill().unwrap();
    server.start().unwrap();
    scene.start_controller().await;
    scene.platform().gateway().unwrap().restart(0).await.unwrap();
    scene.platform().start_controllers().await.unwrap();
}

/// Evicts a pod until the gateway knows of the object that cannot be read. It holds every call, and names the
/// object.
async fn is_held(scene: &Scene, pod: &Pod, name: &str) {
    let known = eventually(PATIENCE, "the gateway has listed again", || async {
        let evicted = scene.pods.api().evict(&pod.name_any(), &EvictParams::default()).await;
        let all = causes(&refused_saying(evicted, 429, name));
        ensure!(all.iter().any(|(reason, _)| reason == "EvacuationUnreadable"), "{all:?}");
        anyhow::Ok(())
    });
    known.await.unwrap();
}

/// Ends the API server, and evicts a pod until the gateway takes that for an outage. It holds every call.
async fn is_held_in_an_outage(scene: &Scene, pod: &Pod, name: &str) {
    scene.platform().apiserver().kill().unwrap();
    let known = eventually(PATIENCE, "the gateway knows of the outage", || async {
        let evicted = scene.pods.api().evict(&pod.name_any(), &EvictParams::default()).await;
        let refused = refused_saying(evicted, 429, name);
        ensure!(refused.message.contains("at the latest"), "{refused:?}");
        anyhow::Ok(())
    });
    known.await.unwrap();
}

/// Waits until a drain names the object that holds its pod up.
async fn drain_names(scene: &Scene, drain: &NodeEvacuation, name: &str) {
    let drains: Api<NodeEvacuation> = Api::all(scene.admin());
    let named = eventually(PATIENCE, "the drain names the object", || async {
        let status = drains.get(&drain.name_any()).await?.status.unwrap_or_default();
        let blocker = status.blockers.first();
        if blocker.is_some_and(|blocker| blocker.message.contains(name)) {
            return Ok(());
        }
        bail!("{}", serde_json::to_string(&status)?)
    });
    named.await.unwrap();
}

/// Returns the attempts of our processes to write to an object of the scene since a mark.
fn attempts(scene: &Scene, mark: u64, resource: &str, name: &str) -> Vec<AuditEvent> {
    let mut events = scene.control_plane().audit_events_since(mark).unwrap();
    events.retain(|event| {
        event.resource() == resource
            && event.namespace() == namespace_of(scene, resource)
            && event.name() == name
            && event.user().starts_with(OURS)
            && ["update", "patch", "delete"].contains(&event.verb())
    });
    events
}

/// One Evacuation that cannot be read holds its own pod, and nobody else's.
///
/// # Attack
///
/// - Attacker: a newer release before its downgrade, or a broken disk
/// - Act: leaves an Evacuation in the store whose app asked for time, and which the server cannot decode
/// - Promise: 8, 11
#[tokio::test(flavor = "multi_thread")]
async fn an_unreadable_evacuation_holds_its_own_pod_and_the_drains_of_others_finish() {
    let scene = Scene::from_pool("unreadable", &PLATFORM).await;
    let (beside, later, node) =
        tokio::join!(Bystander::new(&scene), Bystander::new(&scene), scene.own_node());
    let pod = scene.pods.create("app", &quick(PodSpec::watching()).on(&node)).await.unwrap();
    let app = scene.client_of(&pod).await;
    let asked = scene.ask_and_reach(&pod, json!({})).await;
    answer(&app, &asked, json!({"answer": "Delay", "delaySeconds": 600})).await.unwrap();
    let name = asked.name_any();

    let mark = scene.control_plane().audit_mark().unwrap();
    garble(&scene, "evacuations", &name).await;
    is_held(&scene, &pod, &name).await;
    let drain = beside.drainer().prepares(&node).await;
    beside.drainer().resumes(&drain).await;
    drain_names(&scene, &drain, &name).await;
    let subject = format!("nodeevacuation/{}", drain.name_any());
    let shown = scene.platform().kubectl(&["evacuate", "why", &subject]).await.unwrap();
    assert!(
        shown.success() && shown.stderr.contains(&format!("cannot read it: {}/{name}", scene.namespace())),
        "{shown:?}"
    );
    beside.drains(&scene).await;

    is_held_in_an_outage(&scene, &pod, &name).await;
    let restarted = scene.control_plane().audit_mark().unwrap();
    restart(&scene).await;
    is_held(&scene, &pod, &name).await;
    drain_names(&scene, &drain, &name).await;
    later.drains(&scene).await;
    assert!(scene.stays(&pod).await);
    let passed: Vec<_> = scene.evictions("app").into_iter().filter(|event| event.code() == 201).collect();
    assert_eq!(passed.len(), 0, "{passed:?}");
    let taken = attempts(&scene, mark, "evacuations", &name).into_iter().filter(|event| event.code() < 300);
    assert_eq!(taken.count(), 0, "those of a stale cache fail");
    assert_eq!(attempts(&scene, restarted, "evacuations", &name).len(), 0);

    delete(&scene, "evacuations", &name).await;
    let again = scene.evacuation_of("app").await;
    assert_ne!(again.name_any(), name);
    let again = scene.reached(&again, 0).await;
    answer(&app, &again, json!({"answer": "Accept"})).await.unwrap();
    scene.pods.gone(&pod).await.unwrap();
}

/// A registration that cannot be read is not taken for none.
///
/// # Attack
///
/// - Attacker: a newer release before its downgrade, or a broken disk
/// - Act: leaves an EvacuationResponder in the store that the server cannot decode, so that pods look
///   unregistered
/// - Promise: 8, 11
#[tokio::test(flavor = "multi_thread")]
async fn an_unreadable_registration_holds_the_pods_of_its_namespace_and_the_drains_of_others_finish() {
    let scene = Scene::from_pool("registration", &PLATFORM).await;
    let (beside, later, node) =
        tokio::join!(Bystander::new(&scene), Bystander::new(&scene), scene.own_node());
    let pod = scene.pods.create("app", &quick(PodSpec::default()).on(&node)).await.unwrap();
    let registration: EvacuationResponder = scene.register("guard", "db.acme.io/guard", json!({})).await;
    let name = registration.name_any();

    let mark = scene.control_plane().audit_mark().unwrap();
    garble(&scene, "evacuationresponders", &name).await;
    is_held(&scene, &pod, &name).await;
    let drain = beside.drainer().prepares(&node).await;
    beside.drainer().resumes(&drain).await;
    drain_names(&scene, &drain, &name).await;
    beside.drains(&scene).await;

    restart(&scene).await;
    is_held(&scene, &pod, &name).await;
    later.drains(&scene).await;
    assert!(scene.stays(&pod).await);
    assert_eq!(scene.evictions("app").into_iter().filter(|event| event.code() == 201).count(), 0);
    assert_eq!(attempts(&scene, mark, "evacuationresponders", &name).len(), 0);

    delete(&scene, "evacuationresponders", &name).await;
    scene.pods.gone(&pod).await.unwrap();
}

/// A drain that cannot be read asks no pod more, and gives back nothing that it has.
///
/// # Attack
///
/// - Attacker: a newer release before its downgrade, or a broken disk
/// - Act: leaves a NodeEvacuation in the store that the server cannot decode, so that its requests and its
///   cordon look left behind
/// - Promise: 8, 11
#[tokio::test(flavor = "multi_thread")]
async fn an_unreadable_drain_keeps_its_request_and_its_cordon_and_the_drains_of_others_finish() {
    let scene = Scene::from_pool("unreadabledrain", &PLATFORM).await;
    let (beside, later, node) =
        tokio::join!(Bystander::new(&scene), Bystander::new(&scene), scene.own_node());
    let pod = scene.pods.create("app", &quick(PodSpec::watching()).on(&node)).await.unwrap();
    let app = scene.client_of(&pod).await;
    let drain = beside.drainer().prepares(&node).await;
    beside.drainer().resumes(&drain).await;
    let asked = scene.reached(&scene.evacuation_of("app").await, 0).await;
    answer(&app, &asked, json!({"answer": "Delay", "delaySeconds": 600})).await.unwrap();
    let delayed = scene.get(&asked).await;
    let name = drain.name_any();

    garble(&scene, "nodeevacuations", &name).await;
    let mark = scene.control_plane().audit_mark().unwrap();
    beside.drains(&scene).await;
    let left_out = format!("warning: left out, because the server cannot read it: {name}");
    let shown = scene.platform().kubectl(&["evacuate", "status"]).await.unwrap();
    assert!(shown.success() && shown.stderr == format!("{left_out}\n"), "{shown:?}");
    let on_terminal = scene.platform().kubectl_on_terminal("exec", "evacuate status");
    let shown = output_of("script", on_terminal).await.unwrap();
    assert!(shown.success() && shown.stdout.contains(&left_out), "{shown:?}");
    let restarted = scene.control_plane().audit_mark().unwrap();
    restart(&scene).await;
    later.drains(&scene).await;

    let kept = scene.get(&asked).await;
    assert_eq!(kept.spec, delayed.spec);
    assert_eq!(kept.status.unwrap().responders, delayed.status.unwrap().responders);
    let nodes: Api<Node> = Api::all(scene.admin());
    assert_eq!(nodes.get(&node).await.unwrap().spec.unwrap().unschedulable, Some(true));
    assert!(scene.stays(&pod).await);
    assert_eq!(scene.evictions("app").len(), 0);
    let taken = attempts(&scene, mark, "nodeevacuations", &name).into_iter();
    assert_eq!(taken.filter(|event| event.code() < 300).count(), 0, "those of a stale cache fail");
    assert_eq!(attempts(&scene, restarted, "nodeevacuations", &name).len(), 0);

    delete(&scene, "nodeevacuations", &name).await;
    let left = |it: &Evacuation| it.spec.requesters.is_empty();
    scene.until(&asked, "the request of a drain that is gone is taken back", left).await;
    assert!(scene.stays(&pod).await);
}

/// A rule that cannot be read opens no drain, and holds up neither those that it opened nor other rules.
///
/// # Attack
///
/// - Attacker: a newer release before its downgrade, or a broken disk
/// - Act: leaves a NodeEvacuationRule in the store that the server cannot decode
/// - Promise: 8, 11
#[tokio::test(flavor = "multi_thread")]
async fn an_unreadable_rule_opens_no_drain_and_its_drains_and_other_rules_go_on() {
    let scene = Scene::from_pool("unreadablerule", &PLATFORM).await;
    let (beside, later) = tokio::join!(Bystander::new(&scene), Bystander::new(&scene));
    let [broken, whole] = ["broken", "whole"].map(|name| format!("{name}-{}", scene.namespace()));
    let nodes: Api<Node> = Api::all(scene.admin());
    let rules: Api<NodeEvacuationRule> = Api::all(scene.admin());
    for rule in [&broken, &whole] {
        let spec = json!({
            "marks": [{"label": {"key": rule}}],
            "maxNodes": "100%",
            "template": {"pods": {"unmanaged": "Evict"}},
        });
        let rule = serde_json::from_value(json!({"metadata": {"name": rule}, "spec": spec})).unwrap();
        rules.create(&PostParams::default(), &rule).await.unwrap();
    }
    let [first, second] = ["first", "second"].map(|name| format!("{name}-{}", scene.namespace()));
    scene.control_plane().add_node(&first, &[]).await.unwrap();
    let pod = scene.pods.create("app", &quick(PodSpec::watching()).on(&first)).await.unwrap();
    let app = scene.client_of(&pod).await;
    let marked = Patch::Merge(json!({"metadata": {"labels": {&broken: ""}}}));
    nodes.patch(&first, &PatchParams::default(), &marked).await.unwrap();
    let asked = scene.reached(&scene.evacuation_of("app").await, 0).await;
    answer(&app, &asked, json!({"answer": "Delay", "delaySeconds": 600})).await.unwrap();

    garble(&scene, "nodeevacuationrules", &broken).await;
    let mark = scene.control_plane().audit_mark().unwrap();
    beside.drains(&scene).await;
    scene.control_plane().add_node(&second, &[]).await.unwrap();
    let marked = Patch::Merge(json!({"metadata": {"labels": {&broken: "", &whole: ""}}}));
    nodes.patch(&second, &PatchParams::default(), &marked).await.unwrap();
    let drains: Api<NodeEvacuation> = Api::all(scene.admin());
    let opened = |rule: &str, node: &str| {
        let name = format!("{rule}.{node}");
        let drains = drains.clone();
        async move { drains.get_opt(&name).await.unwrap() }
    };
    let other = eventually(PATIENCE, "the other rule opens its drain", || async {
        opened(&whole, &second).await.ok_or("not yet")
    });
    other.await.unwrap();
    restart(&scene).await;
    later.drains(&scene).await;
    assert!(opened(&broken, &second).await.is_none());

    answer(&app, &asked, json!({"answer": "Accept"})).await.unwrap();
    scene.pods.gone(&pod).await.unwrap();
    let drained = eventually(PATIENCE, "the drain of the rule ends", || async {
        let status = opened(&broken, &first).await.unwrap().status.unwrap_or_default();
        if status.verdict == Some(DrainVerdict::Drained) { Ok(()) } else { Err(format!("{status:?}")) }
    });
    drained.await.unwrap();
    let taken = attempts(&scene, mark, "nodeevacuationrules", &broken).into_iter();
    assert_eq!(taken.filter(|event| event.code() < 300).count(), 0, "those of a stale cache fail");
    delete(&scene, "nodeevacuationrules", &broken).await;
}
