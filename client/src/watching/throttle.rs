//! A minimum time between the starts of two watches.

use std::{sync::Arc, time::Duration};

use http::Request;
use kube::{Api, Client, Resource, client::Body, core::NamespaceResourceScope};
use tokio::{sync::Mutex, time::Instant};

/// Minimum time between the starts of two watches.
///
/// kube renews a watch at once when the server has ended it without an error. A server or a proxy that ends
/// each watch immediately would get one request after another.
const APART: Duration = Duration::from_secs(1);

/// Returns an API whose watches start at least [`APART`] after each other. Other requests pass at once.
pub(super) fn throttled<K>(api: Api<K>) -> Api<K>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
{
    let namespace = api.namespace().map(str::to_owned);
    let client = throttled_client(api.into_client());
    match namespace {
        Some(namespace) => Api::namespaced(client, &namespace),
        None => Api::all(client),
    }
}

fn throttled_client(client: Client) -> Client {
    let namespace = client.default_namespace().to_owned();
    let last_start = Arc::new(Mutex::new(None::<Instant>));
    let service = tower::service_fn(move |request: Request<Body>| {
        let (client, last_start) = (client.clone(), Arc::clone(&last_start));
        async move {
            if is_watch(&request) {
                let mut last_start = last_start.lock().await;
                if let Some(time) = *last_start {
                    tokio::time::sleep_until(time + APART).await;
                }
                *last_start = Some(Instant::now());
            }
            client.send(request).await
        }
    });
    Client::new(service, namespace)
}

fn is_watch(request: &Request<Body>) -> bool {
    let query = request.uri().query().unwrap_or_default();
    query.split('&').any(|parameter| parameter == "watch=true")
}
