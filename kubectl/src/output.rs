//! Standard output, and the formats of `-o`.

use std::{
    fmt::Display,
    io::{self, Write},
};

use clap::ValueEnum;
use console::Term;
use evacuation_api::{Evacuation, GROUP, NodeEvacuation};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ListMeta;
use kube::ResourceExt;
use serde::Serialize;
use serde_json::Value;

use crate::fold::fold;

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

/// Output format of what a command shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum View {
    /// An object as JSON.
    Json,
    /// An object as YAML.
    Yaml,
    /// Only names, one a line.
    Name,
    /// Text with more details.
    Wide,
}

impl View {
    /// Renders an object, or its names. `None` for text.
    ///
    /// # Errors
    ///
    /// The object cannot be serialized.
    pub(crate) fn render(self, object: &impl Serialize, names: &[String]) -> anyhow::Result<Option<String>> {
        Ok(match self {
            Self::Json => Some(serde_json::to_string_pretty(object)?),
            Self::Yaml => Some(format!("---\n{}", machinery_merge::to_yaml(object)?.trim_end())),
            Self::Name => Some(names.join("\n")),
            Self::Wide => None,
        })
    }
}

/// Returns `nodeevacuation.evacuation.dev/NAME`, as kubectl prints it.
pub(crate) fn drain_resource(drain: &NodeEvacuation) -> String {
    format!("nodeevacuation.{GROUP}/{}", drain.name_any())
}

/// Returns the list of drains, as kubectl prints it.
///
/// # Errors
///
/// A drain cannot be serialized.
pub(crate) fn drain_list(drains: &[NodeEvacuation], metadata: &ListMeta) -> serde_json::Result<Value> {
    Ok(serde_json::json!({
        "apiVersion": evacuation_api::api_version(), "kind": format!("{}List", NodeEvacuation::KIND),
        "metadata": metadata, "items": serde_json::to_value(drains)?,
    }))
}

/// Prints a text on standard output, as it is.
///
/// # Errors
///
/// The line cannot be written; see [`is_unread`].
pub(crate) fn say(line: impl Display) -> io::Result<()> {
    writeln!(io::stdout().lock(), "{line}")
}

/// Prints a text for people on standard output. On a terminal its lines are folded between words; elsewhere
/// each statement is one line.
///
/// # Errors
///
/// As [`say`].
pub(crate) fn tell(text: impl Display) -> io::Result<()> {
    say(folded(text, &Term::stdout()))
}

/// Prints a text for people on standard error, as [`tell`] does.
pub(crate) fn warn(text: impl Display) {
    eprintln!("{}", folded(text, &Term::stderr()));
}

/// Returns a text folded at the width of a terminal, if it goes to one.
fn folded(text: impl Display, terminal: &Term) -> String {
    let text = text.to_string();
    match terminal.size_checked().filter(|_| terminal.is_term()) {
        Some((_, width)) => fold(&text, usize::from(width)),
        None => text,
    }
}

/// Returns whether the reader of the output has gone, as behind `| head -1`. That ends a command without an
/// error.
pub(crate) fn is_unread(error: &anyhow::Error) -> bool {
    let error = error.downcast_ref::<io::Error>();
    error.is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_format_of_drains_is_as_kubectl_has_it() {
        let drain: NodeEvacuation = serde_json::from_value(json!({
            "metadata": {"name": "d"}, "spec": {"nodes": {"names": ["a"]}},
        }))
        .unwrap();
        let metadata = ListMeta { resource_version: Some("7".to_owned()), ..ListMeta::default() };
        let list = drain_list(std::slice::from_ref(&drain), &metadata).unwrap();
        let names = [drain_resource(&drain), "x".to_owned()];
        let render = |view: View| view.render(&list, &names).unwrap();
        let parsed: Value = serde_json::from_str(&render(View::Json).unwrap()).unwrap();
        assert_eq!(parsed["kind"], "NodeEvacuationList");
        assert_eq!(parsed["apiVersion"], "evacuation.dev/v1alpha1");
        assert_eq!(parsed["metadata"]["resourceVersion"], "7");
        assert_eq!(parsed["items"][0]["kind"], "NodeEvacuation");
        assert!(render(View::Yaml).is_some_and(|yaml| yaml.contains("kind: NodeEvacuationList")));
        assert_eq!(render(View::Name).as_deref(), Some("nodeevacuation.evacuation.dev/d\nx"));
        assert_eq!(render(View::Wide), None);
    }
}
