//! Watches: the history first, then commits as they happen.

use std::{collections::VecDeque, sync::Arc};

use futures::stream;
use tokio::sync::broadcast::{self, error::RecvError};

use super::{Shared, unavailable};
use crate::{StoreError, WatchEvent, WatchStream};

/// A durable commit that changed something.
#[derive(Debug)]
pub(super) struct Commit {
    pub(super) revision: i64,
    pub(super) events: Vec<WatchEvent>,
}

/// News for watches.
#[derive(Clone, Debug)]
pub(super) enum News {
    Commit(Arc<Commit>),
    Progress,
    Closed,
}

impl Shared {
    /// Reports commits to the watches, in their order.
    pub(super) fn publish(&self, commits: Vec<Arc<Commit>>) {
        for commit in commits {
            // An error means that there is no watch.
            drop(self.news.send(News::Commit(commit)));
        }
    }

    pub(super) fn close(&self) {
        drop(self.news.send(News::Closed));
    }
}

/// A watch of one prefix.
pub(super) struct Watch {
    pub(super) shared: Arc<Shared>,
    pub(super) prefix: String,
    pub(super) news: broadcast::Receiver<News>,
    pub(super) ready: VecDeque<WatchEvent>,
    /// Everything up to this revision is reported or ready.
    pub(super) seen: i64,
    /// True if the history may have more than the news.
    pub(super) behind: bool,
}

impl Watch {
    pub(super) fn into_stream(self) -> WatchStream {
        Box::pin(stream::unfold(Some(self), |state| async move {
            let mut watch = state?;
            match watch.next().await {
                Ok(event) => Some((Ok(event), Some(watch))),
                Err(error) => Some((Err(error), None)),
            }
        }))
    }

    async fn next(&mut self) -> Result<WatchEvent, StoreError> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Ok(event);
            }
            if self.behind {
                self.catch_up().await?;
                continue;
            }
            match self.news.recv().await {
                // The history has already reported it.
                Ok(News::Commit(commit)) if commit.revision <= self.seen => {}
                Ok(News::Commit(commit)) => {
                    self.seen = commit.revision;
                    let events = commit.events.iter().filter(|event| event.key().starts_with(&self.prefix));
                    self.ready.extend(events.cloned());
                }
                Ok(News::Progress) => return Ok(WatchEvent::Progress(self.seen)),
                Err(RecvError::Lagged(_)) => self.behind = true,
                Ok(News::Closed) | Err(RecvError::Closed) => {
                    return Err(unavailable("continue the watch", "the store is closed"));
                }
            }
        }
    }

    async fn catch_up(&mut self) -> Result<(), StoreError> {
        let (prefix, seen) = (self.prefix.clone(), self.seen);
        let history =
            self.shared.blocking("continue the watch", move |shared| shared.history(&prefix, seen)).await??;
        self.ready.extend(history.events);
        self.seen = history.up_to;
        self.behind = !history.complete;
        Ok(())
    }
}
