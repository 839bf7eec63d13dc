//! Story 1: whoever drains a node sees who accepted, who asks for time and until when, who is evicted without
//! an answer, and who refuses.

use evacuation_e2e::{
    PodSpec, Scene,
    scene::{PATIENCE, end_of, responder_named},
};
use std::time::Duration;

use controlplane::eventually;
use evacuation_api::{Answer as Said, ResponderState};
use evacuation_client::Answer;
use kube::api::ListParams;
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn a_drain_tells_who_accepted_who_delays_until_when_who_was_silent_and_who_refused() {
    let scene = Scene::new("progress").await;
    let node = format!("node-of-{}", scene.namespace());
    let control_plane = scene.control_plane();
    control_plane.add_node(&node, &[]).await.unwrap();
    let silent = PodSpec::registered(&json!([{"name": "self", "timeoutSeconds": 10}]));
    let (accepts, delays, _silent, refuses) = tokio::join!(
        scene.pod("accepts", PodSpec::watching().on(&node)),
        scene.pod("delays", PodSpec::watching().on(&node)),
        scene.pod("silent", silent.on(&node)),
        scene.pod("refuses", PodSpec::watching().on(&node)),
    );
    let wait = |_| async { Answer::delay(Duration::from_secs(15)).message("the cache is saved") };
    let _apps = tokio::join!(
        scene.app(&accepts, |_| async { Answer::accept() }),
        scene.app(&delays, wait),
        scene.app(&refuses, |_| async { Answer::refuse("a backup runs") }),
    );
    let command = ["evacuate", "node", &node, "--force", "--on-refusal=give-up"];
    let draining = scene.platform().kubectl(&command);
    let looking = async {
        let listed = eventually(PATIENCE, "the delay is in the table", || async {
            let output = scene
                .platform()
                .kubectl(&["get", "evacuations", "-o", "wide", "-n", scene.namespace()])
                .await?;
            let mut lines = output.stdout.lines();
            let found = lines.find(|line| line.contains("delays") && line.contains("Delayed"));
            found.map(str::to_owned).ok_or_else(|| anyhow::anyhow!(output.stdout.clone()))
        });
        listed.await.unwrap()
    };
    let (drained, listed) = tokio::join!(draining, looking);

    let drained = drained.unwrap();
    assert_eq!(drained.code, Some(2), "somebody refused: {drained:?}");
    let all = scene.pods.evacuations().list(&ListParams::default()).await.unwrap();
    let of = |pod: &str| all.items.iter().find(|e| e.spec.target.pod.name == pod).unwrap();
    let state = |pod: &str| (responder_named(of(pod), "self").state, responder_named(of(pod), "self").answer);
    assert_eq!(state("accepts"), (ResponderState::Completed, Some(Said::Accept)));
    assert_eq!(state("delays"), (ResponderState::Interrupted, Some(Said::Delay)));
    assert_eq!(state("silent"), (ResponderState::Interrupted, None));
    assert_eq!(responder_named(of("silent"), "self").message.as_deref(), Some("it was silent for 10 s"));
    assert_eq!(state("refuses").1, Some(Said::Refuse));
    for pod in ["accepts", "delays", "silent"] {
        assert_eq!(end_of(of(pod)).as_deref(), Some("Evacuated Evicted"));
    }
    assert_eq!(end_of(of("refuses")).as_deref(), Some("Failed Refused"));

    // The same in the words of the command and of the table.
    let until = responder_named(of("delays"), "self").delay_until.unwrap().0;
    let stamp = until.format("%Y-%m-%dT%H:%M:%SZ").to_string();
    assert!(listed.contains(&stamp), "{stamp} is not in {listed}");
    let said = |pod: &str, words: &str| {
        let pod = format!("{}/{pod}: ", scene.namespace());
        let found = drained.stdout.lines().any(|line| line.starts_with(&pod) && line.contains(words));
        assert!(found, "{words:?} of {pod} is not in\n{}", drained.stdout);
    };
    said("accepts", "Evacuated");
    let clock = until.format("%H:%M:%SZ");
    said("delays", &format!("(Delay: the cache is saved), until {clock} (in "));
    said("silent", "Asking, until ");
    said("silent", "Evacuated (responder self was silent for 10 s)");
    said("refuses", "Refused: responder self refused: a backup runs");
    let summary = drained.stdout.lines().last();
    assert_eq!(summary, Some("3 gone, 1 after 10 s of silence, 1 refused"), "{drained:?}");
    assert!(scene.stays(&refuses).await);
}
