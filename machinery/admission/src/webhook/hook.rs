//! One webhook of a configuration.

use std::time::Duration;

use k8s_openapi::{
    ByteString,
    api::admissionregistration::v1::{
        MatchCondition, MutatingWebhook, RuleWithOperations, ValidatingWebhook, WebhookClientConfig,
    },
    apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta},
};

use machinery_server::AdmissionAttributes;

use crate::{
    cel::Conditions,
    matching::{MatchPolicy, Rule, SelectorError, Selectors},
};

/// Timeout of a webhook that names none, as kube-apiserver sets it.
const DEFAULT_TIMEOUT: i32 = 10;

/// One webhook of a configuration.
#[derive(Debug)]
pub(crate) struct Hook {
    pub(crate) name: String,
    pub(crate) configuration: String,
    pub(crate) configuration_uid: String,
    rules: Vec<Rule>,
    match_policy: MatchPolicy,
    /// The selectors, or why they cannot be read.
    pub(crate) selectors: Result<Selectors, SelectorError>,
    pub(crate) conditions: Conditions,
    /// True when a failure of the call does not refuse the write.
    pub(crate) fails_open: bool,
    pub(crate) timeout: Duration,
    /// True when the webhook has no side effects in a dry run.
    pub(crate) allows_dry_run: bool,
    pub(crate) review_version: Option<ReviewVersion>,
    pub(crate) client: ClientConfig,
    /// True when the webhook is called again after later ones changed the object.
    pub(crate) reinvoked: bool,
}

/// Version of the AdmissionReview that a webhook receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReviewVersion {
    V1,
    V1Beta1,
}

impl ReviewVersion {
    /// Returns the value of `apiVersion`.
    pub(crate) fn api_version(self) -> &'static str {
        match self {
            Self::V1 => "admission.k8s.io/v1",
            Self::V1Beta1 => "admission.k8s.io/v1beta1",
        }
    }
}

/// Address of a webhook.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ClientConfig {
    pub(crate) address: Address,
    /// Trusted certificate authorities, PEM; empty for those of the system.
    pub(crate) ca: Vec<u8>,
}

/// Address of a webhook.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Address {
    Url(String),
    Service {
        namespace: String,
        name: String,
        port: u16,
        path: String,
    },
    /// The configuration names neither, or both.
    Unclear,
}

impl Hook {
    pub(crate) fn of_mutating(configuration: &ObjectMeta, webhook: &MutatingWebhook) -> Self {
        let reinvoked = webhook.reinvocation_policy.as_deref() == Some("IfNeeded");
        Self::new(WebhookFields {
            configuration,
            name: &webhook.name,
            rules: webhook.rules.as_deref(),
            match_policy: webhook.match_policy.as_deref(),
            namespace_selector: webhook.namespace_selector.as_ref(),
            object_selector: webhook.object_selector.as_ref(),
            conditions: webhook.match_conditions.as_deref(),
            failure_policy: webhook.failure_policy.as_deref(),
            timeout: webhook.timeout_seconds,
            side_effects: &webhook.side_effects,
            versions: &webhook.admission_review_versions,
            client: &webhook.client_config,
            reinvoked,
        })
    }

    pub(crate) fn of_validating(configuration: &ObjectMeta, webhook: &ValidatingWebhook) -> Self {
        Self::new(WebhookFields {
            configuration,
            name: &webhook.name,
            rules: webhook.rules.as_deref(),
            match_policy: webhook.match_policy.as_deref(),
            namespace_selector: webhook.namespace_selector.as_ref(),
            object_selector: webhook.object_selector.as_ref(),
            conditions: webhook.match_conditions.as_deref(),
            failure_policy: webhook.failure_policy.as_deref(),
            timeout: webhook.timeout_seconds,
            side_effects: &webhook.side_effects,
            versions: &webhook.admission_review_versions,
            client: &webhook.client_config,
            reinvoked: false,
        })
    }

    fn new(fields: WebhookFields<'_>) -> Self {
        let timeout = fields.timeout.unwrap_or(DEFAULT_TIMEOUT).clamp(1, 30);
        let fails_open = fields.failure_policy == Some("Ignore");
        let versions = fields.versions.iter().find_map(|version| match version.as_str() {
            "v1" => Some(ReviewVersion::V1),
            "v1beta1" => Some(ReviewVersion::V1Beta1),
            _ => None,
        });
        Self {
            name: fields.name.to_owned(),
            configuration: fields.configuration.name.clone().unwrap_or_default(),
            configuration_uid: fields.configuration.uid.clone().unwrap_or_default(),
            rules: fields.rules.unwrap_or_default().iter().map(Rule::of_webhook).collect(),
            match_policy: MatchPolicy::new(fields.match_policy),
            selectors: Selectors::new(fields.namespace_selector, fields.object_selector),
            conditions: Conditions::new(fields.conditions.unwrap_or_default(), fails_open),
            fails_open,
            timeout: Duration::from_secs(u64::from(timeout.unsigned_abs())),
            allows_dry_run: matches!(fields.side_effects, "None" | "NoneOnDryRun"),
            review_version: versions,
            client: ClientConfig::new(fields.client),
            reinvoked: fields.reinvoked,
        }
    }

    /// Returns the version in which a rule is for a write; `None` when none is.
    pub(crate) fn matched_version<'a>(&self, attributes: &AdmissionAttributes<'a>) -> Option<&'a str> {
        self.match_policy.matched_version(&self.rules, attributes)
    }
}

/// Fields that both kinds of webhooks have.
#[derive(Clone, Copy)]
struct WebhookFields<'a> {
    configuration: &'a ObjectMeta,
    name: &'a str,
    rules: Option<&'a [RuleWithOperations]>,
    match_policy: Option<&'a str>,
    namespace_selector: Option<&'a LabelSelector>,
    object_selector: Option<&'a LabelSelector>,
    conditions: Option<&'a [MatchCondition]>,
    failure_policy: Option<&'a str>,
    timeout: Option<i32>,
    side_effects: &'a str,
    versions: &'a [String],
    client: &'a WebhookClientConfig,
    reinvoked: bool,
}

impl ClientConfig {
    fn new(config: &WebhookClientConfig) -> Self {
        let address = match (&config.url, &config.service) {
            (Some(url), None) => Address::Url(url.clone()),
            (None, Some(service)) => Address::Service {
                namespace: service.namespace.clone(),
                name: service.name.clone(),
                port: service.port.and_then(|port| u16::try_from(port).ok()).unwrap_or(443),
                path: service.path.clone().unwrap_or_default(),
            },
            _ => Address::Unclear,
        };
        let ca = config.ca_bundle.clone().map(|ByteString(ca)| ca).unwrap_or_default();
        Self { address, ca }
    }
}
