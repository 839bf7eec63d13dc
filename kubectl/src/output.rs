//! Standard output, and `-o`: how created objects are printed.

use std::{
    fmt::Display,
    io::{self, Write},
};

use clap::ValueEnum;
use evacuation_api::{Evacuation, GROUP};
use evacuation_client::EvacuationHandle;
use evacuation_protocol::window_warnings;

/// How created objects are printed.
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
/// When it cannot be written; see [`is_unread`].
pub(crate) fn say(line: impl Display) -> io::Result<()> {
    writeln!(io::stdout().lock(), "{line}")
}

/// Whether nobody reads the output any more, as behind `| head -1`: that ends a command, and is nothing to complain of.
pub(crate) fn is_unread(error: &anyhow::Error) -> bool {
    let error = error.downcast_ref::<io::Error>();
    error.is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

/// Says on standard error what the server warned of: the client does not show the headers of replies.
pub(crate) fn warn(evacuation: &EvacuationHandle) {
    let object = evacuation.object();
    let policy = object.status.as_ref().and_then(|status| status.policy.as_ref());
    let own = [evacuation.requester().to_owned()];
    for warning in
        policy.into_iter().flat_map(|policy| window_warnings(&object.spec.requesters, policy, &own))
    {
        eprintln!("Warning: {warning}");
    }
}

/// One object as text: in the chosen form, else as kubectl reports a change.
pub(crate) fn render(evacuation: &Evacuation, output: Option<Output>, what: &str) -> anyhow::Result<String> {
    let name = evacuation.metadata.name.as_deref().or(evacuation.metadata.generate_name.as_deref());
    let resource = format!("evacuation.{GROUP}/{}", name.unwrap_or_default());
    Ok(match output {
        Some(Output::Yaml) => format!("---\n{}", serde_yaml_ng::to_string(evacuation)?.trim_end()),
        Some(Output::Json) => serde_json::to_string_pretty(evacuation)?,
        Some(Output::Name) => resource,
        None => format!("{resource} {what}"),
    })
}
