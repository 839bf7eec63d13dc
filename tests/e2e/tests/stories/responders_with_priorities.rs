//! Story 3: logic of one's own, in an order: the primary is moved first, then connections are drained, then
//! the pod goes.

use evacuation_e2e::{PodSpec, Scene, scene::responder_named};
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use evacuation_api::ResponderState;
use evacuation_client::{Answer, Question};
use tokio::sync::Notify;

use crate::registration::register;

const FAILOVER: &str = "db.acme.io/failover";
const DRAIN: &str = "mesh.acme.io/drain";

#[tokio::test(flavor = "multi_thread")]
async fn each_responder_does_its_part_in_the_order_of_priority_and_then_the_pod_goes() {
    let scene = Scene::new("priorities").await;
    register(&scene, FAILOVER, "db", 20_000).await;
    register(&scene, DRAIN, "db", 5_000).await;
    let pod = scene.pod("db-0", PodSpec::watching().label("app", "db")).await;
    let (failed_over, done) = (Arc::new(Notify::new()), Arc::new(Mutex::new(Vec::new())));
    let part = |name: &'static str| {
        let done = Arc::clone(&done);
        move |_: Question| {
            done.lock().unwrap().push(name);
            async { Answer::accept() }
        }
    };
    let work = (Arc::clone(&failed_over), Arc::clone(&done));
    let failover = move |question: Question| {
        let (failed_over, done) = work.clone();
        async move {
            let worked = question.hold(Duration::from_secs(20), failed_over.notified()).await;
            worked.unwrap();
            done.lock().unwrap().push("failover");
            Answer::accept()
        }
    };
    let _responders = (
        scene.responder(FAILOVER, failover),
        scene.responder(DRAIN, part("drain")),
        scene.app(&pod, part("app")).await,
    );
    let evacuation = scene.requester("repair.acme.io/rack-7").evacuate_pod(&pod).await.unwrap();
    let name = evacuation.name();
    let waiting = scene
        .until(name, "the first one works", |e| {
            e.status.as_ref().is_some_and(|s| s.responders.is_some())
                && responder_named(e, FAILOVER).delay_until.is_some()
        })
        .await;
    for other in ["self", DRAIN] {
        assert_eq!(responder_named(&waiting, other).state, ResponderState::Inactive);
    }
    assert!(scene.stays(&pod).await);
    failed_over.notify_one();
    let ended = scene.ends(name, "Evacuated Evicted").await;
    assert_eq!(*done.lock().unwrap(), ["failover", "app", "drain"]);
    for all in [FAILOVER, "self", DRAIN] {
        assert_eq!(responder_named(&ended, all).state, ResponderState::Completed);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_responder_that_says_nothing_does_not_keep_the_next_from_its_part() {
    let scene = Scene::new("priorities-silent").await;
    register(&scene, DRAIN, "db", 5_000).await;
    let silent = r#"[{"name": "db.acme.io/failover", "priority": 20000, "timeoutSeconds": 1}]"#;
    let spec = PodSpec { responders: Some(silent.to_owned()), ..PodSpec::default() };
    let pod = scene.pod("db-0", spec.label("app", "db")).await;
    let _drain = scene.responder(DRAIN, |_| async { Answer::accept() });
    let evacuation = scene.requester("repair.acme.io/rack-7").evacuate_pod(&pod).await.unwrap();
    let ended = scene.ends(evacuation.name(), "Evacuated Evicted").await;
    assert_eq!(responder_named(&ended, FAILOVER).state, ResponderState::Interrupted);
    assert_eq!(responder_named(&ended, DRAIN).state, ResponderState::Completed);
}
