//! Lists that are read in pages, up to a bound.

use std::fmt;

use kube::{Api, Resource, api::ListParams};
use machinery_watch::{Projected, Projection};
use serde::de::DeserializeOwned;

/// Reads the objects of a list whose parameters limit the page. `None` where there are more than that many
/// pages.
///
/// The text of one page and one decoded object are in memory as a whole.
///
/// # Errors
///
/// The kube-apiserver did not answer.
pub(crate) async fn list<K, P>(
    api: &Api<Projected<K, P>>,
    mut params: ListParams,
    pages: usize,
) -> kube::Result<Option<Vec<K>>>
where
    K: Resource + Clone + fmt::Debug + DeserializeOwned,
    P: Projection<K>,
{
    let mut all = Vec::new();
    for _ in 0..pages {
        let page = api.list(&params).await?;
        all.extend(page.items.into_iter().map(Projected::into_inner));
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => return Ok(Some(all)),
        }
    }
    Ok(None)
}
