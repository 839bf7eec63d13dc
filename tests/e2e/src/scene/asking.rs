//! Asking, waiting and withdrawing.

use chrono::{DateTime, SecondsFormat, TimeDelta, Utc};
use controlplane::eventually;
use evacuation_api::{Answer, Evacuation, ResponderState, ResponderStatus};
use evacuation_client::{EvacuationHandle, Requester};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Error, ResourceExt,
    api::{ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use super::{ASKER, Named, PATIENCE, Scene, condition, end_of, responder, status};

impl Scene {
    /// Asks a pod to move as `admin`, with one entry that has these fields beside its name.
    pub async fn ask(&self, pod: &Pod, more: Value) -> Evacuation {
        let wanted = wanting(&pod.name_any(), &[entry(ASKER, more)]);
        self.evacuations().create(&PostParams::default(), &wanted).await.unwrap()
    }

    /// Asks a pod to move as `admin`, and waits until its first responder was asked.
    pub async fn ask_and_reach(&self, pod: &Pod, more: Value) -> Evacuation {
        let asked = self.ask(pod, more).await;
        self.reached(&asked, 0).await
    }

    /// Asks a pod to move as `admin`, through the client library.
    pub async fn evacuate(&self, pod: impl Named) -> EvacuationHandle {
        let asked = self.requester(ASKER).evacuate(self.namespace(), &pod.object_name()).await;
        asked.unwrap()
    }

    /// A requester of that name, as `admin`.
    pub fn requester(&self, name: &str) -> Requester {
        Requester::new(self.admin(), name)
    }

    /// Returns an Evacuation as it is now.
    pub async fn get(&self, evacuation: impl Named) -> Evacuation {
        self.evacuations().get(&evacuation.object_name()).await.unwrap()
    }

    /// Waits for the Evacuation of a pod of that name, the only one.
    pub async fn evacuation_of(&self, pod: &str) -> Evacuation {
        let api = self.evacuations();
        let of_pod = ListParams::default().fields(&format!("spec.target.pod.name={pod}"));
        let found = eventually(PATIENCE, "the pod is asked", || async {
            let mut found = api.list(&of_pod).await.map_err(|error| error.to_string())?.items;
            if found.len() == 1 { Ok(found.remove(0)) } else { Err(format!("{} evacuations", found.len())) }
        });
        found.await.unwrap()
    }

    /// Waits until an Evacuation is as wanted.
    pub async fn until(
        &self,
        evacuation: impl Named,
        what: &str,
        wanted: impl Fn(&Evacuation) -> bool,
    ) -> Evacuation {
        self.pods.until(&evacuation.object_name(), what, wanted).await.unwrap()
    }

    /// Waits until the first responder is as wanted.
    pub async fn until_responder(
        &self,
        evacuation: impl Named,
        what: &str,
        wanted: impl Fn(&ResponderStatus) -> bool,
    ) -> ResponderStatus {
        let found = self.until(evacuation, what, |e| responder(e, 0).is_some_and(&wanted)).await;
        responder(&found, 0).cloned().unwrap()
    }

    /// Waits until the responder at that place was asked. Its time may have passed since.
    pub async fn reached(&self, evacuation: impl Named, place: usize) -> Evacuation {
        self.until(evacuation, "the responder was asked", |e| {
            responder(e, place).is_some_and(|r| r.active_time.is_some())
        })
        .await
    }

    /// Waits until the controller has seen the present generation of an Evacuation.
    pub async fn observed(&self, evacuation: impl Named) -> Evacuation {
        self.until(evacuation, "the controller has seen it", |e| {
            status(e).observed_generation == e.metadata.generation
        })
        .await
    }

    /// Waits for an answer of the first responder.
    pub async fn answered(&self, evacuation: impl Named, answer: Answer) -> ResponderStatus {
        let what = format!("the answer is {answer:?}");
        self.until_responder(evacuation, &what, |responder| responder.answer == Some(answer)).await
    }

    /// Waits until an Evacuation's STATE column has that word.
    pub async fn until_state(&self, evacuation: impl Named, word: &str) -> Evacuation {
        self.until(evacuation, word, |e| evacuation_protocol::state_word(e) == word).await
    }

    /// Waits until a condition is True for that reason.
    pub async fn until_condition(&self, evacuation: impl Named, kind: &str, reason: &str) -> Evacuation {
        self.until(evacuation, &format!("{kind} for {reason}"), |e| {
            condition(e, kind).is_some_and(|c| c.status == "True" && c.reason == reason)
        })
        .await
    }

    /// Waits for the end, which must be this: `Evacuated Evicted`, `Failed Refused`.
    pub async fn ends(&self, evacuation: impl Named, how: &str) -> Evacuation {
        let ended = self.until(evacuation, "the evacuation has ended", |e| end_of(e).is_some()).await;
        assert_eq!(end_of(&ended).unwrap(), how, "{:?}", ended.status);
        ended
    }

    /// Withdraws every entry, as `admin`.
    pub async fn withdraw(&self, evacuation: &Evacuation) -> kube::Result<Evacuation> {
        leave(&self.evacuations(), evacuation).await
    }

    /// Waits until the first responder has acknowledged the cancellation.
    pub async fn acknowledged(&self, evacuation: impl Named) -> ResponderStatus {
        self.until_responder(evacuation, "the cancellation is acknowledged", |responder| {
            responder.state == ResponderState::Canceled && responder.cancellation_acknowledged
        })
        .await
    }

    /// Waits until an Evacuation is removed.
    pub async fn removed(&self, evacuation: impl Named) {
        let (api, name) = (self.evacuations(), evacuation.object_name());
        let removed = eventually(PATIENCE, "the evacuation is removed", || async {
            match api.get(&name).await {
                Err(Error::Api(status)) if status.code == 404 => Ok(()),
                other => Err(format!("{other:?}")),
            }
        });
        removed.await.unwrap();
    }
}

/// Removes every entry, as the user of that client.
pub async fn leave(api: &Api<Evacuation>, evacuation: &Evacuation) -> kube::Result<Evacuation> {
    put_entries(api, evacuation, &[]).await
}

/// Puts these entries in the place of all the others, as the user of that client.
pub async fn put_entries(
    api: &Api<Evacuation>,
    evacuation: &Evacuation,
    entries: &[Value],
) -> kube::Result<Evacuation> {
    loop {
        let version = api.get(&evacuation.name_any()).await?.resource_version();
        let patch = json!({"metadata": {"resourceVersion": version}, "spec": {"requesters": entries}});
        let put = api.patch(&evacuation.name_any(), &PatchParams::default(), &Patch::Merge(patch)).await;
        match put {
            // Another writer was faster: the newest version decides.
            Err(kube::Error::Api(status))
                if status.code == 409 && status.message.contains("has been modified") => {}
            put => return put,
        }
    }
}

/// An Evacuation of that pod with these entries, not yet created.
pub fn wanting(pod: &str, entries: &[Value]) -> Evacuation {
    let wanted = json!({
        "metadata": {"generateName": format!("{pod}-")},
        "spec": {"target": {"pod": {"name": pod}}, "requesters": entries},
    });
    serde_json::from_value(wanted).unwrap()
}

/// An entry of that name with these further fields.
pub fn entry(name: &str, more: Value) -> Value {
    let mut entry = more;
    entry["name"] = json!(name);
    entry
}

/// The time that many milliseconds from now, as an entry's deadline.
pub fn in_millis(milliseconds: i64) -> Value {
    let time = Utc::now() + TimeDelta::milliseconds(milliseconds);
    json!(time.to_rfc3339_opts(SecondsFormat::Micros, true))
}

/// Waits until the test's clock shows that time: the length of an outage.
pub async fn until_time(time: DateTime<Utc>) {
    let left = (time - Utc::now()).to_std().unwrap_or_default();
    tokio::time::sleep(left).await;
}
