//! Requests that one side refuses and the other does not, or refuses for another reason.

use super::{Difference, causes, checked_causes, fields, text};

/// Requests that one side refuses and the other does not, or refuses for another reason.
pub(super) const REFUSALS: &[Difference] = &[
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
];
