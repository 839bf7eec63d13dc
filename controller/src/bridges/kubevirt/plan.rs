//! Plan of the responder for one pod of a virtual machine, that is of a VirtualMachineInstance.

use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};
use evacuation_api::{Answer, from_condition_time};
use k8s_openapi::api::core::v1::Pod;
use kube::{ResourceExt, core::DynamicObject};
use serde_json::Value;

use crate::{
    bridges::text::{list, text},
    builtin::{Part, Reply, after},
    cluster::node_name,
};

/// Label of a migration with the UID of the Evacuation for which the bridge created it.
pub(super) const EVACUATION_UID: &str = "kubevirt.evacuation.dev/evacuation-uid";
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
/// Reason of the refusal after a user deleted the migration.
const DELETED: &str = "MigrationDeleted";

/// Plan of the responder.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Plan {
    /// Create the migration of that name.
    Create(String),
    /// Answer, and look again at that time at the latest.
    Answer(Reply, Option<DateTime<Utc>>),
}

/// Returns the plan for a pod of a machine. `migrations` are those of the machine.
pub(super) fn plan(
    part: Part<'_>,
    pod: &Pod,
    machine: &DynamicObject,
    migrations: &[Arc<DynamicObject>],
    now: DateTime<Utc>,
) -> Plan {
    let unfinished = migrations.iter().find(|migration| !has_ended(migration));
    let ours =
        migrations.iter().filter_map(|migration| Some((attempt(part, migration)?, migration.as_ref())));
    let last = ours.max_by_key(|(attempt, _)| *attempt);
    let node = text(machine, "/status/nodeName");
    let ends = machine.metadata.deletion_timestamp.is_some() || has_ended(machine);
    let arrives = pod.labels().contains_key(TARGET) && unfinished.is_some();
    let moved = !node.is_empty() && node_name(pod).is_some_and(|known| known != node)
        || last.is_some_and(|(_, last)| text(last, "/status/phase") == "Succeeded");
    let conditions = list(machine, "/status/conditions");
    let condition = conditions.iter().find(|known| known["type"] == "LiveMigratable");
    let can_move = unfinished.is_some() || condition.is_some_and(|known| known["status"] == "True");
    match text(machine, "/spec/evictionStrategy") {
        _ if ends => accept("MachineEnds", "the virtual machine stops"),
        _ if arrives => delay("MigrationTarget", "a migration moves the machine to this pod", None),
        _ if moved => migrated(machine, now),
        "External" => accept("External", "another controller migrates the machine; the eviction signals it"),
        "LiveMigrate" | "LiveMigrateIfPossible" if can_move => match unfinished {
            Some(migration) => wait(migration),
            None => migrate(part, machine, last, now),
        },
        "LiveMigrate" => {
            let unknown = "KubeVirt has not found out whether it can be migrated".to_owned();
            let why = |known| format!("{}: {}", string(known, "reason"), string(known, "message"));
            refuse("NotLiveMigratable", condition.map_or(unknown, why), None, None)
        }
        _ => accept("NoMigration", "the machine's eviction strategy lets it shut down"),
    }
}

/// Waits for a migration, and tells of the condition by which KubeVirt holds it back.
fn wait(migration: &DynamicObject) -> Plan {
    let holds = |kind: &str| kind.starts_with("migrationRejected") || kind.starts_with("migrationBlocked");
    let mut conditions = list(migration, "/status/conditions").iter();
    let held = conditions.find(|known| known["status"] == "True" && holds(string(known, "type")));
    let held = held.map(|known| format!(" ({})", string(known, "type"))).unwrap_or_default();
    delay("Migrating", format!("{WAITS}{}{held}", migration.name_any()), None)
}

/// Creates the next migration, unless the last one failed or was deleted not long ago.
fn migrate(
    part: Part<'_>,
    machine: &DynamicObject,
    last: Option<(u32, &DynamicObject)>,
    now: DateTime<Utc>,
) -> Plan {
    let (recorded, retry_after) = (part.responder, Some(RETRY_SECONDS));
    if let Some(name) = waited_for(part).filter(|name| last.is_none_or(|(_, last)| last.name_any() != *name))
    {
        // To create it again would not be what the user wants.
        return refuse(DELETED, format!("migration {name} was deleted"), retry_after, None);
    }
    let is_refused = recorded.answer == Some(Answer::Refuse) && recorded.reason.as_deref() == Some(DELETED);
    let retry = recorded.answer_time.filter(|_| is_refused).map(|time| after(time.0, RETRY_SECONDS));
    if retry.is_some_and(|retry| now < retry) {
        return refuse(DELETED, recorded.message.clone().unwrap_or_default(), retry_after, retry);
    }
    let Some((attempt, failed)) = last else { return create(part, 1) };
    let retry = failed_at(failed).map(|time| time + pause(attempt));
    if retry.is_none_or(|retry| retry <= now) {
        return create(part, attempt + 1);
    }
    let is_known = text(machine, "/status/migrationState/migrationUid") == failed.uid().unwrap_or_default();
    let reason = Some(text(machine, "/status/migrationState/failureReason"));
    let reason = reason.filter(|why| is_known && !why.is_empty()).unwrap_or("KubeVirt names no reason");
    let message = format!("migration {} failed: {reason}", failed.name_any());
    if attempt < ATTEMPTS {
        delay("MigrationFailed", message, retry)
    } else {
        refuse("MigrationFailed", message, retry_after, retry)
    }
}

/// Waits for the end of the source pod, which KubeVirt completes. A side-car can keep it alive.
fn migrated(machine: &DynamicObject, now: DateTime<Utc>) -> Plan {
    let until = time(text(machine, "/status/migrationState/endTimestamp")).map(|end| end + SOURCE_ENDS);
    if until.is_some_and(|until| until <= now) {
        return accept(
            "Migrated",
            "the machine is on another node, and its old pod does not end: a side-car?",
        );
    }
    delay("Migrated", "the machine is on another node; its old pod ends", until)
}

/// Returns a plan that accepts.
pub(super) fn accept(reason: &'static str, message: &str) -> Plan {
    Plan::Answer(Reply::Accept { reason, message: message.to_owned() }, None)
}

/// Returns a plan that delays, and looks again at that time at the latest.
pub(super) fn delay(reason: &'static str, message: impl Into<String>, until: Option<DateTime<Utc>>) -> Plan {
    Plan::Answer(Reply::Delay { reason, message: message.into() }, until)
}

fn refuse(
    reason: &'static str,
    message: String,
    retry_after: Option<i64>,
    until: Option<DateTime<Utc>>,
) -> Plan {
    Plan::Answer(Reply::Refuse { reason, message, retry_after }, until)
}

/// Creates the migration of an attempt. Its name is the same after a crash.
fn create(part: Part<'_>, attempt: u32) -> Plan {
    Plan::Create(format!("{}{attempt}", prefix(part)))
}

fn prefix(part: Part<'_>) -> String {
    format!("evacuation-{}-", part.uid())
}

/// Returns the number of the attempt of a migration that the bridge created. `None` for those of others.
fn attempt(part: Part<'_>, migration: &DynamicObject) -> Option<u32> {
    migration.labels().get(EVACUATION_UID).filter(|uid| *uid == part.uid())?;
    migration.name_any().strip_prefix(&prefix(part))?.parse().ok()
}

/// Returns the name of our migration for which the recorded delay waits.
pub(super) fn waited_for(part: Part<'_>) -> Option<&str> {
    part.responder.answer.filter(|answer| *answer == Answer::Delay)?;
    let name = part.responder.message.as_deref()?.strip_prefix(WAITS)?.split(' ').next()?;
    name.starts_with(&prefix(part)).then_some(name)
}

/// Returns true for a machine or a migration that has ended.
pub(super) fn has_ended(object: &DynamicObject) -> bool {
    ["Succeeded", "Failed"].contains(&text(object, "/status/phase"))
}

/// Returns the time at which a migration failed, or was created.
fn failed_at(migration: &DynamicObject) -> Option<DateTime<Utc>> {
    let mut phases = list(migration, "/status/phaseTransitionTimestamps").iter();
    let failed = phases.find(|item| item["phase"] == "Failed");
    let created = migration.metadata.creation_timestamp.as_ref().map(from_condition_time);
    failed.and_then(|item| time(string(item, "phaseTransitionTimestamp"))).or(created)
}

/// Returns the pause after that many failed migrations.
fn pause(attempt: u32) -> TimeDelta {
    if attempt >= ATTEMPTS {
        TimeDelta::seconds(RETRY_SECONDS)
    } else {
        BACKOFF * (1 << attempt.saturating_sub(1))
    }
}

fn string<'a>(item: &'a Value, field: &str) -> &'a str {
    item.get(field).and_then(Value::as_str).unwrap_or_default()
}

fn time(text: &str) -> Option<DateTime<Utc>> {
    DateTime::parse_from_rfc3339(text).ok().map(|time| time.to_utc())
}

#[cfg(test)]
mod tests;
