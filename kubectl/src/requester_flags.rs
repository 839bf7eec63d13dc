//! The flags of a request to move pods.

use std::time::Duration;

use clap::{Args, ValueEnum};
use evacuation_api::{DeadlineAction, RefusalPolicy, Window};
use evacuation_client::Requester;
use kube::Client;

use crate::{connection::user_name, duration::duration};

/// Maximum length of the part of a requester's name after the slash.
const NAME_PART: usize = 253;

/// The flags of a requester's entry.
#[derive(Args, Debug)]
pub(crate) struct RequesterFlags {
    /// Name of the requester, such as repair.acme.io/rack-7; made from your user name by default.
    #[arg(long, value_name = "DOMAIN/NAME")]
    requester: Option<String>,
    #[command(flatten)]
    request: RequestFlags,
}

/// The flags of a request, whatever the name of its entry.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct RequestFlags {
    /// Reason in CamelCase for machines, such as NodeMaintenance.
    #[arg(long)]
    pub(crate) reason: Option<String>,
    /// Reason in words for people.
    #[arg(long)]
    pub(crate) message: Option<String>,
    /// Stop negotiating after this time, such as 10m or 1h30m.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(crate) deadline: Option<Duration>,
    /// Action at the deadline; evict by default.
    #[arg(long, value_enum, ignore_case = true, requires = "deadline")]
    pub(crate) at_deadline: Option<AtDeadline>,
    /// The grace period of the eviction, in seconds; the pod's own by default, and when negative.
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true)]
    pub(crate) grace_period: Option<i64>,
    /// Start only in a window that opens at these times, in cron's five fields, such as "0 22 * * 6".
    #[arg(long, value_name = "SCHEDULE", requires = "window_duration")]
    window: Option<String>,
    /// Duration of the window, such as 2h; a minute to seven days.
    #[arg(long, value_name = "DURATION", value_parser = duration, requires = "window")]
    window_duration: Option<Duration>,
    /// The time zone of the window, such as Europe/Berlin; UTC by default.
    #[arg(long, value_name = "ZONE", requires = "window")]
    time_zone: Option<String>,
}

/// Action at the deadline.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum AtDeadline {
    /// Skip the remaining responders and evict the pod, within its budgets.
    Evict,
    /// Delete the pod, without regard to its budgets.
    Delete,
    /// Leave the pod alone.
    #[value(name = "give-up", alias = "giveup")]
    GiveUp,
}

/// Consequence of a refusal.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub(crate) enum OnRefusal {
    /// Leave the pod alone.
    #[default]
    #[value(name = "give-up", alias = "giveup")]
    GiveUp,
    /// Wait: the app can change its answer.
    Wait,
    /// Continue with the next responder.
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
    /// Returns [`RequestFlags::warning`].
    pub(crate) fn warning(&self) -> Option<&'static str> {
        self.request.warning()
    }

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
        let flags = &self.request;
        let mut requester = Requester::new(client.clone(), name);
        if let Some(reason) = &flags.reason {
            requester = requester.reason(reason);
        }
        if let Some(message) = &flags.message {
            requester = requester.message(message);
        }
        if let Some(policy) = on_refusal {
            requester = requester.on_refusal(policy.into());
        }
        if let Some(after) = flags.deadline {
            requester = requester.deadline(after, flags.at_deadline.map(Into::into).unwrap_or_default());
        }
        if let Some(seconds) = flags.grace_period.filter(|seconds| *seconds >= 0) {
            requester = requester.grace_period_seconds(seconds);
        }
        if let Some(window) = flags.window() {
            requester = requester.window(window);
        }
        Ok(requester)
    }
}

impl RequestFlags {
    /// Returns the warning that a deletion passes budgets, as the server warns of a drain.
    pub(crate) fn warning(&self) -> Option<&'static str> {
        let deletes = matches!(self.at_deadline, Some(AtDeadline::Delete));
        deletes
            .then_some("--at-deadline delete: at the deadline pods are deleted, whatever their budgets say")
    }

    /// The window that the flags describe. Fractions of a second, which no window has, are dropped.
    pub(crate) fn window(&self) -> Option<Window> {
        let (schedule, open) = self.window.clone().zip(self.window_duration)?;
        Some(Window {
            schedule,
            duration_seconds: i64::try_from(open.as_secs()).unwrap_or(i64::MAX),
            time_zone: self.time_zone.clone(),
        })
    }
}

/// A user's name as the part of a qualified name after the slash. A name that is too long loses its start:
/// the end of a service account's name tells more.
pub(crate) fn name_part(user: &str) -> String {
    let allowed = |c: char| {
        if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '.' }
    };
    let name: String = user.chars().map(allowed).collect();
    let start = name.len().saturating_sub(NAME_PART);
    let ends = |c: char| !c.is_ascii_alphanumeric();
    let part = name.get(start..).unwrap_or_default().trim_matches(ends);
    if part.is_empty() { "anonymous".to_owned() } else { part.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_deletion_at_the_deadline_warns_of_budgets() {
        let warning = |at_deadline| RequestFlags { at_deadline, ..RequestFlags::default() }.warning();
        assert!(warning(Some(AtDeadline::Delete)).is_some_and(|text| text.contains("budgets")));
        assert_eq!((warning(Some(AtDeadline::Evict)), warning(None)), (None, None));
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
        assert_eq!(name_part(&"x".repeat(300)).len(), 253);
    }
}
