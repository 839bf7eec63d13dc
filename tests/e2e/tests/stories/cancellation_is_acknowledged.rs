//! The first cancellation: the requester withdraws while responders are at work; each learns of it, undoes
//! what it began, and says that it knows.

use evacuation_e2e::{PodSpec, Scene, scene::responder_named};
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use evacuation_api::ResponderState;
use evacuation_client::{Answer, Handler, Question};

use crate::registration::register;

const FAILOVER: &str = "db.acme.io/failover";

/// An app that takes no work while it is to move; its own takes longer than any test.
struct App(Arc<Mutex<bool>>);

#[async_trait]
impl Handler for App {
    async fn asked(&self, question: Question) -> Answer {
        *self.0.lock().unwrap() = false;
        let _ = question.hold(Duration::from_mins(1), std::future::pending::<()>()).await;
        Answer::accept()
    }

    async fn canceled(&self, _: Question) {
        *self.0.lock().unwrap() = true;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn responders_that_are_done_and_at_work_learn_of_a_withdrawal_and_acknowledge_it() {
    let scene = Scene::new("acknowledged").await;
    register(&scene, FAILOVER, "db", 20_000).await;
    register(&scene, "never.acme.io/asked", "db", 1).await;
    let pod = scene.pod("db-0", PodSpec::watching().label("app", "db")).await;
    let takes_work = Arc::new(Mutex::new(true));
    let app = App(Arc::clone(&takes_work));
    let _responders = (scene.responder(FAILOVER, |_| async { Answer::accept() }), scene.app(&pod, app).await);
    let evacuation = scene.requester("repair.acme.io/rack-7").evacuate_pod(&pod).await.unwrap();
    let name = evacuation.name();
    let working = scene
        .until(name, "the second one works", |e| {
            e.status.as_ref().is_some_and(|s| s.responders.is_some())
                && responder_named(e, "self").delay_until.is_some()
        })
        .await;
    assert_eq!(responder_named(&working, FAILOVER).state, ResponderState::Completed);
    assert!(!*takes_work.lock().unwrap());

    evacuation.withdraw().await.unwrap();
    let known = scene
        .until(name, "both have said that they know", |e| {
            [FAILOVER, "self"].iter().all(|name| responder_named(e, name).cancellation_acknowledged)
        })
        .await;
    scene.ends(name, "Failed Canceled").await;
    for asked in [FAILOVER, "self"] {
        assert_eq!(responder_named(&known, asked).state, ResponderState::Canceled);
    }
    assert!(*takes_work.lock().unwrap(), "what was begun is undone before it is acknowledged");
    let never = responder_named(&known, "never.acme.io/asked");
    assert!(
        never.active_time.is_none() && !never.cancellation_acknowledged,
        "who was not asked has nothing to undo"
    );
    assert!(scene.stays(&pod).await);
    assert_eq!(scene.all_evictions().len(), 0);
}
