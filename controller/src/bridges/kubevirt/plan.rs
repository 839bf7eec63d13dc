//! Plan of the responder for one pod of a virtual machine, that is of a VirtualMachineInstance.

use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};
use evacuation_api::Answer::{self, Accept, Delay, Refuse};
use evacuation_api::from_condition_time;
use k8s_openapi::api::core::v1::Pod;
use kube::{ResourceExt, core::DynamicObject};

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

/// Time of the next look if nothing changes before.
type Until = Option<DateTime<Utc>>;

/// Plan of the responder.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Plan {
    /// Create the migration of that name.
    Create(String),
    /// Reply, and look again at that time at the latest.
    Say(Reply, Until),
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
    let ours = migrations.iter().filter_map(|known| Some((attempt(part, known)?, known.as_ref())));
    let last = ours.max_by_key(|(attempt, _)| *attempt);
    let node = text(&machine.data, "/status/nodeName");
    let ends = machine.metadata.deletion_timestamp.is_some() || has_ended(machine);
    let arrives = pod.labels().contains_key(TARGET) && unfinished.is_some();
    let moved = !node.is_empty() && node_name(pod).is_some_and(|known| known != node)
        || last.is_some_and(|(_, last)| text(&last.data, "/status/phase") == "Succeeded");
    let movable = list(&machine.data, "/status/conditions").iter().find(|it| it["type"] == "LiveMigratable");
    let can_move = unfinished.is_some() || movable.is_some_and(|known| known["status"] == "True");
    match text(&machine.data, "/spec/evictionStrategy") {
        _ if ends => say(Accept, "MachineEnds", "the virtual machine stops", None),
        _ if arrives => say(Delay, "MigrationTarget", "a migration moves the machine to this pod", None),
        _ if moved => migrated(machine, now),
        "External" => say(Accept, "External", "another controller migrates; the eviction signals it", None),
        "LiveMigrate" | "LiveMigrateIfPossible" if can_move => match unfinished {
            Some(migration) => wait(migration),
            None => migrate(part, machine, last, now),
        },
        "LiveMigrate" => {
            let unknown = "KubeVirt has not found out whether it can be migrated".to_owned();
            let why = |known| format!("{}: {}", text(known, "/reason"), text(known, "/message"));
            say(Refuse, "NotLiveMigratable", movable.map_or(unknown, why), None)
        }
        _ => say(Accept, "NoMigration", "the machine's eviction strategy lets it shut down", None),
    }
}

/// Waits for a migration, and tells of the condition by which KubeVirt holds it back.
fn wait(migration: &DynamicObject) -> Plan {
    let holds = |kind: &str| kind.starts_with("migrationRejected") || kind.starts_with("migrationBlocked");
    let mut conditions = list(&migration.data, "/status/conditions").iter();
    let held = conditions.find(|known| known["status"] == "True" && holds(text(known, "/type")));
    let held = held.map(|known| format!(" ({})", text(known, "/type"))).unwrap_or_default();
    say(Delay, "Migrating", format!("{WAITS}{}{held}", migration.name_any()), None)
}

/// The last attempt of the bridge, with its number.
type Last<'a> = Option<(u32, &'a DynamicObject)>;

/// Creates the next migration, unless the last one failed or was deleted not long ago.
fn migrate(part: Part<'_>, machine: &DynamicObject, last: Last<'_>, now: DateTime<Utc>) -> Plan {
    let (recorded, soon) = (part.responder, after(now, RETRY_SECONDS));
    let is_missing = |name: &&str| last.is_none_or(|(_, last)| last.name_any() != **name);
    if let Some(name) = waited_for(part).filter(is_missing) {
        // To create it again would not be what the user wants.
        return say(Refuse, DELETED, format!("migration {name} was deleted"), Some(soon));
    }
    let is_refused = recorded.answer == Some(Refuse) && recorded.reason.as_deref() == Some(DELETED);
    let retry = recorded.answer_time.filter(|_| is_refused).map(|time| after(time.0, RETRY_SECONDS));
    if retry.is_some_and(|retry| now < retry) {
        return say(Refuse, DELETED, recorded.message.clone().unwrap_or_default(), retry);
    }
    let Some((attempt, failed)) = last else { return create(part, 1) };
    let pause = BACKOFF * (1 << attempt.clamp(1, ATTEMPTS).saturating_sub(1));
    let retry = failed_at(failed).map(|time| time + pause.min(TimeDelta::seconds(RETRY_SECONDS)));
    if retry.is_none_or(|retry| retry <= now) {
        return create(part, attempt + 1);
    }
    let is_its =
        text(&machine.data, "/status/migrationState/migrationUid") == failed.uid().unwrap_or_default();
    let why = Some(text(&machine.data, "/status/migrationState/failureReason"));
    let why = why.filter(|why| is_its && !why.is_empty()).unwrap_or("KubeVirt names no reason");
    let answer = if attempt < ATTEMPTS { Delay } else { Refuse };
    say(answer, "MigrationFailed", format!("migration {} failed: {why}", failed.name_any()), retry)
}

/// Waits for the end of the source pod, which KubeVirt completes. A side-car can keep it alive.
fn migrated(machine: &DynamicObject, now: DateTime<Utc>) -> Plan {
    let end: Until = text(&machine.data, "/status/migrationState/endTimestamp").parse().ok();
    let until = end.map(|end| end + SOURCE_ENDS);
    if until.is_some_and(|until| until <= now) {
        return say(Accept, "Migrated", "the machine is on another node, and its old pod does not end", None);
    }
    say(Delay, "Migrated", "the machine is on another node; its old pod ends", until)
}

/// Replies, and looks again at that time at the latest. A refusal is to be asked again then.
pub(super) fn say(answer: Answer, reason: &'static str, message: impl Into<String>, until: Until) -> Plan {
    let (message, retry_after) = (message.into(), until.map(|_| RETRY_SECONDS));
    let reply = match answer {
        Accept => Reply::Accept { reason, message },
        Delay => Reply::Delay { reason, message },
        Refuse => Reply::Refuse { reason, message, retry_after },
    };
    Plan::Say(reply, until)
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
    migration.name_any().strip_prefix(&prefix(part))?.parse().ok().filter(|number| *number < u32::MAX)
}

/// Returns the name of our migration for which the recorded delay waits.
pub(super) fn waited_for(part: Part<'_>) -> Option<&str> {
    part.responder.answer.filter(|answer| *answer == Delay)?;
    let name = part.responder.message.as_deref()?.strip_prefix(WAITS)?.split(' ').next()?;
    name.starts_with(&prefix(part)).then_some(name)
}

/// Returns true for a machine or a migration that has ended.
pub(super) fn has_ended(object: &DynamicObject) -> bool {
    ["Succeeded", "Failed"].contains(&text(&object.data, "/status/phase"))
}

/// Returns the time at which a migration failed, or was created.
fn failed_at(migration: &DynamicObject) -> Option<DateTime<Utc>> {
    let mut phases = list(&migration.data, "/status/phaseTransitionTimestamps").iter();
    let failed = phases.find(|item| item["phase"] == "Failed");
    let created = migration.metadata.creation_timestamp.as_ref().map(from_condition_time);
    failed.and_then(|item| text(item, "/phaseTransitionTimestamp").parse().ok()).or(created)
}

#[cfg(test)]
mod tests;
