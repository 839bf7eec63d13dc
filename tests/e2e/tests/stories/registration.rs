//! Registration of a story's responders.

use evacuation_e2e::Scene;
use serde_json::json;

/// Registers a responder for the pods labelled `app: APP`.
pub(crate) async fn register(scene: &Scene, responder: &str, app: &str, priority: i32) {
    let more = json!({"selector": {"matchLabels": {"app": app}}, "priority": priority});
    scene.register(&responder.replace('/', "."), responder, more).await;
}
