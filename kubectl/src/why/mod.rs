//! `kubectl evacuate why POD`

mod text;

use anyhow::Context;
use clap::Args;
use evacuation_api::{ConditionType, Evacuation};
use evacuation_protocol::{Standing, Surroundings, is_finished};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{Api, Client, ResourceExt, api::ListParams};

use self::text::Page;
use crate::{
    Exit, connection::NamespacedConnection, output::say, pod_name::pod_name, surroundings::surroundings,
};

/// Show why a pod has not moved: who asks, the answers, what holds it, and what helps.
#[derive(Args, Debug)]
pub struct Why {
    /// Name of the pod, also as pod/NAME.
    #[arg(value_name = "POD", value_parser = pod_name)]
    pod: String,
    #[command(flatten)]
    connection: NamespacedConnection,
}

impl Why {
    /// Carries the command out.
    ///
    /// # Errors
    ///
    /// Neither the pod nor an Evacuation of it exists, or they cannot be read.
    pub async fn run(self) -> anyhow::Result<Exit> {
        let client = self.connection.client().await?;
        let namespace = client.default_namespace().to_owned();
        let full = format!("{namespace}/{}", self.pod);
        let pod: Option<Pod> = Api::default_namespaced(client.clone())
            .get_opt(&self.pod)
            .await
            .with_context(|| format!("pod {full} cannot be read"))?;
        let evacuations: Api<Evacuation> = Api::default_namespaced(client.clone());
        let of_pod = ListParams::default().fields(&format!("spec.target.pod.name={}", self.pod));
        let evacuations = evacuations.list(&of_pod).await;
        let evacuations =
            evacuations.with_context(|| format!("evacuations of pod {full} cannot be listed"))?;
        let Some(pod) = pod else {
            let last = newest(evacuations.items).with_context(|| format!("there is no pod {full}"))?;
            say(Page::gone(&full, &last))?;
            return Ok(Exit::Done);
        };
        let of_this = evacuations.items.into_iter().filter(|e| e.spec.target.pod.uid == pod.uid());
        let evacuation = newest(of_this.collect());
        // Without the rights to read budgets or the node the rest still helps.
        let surroundings = match surroundings(&client, &namespace).await {
            Ok(surroundings) => surroundings,
            Err(error) => {
                eprintln!("warning: {}", crate::complaint::complaint(&error));
                Surroundings::default()
            }
        };
        let node = node_of(&client, &pod).await;
        let standing = standing(&pod, evacuation.as_ref());
        let page = Page {
            pod: &pod,
            evacuation: evacuation.as_ref(),
            seen: surroundings.drained(&pod, standing, node.as_ref()),
            obstacle: surroundings.obstacle(&pod, None, chrono::Utc::now()),
        };
        say(page.render(chrono::Utc::now()))?;
        Ok(Exit::Done)
    }
}

/// Returns the Evacuation that is in progress, or else the one that was created last.
pub(crate) fn newest(mut all: Vec<Evacuation>) -> Option<Evacuation> {
    let open = |e: &Evacuation| !e.status.as_ref().is_some_and(is_finished);
    all.sort_by_key(|e| (open(e), e.creation_timestamp()));
    all.pop()
}

/// Returns the progress of the requests with a pod.
fn standing<'a>(pod: &Pod, evacuation: Option<&'a Evacuation>) -> Standing<'a> {
    match evacuation {
        Some(open) if !open.status.as_ref().is_some_and(is_finished) => Standing::Asked(open),
        _ if pod.metadata.deletion_timestamp.is_some() => Standing::Leaving,
        Some(ended) if ended.status.as_ref().is_some_and(|s| s.is_true(ConditionType::Failed)) => {
            Standing::LeftAlone(ended)
        }
        _ => Standing::Waiting,
    }
}

async fn node_of(client: &Client, pod: &Pod) -> Option<Node> {
    let name = pod.spec.as_ref()?.node_name.as_ref()?;
    Api::<Node>::all(client.clone()).get_opt(name).await.ok()?
}
