//! Claims: keys that at most one object of a kind holds. See [`Strategy`].

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use machinery_storage::{KeyValue, Operation, Precondition};
use serde::{Deserialize, Serialize};

use super::Registry;
use crate::{ApiError, ClaimConflict, Strategy};

/// Holder of a claim: the value under its key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Holder {
    #[serde(default, skip_serializing_if = "String::is_empty")]
    namespace: String,
    name: String,
    uid: String,
}

impl Holder {
    fn of(metadata: &ObjectMeta) -> Self {
        Self {
            namespace: metadata.namespace.clone().unwrap_or_default(),
            name: metadata.name.clone().unwrap_or_default(),
            uid: metadata.uid.clone().unwrap_or_default(),
        }
    }
}

/// Claims whose holder is gone or no longer claims them, with the revision of that observation. They are
/// taken over.
pub(super) type Stale = BTreeMap<String, i64>;

/// Claims that a write takes and releases.
#[derive(Debug)]
pub(super) struct ClaimPlan {
    holder: Holder,
    /// Claims to take, with their keys.
    take: Vec<(String, String)>,
    /// Keys to remove, with the revisions at which they were this object's.
    release: Vec<(String, i64)>,
    stale: Stale,
}

impl ClaimPlan {
    /// Plans a write that turns an object that claims `before` into one that claims `after`. Reads the claims
    /// to be released: only those that are really this object's are removed.
    pub(super) async fn new<S: Strategy>(
        registry: &Registry<S>,
        metadata: &ObjectMeta,
        before: Vec<String>,
        after: Vec<String>,
        stale: &Stale,
    ) -> Result<Self, ApiError> {
        let holder = Holder::of(metadata);
        let before: BTreeSet<String> = before.into_iter().collect();
        let after: BTreeSet<String> = after.into_iter().collect();
        let key = |claim: &str| registry.keys.claim(&holder.namespace, claim);
        let take = after.difference(&before).map(|claim| (claim.clone(), key(claim))).collect();
        let mut release = Vec::new();
        for claim in before.difference(&after) {
            let key = key(claim);
            if let Some(found) = registry.store.get(&key).await?.found
                && read(&found) == Some(holder.clone())
            {
                release.push((key, found.mod_revision));
            }
        }
        Ok(Self { holder, take, release, stale: stale.clone() })
    }

    /// Returns the preconditions of the write: first for the claims to be taken, in order, then for those to
    /// be released.
    pub(super) fn preconditions(&self) -> impl Iterator<Item = Precondition> + '_ {
        let take = self.take.iter().map(|(claim, key)| match self.stale.get(claim) {
            None => Precondition::Absent(key.clone()),
            Some(revision) => Precondition::Unchanged(key.clone(), *revision),
        });
        let release =
            self.release.iter().map(|(key, revision)| Precondition::Unchanged(key.clone(), *revision));
        take.chain(release)
    }

    /// Returns the operations on the claims.
    pub(super) fn operations(&self) -> Result<Vec<Operation>, ApiError> {
        let value = serde_json::to_vec(&self.holder).map(Bytes::from).map_err(|source| {
            ApiError::internal(format!("encoding the claims of {}", self.holder.name), source)
        })?;
        let take = self.take.iter().map(|(_, key)| Operation::Put(key.clone(), value.clone()));
        Ok(take.chain(self.release.iter().map(|(key, _)| Operation::Delete(key.clone()))).collect())
    }

    /// Checks the present state of the claims' keys, in the order of the preconditions. Stale claims are
    /// recorded in `stale` for the next attempt.
    ///
    /// # Errors
    ///
    /// The strategy's error when another object holds a claim that `object` wants.
    pub(super) async fn judge<S: Strategy>(
        &self,
        registry: &Registry<S>,
        object: &S::Object,
        states: &[Option<KeyValue>],
        stale: &mut Stale,
    ) -> Result<(), ApiError> {
        for ((claim, _), present) in self.take.iter().zip(states) {
            let Some(present) = present else {
                stale.remove(claim);
                continue;
            };
            let holder = read(present);
            let held = match &holder {
                Some(holder) if *holder != self.holder => held(registry, holder, claim).await?,
                _ => Held::No,
            };
            if held == Held::No {
                tracing::warn!(key = present.key, ?holder, "stale claim taken over");
                stale.insert(claim.clone(), present.mod_revision);
            } else if let Some(holder) = holder {
                let conflict = ClaimConflict {
                    claim: claim.clone(),
                    holder_namespace: holder.namespace,
                    holder_name: holder.name,
                    is_holder_unreadable: held == Held::Unreadable,
                };
                return Err(registry.strategy.claim_conflict(object, &conflict));
            }
        }
        Ok(())
    }

    /// Checks the claims of a dry run, which has no transaction: reads the keys.
    pub(super) async fn judge_unwritten<S: Strategy>(
        &self,
        registry: &Registry<S>,
        object: &S::Object,
    ) -> Result<(), ApiError> {
        let mut states = Vec::new();
        for (_, key) in &self.take {
            states.push(registry.store.get(key).await?.found);
        }
        self.judge(registry, object, &states, &mut Stale::new()).await
    }
}

/// State of a claim whose key names an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Held {
    /// The object is gone, or no longer claims it.
    No,
    /// The object claims it.
    Yes,
    /// The object exists and cannot be read. It released no claim, as far as anybody knows.
    Unreadable,
}

/// Returns the state of a claim by what the store has of its holder.
async fn held<S: Strategy>(registry: &Registry<S>, holder: &Holder, claim: &str) -> Result<Held, ApiError> {
    let key = registry.keys.object(&holder.namespace, &holder.name);
    let Some(found) = registry.store.get(&key).await?.found else {
        return Ok(Held::No);
    };
    let Ok(stored) = registry.versions.read(&found) else {
        return Ok(Held::Unreadable);
    };
    let same = kube::Resource::meta(&*stored).uid.as_deref() == Some(holder.uid.as_str());
    let holds = same && registry.strategy.claims(&stored).iter().any(|held| held == claim);
    Ok(if holds { Held::Yes } else { Held::No })
}

fn read(state: &KeyValue) -> Option<Holder> {
    serde_json::from_slice(&state.value).ok()
}
