//! The bounded queue between the requests and the thread that writes.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
};

use tokio::{
    sync::{Notify, oneshot},
    time::{Instant, timeout_at},
};

use crate::Event;

/// Part of the queue that one user can have, and the service accounts of one namespace together.
const SHARE: usize = 8;
/// Annotation of an event whose objects were left out because of their size, as upstream.
const TRUNCATED: &str = "audit.k8s.io/truncated";

/// Events that wait to be written.
#[derive(Debug)]
pub(crate) struct Queue {
    most: Usage,
    state: Mutex<State>,
    changed: Condvar,
    /// Wakes those that wait for room.
    room: Notify,
}

/// Number and size of events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    pub(crate) events: usize,
    pub(crate) bytes: usize,
}

#[derive(Debug, Default)]
struct State {
    entries: VecDeque<Entry>,
    used: Usage,
    by_user: HashMap<String, Usage>,
    closed: bool,
}

/// An event in the queue.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) event: Event,
    size: usize,
    /// Receives true once the event is written, and false when that failed.
    pub(crate) written: Option<oneshot::Sender<bool>>,
}

/// The queue, or the user's share of it, is full, or it is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Full;

impl Usage {
    fn exceeds(self, most: Self) -> bool {
        self.events > most.events || self.bytes > most.bytes
    }

    fn plus(self, bytes: usize) -> Self {
        Self { events: self.events + 1, bytes: self.bytes + bytes }
    }

    fn minus(self, bytes: usize) -> Self {
        Self { events: self.events.saturating_sub(1), bytes: self.bytes.saturating_sub(bytes) }
    }
}

impl Queue {
    pub(crate) fn new(most: Usage) -> Self {
        Self { most, state: Mutex::default(), changed: Condvar::new(), room: Notify::new() }
    }

    /// Adds an event. One that does not fit loses its objects, and has an annotation that says so.
    pub(crate) fn push(&self, mut event: Event, written: Option<oneshot::Sender<bool>>) -> Result<(), Full> {
        let mut state = self.state();
        let whole = self.reserve(&mut state, &event);
        let size = whole.or_else(|| {
            truncate(&mut event);
            self.reserve(&mut state, &event)
        });
        let size = size.ok_or(Full)?;
        self.add(state, Entry { event, size, written });
        Ok(())
    }

    /// Adds an event, and waits for room until the deadline. Then it is added as by [`push`](Self::push).
    pub(crate) async fn push_until(
        &self,
        deadline: Instant,
        mut event: Event,
        written: oneshot::Sender<bool>,
    ) -> Result<(), Full> {
        if event.size() > self.share().bytes {
            truncate(&mut event);
        }
        loop {
            let mut room = std::pin::pin!(self.room.notified());
            // Before the look, so that room that comes after it is not missed.
            room.as_mut().enable();
            {
                let mut state = self.state();
                if state.closed {
                    return Err(Full);
                }
                if let Some(size) = self.reserve(&mut state, &event) {
                    self.add(state, Entry { event, size, written: Some(written) });
                    return Ok(());
                }
            }
            if timeout_at(deadline, room).await.is_err() {
                return self.push(event, Some(written));
            }
        }
    }

    /// Takes room for an event, and returns its size; `None` when there is none.
    fn reserve(&self, state: &mut State, event: &Event) -> Option<usize> {
        let (size, user) = (event.size(), user_of(event));
        let own = state.by_user.get(user).copied().unwrap_or_default().plus(size);
        let all = state.used.plus(size);
        if state.closed || own.exceeds(self.share()) || all.exceeds(self.most) {
            return None;
        }
        state.used = all;
        state.by_user.insert(user.to_owned(), own);
        Some(size)
    }

    fn add(&self, mut state: MutexGuard<'_, State>, entry: Entry) {
        state.entries.push_back(entry);
        drop(state);
        self.changed.notify_one();
    }

    /// Returns the part of the queue that one user can have.
    fn share(&self) -> Usage {
        Usage { events: (self.most.events / SHARE).max(1), bytes: self.most.bytes / SHARE }
    }

    /// Waits for the next event; `None` once the queue is closed and empty.
    pub(crate) fn next(&self) -> Option<Entry> {
        let mut state = self.state();
        loop {
            if let Some(entry) = state.entries.pop_front() {
                state.used = state.used.minus(entry.size);
                let user = user_of(&entry.event);
                let left = state.by_user.get(user).copied().unwrap_or_default().minus(entry.size);
                if left.events == 0 {
                    state.by_user.remove(user);
                } else {
                    state.by_user.insert(user.to_owned(), left);
                }
                drop(state);
                self.room.notify_waiters();
                return Some(entry);
            }
            if state.closed {
                return None;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Takes no more events.
    pub(crate) fn close(&self) {
        self.state().closed = true;
        self.changed.notify_all();
        self.room.notify_waiters();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Leaves out the objects of an event.
fn truncate(event: &mut Event) {
    if event.request_object.take().is_some() | event.response_object.take().is_some() {
        event.annotations.insert(TRUNCATED.to_owned(), "true".to_owned());
    }
}

/// Returns the name that the share belongs to: the user, or the namespace of a service account.
fn user_of(event: &Event) -> &str {
    machinery_auth::flow(event.user.name())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bytes::Bytes;
    use machinery_auth::UserInfo;

    use super::*;
    use crate::{Body, User};

    fn event(user: &str) -> Event {
        let user = UserInfo { name: user.to_owned(), ..UserInfo::default() };
        Event { user: Arc::new(User::from(&user)), ..Event::default() }
    }

    fn queue() -> Queue {
        Queue::new(Usage { events: 80, bytes: 8 * 1024 * 1024 })
    }

    #[test]
    fn a_user_that_floods_the_queue_leaves_the_rest_to_others() {
        let queue = queue();
        let taken = (0..1000).filter(|_| queue.push(event("greedy"), None).is_ok()).count();
        assert_eq!(taken, 10);
        queue.push(event("jane"), None).expect("a share of her own");
        assert_eq!(queue.next().expect("the first").event.user.name(), "greedy");
        queue.push(event("greedy"), None).expect("free again");
    }

    #[test]
    fn the_service_accounts_of_a_namespace_share_and_large_bodies_count_by_their_bytes() {
        let queue = queue();
        let account = |at: usize| event(&format!("system:serviceaccount:shop:a{at}"));
        assert_eq!((0..1000).filter(|at| queue.push(account(*at), None).is_ok()).count(), 10);
        let large = || {
            let body = Some(Body::Json(Bytes::from(vec![b' '; 600 * 1024])));
            Event { request_object: body, ..event("jane") }
        };
        let kept = (0..1000).filter(|_| queue.push(large(), None).is_ok()).count();
        assert_eq!(kept, 10);
        queue.close();
        let events: Vec<Event> = std::iter::from_fn(|| queue.next()).map(|entry| entry.event).collect();
        let whole = events.iter().filter(|event| event.request_object.is_some()).count();
        let truncated = events.iter().filter(|event| event.annotations.contains_key(TRUNCATED)).count();
        assert_eq!((events.len(), whole, truncated), (20, 1, 9), "two are more than a mebibyte");
    }

    #[test]
    fn an_event_that_is_too_large_is_kept_without_its_objects() {
        let queue = queue();
        let body = Some(Body::Json(Bytes::from(vec![b' '; 2 * 1024 * 1024])));
        queue.push(Event { response_object: body, ..event("jane") }, None).expect("without the object");
        let kept = queue.next().expect("an event").event;
        assert_eq!((kept.response_object, kept.annotations[TRUNCATED].as_str()), (None, "true"));
    }

    #[test]
    fn nothing_is_kept_of_users_whose_events_are_written_and_a_closed_queue_takes_none() {
        let queue = queue();
        queue.push(event("jane"), None).expect("a place");
        queue.close();
        queue.push(event("joe"), None).expect_err("closed");
        assert!(queue.next().is_some() && queue.next().is_none());
        let state = queue.state();
        assert!(state.by_user.is_empty() && state.used == Usage::default());
    }
}
