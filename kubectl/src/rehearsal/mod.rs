//! `kubectl evacuate test POD`
//!
//! # Flow
//!
//! The command creates a rehearsal: an Evacuation that asks each responder once, in a question marked as a
//! rehearsal, and never evicts. It shows each answer, and whether the responders acknowledge the end. The
//! rehearsal ends at its deadline also without the command.

mod account;

use std::time::Duration;

use anyhow::Context;
use clap::Args;
use evacuation_api::GROUP;
use evacuation_client::{EvacuationHandle, Requester};

use self::account::{Account, Outcome};
use crate::{
    Exit,
    connection::NamespacedConnection,
    duration::duration,
    moment::{Now, WAITS},
    output::say,
    pod_name::pod_name,
    requester_flags::name_part,
};

/// Time past its own end in which a rehearsal must have ended. A controller that works ends it at once.
const LATE: Duration = Duration::from_secs(15);
/// Time that the responders have to acknowledge the end.
const ACKNOWLEDGEMENT_TIME: Duration = Duration::from_secs(10);

/// Rehearse the evacuation of a pod: its app gets the question, marked as a rehearsal, and its answer is
/// judged and shown. The pod stays.
///
/// An app that does not look at the mark acts as if it were to move, and is then told that nobody wants it
/// to.
///
/// Exit codes: 0 if every responder gave a valid answer, whatever it was; 1 if one did not, or if nobody is
/// registered.
#[derive(Args, Debug)]
pub struct Test {
    /// Name of the pod, also as pod/NAME.
    #[arg(value_name = "POD", value_parser = pod_name)]
    pod: String,
    /// End the rehearsal after this time.
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = duration)]
    timeout: Duration,
    /// Reason in words, which the app sees.
    #[arg(long, default_value = "a rehearsal: the pod stays")]
    message: String,
    #[command(flatten)]
    connection: NamespacedConnection,
}

impl Test {
    /// Carries the command out. Ctrl-C cancels the rehearsal.
    ///
    /// # Errors
    ///
    /// The caller may not ask the pod, another rehearsal of it goes on, no controller works, or a responder
    /// gave no valid answer.
    pub async fn run(self) -> anyhow::Result<Exit> {
        let client = self.connection.client().await?;
        let namespace = client.default_namespace().to_owned();
        let user = crate::connection::user_name(&client).await?;
        let name = format!("kubectl.evacuation.dev/{}", name_part(&user));
        let requester = Requester::new(client, name).reason("Rehearsal").message(&self.message);
        let rehearsal = requester.rehearse(&namespace, &self.pod, self.timeout).await?;
        say(format_args!(
            "evacuation.{GROUP}/{}: rehearsal of pod {namespace}/{}, nothing is evicted",
            rehearsal.name(),
            self.pod
        ))?;
        tokio::select! {
            outcome = self.follow(&rehearsal) => self.conclude(outcome?),
            Ok(()) = tokio::signal::ctrl_c() => {
                cancel(&rehearsal).await?;
                eprintln!("interrupted: the rehearsal was canceled");
                Ok(Exit::Interrupted)
            }
        }
    }

    /// Shows what is new until the rehearsal has ended and the responders know.
    async fn follow(&self, rehearsal: &EvacuationHandle) -> anyhow::Result<Outcome> {
        let mut account = Account::default();
        let outages = self.connection.outages();
        let mut show = |evacuation: &_| {
            let news = account.news(evacuation, Now::of(outages.is_led()));
            news.iter().try_for_each(say).err().map(Err).or_else(|| Outcome::of(evacuation).map(Ok))
        };
        let limit = self.timeout.saturating_add(LATE);
        let found = tokio::select! {
            found = tokio::time::timeout(limit, rehearsal.until(&mut show)) => found,
            () = outages.until_leaderless() => {
                cancel(rehearsal).await?;
                anyhow::bail!(
                    "the rehearsal of pod {} {WAITS}, and was canceled; what helps: kubectl evacuate check",
                    self.pod
                );
            }
        };
        let outcome = match found {
            Ok(found) => found??,
            Err(_) => anyhow::bail!(
                "the rehearsal of pod {} has not ended although its time is over; what helps: kubectl evacuate check",
                self.pod
            ),
        };
        let mut known = |evacuation: &_| match show(evacuation) {
            Some(Err(error)) => Some(Err(error)),
            _ => account::all_acknowledged(evacuation).then_some(Ok(())),
        };
        match tokio::time::timeout(ACKNOWLEDGEMENT_TIME, rehearsal.until(&mut known)).await {
            Ok(told) => told??,
            Err(_) => say(format_args!(
                "no acknowledgement of the end within {} s: the app may believe that its pod is to move",
                ACKNOWLEDGEMENT_TIME.as_secs()
            ))?,
        }
        Ok(outcome)
    }

    fn conclude(&self, outcome: Outcome) -> anyhow::Result<Exit> {
        match outcome {
            Outcome::Passed(words) => {
                say(format_args!("passed: {words}"))?;
                Ok(Exit::Done)
            }
            Outcome::Failed(words) => anyhow::bail!("pod {} failed its rehearsal: {words}", self.pod),
        }
    }
}

async fn cancel(rehearsal: &EvacuationHandle) -> anyhow::Result<()> {
    let canceled = rehearsal.withdraw().await;
    canceled.with_context(|| format!("rehearsal {} cannot be canceled", rehearsal.name()))
}
