//! AdmissionReviews: questions to the gateway, and replies of webhooks.

use machinery_admission::fuzzing;
use machinery_merge::parse_json;
use serde_json::json;

use crate::halves;

pub(crate) fn admission_review(input: &[u8]) {
    evacuation_gateway::fuzzing::admission_review(input);
}

/// A sequence of calls and of changes around them. Each pair of bytes is a step.
pub(crate) fn gateway_sequence(input: &[u8]) {
    evacuation_gateway::fuzzing::judge_sequence(input);
}

/// The answer to a question and the patch, which is put into it in base64. A first line that is no JSON
/// object is a whole reply.
pub(crate) fn webhook_reply(input: &[u8]) {
    let object = json!({"apiVersion": "kitchen.dev/v1", "kind": "Pot", "metadata": {"name": "a"},
                        "spec": {"servings": 2, "steps": [{"name": "boil"}]}});
    fuzzing::webhook_reply(input, &object);
    let (answer, patch) = halves(input);
    let Ok(mut answer) = parse_json(answer) else { return };
    if let Some(answer) = answer.value.as_object_mut() {
        answer.insert("uid".to_owned(), json!(fuzzing::REVIEW_UID));
        answer.insert("patchType".to_owned(), json!("JSONPatch"));
        answer.insert("patch".to_owned(), json!(k8s_openapi::ByteString(patch.to_vec())));
        let review =
            json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": answer});
        fuzzing::webhook_reply(review.to_string().as_bytes(), &object);
    }
}
