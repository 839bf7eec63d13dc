//! The asking side: creates an Evacuation, or joins the active one.

use std::time::Duration;

use chrono::{DateTime, Utc};
use evacuation_api::{
    DeadlineAction, Evacuation, EvacuationSpec, OwnerGroups, PodTarget, RefusalPolicy, Requester as Entry,
    Window,
};
use k8s_openapi::{
    api::{authentication::v1::SelfSubjectReview, core::v1::Pod},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::{Api, Client, ResourceExt, api::PostParams};
use machinery_validation::derived_name;

use crate::{EvacuationHandle, RequestError, backoff::turns, call::call};

/// Start of the year 9999, in seconds since 1970. RFC 3339 has four digits for the year, and some readers
/// take less than all of 9999.
const LATEST: i64 = 253_370_764_800;

/// Seconds for which a rehearsal is kept after its end, so that a person can look at it.
pub const REHEARSAL_TTL_SECONDS: i64 = 300;

/// A requester of evacuations.
#[derive(Clone, Debug)]
pub struct Requester {
    client: DebugClient,
    entry: Entry,
    owner_groups: Option<OwnerGroups>,
    deadline_after: Option<Duration>,
    params: PostParams,
}

/// A client with a `Debug`, so that its holders can derive theirs.
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
        Self::of_entry(client, Entry::named(name))
    }

    /// A requester with an entry that the caller has made itself. An entry that names another user as its
    /// owner needs the verb `override`.
    pub fn of_entry(client: Client, entry: Entry) -> Self {
        Self {
            client: DebugClient(client),
            entry,
            owner_groups: None,
            deadline_after: None,
            params: PostParams::default(),
        }
    }

    /// Groups of the entry's owner, for an entry that names another user. The server judges by them whether
    /// the owner may use the reserve of the object limits.
    #[must_use]
    pub fn owner_groups(mut self, groups: &[String]) -> Self {
        self.owner_groups = Some(OwnerGroups::new(&self.entry.owner, groups));
        self
    }

    /// Reason in CamelCase for machines, such as `NodeMaintenance`.
    #[must_use]
    pub fn reason(mut self, reason: impl Into<String>) -> Self {
        self.entry.reason = Some(reason.into());
        self
    }

    /// Reason in words for people.
    #[must_use]
    pub fn message(mut self, message: impl Into<String>) -> Self {
        self.entry.message = Some(message.into());
        self
    }

    /// Consequence of a refusal; `Wait` by default.
    #[must_use]
    pub fn on_refusal(mut self, policy: RefusalPolicy) -> Self {
        self.entry.on_refusal = Some(policy);
        self
    }

    /// Deadline, as a time after each request, and its action. A deadline after the start of the year 9999 is
    /// moved there.
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

    /// Starts negotiating only when this window opens, or at the deadline; at once by default.
    #[must_use]
    pub fn window(mut self, window: Window) -> Self {
        self.entry.window = Some(window);
        self
    }

    /// Makes the server check everything and store nothing.
    #[must_use]
    pub fn dry_run(mut self) -> Self {
        self.params.dry_run = true;
        self
    }

    /// Asks the pod of that name to move: creates an Evacuation, or joins the active one.
    ///
    /// # Errors
    ///
    /// [`RequestError::Api`] for a refusal: no such pod ([`RequestError::is_pod_gone`]), not allowed,
    /// invalid, or a conflict with the cause `RequesterExpired`: the entry has passed its GiveUp deadline,
    /// and only a withdrawal removes it. [`RequestError::NoReply`] without a reply within 30 s, and
    /// [`RequestError::Contended`] when others kept changing the object.
    pub async fn evacuate(&self, namespace: &str, pod: &str) -> Result<EvacuationHandle, RequestError> {
        let target = PodTarget { name: pod.to_owned(), uid: None };
        self.evacuate_target(namespace, &target).await
    }

    /// Asks like [`Requester::evacuate`], by UID: a later pod of the same name, such as a StatefulSet's on
    /// another node, is not asked. A pod without a UID, which was not read from the API, is asked by its
    /// name.
    ///
    /// # Errors
    ///
    /// Those of [`Requester::evacuate`]; [`RequestError::is_pod_gone`] also when another pod has the name.
    pub async fn evacuate_pod(&self, pod: &Pod) -> Result<EvacuationHandle, RequestError> {
        let target = PodTarget { name: pod.name_any(), uid: pod.uid() };
        let namespace = pod.namespace();
        let namespace = namespace.as_deref();
        self.evacuate_target(namespace.unwrap_or_else(|| self.client.0.default_namespace()), &target).await
    }

    /// Asks like [`Requester::evacuate_pod`], for a target with a name and perhaps a UID.
    ///
    /// # Errors
    ///
    /// Those of [`Requester::evacuate_pod`].
    pub async fn evacuate_target(
        &self,
        namespace: &str,
        pod: &PodTarget,
    ) -> Result<EvacuationHandle, RequestError> {
        let api: Api<Evacuation> = Api::namespaced(self.client.0.clone(), namespace);
        let entry = self.entry();
        let mut pauses = turns();
        loop {
            let mut new = evacuation(pod, &entry);
            self.declare_groups(&mut new);
            let create = api.create(&self.params, &new);
            let active = match call("creating an evacuation of pod", namespace, &pod.name, create).await {
                Ok(created) => return Ok(self.handle(api, created, 0, false)),
                Err(error) => active_evacuation(&error).ok_or(error)?,
            };
            if let Some(joined) = self.join(&api, namespace, &active, pod.uid.as_deref(), &entry).await? {
                return Ok(joined);
            }
            let Some(pause) = pauses.next() else {
                return Err(RequestError::Contended { namespace: namespace.to_owned(), name: active });
            };
            tokio::time::sleep(pause).await;
        }
    }

    /// Rehearses an evacuation of the pod of that name: each responder is asked once, in a question marked as
    /// a rehearsal, and then told that it is over. The pod is never evicted. The rehearsal ends after `limit`
    /// at the latest, whatever deadline the requester has, and is kept for [`REHEARSAL_TTL_SECONDS`] after
    /// its end.
    ///
    /// # Errors
    ///
    /// Those of [`Requester::evacuate`], and a conflict with the cause `ActiveRehearsalExists` while another
    /// one goes on.
    pub async fn rehearse(
        &self,
        namespace: &str,
        pod: &str,
        limit: Duration,
    ) -> Result<EvacuationHandle, RequestError> {
        let api: Api<Evacuation> = Api::namespaced(self.client.0.clone(), namespace);
        let entry = Entry {
            deadline: Some(deadline(Utc::now(), limit).into()),
            at_deadline: Some(DeadlineAction::GiveUp),
            window: None,
            ..self.entry.clone()
        };
        let target = PodTarget { name: pod.to_owned(), uid: None };
        let spec = EvacuationSpec {
            rehearsal: true,
            ttl_seconds_after_finished: Some(REHEARSAL_TTL_SECONDS),
            ..EvacuationSpec::new(target, vec![entry])
        };
        let metadata =
            ObjectMeta { generate_name: Some(derived_name(pod, "-test-")), ..ObjectMeta::default() };
        let mut new = Evacuation { metadata, ..Evacuation::new("", spec) };
        self.declare_groups(&mut new);
        let create = api.create(&self.params, &new);
        let created = call("creating a rehearsal of pod", namespace, pod, create).await?;
        Ok(self.handle(api, created, 0, false))
    }

    /// The Evacuation that [`Requester::evacuate`] would create, for a dry run or a manifest.
    pub fn manifest(&self, namespace: &str, pod: &str) -> Evacuation {
        let target = PodTarget { name: pod.to_owned(), uid: None };
        let mut evacuation = evacuation(&target, &self.entry());
        evacuation.metadata.namespace = Some(namespace.to_owned());
        evacuation
    }

    fn declare_groups(&self, evacuation: &mut Evacuation) {
        if let Some(groups) = &self.owner_groups {
            groups.write(&mut evacuation.metadata);
        }
    }

    fn entry(&self) -> Entry {
        let deadline = self.deadline_after.map(|after| deadline(Utc::now(), after).into());
        Entry { deadline: deadline.or(self.entry.deadline), ..self.entry.clone() }
    }

    /// Adds or replaces the requester's entry. `None` when another writer changed the object, the object
    /// ended, or it targets another pod than that of the given UID.
    async fn join(
        &self,
        api: &Api<Evacuation>,
        namespace: &str,
        name: &str,
        pod_uid: Option<&str>,
        entry: &Entry,
    ) -> Result<Option<EvacuationHandle>, RequestError> {
        let mut evacuation = match call("reading evacuation", namespace, name, api.get(name)).await {
            Err(error) if error.is_missing() => return Ok(None),
            found => found?,
        };
        if pod_uid.is_some() && evacuation.spec.target.pod.uid.as_deref() != pod_uid {
            return Ok(None);
        }
        let place = self.place(&evacuation.spec.requesters, namespace, name).await?;
        match evacuation.spec.requesters.get_mut(place) {
            Some(own) => *own = Entry { owner: own.owner.clone(), ..entry.clone() },
            None => evacuation.spec.requesters.push(entry.clone()),
        }
        self.declare_groups(&mut evacuation);
        let write = api.replace(name, &self.params, &evacuation);
        match call("joining evacuation", namespace, name, write).await {
            Ok(joined) => Ok(Some(self.handle(api.clone(), joined, place, true))),
            Err(error) if error.is_lost_turn() || error.is_over() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns the place of the entry of this owner and name, or the end of the list. Without an owner, and
    /// only where another user could have the entry, the client asks the server for the caller's name.
    async fn place(&self, entries: &[Entry], namespace: &str, name: &str) -> Result<usize, RequestError> {
        if !entries.iter().any(|other| other.name == self.entry.name) {
            return Ok(entries.len());
        }
        if !self.entry.owner.is_empty() {
            let own = |other: &Entry| other.key() == self.entry.key();
            return Ok(entries.iter().position(own).unwrap_or(entries.len()));
        }
        let reviews: Api<SelfSubjectReview> = Api::all(self.client.0.clone());
        let (params, review) = (PostParams::default(), SelfSubjectReview::default());
        let create = reviews.create(&params, &review);
        let review = call("reading the user's name to join evacuation", namespace, name, create).await?;
        let user = review.status.and_then(|status| status.user_info).and_then(|user| user.username);
        let own = |other: &Entry| other.name == self.entry.name && Some(&other.owner) == user.as_ref();
        Ok(entries.iter().position(own).unwrap_or(entries.len()))
    }

    /// The handle of the entry at that place of the object that the server returned, with the owner that it
    /// filled in.
    fn handle(
        &self,
        api: Api<Evacuation>,
        evacuation: Evacuation,
        place: usize,
        joined: bool,
    ) -> EvacuationHandle {
        let owner = evacuation.spec.requesters.get(place).map(|entry| entry.owner.clone());
        let entry = Entry { owner: owner.unwrap_or_default(), ..Entry::named(&self.entry.name) };
        EvacuationHandle::new(api, entry, evacuation, joined)
    }
}

/// Time that long after `now`, but not after [`LATEST`].
fn deadline(now: DateTime<Utc>, after: Duration) -> DateTime<Utc> {
    let latest = DateTime::from_timestamp(LATEST, 0).unwrap_or(DateTime::<Utc>::MAX_UTC);
    chrono::Duration::from_std(after)
        .ok()
        .and_then(|after| now.checked_add_signed(after))
        .map_or(latest, |time| time.min(latest))
}

/// A new Evacuation of that pod, with one entry.
fn evacuation(pod: &PodTarget, entry: &Entry) -> Evacuation {
    let spec = EvacuationSpec::new(pod.clone(), vec![entry.clone()]);
    let metadata = ObjectMeta { generate_name: Some(derived_name(&pod.name, "-")), ..ObjectMeta::default() };
    Evacuation { metadata, ..Evacuation::new("", spec) }
}

/// The name of the active Evacuation that a refused creation names.
fn active_evacuation(error: &RequestError) -> Option<String> {
    error.cause("ActiveEvacuationExists").map(|cause| cause.message.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{recording, replying};

    const ACTIVE_EXISTS: (u16, &str) = (
        409,
        r#"{"kind":"Status","status":"Failure","code":409,"reason":"Conflict",
            "details":{"causes":[{"reason":"ActiveEvacuationExists","message":"db-0-x7k2p"}]}}"#,
    );
    const ACTIVE: (u16, &str) = (
        200,
        r#"{"metadata":{"name":"db-0-x7k2p","namespace":"shop","uid":"1"},
            "spec":{"target":{"pod":{"name":"db-0","uid":"P"}}}}"#,
    );
    const CREATED: (u16, &str) = (
        201,
        r#"{"metadata":{"name":"db-0-new","namespace":"shop","uid":"2"},
            "spec":{"target":{"pod":{"name":"db-0","uid":"P"}}}}"#,
    );
    const CONFLICT: (u16, &str) =
        (409, r#"{"kind":"Status","status":"Failure","code":409,"reason":"Conflict"}"#);
    const FINISHED: (u16, &str) = (
        409,
        r#"{"kind":"Status","status":"Failure","code":409,"reason":"Conflict",
            "details":{"causes":[{"reason":"EvacuationFinished"}]}}"#,
    );
    const LAPSED: (u16, &str) = (
        409,
        r#"{"kind":"Status","status":"Failure","code":409,"reason":"Conflict",
            "details":{"causes":[{"reason":"RequesterExpired"}]}}"#,
    );
    const TAKEN: (u16, &str) =
        (409, r#"{"kind":"Status","status":"Failure","code":409,"reason":"AlreadyExists"}"#);

    async fn evacuate(replies: &'static [(u16, &'static str)]) -> Result<EvacuationHandle, RequestError> {
        Requester::new(replying(replies), "acme.io/a").evacuate("shop", "db-0").await
    }

    #[tokio::test(start_paused = true)]
    async fn the_active_evacuation_that_a_refused_creation_names_is_joined() {
        let handle = evacuate(&[ACTIVE_EXISTS, ACTIVE, ACTIVE]).await.unwrap();
        assert!(handle.joined());
        assert_eq!(handle.name(), "db-0-x7k2p");
    }

    #[tokio::test(start_paused = true)]
    async fn an_entry_of_another_user_with_the_same_name_is_neither_replaced_nor_withdrawn() {
        const OTHERS: (u16, &str) = (
            200,
            r#"{"metadata":{"name":"db-0-x7k2p","namespace":"shop","uid":"1"},
                "spec":{"target":{"pod":{"name":"db-0","uid":"P"}},
                        "requesters":[{"owner":"mallory","name":"acme.io/a"}]}}"#,
        );
        const JOE: (u16, &str) = (201, r#"{"status":{"userInfo":{"username":"joe"}}}"#);
        const BOTH: (u16, &str) = (
            200,
            r#"{"metadata":{"name":"db-0-x7k2p","namespace":"shop","uid":"1"},
                "spec":{"target":{"pod":{"name":"db-0","uid":"P"}},
                        "requesters":[{"owner":"mallory","name":"acme.io/a"},{"owner":"joe","name":"acme.io/a"}]}}"#,
        );
        let (client, sent) = recording(&[ACTIVE_EXISTS, OTHERS, JOE, BOTH, BOTH, OTHERS]);
        let handle = Requester::new(client, "acme.io/a").evacuate("shop", "db-0").await.unwrap();
        handle.withdraw().await.unwrap();
        let sent = sent.lock().unwrap();
        let entries = |body: &serde_json::Value| body["spec"]["requesters"].clone();
        let written: Vec<_> = sent.iter().map(entries).filter(serde_json::Value::is_array).collect();
        let theirs = serde_json::json!({"owner": "mallory", "name": "acme.io/a"});
        let joined = serde_json::json!([theirs, {"name": "acme.io/a"}]);
        assert_eq!(written[1..], [joined, serde_json::json!([theirs])]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_creation_refused_for_another_conflict_is_an_error() {
        let error = evacuate(&[TAKEN, CREATED]).await.unwrap_err();
        assert!(matches!(error, RequestError::Api { .. }), "{error:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_lapsed_entry_cannot_be_joined_again_and_that_is_said_at_once() {
        let error = evacuate(&[ACTIVE_EXISTS, ACTIVE, LAPSED, CREATED]).await.unwrap_err();
        assert!(error.cause("RequesterExpired").is_some(), "{error:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn when_the_active_one_ends_before_it_is_joined_another_is_created() {
        let handle = evacuate(&[ACTIVE_EXISTS, ACTIVE, FINISHED, CREATED]).await.unwrap();
        assert!(!handle.joined());
        assert_eq!(handle.name(), "db-0-new");
    }

    #[tokio::test(start_paused = true)]
    async fn turns_that_are_lost_to_another_writer_end_after_pauses() {
        let begun = tokio::time::Instant::now();
        let handle = evacuate(&[ACTIVE_EXISTS, ACTIVE, CONFLICT, ACTIVE_EXISTS, ACTIVE, ACTIVE]).await;
        assert!(handle.unwrap().joined());
        assert!(begun.elapsed() >= Duration::from_millis(50), "{:?}", begun.elapsed());
    }

    /// The pod `db-0` as it was read.
    fn seen(uid: &str) -> Pod {
        let mut pod = Pod::default();
        pod.metadata.name = Some("db-0".to_owned());
        pod.metadata.namespace = Some("shop".to_owned());
        pod.metadata.uid = Some(uid.to_owned());
        pod
    }

    #[tokio::test]
    async fn a_deadline_beyond_all_calendars_is_the_latest_one() {
        for (after, expected) in [
            (Duration::from_mins(1), "2026-11-20T22:01:00+00:00"),
            (Duration::from_hours(24 * 366 * 300_000), "9999-01-01T00:00:00+00:00"),
            (Duration::MAX, "9999-01-01T00:00:00+00:00"),
        ] {
            let now = "2026-11-20T22:00:00Z".parse().unwrap();
            assert_eq!(deadline(now, after).to_rfc3339(), expected, "{after:?}");
            let manifest = Requester::new(replying(&[CREATED]), "acme.io/a")
                .deadline(after, DeadlineAction::Evict)
                .manifest("shop", "db-0");
            let written = serde_json::to_value(&manifest).unwrap();
            assert!(serde_json::from_value::<Evacuation>(written).is_ok(), "{after:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_pod_that_was_read_is_asked_with_its_uid() {
        let (client, sent) = recording(&[CREATED]);
        Requester::new(client, "acme.io/a").evacuate_pod(&seen("P")).await.unwrap();
        let sent = sent.lock().unwrap();
        assert_eq!(sent[0]["spec"]["target"]["pod"], serde_json::json!({"name": "db-0", "uid": "P"}));
    }

    #[tokio::test(start_paused = true)]
    async fn a_window_is_sent_with_the_entry() {
        let (client, sent) = recording(&[CREATED]);
        let window = Window {
            schedule: "0 22 * * 6".to_owned(),
            duration_seconds: 7200,
            time_zone: Some("Europe/Berlin".to_owned()),
        };
        let requester = Requester::new(client, "acme.io/a").window(window);
        requester.evacuate("shop", "db-0").await.unwrap();
        let sent = sent.lock().unwrap();
        assert_eq!(
            sent[0]["spec"]["requesters"][0]["window"],
            serde_json::json!({"schedule": "0 22 * * 6", "durationSeconds": 7200, "timeZone": "Europe/Berlin"})
        );
    }

    #[tokio::test(start_paused = true)]
    async fn an_evacuation_of_another_pod_is_not_joined() {
        const WRONG_POD: (u16, &str) = (
            409,
            r#"{"kind":"Status","status":"Failure","code":409,"reason":"Conflict",
                "details":{"causes":[{"reason":"WrongPod","field":"spec.target.pod.uid"}]}}"#,
        );
        let requester = Requester::new(replying(&[ACTIVE_EXISTS, ACTIVE, WRONG_POD]), "acme.io/a");
        let error = requester.evacuate_pod(&seen("older")).await.unwrap_err();
        assert!(error.is_pod_gone(), "{error:?}");
        let requester = Requester::new(replying(&[ACTIVE_EXISTS, ACTIVE, ACTIVE]), "acme.io/a");
        assert!(requester.evacuate_pod(&seen("P")).await.unwrap().joined());
    }
}
