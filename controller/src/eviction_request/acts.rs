//! The acts of a plan as requests to the API.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use evacuation_api::{Evacuation, EvacuationResponse, Requester};
use evacuation_protocol::{
    EVICTION_REQUESTS_OWNER, Eviction, EvictionAct, EvictionRequest, EvictionWorld, Voice, invalid_request,
};
use kube::{Api, Client, ResourceExt, api::PostParams};
use tracing::{debug, info};

use super::targets::Targets;
use crate::cluster::{
    CallError, Change, Cluster, ClusterEvent, Leadership, ObjectKey, ServerClock, View, Watched, all_done,
    call, evacuation_of, evacuations, is_settled_by_the_watch, lock, read_pod,
};

/// Name in the `managedFields` of what is written.
const FIELD_MANAGER: &str = "evacuation-controller";

/// Writer of the acts.
pub(super) struct Acts {
    client: Client,
    leadership: Leadership,
    view: Arc<View>,
    clock: Arc<ServerClock>,
    requests: Arc<Targets<EvictionRequest>>,
    evictions: Arc<Targets<Eviction>>,
    /// The resourceVersion of each Evacuation, by its UID, at which a responder's voice was last raised. It
    /// only saves posts.
    spoken: Mutex<HashMap<String, String>>,
}

impl Acts {
    /// Returns a writer that stores what the API returns.
    pub(super) fn new(
        cluster: &Cluster,
        requests: &Arc<Targets<EvictionRequest>>,
        evictions: &Arc<Targets<Eviction>>,
    ) -> Self {
        Self {
            client: cluster.client.clone(),
            leadership: cluster.leadership.clone(),
            view: Arc::clone(&cluster.view),
            clock: Arc::clone(&cluster.clock),
            requests: Arc::clone(requests),
            evictions: Arc::clone(evictions),
            spoken: Mutex::default(),
        }
    }

    /// Forgets an Evacuation that is gone.
    pub(super) fn handle(&self, event: &ClusterEvent<'_>) {
        if let ClusterEvent::Evacuation(Change { old: Some(gone), new: None, .. }) = event {
            lock(&self.spoken).remove(&gone.uid().unwrap_or_default());
        }
    }

    /// Reads the pod from the API. Returns true when it does not exist. The view learns of one that does.
    pub(super) async fn finds_no_pod(&self, key: &ObjectKey, uid: &str) -> Result<bool, CallError> {
        let found = read_pod(&self.client, key).await?;
        let found = found.filter(|pod| pod.metadata.uid.as_deref() == Some(uid));
        let missing = found.is_none();
        if let Some(pod) = found {
            self.view.apply(pod);
        }
        Ok(missing)
    }

    /// Carries the acts out, one after another.
    ///
    /// # Errors
    ///
    /// The first failure. It does not keep the other acts from being done.
    pub(super) async fn carry_out(
        &self,
        world: &EvictionWorld<'_>,
        acts: &[EvictionAct<'_>],
    ) -> Result<(), CallError> {
        let acts = acts.iter().map(|act| self.act(world, act)).collect();
        all_done(acts, 1).await
    }

    async fn act(&self, world: &EvictionWorld<'_>, act: &EvictionAct<'_>) -> Result<(), CallError> {
        self.leadership.check()?;
        match act {
            EvictionAct::Ask(entry) => self.ask(world, entry).await,
            EvictionAct::Entries(evacuation, entries) => self.set_entries(evacuation, entries).await,
            EvictionAct::Create(eviction) => self.create(eviction).await,
            EvictionAct::Label(eviction) => self.label(eviction).await,
            EvictionAct::Track(eviction) => self.track(eviction).await,
            EvictionAct::Report(request) => self.report(request).await,
            EvictionAct::Speak(evacuation, voice) => self.speak(evacuation, voice).await,
        }
    }

    /// Creates an Evacuation. When the API does not take it, the requests learn why.
    async fn ask(&self, world: &EvictionWorld<'_>, entry: &Requester) -> Result<(), CallError> {
        let Some(pod) = world.pod else { return Ok(()) };
        let key = ObjectKey::of(pod);
        let api = evacuations(&self.client, &key.namespace);
        let wanted = evacuation_of(pod, entry);
        match call(format!("ask pod {key} to move"), api.create(&wanted)).await {
            Ok(created) => {
                info!(pod = %key, requester = entry.name, "an EvictionRequest asks the pod to move");
                self.view.apply(created);
                Ok(())
            }
            // The watch will show the Evacuation to join, or that the pod is gone.
            Err(error) if is_settled_by_the_watch(&error) => Ok(()),
            Err(error) if matches!(error.code(), 400 | 422) => {
                let message = error.status().map(|status| status.message.clone()).unwrap_or_default();
                self.reject(world, &entry.name, &message).await
            }
            Err(error) => Err(error),
        }
    }

    /// Writes to the requests of a requester that the evacuation API does not take them.
    async fn reject(
        &self,
        world: &EvictionWorld<'_>,
        requester: &str,
        message: &str,
    ) -> Result<(), CallError> {
        for request in world.requests.iter().filter(|request| request.spec.requester == requester) {
            self.report(&invalid_request(request, message, self.clock.now())).await?;
        }
        Ok(())
    }

    /// Makes these the entries of EvictionRequests in an Evacuation.
    ///
    /// # Errors
    ///
    /// A 409 while an eviction is in flight: its outcome decides whether a withdrawal is possible.
    async fn set_entries(&self, evacuation: &Evacuation, entries: &[Requester]) -> Result<(), CallError> {
        let key = ObjectKey::of(evacuation);
        let api = evacuations(&self.client, &key.namespace);
        let write = api.edit(evacuation, |whole| {
            whole.spec.requesters.retain(|entry| entry.owner != EVICTION_REQUESTS_OWNER);
            whole.spec.requesters.extend_from_slice(entries);
        });
        let action = format!("write the entries of evictionrequests to evacuation {key}");
        self.view.apply(call(action, write).await?);
        Ok(())
    }

    async fn create(&self, eviction: &Eviction) -> Result<(), CallError> {
        let (api, _) = self.eviction(eviction);
        let parameters = written();
        let prefix = eviction.metadata.generate_name.as_deref().unwrap_or_default();
        let created = call(format!("create eviction {prefix}"), api.create(&parameters, eviction)).await?;
        self.evictions.apply(created);
        Ok(())
    }

    async fn label(&self, eviction: &Eviction) -> Result<(), CallError> {
        let (api, key) = self.eviction(eviction);
        let parameters = written();
        let write = api.replace(&key.name, &parameters, eviction);
        self.evictions.apply(call(format!("write the labels of eviction {key}"), write).await?);
        Ok(())
    }

    async fn track(&self, eviction: &Eviction) -> Result<(), CallError> {
        let (api, key) = self.eviction(eviction);
        let parameters = written();
        let write = api.replace_status(&key.name, &parameters, eviction);
        self.evictions.apply(call(format!("write the status of eviction {key}"), write).await?);
        Ok(())
    }

    fn eviction(&self, eviction: &Eviction) -> (Api<Eviction>, ObjectKey) {
        let key = ObjectKey::of(eviction);
        (Api::namespaced(self.client.clone(), &key.namespace), key)
    }

    async fn report(&self, request: &EvictionRequest) -> Result<(), CallError> {
        let key = ObjectKey::of(request);
        let api: Api<EvictionRequest> = Api::namespaced(self.client.clone(), &key.namespace);
        let parameters = written();
        let write = api.replace_status(&key.name, &parameters, request);
        match call(format!("write the status of evictionrequest {key}"), write).await {
            Err(error) if error.code() == 404 => Ok(()),
            written => {
                self.requests.apply(written?);
                Ok(())
            }
        }
    }

    /// Answers in the name of a responder, once for each state of the Evacuation.
    async fn speak(&self, evacuation: &Evacuation, voice: &Voice) -> Result<(), CallError> {
        let (key, uid) = (ObjectKey::of(evacuation), evacuation.uid().unwrap_or_default());
        let state = format!("{} {}", evacuation.resource_version().unwrap_or_default(), voice.responder);
        if lock(&self.spoken).get(&uid) == Some(&state) {
            return Ok(());
        }
        let body = EvacuationResponse::new((*voice.answer).clone());
        let api = evacuations(&self.client, &key.namespace);
        let post = api.respond(&key.name, &body);
        debug!(evacuation = %key, responder = voice.responder, "answers for a responder of Kubernetes' own API");
        call(format!("answer evacuation {key} as {}", voice.responder), post).await?;
        lock(&self.spoken).insert(uid, state);
        Ok(())
    }
}

/// Returns the parameters of a write to Kubernetes' own API, with the name by which it is known there.
fn written() -> PostParams {
    PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() }
}
