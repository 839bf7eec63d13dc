//! Lists that are read in pages.

use std::fmt;

use kube::{Api, Resource, api::ListParams};
use serde::de::DeserializeOwned;

use crate::{Projected, Projection};

/// Number of objects in a page of a list. The text of a page is in memory as a whole, twice for a moment, and
/// an object can have some megabytes.
pub const PAGE: u32 = 20;

/// A list that is read page by page.
///
/// # Guarantees
///
/// All pages show one revision. The text of one page and one decoded object are in memory as a whole.
///
/// # Caveats
///
/// The API server forgets the revision of a list after some minutes. It then replies 410, and the list must
/// be read from its beginning by another `Pages`.
pub struct Pages<'a, K, P> {
    api: &'a Api<Projected<K, P>>,
    params: ListParams,
    is_over: bool,
}

impl<'a, K, P> Pages<'a, K, P>
where
    K: Resource + Clone + fmt::Debug + DeserializeOwned,
    P: Projection<K>,
{
    /// Returns the list of those parameters, of which nothing is read yet. A page has [`PAGE`] objects unless
    /// the parameters limit it.
    pub fn new(api: &'a Api<Projected<K, P>>, mut params: ListParams) -> Self {
        params.limit = params.limit.or(Some(PAGE));
        Self { api, params, is_over: false }
    }

    /// Returns true once the last page was read.
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// Reads the next page. After the last one there are no more objects.
    ///
    /// # Errors
    ///
    /// The kube-apiserver did not answer, or the list was replied 410. Another call reads the same page.
    pub async fn read_next(&mut self) -> kube::Result<Vec<K>> {
        if self.is_over {
            return Ok(Vec::new());
        }
        let page = self.api.list(&self.params).await?;
        self.params.continue_token = page.metadata.continue_.filter(|token| !token.is_empty());
        self.is_over = self.params.continue_token.is_none();
        Ok(page.items.into_iter().map(Projected::into_inner).collect())
    }
}

#[cfg(test)]
mod tests {
    use std::{
        convert::Infallible,
        sync::{Arc, Mutex},
    };

    use http::{Request, Response};
    use k8s_openapi::api::core::v1::Pod;
    use kube::{Client, ResourceExt, client::Body};
    use serde_json::{Value, json};

    use super::*;

    /// The pods without their spec.
    enum Named {}

    impl Projection<Pod> for Named {
        fn project(pod: &mut Pod) {
            pod.spec = None;
        }
    }

    type NamedPods = Api<Projected<Pod, Named>>;

    /// An API whose lists have those pages, and the queries that it gets.
    fn api(pages: Vec<Value>) -> (NamedPods, Arc<Mutex<Vec<String>>>) {
        let queries = Arc::<Mutex<Vec<String>>>::default();
        let (seen, pages) = (Arc::clone(&queries), Arc::new(Mutex::new(pages.into_iter())));
        let service = tower::service_fn(move |request: Request<Body>| {
            seen.lock().unwrap().push(request.uri().query().unwrap_or_default().to_owned());
            let page = pages.lock().unwrap().next().unwrap().to_string();
            async move { Ok::<_, Infallible>(Response::new(Body::from(page.into_bytes()))) }
        });
        (Api::all(Client::new(service, "default")), queries)
    }

    fn page(name: &str, next: &Value) -> Value {
        let pod = json!({"metadata": {"name": name}, "spec": {"nodeName": "n", "containers": []}});
        json!({"metadata": {"resourceVersion": "5", "continue": next}, "items": [pod]})
    }

    async fn names(pages: &mut Pages<'_, Pod, Named>) -> Vec<String> {
        let page = pages.read_next().await.unwrap();
        assert!(page.iter().all(|pod| pod.spec.is_none()), "only the projection is passed on");
        page.iter().map(ResourceExt::name_any).collect()
    }

    #[tokio::test]
    async fn each_page_is_asked_for_by_the_token_of_the_one_before() {
        let (api, queries) = api(vec![page("a", &json!("t1")), page("b", &json!(""))]);
        let mut pages = Pages::new(&api, ListParams::default().fields("spec.nodeName=n"));
        assert_eq!((names(&mut pages).await, pages.is_over()), (vec!["a".to_owned()], false));
        assert_eq!((names(&mut pages).await, pages.is_over()), (vec!["b".to_owned()], true));
        assert!(names(&mut pages).await.is_empty());
        let selector = "fieldSelector=spec.nodeName%3Dn&limit=20";
        let expected = [selector.to_owned(), format!("{selector}&continue=t1")];
        assert_eq!(
            queries.lock().unwrap().iter().map(|query| query.trim_matches('&')).collect::<Vec<_>>(),
            expected
        );
    }

    #[tokio::test]
    async fn a_list_of_one_page_is_over_after_it() {
        let (api, queries) = api(vec![page("a", &Value::Null)]);
        let mut pages = Pages::new(&api, ListParams::default().limit(50));
        assert_eq!((names(&mut pages).await, pages.is_over()), (vec!["a".to_owned()], true));
        assert!(queries.lock().unwrap()[0].contains("limit=50"));
    }
}
