//! The conditions and their reasons, which are API.

use std::fmt::Write as _;

use evacuation_api::{BlockedReason, ConditionType, EvacuatedReason, FailedReason};

pub(crate) fn page() -> String {
    let mut text = String::from(
        "<!-- Made by `cargo xtask generate` from api/src/condition.rs. -->\n# Conditions\n\n\
         Conditions and their reasons are API: tools may rely on them.\n\n\
         | condition | reasons of `True` |\n| --- | --- |\n",
    );
    for condition in ConditionType::ALL {
        let reasons: Vec<&str> = match condition {
            ConditionType::Evacuated => EvacuatedReason::ALL
                .iter()
                .map(|reason| reason.as_str())
                .collect(),
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
    text
}
