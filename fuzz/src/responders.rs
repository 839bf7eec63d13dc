//! The pod annotation that registers responders.

use std::{collections::BTreeSet, str::from_utf8};

use evacuation_api::RESPONDERS_ANNOTATION;
use evacuation_protocol::registered_responders;
use k8s_openapi::api::core::v1::Pod;

/// Reads the annotation. A pod that has one is asked through at least one responder unless the list is empty,
/// and each name counts once.
pub(crate) fn annotation(input: &[u8]) {
    let Ok(text) = from_utf8(input) else { return };
    let mut pod = Pod::default();
    pod.metadata.annotations = Some([(RESPONDERS_ANNOTATION.to_owned(), text.to_owned())].into());
    let registered = registered_responders(&pod, []);
    let names: BTreeSet<&str> = registered.entries.iter().map(|entry| entry.name.as_str()).collect();
    assert_eq!(names.len(), registered.entries.len(), "{text}");
    if registered.unreadable.is_some() {
        assert_eq!(names, BTreeSet::from(["self"]), "{text}");
    }
}
