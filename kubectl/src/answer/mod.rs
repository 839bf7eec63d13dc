//! `kubectl evacuate answer EVACUATION ANSWER`
//!
//! # Flow
//!
//! The command finds the Evacuation and its Active responder, and posts the answer to `respond`. An answer of
//! `self` needs a token of the target pod: the command requests one that is bound to the pod, as a kubelet
//! does, and posts with it.

mod flags;
mod pod_token;
mod turn;

use std::fmt::Debug;

use anyhow::Context;
use evacuation_api::{
    Answer as Word, Evacuation, EvacuationResponse, EvacuationResponseSpec, EvacuationResponseStatus, GROUP,
    SELF_RESPONDER, SelfEvacuation,
};
use kube::{Api, Client, Resource, ResourceExt, api::PostParams, core::NamespaceResourceScope};
use serde::de::DeserializeOwned;

pub use self::flags::Answer;
use self::{flags::Whose, pod_token::pod_client, turn::turn};
use crate::{Exit, output::say, plain::plain, pod_evacuation::evacuation_of};

impl Answer {
    /// Carries the command out.
    ///
    /// # Errors
    ///
    /// The Evacuation does not exist, the responder is not Active, or the caller may not answer for it.
    pub async fn run(self) -> anyhow::Result<Exit> {
        let mut spec = self.spec().map_err(anyhow::Error::msg)?;
        let client = self.connection.client().await?;
        let evacuation = self.find(&client).await?;
        let responder = turn(&evacuation, self.as_responder.as_deref()).map_err(anyhow::Error::msg)?;
        spec.responder = Some(responder.clone());
        spec.evacuation_uid = evacuation.uid();
        spec.pod_uid.clone_from(&evacuation.spec.target.pod.uid);
        let name = evacuation.name_any();
        let recorded = if responder == SELF_RESPONDER {
            let client = pod_client(&self.connection, &client, &evacuation).await?;
            post::<SelfEvacuation>(client, &name, spec.clone()).await
        } else {
            post::<Evacuation>(client, &name, spec.clone()).await
        };
        let recorded =
            recorded.with_context(|| format!("the answer of responder {responder} was not recorded"))?;
        say(format_args!("evacuation.{GROUP}/{name}: {}", told(&responder, &spec, &recorded)))?;
        Ok(Exit::Done)
    }

    async fn find(&self, client: &Client) -> anyhow::Result<Evacuation> {
        let namespace = client.default_namespace().to_owned();
        let api: Api<Evacuation> = Api::default_namespaced(client.clone());
        match &self.evacuation {
            Whose::Evacuation(name) => {
                api.get(name).await.with_context(|| format!("evacuation {namespace}/{name} cannot be read"))
            }
            Whose::Pod(pod) => evacuation_of(client, pod).await?.with_context(|| {
                format!(
                    "nobody asks pod {namespace}/{pod} to move; to ask it: kubectl create evacuation -n \
                     {namespace} {pod}"
                )
            }),
        }
    }
}

/// Posts an answer to the subresource `respond` of a kind.
async fn post<K>(
    client: Client,
    name: &str,
    spec: EvacuationResponseSpec,
) -> kube::Result<EvacuationResponseStatus>
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()> + Clone + Debug + DeserializeOwned,
{
    let api: Api<K> = Api::default_namespaced(client);
    let response = EvacuationResponse::new(spec);
    let recorded: EvacuationResponse =
        api.create_subresource("respond", name, &PostParams::default(), &response).await?;
    Ok(recorded.status.unwrap_or_default())
}

/// Returns the recorded answer in words.
fn told(responder: &str, spec: &EvacuationResponseSpec, recorded: &EvacuationResponseStatus) -> String {
    let mut text = match spec.answer {
        Some(Word::Accept) => format!("{responder} answered Accept"),
        Some(Word::Refuse) => format!("{responder} answered Refuse"),
        Some(Word::Delay) => {
            let until =
                recorded.delay_until.map(|time| time.0.format(" until %Y-%m-%dT%H:%M:%SZ").to_string());
            format!("{responder} answered Delay{}", until.unwrap_or_default())
        }
        None => format!("{responder} answered"),
    };
    if let Some(message) = &recorded.message {
        text = format!("{text} ({message})");
    }
    plain(&text)
}
