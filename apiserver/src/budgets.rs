//! The PodDisruptionBudgets of a namespace, as far as the creation of an Evacuation depends on them.

use std::{collections::BTreeMap, error::Error, sync::Arc, time::Duration};

use evacuation_protocol::PackedSelector;
use k8s_openapi::{
    List,
    api::{core::v1::Pod, policy::v1::PodDisruptionBudget},
};
use kube::{Client, api::ListParams};
use machinery_auth::flow;
use machinery_client::Shares;
use moka::future::Cache;
use tokio::time::timeout;
use tracing::warn;

use crate::bounded_read::{ReadError, list_text};

/// Time for which the budgets of a namespace are known. A budget that is younger may not be seen: its pods
/// are then asked as if it did not exist yet.
const KNOWN: Duration = Duration::from_secs(1);
/// Maximum number of namespaces whose budgets are known.
const NAMESPACES: u64 = 1_000;
/// Maximum number of budgets that are read of a namespace. In one with more, a budget may select every pod.
const BUDGETS: u32 = 500;
/// Maximum size of the budgets that are read of a namespace, in bytes. Of larger ones a budget may select
/// every pod: the decoded form of a selector takes ten times its size.
pub(crate) const BYTES: usize = 1 << 20;
/// Maximum number of namespaces whose budgets are read at a time.
const READS: usize = 4;
/// Maximum number of those of one flow: a quarter, so that slow reads of a tenant hold up no other.
const READS_OF_FLOW: usize = READS / 4;
/// Maximum time that a question waits for the budgets, its turn included. The gateway, whose callers are
/// answered within 800 ms, needs the rest for the question itself: without the budgets it can be asked.
const PATIENCE: Duration = Duration::from_millis(500);

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
///
/// # Guarantees
///
/// Slow reads for three flows leave one to a fourth. A flow is a user, or the service accounts of a
/// namespace. Each priority user is a flow of its own: what the gateway asks for tenants does not delay the
/// controller, which is in the gateway's namespace.
pub(crate) struct BudgetReader {
    client: Client,
    known: Cache<String, Budgets>,
    reads: Shares,
    priority_users: Vec<String>,
}

impl BudgetReader {
    /// Returns a reader with that client, which needs `list poddisruptionbudgets`.
    pub(crate) fn new(client: Client, priority_users: &[String]) -> Self {
        let known = Cache::builder().max_capacity(NAMESPACES).time_to_live(KNOWN).build();
        let reads = Shares::new(READS, READS_OF_FLOW);
        Self { client, known, reads, priority_users: priority_users.to_vec() }
    }

    /// Returns the budgets of a namespace, for a request of that user. Callers at the same time share one
    /// read. Each waits for its own turn first, so that none waits for the turn of a slow flow.
    pub(crate) async fn budgets(&self, namespace: &str, user: &str) -> Budgets {
        if let Some(known) = self.known.get(namespace).await {
            return known;
        }
        let is_priority = self.priority_users.iter().any(|name| name == user);
        let flow = if is_priority { user } else { flow(user) };
        let in_turn = async {
            let Ok(_slot) = self.reads.slot(flow, PATIENCE).await else { return None };
            let read = self.read(namespace.to_owned());
            Some(self.known.get_with_by_ref(namespace, read).await)
        };
        let read = timeout(PATIENCE, in_turn).await.ok().flatten();
        read.unwrap_or_else(|| {
            warn!(namespace, user, "budgets not read in time: the controller decides when pods are asked");
            Budgets::Unknown
        })
    }

    async fn read(&self, namespace: String) -> Budgets {
        match self.list(&namespace).await {
            Ok(list) if list.metadata.continue_.as_deref().unwrap_or_default().is_empty() => {
                Budgets::of(&list.items)
            }
            Ok(_) => Budgets::Unknown,
            Err(error) => {
                let error = &error as &dyn Error;
                warn!(namespace, error, "budgets not read: the controller decides when pods are asked");
                Budgets::Unknown
            }
        }
    }

    /// Lists the budgets of a namespace. Fails before it has read more than [`BYTES`].
    async fn list(&self, namespace: &str) -> Result<List<PodDisruptionBudget>, ReadError> {
        let params = ListParams::default().limit(BUDGETS);
        let text = list_text::<PodDisruptionBudget>(&self.client, Some(namespace), &params, BYTES).await?;
        serde_json::from_slice(&text).map_err(ReadError::Decode)
    }
}

#[cfg(test)]
mod tests {
    use kube::client::Body;
    use serde_json::{Value, json};
    use tokio::time::Instant;

    use super::*;

    const CONTROLLER: &str = "system:serviceaccount:evacuation-system:controller";
    const GATEWAY: &str = "system:serviceaccount:evacuation-system:gateway";

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
        BudgetReader::new(Client::new(service, "default"), &[]).budgets("shop", "jane").await
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

    /// Returns a reader of namespaces without budgets. Those of namespaces `slow-...` are never answered.
    fn reader() -> BudgetReader {
        let service = tower::service_fn(|request: http::Request<Body>| async move {
            if request.uri().path().contains("/slow-") {
                std::future::pending::<()>().await;
            }
            let body = Body::from(json!({"metadata": {}, "items": []}).to_string().into_bytes());
            http::Response::builder().status(200).body(body)
        });
        BudgetReader::new(Client::new(service, "default"), &[CONTROLLER.to_owned()])
    }

    /// # Attack
    ///
    /// - Attacker: a tenant whose budgets take long to read
    /// - Act: asks for pods in many namespaces at once, with many service accounts or through the gateway, so
    ///   that the questions of a drain wait for a turn
    /// - Promise: 8
    #[tokio::test(start_paused = true)]
    async fn slow_reads_of_a_tenant_hold_up_no_other_caller_even_in_a_namespace_that_it_waits_for() {
        let tenants = ["mallory", "system:serviceaccount:theirs:app", GATEWAY];
        let others = ["alice", "system:serviceaccount:other:app", CONTROLLER];
        for (tenant, other) in tenants.iter().flat_map(|tenant| others.map(|other| (tenant, other))) {
            let reader = reader();
            let slow = (0..20).map(|number| format!("slow-{number}"));
            let namespaces: Vec<String> = slow.chain(["shop".to_owned()]).collect();
            let flood = namespaces.iter().map(|namespace| reader.budgets(namespace, tenant));
            let mut flood = Box::pin(futures::future::join_all(flood));
            assert!(futures::poll!(&mut flood).is_pending());
            let began = Instant::now();
            let read = reader.budgets("shop", other).await;
            assert!(matches!(read, Budgets::Known(_)), "{other} beside {tenant}");
            assert_eq!(began.elapsed(), Duration::ZERO, "{other} beside {tenant}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_question_never_waits_long_for_slow_budgets_nor_for_its_turn_behind_them() {
        let reader = reader();
        let began = Instant::now();
        let questions = ["slow-0", "slow-1", "shop"].map(|namespace| reader.budgets(namespace, GATEWAY));
        let read = futures::future::join_all(questions).await;
        assert!(read.iter().all(|budgets| matches!(budgets, Budgets::Unknown)));
        assert_eq!(began.elapsed(), PATIENCE);
    }

    #[tokio::test(start_paused = true)]
    async fn a_caller_without_a_turn_leaves_no_trace_for_others() {
        let reader = reader();
        let slow = reader.budgets("slow-0", "mallory");
        let (_, without_turn) = tokio::join!(slow, reader.budgets("shop", "mallory"));
        assert!(matches!(without_turn, Budgets::Unknown));
        assert!(matches!(reader.budgets("shop", "alice").await, Budgets::Known(_)));
    }
}
