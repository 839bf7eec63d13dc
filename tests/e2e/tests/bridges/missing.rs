//! Bridges to projects that are not installed.

use evacuation_e2e::{PodSpec, Scene};

use crate::stage::options;

#[tokio::test(flavor = "multi_thread")]
async fn a_bridge_whose_kind_is_not_installed_holds_up_nobody() {
    let scene = Scene::alone("missing", options()).await;
    let pod = scene.pod("app", PodSpec::default()).await;
    let evacuation = scene.evacuate(&pod).await;
    scene.ends(&evacuation, "Evacuated Evicted").await;
    scene.platform().start_controllers().await.unwrap();
    let log = scene.platform().controllers()[0].log().unwrap();
    for kind in ["virtualmachineinstances", "nodemaintenances", "drainrequests"] {
        let told = log.lines().filter(|line| line.contains(&format!("the watch of {kind} broke"))).count();
        assert_eq!(told, 1, "{log}");
    }
}
