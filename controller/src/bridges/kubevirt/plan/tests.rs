use evacuation_api::{Evacuation, MIGRATE_RESPONDER};
use serde_json::{Value, json};

use super::{
    super::{MACHINE, MIGRATION},
    *,
};
use crate::builtin::testing::{at, evacuation, merge, time};

fn object(value: Value) -> DynamicObject {
    serde_json::from_value(value).unwrap()
}

/// A machine on node `a` that can be migrated, with further fields.
fn machine(patch: &Value) -> DynamicObject {
    let mut machine = json!({
        "metadata": {"name": "vm"},
        "spec": {"evictionStrategy": "LiveMigrate"},
        "status": {"nodeName": "a", "phase": "Running", "conditions": [{"type": "LiveMigratable", "status": "True"}]},
    });
    merge(&mut machine, patch);
    MACHINE.pruned(object(machine))
}

/// A migration of the Evacuation, which was created at `created` seconds.
fn migration(attempt: u32, phase: &str, created: i64) -> Arc<DynamicObject> {
    let metadata = json!({
        "name": format!("evacuation-e-uid-{attempt}"), "uid": format!("m{attempt}"),
        "labels": {"kubevirt.evacuation.dev/evacuation-uid": "e-uid"}, "creationTimestamp": time(created),
    });
    Arc::new(MIGRATION.pruned(object(json!({"metadata": metadata, "status": {"phase": phase}}))))
}

fn pod(labels: &Value) -> Pod {
    serde_json::from_value(json!({
        "metadata": {"name": "p", "uid": "p1", "labels": labels}, "spec": {"nodeName": "a", "containers": []},
    }))
    .unwrap()
}

fn asked(answer: &Value) -> Evacuation {
    evacuation("e", MIGRATE_RESPONDER, answer)
}

fn word(machine: &DynamicObject, migrations: &[Arc<DynamicObject>], answer: &Value, now: i64) -> String {
    let (evacuation, pod) = (asked(answer), pod(&json!({})));
    let part = Part::of(&evacuation, MIGRATE_RESPONDER).unwrap();
    let plan = plan(part, &pod, machine, migrations, at(now));
    let reply = match plan {
        Plan::Create(name) => return format!("create {name}"),
        Plan::Say(reply, _) => reply.due(part, at(now)).0,
    };
    match reply {
        Some(Reply::Accept { reason, .. }) => format!("accept {reason}"),
        Some(Reply::Delay { reason, message }) => format!("delay {reason}: {message}"),
        Some(Reply::Refuse { reason, message, .. }) => format!("refuse {reason}: {message}"),
        _ => "wait".to_owned(),
    }
}

#[test]
fn the_eviction_strategy_decides_as_kubevirts_own_webhook_does() {
    let not = json!({"status": {"conditions": [
        {"type": "LiveMigratable", "status": "False", "reason": "DisksNotLiveMigratable", "message": "a local disk"},
    ]}});
    let strategy = |name: &str, fixed: bool| {
        let mut patch = if fixed { not.clone() } else { json!({}) };
        merge(&mut patch, &json!({"spec": {"evictionStrategy": name}}));
        machine(&patch)
    };
    let create = "create evacuation-e-uid-1";
    let table = [
        ("LiveMigrate", false, create),
        ("LiveMigrate", true, "refuse NotLiveMigratable: DisksNotLiveMigratable: a local disk"),
        ("LiveMigrateIfPossible", false, create),
        ("LiveMigrateIfPossible", true, "accept NoMigration"),
        ("None", false, "accept NoMigration"),
        ("", true, "accept NoMigration"),
        ("External", false, "accept External"),
        ("External", true, "accept External"),
    ];
    for (name, fixed, expected) in table {
        assert_eq!(word(&strategy(name, fixed), &[], &json!({}), 0), expected, "{name} {fixed}");
    }
    assert_eq!(
        word(&machine(&json!({"status": {"phase": "Failed"}})), &[], &json!({}), 0),
        "accept MachineEnds"
    );
    let starting = machine(&json!({"status": {"nodeName": "", "conditions": []}}));
    let unknown = "refuse NotLiveMigratable: KubeVirt has not found out whether it can be migrated";
    assert_eq!(word(&starting, &[], &json!({}), 0), unknown, "the machine starts");
}

#[test]
fn one_migration_at_a_time_is_waited_for_whoever_created_it() {
    let waiting = "delay Migrating: waiting for migration evacuation-e-uid-1";
    let machine = machine(&json!({}));
    assert_eq!(word(&machine, &[migration(1, "Pending", 0)], &json!({}), 0), waiting);
    let others = object(json!({"metadata": {"name": "users", "uid": "u"}, "status": {"phase": "Running"}}));
    assert_eq!(
        word(&machine, &[Arc::new(others)], &json!({}), 0),
        "delay Migrating: waiting for migration users"
    );
    let quota = json!([{"type": "migrationRejectedByResourceQuota", "status": "True"}]);
    let held = json!({"metadata": {"name": "q"}, "status": {"phase": "Pending", "conditions": quota}});
    let held = Arc::new(MIGRATION.pruned(object(held)));
    let text = "delay Migrating: waiting for migration q (migrationRejectedByResourceQuota)";
    assert_eq!(word(&machine, &[held], &json!({}), 0), text);
    let said = json!({"answer": "Delay", "delayUntil": time(120), "message": "waiting for migration evacuation-e-uid-1"});
    assert_eq!(word(&machine, &[migration(1, "Running", 0)], &said, 10), "wait");
    assert_eq!(word(&machine, &[migration(1, "Running", 0)], &said, 60), waiting, "the delay is renewed");
}

#[test]
fn a_failed_migration_is_repeated_after_growing_pauses_and_refused_in_the_end() {
    let failure =
        json!({"status": {"migrationState": {"migrationUid": "m1", "failureReason": "out of memory"}}});
    let machine = machine(&failure);
    let failed = |attempts: u32| (1..=attempts).map(|n| migration(n, "Failed", 0)).collect::<Vec<_>>();
    let why = "migration evacuation-e-uid-1 failed: out of memory";
    assert_eq!(word(&machine, &failed(1), &json!({}), 19), format!("delay MigrationFailed: {why}"));
    assert_eq!(word(&machine, &failed(1), &json!({}), 20), "create evacuation-e-uid-2");
    assert!(word(&machine, &failed(4), &json!({}), 159).starts_with("delay MigrationFailed"));
    assert_eq!(word(&machine, &failed(4), &json!({}), 160), "create evacuation-e-uid-5");
    let last = word(&machine, &failed(5), &json!({}), 299);
    assert_eq!(last, "refuse MigrationFailed: migration evacuation-e-uid-5 failed: KubeVirt names no reason");
    assert_eq!(
        word(&machine, &failed(5), &json!({}), 300),
        "create evacuation-e-uid-6",
        "the requesters waited"
    );
}

#[test]
fn a_migration_that_a_user_deletes_is_not_created_again_at_once() {
    let machine = machine(&json!({}));
    let waited = json!({"answer": "Delay", "delayUntil": time(120), "message": "waiting for migration evacuation-e-uid-2"});
    let gone = "refuse MigrationDeleted: migration evacuation-e-uid-2 was deleted";
    assert_eq!(word(&machine, &[], &waited, 10), gone);
    assert_eq!(word(&machine, &[migration(1, "Failed", 0)], &waited, 100), gone);
    assert_eq!(word(&machine, &[migration(2, "Failed", 0)], &waited, 100), "create evacuation-e-uid-3");
    let others =
        json!({"answer": "Delay", "delayUntil": time(120), "message": "waiting for migration users"});
    assert_eq!(word(&machine, &[], &others, 10), "create evacuation-e-uid-1", "it was not ours");
    let refused =
        json!({"answer": "Refuse", "reason": "MigrationDeleted", "answerTime": time(10), "message": "m"});
    assert_eq!(word(&machine, &[], &refused, 309), "wait");
    assert_eq!(word(&machine, &[], &refused, 310), "create evacuation-e-uid-1");
}

#[test]
fn a_machine_that_has_moved_is_waited_for_until_its_old_pod_should_have_ended() {
    let moved =
        |end: Value| machine(&json!({"status": {"nodeName": "b", "migrationState": {"endTimestamp": end}}}));
    let waiting = "delay Migrated: the machine is on another node; its old pod ends";
    assert_eq!(word(&moved(json!(time(0))), &[], &json!({}), 119), waiting);
    assert_eq!(word(&moved(json!(time(0))), &[], &json!({}), 120), "accept Migrated");
    assert_eq!(word(&moved(Value::Null), &[], &json!({}), 999), waiting, "nothing tells since when");
    let done = [migration(1, "Succeeded", 0)];
    assert_eq!(word(&machine(&json!({})), &done, &json!({}), 1), waiting, "the node is not written yet");
}

#[test]
fn the_target_of_a_migration_is_not_migrated_again_while_it_arrives() {
    let evacuation = asked(&json!({}));
    let part = Part::of(&evacuation, MIGRATE_RESPONDER).unwrap();
    let (target, machine) = (pod(&json!({TARGET: "m9"})), machine(&json!({"status": {"nodeName": "b"}})));
    let plan = plan(part, &target, &machine, &[migration(1, "Running", 0)], at(0));
    assert!(matches!(plan, Plan::Say(Reply::Delay { reason: "MigrationTarget", .. }, None)), "{plan:?}");
}
