//! Check that pods of the namespace stand behind a Service.

use std::net::IpAddr;

use ipnet::IpNet;
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointSlice};

use super::{
    address::check_address,
    service::{MAX_SLICES, ServiceProblem},
};

/// Label of an EndpointSlice with the name of its Service.
pub(super) const SERVICE_LABEL: &str = "kubernetes.io/service-name";

/// Fails unless every endpoint of a Service is a pod of its namespace, at an address that may be asked.
///
/// Kubernetes forwards a Service's traffic to whatever its EndpointSlices name. Without this check the author
/// of an EndpointSlice could send the controller's requests to any address that the controller reaches.
/// `has_pod` says whether the namespace has a pod of that UID at that address. Of more
/// than [`MAX_SLICES`] not all were read, and what is not read can name anything.
pub(super) fn check_backing(
    service: &str,
    namespace: &str,
    slices: &[EndpointSlice],
    allowed: &[IpNet],
    has_pod: impl Fn(&str, IpAddr) -> bool,
) -> Result<(), ServiceProblem> {
    let foreign =
        |address: &str| ServiceProblem::NotAPod { name: service.to_owned(), address: address.to_owned() };
    if slices.len() > MAX_SLICES {
        return Err(ServiceProblem::TooManySlices(service.to_owned()));
    }
    let endpoints: Vec<&Endpoint> =
        slices.iter().flat_map(|slice| slice.endpoints.iter().flatten()).collect();
    if endpoints.is_empty() {
        return Err(ServiceProblem::NoEndpoint(service.to_owned()));
    }
    for endpoint in endpoints {
        let uid = pod_uid(endpoint, namespace);
        for text in &endpoint.addresses {
            let address: IpAddr = text.parse().map_err(|_| foreign(text))?;
            if !uid.is_some_and(|uid| has_pod(uid, address)) {
                return Err(foreign(text));
            }
            let name = service.to_owned();
            check_address(address, allowed).map_err(|problem| ServiceProblem::Address {
                name,
                address,
                problem,
            })?;
        }
    }
    Ok(())
}

/// UID of the pod that an endpoint claims to be.
fn pod_uid<'a>(endpoint: &'a Endpoint, namespace: &str) -> Option<&'a str> {
    let target = endpoint.target_ref.as_ref().filter(|target| target.kind.as_deref() == Some("Pod"))?;
    let here = target.namespace.as_deref().is_none_or(|given| given == namespace);
    target.uid.as_deref().filter(|_| here)
}

#[cfg(test)]
mod tests {
    use machinery_watch::Projection;
    use serde_json::{Value, json};

    use super::{super::service::Addressed, *};

    fn checked(endpoints: &Value, count: usize) -> Result<(), String> {
        let slice = json!({"metadata": {"name": "s"}, "addressType": "IPv4", "endpoints": endpoints});
        let mut slice = serde_json::from_value(slice).unwrap();
        // As it is read.
        Addressed::project(&mut slice);
        let slices = vec![slice; count];
        let has_pod = |uid: &str, address: IpAddr| {
            [("p1", "10.0.0.1"), ("p2", "169.254.169.254")].contains(&(uid, address.to_string().as_str()))
        };
        check_backing("shop/failover", "shop", &slices, &[], has_pod).map_err(|problem| problem.to_string())
    }

    /// # Attack
    ///
    /// - Attacker: a tenant who may write EndpointSlices
    /// - Act: makes more of them than are read, and points the last one elsewhere
    /// - Promise: 12
    #[test]
    fn a_service_is_asked_only_when_pods_of_its_namespace_stand_behind_it() {
        let endpoint = |address: &str, target: Value| json!({"addresses": [address], "targetRef": target});
        let pod = |uid: &str| json!({"kind": "Pod", "namespace": "shop", "name": "p", "uid": uid});
        let good = endpoint("10.0.0.1", pod("p1"));
        let no_pod = |address: &str| {
            Err(format!("service shop/failover has endpoint {address}, which is no pod of its namespace"))
        };
        let elsewhere = json!({"kind": "Pod", "namespace": "other", "name": "p", "uid": "p1"});
        let table = [
            (json!([good]), Ok(())),
            (json!([]), Err("service shop/failover has no endpoint".to_owned())),
            (json!([good, {"addresses": ["10.96.0.1"]}]), no_pod("10.96.0.1")),
            (json!([endpoint("10.0.0.2", pod("p1"))]), no_pod("10.0.0.2")),
            (json!([endpoint("10.0.0.1", pod("p9"))]), no_pod("10.0.0.1")),
            (json!([endpoint("10.0.0.1", elsewhere)]), no_pod("10.0.0.1")),
            (json!([endpoint("10.0.0.1", json!({"kind": "Node", "uid": "p1"}))]), no_pod("10.0.0.1")),
            (json!([endpoint("metadata.internal", pod("p1"))]), no_pod("metadata.internal")),
            (
                json!([endpoint("169.254.169.254", pod("p2"))]),
                Err("service shop/failover has a link-local address, which is never asked: 169.254.169.254"
                    .to_owned()),
            ),
        ];
        for (endpoints, expected) in table {
            assert_eq!(checked(&endpoints, 1), expected, "{endpoints}");
        }
        let more = "service shop/failover has more than 100 EndpointSlices";
        assert_eq!(checked(&json!([good]), MAX_SLICES + 1).unwrap_err(), more);
    }
}
