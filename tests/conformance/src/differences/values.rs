//! Requests that both sides carry out, with different values.

use serde_json::{Value, json};

use super::{Difference, is_scaling, ours, text};
use crate::Reply;

/// Requests that both sides carry out, with different values.
pub(super) const VALUES: &[Difference] = &[
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
