//! Refusals whose words or details differ. The code and the reason are equal.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{Difference, causes, checked_causes, fields, ours, text, theirs};

/// Refusals whose words or details differ. The code and the reason are equal.
pub(super) const WORDS: &[Difference] = &[
    Difference {
        name: "decoder-words",
        theirs: "The message of a body that cannot be decoded has the words of Go's decoder.",
        ours: "It names the path of the field and the type that it must have.",
        reason: "Go's words name Go types. The code, the reason and the beginning of the message are equal.",
        diverges: false,
        matches: |exchange, mismatch| {
            exchange.codes() == (400, 400)
                && mismatch.place == "body/message"
                && DECODER_WORDS.iter().any(|words| theirs(mismatch).contains(words))
        },
    },
    Difference {
        name: "protobuf",
        theirs: "Messages about media types offer application/vnd.kubernetes.protobuf.",
        ours: "They do not.",
        reason: "Neither side has objects in protobuf.",
        diverges: false,
        matches: |_, mismatch| {
            mismatch.place == "body/message"
                && theirs(mismatch)
                    .replace(", application/vnd.kubernetes.protobuf;stream=watch", "")
                    .replace(", application/vnd.kubernetes.protobuf", "")
                    == ours(mismatch)
        },
    },
    Difference {
        name: "failed-operation",
        theirs: "An operation of a JSON patch that fails is reported without details.",
        ours: "The message and a cause name the operation and its path.",
        reason: "A person can find the mistake.",
        diverges: false,
        matches: |exchange, _| {
            exchange.theirs.code == 422
                && text(&exchange.theirs.body, "message").starts_with("the server rejected our request")
        },
    },
    Difference {
        name: "scale-causes",
        theirs: "A wrong number of replicas has a further cause, whose path begins with a dot.",
        ours: "It has one cause, with the path that all others have.",
        reason: "A client finds the field.",
        diverges: false,
        matches: |exchange, mismatch| {
            let dotted = |cause: &&Value| text(cause, "field").starts_with('.');
            let all = causes(exchange.theirs);
            let mut theirs: Vec<&str> = all.iter().map(|cause| text(cause, "field")).collect();
            theirs.retain(|field| *field != "<nil>");
            let plain = |field: &str| field.trim_start_matches('.').to_owned();
            let theirs: BTreeSet<String> = theirs.into_iter().map(plain).collect();
            let ours: BTreeSet<String> =
                causes(exchange.ours).iter().map(|cause| text(cause, "field").to_owned()).collect();
            exchange.codes() == (422, 422)
                && (mismatch.place == "body/message" || mismatch.place.starts_with("body/details/causes"))
                && all.iter().any(|cause| dotted(&cause))
                && (theirs == ours
                    || fields(&checked_causes(exchange.theirs)) == fields(&causes(exchange.ours)))
        },
    },
    Difference {
        name: "unchecked-rules",
        theirs: "When a field is invalid, a further cause says that CEL rules of the schema were not checked.",
        ours: "There is no such cause: they were checked.",
        reason: "The machinery has no CEL rules in schemas: a kind's own validation does their work.",
        diverges: false,
        matches: |exchange, mismatch| {
            let checked = checked_causes(exchange.theirs);
            let ours = causes(exchange.ours);
            exchange.codes() == (422, 422)
                && (mismatch.place == "body/message" || mismatch.place.starts_with("body/details/causes"))
                && checked.len() < causes(exchange.theirs).len()
                && checked.iter().all(|cause| ours.contains(cause))
                && (checked.len() == ours.len() || ours.iter().any(is_rule))
        },
    },
    Difference {
        name: "method-words",
        theirs: "A method that a resource does not support is named, with the resource.",
        ours: "The message is the one of built-in kinds.",
        reason: "The code and the reason are equal.",
        diverges: false,
        matches: |exchange, mismatch| {
            exchange.codes() == (405, 405)
                && (mismatch.place.starts_with("body/details") || mismatch.place == "body/message")
        },
    },
    Difference {
        name: "generated-name",
        theirs: "The details of a refused creation have the name that was generated for it.",
        ours: "They have no name.",
        reason: "Nothing has that name.",
        diverges: false,
        matches: |exchange, mismatch| {
            let generated =
                exchange.request.body.as_deref().is_some_and(|body| body.contains("generateName"));
            generated
                && exchange.codes() == (422, 422)
                && (mismatch.place.starts_with("body/details") || mismatch.place == "body/message")
        },
    },
    Difference {
        name: "status-path",
        theirs: "The text of a wrong field of the status has its path without the status.",
        ours: "It has the whole path.",
        reason: "The path is missing by mistake.",
        diverges: false,
        matches: |exchange, mismatch| {
            exchange.codes() == (422, 422)
                && exchange.request.path.ends_with("/status")
                && (mismatch.place.starts_with("body/details/causes") || mismatch.place == "body/message")
                && fields(&checked_causes(exchange.theirs)) == fields(&causes(exchange.ours))
        },
    },
    Difference {
        name: "storage-words",
        theirs: "A conflict of UIDs has the key in etcd and a code of the storage in its message.",
        ours: "It has not.",
        reason: "They mean nothing to a caller.",
        diverges: false,
        matches: |_, mismatch| {
            mismatch.place == "body/message"
                && theirs(mismatch).split_once("StorageError: ").is_some_and(|(before, after)| {
                    let after = after.split_once("AdditionalErrorMsg: ").map_or("", |(_, after)| after);
                    ours(mismatch) == format!("{before}{after}")
                })
        },
    },
    Difference {
        name: "selector-words",
        theirs: "The message of a selector that cannot be read has the words of its lexer.",
        ours: "It names the parameter, and the requirement that it expects.",
        reason: "The code and the reason are equal.",
        diverges: false,
        matches: |exchange, mismatch| {
            exchange.codes() == (400, 400)
                && mismatch.place == "body/message"
                && (ours(mismatch).starts_with("unable to parse labelSelector: ")
                    || ours(mismatch).starts_with("unable to parse fieldSelector: "))
        },
    },
    Difference {
        name: "yaml-duplicates",
        theirs: "A field that YAML has twice is reported by its line.",
        ours: "It is reported by its path, as in JSON.",
        reason: "One form for both syntaxes.",
        diverges: false,
        matches: |_, mismatch| {
            (mismatch.place.starts_with("headers/warning") || mismatch.place == "body/message")
                && theirs(mismatch).contains("already set in map")
        },
    },
    Difference {
        name: "repeated-causes",
        theirs: "A mistake in the metadata of an update has the same cause several times.",
        ours: "It has one cause.",
        reason: "Nothing is said by the repetition.",
        diverges: false,
        matches: |exchange, mismatch| {
            let mut theirs = checked_causes(exchange.theirs);
            theirs.dedup();
            exchange.codes() == (422, 422)
                && ["body/message", "body/details/causes"].contains(&mismatch.place.as_str())
                && theirs.len() < causes(exchange.theirs).len()
                && theirs == causes(exchange.ours)
        },
    },
    Difference {
        name: "precondition-kind",
        theirs: "The details of a failed precondition have the kind Fleet.",
        ours: "They have the resource fleets.",
        reason: "The details of all other conflicts have the resource.",
        diverges: false,
        matches: |exchange, mismatch| {
            exchange.codes() == (409, 409)
                && mismatch.place == "body/details/kind"
                && text(&exchange.theirs.body, "message").contains(" in the precondition (")
        },
    },
    Difference {
        name: "name-and-prefix",
        theirs: "A creation that has a name, which is taken, and a prefix is to be tried again after a second.",
        ours: "The name is taken.",
        reason: "Another try does not help.",
        diverges: false,
        matches: |exchange, _| {
            exchange.codes() == (409, 409)
                && text(&exchange.theirs.body, "message").contains("was not able to generate a unique name")
        },
    },
];

/// Beginnings of the words that decoders add to a message.
const DECODER_WORDS: [&str; 13] = [
    "json: cannot unmarshal ",
    "no kind is registered for the type v1.Scale",
    "unrecognized (must be of type ",
    "cannot be handled as a Fleet: ",
    "couldn't get version/kind",
    "error decoding patch: ",
    "error encoding patch: ",
    "invalid continue token: ",
    "invalid object type: /, ",
    "Invalid JSON Patch",
    "invalid JSON patch",
    "no kind \"",
    "strconv.ParseInt: ",
];

/// Returns true for the cause of the only rule that the custom resource has in CEL.
fn is_rule(cause: &Value) -> bool {
    text(cause, "field") == "spec.ownership"
}
