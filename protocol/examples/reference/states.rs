//! The states and how they follow each other, from the protocol's tables.

use std::fmt::{Debug, Write as _};

use evacuation_protocol::{PHASE_TRANSITIONS, TRANSITIONS, Transition, phase_diagram, responder_diagram};

pub(crate) fn page() -> String {
    let mut text = String::from(
        "<!-- Made by `cargo xtask generate` from protocol/src/status/transition.rs. -->\n# States\n\n\
         The API server checks every write against these tables, whoever writes. What is not in them is refused.\n\n\
         ## A responder\n\n",
    );
    section(&mut text, &responder_diagram(), TRANSITIONS);
    text.push_str("\n## An Evacuation\n\nThe phase is made from the status and never stored.\n\n");
    section(&mut text, &phase_diagram(), PHASE_TRANSITIONS);
    text
}

fn section<S: Debug>(text: &mut String, diagram: &str, rows: &[Transition<S>]) {
    // Writing to a String cannot fail.
    let _ =
        write!(text, "```mermaid\n{diagram}```\n\n| from | to | by | when |\n| --- | --- | --- | --- |\n");
    for row in rows {
        let by = format!("{:?}", row.by).to_lowercase();
        let _ = writeln!(text, "| {:?} | {:?} | {by} | {} |", row.from, row.to, row.when);
    }
}
