//! Entrances for a fuzzer: private parsers of what apps reply. No part of the API.

#![allow(clippy::missing_panics_doc, clippy::panic, reason = "a property that does not hold is a panic")]

use evacuation_api::{
    EvacuationResponse, EvacuationResponseSpec, EvacuationReview, ReviewResponse, validate_response,
};

use crate::negotiation::read_reply;

/// Reads the reply of an app's endpoint. An answer in it is one that the server accepts, and reads the same
/// when it is written and read again.
pub fn push_reply(body: &[u8]) {
    let Ok(Some(response)) = read_reply(body, None) else { return };
    let ReviewResponse { answer, delay_seconds, retry_after_seconds, reason, message, .. } = response.clone();
    let spec = EvacuationResponseSpec {
        answer: Some(answer),
        delay_seconds,
        retry_after_seconds,
        reason,
        message,
        ..EvacuationResponseSpec::default()
    };
    let errors = validate_response(&EvacuationResponse::new(spec));
    assert!(errors.is_empty(), "{response:?}: {errors:?}");
    let written = EvacuationReview {
        api_version: "evacuation.dev/v1alpha1".to_owned(),
        kind: EvacuationReview::KIND.to_owned(),
        request: None,
        response: Some(response.clone()),
    };
    let written = serde_json::to_vec(&written).unwrap_or_else(|error| panic!("not written: {error}"));
    assert_eq!(read_reply(&written, None), Ok(Some(response)));
}
