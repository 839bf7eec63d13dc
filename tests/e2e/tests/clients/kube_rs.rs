//! kube-rs: `Patch::Apply` of typed objects.

use evacuation_api::{EvacuationResponder, NodeEvacuation, NodeEvacuationRule};
use evacuation_e2e::scene::{causes, fields, refused};
use kube::{
    Api, ResourceExt,
    api::{Patch, PatchParams},
};

use crate::workbench::{Workbench, managers};

#[tokio::test(flavor = "multi_thread")]
async fn kube_rs_applies_typed_objects_and_reports_a_conflict() {
    let bench = Workbench::new("kubers").await;
    let (responders, rules): (Api<EvacuationResponder>, Api<NodeEvacuationRule>) =
        (bench.api(), Api::all(bench.admin()));
    let responder: EvacuationResponder = serde_json::from_value(bench.responder().object).unwrap();
    let rule: NodeEvacuationRule = serde_json::from_value(bench.rule().object).unwrap();
    let acme = PatchParams::apply("acme");

    let created = responders.patch("db", &acme, &Patch::Apply(&responder)).await.unwrap();
    let again = responders.patch("db", &acme, &Patch::Apply(&responder)).await.unwrap();
    assert_eq!(created, again);
    assert_eq!(managers(&bench.read(&bench.responder()).await), ["acme Apply"]);
    let created = rules.patch(&rule.name_any(), &acme, &Patch::Apply(&rule)).await.unwrap();
    assert_eq!(created.spec.marks, rule.spec.marks);
    let drains: Api<NodeEvacuation> = Api::all(bench.admin());
    let drain: NodeEvacuation = serde_json::from_value(bench.drain().object).unwrap();
    let created = drains.patch(&drain.name_any(), &acme, &Patch::Apply(&drain)).await.unwrap();
    assert_eq!(created.spec.nodes, drain.spec.nodes);
    for configuration in [bench.rule(), bench.drain()] {
        assert_eq!(managers(&bench.settled(&configuration).await), ["acme Apply"]);
    }

    let mut other = responder.clone();
    other.spec.priority = Some(30000);
    let params = PatchParams::apply("other");
    let status = refused(responders.patch("db", &params, &Patch::Apply(&other)).await);
    assert_eq!((status.code, status.reason.as_str()), (409, "Conflict"), "{status:?}");
    let cause = ("FieldManagerConflict".to_owned(), "conflict with \"acme\"".to_owned());
    assert_eq!(causes(&status), [cause]);
    assert_eq!(fields(&status), [".spec.priority"]);
    let taken = responders.patch("db", &params.force(), &Patch::Apply(&other)).await.unwrap();
    assert_eq!(taken.spec.priority, Some(30000));
    assert_eq!(bench.read(&bench.responder()).await["spec"]["priority"], 30000);
    bench.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn kube_rs_applies_an_evacuation_whose_owner_the_server_fills_in() {
    let bench = Workbench::new("kuberseva").await;
    let configuration = bench.evacuation();
    let wanted: evacuation_api::Evacuation = serde_json::from_value(configuration.object.clone()).unwrap();
    let acme = PatchParams::apply("acme");
    let apply = async || bench.evacuations().patch(configuration.name(), &acme, &Patch::Apply(&wanted)).await;
    let created = apply().await.unwrap();
    assert_eq!(created.spec.requesters[0].owner, "admin");
    let before = bench.settled(&configuration).await;
    apply().await.unwrap();
    assert_eq!(bench.read(&configuration).await, before);
    bench.close().await;
}
