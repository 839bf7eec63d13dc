//! KubeVirt: the tests play its virt-controller, which runs migrations and ends the old pod.

use anyhow::bail;
use controlplane::eventually;
use evacuation_api::{Answer, Evacuation, MIGRATE_RESPONDER};
use evacuation_client::EvacuationHandle;
use evacuation_e2e::scene::PATIENCE;
use k8s_openapi::api::core::v1::Pod;
use kube::{
    ResourceExt,
    api::{ListParams, Patch, PatchParams},
    core::DynamicObject,
};
use serde_json::{Value, json};

use crate::stage::{Foreign, Stage};

const MACHINE: &str = "vm";
const POD: &str = "virt-launcher-vm";
/// Finalizer that KubeVirt's webhook gives a migration.
const JOB_FINALIZER: &str = "kubevirt.io/migrationJobFinalize";

impl Stage {
    fn machines(&self) -> Foreign {
        let kind = ["kubevirt.io", "v1", "VirtualMachineInstance"];
        Foreign::new(self, kind, "virtualmachineinstances", Some(self.scene.namespace()))
    }

    fn migrations(&self) -> Foreign {
        let kind = ["kubevirt.io", "v1", "VirtualMachineInstanceMigration"];
        Foreign::new(self, kind, "virtualmachineinstancemigrations", Some(self.scene.namespace()))
    }

    /// A running machine with that eviction strategy, and its pod. The responder is registered.
    async fn machine(&self, strategy: &str, migratable: &str) -> Pod {
        let selector = json!({"matchLabels": {"kubevirt.io": "virt-launcher"}});
        self.scene.register("migrate", MIGRATE_RESPONDER, json!({"selector": selector})).await;
        let condition = json!({"type": "LiveMigratable", "status": migratable, "reason": "DisksNotLiveMigratable",
            "message": "a local disk"});
        let machine = json!({
            "metadata": {"name": MACHINE},
            "spec": {"evictionStrategy": strategy},
            "status": {"phase": "Running", "nodeName": self.node, "conditions": [condition]},
        });
        let machine = self.machines().create(machine).await;
        let owner = json!({"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance", "name": MACHINE,
            "uid": machine.uid(), "controller": true});
        let quick =
            json!({"controlplane.test/running-after": "100ms", "controlplane.test/gone-after": "100ms"});
        let pod = json!({
            "metadata": {"name": POD, "labels": {"kubevirt.io": "virt-launcher"}, "annotations": quick,
                "ownerReferences": [owner]},
            "spec": {"nodeName": self.node, "restartPolicy": "Never", "containers": [{"name": "compute", "image": "vm"}]},
        });
        self.scene.raw_pod(&pod).await;
        self.scene.pods.ready(POD).await.unwrap()
    }

    /// Waits for the migration of an attempt, and returns its name.
    async fn migration(&self, evacuation: &EvacuationHandle, attempt: u32) -> String {
        let uid = self.scene.get(evacuation).await.uid().unwrap();
        let name = format!("evacuation-{uid}-{attempt}");
        let found = eventually(PATIENCE, "the machine is migrated", || async {
            match self.migrations().api.get_opt(&name).await? {
                Some(found) => Ok(found),
                None => bail!("there is no {name}"),
            }
        });
        assert_eq!(found.await.unwrap().data["spec"], json!({"vmiName": MACHINE}));
        name
    }

    /// The machine arrives on another node, and its old pod ends.
    async fn arrives(&self, migration: &str) {
        let state = json!({"nodeName": "elsewhere", "migrationState": {"completed": true}});
        self.machines().change(MACHINE, json!({"status": state})).await;
        self.migrations().change_status(migration, json!({"phase": "Succeeded"})).await;
        let ended = json!({"status": {"phase": "Succeeded", "containerStatuses": [{
            "name": "compute", "image": "vm", "imageID": "", "ready": false, "restartCount": 0,
            "state": {"terminated": {"exitCode": 0, "reason": "Completed"}},
        }]}});
        self.scene.pods.api().patch_status(POD, &PatchParams::default(), &Patch::Merge(ended)).await.unwrap();
    }

    async fn all_migrations(&self) -> Vec<DynamicObject> {
        self.migrations().api.list(&ListParams::default()).await.unwrap().items
    }

    /// Waits for an answer for that reason, and returns its message.
    async fn answers(&self, evacuation: &EvacuationHandle, answer: Answer, reason: &str) -> String {
        let answered = self.scene.until_responder(evacuation, reason, |responder| {
            responder.answer == Some(answer) && responder.reason.as_deref() == Some(reason)
        });
        answered.await.message.unwrap_or_default()
    }
}

fn acknowledged(evacuation: &Evacuation) -> bool {
    let responders = evacuation.status.iter().filter_map(|status| status.responders.as_ref()).flatten();
    responders.into_iter().all(|responder| responder.cancellation_acknowledged)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_is_migrated_and_its_pod_ends_without_an_eviction() {
    let stage = Stage::new("migrates").await;
    let pod = stage.machine("LiveMigrate", "True").await;
    let evacuation = stage.scene.evacuate(&pod).await;
    let migration = stage.migration(&evacuation, 1).await;
    let message = stage.answers(&evacuation, Answer::Delay, "Migrating").await;
    assert!(message.contains(&migration), "{message}");
    stage.migrations().change_status(&migration, json!({"phase": "Running"})).await;
    stage.arrives(&migration).await;
    stage.scene.ends(&evacuation, "Evacuated TerminatedInPlace").await;
    assert_eq!((stage.scene.all_evictions().len(), stage.all_migrations().await.len()), (0, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_is_taken_back_aborts_the_migration_before_it_is_acknowledged() {
    let stage = Stage::new("aborts").await;
    let pod = stage.machine("LiveMigrateIfPossible", "True").await;
    let evacuation = stage.scene.evacuate(&pod).await;
    let name = stage.migration(&evacuation, 1).await;
    stage.answers(&evacuation, Answer::Delay, "Migrating").await;
    stage.migrations().change(&name, json!({"metadata": {"finalizers": [JOB_FINALIZER]}})).await;
    evacuation.withdraw().await.unwrap();
    let aborting = |found: &DynamicObject| found.metadata.deletion_timestamp.is_some();
    stage.migrations().until(&name, "it is aborted", aborting).await;
    assert!(!acknowledged(&stage.scene.get(&evacuation).await), "KubeVirt still aborts it");
    stage.migrations().change(&name, json!({"metadata": {"finalizers": null}})).await;
    stage.scene.acknowledged(&evacuation).await;
    assert!(stage.scene.stays(&pod).await && stage.all_migrations().await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_that_cannot_be_migrated_is_refused_with_its_reason() {
    let stage = Stage::new("fixed").await;
    let pod = stage.machine("LiveMigrate", "False").await;
    let evacuation = stage.scene.evacuate(&pod).await;
    let message = stage.answers(&evacuation, Answer::Refuse, "NotLiveMigratable").await;
    assert_eq!(message, "DisksNotLiveMigratable: a local disk");
    assert!(stage.scene.stays(&pod).await && stage.all_migrations().await.is_empty());
    // The owner unplugs the disk.
    let migratable = json!({"status": {"conditions": [{"type": "LiveMigratable", "status": "True"}]}});
    stage.machines().change(MACHINE, migratable).await;
    stage.migration(&evacuation, 1).await;
    stage.answers(&evacuation, Answer::Delay, "Migrating").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_that_may_shut_down_is_evicted() {
    let stage = Stage::new("stops").await;
    let pod = stage.machine("None", "True").await;
    let evacuation = stage.scene.evacuate(&pod).await;
    stage.scene.ends(&evacuation, "Evacuated Evicted").await;
    assert!(stage.all_migrations().await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_migration_that_fails_is_told_and_tried_again() {
    let stage = Stage::new("fails").await;
    let pod = stage.machine("LiveMigrate", "True").await;
    let evacuation = stage.scene.evacuate(&pod).await;
    let first = stage.migration(&evacuation, 1).await;
    let uid = stage.migrations().api.get(&first).await.unwrap().uid();
    let failure = json!({"migrationState": {"migrationUid": uid, "failureReason": "the network is slow"}});
    stage.machines().change(MACHINE, json!({"status": failure})).await;
    stage.migrations().change_status(&first, json!({"phase": "Failed"})).await;
    // Two watches show the failure and its reason, in any order.
    let told = stage.scene.until_responder(&evacuation, "the failure is told with its reason", |responder| {
        let message = responder.message.as_deref().unwrap_or_default();
        (responder.answer, responder.reason.as_deref()) == (Some(Answer::Delay), Some("MigrationFailed"))
            && message.contains("the network is slow")
    });
    told.await;
    let second = stage.migration(&evacuation, 2).await;
    stage.arrives(&second).await;
    stage.scene.ends(&evacuation, "Evacuated TerminatedInPlace").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_migration_of_others_is_waited_for_and_never_deleted() {
    let stage = Stage::new("others").await;
    let pod = stage.machine("LiveMigrate", "True").await;
    let spec = json!({"vmiName": MACHINE});
    stage.migrations().create(json!({"metadata": {"name": "users"}, "spec": spec})).await;
    let evacuation = stage.scene.evacuate(&pod).await;
    let message = stage.answers(&evacuation, Answer::Delay, "Migrating").await;
    assert_eq!(message, "waiting for migration users");
    evacuation.withdraw().await.unwrap();
    stage.scene.acknowledged(&evacuation).await;
    let names: Vec<String> = stage.all_migrations().await.iter().map(ResourceExt::name_any).collect();
    assert_eq!(names, ["users"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_migration_that_a_user_deletes_is_a_refusal() {
    let stage = Stage::new("user").await;
    let pod = stage.machine("LiveMigrate", "True").await;
    let evacuation = stage.scene.evacuate(&pod).await;
    let name = stage.migration(&evacuation, 1).await;
    stage.answers(&evacuation, Answer::Delay, "Migrating").await;
    stage.migrations().delete(&name).await;
    let message = stage.answers(&evacuation, Answer::Refuse, "MigrationDeleted").await;
    assert!(message.contains(&name), "{message}");
    assert!(stage.scene.stays(&pod).await && stage.all_migrations().await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_is_taken_back_while_no_controller_runs_aborts_the_migration_later() {
    let stage = Stage::to_kill("restart").await;
    let pod = stage.machine("LiveMigrate", "True").await;
    let evacuation = stage.scene.evacuate(&pod).await;
    let name = stage.migration(&evacuation, 1).await;
    stage.answers(&evacuation, Answer::Delay, "Migrating").await;
    stage.kill_controller().await;
    evacuation.withdraw().await.unwrap();
    stage.start_controller().await;
    stage.migrations().gone(&name).await;
    stage.scene.acknowledged(&evacuation).await;
    assert!(stage.scene.stays(&pod).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_controller_that_starts_after_a_crash_waits_for_the_same_migration() {
    let stage = Stage::to_kill("crash").await;
    let pod = stage.machine("LiveMigrate", "True").await;
    let evacuation = stage.scene.evacuate(&pod).await;
    let name = stage.migration(&evacuation, 1).await;
    stage.kill_controller().await;
    stage.start_controller().await;
    stage.answers(&evacuation, Answer::Delay, "Migrating").await;
    stage.arrives(&name).await;
    stage.scene.ends(&evacuation, "Evacuated TerminatedInPlace").await;
    let names: Value = stage.all_migrations().await.iter().map(ResourceExt::name_any).collect();
    assert_eq!(names, json!([name]));
}
