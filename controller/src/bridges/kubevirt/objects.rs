//! Parts of KubeVirt's objects that the bridge reads.

use chrono::{DateTime, Utc};
use evacuation_api::from_condition_time;
use k8s_openapi::api::core::v1::Pod;
use kube::{ResourceExt, core::DynamicObject};
use serde_json::Value;

use crate::bridges::text::fitting;

/// Label of a migration with the UID of the Evacuation for which the bridge created it.
pub(super) const EVACUATION_UID: &str = "kubevirt.evacuation.dev/evacuation-uid";
/// Annotation of a migration with the name of that Evacuation.
pub(super) const EVACUATION: &str = "kubevirt.evacuation.dev/evacuation";
/// Annotation of a migration with the name of that Evacuation's pod.
pub(super) const POD: &str = "kubevirt.evacuation.dev/pod";

/// Virtual machine, that is a VirtualMachineInstance.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Machine {
    pub(super) name: String,
    pub(super) strategy: String,
    pub(super) node: String,
    /// True when the machine stops or has stopped.
    pub(super) ends: bool,
    pub(super) migratable: bool,
    /// Reason for which the machine cannot be migrated.
    pub(super) obstacle: String,
    /// UID of the last migration that KubeVirt began.
    migration_uid: String,
    failure: String,
    /// End of that migration.
    pub(super) migrated_at: Option<DateTime<Utc>>,
}

impl Machine {
    /// Returns the parts of an object.
    pub(super) fn of(object: &DynamicObject) -> Self {
        let text = |path: &str| text(object, path);
        let conditions = object.data.pointer("/status/conditions").and_then(Value::as_array);
        let condition = conditions.into_iter().flatten().find(|known| known["type"] == "LiveMigratable");
        let of_condition =
            |field: &str| condition.and_then(|known| known.get(field)?.as_str()).unwrap_or_default();
        let obstacle = match condition {
            Some(_) => format!("{}: {}", of_condition("reason"), of_condition("message")),
            None => "KubeVirt has not found out whether it can be migrated".to_owned(),
        };
        Self {
            name: object.name_any(),
            strategy: text("/spec/evictionStrategy"),
            node: text("/status/nodeName"),
            ends: object.metadata.deletion_timestamp.is_some()
                || ["Succeeded", "Failed"].contains(&text("/status/phase").as_str()),
            migratable: of_condition("status") == "True",
            obstacle: fitting(&obstacle),
            migration_uid: text("/status/migrationState/migrationUid"),
            failure: fitting(&text("/status/migrationState/failureReason")),
            migrated_at: time(&text("/status/migrationState/endTimestamp")),
        }
    }

    /// Returns the reason of a migration's failure.
    pub(super) fn failure_of(&self, migration: &Migration) -> String {
        let known = self.migration_uid == migration.uid && !self.failure.is_empty();
        let why = if known { self.failure.as_str() } else { "KubeVirt names no reason" };
        format!("migration {} failed: {why}", migration.name)
    }
}

/// Migration, that is a VirtualMachineInstanceMigration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Migration {
    pub(super) name: String,
    uid: String,
    /// Number of the attempt for this Evacuation. `None` for a migration of others.
    pub(super) attempt: Option<u32>,
    pub(super) phase: String,
    /// Reason for which KubeVirt holds the migration back.
    pub(super) held_by: String,
    /// Time of the failure, or of the creation.
    pub(super) since: Option<DateTime<Utc>>,
}

impl Migration {
    /// Returns the parts of an object, for the Evacuation of that UID.
    pub(super) fn of(object: &DynamicObject, evacuation: &str) -> Self {
        let name = object.name_any();
        let ours = object.labels().get(EVACUATION_UID).is_some_and(|uid| uid == evacuation);
        let attempt =
            name.strip_prefix(&prefix(evacuation)).filter(|_| ours).and_then(|end| end.parse().ok());
        let list = |path: &str| object.data.pointer(path).and_then(Value::as_array).into_iter().flatten();
        let field = |item: &Value, field: &str| {
            item.get(field).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let ended = list("/status/phaseTransitionTimestamps").find(|item| field(item, "phase") == "Failed");
        let created = object.metadata.creation_timestamp.as_ref().map(from_condition_time);
        let held = list("/status/conditions").find(|item| {
            field(item, "status") == "True"
                && ["migrationRejected", "migrationBlocked"]
                    .iter()
                    .any(|kind| field(item, "type").starts_with(kind))
        });
        Self {
            name,
            uid: object.uid().unwrap_or_default(),
            attempt,
            phase: text(object, "/status/phase"),
            held_by: held.map(|item| fitting(&field(item, "type"))).unwrap_or_default(),
            since: ended.and_then(|item| time(&field(item, "phaseTransitionTimestamp"))).or(created),
        }
    }

    /// Returns true when the migration has ended.
    pub(super) fn is_final(&self) -> bool {
        ["Succeeded", "Failed"].contains(&self.phase.as_str())
    }
}

/// Returns the name of an attempt's migration. It is the same after a crash.
pub(super) fn migration_name(evacuation: &str, attempt: u32) -> String {
    format!("{}{attempt}", prefix(evacuation))
}

/// Returns the beginning of the names of an Evacuation's migrations.
pub(super) fn prefix(evacuation: &str) -> String {
    format!("evacuation-{evacuation}-")
}

/// Returns the name of the machine that a migration moves.
pub(super) fn machine_of(migration: &DynamicObject) -> String {
    text(migration, "/spec/vmiName")
}

/// Returns the name of the owner of a pod, if it is of that kind.
pub(super) fn owner<'a>(pod: &'a Pod, kind: &str) -> Option<&'a str> {
    let owners = pod.metadata.owner_references.iter().flatten();
    owners.into_iter().find(|owner| owner.kind == kind).map(|owner| owner.name.as_str())
}

/// Returns the label by which KubeVirt says what a pod is for.
pub(super) fn role(pod: &Pod) -> &str {
    pod.labels().get("kubevirt.io").map(String::as_str).unwrap_or_default()
}

fn text(object: &DynamicObject, path: &str) -> String {
    object.data.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn time(text: &str) -> Option<DateTime<Utc>> {
    DateTime::parse_from_rfc3339(text).ok().map(|time| time.to_utc())
}
