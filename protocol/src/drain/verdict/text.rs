//! Texts of messages: times, names, and the words of others.

use chrono::{DateTime, SecondsFormat, Utc};
use k8s_openapi::{
    api::core::v1::Pod,
    apimachinery::pkg::{apis::meta::v1::ObjectMeta, util::intstr::IntOrString},
};

use super::DrainedPod;
use crate::{
    pod::controller,
    status::{cut, is_unseen},
};

/// Maximum length of a text of others in a message, in bytes.
const MAX_QUOTE: usize = 256;

/// Returns the words of others: on one line, without control characters and those that change the direction
/// of a text or are not seen, and cut at the end when too long.
pub(super) fn quote(text: &str) -> String {
    // What is cut away need not be cleaned.
    let clean: String =
        cut(text.trim(), 4 * MAX_QUOTE).chars().map(|c| if is_unseen(c) { ' ' } else { c }).collect();
    cut(&clean.split_whitespace().collect::<Vec<_>>().join(" "), MAX_QUOTE)
}

/// Returns `: ` and the words of others, or nothing when they said nothing.
pub(super) fn remark<'t>(parts: impl IntoIterator<Item = &'t str>) -> String {
    let said: Vec<_> = parts.into_iter().filter(|part| !part.trim().is_empty()).collect();
    if said.is_empty() { String::new() } else { format!(": {}", quote(&said.join(": "))) }
}

/// Returns the controller of a pod as `KIND/NAME`, in words that its author chose.
pub(in crate::drain) fn owner(pod: &Pod) -> Option<String> {
    controller(pod).map(|owner| format!("{}/{}", quote(&owner.kind), quote(&owner.name)))
}

/// Returns a time in whole seconds.
pub(super) fn time(time: DateTime<Utc>) -> String {
    time.to_rfc3339_opts(SecondsFormat::Secs, true)
}

/// Returns the name of an object.
pub(super) fn name(metadata: &ObjectMeta) -> &str {
    metadata.name.as_deref().unwrap_or_default()
}

/// Returns a number or a percentage.
pub(super) fn amount(amount: &IntOrString) -> String {
    match amount {
        IntOrString::Int(number) => number.to_string(),
        IntOrString::String(percentage) => quote(percentage),
    }
}

/// Returns the verb of a number of things.
pub(super) fn is_or_are(number: i32) -> &'static str {
    if number == 1 { "is" } else { "are" }
}

/// Returns the statement that the pod's node does not report. `None` for a node that reports.
pub(super) fn dead_node(pod: &DrainedPod<'_>) -> Option<String> {
    let since = pod.node_silent_since?;
    // Without a time the kubelet has been silent from the start.
    let since =
        if since == DateTime::<Utc>::MIN_UTC { String::new() } else { format!(" since {}", time(since)) };
    Some(format!("node {} does not report{since}", pod.node))
}

/// Returns `1 pod`, `2 pods`.
pub(super) fn pods(number: usize) -> String {
    if number == 1 { "1 pod".to_owned() } else { format!("{number} pods") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_others_are_one_line_and_bounded() {
        for (text, expected) in [
            ("plain", "plain"),
            ("a\u{202e}b\u{200b}c", "a b c"),
            (" two\nlines\t \u{1b}[31mred ", "two lines [31mred"),
            ("", ""),
            ("\u{0}\u{7f}\u{85}", ""),
        ] {
            assert_eq!(quote(text), expected, "{text:?}");
        }
        for long in ["x".repeat(100_000), "ü\n".repeat(100_000)] {
            let said = quote(&long);
            assert!(said.len() <= MAX_QUOTE && said.ends_with('…'), "{} bytes", said.len());
        }
        assert_eq!(
            (remark(["", " "]), remark(["Busy", "", "later"])),
            (String::new(), ": Busy: later".into())
        );
    }
}
