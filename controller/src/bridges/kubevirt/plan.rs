//! Plan of the responder for one pod of a virtual machine.

use chrono::{DateTime, TimeDelta, Utc};
use evacuation_api::Answer;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;

use super::objects::{Machine, Migration, migration_name, prefix};
use crate::{
    bridges::text::fitting,
    builtin::{Part, Renewal, Reply, after},
    cluster::node_name,
};

/// Label of the pod to which a migration moves a machine.
const TARGET: &str = "kubevirt.io/migrationJobUID";
/// Number of failed migrations after which the responder refuses.
const ATTEMPTS: u32 = 5;
/// Pause after the first failed migration. It doubles each time.
const BACKOFF: TimeDelta = TimeDelta::seconds(20);
/// Seconds after a refusal until the responder tries again, if the requesters still wait.
const RETRY_SECONDS: i64 = 300;
/// Time that the source pod of a migration may take to end.
const SOURCE_ENDS: TimeDelta = TimeDelta::minutes(2);
/// Beginning of the message that names the migration for which a delay waits.
const WAITS: &str = "waiting for migration ";

/// Plan of the responder.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Plan {
    /// Migration to create.
    pub(super) create: Option<String>,
    /// Migration that was created, and that is missing. A live read confirms that it was deleted.
    pub(super) missing: Option<String>,
    /// Reply to post, after that.
    pub(super) reply: Option<Reply>,
    /// Time of the next look if nothing changes before.
    pub(super) wake_at: Option<DateTime<Utc>>,
}

/// Returns the plan for a pod of a machine. `migrations` are those of the machine.
pub(super) fn plan(
    part: Part<'_>,
    pod: &Pod,
    machine: &Machine,
    migrations: &[Migration],
    now: DateTime<Utc>,
) -> Plan {
    let unfinished = migrations.iter().find(|migration| !migration.is_final());
    let ours = migrations.iter().filter(|migration| migration.attempt.is_some());
    let last = ours.max_by_key(|migration| migration.attempt);
    let arrives = pod.labels().contains_key(TARGET) && unfinished.is_some();
    let runs = !machine.node.is_empty();
    let moved = runs && node_name(pod).is_some_and(|node| node != machine.node)
        || last.is_some_and(|last| last.phase == "Succeeded");
    match machine.strategy.as_str() {
        _ if machine.ends => accept("MachineEnds", "the virtual machine stops"),
        _ if arrives => delay(part, "MigrationTarget", "a migration moves the machine to this pod", now),
        _ if moved => migrated(part, machine, now),
        "External" => accept("External", "another controller migrates the machine; the eviction signals it"),
        "LiveMigrate" | "LiveMigrateIfPossible" if unfinished.is_some() || machine.migratable => {
            migrate(part, machine, unfinished, last, now)
        }
        "LiveMigrate" => refuse(part, "NotLiveMigratable", &machine.obstacle, None),
        _ => accept("NoMigration", "the machine's eviction strategy lets it shut down"),
    }
}

fn migrate(
    part: Part<'_>,
    machine: &Machine,
    unfinished: Option<&Migration>,
    last: Option<&Migration>,
    now: DateTime<Utc>,
) -> Plan {
    if let Some(migration) = unfinished {
        let held =
            if migration.held_by.is_empty() { String::new() } else { format!(" ({})", migration.held_by) };
        return delay(part, "Migrating", &format!("{WAITS}{}{held}", migration.name), now);
    }
    let waited = waited_for(part).filter(|name| last.is_none_or(|last| last.name != *name));
    if let Some(missing) = waited {
        return Plan { missing: Some(missing.to_owned()), ..Plan::default() };
    }
    let refused_until = (part.responder.answer == Some(Answer::Refuse)
        && part.responder.reason.as_deref() == Some("MigrationDeleted"))
    .then(|| part.responder.answer_time.map(|time| after(time.0, RETRY_SECONDS)))
    .flatten();
    if let Some(until) = refused_until.filter(|until| now < *until) {
        return Plan { wake_at: Some(until), ..Plan::default() };
    }
    let attempt = last.and_then(|last| last.attempt).unwrap_or_default();
    let retry = last.and_then(|last| last.since).map(|since| since + pause(attempt));
    match (last, retry) {
        (Some(failed), Some(retry)) if now < retry => {
            let why = machine.failure_of(failed);
            let plan = if attempt < ATTEMPTS {
                delay(part, "MigrationFailed", &why, now)
            } else {
                refuse(part, "MigrationFailed", &why, Some(RETRY_SECONDS))
            };
            let wake_at = plan.wake_at.map_or(retry, |wake_at| wake_at.min(retry));
            Plan { wake_at: Some(wake_at), ..plan }
        }
        _ => Plan { create: Some(migration_name(part.uid(), attempt + 1)), ..Plan::default() },
    }
}

/// Returns the plan for a migration that a user deleted: to create it again would not be what the user wants.
pub(super) fn deleted(part: Part<'_>, name: &str) -> Plan {
    refuse(part, "MigrationDeleted", &format!("migration {name} was deleted"), Some(RETRY_SECONDS))
}

/// Returns a plan that delays for lack of what the decision needs.
pub(super) fn delay(part: Part<'_>, reason: &'static str, message: &str, now: DateTime<Utc>) -> Plan {
    let message = fitting(message);
    let said =
        part.responder.answer == Some(Answer::Delay) && part.responder.message.as_deref() == Some(&message);
    match part.renewal(now) {
        Renewal::At(time) if said => Plan { wake_at: Some(time), ..Plan::default() },
        Renewal::Due | Renewal::At(_) => {
            Plan { reply: Some(Reply::Delay { reason, message }), ..Plan::default() }
        }
        Renewal::Exhausted => Plan::default(),
    }
}

/// Returns a plan that accepts.
pub(super) fn accept(reason: &'static str, message: &str) -> Plan {
    Plan { reply: Some(Reply::Accept { reason, message: message.to_owned() }), ..Plan::default() }
}

fn refuse(part: Part<'_>, reason: &'static str, message: &str, retry_after: Option<i64>) -> Plan {
    let message = fitting(message);
    let said =
        part.responder.answer == Some(Answer::Refuse) && part.responder.message.as_deref() == Some(&message);
    let reply = Reply::Refuse { reason, message, retry_after };
    Plan { reply: (!said).then_some(reply), ..Plan::default() }
}

/// Waits for the end of the source pod, which KubeVirt completes. A side-car can keep it alive.
fn migrated(part: Part<'_>, machine: &Machine, now: DateTime<Utc>) -> Plan {
    match machine.migrated_at.map(|ended| ended + SOURCE_ENDS) {
        Some(until) if until <= now => {
            accept("Migrated", "the machine is on another node, and its old pod does not end: a side-car?")
        }
        until => {
            let plan = delay(part, "Migrated", "the machine is on another node; its old pod ends", now);
            Plan { wake_at: [plan.wake_at, until].into_iter().flatten().min(), ..plan }
        }
    }
}

/// Returns the name of our migration for which the recorded delay waits.
fn waited_for(part: Part<'_>) -> Option<&str> {
    part.responder.answer.filter(|answer| *answer == Answer::Delay)?;
    let name = part.responder.message.as_deref()?.strip_prefix(WAITS)?.split(' ').next()?;
    name.starts_with(&prefix(part.uid())).then_some(name)
}

/// Returns the pause after that many failed migrations.
fn pause(attempt: u32) -> TimeDelta {
    if attempt >= ATTEMPTS {
        TimeDelta::seconds(RETRY_SECONDS)
    } else {
        BACKOFF * (1 << attempt.saturating_sub(1))
    }
}

#[cfg(test)]
mod tests;
