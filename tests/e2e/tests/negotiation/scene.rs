//! One test's namespace on the shared system.

use std::{
    sync::atomic::{AtomicU16, Ordering},
    time::Duration,
};

use chrono::{DateTime, SecondsFormat, Utc};
use controlplane::eventually;
use evacuation_api::{Evacuation, EvacuationStatus, ResponderState, ResponderStatus};
use evacuation_e2e::{Platform, PodSpec, Pods, shared};
use k8s_openapi::{api::core::v1::Pod, apimachinery::pkg::apis::meta::v1::Condition};
use kube::{
    Api, Client, Error, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

/// How long anything may take on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);
/// The name of the entry that [`Scene::ask`] makes.
pub(crate) const ASKER: &str = "test.evacuation.dev/asks";

/// One test's namespace on the shared system.
pub(crate) struct Scene {
    pub(crate) platform: &'static Platform,
    pub(crate) pods: Pods,
    /// Where the endpoints of its pods listen: no other test's do, for the address of a pod that is gone is another pod's soon.
    pub(crate) port: u16,
}

/// The port of the next test.
static PORT: AtomicU16 = AtomicU16::new(8080);

impl Scene {
    pub(crate) async fn new(prefix: &str) -> Self {
        let platform = shared().await.unwrap();
        let pods = platform.namespace(prefix).await.unwrap();
        let port = PORT.fetch_add(1, Ordering::Relaxed);
        Self { platform, pods, port }
    }

    pub(crate) fn namespace(&self) -> &str {
        self.pods.namespace()
    }

    /// The client of `admin`, who may do everything.
    pub(crate) fn admin(&self) -> Client {
        self.platform.client().unwrap()
    }

    /// The Evacuations, as `admin`.
    pub(crate) fn evacuations(&self) -> Api<Evacuation> {
        self.pods.evacuations()
    }

    /// The Evacuations, as whoever has that client.
    pub(crate) fn evacuations_of(&self, client: &Client) -> Api<Evacuation> {
        Api::namespaced(client.clone(), self.namespace())
    }

    /// A pod that runs at once, and is gone at once when it is told to go.
    pub(crate) async fn pod(&self, name: &str, spec: PodSpec) -> Pod {
        self.pods.create(name, &quick(spec)).await.unwrap()
    }

    /// A pod as it is described, without waiting for anything.
    pub(crate) async fn raw_pod(&self, pod: &Value) -> Pod {
        let pod = serde_json::from_value(pod.clone()).unwrap();
        self.pods.api().create(&PostParams::default(), &pod).await.unwrap()
    }

    /// Whether the very pod is there and was not told to go.
    pub(crate) async fn stays(&self, pod: &Pod) -> bool {
        let found = self.pods.api().get_opt(&pod.name_any()).await.unwrap();
        found.is_some_and(|found| found.uid() == pod.uid() && found.metadata.deletion_timestamp.is_none())
    }

    /// Deletes a pod.
    pub(crate) async fn delete_pod(&self, name: &str) {
        self.pods.api().delete(name, &DeleteParams::default()).await.unwrap();
    }

    /// `admin` asks a pod to move, with one entry that says this beside its name.
    pub(crate) async fn ask(&self, pod: &Pod, more: Value) -> Evacuation {
        let wanted = wanting(&pod.name_any(), &[entry(ASKER, more)]);
        self.evacuations().create(&PostParams::default(), &wanted).await.unwrap()
    }

    /// `admin` asks a pod to move, and its first responder is asked.
    pub(crate) async fn ask_and_reach(&self, pod: &Pod, more: Value) -> Evacuation {
        let asked = self.ask(pod, more).await;
        self.reached(&asked, 0).await
    }

    /// Waits until the responder at that place is asked.
    pub(crate) async fn reached(&self, evacuation: &Evacuation, place: usize) -> Evacuation {
        self.until(evacuation, "the responder is asked", |e| {
            responder(e, place).is_some_and(|r| r.state == ResponderState::Active)
        })
        .await
    }

    pub(crate) async fn get(&self, evacuation: &Evacuation) -> Evacuation {
        self.evacuations().get(&evacuation.name_any()).await.unwrap()
    }

    pub(crate) async fn until(
        &self,
        evacuation: &Evacuation,
        what: &str,
        wanted: impl Fn(&Evacuation) -> bool,
    ) -> Evacuation {
        self.pods.until(&evacuation.name_any(), what, wanted).await.unwrap()
    }

    /// Waits until the condition is True for that reason.
    pub(crate) async fn until_condition(
        &self,
        evacuation: &Evacuation,
        kind: &str,
        reason: &str,
    ) -> Evacuation {
        self.until(evacuation, &format!("{kind} for {reason}"), |e| {
            condition(e, kind).is_some_and(|c| c.status == "True" && c.reason == reason)
        })
        .await
    }

    /// Waits for the end, which must be this: `Evacuated Evicted`, `Failed Refused`.
    pub(crate) async fn ends(&self, evacuation: &Evacuation, how: &str) -> Evacuation {
        let ended = self.until(evacuation, "the evacuation has ended", |e| end_of(e).is_some()).await;
        assert_eq!(end_of(&ended).unwrap(), how, "{:?}", ended.status);
        ended
    }

    /// The last requester leaves.
    pub(crate) async fn withdraw(&self, evacuation: &Evacuation) -> kube::Result<Evacuation> {
        leave(&self.evacuations(), evacuation).await
    }

    /// Sets a pod's finalizers.
    pub(crate) async fn finalizers(&self, pod: &Pod, finalizers: &[&str]) {
        let patch = Patch::Merge(json!({"metadata": {"finalizers": finalizers}}));
        let api = self.pods.api();
        api.patch(&pod.name_any(), &PatchParams::default(), &patch).await.unwrap();
    }

    /// Waits until an Evacuation is removed.
    pub(crate) async fn removed(&self, evacuation: &Evacuation) {
        let api = self.evacuations();
        let name = evacuation.name_any();
        let removed = eventually(PATIENCE, "the evacuation is removed", || async {
            match api.get(&name).await {
                Err(Error::Api(status)) if status.code == 404 => Ok(()),
                other => Err(format!("{other:?}")),
            }
        });
        removed.await.unwrap();
    }
}

/// Takes every entry away, whatever happens to the Evacuation meanwhile.
pub(crate) async fn leave(api: &Api<Evacuation>, evacuation: &Evacuation) -> kube::Result<Evacuation> {
    let patch = Patch::Merge(json!({"spec": {"requesters": []}}));
    api.patch(&evacuation.name_any(), &PatchParams::default(), &patch).await
}

/// The same pod, but it runs at once, and is gone at once when it is told to go.
pub(crate) fn quick(spec: PodSpec) -> PodSpec {
    ["running-after", "gone-after"].iter().fold(spec, |spec, name| {
        let name = format!("controlplane.test/{name}");
        if spec.annotations.iter().any(|(known, _)| *known == name) {
            spec
        } else {
            spec.annotation(&name, "100ms")
        }
    })
}

/// An Evacuation of that pod with these entries, not yet created.
pub(crate) fn wanting(pod: &str, entries: &[Value]) -> Evacuation {
    let wanted = json!({
        "metadata": {"generateName": format!("{pod}-")},
        "spec": {"target": {"pod": {"name": pod}}, "requesters": entries},
    });
    serde_json::from_value(wanted).unwrap()
}

/// An entry of that name that says this.
pub(crate) fn entry(name: &str, more: Value) -> Value {
    let mut entry = more;
    entry["name"] = json!(name);
    entry
}

/// That many milliseconds from now, as an entry's deadline.
pub(crate) fn in_millis(milliseconds: i64) -> Value {
    let time = Utc::now() + chrono::TimeDelta::milliseconds(milliseconds);
    json!(time.to_rfc3339_opts(SecondsFormat::Micros, true))
}

/// The responder at that place.
pub(crate) fn responder(evacuation: &Evacuation, place: usize) -> Option<&ResponderStatus> {
    evacuation.status.as_ref()?.responders.as_ref()?.get(place)
}

/// The responder that is asked first.
pub(crate) fn first(evacuation: &Evacuation) -> &ResponderStatus {
    responder(evacuation, 0).expect("it has a responder")
}

pub(crate) fn status(evacuation: &Evacuation) -> EvacuationStatus {
    evacuation.status.clone().unwrap_or_default()
}

pub(crate) fn condition<'a>(evacuation: &'a Evacuation, kind: &str) -> Option<&'a Condition> {
    let conditions = &evacuation.status.as_ref()?.conditions;
    conditions.iter().find(|c| c.type_ == kind)
}

/// How it ended, if it has: `Evacuated Evicted`, `Failed Refused`.
pub(crate) fn end_of(evacuation: &Evacuation) -> Option<String> {
    condition(evacuation, "Finished")?;
    ["Evacuated", "Failed"].into_iter().find_map(|kind| {
        let found = condition(evacuation, kind).filter(|c| c.status == "True")?;
        Some(format!("{kind} {}", found.reason))
    })
}

/// When a delay that was granted ends.
pub(crate) fn delay_end(evacuation: &Evacuation) -> DateTime<Utc> {
    first(evacuation).delay_until.expect("a delay was granted").0
}
