//! The question that the apps of this suite are asked.

use evacuation_api::{Evacuation, ResponderStatus};
use evacuation_e2e::{Scene, scene::first};
use k8s_openapi::api::core::v1::Pod;
use serde_json::json;

/// The message of the requester's entry, with characters that a careless reader of JSON stumbles over.
pub(crate) const MESSAGE: &str = "Kernel \"6.1\" \\ größer\t{[,]}\u{1F680}";

/// Asks a pod to move.
pub(crate) async fn ask(scene: &Scene, pod: &Pod, on_refusal: &str) -> Evacuation {
    scene.ask(pod, json!({"message": MESSAGE, "onRefusal": on_refusal})).await
}

/// Waits for the end, which must be this; returns what the app had answered.
pub(crate) async fn ends(scene: &Scene, evacuation: &Evacuation, how: &str) -> ResponderStatus {
    first(&scene.ends(evacuation, how).await).clone()
}
