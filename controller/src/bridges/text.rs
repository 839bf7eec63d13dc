//! Foreign texts: reading them, and cutting them to a size and to characters that the API takes.

use kube::{ResourceExt, core::DynamicObject};
use machinery_validation::derived_name;
use serde_json::Value;

use crate::cluster::CallError;

/// Maximum length of a foreign text in an entry or in a status, in bytes.
const MAX_TEXT: usize = 512;
/// Maximum length of a foreign object's name within one of our names, in bytes.
const MAX_NAME: usize = 200;
/// Number of characters of a UID within a name.
const UID: usize = 8;

/// Returns the text at a path such as `/spec/nodeName`; an empty one if there is none.
pub(super) fn text<'a>(data: &'a Value, path: &str) -> &'a str {
    data.pointer(path).and_then(Value::as_str).unwrap_or_default()
}

/// Returns the list at a path; an empty one if there is none.
pub(super) fn list<'a>(data: &'a Value, path: &str) -> &'a [Value] {
    data.pointer(path).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// Returns the message with which the API refused a request.
pub(super) fn refusal(error: &CallError) -> String {
    error.status().map(|status| fitting(&status.message)).unwrap_or_default()
}

/// Returns true when the API refuses a request for what it asks for. The same request is refused again.
pub(super) fn is_rejection(error: &CallError) -> bool {
    error.is_of_unreadable() || matches!(error.code(), 400 | 403 | 422)
}

/// Returns a text without control characters, of at most [`MAX_TEXT`] bytes.
pub(super) fn fitting(text: &str) -> String {
    let plain: String = text.chars().filter(|c| !c.is_control()).take(MAX_TEXT).collect();
    cut(&plain, MAX_TEXT).to_owned()
}

/// Returns the object's name with the beginning of its UID. A later object of the same name differs.
pub(super) fn unique_name(object: &DynamicObject) -> String {
    let (name, uid) = (object.name_any(), object.uid().unwrap_or_default());
    derived_name(cut(&name, MAX_NAME), &format!("-{}", cut(&uid, UID)))
}

/// Returns the beginning of a text, of at most that number of bytes.
fn cut(text: &str, most: usize) -> &str {
    text.get(..text.floor_char_boundary(most)).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_foreign_text_of_any_size_fits() {
        assert_eq!(fitting("kernel\u{1b}[31m\r\nupgrade"), "kernel[31mupgrade");
        let long = fitting(&"ü".repeat(100_000));
        assert_eq!((long.len(), long.chars().next()), (MAX_TEXT, Some('ü')));
    }

    #[test]
    fn the_name_of_an_object_is_cut_and_its_uid_stays() {
        let object = |name: &str| -> DynamicObject {
            let metadata = json!({"name": name, "uid": "0123456789abcdef"});
            serde_json::from_value(json!({"metadata": metadata})).unwrap()
        };
        assert_eq!(unique_name(&object("nm")), "nm-01234567");
        let long = format!("{}.{}", "a".repeat(MAX_NAME - 1), "b".repeat(50));
        assert_eq!(unique_name(&object(&long)), format!("{}-01234567", "a".repeat(MAX_NAME - 1)));
    }
}
