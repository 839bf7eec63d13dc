//! Watches: etcd's responses, one event after another.

use std::{collections::VecDeque, sync::Arc};

use etcd_client::{
    EventType, WatchOptions, WatchRequestSender, WatchResponseStream,
    proto::{PbEvent, PbWatchResponse},
};
use futures::stream;
use tokio::sync::watch as signal;
use tracing::debug;

use super::{
    connections::Connections,
    convert::{KeyPrefix, revision},
    error::{Call, store_error, unavailable},
    lineage::{Lineage, Mark},
};
use crate::{StoreError, WatchEvent, WatchStream};

/// A watch that etcd has accepted.
pub(super) struct Watch {
    responses: WatchResponseStream,
    requests: WatchRequestSender,
    events: Events,
    /// The revision of the member that serves the watch, when it accepted it.
    revision: i64,
}

/// Opens a watch, and waits until etcd has accepted it.
pub(super) async fn open(
    connections: &Connections,
    key_prefix: &KeyPrefix,
    prefix: &str,
    after_revision: i64,
) -> Result<Watch, StoreError> {
    // The keys' end is given, not etcd's `prefix`, which would be wrong for an empty one.
    let options = WatchOptions::new()
        .with_range(key_prefix.end(prefix))
        .with_start_revision(after_revision.saturating_add(1))
        .with_prev_key()
        .with_progress_notify()
        .with_fragment();
    let (responses, requests, created) = connections
        .watch(Call::at("watch", after_revision), |mut client| {
            let (key, options) = (key_prefix.on(prefix), options.clone());
            async move {
                let stream = client.watch(key, Some(options)).await?;
                let (requests, mut responses) = stream.split();
                let created = responses.message().await?;
                Ok((responses, requests, created))
            }
        })
        .await?;
    let Some(created) = created else {
        return Err(unavailable("watch", "etcd ended the watch at once"));
    };
    let mut events = Events::new(key_prefix.clone(), after_revision);
    let revision = revision(created.0.header.as_ref());
    if created.0.canceled {
        return Err(events.canceled(&created.0));
    }
    Ok(Watch { responses, requests, events, revision })
}

impl Watch {
    pub(super) fn revision(&self) -> i64 {
        self.revision
    }

    /// The events, and progress when it is asked for. The lineage learns their revisions, and when the watch
    /// breaks. `opened` is the state that was known before the watch began.
    pub(super) fn into_stream(
        self,
        progress: signal::Receiver<u64>,
        lineage: Arc<Lineage>,
        opened: Mark,
    ) -> WatchStream {
        let state = Some((self, progress, lineage));
        Box::pin(stream::unfold(state, move |state| async move {
            let (mut watch, mut progress, lineage) = state?;
            match watch.next(&mut progress).await {
                Ok(event) => {
                    lineage.watched(opened, event.revision());
                    Some((Ok(event), Some((watch, progress, lineage))))
                }
                Err(error) => {
                    lineage.suspect();
                    Some((Err(error), None))
                }
            }
        }))
    }

    async fn next(&mut self, progress: &mut signal::Receiver<u64>) -> Result<WatchEvent, StoreError> {
        loop {
            if let Some(event) = self.events.ready.pop_front() {
                return Ok(event);
            }
            tokio::select! {
                response = self.responses.message() => match response {
                    Ok(Some(response)) => self.events.take(response.0)?,
                    Ok(None) => return Err(unavailable("continue the watch", "etcd ended the watch")),
                    Err(error) => {
                        return Err(store_error(Call::at("continue the watch", self.events.seen), error));
                    }
                },
                asked = progress.changed() => {
                    if asked.is_err() {
                        return Err(unavailable("continue the watch", "the store is closed"));
                    }
                    if let Err(error) = self.requests.request_progress().await {
                        // The responses say why.
                        debug!(%error, "a watch cannot be asked for progress");
                    }
                    self.events.nothing_yet();
                }
            }
        }
    }
}

/// Sorts responses into events that can be reported.
struct Events {
    key_prefix: KeyPrefix,
    ready: VecDeque<WatchEvent>,
    /// Events of the last revision, held back while more of it may come in the next fragment. A reader that
    /// resumes after a revision must have seen all of its events.
    held: Vec<WatchEvent>,
    held_revision: i64,
    /// The revision of the last event or progress; at first the one to start after.
    seen: i64,
    after_revision: i64,
}

impl Events {
    fn new(key_prefix: KeyPrefix, after_revision: i64) -> Self {
        Self {
            key_prefix,
            ready: VecDeque::new(),
            held: Vec::new(),
            held_revision: 0,
            seen: after_revision,
            after_revision,
        }
    }

    fn take(&mut self, response: PbWatchResponse) -> Result<(), StoreError> {
        if response.canceled || response.compact_revision != 0 {
            return Err(self.canceled(&response));
        }
        if response.events.is_empty() && !response.fragment {
            self.release();
            let revision = revision(response.header.as_ref());
            if !response.created && revision >= self.seen {
                self.seen = revision;
                self.ready.push_back(WatchEvent::Progress(revision));
            }
            return Ok(());
        }
        for event in response.events {
            let (revision, event) = self.event(event)?;
            if revision != self.held_revision {
                self.release();
            }
            self.held_revision = revision;
            self.held.push(event);
        }
        if !response.fragment {
            self.release();
        }
        Ok(())
    }

    fn release(&mut self) {
        if !self.held.is_empty() {
            self.seen = self.held_revision;
            self.ready.extend(self.held.drain(..));
        }
    }

    /// etcd does not answer a request for progress while a watch that starts with the next revision has no
    /// events. Everything before that revision was reported nevertheless.
    fn nothing_yet(&mut self) {
        if self.seen == self.after_revision && self.held.is_empty() {
            self.ready.push_back(WatchEvent::Progress(self.seen));
        }
    }

    fn event(&self, event: PbEvent) -> Result<(i64, WatchEvent), StoreError> {
        let Some(current) = event.kv else {
            return Err(unavailable("continue the watch", "etcd reported an event without a key"));
        };
        let previous = event.prev_kv.map(|previous| self.key_prefix.key_value(previous));
        let revision = current.mod_revision;
        // A value that was compacted away under the watch is missing from the event.
        let lost = || StoreError::Compacted { requested: self.seen, oldest: 0 };
        if event.r#type == EventType::Delete as i32 {
            let previous = previous.ok_or_else(lost)?;
            return Ok((revision, WatchEvent::Delete { revision, previous }));
        }
        if previous.is_none() && current.create_revision != revision {
            return Err(lost());
        }
        Ok((revision, WatchEvent::Put { current: self.key_prefix.key_value(current), previous }))
    }

    fn canceled(&mut self, response: &PbWatchResponse) -> StoreError {
        if response.compact_revision != 0 || response.cancel_reason.contains("has been compacted") {
            return StoreError::Compacted { requested: self.seen, oldest: response.compact_revision };
        }
        unavailable("continue the watch", format!("etcd canceled the watch: {}", response.cancel_reason))
    }
}

#[cfg(test)]
mod tests {
    use etcd_client::proto::{PbKeyValue, PbResponseHeader};

    use super::*;

    fn put(key: &str, created: i64, revision: i64) -> PbEvent {
        let held = |mod_revision| PbKeyValue {
            key: format!("/prefix{key}").into_bytes(),
            create_revision: created,
            mod_revision,
            ..PbKeyValue::default()
        };
        PbEvent {
            r#type: EventType::Put as i32,
            kv: Some(held(revision)),
            prev_kv: (created < revision).then(|| held(created)),
        }
    }

    fn response(fragment: bool, events: Vec<PbEvent>) -> PbWatchResponse {
        PbWatchResponse { fragment, events, ..PbWatchResponse::default() }
    }

    fn progress(revision: i64) -> PbWatchResponse {
        let header = PbResponseHeader { revision, ..PbResponseHeader::default() };
        PbWatchResponse { header: Some(header), watch_id: -1, ..PbWatchResponse::default() }
    }

    fn ready(events: &mut Events) -> Vec<String> {
        events.ready.drain(..).map(|event| format!("{}@{}", event.key(), event.revision())).collect()
    }

    #[test]
    fn a_commit_is_reported_when_its_last_fragment_has_come() {
        let mut events = Events::new(KeyPrefix::new("/prefix"), 5);
        events.take(response(true, vec![put("/a", 6, 6), put("/a", 7, 7)])).unwrap();
        assert_eq!(ready(&mut events), ["/a@6"]);
        events.take(response(true, vec![put("/b", 7, 7)])).unwrap();
        assert!(ready(&mut events).is_empty(), "more of revision 7 may come");
        assert_eq!(events.seen, 6);
        events.take(response(false, vec![put("/c", 7, 7), put("/a", 6, 8)])).unwrap();
        assert_eq!(ready(&mut events), ["/a@7", "/b@7", "/c@7", "/a@8"]);
        events.take(progress(12)).unwrap();
        assert_eq!((ready(&mut events), events.seen), (vec!["@12".to_owned()], 12));
    }

    #[test]
    fn an_event_without_the_value_before_it_was_compacted() {
        let mut events = Events::new(KeyPrefix::new("/prefix"), 5);
        let mut event = put("/a", 3, 6);
        event.prev_kv = None;
        let error = events.take(response(false, vec![event])).unwrap_err();
        assert!(matches!(error, StoreError::Compacted { requested: 5, .. }), "{error:?}");
    }

    #[test]
    fn a_canceled_watch_says_why() {
        let mut events = Events::new(KeyPrefix::new(""), 5);
        let canceled = |compact_revision, reason: &str| PbWatchResponse {
            canceled: true,
            compact_revision,
            cancel_reason: reason.to_owned(),
            ..PbWatchResponse::default()
        };
        let error = events.take(canceled(9, "")).unwrap_err();
        assert!(matches!(error, StoreError::Compacted { requested: 5, oldest: 9 }), "{error:?}");
        let error = events.take(canceled(0, "etcdserver: no leader")).unwrap_err();
        let StoreError::Unavailable { source, .. } = error else { panic!("{error:?}") };
        assert_eq!(source.to_string(), "etcd canceled the watch: etcdserver: no leader");
    }
}
