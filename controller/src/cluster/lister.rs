//! Live lists of the API.

use std::{fmt::Debug, sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client, Resource, api::ListParams};
use machinery_client::Shares;
use machinery_watch::{PAGE, Pages, Projected, Projection};
use serde::de::DeserializeOwned;

use super::{CallError, Kept, View, call, view::Viewed};

/// Number of pages that are read at a time. Tenants decide how large a page of pods is: some ten megabytes.
const PAGES_AT_ONCE: usize = 1;
/// Maximum time for which a page waits for those of its own flow, and then for those of others.
const PATIENCE: Duration = Duration::from_mins(2);
/// Number of times that a list is begun whose revision the API server forgets while it is read.
const TRIES: u32 = 3;

/// Reader of lists that must be as new as the API's store.
///
/// # Guarantees
///
/// A list shows one revision, which is no older than the call. The process reads one page of 20 objects at a
/// time, whatever the number of callers, and of each object keeps what its caller does. So tenants cannot
/// decide how much memory a list takes.
///
/// The flows take turns page by page, so that the long lists of one do not hold up another. A flow is the
/// lists of one field selector, such as those of a node, or else of one resource in a namespace.
pub(crate) struct Lister {
    client: Client,
    view: Arc<View>,
    shares: Shares,
}

impl Lister {
    /// Returns a reader. Lists share the states that `view` has.
    pub(crate) fn new(client: Client, view: Arc<View>) -> Self {
        Self { client, view, shares: Shares::new(PAGES_AT_ONCE, PAGES_AT_ONCE) }
    }

    /// Reads the pods of a node.
    pub(crate) async fn pods_on(&self, node: &str) -> Result<Vec<Arc<Pod>>, CallError> {
        let on_node = ListParams::default().fields(&format!("spec.nodeName={node}"));
        let action = format!("list the pods of node {node}");
        self.list(action, &Api::all(self.client.clone()), on_node).await
    }

    /// Reads objects of a kind of the view. What the view has already takes no memory again.
    ///
    /// # Errors
    ///
    /// The API did not answer a page in time, or refused the list. Or other lists took all the time.
    pub(crate) async fn list<K>(
        &self,
        action: String,
        api: &Api<Kept<K>>,
        params: ListParams,
    ) -> Result<Vec<Arc<K>>, CallError>
    where
        K: Viewed + Clone + Debug + DeserializeOwned,
    {
        let keep = |object| Some(self.view.same(&object).unwrap_or_else(|| Arc::new(object)));
        self.list_with(action, api, params, keep).await
    }

    /// Reads the objects of a list, and keeps of each what `keep` returns. A limit in `params` is that of the
    /// list, not of a page.
    ///
    /// # Errors
    ///
    /// The API did not answer a page in time, or refused the list. Or other lists took all the time.
    pub(crate) async fn list_with<K, P, T>(
        &self,
        action: String,
        api: &Api<Projected<K, P>>,
        params: ListParams,
        keep: impl Fn(K) -> Option<T>,
    ) -> Result<Vec<T>, CallError>
    where
        K: Resource + Clone + Debug + DeserializeOwned,
        P: Projection<K>,
    {
        let mut tries = TRIES;
        loop {
            tries -= 1;
            match self.list_once(&action, api, params.clone(), &keep).await {
                Err(error) if error.code() == 410 && tries > 0 => {}
                read => return read,
            }
        }
    }

    async fn list_once<K, P, T>(
        &self,
        action: &str,
        api: &Api<Projected<K, P>>,
        params: ListParams,
        keep: &impl Fn(K) -> Option<T>,
    ) -> Result<Vec<T>, CallError>
    where
        K: Resource + Clone + Debug + DeserializeOwned,
        P: Projection<K>,
    {
        let (mut kept, mut left) = (Vec::new(), params.limit.unwrap_or(u32::MAX));
        let flow = params.field_selector.clone().unwrap_or_else(|| api.resource_url().to_owned());
        let mut pages = Pages::new(api, params.limit(PAGE));
        while !pages.is_over() && left > 0 {
            let slot = self.shares.slot(&flow, PATIENCE).await;
            let _slot = slot.map_err(|_| CallError::NoTurn { action: action.to_owned() })?;
            kept.extend(call(action, pages.read_next()).await?.into_iter().filter_map(keep));
            left = left.saturating_sub(PAGE);
        }
        Ok(kept)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use serde_json::{Value, json};

    use super::{super::lock, *};
    use crate::cluster::{Cluster, testing::cluster_with_api};

    fn pod(name: &str) -> Value {
        json!({"metadata": {"namespace": "ns", "name": name, "uid": name, "resourceVersion": "7"},
               "spec": {"nodeName": "n", "containers": [{"name": "c"}]}})
    }

    fn page(names: &[&str], next: &str) -> (u16, Value) {
        let items: Vec<Value> = names.iter().map(|name| pod(name)).collect();
        (200, json!({"metadata": {"resourceVersion": "9", "continue": next}, "items": items}))
    }

    fn expired() -> (u16, Value) {
        (410, json!({"kind": "Status", "status": "Failure", "code": 410, "reason": "Expired"}))
    }

    /// A process whose API replies to one request after another, and the queries that it gets. The last reply
    /// is that to all further requests.
    fn api(replies: Vec<(u16, Value)>) -> (Cluster, Arc<Mutex<Vec<String>>>) {
        let queries = Arc::<Mutex<Vec<String>>>::default();
        let seen = Arc::clone(&queries);
        let (cluster, _) = cluster_with_api(move |request, _| {
            let mut seen = lock(&seen);
            seen.push(request.uri.query().unwrap_or_default().trim_matches('&').to_owned());
            replies[seen.len().min(replies.len()) - 1].clone()
        });
        (cluster, queries)
    }

    fn names(pods: &[Arc<Pod>]) -> Vec<&str> {
        pods.iter().filter_map(|pod| pod.metadata.name.as_deref()).collect()
    }

    #[tokio::test]
    async fn the_pages_of_a_list_are_put_together() {
        let (cluster, queries) = api(vec![page(&["a", "b"], "t1"), page(&[], "t2"), page(&["c"], "")]);
        let pods = cluster.lister.pods_on("n").await.unwrap();
        assert_eq!(names(&pods), ["a", "b", "c"]);
        // Without a resourceVersion the list is as new as the store.
        let first = "fieldSelector=spec.nodeName%3Dn&limit=20";
        let expected = [first.to_owned(), format!("{first}&continue=t1"), format!("{first}&continue=t2")];
        assert_eq!(*lock(&queries), expected);
    }

    #[tokio::test]
    async fn a_list_is_begun_again_when_the_api_has_forgotten_its_revision() {
        let (cluster, queries) = api(vec![page(&["a", "b"], "t1"), expired(), page(&["b"], "")]);
        let pods = cluster.lister.pods_on("n").await.unwrap();
        assert_eq!(names(&pods), ["b"], "nothing of the older revision");
        assert_eq!(lock(&queries).iter().filter(|query| query.contains("continue")).count(), 1);

        let (cluster, queries) = api(vec![expired()]);
        assert!(cluster.lister.pods_on("n").await.is_err_and(|error| error.code() == 410));
        assert_eq!(lock(&queries).len(), 3);
    }

    #[tokio::test]
    async fn a_page_that_fails_fails_the_list() {
        let failure = (500, json!({"kind": "Status", "status": "Failure", "code": 500, "message": "no"}));
        let (cluster, queries) = api(vec![page(&["a"], "t1"), failure]);
        assert!(cluster.lister.pods_on("n").await.is_err_and(|error| error.code() == 500));
        assert_eq!(lock(&queries).len(), 2);
    }

    #[tokio::test]
    async fn a_list_is_projected_and_shares_what_the_view_has() {
        let (cluster, _) = api(vec![page(&["known", "new"], "")]);
        cluster.view.apply::<Pod>(serde_json::from_value(pod("known")).unwrap());
        let pods = cluster.lister.pods_on("n").await.unwrap();
        assert!(pods.iter().all(|pod| pod.spec.as_ref().unwrap().containers.is_empty()));
        let shared: Vec<bool> = pods.iter().map(|pod| Arc::strong_count(pod) > 1).collect();
        assert_eq!(shared, [true, false]);
    }

    #[tokio::test]
    async fn a_long_list_and_a_short_one_take_turns() {
        let (cluster, queries) =
            api(vec![page(&["a"], "t1"), page(&["b"], ""), page(&["c"], "t2"), page(&["d"], "")]);
        let (long, short) = tokio::join!(cluster.lister.pods_on("long"), cluster.lister.pods_on("short"));
        assert_eq!((names(&long.unwrap()), names(&short.unwrap())), (vec!["a", "c", "d"], vec!["b"]));
        let asked: Vec<bool> = lock(&queries).iter().map(|query| query.contains("long")).collect();
        assert_eq!(asked, [true, false, true, true]);
    }

    #[tokio::test]
    async fn no_more_objects_are_read_than_the_limit_of_the_list() {
        let (cluster, queries) = api(vec![page(&["a"], "more")]);
        let api = Api::<Kept<Pod>>::all(cluster.client.clone());
        let params = ListParams::default().limit(100);
        cluster.lister.list("list pods".to_owned(), &api, params).await.unwrap();
        assert_eq!(lock(&queries).len(), 5);
        assert!(lock(&queries).iter().all(|query| query.contains("limit=20")));
    }
}
