//! JSON patches, merge patches and strategic merge patches.

use std::{collections::BTreeMap, sync::LazyLock};

use machinery_merge::{StrategicPatch, json_patch, merge_patch, parse_json};
use machinery_schema::Schema;
use serde_json::{Value, json};

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

/// Shape of documents whose field `items` is merged by `name` and whose field `tags` by value.
static SCHEMA: LazyLock<Schema> = LazyLock::new(|| {
    let item =
        json!({"type": "object", "properties": {"name": {"type": "string"}, "owner": {"type": "string"}}});
    let list =
        |items: Value| json!({"type": "array", "items": items, "x-kubernetes-patch-strategy": "merge"});
    let mut items = list(item);
    items["x-kubernetes-patch-merge-key"] = json!("name");
    items["x-kubernetes-list-type"] = json!("map");
    items["x-kubernetes-list-map-keys"] = json!(["owner", "name"]);
    let properties = json!({
        "items": items, "tags": list(json!({"type": "string"})),
        "inner": {"allOf": [{"$ref": "#/components/schemas/Root"}]},
    });
    let root = json!({"type": "object", "properties": properties});
    Schema::new(&BTreeMap::from([("Root".to_owned(), root)]), "Root")
        .unwrap_or_else(|error| panic!("{error}"))
});

/// Applies a strategic merge patch. The result can be stored and read, and the same patch changes nothing
/// more.
pub(crate) fn strategic(input: &[u8]) {
    let Some((document, patch)) = document(input) else { return };
    let Ok(patch) = StrategicPatch::parse(patch) else { return };
    let Ok(patched) = patch.apply(&document, &SCHEMA) else { return };
    check_readable(&patched.value);
    let again = patch.apply(&patched.value, &SCHEMA).map(|again| again.value);
    assert_eq!(again.ok(), Some(patched.value));
}

fn check_readable(document: &Value) {
    let text = document.to_string();
    let read = parse_json(text.as_bytes()).unwrap_or_else(|error| panic!("{error}: {text}"));
    assert_eq!(&read.value, document);
}
