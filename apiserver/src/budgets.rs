//! The PodDisruptionBudgets of a namespace, as far as the creation of an Evacuation depends on them.

use std::{collections::BTreeMap, error::Error, sync::Arc, time::Duration};

use evacuation_protocol::PackedSelector;
use http_body_util::{BodyExt, Limited};
use k8s_openapi::{
    List,
    api::{core::v1::Pod, policy::v1::PodDisruptionBudget},
};
use kube::{Client, Resource, api::ListParams, client::Body, core::Request};
use moka::future::Cache;
use tokio::sync::Semaphore;
use tracing::warn;

/// Time for which the budgets of a namespace are known. A budget that is younger may not be seen: its pods
/// are then asked as if it did not exist yet.
const KNOWN: Duration = Duration::from_secs(1);
/// Maximum number of namespaces whose budgets are known.
const NAMESPACES: u64 = 1_000;
/// Maximum number of budgets that are read of a namespace. In one with more, a budget may select every pod.
const BUDGETS: u32 = 500;
/// Maximum size of the budgets that are read of a namespace, in bytes. Of larger ones a budget may select
/// every pod: the decoded form of a selector takes ten times its size.
const BYTES: usize = 1 << 20;
/// Maximum number of namespaces whose budgets are read at a time.
const READS: usize = 4;
/// Timeout of one list, with its turn.
const TIMEOUT: Duration = Duration::from_secs(2);

/// The budgets of a namespace.
#[derive(Clone, Debug)]
pub enum Budgets {
    /// The selectors of all of them.
    Known(Arc<[PackedSelector]>),
    /// They could not be read, or are too many.
    Unknown,
}

impl Default for Budgets {
    /// Returns the budgets of a namespace without any.
    fn default() -> Self {
        Self::Known(Arc::default())
    }
}

impl Budgets {
    /// Returns the budgets with these selectors, of which no selector is missing.
    fn of(budgets: &[PodDisruptionBudget]) -> Self {
        let selector =
            |budget: &PodDisruptionBudget| PackedSelector::of(budget.spec.as_ref()?.selector.as_ref()?);
        Self::Known(budgets.iter().filter_map(selector).collect())
    }

    /// Returns true when one of the budgets may select the pod.
    pub fn may_select(&self, pod: &Pod) -> bool {
        static NONE: BTreeMap<String, String> = BTreeMap::new();
        let labels = pod.metadata.labels.as_ref().unwrap_or(&NONE);
        match self {
            Self::Known(selectors) => selectors.iter().any(|selector| selector.selects(labels)),
            Self::Unknown => true,
        }
    }
}

/// Reader of the budgets of namespaces, with a short memory: a drain creates many Evacuations at a time.
pub(crate) struct BudgetReader {
    client: Client,
    known: Cache<String, Budgets>,
    reads: Semaphore,
}

impl BudgetReader {
    /// Returns a reader with that client, which needs `list poddisruptionbudgets`.
    pub(crate) fn new(client: Client) -> Self {
        let known = Cache::builder().max_capacity(NAMESPACES).time_to_live(KNOWN).build();
        Self { client, known, reads: Semaphore::new(READS) }
    }

    /// Returns the budgets of a namespace. Callers at the same time share one read.
    pub(crate) async fn budgets(&self, namespace: &str) -> Budgets {
        let read = self.read(namespace.to_owned());
        self.known.get_with_by_ref(namespace, read).await
    }

    async fn read(&self, namespace: String) -> Budgets {
        match tokio::time::timeout(TIMEOUT, self.list(&namespace)).await {
            Ok(Ok(list)) if list.metadata.continue_.as_deref().unwrap_or_default().is_empty() => {
                Budgets::of(&list.items)
            }
            Ok(Ok(_)) => Budgets::Unknown,
            Ok(Err(error)) => {
                let error = &*error as &dyn Error;
                warn!(namespace, error, "budgets not read: the controller decides when pods are asked");
                Budgets::Unknown
            }
            Err(_) => {
                warn!(namespace, "budgets not read in time: the controller decides when pods are asked");
                Budgets::Unknown
            }
        }
    }

    /// Lists the budgets of a namespace. Fails before it has read more than [`BYTES`].
    async fn list(&self, namespace: &str) -> Result<List<PodDisruptionBudget>, Box<dyn Error + Send + Sync>> {
        let _read = self.reads.acquire().await?;
        let request = Request::new(PodDisruptionBudget::url_path(&(), Some(namespace)));
        let request = request.list(&ListParams::default().limit(BUDGETS))?;
        let reply = self.client.send(request.map(Body::from)).await?;
        let code = reply.status();
        if !code.is_success() {
            return Err(format!("the list of budgets was answered by {code}").into());
        }
        let body = Limited::new(reply.into_body(), BYTES).collect().await?;
        Ok(serde_json::from_slice(&body.to_bytes())?)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn budgets_that_are_not_known_may_select_every_pod() {
        let pod = |labels: Value| -> Pod {
            serde_json::from_value(json!({"metadata": {"name": "p", "labels": labels}})).unwrap()
        };
        let budget = |selector: Value| -> PodDisruptionBudget {
            serde_json::from_value(json!({"metadata": {"name": "b"}, "spec": {"selector": selector}}))
                .unwrap()
        };
        let known = Budgets::of(&[budget(json!({"matchLabels": {"app": "web"}}))]);
        assert!(known.may_select(&pod(json!({"app": "web"}))));
        assert!(!known.may_select(&pod(json!({"app": "db"}))));
        assert!(
            Budgets::of(&[budget(json!({}))]).may_select(&pod(json!({}))),
            "an empty selector selects all"
        );
        assert!(!Budgets::of(&[]).may_select(&pod(json!({"app": "web"}))));
        assert!(Budgets::Unknown.may_select(&pod(json!({}))));
    }
    /// Returns what is known when the kube-apiserver answers so.
    async fn read(code: u16, body: String) -> Budgets {
        let service = tower::service_fn(move |_: http::Request<Body>| {
            let body = Body::from(body.clone().into_bytes());
            async move { http::Response::builder().status(code).body(body) }
        });
        BudgetReader::new(Client::new(service, "default")).budgets("shop").await
    }

    #[tokio::test]
    async fn budgets_that_are_too_large_or_not_answered_may_select_every_pod() {
        let list = |values: usize| {
            let expression = json!({"key": "app", "operator": "In", "values": vec!["v"; values]});
            let budget =
                json!({"metadata": {"name": "b"}, "spec": {"selector": {"matchExpressions": [expression]}}});
            json!({"metadata": {}, "items": [budget]}).to_string()
        };
        let pod: Pod = serde_json::from_value(json!({"metadata": {"name": "p"}})).unwrap();
        for (code, body, expected) in [
            (200, list(1_000), false),
            (200, list(BYTES), true),
            (200, json!({"metadata": {"continue": "more"}, "items": []}).to_string(), true),
            (403, json!({"kind": "Status", "code": 403}).to_string(), true),
        ] {
            let length = body.len();
            assert_eq!(read(code, body).await.may_select(&pod), expected, "{code} with {length} bytes");
        }
    }
}
