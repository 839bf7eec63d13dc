//! An Evacuation that a requester created or joined.

use evacuation_api::{ConditionType, Evacuation, Requester, RequesterKey};
use futures::{TryStreamExt, pin_mut};
use kube::{Api, Client, api::PostParams, runtime::watcher};

use crate::{RequestError, backoff::turns, call::call, watching::watch};

/// End of an Evacuation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// The pod is gone or its phase is terminal; the reason is the condition's.
    Evacuated {
        /// The reason in CamelCase, such as `Evicted`.
        reason: String,
        /// The reason in words.
        message: String,
    },
    /// The pod was left alone; the reason is the condition's.
    Failed {
        /// The reason in CamelCase, such as `Refused`.
        reason: String,
        /// The reason in words.
        message: String,
    },
}

impl End {
    /// Reads the end of an Evacuation, if it has ended.
    pub fn of(evacuation: &Evacuation) -> Option<Self> {
        let status = evacuation.status.as_ref()?;
        if let Some(c) = status.true_condition(ConditionType::Evacuated) {
            return Some(Self::Evacuated { reason: c.reason.clone(), message: c.message.clone() });
        }
        status
            .true_condition(ConditionType::Failed)
            .map(|c| Self::Failed { reason: c.reason.clone(), message: c.message.clone() })
    }
}

impl std::fmt::Display for End {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Evacuated { reason, .. } => write!(f, "evacuated ({reason})"),
            Self::Failed { reason, message } => write!(f, "failed ({reason}): {message}"),
        }
    }
}

/// An Evacuation with the requester's entry in it.
#[derive(Clone, Debug)]
pub struct EvacuationHandle {
    api: Api<Evacuation>,
    /// The key of the entry, and no more.
    entry: Requester,
    namespace: String,
    name: String,
    uid: String,
    joined: bool,
    object: Evacuation,
}

impl EvacuationHandle {
    pub(crate) fn new(api: Api<Evacuation>, entry: Requester, object: Evacuation, joined: bool) -> Self {
        Self {
            api,
            entry,
            namespace: object.metadata.namespace.clone().unwrap_or_default(),
            name: object.metadata.name.clone().unwrap_or_default(),
            uid: object.metadata.uid.clone().unwrap_or_default(),
            joined,
            object,
        }
    }

    /// Returns the handle of an entry that is in an Evacuation already. Of the entry only the key counts.
    pub fn of_entry(client: Client, object: Evacuation, entry: Requester) -> Self {
        let api = Api::namespaced(client, object.metadata.namespace.as_deref().unwrap_or_default());
        Self::new(api, entry, object, true)
    }

    /// The Evacuation's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The Evacuation's namespace.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The Evacuation's UID.
    pub fn uid(&self) -> &str {
        &self.uid
    }

    /// The name of the requester's entry.
    pub fn requester(&self) -> &str {
        &self.entry.name
    }

    /// The key of the requester's entry: its owner and its name.
    pub fn key(&self) -> RequesterKey<'_> {
        self.entry.key()
    }

    /// Returns whether the requester joined an Evacuation of others.
    pub fn joined(&self) -> bool {
        self.joined
    }

    /// The Evacuation as it was created or joined.
    pub fn object(&self) -> &Evacuation {
        &self.object
    }

    /// Waits for the end, through outages of the API. Bound it with `tokio::time::timeout`.
    ///
    /// # Errors
    ///
    /// [`RequestError::Removed`] when the Evacuation was removed before its end was seen.
    /// [`RequestError::Api`] when the first attempt to watch is forbidden. A later one is tried again: an API
    /// server that has just started knows neither tokens nor roles.
    pub async fn wait(&self) -> Result<End, RequestError> {
        self.until(End::of).await
    }

    /// Shows every new state of the Evacuation to `look`, until that returns something. Bound it with
    /// `tokio::time::timeout`.
    ///
    /// # Errors
    ///
    /// Those of [`EvacuationHandle::wait`].
    pub async fn until<T>(&self, mut look: impl FnMut(&Evacuation) -> Option<T>) -> Result<T, RequestError> {
        let config = watcher::Config::default().fields(&format!("metadata.name={}", self.name));
        let events = watch(self.api.clone(), config);
        pin_mut!(events);
        let mut seen = false;
        let mut allowed = false;
        loop {
            let event = match events.try_next().await {
                Ok(Some(event)) => event,
                Ok(None) => return Err(self.removed()),
                Err(error) => match forbidden(error) {
                    Some(source) if !allowed => return Err(self.fail("watching evacuation", source)),
                    _ => continue,
                },
            };
            match event {
                watcher::Event::Init => seen = false,
                watcher::Event::Apply(evacuation) | watcher::Event::InitApply(evacuation) => {
                    if evacuation.metadata.uid.as_deref() != Some(self.uid.as_str()) {
                        return Err(self.removed());
                    }
                    seen = true;
                    if let Some(found) = look(&evacuation) {
                        return Ok(found);
                    }
                }
                watcher::Event::InitDone if !seen => return Err(self.removed()),
                watcher::Event::InitDone => allowed = true,
                watcher::Event::Delete(evacuation) => {
                    return look(&evacuation).ok_or_else(|| self.removed());
                }
            }
        }
    }

    /// Removes the requester's entry. The last requester's withdrawal cancels the Evacuation. An Evacuation
    /// that has ended or is gone needs no withdrawal.
    ///
    /// # Errors
    ///
    /// One that [is too late](RequestError::is_too_late) when an eviction is in flight or was accepted.
    /// [`RequestError::Api`] for every other refusal, [`RequestError::NoReply`] without a reply, and
    /// [`RequestError::Contended`] when others kept changing the object.
    pub async fn withdraw(&self) -> Result<(), RequestError> {
        let mut pauses = turns();
        loop {
            let mut evacuation = match self.call("reading evacuation", self.api.get(&self.name)).await {
                Err(error) if error.is_missing() => return Ok(()),
                found => found?,
            };
            let before = evacuation.spec.requesters.len();
            evacuation.spec.requesters.retain(|entry| entry.key() != self.key());
            let same = evacuation.metadata.uid.as_deref() == Some(self.uid.as_str());
            if !same || End::of(&evacuation).is_some() || evacuation.spec.requesters.len() == before {
                return Ok(());
            }
            let params = PostParams::default();
            let write = self.api.replace(&self.name, &params, &evacuation);
            match self.call("withdrawing from evacuation", write).await {
                Err(error) if error.is_lost_turn() => {}
                Err(error) if !error.is_over() => return Err(error),
                Ok(_) | Err(_) => return Ok(()),
            }
            let Some(pause) = pauses.next() else {
                return Err(RequestError::Contended {
                    namespace: self.namespace.clone(),
                    name: self.name.clone(),
                });
            };
            tokio::time::sleep(pause).await;
        }
    }

    async fn call<T>(
        &self,
        action: &'static str,
        future: impl Future<Output = kube::Result<T>>,
    ) -> Result<T, RequestError> {
        call(action, &self.namespace, &self.name, future).await
    }

    fn fail(&self, action: &'static str, source: kube::Error) -> RequestError {
        let (namespace, name) = (self.namespace.clone(), self.name.clone());
        RequestError::Api { action, namespace, name, source: Box::new(source) }
    }

    fn removed(&self) -> RequestError {
        RequestError::Removed { namespace: self.namespace.clone(), name: self.name.clone() }
    }
}

/// The API's refusal, if the caller may not watch.
fn forbidden(error: watcher::Error) -> Option<kube::Error> {
    use watcher::Error::{InitialListFailed, WatchFailed, WatchStartFailed};
    match error {
        InitialListFailed(source) | WatchFailed(source) | WatchStartFailed(source) => {
            matches!(&source, kube::Error::Api(status) if matches!(status.code, 401 | 403)).then_some(source)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::replying;

    const FORBIDDEN: (u16, &str) =
        (403, r#"{"kind":"Status","status":"Failure","code":403,"reason":"Forbidden"}"#);
    const ACTIVE: (u16, &str) = (
        200,
        r#"{"metadata":{"resourceVersion":"5"},"items":[{
            "metadata":{"name":"a","namespace":"shop","uid":"1"},
            "spec":{"target":{"pod":{"name":"db-0"}}}}]}"#,
    );
    const ENDED: (u16, &str) = (
        200,
        r#"{"metadata":{"resourceVersion":"9"},"items":[{
            "metadata":{"name":"a","namespace":"shop","uid":"1"},
            "spec":{"target":{"pod":{"name":"db-0"}}},
            "status":{"conditions":[{"type":"Evacuated","status":"True","reason":"Evicted","message":"gone",
                "lastTransitionTime":"2026-11-20T22:00:00Z"}]}}]}"#,
    );
    /// A watch of a forgotten revision: it begins again with a list.
    const EXPIRED: (u16, &str) = (
        200,
        r#"{"type":"ERROR","object":{"kind":"Status","status":"Failure","code":410,"reason":"Expired","message":""}}"#,
    );
    const OTHER: (u16, &str) = (
        200,
        r#"{"metadata":{"resourceVersion":"9"},"items":[{
            "metadata":{"name":"a","namespace":"shop","uid":"2"},
            "spec":{"target":{"pod":{"name":"db-0"}}}}]}"#,
    );
    const NONE: (u16, &str) = (200, r#"{"metadata":{"resourceVersion":"9"},"items":[]}"#);

    async fn wait(replies: &'static [(u16, &'static str)]) -> Result<End, RequestError> {
        let object: Evacuation = serde_json::from_value(serde_json::json!({
            "metadata": {"name": "a", "namespace": "shop", "uid": "1"},
            "spec": {"target": {"pod": {"name": "db-0"}}},
        }))
        .unwrap();
        let api = Api::namespaced(replying(replies), "shop");
        EvacuationHandle::new(api, Requester::named("acme.io/a"), object, false).wait().await
    }

    #[tokio::test(start_paused = true)]
    async fn who_may_not_watch_is_told_at_once_and_never_while_waiting() {
        assert!(matches!(wait(&[FORBIDDEN]).await, Err(RequestError::Api { .. })));
        let end = wait(&[ACTIVE, FORBIDDEN, FORBIDDEN, EXPIRED, FORBIDDEN, ENDED]).await;
        assert!(matches!(end, Ok(End::Evacuated { reason, .. }) if reason == "Evicted"));
    }

    #[tokio::test(start_paused = true)]
    async fn an_evacuation_that_went_unseen_is_an_error_and_another_of_its_name_is_not_taken_for_it() {
        for missing in [NONE, OTHER] {
            let replies: &'static [_] = Box::leak(Box::new([ACTIVE, EXPIRED, missing]));
            assert!(matches!(wait(replies).await, Err(RequestError::Removed { .. })));
        }
    }

    const ONE: (u16, &str) = (
        200,
        r#"{"metadata":{"name":"a","namespace":"shop","uid":"1"},
            "spec":{"target":{"pod":{"name":"db-0"}},"requesters":[{"name":"acme.io/a"}]}}"#,
    );
    const CONFLICT: (u16, &str) =
        (409, r#"{"kind":"Status","status":"Failure","code":409,"reason":"Conflict"}"#);
    const IN_FLIGHT: (u16, &str) = (
        409,
        r#"{"kind":"Status","status":"Failure","code":409,"reason":"Conflict",
            "details":{"causes":[{"reason":"EvictionInFlight"}]}}"#,
    );
    const ACCEPTED: (u16, &str) = (
        409,
        r#"{"kind":"Status","status":"Failure","code":409,"reason":"Conflict",
            "details":{"causes":[{"reason":"EvictionAccepted"}]}}"#,
    );
    const FINISHED: (u16, &str) = (
        409,
        r#"{"kind":"Status","status":"Failure","code":409,"reason":"Conflict",
            "details":{"causes":[{"reason":"EvacuationFinished"}]}}"#,
    );

    const GONE: (u16, &str) = (
        404,
        r#"{"kind":"Status","status":"Failure","code":404,"reason":"NotFound","details":{"name":"a"}}"#,
    );
    const UNREGISTERED: (u16, &str) =
        (404, r#"{"kind":"Status","status":"Failure","code":404,"reason":"NotFound","details":{}}"#);

    async fn withdraw(replies: &'static [(u16, &'static str)]) -> Result<(), RequestError> {
        let object: Evacuation = serde_json::from_str(ONE.1).unwrap();
        let api = Api::namespaced(replying(replies), "shop");
        EvacuationHandle::new(api, Requester::named("acme.io/a"), object, false).withdraw().await
    }

    #[tokio::test(start_paused = true)]
    async fn a_withdrawal_that_comes_too_late_says_so_at_once() {
        for replies in [&[ONE, IN_FLIGHT, ONE], &[ONE, ACCEPTED, ONE]] {
            let error = withdraw(replies).await.unwrap_err();
            assert!(error.is_too_late(), "{error:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_withdrawal_lost_to_another_writer_is_made_again_after_a_pause() {
        let begun = tokio::time::Instant::now();
        withdraw(&[ONE, CONFLICT, ONE, CONFLICT, ONE, ONE]).await.unwrap();
        assert!(begun.elapsed() >= std::time::Duration::from_millis(100));
    }

    #[tokio::test(start_paused = true)]
    async fn an_evacuation_that_ends_meanwhile_needs_no_withdrawal() {
        // Another try would be refused.
        withdraw(&[ONE, FINISHED, FORBIDDEN]).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn only_an_api_that_names_the_evacuation_says_that_it_is_gone() {
        for replies in [&[GONE][..], &[ONE, GONE]] {
            withdraw(replies).await.unwrap();
        }
        for replies in [&[UNREGISTERED][..], &[ONE, UNREGISTERED]] {
            let error = withdraw(replies).await.unwrap_err();
            assert!(matches!(error, RequestError::Api { .. }), "{error:?}");
        }
    }
}
