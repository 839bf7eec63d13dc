//! Addresses of Services.

use std::{
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use k8s_openapi::api::core::v1::Service;
use kube::{Api, Client};
use moka::future::Cache;

/// Time for which the address of a Service is kept.
const KEPT: Duration = Duration::from_secs(10);
/// Maximum number of Services whose addresses are kept.
const MAX_SERVICES: u64 = 1000;
/// Maximum time of a read.
const READ_TIMEOUT: Duration = Duration::from_secs(5);

/// Resolves Services to addresses, as a kube-apiserver without a proxy to the cluster network does.
///
/// RBAC: get services.
#[derive(Clone)]
pub(crate) struct Services {
    client: Client,
    known: Cache<(String, String), Target>,
}

/// Destination of the traffic of a Service.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Target {
    Address(IpAddr),
    /// A name to look up: of another host, or of a Service without an address of its own.
    Host(String),
}

/// A Service that cannot be resolved.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ServiceError {
    #[error("service {0}/{1} not found")]
    NotFound(String, String),
    #[error("service {0}/{1} cannot be read: {2}")]
    Unreadable(String, String, String),
    #[error("{0} cannot be resolved: {1}")]
    Unresolved(String, std::io::Error),
}

impl Services {
    pub(crate) fn new(client: Client) -> Self {
        Self { client, known: Cache::builder().max_capacity(MAX_SERVICES).time_to_live(KEPT).build() }
    }

    /// Returns the addresses of a Service.
    pub(crate) async fn resolve(
        &self,
        namespace: &str,
        name: &str,
        port: u16,
    ) -> Result<Vec<SocketAddr>, ServiceError> {
        let key = (namespace.to_owned(), name.to_owned());
        let target = if let Some(target) = self.known.get(&key).await {
            target
        } else {
            let target = self.read(namespace, name).await?;
            self.known.insert(key, target.clone()).await;
            target
        };
        match target {
            Target::Address(address) => Ok(vec![SocketAddr::new(address, port)]),
            Target::Host(host) => {
                let found = tokio::net::lookup_host((host.as_str(), port)).await;
                let unresolved = |error| ServiceError::Unresolved(host.clone(), error);
                Ok(found.map_err(unresolved)?.collect())
            }
        }
    }

    async fn read(&self, namespace: &str, name: &str) -> Result<Target, ServiceError> {
        let unreadable = |why: String| ServiceError::Unreadable(namespace.to_owned(), name.to_owned(), why);
        let api: Api<Service> = Api::namespaced(self.client.clone(), namespace);
        let read = tokio::time::timeout(READ_TIMEOUT, api.get_opt(name)).await;
        let read = read.map_err(|_| unreadable(format!("no answer within {READ_TIMEOUT:?}")))?;
        let service = read.map_err(|error| unreadable(error.to_string()))?;
        let service = service.ok_or_else(|| ServiceError::NotFound(namespace.to_owned(), name.to_owned()))?;
        Ok(target(namespace, name, &service))
    }
}

fn target(namespace: &str, name: &str, service: &Service) -> Target {
    let spec = service.spec.clone().unwrap_or_default();
    let own = || format!("{name}.{namespace}.svc");
    if spec.type_.as_deref() == Some("ExternalName") {
        return Target::Host(spec.external_name.unwrap_or_else(own));
    }
    match spec.cluster_ip.as_deref().unwrap_or_default().parse() {
        Ok(address) => Target::Address(address),
        // Headless: the cluster's DNS knows its endpoints.
        Err(_) => Target::Host(own()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_service_is_reached_by_its_address_or_else_by_name() {
        let cases = [
            (json!({"clusterIP": "10.0.0.7"}), Target::Address("10.0.0.7".parse().unwrap())),
            (json!({"clusterIP": "None"}), Target::Host("hook.policy.svc".to_owned())),
            (
                json!({"type": "ExternalName", "externalName": "hooks.example.com"}),
                Target::Host("hooks.example.com".to_owned()),
            ),
        ];
        for (spec, expected) in cases {
            let service: Service = serde_json::from_value(json!({"spec": spec})).unwrap();
            assert_eq!(target("policy", "hook", &service), expected);
        }
    }
}
