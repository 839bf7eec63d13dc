//! Lists and watches without the objects that the server cannot read.

use std::fmt::Debug;

use kube::{
    Api, Client, Resource,
    api::{ListParams, ObjectList},
    core::{Request, Status},
};
use machinery_client::skips_unreadable;
use serde::de::DeserializeOwned;
use tower::service_fn;

use crate::output::warn;

/// Reason of a list that fails because one of its objects cannot be read.
pub(crate) const UNREADABLE: &str = "StorageReadError";

/// Lists all objects of an API but those that the server cannot read. A warning names these: the caller may
/// not take them for deleted.
pub(crate) async fn readable<K>(api: &Api<K>) -> kube::Result<ObjectList<K>>
where
    K: Resource + Clone + Debug + DeserializeOwned,
{
    let params = ListParams::default();
    match api.list(&params).await {
        Err(kube::Error::Api(status)) if status.reason == UNREADABLE => {
            let request = Request::new(api.resource_url()).list(&params);
            let request = skips_unreadable(request.map_err(kube::Error::BuildRequest)?);
            let readable = api.clone().into_client().request(request).await?;
            warn(format_args!("warning: left out, because the server cannot read it: {}", names(&status)));
            Ok(readable)
        }
        listed => listed,
    }
}

/// Returns a client whose lists and watches leave out what the server cannot read, without a word.
pub(crate) fn leaving_out(client: &Client) -> Client {
    let whole = client.clone();
    let service = service_fn(move |request| {
        let whole = whole.clone();
        async move { whole.send(skips_unreadable(request)).await }
    });
    Client::new(service, client.default_namespace())
}

/// Returns the names in such a failure, or its message if it names none.
fn names(status: &Status) -> String {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    let names: Vec<&str> = causes.map(|cause| cause.field.as_str()).collect();
    if names.is_empty() { status.message.clone() } else { names.join(", ") }
}
