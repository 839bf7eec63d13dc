//! Lists of a bounded number of pages.

use std::fmt;

use kube::{Api, Resource, api::ListParams};
use machinery_watch::{Pages, Projected, Projection};
use serde::de::DeserializeOwned;

/// Reads the objects of a list. `None` where there are more than that many pages.
///
/// # Errors
///
/// The kube-apiserver did not answer.
pub(crate) async fn list<K, P>(
    api: &Api<Projected<K, P>>,
    params: ListParams,
    most: usize,
) -> kube::Result<Option<Vec<K>>>
where
    K: Resource + Clone + fmt::Debug + DeserializeOwned,
    P: Projection<K>,
{
    let (mut pages, mut all) = (Pages::new(api, params), Vec::new());
    for _ in 0..most {
        all.extend(pages.read_next().await?);
        if pages.is_over() {
            return Ok(Some(all));
        }
    }
    Ok(None)
}
