//! Object counts against ResourceQuotas. Source of the rules:
//! `k8s.io/apiserver/pkg/admission/plugin/resourcequota`.
//!
//! kube-controller-manager counts the objects that exist. A creation is charged before the object is stored,
//! by an update of the quota's status that is guarded by its resourceVersion. As upstream, a creation that
//! fails afterwards stays charged until kube-controller-manager counts again.

mod check;
mod known;
mod quantity;

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard},
    time::Duration,
};

use k8s_openapi::api::core::v1::ResourceQuota;
use kube::{
    Api, Client,
    api::{Patch, PatchParams},
};
use machinery_server::{AdmissionAttributes, ApiError, Operation};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use self::{
    check::{Charge, check},
    known::{KnownQuotas, Update},
};
use crate::{
    refusal,
    watch::{self, Keep, Known, Synced},
};

/// Maximum number of quotas with object counts in all namespaces. Beyond it every creation is refused.
const MAX_QUOTAS: usize = 50_000;
/// Number of attempts when others change the quota at the same time.
const ATTEMPTS: usize = 10;
/// Maximum time of a charge, as upstream.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Quotas of the cluster, from a watch.
///
/// RBAC: get, list and watch resourcequotas, patch resourcequotas/status.
pub(crate) struct Quotas {
    client: Client,
    known: Arc<RwLock<KnownQuotas>>,
    /// Quotas as this server has charged them last, by namespace. Charges of a namespace wait for each other.
    charged: Mutex<HashMap<String, Arc<tokio::sync::Mutex<Latest>>>>,
    synced: Synced,
}

/// Newest known versions of the quotas of a namespace, by name.
type Latest = BTreeMap<String, Arc<ResourceQuota>>;

impl Quotas {
    /// Starts the watch, which runs until `shutdown`.
    pub(crate) fn start(client: &Client, shutdown: &CancellationToken) -> Self {
        let known = Arc::new(RwLock::new(KnownQuotas::default()));
        let target = known.clone();
        let changed = move |quotas: Known<'_, ResourceQuota>| {
            let update = Update::new(quotas);
            let replaced = target.write().unwrap_or_else(PoisonError::into_inner).apply(update);
            drop(replaced);
        };
        let keep = Keep { most: MAX_QUOTAS, matters: check::counts_objects };
        let synced = watch::start(Api::all(client.clone()), keep, shutdown.clone(), changed);
        Self { client: client.clone(), known, charged: Mutex::default(), synced }
    }

    pub(crate) fn has_synced(&self) -> bool {
        self.synced.is_set()
    }

    /// Returns true when a quota of the namespace counts the object that a request creates, or when there are
    /// too many quotas to tell.
    pub(crate) fn counts(&self, attributes: &AdmissionAttributes<'_>) -> bool {
        let context = attributes.context;
        let creates = context.operation == Operation::Create && context.subresource.is_empty();
        if !creates || context.namespace.is_empty() {
            return false;
        }
        let known = self.known();
        let resource = check::count_of(attributes);
        known.overflows() || known.of(&context.namespace).iter().any(|quota| check::limits(quota, &resource))
    }

    fn known(&self) -> RwLockReadGuard<'_, KnownQuotas> {
        self.known.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Charges a creation to the quotas of its namespace.
    pub(crate) async fn charge(&self, attributes: &AdmissionAttributes<'_>) -> Result<(), ApiError> {
        let charge = tokio::time::timeout(TIMEOUT, self.charge_in_turn(attributes)).await;
        charge.unwrap_or_else(|_| Err(refusal::internal("resource quota evaluation timed out")))
    }

    async fn charge_in_turn(&self, attributes: &AdmissionAttributes<'_>) -> Result<(), ApiError> {
        let namespace = &attributes.context.namespace;
        let turn = {
            let mut charged = self.charged.lock().unwrap_or_else(PoisonError::into_inner);
            let known = self.known();
            if known.overflows() {
                let why = "there are too many resource quotas with object counts in the cluster";
                return Err(refusal::over_quota(attributes, why));
            }
            // Namespaces without quotas are forgotten.
            charged.retain(|name, turn| !known.of(name).is_empty() || Arc::strong_count(turn) > 1);
            charged.entry(namespace.clone()).or_default().clone()
        };
        let mut latest = turn.lock().await;
        let known = self.known().of(namespace).to_vec();
        latest.retain(|name, _| known.iter().any(|quota| quota.metadata.name.as_ref() == Some(name)));
        for quota in known {
            let name = quota.metadata.name.clone().unwrap_or_default();
            if latest.get(&name).is_none_or(|charged| version(charged) < version(&quota)) {
                latest.insert(name, quota);
            }
        }
        let resource = check::count_of(attributes);
        let quotas: Vec<_> =
            latest.values().filter(|quota| check::limits(quota, &resource)).cloned().collect();
        // All are checked before one is charged.
        for quota in &quotas {
            check(quota, &resource).map_err(|why| refusal::over_quota(attributes, &why))?;
        }
        if attributes.context.dry_run {
            return Ok(());
        }
        for quota in quotas {
            let charged = self.charge_one(attributes, quota, &resource).await?;
            if let Some(charged) = charged {
                latest.insert(charged.metadata.name.clone().unwrap_or_default(), charged);
            }
        }
        Ok(())
    }

    /// Charges one quota, and returns its new version; `None` when it was deleted.
    async fn charge_one(
        &self,
        attributes: &AdmissionAttributes<'_>,
        mut quota: Arc<ResourceQuota>,
        resource: &str,
    ) -> Result<Option<Arc<ResourceQuota>>, ApiError> {
        let api: Api<ResourceQuota> = Api::namespaced(self.client.clone(), &attributes.context.namespace);
        let name = quota.metadata.name.clone().unwrap_or_default();
        let failed = |error: kube::Error| {
            tracing::warn!(quota = name, %error, "resource quota cannot be charged");
            refusal::internal(&format!("charging resource quota {name} failed"))
        };
        for _ in 0..ATTEMPTS {
            let charge = check(&quota, resource).map_err(|why| refusal::over_quota(attributes, &why))?;
            let Some(Charge { used }) = charge else { return Ok(Some(quota)) };
            let patch = json!({
                "metadata": {"resourceVersion": quota.metadata.resource_version, "uid": quota.metadata.uid},
                "status": {"used": {resource: used}},
            });
            match api.patch_status(&name, &PatchParams::default(), &Patch::Merge(&patch)).await {
                Ok(charged) => return Ok(Some(Arc::new(charged))),
                Err(kube::Error::Api(status)) if status.code == 404 => return Ok(None),
                Err(kube::Error::Api(status)) if status.code == 409 => {
                    match api.get_opt(&name).await.map_err(failed)? {
                        Some(newer) => quota = Arc::new(newer),
                        None => return Ok(None),
                    }
                }
                Err(error) => return Err(failed(error)),
            }
        }
        Err(refusal::internal(&format!("resource quota {name} is changed by too many others at once")))
    }
}

/// Returns the version of a quota as a number, as etcd orders them.
fn version(quota: &ResourceQuota) -> u64 {
    quota.metadata.resource_version.as_deref().and_then(|version| version.parse().ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Write;

    #[tokio::test]
    async fn creations_are_refused_while_there_are_too_many_quotas_to_know_them_all() {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let config = kube::Config::new("https://127.0.0.1:1/".parse().unwrap());
        let client = Client::try_from(config).unwrap();
        let known = Arc::new(RwLock::new(KnownQuotas::default()));
        let quotas =
            Quotas { client, known: known.clone(), charged: Mutex::default(), synced: Synced::default() };
        let write = Write::create(json!({}));
        assert!(!quotas.counts(&write.attributes()));
        known.write().unwrap().apply(Update::Overflow);
        assert!(quotas.counts(&write.attributes()));
        let refused = quotas.charge(&write.attributes()).await.unwrap_err();
        assert_eq!(refused.code(), 403);
        assert!(refused.to_string().contains("too many resource quotas"), "{refused}");
        let ApiError::Refused(status) = refused else { panic!("{refused:?}") };
        let causes = status.details.and_then(|details| details.causes).unwrap_or_default();
        assert_eq!(causes.first().and_then(|cause| cause.reason.as_deref()), Some(refusal::QUOTA_CAUSE));
        let update = Write::new(Operation::Update, Some(json!({})), None);
        assert!(!quotas.counts(&update.attributes()));
    }
}
