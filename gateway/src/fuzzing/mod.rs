//! Entrances for the fuzzer and the model checker: private parsers of reviews and of the configuration, and a
//! world around the judge. No part of the API.

#![allow(
    clippy::missing_panics_doc,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a property that does not hold is a panic"
)]

mod law;
mod oracle;
mod played;
mod probes;
mod sequence;
mod watch;
mod world;

use std::path::Path;

use k8s_openapi::api::core::v1::Pod;
use kube::core::{DynamicObject, admission::AdmissionReview};

pub use self::{
    law::GatewayLaw,
    sequence::judge_sequence,
    world::{CALLER_COUNT, GatewayFlaw, GatewaySettings, GatewayStep, GatewayWorld},
};
use crate::{
    answer::Answer,
    config::{self, Table},
    judge::Reply,
    warnings::warnings,
    webhook::{Reviewed, review},
};

/// Reads an AdmissionReview as each webhook does, finds the row of its caller, and writes the replies.
///
/// A reply answers the request with its UID, and a caller that waits is not allowed.
pub fn admission_review(body: &[u8]) {
    let table = Table::new(Vec::new());
    if let Ok(request) = review::read::<DynamicObject>(body)
        && let Ok(Some(object)) = review::written(&request)
    {
        let found = warnings(&object, |_| false);
        assert!(found.iter().all(|warning| warning.len() <= 250), "{found:?}");
        check_reply(&review::warned(&request, found), &request.uid, true);
    }
    let Ok(request) = review::read::<Reviewed>(body) else { return };
    if let Ok(call) = review::eviction(&request) {
        let row = table.row(&call, &Pod::default());
        assert!(!row.name.is_empty());
        let waits = review::reply(&request, &call, Answer::Wait(Reply::busy(&call, 1)));
        check_reply(&waits, &request.uid, false);
    }
    if let Ok((call, _)) = review::deletion(&request) {
        let row = table.row(&call, &Pod::default());
        assert!(!row.name.is_empty());
        check_reply(
            &review::reply(&request, &call, Answer::Wait(Reply::busy(&call, 1))),
            &request.uid,
            false,
        );
    }
}

fn check_reply(reply: &AdmissionReview<DynamicObject>, uid: &str, allowed: bool) {
    let written = serde_json::to_value(reply).unwrap_or_else(|error| panic!("not written: {error}"));
    let response = written.get("response").unwrap_or_else(|| panic!("{written} has no response"));
    assert_eq!(response.get("uid").and_then(|uid| uid.as_str()), Some(uid));
    assert_eq!(response.get("allowed").and_then(serde_json::Value::as_bool), Some(allowed));
}

/// Reads the configuration. What was read says the same when it is written and read again.
pub fn configuration(text: &[u8]) {
    let path = Path::new("gateway.yaml");
    let Ok(read) = config::read(path, text) else { return };
    let written = serde_json::to_vec(&read).unwrap_or_else(|error| panic!("not written: {error}"));
    let again = config::read(path, &written).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(again, read);
}
