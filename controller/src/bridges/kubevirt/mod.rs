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
//! never touches the migrations of others. What it needs after a crash is in the migration's labels.
//!
//! # Caveats
//!
//! An eviction after the deadline marks the machine for KubeVirt's own evacuation. The bridge does not take
//! that mark back (`evacuate/cancel`): KubeVirt goes on to migrate the machine after a late withdrawal.

mod objects;
mod plan;

use std::{collections::BTreeMap, sync::Arc};

use async_trait::async_trait;
use chrono::TimeDelta;
use evacuation_api::{ConditionType, Evacuation, MIGRATE_RESPONDER, is_dns_subdomain};
use evacuation_protocol::{LivePod, PodPhase};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Client, ResourceExt,
    core::{DynamicObject, GroupVersionKind},
};
use serde_json::json;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use self::{
    objects::{EVACUATION, EVACUATION_UID, Machine, Migration, POD, machine_of, owner, role},
    plan::{Plan, accept, delay, deleted, plan},
};
use super::foreign::{Foreign, Observer};
use crate::{
    builtin::{Interest, Part, Replier, Reply, deleted_evacuation},
    cluster::{
        CallError, Change, Cluster, ClusterEvent, EventSink, Feature, Kind, Notice, ObjectKey, Requeue,
        ServerClock, View, WorkQueue, call, due, evacuations, is_finished, pod_key,
    },
};

/// Pods that the responder must look at.
const INTEREST: Interest = Interest { responder: MIGRATE_RESPONDER, is_marked: |_| false };
/// Pause before another look at what nothing tells of.
const LOOK_AGAIN: TimeDelta = TimeDelta::seconds(30);

/// The feature that plays the responder. Its keys are pods.
pub(crate) struct Migrations {
    client: Client,
    view: Arc<View>,
    clock: Arc<ServerClock>,
    events: EventSink,
    machines: Arc<Foreign>,
    jobs: Arc<Foreign>,
    replier: Replier,
    queue: WorkQueue<ObjectKey>,
}

impl Migrations {
    /// Returns the feature.
    pub(crate) fn new(cluster: &Cluster) -> Arc<Self> {
        let foreign = |kind: &str, plural: &str| {
            Foreign::new(cluster, &GroupVersionKind::gvk("kubevirt.io", "v1", kind), plural)
        };
        Arc::new(Self {
            client: cluster.client.clone(),
            view: Arc::clone(&cluster.view),
            clock: Arc::clone(&cluster.clock),
            events: cluster.events.clone(),
            machines: foreign("VirtualMachineInstance", "virtualmachineinstances"),
            jobs: foreign("VirtualMachineInstanceMigration", "virtualmachineinstancemigrations"),
            replier: Replier::new(cluster),
            queue: WorkQueue::default(),
        })
    }

    /// Returns the migrations of a machine.
    fn migrations_of(&self, namespace: &str, machine: &str) -> Vec<Arc<DynamicObject>> {
        let mut all = self.jobs.in_namespace(namespace);
        all.retain(|migration| machine_of(migration) == machine);
        all
    }

    /// Returns the migrations that the bridge created for a pod, and that have not ended.
    fn unfinished(&self, pod: &ObjectKey) -> Vec<Arc<DynamicObject>> {
        let mut all = self.jobs.in_namespace(&pod.namespace);
        all.retain(|migration| {
            migration.labels().contains_key(EVACUATION_UID)
                && migration.annotations().get(POD) == Some(&pod.name)
                && !Migration::of(migration, "").is_final()
        });
        all
    }

    /// Returns the plan for a pod that is asked.
    async fn decide(&self, part: Part<'_>, pod: &Pod) -> Result<Plan, CallError> {
        let (now, key) = (self.clock.now(), ObjectKey::of(pod));
        let Some(name) = owner(pod, "VirtualMachineInstance") else {
            return Ok(self.decide_without_machine(part, pod));
        };
        let machine_key = ObjectKey::new(key.namespace.clone(), name);
        let unknown =
            |why: &str| Plan { wake_at: Some(now + LOOK_AGAIN), ..delay(part, "Unknown", why, now) };
        if !self.jobs.is_listed() {
            return Ok(unknown("KubeVirt's migrations cannot be listed"));
        }
        let machine = match self.machines.get(&machine_key) {
            Some(machine) => machine,
            None => match self.machines.read(&machine_key).await {
                Ok(Some(machine)) => machine,
                Ok(None) => return Ok(accept("NoMachine", "the virtual machine is gone")),
                Err(error) => return Ok(unknown(&error.to_string())),
            },
        };
        let migrations = self.migrations_of(&key.namespace, name);
        let migrations: Vec<_> = migrations.iter().map(|known| Migration::of(known, part.uid())).collect();
        Ok(plan(part, pod, &Machine::of(&machine), &migrations, now))
    }

    /// Returns the plan for a pod that runs no machine. The pod of a hotplugged volume goes with its
    /// machine's.
    fn decide_without_machine(&self, part: Part<'_>, pod: &Pod) -> Plan {
        let namespace = pod.namespace().unwrap_or_default();
        let launcher = owner(pod, "Pod").filter(|_| role(pod) == "hotplug-disk");
        let lives = |name: &str| {
            let launcher = self.view.index().pod(&ObjectKey::new(namespace, name));
            launcher.is_some_and(|launcher| LivePod::of(&launcher).phase != PodPhase::Terminal)
        };
        if launcher.is_some_and(lives) {
            let message = "the pod goes with that of its virtual machine";
            return delay(part, "HotplugVolume", message, self.clock.now());
        }
        accept("NoMachine", "the pod runs no virtual machine")
    }

    /// Carries a plan out.
    async fn carry_out(&self, part: Part<'_>, pod: &Pod, plan: Plan) -> Result<Requeue, CallError> {
        let now = self.clock.now();
        let namespace = pod.namespace().unwrap_or_default();
        let mut plan = plan;
        if let Some(name) = plan.missing.take() {
            if self.jobs.read(&ObjectKey::new(namespace.as_str(), name.as_str())).await?.is_some() {
                return Ok(Requeue::Now);
            }
            plan = deleted(part, &name);
        }
        if let Some(name) = plan.create.take() {
            match self.create(part, pod, &name).await {
                Ok(()) => return Ok(Requeue::Now),
                Err(error) if matches!(error.code(), 400..=499) => {
                    let why = error.status().map(|status| status.message.clone()).unwrap_or_default();
                    let denied =
                        delay(part, "MigrationDenied", &format!("KubeVirt denies a migration: {why}"), now);
                    plan = Plan { wake_at: Some(now + LOOK_AGAIN), ..denied };
                }
                Err(error) => return Err(error),
            }
        }
        if let Some(reply) = plan.reply {
            self.replier.post(part, reply).await?;
        }
        Ok(plan.wake_at.map(|time| due(time, now)).into())
    }

    async fn create(&self, part: Part<'_>, pod: &Pod, name: &str) -> Result<(), CallError> {
        let key = ObjectKey::new(pod.namespace().unwrap_or_default(), name);
        let mut object = self.jobs.unnamed();
        object.metadata.labels = Some(BTreeMap::from([(EVACUATION_UID.to_owned(), part.uid().to_owned())]));
        object.metadata.annotations = Some(BTreeMap::from([
            (EVACUATION.to_owned(), part.name().to_owned()),
            (POD.to_owned(), pod.name_any()),
        ]));
        object.data = json!({"spec": {"vmiName": owner(pod, "VirtualMachineInstance")}});
        self.jobs.create(&key, object).await?;
        self.events.send(part.evacuation, Notice::normal("Migrating", format!("created migration {name}")));
        Ok(())
    }

    /// Deletes the pod's migrations whose Evacuation failed or is gone. Returns those that have not ended.
    async fn clean_up(
        &self,
        pod: &ObjectKey,
        known: &[Arc<Evacuation>],
    ) -> Result<Vec<Arc<DynamicObject>>, CallError> {
        let unfinished = self.unfinished(pod);
        for migration in unfinished.iter().filter(|known| known.metadata.deletion_timestamp.is_none()) {
            let uid = migration.labels().get(EVACUATION_UID);
            let of_uid = known.iter().find(|evacuation| evacuation.metadata.uid.as_ref() == uid);
            let is_wanted = match of_uid {
                Some(evacuation) => !has_failed(evacuation),
                None => self.is_asking(migration, &pod.namespace).await?,
            };
            if !is_wanted {
                self.jobs.delete(migration).await?;
            }
        }
        Ok(unfinished)
    }

    /// Returns true when the API knows the Evacuation of a migration.
    async fn is_asking(&self, migration: &DynamicObject, namespace: &str) -> Result<bool, CallError> {
        let named = migration.annotations().get(EVACUATION).filter(|name| is_dns_subdomain(name));
        let Some(name) = named else { return Ok(false) };
        let action = format!("read evacuation {namespace}/{name}");
        let found = call(action, evacuations(&self.client, namespace).get_opt(name)).await?;
        Ok(found.is_some_and(|found| found.metadata.uid.as_ref() == migration.labels().get(EVACUATION_UID)))
    }
}

fn has_failed(evacuation: &Evacuation) -> bool {
    evacuation.status.as_ref().is_some_and(|status| status.is_true(ConditionType::Failed))
}

impl Observer for Migrations {
    /// Queues the pod of a migration of the bridge, and the pods of the namespace whose responder is asked.
    fn observe(&self, change: &Change<DynamicObject>) {
        let states = [&change.old, &change.new].into_iter().flatten();
        let pods = states.filter_map(|object| object.annotations().get(POD));
        let namespace = change.key.namespace.clone();
        self.queue.add_all(pods.map(|pod| ObjectKey::new(namespace.clone(), pod.as_str())));
        let index = self.view.index();
        let asked = index.evacuations_in(&namespace).filter(|(_, evacuation)| {
            !is_finished(evacuation) && Part::of(evacuation, MIGRATE_RESPONDER).is_some()
        });
        self.queue.add_all(asked.map(|(_, evacuation)| pod_key(evacuation)));
    }
}

#[async_trait]
impl Feature for Migrations {
    fn name(&self) -> &'static str {
        "bridge to KubeVirt"
    }

    fn watches(&self) -> &'static [Kind] {
        &[Kind::Evacuations, Kind::Pods]
    }

    fn follow(self: Arc<Self>, stop: &CancellationToken, tasks: &mut JoinSet<()>) {
        self.machines.follow(Arc::clone(&self), stop, tasks);
        self.jobs.follow(Arc::clone(&self), stop, tasks);
    }

    fn is_required(&self) -> bool {
        false
    }

    fn queue(&self) -> &WorkQueue<ObjectKey> {
        &self.queue
    }

    fn handle(&self, event: &ClusterEvent<'_>) {
        if let Some(uid) = deleted_evacuation(event) {
            self.replier.forget(uid);
        }
        self.queue.add_all(INTEREST.concerned(&self.view, event));
    }

    fn resync(&self) {
        self.queue.add_all(INTEREST.all(&self.view));
        for migration in self.jobs.all() {
            let pod = migration.annotations().get(POD).cloned();
            self.queue.add_all(pod.map(|pod| ObjectKey::new(migration.namespace().unwrap_or_default(), pod)));
        }
    }

    async fn reconcile(&self, key: &ObjectKey) -> Result<Requeue, CallError> {
        let (pod, evacuations) = {
            let index = self.view.index();
            (index.pod(key), index.evacuations_of(key))
        };
        let unfinished = self.clean_up(key, &evacuations).await?;
        let parts = || evacuations.iter().filter_map(|evacuation| Part::of(evacuation, MIGRATE_RESPONDER));
        for part in parts().filter(Part::must_acknowledge) {
            let runs = unfinished
                .iter()
                .any(|known| known.labels().get(EVACUATION_UID).is_some_and(|uid| uid == part.uid()));
            if !runs && self.jobs.is_listed() {
                self.replier.post(part, Reply::Acknowledge).await?;
            }
        }
        let uid = pod.as_ref().and_then(|pod| pod.metadata.uid.as_deref());
        let accepted = |part: &Part<'_>| part.responder.answer == Some(evacuation_api::Answer::Accept);
        let active = parts().find(|part| part.targets(uid) && part.is_active() && !accepted(part));
        let (Some(part), Some(pod)) = (active, &pod) else { return Ok(Requeue::OnEvent) };
        if pod.metadata.deletion_timestamp.is_some() {
            return Ok(Requeue::OnEvent);
        }
        let plan = self.decide(part, pod).await?;
        self.carry_out(part, pod, plan).await
    }

    fn is_expected(&self, error: &CallError) -> bool {
        matches!(error.code(), 404 | 409)
    }
}
