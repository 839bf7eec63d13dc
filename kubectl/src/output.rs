//! Standard output, and the formats of `-o`.

use std::{
    fmt::Display,
    io::{self, Write},
};

use clap::ValueEnum;
use evacuation_api::{Evacuation, GROUP};
use evacuation_client::EvacuationHandle;
use evacuation_protocol::requester_warnings;

/// Output format of created objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// The object as YAML.
    Yaml,
    /// The object as JSON.
    Json,
    /// Only `evacuation.evacuation.dev/NAME`.
    Name,
}

/// Prints a line on standard output.
///
/// # Errors
///
/// The line cannot be written; see [`is_unread`].
pub(crate) fn say(line: impl Display) -> io::Result<()> {
    writeln!(io::stdout().lock(), "{line}")
}

/// Returns whether the reader of the output has gone, as behind `| head -1`. That ends a command without an
/// error.
pub(crate) fn is_unread(error: &anyhow::Error) -> bool {
    let error = error.downcast_ref::<io::Error>();
    error.is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

/// Prints the server's warnings on standard error. The client does not show the headers of replies.
pub(crate) fn warn(evacuation: &EvacuationHandle) {
    let object = evacuation.object();
    let policy = object.status.as_ref().and_then(|status| status.policy.as_ref());
    let own = [evacuation.key()];
    for warning in
        policy.into_iter().flat_map(|policy| requester_warnings(&object.spec.requesters, policy, &own))
    {
        eprintln!("Warning: {warning}");
    }
}

/// Renders one object: in the chosen format, else as kubectl reports a change.
pub(crate) fn render(evacuation: &Evacuation, output: Option<Output>, what: &str) -> anyhow::Result<String> {
    let name = evacuation.metadata.name.as_deref().or(evacuation.metadata.generate_name.as_deref());
    let resource = format!("evacuation.{GROUP}/{}", name.unwrap_or_default());
    Ok(match output {
        Some(Output::Yaml) => format!("---\n{}", machinery_merge::to_yaml(evacuation)?.trim_end()),
        Some(Output::Json) => serde_json::to_string_pretty(evacuation)?,
        Some(Output::Name) => resource,
        None => format!("{resource} {what}"),
    })
}
