//! The tenant that attacks.

use evacuation_e2e::{
    PlatformOptions, PodSpec, Pool, Scene,
    scene::{User, answer},
};
use serde_json::json;

/// The platform under attack, one test at a time.
static PLATFORM: Pool = Pool::new(1, options);

/// An administrator has raised the limits on registrations to those on all kinds: attacks get as far as they
/// can.
fn options() -> PlatformOptions {
    let limits = ["--max-responders-per-namespace=5000", "--max-responder-bytes-per-namespace=16777216"];
    PlatformOptions { apiserver_args: limits.map(str::to_owned).to_vec(), ..PlatformOptions::default() }
}

/// A scene whose namespace belongs to the tenant.
pub(crate) async fn scene(prefix: &str) -> Scene {
    Scene::from_pool(prefix, &PLATFORM).await
}

/// A user with the role `edit` in the scene's namespace and no right elsewhere.
pub(crate) async fn tenant(scene: &Scene) -> User {
    let user = scene.user("tenant", &["edit"]).await;
    for resource in ["evacuations", "evacuationresponders"] {
        let right = json!({"group": "evacuation.dev", "resource": resource, "verb": "create"});
        scene.decided(&user.name, &right, true).await;
    }
    user
}

/// Creates the pod `delayed`, which is asked to move and whose app was granted an hour: it must be left alone
/// for that long.
pub(crate) async fn delayed(scene: &Scene) {
    let pod = scene.pod("delayed", PodSpec::watching()).await;
    let asked = scene.ask_and_reach(&pod, json!({})).await;
    let said = json!({"answer": "Delay", "delaySeconds": 3600});
    answer(&scene.client_of(&pod).await, &asked, said).await.unwrap();
}
