//! `kubectl evacuate why POD|NODE`

mod drain;
mod pod;
mod text;

use anyhow::Context;
use clap::Args;
use evacuation_api::Evacuation;
use evacuation_protocol::is_finished;
use kube::{Api, Client, ResourceExt};

use crate::{
    Exit,
    connection::NamespacedConnection,
    drain_ref::{DrainRef, Found, drain_ref},
    listing::readable,
    moment::Now,
    output::{View, say, tell},
    pod_name::pod_name,
};

/// Show why a pod has not moved, or a node is not drained: who asks, the answers, what holds it, and what
/// helps.
#[derive(Args, Debug)]
pub struct Why {
    /// Name of a pod, of a node, or of a NodeEvacuation; also as pod/NAME, node/NAME or nodeevacuation/NAME.
    #[arg(value_name = "POD|NODE", value_parser = subject)]
    subject: Subject,
    /// Output format. JSON and YAML have one object.
    #[arg(short, long, value_enum)]
    output: Option<View>,
    #[command(flatten)]
    connection: NamespacedConnection,
}

/// The thing that the command is about.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Subject {
    Pod(String),
    Drain(DrainRef),
    /// A name alone: that of a pod, or else of a drain or of a node.
    Either(String),
}

/// A page, in each form.
struct Page {
    object: serde_json::Value,
    names: Vec<String>,
    /// Text for people, with more details or without.
    text: Box<dyn Fn(bool, Now) -> String>,
}

fn subject(text: &str) -> Result<Subject, String> {
    match text.split_once('/') {
        None => Ok(Subject::Either(text.to_owned())),
        Some(("pod" | "pods" | "po", _)) => pod_name(text).map(Subject::Pod),
        Some(("node" | "nodes" | "no", _)) => drain_ref(text).map(Subject::Drain),
        Some((resource, _)) => drain_ref(text)
            .map(Subject::Drain)
            .map_err(|_| format!("only pods, nodes and nodeevacuations can be asked about, not {resource}")),
    }
}

impl Why {
    /// Carries the command out.
    ///
    /// # Errors
    ///
    /// Neither a pod, nor an Evacuation of one, nor a drain has the name, or they cannot be read.
    pub async fn run(self) -> anyhow::Result<Exit> {
        let client = self.connection.client().await?;
        let page = match &self.subject {
            Subject::Pod(name) => {
                let page = pod::page(&client, name).await?;
                page.with_context(|| no_pod(&client, name))?
            }
            Subject::Drain(drain) => drain::page(&client, drain.current(&client).await?).await,
            Subject::Either(name) => match pod::page(&client, name).await? {
                Some(page) => page,
                None => either(&client, name).await?,
            },
        };
        let now = Now::of(self.connection.outages().is_led());
        let rendered = match self.output {
            Some(view) => view.render(&page.object, &page.names)?,
            None => None,
        };
        match rendered {
            Some(text) if text.is_empty() => {}
            Some(text) => say(text)?,
            None => tell((page.text)(self.output == Some(View::Wide), now))?,
        }
        Ok(Exit::Done)
    }
}

/// Returns the page of the drains of that name. No pod has it.
async fn either(client: &Client, name: &str) -> anyhow::Result<Page> {
    let drain = DrainRef::Either(name.to_owned());
    let found = drain.find(client).await;
    // A user who may not read drains asked about a pod.
    let found = found.with_context(|| no_pod(client, name))?;
    if matches!(&found, Found::OfNode(_, drains) if drains.is_empty()) {
        anyhow::bail!("{}; {}", no_pod(client, name), drain.nothing());
    }
    Ok(drain::page(client, found.current()).await)
}

fn no_pod(client: &Client, name: &str) -> String {
    format!("there is no pod {}/{name}", client.default_namespace())
}

/// Returns the Evacuation that is in progress, or else the one that was created last. Rehearsals move no pod.
pub(crate) fn newest(mut all: Vec<Evacuation>) -> Option<Evacuation> {
    all.retain(|e| !e.spec.rehearsal);
    let open = |e: &Evacuation| !e.status.as_ref().is_some_and(is_finished);
    all.sort_by_key(|e| (open(e), e.creation_timestamp()));
    all.pop()
}

/// Returns all Evacuations that the server can read, if the caller may list them.
async fn evacuations(client: &Client) -> Vec<Evacuation> {
    let all = readable(&Api::<Evacuation>::all(client.clone())).await;
    all.map(|all| all.items).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_says_what_the_question_is_about() {
        let name = || "a".to_owned();
        for (text, expected) in [
            ("a", Some(Subject::Either(name()))),
            ("pod/a", Some(Subject::Pod(name()))),
            ("node/a", Some(Subject::Drain(DrainRef::Node(name())))),
            ("nodeevac/a", Some(Subject::Drain(DrainRef::Drain(name())))),
            ("node/", None),
        ] {
            assert_eq!(subject(text).ok(), expected, "{text}");
        }
        let error = subject("service/a").unwrap_err();
        assert_eq!(error, "only pods, nodes and nodeevacuations can be asked about, not service");
    }
}
