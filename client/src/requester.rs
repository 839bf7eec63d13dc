//! The asking side: create an Evacuation, or join the one that is under way.

use std::time::Duration;

use evacuation_api::{
    DeadlineAction, Evacuation, EvacuationSpec, PodTarget, RefusalPolicy, Requester as Entry, Target,
    Timestamp,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Api, Client, api::PostParams};

use crate::{EvacuationHandle, RequestError};

/// How often create and join are tried in turn before giving up: each turn is lost only to another writer.
const TURNS: usize = 10;

/// One who wants pods moved.
#[derive(Clone, Debug)]
pub struct Requester {
    client: DebugClient,
    entry: Entry,
    deadline_after: Option<Duration>,
    params: PostParams,
}

/// A client that does not spoil `Debug` of what holds it.
#[derive(Clone)]
struct DebugClient(Client);

impl std::fmt::Debug for DebugClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Client")
    }
}

impl Requester {
    /// A requester with a domain-prefixed name, such as `repair.acme.io/rack-7`.
    pub fn new(client: Client, name: impl Into<String>) -> Self {
        let entry = Entry {
            name: name.into(),
            reason: None,
            message: None,
            on_refusal: None,
            deadline: None,
            at_deadline: None,
            grace_period_seconds: None,
        };
        Self {
            client: DebugClient(client),
            entry,
            deadline_after: None,
            params: PostParams::default(),
        }
    }

    /// Why, in CamelCase for machines, such as `NodeMaintenance`.
    #[must_use]
    pub fn reason(mut self, reason: impl Into<String>) -> Self {
        self.entry.reason = Some(reason.into());
        self
    }

    /// Why, in words for people.
    #[must_use]
    pub fn message(mut self, message: impl Into<String>) -> Self {
        self.entry.message = Some(message.into());
        self
    }

    /// What happens when a responder refuses; `Wait` by default.
    #[must_use]
    pub fn on_refusal(mut self, policy: RefusalPolicy) -> Self {
        self.entry.on_refusal = Some(policy);
        self
    }

    /// What happens when an evacuation took this long, counted from each request.
    #[must_use]
    pub fn deadline(mut self, after: Duration, action: DeadlineAction) -> Self {
        self.deadline_after = Some(after);
        self.entry.at_deadline = Some(action);
        self
    }

    /// The grace period of the eviction, in seconds; the pod's own by default.
    #[must_use]
    pub fn grace_period_seconds(mut self, seconds: i64) -> Self {
        self.entry.grace_period_seconds = Some(seconds);
        self
    }

    /// Has the server check everything and store nothing.
    #[must_use]
    pub fn dry_run(mut self) -> Self {
        self.params.dry_run = true;
        self
    }

    /// Asks the pod of that name to move: creates an Evacuation, or joins the one that is under way.
    ///
    /// # Errors
    ///
    /// What the API said: no such pod, not allowed, invalid.
    pub async fn evacuate(&self, namespace: &str, pod: &str) -> Result<EvacuationHandle, RequestError> {
        let api: Api<Evacuation> = Api::namespaced(self.client.0.clone(), namespace);
        let entry = self.entry();
        let fail = |action, name: &str, source| RequestError::Api {
            action,
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            source: Box::new(source),
        };
        let mut last = pod.to_owned();
        for _ in 0..TURNS {
            let new = evacuation(pod, &entry);
            let active = match api.create(&self.params, &new).await {
                Ok(created) => return Ok(self.handle(api, created, false)),
                Err(error) => match active_evacuation(&error) {
                    Some(name) => name,
                    None => return Err(fail("creating an evacuation of pod", pod, error)),
                },
            };
            match self.join(&api, &active, &entry).await {
                Ok(Some(joined)) => return Ok(self.handle(api, joined, true)),
                Ok(None) => last = active,
                Err(error) => return Err(fail("joining evacuation", &active, error)),
            }
        }
        Err(RequestError::Contended {
            namespace: namespace.to_owned(),
            name: last,
        })
    }

    /// The Evacuation that [`Requester::evacuate`] would create, for a dry run or a manifest.
    pub fn manifest(&self, namespace: &str, pod: &str) -> Evacuation {
        let mut evacuation = evacuation(pod, &self.entry());
        evacuation.metadata.namespace = Some(namespace.to_owned());
        evacuation
    }

    fn entry(&self) -> Entry {
        let deadline = self
            .deadline_after
            .map(|after| Timestamp(chrono::Utc::now() + after));
        Entry {
            deadline: deadline.or(self.entry.deadline),
            ..self.entry.clone()
        }
    }

    /// Adds or replaces the requester's entry. `None` when somebody else changed the object, or it ended meanwhile.
    async fn join(
        &self,
        api: &Api<Evacuation>,
        name: &str,
        entry: &Entry,
    ) -> Result<Option<Evacuation>, kube::Error> {
        let Some(mut evacuation) = api.get_opt(name).await? else {
            return Ok(None);
        };
        match evacuation
            .spec
            .requesters
            .iter_mut()
            .find(|other| other.name == entry.name)
        {
            Some(own) => *own = entry.clone(),
            None => evacuation.spec.requesters.push(entry.clone()),
        }
        match api.replace(name, &self.params, &evacuation).await {
            Ok(joined) => Ok(Some(joined)),
            Err(kube::Error::Api(status)) if status.code == 404 || lost_turn(&status) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn handle(&self, api: Api<Evacuation>, evacuation: Evacuation, joined: bool) -> EvacuationHandle {
        EvacuationHandle::new(api, &self.entry.name, evacuation, joined)
    }
}

/// A new Evacuation of that pod, with one entry.
fn evacuation(pod: &str, entry: &Entry) -> Evacuation {
    let spec = EvacuationSpec {
        target: Target {
            pod: PodTarget {
                name: pod.to_owned(),
                uid: None,
            },
        },
        requesters: vec![entry.clone()],
        ttl_seconds_after_finished: None,
    };
    let metadata = ObjectMeta {
        generate_name: Some(format!("{pod}-")),
        ..ObjectMeta::default()
    };
    Evacuation {
        metadata,
        ..Evacuation::new("", spec)
    }
}

/// Whether a 409 means only that another writer was first, or that the Evacuation has ended.
pub(crate) fn lost_turn(status: &kube::core::Status) -> bool {
    status.code == 409 && !has_cause(status, "EvictionInFlight")
}

/// Whether a status carries a cause of that reason.
pub(crate) fn has_cause(status: &kube::core::Status, reason: &str) -> bool {
    status
        .details
        .as_ref()
        .is_some_and(|details| details.causes.iter().any(|cause| cause.reason == reason))
}

/// The name of the active Evacuation that a refused creation names.
fn active_evacuation(error: &kube::Error) -> Option<String> {
    let kube::Error::Api(status) = error else {
        return None;
    };
    let causes = &status.details.as_ref()?.causes;
    let cause = causes
        .iter()
        .find(|cause| cause.reason == "ActiveEvacuationExists")?;
    Some(cause.message.clone())
}

#[cfg(test)]
mod tests {
    use kube::core::{
        Status,
        response::{StatusCause, StatusDetails},
    };

    use super::*;

    #[test]
    fn a_refused_creation_names_the_active_evacuation() {
        let cause = StatusCause {
            reason: "ActiveEvacuationExists".to_owned(),
            message: "db-0-x7k2p".to_owned(),
            field: String::new(),
        };
        let details = StatusDetails {
            name: String::new(),
            group: String::new(),
            kind: String::new(),
            uid: String::new(),
            causes: vec![cause],
            retry_after_seconds: 0,
        };
        let status = Status::failure("exists", "AlreadyExists")
            .with_code(409)
            .with_details(details);
        assert_eq!(
            active_evacuation(&kube::Error::Api(Box::new(status))).as_deref(),
            Some("db-0-x7k2p")
        );
    }

    #[test]
    fn another_conflict_names_none() {
        let status = Status::failure("name taken", "AlreadyExists").with_code(409);
        assert_eq!(active_evacuation(&kube::Error::Api(Box::new(status))), None);
    }
}
