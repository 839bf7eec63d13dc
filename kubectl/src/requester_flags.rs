//! The flags that make a requester's entry.

use std::time::Duration;

use clap::{Args, ValueEnum};
use evacuation_api::{DeadlineAction, RefusalPolicy};
use evacuation_client::Requester;
use kube::Client;

use crate::connection::user_name;

/// The longest name part that Kubernetes allows after the slash of a qualified name.
const NAME_PART: usize = 63;

/// Who wants the pods moved, and how hard.
#[derive(Args, Debug)]
pub(crate) struct RequesterFlags {
    /// The requester's name, such as repair.acme.io/rack-7; made from your user name by default.
    #[arg(long, value_name = "DOMAIN/NAME")]
    requester: Option<String>,
    /// Why, in CamelCase for machines, such as NodeMaintenance.
    #[arg(long)]
    reason: Option<String>,
    /// Why, in words for people.
    #[arg(long)]
    message: Option<String>,
    /// Stop negotiating after this time, such as 10m or 1h30m.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    deadline: Option<Duration>,
    /// What happens at the deadline; evict by default.
    #[arg(long, value_enum, ignore_case = true, requires = "deadline")]
    at_deadline: Option<AtDeadline>,
    /// The grace period of the eviction, in seconds; the pod's own by default.
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(i64).range(0..))]
    grace_period: Option<i64>,
}

/// What happens at the deadline.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum AtDeadline {
    /// Skip the responders that are left and evict the pod, within its budgets.
    Evict,
    /// Delete the pod, whatever its budgets say.
    Delete,
    /// Leave the pod alone.
    #[value(name = "give-up", alias = "giveup")]
    GiveUp,
}

/// What happens when a responder refuses.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum OnRefusal {
    /// Leave the pod alone.
    #[value(name = "give-up", alias = "giveup")]
    GiveUp,
    /// Wait: the app may still change its mind.
    Wait,
    /// Go on to the next responder.
    Override,
}

impl From<OnRefusal> for RefusalPolicy {
    fn from(policy: OnRefusal) -> Self {
        match policy {
            OnRefusal::GiveUp => Self::GiveUp,
            OnRefusal::Wait => Self::Wait,
            OnRefusal::Override => Self::Override,
        }
    }
}

impl From<AtDeadline> for DeadlineAction {
    fn from(action: AtDeadline) -> Self {
        match action {
            AtDeadline::Evict => Self::Evict,
            AtDeadline::Delete => Self::Delete,
            AtDeadline::GiveUp => Self::GiveUp,
        }
    }
}

impl RequesterFlags {
    /// The requester that the flags describe. `default_name` makes its name from the caller's user name.
    pub(crate) async fn requester(
        &self,
        client: &Client,
        on_refusal: Option<OnRefusal>,
        default_name: impl FnOnce(&str) -> String,
    ) -> anyhow::Result<Requester> {
        let name = match &self.requester {
            Some(name) => name.clone(),
            None => default_name(&user_name(client).await?),
        };
        let mut requester = Requester::new(client.clone(), name);
        if let Some(reason) = &self.reason {
            requester = requester.reason(reason);
        }
        if let Some(message) = &self.message {
            requester = requester.message(message);
        }
        if let Some(policy) = on_refusal {
            requester = requester.on_refusal(policy.into());
        }
        if let Some(after) = self.deadline {
            requester = requester.deadline(after, self.at_deadline.map(Into::into).unwrap_or_default());
        }
        if let Some(seconds) = self.grace_period {
            requester = requester.grace_period_seconds(seconds);
        }
        Ok(requester)
    }
}

/// A duration as kubectl's flags take it: `10m`, `1h30m`, `90s`.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    match humantime::parse_duration(text) {
        Ok(time) if time.is_zero() => Err("must be longer than zero".to_owned()),
        Ok(time) => Ok(time),
        Err(error) => Err(format!("not a duration such as 10m or 1h30m: {error}")),
    }
}

/// A user's name as the part of a qualified name after the slash.
pub(crate) fn name_part(user: &str) -> String {
    let allowed = |c: char| {
        if c.is_ascii_alphanumeric() || "-_.".contains(c) {
            c
        } else {
            '.'
        }
    };
    let name: String = user.chars().map(allowed).collect();
    let start = name.len().saturating_sub(NAME_PART);
    let ends = |c: char| !c.is_ascii_alphanumeric();
    // The end of a service account's name tells more than its start.
    let part = name.get(start..).unwrap_or_default().trim_matches(ends);
    if part.is_empty() {
        "anonymous".to_owned()
    } else {
        part.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_read_as_kubectl_reads_it_and_a_bad_one_is_explained() {
        assert_eq!(duration("1h30m"), Ok(Duration::from_mins(90)));
        assert_eq!(duration("90s"), Ok(Duration::from_secs(90)));
        for bad in ["", "10", "ten minutes", "0s"] {
            assert!(duration(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_user_name_becomes_a_valid_name_part() {
        for (user, part) in [
            ("alice", "alice"),
            ("system:admin", "system.admin"),
            ("system:serviceaccount:shop:db", "system.serviceaccount.shop.db"),
            ("alice@acme.io", "alice.acme.io"),
            ("::", "anonymous"),
        ] {
            assert_eq!(name_part(user), part);
        }
        assert!(name_part(&"x:".repeat(60)).len() <= NAME_PART);
    }
}
