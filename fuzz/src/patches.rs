//! JSON patches and merge patches.

use machinery_merge::{json_patch, merge_patch, parse_json};
use serde_json::Value;

use crate::halves;

/// The document, a line break, and the patch.
fn document(input: &[u8]) -> Option<(Value, &[u8])> {
    let (document, patch) = halves(input);
    Some((parse_json(document).ok()?.value, patch))
}

/// Applies a JSON patch. The result can be stored and read, and a patch of tests alone changes nothing.
pub(crate) fn json(input: &[u8]) {
    let Some((document, patch)) = document(input) else { return };
    let Ok(patched) = json_patch(&document, patch) else { return };
    check_readable(&patched.value);
    let operations: Value = serde_json::from_slice(patch).unwrap_or_default();
    let mut operations = operations.as_array().into_iter().flatten();
    if operations.all(|operation| operation["op"] == "test") {
        assert_eq!(patched.value, document);
    }
}

/// Applies a merge patch. The result can be stored and read, and the same patch changes nothing more.
pub(crate) fn merge(input: &[u8]) {
    let Some((document, patch)) = document(input) else { return };
    let Ok(patched) = merge_patch(&document, patch) else { return };
    check_readable(&patched.value);
    let again = merge_patch(&patched.value, patch).map(|again| again.value);
    assert_eq!(again.ok(), Some(patched.value));
}

fn check_readable(document: &Value) {
    let text = document.to_string();
    let read = parse_json(text.as_bytes()).unwrap_or_else(|error| panic!("{error}: {text}"));
    assert_eq!(&read.value, document);
}
