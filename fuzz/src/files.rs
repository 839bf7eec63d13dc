//! Configuration: files, and the cluster's ConfigMap of authentication.

use std::{collections::BTreeMap, str::from_utf8};

use machinery_audit::{Decision, Policy};
use machinery_auth::{Attributes, AuthenticationConfig, ResourceAttributes, UserInfo};
use machinery_tracing::TracingConfig;

/// Reads an audit policy. It decides on every request, the same for the same request.
pub(crate) fn audit_policy(input: &[u8]) {
    let Ok(policy) = Policy::parse(input) else { return };
    let user = || UserInfo { name: "jane".to_owned(), groups: vec!["dev".to_owned()], ..UserInfo::default() };
    let pods = ResourceAttributes::new("", "v1", "pods").subresource("log").in_namespace("shop").named("a");
    let decide = || -> Vec<Decision> {
        let requests = [
            Attributes::of_resource(user(), "get", pods.clone()),
            Attributes::of_path(user(), "get", "/healthz/etcd"),
            Attributes::of_path(UserInfo::default(), "get", "/"),
        ];
        requests.iter().map(|request| policy.decide(request).clone()).collect()
    };
    assert_eq!(decide(), decide());
}

/// Reads the configuration of traces. Its rate is one of a million.
pub(crate) fn tracing_configuration(input: &[u8]) {
    let Ok(config) = TracingConfig::parse(input) else { return };
    assert!(config.sampling_rate_per_million <= 1_000_000, "{config:?}");
    assert!(!config.endpoint.is_empty(), "{config:?}");
}

pub(crate) fn gateway_configuration(input: &[u8]) {
    evacuation_gateway::fuzzing::configuration(input);
}

/// The key of a value, a line break, and the value; the next value begins after a line with `---`.
///
/// A prefix of headers with extras is never empty: every header would be an extra.
pub(crate) fn authentication_config(input: &[u8]) {
    let Ok(text) = from_utf8(input) else { return };
    let values = text.split("\n---\n").filter_map(|value| value.split_once('\n'));
    let data: BTreeMap<String, String> =
        values.map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
    let Ok(config) = AuthenticationConfig::from_config_map(&data) else { return };
    let Some(proxy) = config.request_header else { return };
    assert!(proxy.extra_prefixes.iter().all(|prefix| !prefix.is_empty()), "{:?}", proxy.extra_prefixes);
}
