//! The intended differences: the only list of them.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::{Mismatch, Reply, Request};

/// A request and the replies of both sides.
#[derive(Clone, Copy, Debug)]
pub struct Exchange<'a> {
    /// The request.
    pub request: &'a Request,
    /// Reply of the custom resource.
    pub theirs: &'a Reply,
    /// Reply of the example kind.
    pub ours: &'a Reply,
    /// The requests of the sequence before it.
    pub before: &'a [Request],
}

impl Exchange<'_> {
    /// Returns the codes: the custom resource's, the example kind's.
    fn codes(&self) -> (u16, u16) {
        (self.theirs.code, self.ours.code)
    }

    /// Returns true when a request before it wrote the scale of an object.
    fn follows_scaling(&self) -> bool {
        self.before.iter().any(is_scaling)
    }
}

/// An intended difference between the machinery and a custom resource.
#[derive(Debug)]
pub struct Difference {
    /// Short name.
    pub name: &'static str,
    /// Behaviour of a custom resource.
    pub theirs: &'static str,
    /// Behaviour of the machinery.
    pub ours: &'static str,
    /// Reason for the difference.
    pub reason: &'static str,
    /// True when both sides have other objects after it. The sequence ends there.
    pub(crate) diverges: bool,
    matches: fn(&Exchange<'_>, &Mismatch) -> bool,
}

impl Difference {
    /// Returns true when the difference is the reason of a mismatch.
    pub fn explains(&self, exchange: &Exchange<'_>, mismatch: &Mismatch) -> bool {
        (self.matches)(exchange, mismatch)
    }
}

/// All intended differences.
pub const DIFFERENCES: &[Difference] = &[
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
        name: "scale-owners",
        theirs: "A write of the scale records no owner of the number of replicas, and an apply to it is a 500.",
        ours: "The writer owns the number of replicas, also by an apply.",
        reason: "Built-in kinds do that. For custom resources, the scale cannot be converted.",
        diverges: true,
        matches: |exchange, mismatch| {
            let conflict = |reply: &Reply| text(&reply.body, "message").starts_with("Apply failed");
            let broken =
                text(&exchange.theirs.body, "message").contains("to convert CR to an invalid group/version");
            let version = mismatch.place.ends_with("resourceVersion");
            (is_scaling(exchange.request) && ((exchange.theirs.code == 500 && broken) || version))
                || (exchange.follows_scaling()
                    && (version
                        || mismatch.place.contains("managedFields")
                        || conflict(exchange.theirs)
                        || conflict(exchange.ours)))
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
        name: "empty-continue",
        theirs: "The metadata of a whole list has an empty continue token.",
        ours: "It has none.",
        reason: "Built-in kinds have none either.",
        diverges: false,
        matches: |_, mismatch| {
            mismatch.place == "body/metadata/continue"
                && mismatch.theirs == Some(Value::from(""))
                && mismatch.ours.is_none()
        },
    },
    Difference {
        name: "type-defaults",
        theirs: "An object without kind or apiVersion is refused.",
        ours: "It is of the kind that the path names.",
        reason: "Built-in kinds do that.",
        diverges: false,
        matches: |exchange, _| {
            exchange.theirs.code == 400
                && [
                    "Object 'Kind' is missing",
                    "Object 'apiVersion' is missing",
                    "the API version in the data ()",
                ]
                .iter()
                .any(|words| text(&exchange.theirs.body, "message").contains(words))
        },
    },
    Difference {
        name: "unconditional-update",
        theirs: "An update without a resourceVersion is refused.",
        ours: "It replaces the newest version.",
        reason: "Most built-in kinds allow it.",
        diverges: false,
        matches: |exchange, _| {
            text(&exchange.theirs.body, "message").contains("metadata.resourceVersion: Invalid value")
                && text(&exchange.theirs.body, "message").contains("must be specified for an update")
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
        name: "quantity-text",
        theirs: "A quantity that is written as a number is stored as a number.",
        ours: "It is stored as a text.",
        reason: "Built-in kinds do that.",
        diverges: true,
        matches: |_, mismatch| {
            mismatch.place.ends_with("spec/tank")
                && mismatch.theirs.as_ref().is_some_and(Value::is_number)
                && mismatch.theirs.as_ref().map(Value::to_string).as_deref() == Some(ours(mismatch))
        },
    },
    Difference {
        name: "lenient-paths",
        theirs: "Segments after a subresource and the name in a POST are ignored, and a missing name is a 400.",
        ours: "They are a 404 or 405.",
        reason: "Built-in kinds refuse such paths.",
        diverges: true,
        matches: |exchange, _| {
            let path = exchange.request.path.as_str();
            path.contains("/colour")
                || path.matches('/').count() > 2
                || (exchange.request.method == http::Method::POST && !path.is_empty())
                || ([http::Method::PUT, http::Method::PATCH].contains(&exchange.request.method)
                    && path.is_empty())
        },
    },
    Difference {
        name: "checked-parts",
        theirs: "A part of the object that the request cannot change, such as the status in a creation, has any type.",
        ours: "It must fit the schema.",
        reason: "Built-in kinds cannot read such an object either.",
        diverges: false,
        matches: |exchange, _| {
            let other = if exchange.request.path.ends_with("/status") { "spec" } else { "status" };
            let mut rest = causes(exchange.ours);
            let all = rest.len();
            rest.retain(|cause| !text(cause, "field").starts_with(other));
            exchange.ours.code == 422
                && rest.len() < all
                && (rest.is_empty() || fields(&rest) == fields(&checked_causes(exchange.theirs)))
        },
    },
    Difference {
        name: "delete-options-merged",
        theirs: "A deletion with a body ignores the parameters of the query, dryRun included.",
        ours: "It takes both.",
        reason: "Nothing is deleted when the caller asked for a dry run.",
        diverges: true,
        matches: |exchange, _| {
            exchange.request.method == http::Method::DELETE
                && exchange.request.body.is_some()
                && !exchange.request.query.is_empty()
        },
    },
    Difference {
        name: "wrong-kind",
        theirs: "An object of another kind is a 422, unless something else is wrong.",
        ours: "It is a 400.",
        reason: "Built-in kinds answer so, and custom resources do for another apiVersion.",
        diverges: false,
        matches: |exchange, mismatch| {
            let message = text(&exchange.theirs.body, "message");
            (exchange.codes() == (422, 400)
                && (message.contains("must be Fleet")
                    || message.contains("must be example.machinery.dev/v1")))
                || (!exchange.theirs.is_success()
                    && exchange.ours.code == 400
                    && text(&exchange.ours.body, "message").starts_with("the kind in the data ("))
                || (mismatch.place.starts_with("headers")
                    && message.contains("does not match the expected API"))
        },
    },
    Difference {
        name: "apply-code",
        theirs: "An applied configuration that does not fit the schema is a 500, and an entry without its key a 422.",
        ours: "Both are a 400.",
        reason: "The mistake is the caller's.",
        diverges: false,
        matches: |exchange, _| {
            let refused = "failed to create typed patch object";
            (exchange.codes() == (500, 400) && text(&exchange.theirs.body, "message").starts_with(refused))
                || (exchange.codes() == (422, 400)
                    && text(&exchange.ours.body, "message").starts_with(refused))
        },
    },
    Difference {
        name: "garbage-version",
        theirs: "A resourceVersion that is no number is a 500 in an update or a get.",
        ours: "It is a 422 or 400 that names the field.",
        reason: "The mistake is the caller's.",
        diverges: false,
        matches: |exchange, _| {
            exchange.theirs.code == 500
                && text(&exchange.theirs.body, "message").contains("strconv.ParseUint")
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
    Difference {
        name: "applied-version",
        theirs: "A dry run of an apply that creates shows the resourceVersion of the configuration.",
        ours: "It shows none.",
        reason: "No object has that version.",
        diverges: false,
        matches: |exchange, mismatch| {
            mismatch.place == "body/metadata/resourceVersion"
                && mismatch.ours.is_none()
                && exchange.codes() == (201, 201)
                && exchange.request.parameter("dryRun") == Some("All")
        },
    },
    Difference {
        name: "created-version",
        theirs: "A creation with a resourceVersion is a 500, and a dry run of it passes.",
        ours: "It is a 400.",
        reason: "The mistake is the caller's.",
        diverges: false,
        matches: |exchange, _| {
            let refused =
                text(&exchange.ours.body, "message").contains("should not be set on objects to be created");
            let dry = exchange.request.parameter("dryRun") == Some("All");
            refused && (exchange.codes() == (500, 400) || (dry && exchange.theirs.is_success()))
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
        name: "yaml-words",
        theirs: "The words yes, no, on, off, y and n are booleans in YAML.",
        ours: "They are texts, as YAML 1.2 says.",
        reason: "A text stays a text. kubectl sends JSON.",
        diverges: true,
        matches: |exchange, _| {
            let body = exchange.request.body.as_deref().unwrap_or_default();
            body.contains("paused: yes")
        },
    },
    Difference {
        name: "null-items",
        theirs: "An empty list of metadata has null items.",
        ours: "It has an empty list of items.",
        reason: "Clients can walk it.",
        diverges: false,
        matches: |_, mismatch| {
            mismatch.place == "body/items"
                && mismatch.theirs == Some(Value::Null)
                && mismatch.ours == Some(json!([]))
        },
    },
    Difference {
        name: "emptied-record",
        theirs: "An empty list of managedFields changes nothing.",
        ours: "It resets the record, as a list with an empty entry does on both sides.",
        reason: "Built-in kinds do that.",
        diverges: true,
        matches: |exchange, _| {
            let body = exchange.request.body.as_deref().unwrap_or_default();
            body.contains("\"managedFields\":[]") || body.contains("managedFields: []")
        },
    },
    Difference {
        name: "replaced-absent",
        theirs: "An operation of a JSON patch that replaces an absent field adds it.",
        ours: "It fails.",
        reason: "RFC 6902 says so.",
        diverges: true,
        matches: |exchange, _| {
            let body = exchange.request.body.as_deref().unwrap_or_default();
            exchange.ours.code == 422
                && text(&exchange.ours.body, "message").contains("of the JSON patch failed")
                && body.contains("\"op\":\"replace\"")
        },
    },
    Difference {
        name: "nulls",
        theirs: "A field that is null is invalid unless it has a default.",
        ours: "It is absent.",
        reason: "Built-in kinds do that.",
        diverges: false,
        matches: |exchange, _| {
            causes(exchange.theirs).iter().any(|cause| text(cause, "message").contains("\"null\""))
        },
    },
    Difference {
        name: "list-form",
        theirs: "A single object that is asked for as a list of metadata is a 500, and a list as PartialObjectMetadata a 406.",
        ours: "Both are sent as metadata.",
        reason: "What the caller wants is plain.",
        diverges: true,
        matches: |exchange, _| {
            let message = text(&exchange.theirs.body, "message");
            let accept = exchange.request.headers.iter().find(|(name, _)| *name == "accept");
            let list = accept.is_some_and(|(_, accept)| accept.contains("PartialObjectMetadataList"));
            (exchange.request.is_watch() && list && exchange.codes() == (200, 200))
                || (exchange.theirs.code == 500 && message == "content is not a list")
                || (exchange.theirs.code == 406 && message.starts_with("you requested PartialObjectMetadata"))
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
        name: "applied-times",
        theirs: "An applied configuration may have any text as creationTimestamp.",
        ours: "It must be a time.",
        reason: "Built-in kinds cannot read such a configuration either.",
        diverges: false,
        matches: |exchange, _| {
            let body = exchange.request.body.as_deref().unwrap_or_default();
            exchange.ours.code == 400 && exchange.theirs.is_success() && body.contains("yesterday")
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
        name: "yaml-documents",
        theirs: "Of several YAML documents in a body, the first one counts.",
        ours: "They are refused.",
        reason: "Nothing that a caller sends is ignored.",
        diverges: true,
        matches: |exchange, _| {
            let message = text(&exchange.ours.body, "message");
            exchange.ours.code == 400
                && (message.contains("more than one document") || message.contains("<document start>"))
        },
    },
    Difference {
        name: "null-patch",
        theirs: "A JSON patch that is null changes nothing.",
        ours: "It is a 400.",
        reason: "A JSON patch is a list of operations.",
        diverges: false,
        matches: |exchange, _| {
            exchange.request.body.as_deref() == Some("null")
                && exchange.theirs.is_success()
                && text(&exchange.ours.body, "message").contains("expected a sequence")
        },
    },
    Difference {
        name: "patched-object",
        theirs: "A patch whose result cannot be decoded is a 422 with the whole object in its message.",
        ours: "It is a 400 that names the field, and a kind of null stays as it was.",
        reason: "A person can find the mistake.",
        diverges: true,
        matches: |exchange, _| {
            exchange.theirs.code == 422
                && text(&exchange.theirs.body, "message").starts_with(" \"\" is invalid: patch: ")
                || text(&exchange.theirs.body, "message").contains("object has no apiVersion field")
        },
    },
    Difference {
        name: "whole-fractions",
        theirs: "A whole number in a field for fractions is sent as 1.",
        ours: "It is sent as 1.0.",
        reason: "The numbers are equal.",
        diverges: false,
        matches: |_, mismatch| {
            let number = |value: &Option<Value>| value.as_ref().and_then(Value::as_f64);
            mismatch.place.ends_with("spec/rate")
                && number(&mismatch.theirs).is_some()
                && number(&mismatch.theirs) == number(&mismatch.ours)
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

fn theirs(mismatch: &Mismatch) -> &str {
    mismatch.theirs.as_ref().and_then(Value::as_str).unwrap_or_default()
}

fn ours(mismatch: &Mismatch) -> &str {
    mismatch.ours.as_ref().and_then(Value::as_str).unwrap_or_default()
}

/// Returns the causes of a failure.
fn causes(reply: &Reply) -> Vec<Value> {
    let causes = reply.body.get("details").and_then(|details| details.get("causes"));
    causes.and_then(Value::as_array).cloned().unwrap_or_default()
}

fn text<'a>(body: &'a Value, field: &str) -> &'a str {
    body.get(field).and_then(Value::as_str).unwrap_or_default()
}

/// Returns the fields of causes, with the reasons.
fn fields(causes: &[Value]) -> Vec<(&str, &str)> {
    causes.iter().map(|cause| (text(cause, "field"), text(cause, "reason"))).collect()
}

/// Returns true for a request that writes the scale of an object.
fn is_scaling(request: &Request) -> bool {
    request.path.ends_with("/scale") && request.method != http::Method::GET
}

/// Returns true for the cause of the only rule that the custom resource has in CEL.
fn is_rule(cause: &Value) -> bool {
    text(cause, "field") == "spec.ownership"
}

/// Returns the causes of a failure without those that concern the rules of the schema and of the scale.
fn checked_causes(reply: &Reply) -> Vec<Value> {
    let mut causes = causes(reply);
    causes.retain(|cause| text(cause, "field") != "<nil>" && !text(cause, "field").starts_with('.'));
    causes
}

/// Returns the page of the documentation that lists the differences.
pub fn document() -> String {
    let mut page = String::from(HEAD);
    for Difference { name, theirs, ours, reason, .. } in DIFFERENCES {
        let row = format!("| {name} | {theirs} | {ours} | {reason} |\n");
        page.push_str(&row);
    }
    page
}

const HEAD: &str = "\
# Conformance

<!-- Made by `cargo xtask generate`. -->

The machinery's example kind, Fleet, is served twice behind one kube-apiserver: by the machinery, aggregated, and as a custom resource of the same schema. Generated
sequences of requests go to both. Codes, headers, bodies and watch events agree, up to times, UIDs and resourceVersions, except for the differences below. `cargo xtask
conformance --long` fails when one of them no longer occurs.

| name | custom resource | machinery | reason |
| --- | --- | --- | --- |
";
