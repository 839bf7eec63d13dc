//! A controller dies between recording an attempt to evict and recording its outcome.

use controlplane::eventually;
use evacuation_client::End;
use evacuation_e2e::{PodSpec, scene::PATIENCE};
use kube::ResourceExt;

use crate::webhook::{Verdict, Webhook};

use crate::worker;

#[tokio::test(flavor = "multi_thread")]
async fn an_attempt_that_did_not_happen_is_found_out_by_the_next_leader_and_made_again() {
    let scene = worker::scene("lost").await;
    let pod = scene.pods.create("web-0", &PodSpec::default()).await.unwrap();
    let webhook = Webhook::start(&scene).await;
    webhook.set(Verdict::Hold);
    let evacuation = scene.evacuate("web-0").await;
    webhook.holds().await;
    // The eviction waits in the webhook, so its outcome is not recorded; and with the controller it dies.
    scene.kill_controller();
    webhook.set(Verdict::Deny);
    let found = scene.pods.evacuations().get(evacuation.name()).await.unwrap();
    let eviction = found.status.unwrap().eviction.unwrap();
    assert!(eviction.in_flight && eviction.attempts == 1, "{eviction:?}");
    let error = evacuation.withdraw().await.unwrap_err();
    assert!(error.is_too_late(), "the fence holds without a controller: {error:?}");
    assert!(scene.stays(&pod).await);

    webhook.set(Verdict::Allow);
    scene.kill_controller();
    scene.start_controller().await;
    let end = scene.pods.ended(evacuation.name()).await.unwrap();
    assert!(matches!(&end, End::Evacuated { reason, .. } if reason == "Evicted"), "{end}");
    let found = scene.pods.evacuations().get(evacuation.name()).await.unwrap();
    let eviction = found.status.unwrap().eviction.unwrap();
    assert_eq!((eviction.in_flight, eviction.attempts), (false, 2), "{eviction:?}");
    assert_eq!(scene.evicted().len(), 1);
    webhook.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_attempt_that_happened_is_found_out_by_the_next_leader_and_not_made_again() {
    let scene = worker::scene("made").await;
    let spec = PodSpec::default().annotation("controlplane.test/gone-after", "20s");
    let pod = scene.pods.create("web-0", &spec).await.unwrap();
    let webhook = Webhook::start(&scene).await;
    webhook.set(Verdict::Hold);
    let evacuation = scene.evacuate("web-0").await;
    webhook.holds().await;
    // The controller sleeps while its eviction succeeds, and is killed in its sleep.
    scene.platform().controllers()[0].pause().unwrap();
    webhook.set(Verdict::Allow);
    let taken = eventually(PATIENCE, "the pod is told to go", || async {
        if scene.stays(&pod).await { Err("it stays") } else { Ok(()) }
    });
    taken.await.unwrap();
    let found = scene.pods.evacuations().get(evacuation.name()).await.unwrap();
    assert!(found.status.unwrap().eviction.unwrap().in_flight);
    scene.kill_controller();
    scene.start_controller().await;

    let found = scene
        .pods
        .until(evacuation.name(), "the outcome is recorded", |e| {
            let eviction = e.status.as_ref().and_then(|status| status.eviction.as_ref());
            eviction.is_some_and(|eviction| !eviction.in_flight)
        })
        .await
        .unwrap();
    let eviction = found.status.unwrap().eviction.unwrap();
    assert!(eviction.accepted && eviction.attempts == 1, "{eviction:?}");
    assert!(
        scene.pods.api().get_opt(&pod.name_any()).await.unwrap().is_some(),
        "found out while the pod was still terminating"
    );
    let end = scene.pods.ended(evacuation.name()).await.unwrap();
    assert!(matches!(&end, End::Evacuated { reason, .. } if reason == "Evicted"), "{end}");
    assert_eq!(scene.evicted().len(), 1);
    webhook.stop().await;
}
