//! Plugins of admission, as the server calls them.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use kube::Client;
use machinery_auth::Authorizer;
use machinery_server::{
    Admission, AdmissionAttributes, ApiError, Interception, KubeNamespaces, MutableObject,
};
use serde_json::Value;
use tokio::sync::OnceCell;
use tokio_util::sync::CancellationToken;

use crate::{
    cel::Evaluator,
    configurations::Configurations,
    limiter::Limiter,
    metrics::AdmissionMetrics,
    params::Params,
    plugin::Plugin,
    policy::{self, Binding, Enforcer, Policy},
    quota::Quotas,
    refusal,
    subject::{NamespaceMetadata, Subject, operation},
    webhook::{self, Caller, Clients, Hook, TokenAccount, Tokens},
};

/// Maximum time for which a write waits for the configurations, as upstream.
const SYNC_TIMEOUT: Duration = Duration::from_secs(10);
/// Time between two looks at the state of the watches.
const SYNC_POLL: Duration = Duration::from_millis(50);
/// Maximum time of the mutation of one write by all webhooks, and of its validation. It is below the server's
/// own timeout of requests.
const TIMEOUT: Duration = Duration::from_secs(34);

/// Options of the plugins.
#[derive(Clone, Debug)]
pub struct AdmissionOptions {
    /// Plugins that take part.
    pub plugins: Vec<Plugin>,
    /// Users with a reserve of calls and evaluations, such as the controller of the server's kinds.
    pub priority_users: Vec<String>,
    /// Service account whose tokens prove this server to each webhook that it calls (KEP-6060). `None`: calls
    /// carry no token. A webhook for which kube-apiserver issues none counts as failed.
    pub webhook_tokens: Option<TokenAccount>,
    /// Maximum number of calls of webhooks in progress. One user can have a quarter of them, and the service
    /// accounts of one namespace together.
    pub max_calls_in_flight: usize,
    /// Maximum number of evaluations of expressions in progress, each on a thread of its own. The shares are
    /// the same.
    pub max_evaluations_in_flight: usize,
}

impl Default for AdmissionOptions {
    fn default() -> Self {
        Self {
            plugins: Plugin::ALL.to_vec(),
            priority_users: Vec::new(),
            webhook_tokens: None,
            max_calls_in_flight: 200,
            max_evaluations_in_flight: 8,
        }
    }
}

/// Plugins of admission by the configurations of a cluster.
///
/// RBAC: get, list and watch the configurations of webhooks, policies, bindings and resourcequotas; patch
/// resourcequotas/status; get services; get and list the kinds of params; with tokens, what [`TokenAccount`]
/// says.
pub struct Plugins {
    parts: Arc<Parts>,
}

/// Parts that the writes share.
struct Parts {
    configurations: Configurations,
    namespaces: Arc<dyn NamespaceMetadata>,
    caller: Caller,
    enforcer: Enforcer,
    quotas: Option<Quotas>,
}

impl Plugins {
    /// Starts the watches of the configurations, which run until `shutdown`.
    pub fn start(
        client: &Client,
        namespaces: Arc<KubeNamespaces>,
        authorizer: Arc<dyn Authorizer>,
        options: AdmissionOptions,
        metrics: AdmissionMetrics,
        shutdown: &CancellationToken,
    ) -> Arc<Self> {
        let AdmissionOptions { plugins, priority_users, webhook_tokens, .. } = options;
        let priority_users: Arc<[String]> = priority_users.into();
        let evaluator = Evaluator {
            authorizer,
            limiter: Limiter::new(options.max_evaluations_in_flight, priority_users.clone()),
        };
        let caller = Caller {
            clients: Clients::new(client.clone()),
            tokens: webhook_tokens.map(|account| Tokens::new(client.clone(), account, metrics.clone())),
            limiter: Limiter::new(options.max_calls_in_flight, priority_users),
            metrics: metrics.clone(),
            evaluator: evaluator.clone(),
        };
        let enforcer = Enforcer { evaluator, params: Params::new(client.clone()), metrics };
        let quotas = plugins.contains(&Plugin::ResourceQuota).then(|| Quotas::start(client, shutdown));
        let configurations = Configurations::start(client, &plugins, shutdown);
        Arc::new(Self { parts: Arc::new(Parts { configurations, namespaces, caller, enforcer, quotas }) })
    }
}

impl Parts {
    fn has_synced(&self) -> bool {
        self.configurations.has_synced() && self.quotas.as_ref().is_none_or(Quotas::has_synced)
    }

    /// Returns what intercepts a write by its rules; `None` when nothing does.
    fn select(&self, attributes: &AdmissionAttributes<'_>) -> Option<Selection> {
        let snapshot = self.configurations.snapshot();
        let hooks = |hooks: &[Arc<Hook>]| -> Vec<Arc<Hook>> {
            hooks.iter().filter(|hook| hook.matched_version(attributes).is_some()).cloned().collect()
        };
        let applies = |(policy, _): &&(Arc<Policy>, Vec<Arc<Binding>>)| {
            policy
                .constraints
                .as_ref()
                .map_or(true, |constraints| constraints.matched_version(attributes).is_some())
        };
        let selection = Selection {
            mutating: hooks(&snapshot.mutating),
            validating: hooks(&snapshot.validating),
            policies: snapshot.policies.iter().filter(applies).cloned().collect(),
            counted: self.quotas.as_ref().is_some_and(|quotas| quotas.counts(attributes)),
            overflow: snapshot.overflow,
        };
        let Selection { mutating, validating, policies, counted, overflow } = &selection;
        let nothing =
            mutating.is_empty() && validating.is_empty() && policies.is_empty() && !counted && !overflow;
        (!nothing).then_some(selection)
    }
}

/// Plugins that intercept one write.
#[derive(Debug, Default)]
struct Selection {
    mutating: Vec<Arc<Hook>>,
    validating: Vec<Arc<Hook>>,
    policies: Vec<(Arc<Policy>, Vec<Arc<Binding>>)>,
    /// True when quota counts the object.
    counted: bool,
    /// True when there are too many configurations to know them all.
    overflow: bool,
}

impl Admission for Plugins {
    fn has_synced(&self) -> bool {
        self.parts.has_synced()
    }

    fn intercept(&self, attributes: &AdmissionAttributes<'_>) -> Option<Box<dyn Interception>> {
        let parts = self.parts.clone();
        if !parts.has_synced() {
            return Some(Box::new(Unsynced { parts, selected: OnceCell::new() }));
        }
        let selection = self.parts.select(attributes)?;
        Some(Box::new(Selected { parts, selection }))
    }
}

/// Admission of one write by the selected plugins.
struct Selected {
    parts: Arc<Parts>,
    selection: Selection,
}

#[async_trait]
impl Interception for Selected {
    fn mutates(&self) -> bool {
        !self.selection.mutating.is_empty() || self.selection.overflow
    }

    async fn mutate(
        &self,
        attributes: &AdmissionAttributes<'_>,
        object: Option<&mut dyn MutableObject>,
        old: Option<&Value>,
    ) -> Result<(), ApiError> {
        if self.selection.overflow {
            return Err(refusal::forbidden(attributes, "there are too many admission configurations"));
        }
        let namespaces = self.parts.namespaces.as_ref();
        let hooks = &self.selection.mutating;
        let mutation = webhook::mutate(&self.parts.caller, hooks, namespaces, attributes, object, old);
        tokio::time::timeout(TIMEOUT, mutation).await.unwrap_or_else(|_| Err(refusal::timeout()))
    }

    fn validates(&self) -> bool {
        let Selection { validating, policies, counted, .. } = &self.selection;
        !validating.is_empty() || !policies.is_empty() || *counted
    }

    async fn validate(
        &self,
        attributes: &AdmissionAttributes<'_>,
        object: Option<&Value>,
        old: Option<&Value>,
    ) -> Result<(), ApiError> {
        let parts = &self.parts;
        let (version, namespaces) = (attributes.version, parts.namespaces.as_ref());
        let subject = Subject { attributes, version, object, old, namespaces };
        let validation = async {
            let Selection { validating, policies, counted, .. } = &self.selection;
            if !policies.is_empty() {
                policy::validate(&parts.enforcer, policies, &subject).await?;
            }
            webhook::validate(&parts.caller, validating, &subject).await?;
            match &parts.quotas {
                Some(quotas) if *counted => quotas.charge(attributes).await,
                _ => Ok(()),
            }
        };
        tokio::time::timeout(TIMEOUT, validation).await.unwrap_or_else(|_| Err(refusal::timeout()))
    }
}

/// Admission of a write that came before the configurations were read.
struct Unsynced {
    parts: Arc<Parts>,
    /// Selection of the first state that was read. The rest of the write is decided by it, too.
    selected: OnceCell<Option<Selected>>,
}

impl Unsynced {
    async fn select(&self, attributes: &AdmissionAttributes<'_>) -> Result<Option<&Selected>, ApiError> {
        let selected = self.selected.get_or_try_init(|| self.select_when_synced(attributes)).await?;
        Ok(selected.as_ref())
    }

    async fn select_when_synced(
        &self,
        attributes: &AdmissionAttributes<'_>,
    ) -> Result<Option<Selected>, ApiError> {
        let synced = async {
            while !self.parts.has_synced() {
                tokio::time::sleep(SYNC_POLL).await;
            }
        };
        if tokio::time::timeout(SYNC_TIMEOUT, synced).await.is_err() {
            tracing::warn!(operation = operation(attributes), "write refused: admission is not ready");
            return Err(refusal::forbidden(attributes, "not yet ready to handle request"));
        }
        let selection = self.parts.select(attributes);
        Ok(selection.map(|selection| Selected { parts: self.parts.clone(), selection }))
    }
}

#[async_trait]
impl Interception for Unsynced {
    fn mutates(&self) -> bool {
        true
    }

    async fn mutate(
        &self,
        attributes: &AdmissionAttributes<'_>,
        object: Option<&mut dyn MutableObject>,
        old: Option<&Value>,
    ) -> Result<(), ApiError> {
        match self.select(attributes).await? {
            Some(selected) if selected.mutates() => selected.mutate(attributes, object, old).await,
            _ => Ok(()),
        }
    }

    fn validates(&self) -> bool {
        true
    }

    async fn validate(
        &self,
        attributes: &AdmissionAttributes<'_>,
        object: Option<&Value>,
        old: Option<&Value>,
    ) -> Result<(), ApiError> {
        match self.select(attributes).await? {
            Some(selected) if selected.validates() => selected.validate(attributes, object, old).await,
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
