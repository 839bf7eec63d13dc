//! Params of policies. Source of the rules: `CollectParams` in
//! `k8s.io/apiserver/pkg/admission/plugin/policy/generic`.

use std::{sync::Arc, time::Duration};

use k8s_openapi::api::admissionregistration::v1::{ParamKind, ParamRef};
use kube::{
    Api, Client,
    api::{DynamicObject, ListParams},
    core::{ApiResource, GroupVersionKind, SelectorExt, TypeMeta},
    discovery::{self, Scope},
};
use kube_cel::cel::Value as Cel;
use moka::future::Cache;

use crate::{cel::to_cel, matching::selector};

/// Time for which params are kept. A change of a param counts after it at the latest.
const KEPT: Duration = Duration::from_secs(2);
/// Time for which the name of a kind's resource is kept.
const KIND_KEPT: Duration = Duration::from_mins(5);
/// Maximum size of the params that are kept, as JSON in bytes.
const MAX_BYTES: u64 = 16 * 1024 * 1024;
/// Maximum number of kinds that are kept.
const MAX_KINDS: u64 = 100;
/// Maximum number of params that one selector of a binding can select.
const MAX_SELECTED: u32 = 500;
/// Maximum time of one read.
const READ_TIMEOUT: Duration = Duration::from_secs(5);

/// Reader of params.
///
/// RBAC: get and list the kinds of params.
#[derive(Clone)]
pub(crate) struct Params {
    client: Client,
    kinds: Cache<GroupVersionKind, (ApiResource, bool)>,
    known: Cache<Query, Arc<Found>>,
}

/// One read of params.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Query {
    kind: GroupVersionKind,
    /// Empty for cluster-scoped kinds.
    namespace: String,
    /// Name of the param; `None` for all of the namespace.
    name: Option<String>,
}

/// Params that were read.
#[derive(Debug, Default)]
struct Found {
    objects: Vec<DynamicObject>,
    bytes: usize,
}

/// Params that cannot be had.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum ParamsError {
    #[error("paramKind kind `{0}` not known: {1}")]
    UnknownKind(String, String),
    #[error("cannot use namespaced paramRef in policy binding that matches cluster-scoped resources")]
    NoNamespace,
    #[error("paramRef.namespace must not be provided for a cluster-scoped `paramKind`")]
    Namespace,
    #[error("paramRef.name and paramRef.selector are mutually exclusive")]
    NameAndSelector,
    #[error("one of name or selector must be provided")]
    NeitherNameNorSelector,
    #[error("no params found for policy binding with `Deny` parameterNotFoundAction")]
    NotFound,
    #[error("more than {MAX_SELECTED} params in one namespace")]
    TooMany,
    #[error("{0}")]
    Selector(String),
    #[error("params cannot be read: {0}")]
    Unreadable(String),
}

impl Params {
    pub(crate) fn new(client: Client) -> Self {
        let known = Cache::builder()
            .max_capacity(MAX_BYTES)
            .weigher(|_, found: &Arc<Found>| u32::try_from(found.bytes).unwrap_or(u32::MAX))
            .time_to_live(KEPT);
        let kinds = Cache::builder().max_capacity(MAX_KINDS).time_to_live(KIND_KEPT);
        Self { client, kinds: kinds.build(), known: known.build() }
    }

    /// Returns the params for which a binding evaluates its policy: one `None` when there is no param.
    pub(crate) async fn collect(
        &self,
        kind: Option<&ParamKind>,
        reference: Option<&ParamRef>,
        namespace: &str,
    ) -> Result<Vec<Option<Cel>>, ParamsError> {
        let (Some(kind), Some(reference)) = (kind, reference) else {
            return Ok(vec![None]);
        };
        let (kind, namespaced) = self.kind(kind).await?;
        let given = reference.namespace.as_deref().unwrap_or_default();
        let namespace = match (namespaced, given.is_empty()) {
            (false, false) => return Err(ParamsError::Namespace),
            (false, true) => "",
            (true, false) => given,
            (true, true) if namespace.is_empty() => return Err(ParamsError::NoNamespace),
            (true, true) => namespace,
        };
        let name = reference.name.clone().filter(|name| !name.is_empty());
        let found = match (name, &reference.selector) {
            (Some(_), Some(_)) => return Err(ParamsError::NameAndSelector),
            (None, None) => return Err(ParamsError::NeitherNameNorSelector),
            (Some(name), None) => {
                let found = self.read(&kind, namespace, Some(name)).await?;
                found.objects.iter().map(value).collect::<Vec<_>>()
            }
            (None, Some(labels)) => {
                let selector =
                    selector(Some(labels)).map_err(|error| ParamsError::Selector(error.to_string()))?;
                let found = self.read(&kind, namespace, None).await?;
                let matches = |object: &&DynamicObject| {
                    let labels = object.metadata.labels.clone().unwrap_or_default();
                    selector.as_ref().is_none_or(|selector| selector.matches(&labels))
                };
                found.objects.iter().filter(matches).map(value).collect()
            }
        };
        if found.is_empty() && reference.parameter_not_found_action.as_deref() == Some("Deny") {
            return Err(ParamsError::NotFound);
        }
        Ok(found.into_iter().map(Some).collect())
    }

    /// Returns the resource of a kind, and true when it is namespaced.
    async fn kind(&self, kind: &ParamKind) -> Result<(ApiResource, bool), ParamsError> {
        let api_version = kind.api_version.clone().unwrap_or_default();
        let (group, version) = api_version.split_once('/').unwrap_or(("", &api_version));
        let name = kind.kind.as_deref().unwrap_or_default();
        let gvk = GroupVersionKind::gvk(group, version, name);
        if let Some(known) = self.kinds.get(&gvk).await {
            return Ok(known);
        }
        let unknown = |why: String| ParamsError::UnknownKind(format!("{api_version}, Kind={name}"), why);
        let read = tokio::time::timeout(READ_TIMEOUT, discovery::pinned_kind(&self.client, &gvk)).await;
        let read = read.map_err(|_| unknown(format!("no answer within {READ_TIMEOUT:?}")))?;
        let (resource, capabilities) = read.map_err(|error| unknown(error.to_string()))?;
        let found = (resource, capabilities.scope == Scope::Namespaced);
        self.kinds.insert(gvk, found.clone()).await;
        Ok(found)
    }

    async fn read(
        &self,
        kind: &ApiResource,
        namespace: &str,
        name: Option<String>,
    ) -> Result<Arc<Found>, ParamsError> {
        let gvk = GroupVersionKind::gvk(&kind.group, &kind.version, &kind.kind);
        let query = Query { kind: gvk, namespace: namespace.to_owned(), name };
        // Concurrent writes share one read.
        let read = self.known.try_get_with(query.clone(), self.fetch(kind, &query)).await;
        read.map_err(|error| ParamsError::clone(&error))
    }

    async fn fetch(&self, kind: &ApiResource, query: &Query) -> Result<Arc<Found>, ParamsError> {
        let api: Api<DynamicObject> = if query.namespace.is_empty() {
            Api::all_with(self.client.clone(), kind)
        } else {
            Api::namespaced_with(self.client.clone(), &query.namespace, kind)
        };
        let objects = async {
            if let Some(name) = &query.name {
                return Ok((api.get_opt(name).await?.into_iter().collect(), false));
            }
            let list = api.list(&ListParams::default().limit(MAX_SELECTED)).await?;
            let more = list.metadata.continue_.is_some_and(|token| !token.is_empty());
            Ok::<_, kube::Error>((list.items, more))
        };
        let unreadable = |why: String| ParamsError::Unreadable(why);
        let read = tokio::time::timeout(READ_TIMEOUT, objects).await;
        let read = read.map_err(|_| unreadable(format!("no answer within {READ_TIMEOUT:?}")))?;
        let (mut objects, more): (Vec<DynamicObject>, bool) =
            read.map_err(|error| unreadable(error.to_string()))?;
        if more {
            return Err(ParamsError::TooMany);
        }
        for object in &mut objects {
            // Objects in lists have no type of their own.
            object.types.get_or_insert_with(|| TypeMeta {
                api_version: kind.api_version.clone(),
                kind: kind.kind.clone(),
            });
        }
        let bytes = serde_json::to_vec(&objects).map_err(|error| unreadable(error.to_string()))?.len();
        Ok(Arc::new(Found { objects, bytes }))
    }
}

/// Returns a param as expressions see it, with its apiVersion and kind.
fn value(object: &DynamicObject) -> Cel {
    to_cel(&serde_json::to_value(object).unwrap_or_default())
}
