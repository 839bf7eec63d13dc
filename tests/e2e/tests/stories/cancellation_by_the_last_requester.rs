//! The second cancellation: of several requesters only the last to leave cancels, and what is left follows
//! those who stay.

use evacuation_e2e::{
    PodSpec, Scene,
    scene::{end_of, responder_named},
};
use std::time::Duration;

use evacuation_api::{DeadlineAction, RefusalPolicy, ResponderState};
use evacuation_client::{Answer, Question};

#[tokio::test(flavor = "multi_thread")]
async fn the_evacuation_goes_on_until_the_last_requester_leaves() {
    let scene = Scene::new("last").await;
    let pod = scene.pod("db-0", PodSpec::watching()).await;
    let _app = scene
        .app(&pod, |question: Question| async move {
            let _ = question.hold(Duration::from_mins(1), std::future::pending::<()>()).await;
            Answer::accept()
        })
        .await;
    let upgrade = scene
        .requester("upgrade.acme.io/node-a")
        .on_refusal(RefusalPolicy::Override)
        .deadline(Duration::from_hours(1), DeadlineAction::Delete);
    let rebalance = scene.requester("descheduler.acme.io/skew").on_refusal(RefusalPolicy::GiveUp);
    let first = upgrade.evacuate_pod(&pod).await.unwrap();
    let second = rebalance.evacuate_pod(&pod).await.unwrap();
    assert!(second.joined() && second.uid() == first.uid(), "there is one Evacuation");
    let name = first.name();
    let both =
        scene.until(name, "the app asks for time", |e| evacuation_protocol::state_word(e) == "Delayed").await;
    let policy = both.status.unwrap().policy.unwrap();
    assert_eq!((policy.on_refusal, policy.deadlines.len()), (RefusalPolicy::Override, 1));

    first.withdraw().await.unwrap();
    let left = scene.until(name, "one is left", |e| e.spec.requesters.len() == 1).await;
    assert_eq!(end_of(&left), None, "somebody still wants the pod moved");
    assert_eq!(responder_named(&left, "self").state, ResponderState::Active);
    let policy = left.status.unwrap().policy.unwrap();
    assert_eq!(
        (policy.on_refusal, policy.deadlines.len()),
        (RefusalPolicy::GiveUp, 0),
        "what is left follows who stays"
    );

    second.withdraw().await.unwrap();
    scene.ends(name, "Failed Canceled").await;
    scene.until(name, "the app knows", |e| responder_named(e, "self").cancellation_acknowledged).await;
    assert!(scene.stays(&pod).await);
    assert_eq!(scene.all_evictions().len(), 0);
}
