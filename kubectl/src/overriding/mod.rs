//! `kubectl evacuate override POD`
//!
//! # Flow
//!
//! The command finds the active Evacuation of the pod, and shows what its responders answered. It then sets
//! `onRefusal: Override` in the caller's entry, or adds an entry of the caller with it. The hardest policy of
//! all entries counts.

mod account;

use anyhow::Context;
use clap::Args;
use evacuation_api::{Evacuation, GROUP, PodTarget, RefusalPolicy, Requester as Entry};
use evacuation_client::Requester;
use evacuation_protocol::is_kept;
use kube::{Client, ResourceExt};
use serde_json::{Map, json};

use self::account::Account;
use crate::{
    Exit,
    connection::{NamespacedConnection, user_name},
    moment::Now,
    output::say,
    pod_evacuation::active,
    pod_name::pod_name,
    requester_flags::name_part,
    set::{EntryKey, write},
};

/// Continue past the refusal of a pod's app: the next responder is asked, and then the pod is evicted within
/// its budgets.
///
/// The command changes your request for the pod, or adds one. A delay that was granted still holds.
#[derive(Args, Debug)]
pub struct Override {
    /// Name of the pod, also as pod/NAME.
    #[arg(value_name = "POD", value_parser = pod_name)]
    pod: String,
    /// Reason in words for people, for a request that is added.
    #[arg(long)]
    message: Option<String>,
    #[command(flatten)]
    connection: NamespacedConnection,
}

impl Override {
    /// Carries the command out.
    ///
    /// # Errors
    ///
    /// Nobody asks the pod, or the caller may not ask it.
    pub async fn run(self) -> anyhow::Result<Exit> {
        let client = self.connection.client().await?;
        let evacuation = active(&client, &self.pod, " --on-refusal=override").await?;
        let account = Account::of(&evacuation);
        let outages = self.connection.outages();
        for line in account.answers(Now::of(outages.is_led())) {
            say(line)?;
        }
        if account.all_done() {
            let namespace = client.default_namespace();
            let pod = &self.pod;
            say(format_args!("nothing to override: no responder has to answer any more"))?;
            say(format_args!("to see what holds the pod: kubectl evacuate why {pod} -n {namespace}"))?;
            return Ok(Exit::Done);
        }
        let user = user_name(&client).await?;
        let (name, overridden, what) = if let Some(entry) = own(&evacuation, &user) {
            (entry.name.clone(), self.change(&client, &evacuation, entry).await?, "changed")
        } else {
            let name = format!("kubectl.evacuation.dev/{}", name_part(&user));
            (name.clone(), self.join(&client, &evacuation, name).await?, "added")
        };
        let object = format!("evacuation.{GROUP}/{}", evacuation.name_any());
        say(format_args!("{object}: request {name} of {user} {what}: on refusal Override"))?;
        for line in Account::of(&overridden).outlook(client.default_namespace(), Now::of(outages.is_led())) {
            say(line)?;
        }
        if what == "added" {
            say("your request stays when the others are taken back")?;
        }
        Ok(Exit::Done)
    }

    async fn change(
        &self,
        client: &Client,
        evacuation: &Evacuation,
        entry: &Entry,
    ) -> anyhow::Result<Evacuation> {
        let key = EntryKey { owner: entry.owner.clone(), name: entry.name.clone() };
        let fields = Map::from_iter([("onRefusal".to_owned(), json!(RefusalPolicy::Override))]);
        write(client, evacuation.clone(), &key, fields).await
    }

    async fn join(
        &self,
        client: &Client,
        evacuation: &Evacuation,
        name: String,
    ) -> anyhow::Result<Evacuation> {
        let mut requester = Requester::new(client.clone(), name).on_refusal(RefusalPolicy::Override);
        if let Some(message) = &self.message {
            requester = requester.message(message);
        }
        let target = PodTarget { name: self.pod.clone(), uid: evacuation.spec.target.pod.uid.clone() };
        let joined = requester.evacuate_target(client.default_namespace(), &target).await;
        let joined =
            joined.with_context(|| format!("evacuation {} cannot be joined", evacuation.name_any()))?;
        Ok(joined.object().clone())
    }
}

/// Returns an entry of that user that stays as a person writes it.
fn own<'e>(evacuation: &'e Evacuation, user: &str) -> Option<&'e Entry> {
    evacuation.spec.requesters.iter().find(|entry| entry.owner == user && !is_kept(&entry.name))
}
