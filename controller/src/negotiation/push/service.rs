//! Address of a Service.

use std::net::{IpAddr, SocketAddr};

use evacuation_api::{CaBundle, ServiceEndpoint};
use ipnet::IpNet;
use k8s_openapi::api::{
    core::v1::{Service, ServicePort, ServiceSpec},
    discovery::v1::{Endpoint, EndpointSlice},
};
use machinery_watch::Projection;
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, pem::PemObject},
};

use super::address::{AddressProblem, check_address};

/// Maximum number of EndpointSlices of a Service that is asked: each has up to 100 endpoints by default.
pub(super) const MAX_SLICES: usize = 100;
/// The Service of the Kubernetes API itself.
const KUBERNETES: (&str, &str) = ("default", "kubernetes");

/// Maximum number of ports of a Service that are looked at.
const MAX_PORTS: usize = 1000;

/// The part of a Service, and of its EndpointSlices, by which it is asked. The labels of both can have a
/// megabyte.
pub(super) enum Addressed {}

impl Projection<Service> for Addressed {
    fn project(service: &mut Service) {
        let spec = std::mem::take(service).spec.unwrap_or_default();
        let ports = spec.ports.into_iter().flatten().take(MAX_PORTS).map(|port| ServicePort {
            port: port.port,
            protocol: port.protocol,
            ..ServicePort::default()
        });
        service.spec = Some(ServiceSpec {
            type_: spec.type_,
            cluster_ip: spec.cluster_ip,
            ports: Some(ports.collect()),
            ..ServiceSpec::default()
        });
    }
}

impl Projection<EndpointSlice> for Addressed {
    fn project(slice: &mut EndpointSlice) {
        let endpoints = std::mem::take(slice).endpoints.into_iter().flatten().map(|endpoint| Endpoint {
            addresses: endpoint.addresses,
            target_ref: endpoint.target_ref,
            ..Endpoint::default()
        });
        slice.endpoints = Some(endpoints.collect());
    }
}

/// Reason for which a Service is not asked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ServiceProblem {
    /// There is no such Service.
    #[error("service {0} does not exist")]
    Missing(String),
    /// Whoever registers it would have the controller write to the API.
    #[error("service {0} is the Kubernetes API, which is never asked")]
    KubernetesApi(String),
    /// It is headless, or another name for something elsewhere.
    #[error("service {0} has no cluster IP")]
    NoClusterIp(String),
    /// The Service has no such port.
    #[error("service {name} has no TCP port {port}")]
    NoPort {
        /// Namespace and name.
        name: String,
        /// The port that is registered.
        port: u16,
    },
    /// The Service's address is never asked.
    #[error("service {name} has {problem}, which is never asked: {address}")]
    Address {
        /// Namespace and name.
        name: String,
        /// The address.
        address: IpAddr,
        /// Kind of the address.
        problem: AddressProblem,
    },
    /// Nothing stands behind the Service.
    #[error("service {0} has no endpoint")]
    NoEndpoint(String),
    /// More EndpointSlices than are read stand behind the Service.
    #[error("service {0} has more than {most} EndpointSlices", most = MAX_SLICES)]
    TooManySlices(String),
    /// Something else than a pod of the namespace stands behind the Service.
    #[error("service {name} has endpoint {address}, which is no pod of its namespace")]
    NotAPod {
        /// Namespace and name.
        name: String,
        /// The address in the EndpointSlice.
        address: String,
    },
    /// The certificate authorities make no sense.
    #[error("the caBundle for service {name} cannot be used: {problem}")]
    CaBundle {
        /// Namespace and name.
        name: String,
        /// Problem with it.
        problem: String,
    },
}

/// The address at which a Service is asked: its cluster IP, as the API has it, so that no name service has a
/// say.
pub(super) fn service_address(
    namespace: &str,
    endpoint: &ServiceEndpoint,
    service: Option<&Service>,
    allowed: &[IpNet],
) -> Result<SocketAddr, ServiceProblem> {
    let name = format!("{namespace}/{}", endpoint.name);
    if (namespace, endpoint.name.as_str()) == KUBERNETES {
        return Err(ServiceProblem::KubernetesApi(name));
    }
    let Some(service) = service else {
        return Err(ServiceProblem::Missing(name));
    };
    let spec = service.spec.as_ref();
    let is_alias = spec.and_then(|spec| spec.type_.as_deref()) == Some("ExternalName");
    let cluster_ip = spec.and_then(|spec| spec.cluster_ip.as_deref()).filter(|_| !is_alias);
    let Some(address) = cluster_ip.and_then(|text| text.parse::<IpAddr>().ok()) else {
        return Err(ServiceProblem::NoClusterIp(name));
    };
    let port = endpoint.port;
    let mut ports = spec.and_then(|spec| spec.ports.as_ref()).into_iter().flatten();
    if !ports
        .any(|known| known.port == i32::from(port) && known.protocol.as_deref().is_none_or(|p| p == "TCP"))
    {
        return Err(ServiceProblem::NoPort { name, port });
    }
    check_address(address, allowed).map_err(|problem| ServiceProblem::Address { name, address, problem })?;
    Ok(SocketAddr::new(address, port))
}

/// TLS that trusts these authorities and no others.
pub(super) fn trusting(
    namespace: &str,
    endpoint: &ServiceEndpoint,
    bundle: &CaBundle,
) -> Result<ClientConfig, ServiceProblem> {
    let unusable = |problem: String| ServiceProblem::CaBundle {
        name: format!("{namespace}/{}", endpoint.name),
        problem,
    };
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&bundle.0) {
        let certificate = certificate.map_err(|error| unusable(error.to_string()))?;
        roots.add(certificate).map_err(|error| unusable(error.to_string()))?;
    }
    if roots.is_empty() {
        return Err(unusable("it holds no certificate".to_owned()));
    }
    Ok(ClientConfig::builder().with_root_certificates(roots).with_no_client_auth())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn endpoint(name: &str) -> ServiceEndpoint {
        ServiceEndpoint { name: name.to_owned(), port: 8443, path: None, https: None }
    }

    /// A Service as it is read.
    fn service(spec: &Value) -> Service {
        let labels = json!({"a": "b"});
        let service = json!({"metadata": {"name": "failover", "labels": labels}, "spec": spec});
        let mut service: Service = serde_json::from_value(service).unwrap();
        Addressed::project(&mut service);
        assert_eq!(service.metadata.labels, None);
        service
    }

    #[test]
    fn a_service_is_asked_at_its_cluster_ip_and_a_port_that_it_has() {
        let with = |more: Value| {
            let mut spec = json!({"clusterIP": "10.96.0.7", "ports": [{"port": 8443}]});
            for (field, value) in more.as_object().unwrap() {
                spec[field] = value.clone();
            }
            spec
        };
        let table = [
            (with(json!({})), "10.96.0.7:8443"),
            (with(json!({"clusterIP": "fd00::7"})), "[fd00::7]:8443"),
            (with(json!({"ports": [{"port": 80}]})), "service shop/failover has no TCP port 8443"),
            (
                with(json!({"ports": [{"port": 8443, "protocol": "UDP"}]})),
                "service shop/failover has no TCP port 8443",
            ),
            (with(json!({"clusterIP": "None"})), "service shop/failover has no cluster IP"),
            (
                with(json!({"type": "ExternalName", "externalName": "elsewhere.example.com"})),
                "service shop/failover has no cluster IP",
            ),
            (
                with(json!({"clusterIP": "127.0.0.1"})),
                "service shop/failover has a loopback address, which is never asked: 127.0.0.1",
            ),
            (
                with(json!({"clusterIP": "169.254.169.254"})),
                "service shop/failover has a link-local address, which is never asked: 169.254.169.254",
            ),
        ];
        for (spec, expected) in table {
            let found = service_address("shop", &endpoint("failover"), Some(&service(&spec)), &[]);
            let found = found.map_or_else(|problem| problem.to_string(), |address| address.to_string());
            assert_eq!(found, expected, "{spec}");
        }
        let missing = service_address("shop", &endpoint("failover"), None, &[]).unwrap_err();
        assert_eq!(missing.to_string(), "service shop/failover does not exist");
    }

    #[test]
    fn an_address_is_asked_that_was_opened() {
        let loopback = service(&json!({"clusterIP": "127.96.0.7", "ports": [{"port": 8443}]}));
        let allowed = ["127.96.0.0/16".parse().unwrap()];
        let found = service_address("shop", &endpoint("failover"), Some(&loopback), &allowed);
        assert_eq!(found.unwrap().to_string(), "127.96.0.7:8443");
    }

    #[test]
    fn the_kubernetes_api_is_never_asked() {
        let api = service(&json!({"clusterIP": "10.96.0.1", "ports": [{"port": 8443}]}));
        for (namespace, refused) in [("default", true), ("shop", false)] {
            let found = service_address(namespace, &endpoint("kubernetes"), Some(&api), &[]);
            assert_eq!(found.is_err(), refused, "{namespace}: {found:?}");
        }
    }

    #[test]
    fn a_bundle_without_a_certificate_trusts_nobody() {
        for bundle in ["", "hello", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"] {
            let found = trusting("shop", &endpoint("failover"), &CaBundle(bundle.as_bytes().to_vec()));
            assert!(matches!(found, Err(ServiceProblem::CaBundle { .. })), "{bundle:?}");
        }
    }
}
