//! The conditions and their reasons, which are API.

use std::fmt::Write as _;

use evacuation_api::{
    BlockedReason, ConditionType, EvacuatedReason, FailedReason, GATE_ASKED_ANNOTATION,
    GATE_CONDITION_TYPE_ANNOTATION, GATE_MESSAGE_ANNOTATION, GATE_OPEN_ANNOTATION, GATE_OPEN_CONDITION,
    GATE_RESPONDER, MIGRATE_RESPONDER, ONE_AT_A_TIME_ANNOTATION, RELEASED_ANNOTATION, REPLACEMENT_RESPONDER,
    REPLACEMENT_TIMEOUT_ANNOTATION,
};

/// The responders that the controller plays, and their words on pods.
const BUILT_IN: [(&str, &[&str]); 3] = [
    (REPLACEMENT_RESPONDER, &[REPLACEMENT_TIMEOUT_ANNOTATION, ONE_AT_A_TIME_ANNOTATION, RELEASED_ANNOTATION]),
    (
        GATE_RESPONDER,
        &[
            GATE_ASKED_ANNOTATION,
            GATE_OPEN_ANNOTATION,
            GATE_MESSAGE_ANNOTATION,
            GATE_CONDITION_TYPE_ANNOTATION,
            GATE_OPEN_CONDITION,
        ],
    ),
    (MIGRATE_RESPONDER, &[]),
];

pub(crate) fn page() -> String {
    let mut text = String::from(
        "<!-- Made by `cargo xtask generate` from api/src/condition.rs and api/src/built_in.rs. -->\n# Conditions\n\n\
         Conditions and their reasons are API: tools may rely on them.\n\n\
         | condition | reasons of `True` |\n| --- | --- |\n",
    );
    for condition in ConditionType::ALL {
        let reasons: Vec<&str> = match condition {
            ConditionType::Evacuated => EvacuatedReason::ALL.iter().map(|reason| reason.as_str()).collect(),
            ConditionType::Failed => FailedReason::ALL.iter().map(|reason| reason.as_str()).collect(),
            ConditionType::Finished => vec!["that of Evacuated or Failed"],
            ConditionType::Blocked => BlockedReason::ALL
                .iter()
                .filter(|reason| **reason != BlockedReason::NotBlocked)
                .map(|reason| reason.as_str())
                .collect(),
        };
        // Writing to a String cannot fail.
        let _ = writeln!(text, "| `{condition}` | {} |", reasons.join(", "));
    }
    text.push_str("\n`Blocked=False` has the reason `NotBlocked`.\n");
    text.push_str(
        "\n# Built-in responders\n\n| name | annotations and conditions of the pod |\n| --- | --- |\n",
    );
    for (name, words) in BUILT_IN {
        let words: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
        let _ = writeln!(text, "| `{name}` | {} |", words.join(", "));
    }
    text
}
