//! Object counts against ResourceQuotas. Source of the rules:
//! `k8s.io/apiserver/pkg/admission/plugin/resourcequota`.
//!
//! kube-controller-manager counts the objects that exist. A creation is charged before the object is stored,
//! by an update of the quota's status that is guarded by its resourceVersion. As upstream, a creation that
//! fails afterwards stays charged until kube-controller-manager counts again.

mod check;
mod quantity;

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use arc_swap::ArcSwap;
use k8s_openapi::api::core::v1::ResourceQuota;
use kube::{
    Api, Client,
    api::{Patch, PatchParams},
};
use machinery_server::{AdmissionAttributes, ApiError, Operation};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use self::check::{Charge, check};
use crate::{
    refusal,
    watch::{self, Objects, Synced},
};

/// Maximum number of quotas with object counts in all namespaces.
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
    /// Quotas by namespace.
    known: Arc<ArcSwap<BTreeMap<String, Vec<Arc<ResourceQuota>>>>>,
    /// Quotas as this server has charged them last, by namespace. Charges of a namespace wait for each other.
    charged: Mutex<HashMap<String, Arc<tokio::sync::Mutex<Latest>>>>,
    synced: Synced,
}

/// Newest known versions of the quotas of a namespace, by name.
type Latest = BTreeMap<String, Arc<ResourceQuota>>;

impl Quotas {
    /// Starts the watch, which runs until `shutdown`.
    pub(crate) fn start(client: &Client, shutdown: &CancellationToken) -> Self {
        let known = Arc::new(ArcSwap::from_pointee(BTreeMap::new()));
        let target = known.clone();
        let changed = move |objects: Option<&Objects<ResourceQuota>>| {
            let mut namespaces: BTreeMap<String, Vec<Arc<ResourceQuota>>> = BTreeMap::new();
            for ((namespace, _), quota) in objects.into_iter().flatten() {
                if check::counts_objects(quota) {
                    namespaces.entry(namespace.clone()).or_default().push(quota.clone());
                }
            }
            target.store(Arc::new(namespaces));
        };
        let synced = watch::start(Api::all(client.clone()), MAX_QUOTAS, shutdown.clone(), changed);
        Self { client: client.clone(), known, charged: Mutex::default(), synced }
    }

    pub(crate) fn has_synced(&self) -> bool {
        self.synced.is_set()
    }

    /// Returns true when a quota of the namespace counts the object that a request creates.
    pub(crate) fn counts(&self, attributes: &AdmissionAttributes<'_>) -> bool {
        let context = attributes.context;
        if context.operation != Operation::Create || !context.subresource.is_empty() {
            return false;
        }
        let known = self.known.load();
        let quotas = known.get(&context.namespace);
        let resource = check::count_of(attributes);
        quotas.is_some_and(|quotas| quotas.iter().any(|quota| check::limits(quota, &resource)))
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
            let known = self.known.load();
            // Namespaces without quotas are forgotten.
            charged.retain(|name, turn| known.contains_key(name) || Arc::strong_count(turn) > 1);
            charged.entry(namespace.clone()).or_default().clone()
        };
        let mut latest = turn.lock().await;
        let known = self.known.load().get(namespace).cloned().unwrap_or_default();
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
            check(quota, &resource).map_err(|why| refusal::forbidden(attributes, &why))?;
        }
        if attributes.context.dry_run {
            return Ok(());
        }
        for quota in quotas {
            let charged = self.charge_one(attributes, quota, &resource).await?;
            if let Some(charged) = charged {
                latest.insert(charged.metadata.name.clone().unwrap_or_default(), Arc::new(charged));
            }
        }
        Ok(())
    }

    /// Charges one quota. `None` when it was deleted.
    async fn charge_one(
        &self,
        attributes: &AdmissionAttributes<'_>,
        mut quota: Arc<ResourceQuota>,
        resource: &str,
    ) -> Result<Option<ResourceQuota>, ApiError> {
        let api: Api<ResourceQuota> = Api::namespaced(self.client.clone(), &attributes.context.namespace);
        let name = quota.metadata.name.clone().unwrap_or_default();
        let failed = |error: kube::Error| {
            tracing::warn!(quota = name, %error, "resource quota cannot be charged");
            refusal::internal(&format!("charging resource quota {name} failed"))
        };
        for _ in 0..ATTEMPTS {
            let charge = check(&quota, resource).map_err(|why| refusal::forbidden(attributes, &why))?;
            let Charge { used } = charge;
            let patch = json!({
                "metadata": {"resourceVersion": quota.metadata.resource_version, "uid": quota.metadata.uid},
                "status": {"used": {resource: used}},
            });
            match api.patch_status(&name, &PatchParams::default(), &Patch::Merge(&patch)).await {
                Ok(charged) => return Ok(Some(charged)),
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
