//! Lists. Source of the rules: "Resource versions" in Kubernetes' API concepts.

use std::{sync::Arc, time::Duration};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use machinery_storage::{Range, StoreError};
use serde::{Deserialize, Serialize};

use super::{Registry, projection::Projection};
use crate::{
    ApiError, Reason, Strategy,
    cache::{self, Entry, Objects, Scope, Snapshot},
    item::Item,
};

/// Number of objects that are read at once from the store. It is small, because objects may be large: a page
/// is in memory as a whole.
const PAGE: usize = 100;

/// State that a list shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    /// The newest: it contains every write that was answered before the request.
    Newest,
    /// The state of the cache.
    Any,
    /// The state of a revision or a later one.
    AtLeast(i64),
    /// The state of a revision.
    Exactly(i64),
    /// The state of the previous page, after its last object.
    Continue(Continue),
}

/// Start of the next page of a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Continue {
    /// Version of the token's format.
    v: String,
    /// Revision that all pages show.
    rv: i64,
    /// Key of the last object of the previous page, followed by a zero byte as upstream writes it.
    start: String,
}

impl Continue {
    const V: &str = "meta.k8s.io/v1";

    const NEWEST: i64 = -1;

    fn after(revision: i64, key: &str) -> Self {
        Self { v: Self::V.to_owned(), rv: revision, start: format!("{key}\0") }
    }

    pub(crate) fn parse(token: &str) -> Result<Self, ApiError> {
        let read = || -> Option<Self> {
            let token: Self = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(token).ok()?).ok()?;
            let known = token.rv > 0 || token.rv == Self::NEWEST;
            (token.v == Self::V && known && !token.start.is_empty()).then_some(token)
        };
        read().ok_or_else(|| ApiError::status(Reason::BadRequest, "continue key is not valid"))
    }

    pub(crate) fn to_token(&self) -> Result<String, ApiError> {
        let json = serde_json::to_vec(self)
            .map_err(|source| ApiError::internal("encoding a continue token", source))?;
        Ok(URL_SAFE_NO_PAD.encode(json))
    }
}

/// Pauses between the requests for progress of one reader that waits: from the first, each twice the last, up
/// to the longest. A watch that has just been opened leaves the first requests unanswered. Upstream asks
/// every 100 ms, once for all readers.
const PAUSES: [Duration; 2] = [Duration::from_millis(10), Duration::from_millis(100)];

/// A list, or a page of one.
pub(crate) struct Listed {
    /// Revision that it shows.
    pub(crate) revision: i64,
    pub(crate) items: Vec<Arc<dyn Item>>,
    /// Token of the next page, if there is one.
    pub(crate) next: Option<String>,
    /// Number of objects after this page, where that is known.
    pub(crate) remaining: Option<usize>,
}

impl<S: Strategy> Registry<S> {
    /// Lists the projection of a scope; at most `limit` objects, 0 for all.
    pub(crate) async fn list_items(
        &self,
        scope: &Scope,
        version: Version,
        limit: usize,
        projection: &dyn Projection<S::Object>,
    ) -> Result<Listed, ApiError> {
        // As upstream: a list of the cached state is whole.
        let limit = if version == Version::Any { 0 } else { limit };
        if !self.cache.synced() && matches!(version, Version::Newest) && (limit == 0 || projection.narrows())
        {
            // As upstream: pages of everything are read from the store, all else waits for the cache.
            self.reads.newest(self.keys.objects()).await?;
            return Err(cache::not_filled());
        }
        let objects = self.objects(scope, version).await?;
        let revision = objects.revision;
        let mut items = Vec::new();
        let mut last: Option<&Arc<Entry<S::Object>>> = None;
        for (at, entry) in objects.iter().enumerate() {
            let Some(item) = projection.see(entry)? else { continue };
            if let Some(last) = last.filter(|_| limit > 0 && items.len() == limit) {
                let next = Some(Continue::after(revision, last.key()).to_token()?);
                let remaining = (!projection.narrows()).then(|| objects.iter().count() - at);
                return Ok(Listed { revision, items, next, remaining });
            }
            items.push(item);
            last = Some(entry);
        }
        Ok(Listed { revision, items, next: None, remaining: None })
    }

    /// Returns the objects of a scope in the requested state.
    pub(super) async fn objects(
        &self,
        scope: &Scope,
        version: Version,
    ) -> Result<Snapshot<S::Object>, ApiError> {
        match version {
            Version::Newest => self.newest_objects(scope, None).await,
            Version::Any => {
                self.cache.wait_for(0).await?;
                self.cache.list(scope, None)
            }
            Version::AtLeast(revision) => {
                self.reach(revision).await?;
                self.cache.list(scope, None)
            }
            Version::Exactly(revision) => self.objects_at(scope, revision, None).await,
            Version::Continue(from) => {
                let after = from.start.trim_end_matches('\0');
                if from.rv == Continue::NEWEST {
                    return self.newest_objects(scope, Some(after)).await;
                }
                match self.objects_at(scope, from.rv, Some(after)).await {
                    Err(ApiError::Store(StoreError::Compacted { .. })) => {
                        let token = Continue::after(Continue::NEWEST, after).to_token()?;
                        Err(ApiError::ContinueExpired { token })
                    }
                    found => found,
                }
            }
        }
    }

    /// The objects of a scope in the newest state, after a key.
    async fn newest_objects(
        &self,
        scope: &Scope,
        after: Option<&str>,
    ) -> Result<Snapshot<S::Object>, ApiError> {
        match self.catch_up().await {
            Ok(()) => self.cache.list(scope, after),
            Err(error @ ApiError::Store(StoreError::Unavailable { .. })) => Err(error),
            Err(error) => {
                tracing::warn!(resource = %self.resource, %error, "watch cache: behind, reading the store");
                self.stored_objects(scope, None, after).await
            }
        }
    }

    async fn objects_at(
        &self,
        scope: &Scope,
        revision: i64,
        after: Option<&str>,
    ) -> Result<Snapshot<S::Object>, ApiError> {
        self.reach(revision).await?;
        match self.cache.list_at(revision, scope, after) {
            Some(objects) => Ok(objects),
            None => self.stored_objects(scope, Some(revision), after).await,
        }
    }

    /// Waits until the cache shows every write before this call.
    ///
    /// # Errors
    ///
    /// The store does not answer, or the cache does not get there in time.
    pub(crate) async fn catch_up(&self) -> Result<(), ApiError> {
        let newest = self.reads.newest(self.keys.objects()).await?.store;
        self.wait_for(newest).await
    }

    /// Waits until the cache shows a revision that a caller names.
    ///
    /// # Errors
    ///
    /// [`StoreError::Future`] at once when the store has not reached the revision: only the store's own
    /// revisions are waited for.
    pub(super) async fn reach(&self, revision: i64) -> Result<(), ApiError> {
        if let Some(current) = self.short_of(revision).await? {
            return Err(StoreError::Future { requested: revision, current }.into());
        }
        self.wait_for(revision).await
    }

    /// Returns the store's revision when that is less than `revision`.
    pub(super) async fn short_of(&self, revision: i64) -> Result<Option<i64>, ApiError> {
        if revision <= self.cache.revision() {
            return Ok(None);
        }
        let current = self.reads.newest(self.keys.objects()).await?.store;
        Ok((current < revision).then_some(current))
    }

    /// Waits until the cache shows a revision that the store has reached.
    pub(super) async fn wait_for(&self, revision: i64) -> Result<(), ApiError> {
        if self.cache.synced() && self.cache.revision() >= revision {
            return Ok(());
        }
        // The revision may belong to a key of another kind. Then only a progress report proves that nothing
        // is missing. A store whose watch is catching up may leave a request unanswered, so it is repeated.
        let ask = async {
            let [mut pause, longest] = PAUSES;
            loop {
                if let Err(error) = self.store.request_progress().await {
                    tracing::debug!(%error, "request for progress failed");
                }
                tokio::time::sleep(pause).await;
                pause = longest.min(pause * 2);
            }
        };
        tokio::select! {
            reached = self.cache.wait_for(revision) => reached,
            () = ask => Ok(()),
        }
    }

    /// Returns the objects of a scope from the store, for a state that the cache does not have.
    async fn stored_objects(
        &self,
        scope: &Scope,
        revision: Option<i64>,
        after: Option<&str>,
    ) -> Result<Snapshot<S::Object>, ApiError> {
        let mut range = Range {
            prefix: format!("{}{}", self.keys.objects(), scope.prefix()),
            after: after.map(|after| format!("{}{after}", self.keys.objects())),
            limit: PAGE,
            at_revision: revision,
        };
        let mut objects = Objects::new();
        loop {
            let page = self.store.list(&range).await?;
            range.at_revision = Some(page.revision);
            range.after = page.items.last().map(|last| last.key.clone()).or(range.after);
            for item in &page.items {
                if let Some(key) = item.key.strip_prefix(self.keys.objects()).filter(|key| scope.covers(key))
                {
                    let read = self.versions.read(item).and_then(|stored| self.cache.entry(key, &stored));
                    let entry = match read {
                        Err(_) if scope.skips_unreadable() => self.cache.stand_in(key, item.mod_revision),
                        read => Some(read?),
                    };
                    objects.extend(entry.map(|entry| (entry.key().clone(), entry)));
                }
            }
            if page.remaining == 0 || page.items.is_empty() {
                return Ok(Snapshot::new(page.revision, objects, scope, after));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_continue_token_survives_its_way_to_the_client_and_back() {
        let from = Continue::after(7, "shop/a");
        assert_eq!(Continue::parse(&from.to_token().expect("encodes")).expect("decodes"), from);
        for bad in ["", "x", "e30", &URL_SAFE_NO_PAD.encode(r#"{"v":"v2","rv":1,"start":"a"}"#)] {
            let error = Continue::parse(bad).expect_err("no token");
            assert_eq!(error.reason(), Reason::BadRequest);
        }
    }
}
