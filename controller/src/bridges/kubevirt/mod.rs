//! `kubevirt.evacuation.dev/migrate`: migrates a KubeVirt virtual machine before its pod goes.
//!
//! # Flow
//!
//! The responder is asked for a `virt-launcher` pod. It creates a VirtualMachineInstanceMigration of its own
//! and delays while the migration runs. KubeVirt completes the old pod, which ends the Evacuation. The
//! machine's eviction strategy decides, as in KubeVirt's own webhook. The responder accepts for a machine
//! that shuts down, and refuses for one that cannot be migrated.
//!
//! # Guarantees
//!
//! It deletes its own migration after a cancellation, and acknowledges when that is gone or has ended. It
//! does not create again what a user deleted, and never touches the migrations of others. The labels of the
//! migration have all that it needs after a crash.
//!
//! # Caveats
//!
//! An eviction after the deadline marks the machine for KubeVirt's own evacuation. The bridge does not take
//! that mark back (`evacuate/cancel`): KubeVirt goes on to migrate the machine after a late withdrawal.

mod plan;

use std::sync::Arc;

use async_trait::async_trait;
use chrono::TimeDelta;
use evacuation_api::{Answer, ConditionType, Evacuation, MIGRATE_RESPONDER};
use evacuation_protocol::{LivePod, PodPhase};
use k8s_openapi::{api::core::v1::Pod, apimachinery::pkg::apis::meta::v1::OwnerReference};
use kube::{ResourceExt, core::DynamicObject};
use serde_json::json;

use self::plan::{EVACUATION_UID, Plan, has_ended, plan, say, waited_for};
use super::{
    Watcher,
    foreign::{Foreign, ForeignKind, find_by},
    text::{refusal, text},
};
use crate::{
    builtin::{Interest, Part, Replier, Reply, awaited, deleted_evacuation, sooner, states},
    cluster::{CallError, Cluster, ClusterEvent, ObjectKey, Requeue, WorkQueue, due, evacuations},
};

const MACHINE: ForeignKind = ForeignKind {
    gvk: ["kubevirt.io", "v1", "VirtualMachineInstance"],
    spec: &["evictionStrategy"],
    status: &["nodeName", "phase", "conditions", "migrationState"],
};
const MIGRATION: ForeignKind = ForeignKind {
    gvk: ["kubevirt.io", "v1", "VirtualMachineInstanceMigration"],
    spec: &["vmiName"],
    status: &["phase", "conditions", "phaseTransitionTimestamps"],
};
/// Annotation of a migration with the name of the Evacuation for which the bridge created it.
const EVACUATION: &str = "kubevirt.evacuation.dev/evacuation";
/// Annotation of a migration with the name of that Evacuation's pod.
const POD: &str = "kubevirt.evacuation.dev/pod";
/// Pods that the responder must look at.
const INTEREST: Interest = Interest { responder: MIGRATE_RESPONDER, is_marked: |_| false };
/// Pause before another look at what nothing tells of.
const LOOK_AGAIN: TimeDelta = TimeDelta::seconds(30);

/// The feature that plays the responder. Its keys are pods.
pub(crate) struct Migrations {
    cluster: Cluster,
    machines: Arc<Foreign>,
    jobs: Arc<Foreign>,
    replier: Replier,
    queue: Arc<WorkQueue<ObjectKey>>,
}

impl Migrations {
    /// Returns the feature.
    pub(crate) fn new(cluster: &Cluster) -> Arc<Self> {
        let queue: Arc<WorkQueue<ObjectKey>> = Arc::default();
        let foreign = |kind| {
            let (view, queue) = (Arc::clone(&cluster.view), Arc::clone(&queue));
            // A change concerns the pods of migrations, and those of the namespace whose responder is asked.
            Foreign::new(cluster, kind, move |change| {
                queue.add_all(states(change).filter_map(pod_of));
                queue.add_all(INTEREST.asked_in(&view, &change.key.namespace));
            })
        };
        let (machines, jobs) = (foreign(&MACHINE), foreign(&MIGRATION));
        let (cluster, replier) = (cluster.clone(), Replier::new(cluster));
        Arc::new(Self { cluster, machines, jobs, replier, queue })
    }

    /// Returns the plan for a pod that is asked.
    async fn decide(&self, part: Part<'_>, pod: &Pod) -> Result<Plan, CallError> {
        let (now, namespace) = (self.cluster.clock.now(), pod.namespace().unwrap_or_default());
        let key = |name: &str| ObjectKey::new(namespace.as_str(), name);
        let launcher = owner(pod, "Pod").and_then(|owner| self.cluster.view.index().pod(&key(&owner.name)));
        if launcher.is_some_and(|launcher| LivePod::of(&launcher).phase != PodPhase::Terminal) {
            return Ok(say(
                Answer::Delay,
                "HotplugVolume",
                "the pod goes with that of its virtual machine",
                None,
            ));
        }
        let Some(owner) = owner(pod, "VirtualMachineInstance") else {
            return Ok(say(Answer::Accept, "NoMachine", "the pod runs no virtual machine", None));
        };
        if !self.jobs.is_listed() || !self.machines.is_listed() {
            let until = Some(now + LOOK_AGAIN);
            return Ok(say(Answer::Delay, "Unknown", "KubeVirt's migrations cannot be listed", until));
        }
        let Some(machine) = self.machines.find(&key(&owner.name), Some(&owner.uid)).await? else {
            return Ok(say(Answer::Accept, "NoMachine", "the virtual machine is gone", None));
        };
        if let Some(waited) = waited_for(part) {
            // The watch can be late after a change of the leader.
            self.jobs.find(&key(waited), None).await?;
        }
        let mut migrations = self.jobs.in_namespace(&namespace);
        migrations.retain(|migration| text(&migration.data, "/spec/vmiName") == owner.name);
        Ok(plan(part, pod, &machine, &migrations, now))
    }

    /// Answers a rehearsal, and acknowledges its end. Nothing migrates.
    async fn rehearse(&self, key: &ObjectKey, pod: Option<&Arc<Pod>>) -> Result<(), CallError> {
        let rehearsals = self.cluster.view.index().rehearsals_of(key);
        if let Some(pod) = pod
            && let Some(part) = awaited(&rehearsals, MIGRATE_RESPONDER, Some(pod))
        {
            let reply = match self.decide(part, pod).await? {
                Plan::Say(reply, _) => reply,
                Plan::Create(name) => Reply::Delay {
                    reason: "Migrating",
                    message: format!("migration {name} would move the virtual machine first"),
                },
            };
            self.replier.post(part, reply).await?;
        }
        self.replier.acknowledge(&rehearsals, MIGRATE_RESPONDER).await
    }

    /// Creates a migration. The next round waits for it.
    async fn migrate(&self, part: Part<'_>, pod: &Pod, name: String) -> Result<Plan, CallError> {
        let machine = owner(pod, "VirtualMachineInstance").map(|owner| owner.name.as_str());
        let spec = json!({"vmiName": machine});
        let mut migration = DynamicObject::new(&name, self.jobs.resource()).data(json!({"spec": spec}));
        migration.metadata.namespace = pod.namespace();
        migration.labels_mut().insert(EVACUATION_UID.to_owned(), part.uid().to_owned());
        migration.annotations_mut().insert(EVACUATION.to_owned(), part.name().to_owned());
        migration.annotations_mut().insert(POD.to_owned(), pod.name_any());
        match self.jobs.create(&migration).await {
            Err(error) if matches!(error.code(), 400..=499) && error.code() != 409 => {
                let until = Some(self.cluster.clock.now() + LOOK_AGAIN);
                let message = format!("KubeVirt denies a migration: {}", refusal(&error));
                Ok(say(Answer::Delay, "MigrationDenied", message, until))
            }
            created => created.map(|()| Plan::Create(name)),
        }
    }

    /// Deletes the pod's migrations whose Evacuation failed or is gone, which a live read confirms. Returns
    /// true when none of the bridge's is left that has not ended.
    async fn clean_up(&self, pod: &ObjectKey) -> Result<bool, CallError> {
        let mut unfinished = self.jobs.in_namespace(&pod.namespace);
        unfinished.retain(|migration| pod_of(migration).as_ref() == Some(pod) && !has_ended(migration));
        let api = evacuations(&self.cluster.client, &pod.namespace);
        for migration in unfinished.iter().filter(|known| known.metadata.deletion_timestamp.is_none()) {
            let name = migration.annotations().get(EVACUATION).map(String::as_str).unwrap_or_default();
            let known = self.cluster.view.index().evacuation(&ObjectKey::new(pod.namespace.as_str(), name));
            let found = find_by(known, api.path(), name, api.get_opt(name)).await?;
            let wants = |found: &Arc<Evacuation>| {
                found.metadata.uid.as_ref() == migration.labels().get(EVACUATION_UID)
                    && !found.status.as_ref().is_some_and(|status| status.is_true(ConditionType::Failed))
            };
            if !found.as_ref().is_some_and(wants) {
                self.jobs.delete(migration).await?;
            }
        }
        Ok(unfinished.is_empty() && self.jobs.is_listed())
    }
}

/// Returns the pod for which the bridge created a migration. `None` for a migration of others.
fn pod_of(migration: &DynamicObject) -> Option<ObjectKey> {
    migration.labels().get(EVACUATION_UID)?;
    Some(ObjectKey::new(migration.namespace()?, migration.annotations().get(POD)?))
}

/// Returns the responder's part in an Evacuation of the pod of that UID, while the responder is asked and has
/// not accepted.
fn asked<'a>(evacuation: &'a Evacuation, uid: Option<&str>) -> Option<Part<'a>> {
    let part = Part::of(evacuation, MIGRATE_RESPONDER)?;
    let is_asked = part.targets(uid) && part.is_active() && part.responder.answer != Some(Answer::Accept);
    is_asked.then_some(part)
}

/// Returns the owner of a pod, if it is of that kind.
fn owner<'a>(pod: &'a Pod, kind: &str) -> Option<&'a OwnerReference> {
    pod.metadata.owner_references.iter().flatten().find(|owner| owner.kind == kind)
}

#[async_trait]
impl Watcher for Migrations {
    const NAME: &'static str = "bridge to KubeVirt";

    fn foreign(&self) -> Vec<&Arc<Foreign>> {
        vec![&self.machines, &self.jobs]
    }

    fn keys(&self) -> &WorkQueue<ObjectKey> {
        &self.queue
    }

    fn observe(&self, event: &ClusterEvent<'_>) {
        if let Some(uid) = deleted_evacuation(event) {
            self.replier.forget(uid);
        }
        self.queue.add_all(INTEREST.concerned(&self.cluster.view, event));
    }

    fn queue_all(&self) {
        self.queue.add_all(INTEREST.all(&self.cluster.view));
        self.queue.add_all(self.jobs.all().iter().filter_map(|known| pod_of(known)));
    }

    async fn work(&self, key: &ObjectKey) -> Result<Requeue, CallError> {
        let pod = self.cluster.view.index().pod(key);
        let known = self.cluster.view.index().evacuations_of(key);
        let is_clean = self.clean_up(key).await?;
        self.rehearse(key, pod.as_ref()).await?;
        if is_clean {
            self.replier.acknowledge(&known, MIGRATE_RESPONDER).await?;
        }
        let pod = pod.filter(|pod| pod.metadata.deletion_timestamp.is_none());
        let Some(pod) = pod else { return Ok(Requeue::OnEvent) };
        let uid = pod.metadata.uid.as_deref();
        let asked = |evacuation| asked(evacuation, uid);
        let Some(mut part) = known.iter().map(AsRef::as_ref).find_map(asked) else {
            return Ok(Requeue::OnEvent);
        };
        let mut plan = self.decide(part, &pod).await?;
        let recorded;
        if matches!(plan, Plan::Create(_)) {
            // The watches can be late. The record shows whether the responder waits for a migration already,
            // which a user may have deleted since, and whether it is still asked. Others can have begun one.
            let (api, name) = (evacuations(&self.cluster.client, &key.namespace), part.name());
            recorded = find_by(None, api.path(), name, api.get_opt(name)).await?;
            let Some(live) = recorded.as_deref().and_then(asked) else { return Ok(Requeue::OnEvent) };
            self.cluster.view.apply(live.evacuation.clone());
            part = live;
            self.jobs.list(&key.namespace).await?;
            if let Some(machine) = owner(&pod, "VirtualMachineInstance") {
                self.machines.read(&ObjectKey::new(key.namespace.as_str(), machine.name.as_str())).await?;
            }
            plan = self.decide(part, &pod).await?;
        }
        if let Plan::Create(name) = plan {
            plan = self.migrate(part, &pod, name).await?;
        }
        let Plan::Say(reply, until) = plan else { return Ok(Requeue::OnEvent) };
        let now = self.cluster.clock.now();
        let renewal = self.replier.answer(part, reply, now).await?;
        Ok(sooner(until, renewal).map(|time| due(time, now)).into())
    }
}

#[cfg(test)]
mod tests;
