//! Params of policies. Source of the rules: `CollectParams` in
//! `k8s.io/apiserver/pkg/admission/plugin/policy/generic`.

use std::{io, sync::Arc, time::Duration};

use futures::AsyncReadExt;
use k8s_openapi::api::admissionregistration::v1::{ParamKind, ParamRef};
use kube::{
    Api, Client,
    api::{DynamicObject, GetParams, ListParams, Request},
    core::{ApiResource, GroupVersionKind, SelectorExt},
    discovery::{self, Scope},
};
use moka::future::Cache;
use serde_json::Value;

use crate::{matching::selector, subject::labels};

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
/// Maximum size of the answer to one read, in bytes. It has all params of a namespace when a binding selects
/// them.
const MAX_READ: u64 = 4 * 1024 * 1024;
/// Maximum time of one read.
const READ_TIMEOUT: Duration = Duration::from_secs(5);

/// Reader of params.
///
/// RBAC: get and list the kinds of params.
#[derive(Clone)]
pub(crate) struct Params {
    client: Client,
    kinds: Cache<GroupVersionKind, (ApiResource, bool)>,
    known: Cache<Query, Arc<Fetched>>,
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

/// Params that were read, with their apiVersions and kinds.
#[derive(Debug, Default)]
struct Fetched {
    objects: Vec<Arc<Value>>,
    /// Size of the answer.
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
    #[error("the params have more than {MAX_READ} bytes")]
    TooLarge,
    #[error("{0}")]
    Selector(String),
    #[error("params cannot be read: {0}")]
    Unreadable(String),
}

impl Params {
    pub(crate) fn new(client: Client) -> Self {
        let known = Cache::builder()
            .max_capacity(MAX_BYTES)
            .weigher(|_, fetched: &Arc<Fetched>| u32::try_from(fetched.bytes).unwrap_or(u32::MAX))
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
    ) -> Result<Vec<Option<Arc<Value>>>, ParamsError> {
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
        let selected: Vec<Arc<Value>> = match (name, &reference.selector) {
            (Some(_), Some(_)) => return Err(ParamsError::NameAndSelector),
            (None, None) => return Err(ParamsError::NeitherNameNorSelector),
            (Some(name), None) => self.read(&kind, namespace, Some(name)).await?.objects.clone(),
            (None, Some(chosen)) => {
                let selector =
                    selector(Some(chosen)).map_err(|error| ParamsError::Selector(error.to_string()))?;
                let fetched = self.read(&kind, namespace, None).await?;
                let matches = |object: &&Arc<Value>| {
                    selector.as_ref().is_none_or(|selector| selector.matches(&labels(object)))
                };
                fetched.objects.iter().filter(matches).cloned().collect()
            }
        };
        if selected.is_empty() && reference.parameter_not_found_action.as_deref() == Some("Deny") {
            return Err(ParamsError::NotFound);
        }
        Ok(selected.into_iter().map(Some).collect())
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
        let resolved = (resource, capabilities.scope == Scope::Namespaced);
        self.kinds.insert(gvk, resolved.clone()).await;
        Ok(resolved)
    }

    async fn read(
        &self,
        kind: &ApiResource,
        namespace: &str,
        name: Option<String>,
    ) -> Result<Arc<Fetched>, ParamsError> {
        let gvk = GroupVersionKind::gvk(&kind.group, &kind.version, &kind.kind);
        let query = Query { kind: gvk, namespace: namespace.to_owned(), name };
        // Concurrent writes share one read.
        let read = self.known.try_get_with(query.clone(), self.fetch(kind, &query)).await;
        read.map_err(|error| ParamsError::clone(&error))
    }

    async fn fetch(&self, kind: &ApiResource, query: &Query) -> Result<Arc<Fetched>, ParamsError> {
        let api: Api<DynamicObject> = if query.namespace.is_empty() {
            Api::all_with(self.client.clone(), kind)
        } else {
            Api::namespaced_with(self.client.clone(), &query.namespace, kind)
        };
        let read = tokio::time::timeout(READ_TIMEOUT, self.answer(api.resource_url(), query)).await;
        let read = read.map_err(|_| unreadable(&format!("no answer within {READ_TIMEOUT:?}")))?;
        let Some(answer) = read? else { return Ok(Arc::default()) };
        let (kind, listed) = (kind.clone(), query.name.is_none());
        let parsed = tokio::task::spawn_blocking(move || parse(&answer, &kind, listed)).await;
        parsed.map_err(|error| unreadable(&error)).flatten().map(Arc::new)
    }

    /// Returns the body of an answer; `None` when there is no such object.
    async fn answer(&self, url: &str, query: &Query) -> Result<Option<Vec<u8>>, ParamsError> {
        let request = Request::new(url);
        let request = match &query.name {
            Some(name) => request.get(name, &GetParams::default()),
            None => request.list(&ListParams::default().limit(MAX_SELECTED)),
        };
        let request = request.map_err(|error| unreadable(&error))?;
        let stream = match self.client.request_stream(request).await {
            Ok(stream) => stream,
            Err(kube::Error::Api(status)) if status.code == 404 && query.name.is_some() => return Ok(None),
            Err(error) => return Err(unreadable(&error)),
        };
        let mut answer = Vec::new();
        let read: io::Result<usize> = Box::pin(stream.take(MAX_READ + 1)).read_to_end(&mut answer).await;
        if read.map_err(|error| unreadable(&error))? as u64 > MAX_READ {
            return Err(ParamsError::TooLarge);
        }
        Ok(Some(answer))
    }
}

fn unreadable(why: &dyn std::fmt::Display) -> ParamsError {
    ParamsError::Unreadable(why.to_string())
}

/// Reads an object or a list of objects of a kind.
fn parse(answer: &[u8], kind: &ApiResource, listed: bool) -> Result<Fetched, ParamsError> {
    let mut value: Value = serde_json::from_slice(answer).map_err(|error| unreadable(&error))?;
    let objects = if listed {
        if value.pointer("/metadata/continue").and_then(Value::as_str).is_some_and(|token| !token.is_empty())
        {
            return Err(ParamsError::TooMany);
        }
        match value.get_mut("items").map(Value::take) {
            Some(Value::Array(items)) => items,
            _ => Vec::new(),
        }
    } else {
        vec![value]
    };
    let typed = |mut object: Value| {
        // Objects in lists have no type of their own.
        if let Some(fields) = object.as_object_mut() {
            fields.entry("apiVersion").or_insert_with(|| kind.api_version.clone().into());
            fields.entry("kind").or_insert_with(|| kind.kind.clone().into());
        }
        Arc::new(object)
    };
    Ok(Fetched { objects: objects.into_iter().map(typed).collect(), bytes: answer.len() })
}

#[cfg(test)]
mod tests {
    use http::{Request, Response};
    use kube::client::Body;
    use serde_json::json;

    use super::*;

    /// Reader in a cluster that has these config maps in each namespace.
    fn params(maps: Vec<Value>) -> Params {
        let service = tower::service_fn(move |request: Request<Body>| {
            let answer = match request.uri().path().rsplit_once('/').map(|(_, last)| last) {
                Some("v1") => json!({"kind": "APIResourceList", "groupVersion": "v1", "resources": [{
                    "name": "configmaps", "singularName": "", "namespaced": true, "kind": "ConfigMap",
                    "verbs": ["get", "list"],
                }]}),
                Some("configmaps") => json!({"kind": "ConfigMapList", "metadata": {}, "items": maps}),
                name => {
                    let named = |map: &&Value| map["metadata"]["name"].as_str() == name;
                    let absent = json!({"kind": "Status", "status": "Failure", "code": 404, "message": "gone",
                                        "reason": "NotFound", "metadata": {}});
                    maps.iter().find(named).unwrap_or(&absent).clone()
                }
            };
            let code = if answer["kind"] == "Status" { 404 } else { 200 };
            let body = Body::from(answer.to_string().into_bytes());
            let response = Response::builder().status(code).body(body).unwrap();
            std::future::ready(Ok::<_, std::io::Error>(response))
        });
        Params::new(Client::new(service, "default"))
    }

    fn map(name: &str, bytes: usize) -> Value {
        json!({"metadata": {"name": name, "labels": {"app": name}}, "data": {"x": "x".repeat(bytes)}})
    }

    async fn collect(params: &Params, reference: Value) -> Result<Vec<Option<Arc<Value>>>, String> {
        let kind = ParamKind { api_version: Some("v1".to_owned()), kind: Some("ConfigMap".to_owned()) };
        let reference: ParamRef = serde_json::from_value(reference).unwrap();
        let collected = params.collect(Some(&kind), Some(&reference), "shop").await;
        collected.map_err(|error| error.to_string())
    }

    #[tokio::test]
    async fn params_are_read_by_name_or_selector_and_have_a_type() {
        let params = params(vec![map("a", 1), map("b", 1)]);
        let named = collect(&params, json!({"name": "a"})).await.unwrap();
        assert_eq!(named[0].as_ref().unwrap()["kind"], "ConfigMap");
        let selector = json!({"selector": {"matchLabels": {"app": "b"}}});
        let selected = collect(&params, selector).await.unwrap();
        assert_eq!(selected.len(), 1);
        let selected = selected[0].as_ref().unwrap();
        assert_eq!((&selected["metadata"]["name"], &selected["apiVersion"]), (&json!("b"), &json!("v1")));
        let absent = json!({"name": "c", "parameterNotFoundAction": "Deny"});
        assert!(collect(&params, absent).await.unwrap_err().contains("no params found"));
    }

    #[tokio::test]
    async fn params_beyond_the_size_of_a_read_are_an_error() {
        let many: Vec<Value> = (0..100).map(|at| map(&format!("m{at}"), 64 * 1024)).collect();
        let params = params(many);
        let all = collect(&params, json!({"selector": {}})).await.unwrap_err();
        assert_eq!(all, "the params have more than 4194304 bytes");
        assert_eq!(collect(&params, json!({"name": "m1"})).await.unwrap().len(), 1);
    }
}
