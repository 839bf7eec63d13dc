//! Flags of admission.

use std::sync::Arc;

use clap::Args;
use kube::Client;
use machinery_admission::{AdmissionMetrics, AdmissionOptions, Plugin, Plugins, TokenAccount};
use machinery_auth::Authorizer;
use machinery_server::KubeNamespaces;
use tokio_util::sync::CancellationToken;

/// Flags of admission: webhooks, policies and quota, which kube-apiserver leaves to this server.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
pub struct AdmissionFlags {
    /// Admission plugins that do not take part, separated by commas: MutatingAdmissionWebhook,
    /// ValidatingAdmissionPolicy, ValidatingAdmissionWebhook, ResourceQuota. All take part by default.
    #[arg(long, value_delimiter = ',', value_name = "PLUGINS")]
    pub disable_admission_plugins: Vec<Plugin>,
    /// Maximum number of calls of admission webhooks in progress. One user can have a quarter of them, and
    /// the service accounts of one namespace together. An eighth is reserved for priority users.
    #[arg(long, default_value_t = 200, value_name = "NUMBER")]
    pub max_webhook_calls_inflight: usize,
    /// Service account whose tokens prove the API server to each admission webhook that it calls, as
    /// NAMESPACE/NAME. Needs a kube-apiserver with the feature gate APIServerWebhookAuthenticationToken.
    /// Without it calls carry no token.
    #[arg(long, value_name = "NAMESPACE/NAME")]
    pub webhook_token_account: Option<TokenAccount>,
}

impl AdmissionFlags {
    /// Starts the plugins that take part; `None` when all are disabled.
    pub(crate) fn start(
        &self,
        client: &Client,
        namespaces: Arc<KubeNamespaces>,
        authorizer: Arc<dyn Authorizer>,
        priority_users: &[String],
        metrics: AdmissionMetrics,
        shutdown: &CancellationToken,
    ) -> Option<Arc<Plugins>> {
        let plugins = self.plugins();
        if plugins.is_empty() {
            return None;
        }
        let options = AdmissionOptions {
            plugins,
            priority_users: priority_users.to_vec(),
            max_calls_in_flight: self.max_webhook_calls_inflight,
            webhook_tokens: self.webhook_token_account.clone(),
            ..AdmissionOptions::default()
        };
        Some(Plugins::start(client, namespaces, authorizer, options, metrics, shutdown))
    }

    fn plugins(&self) -> Vec<Plugin> {
        Plugin::ALL.into_iter().filter(|plugin| !self.disable_admission_plugins.contains(plugin)).collect()
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Flags {
        #[command(flatten)]
        admission: AdmissionFlags,
    }

    #[test]
    fn plugins_are_disabled_by_name() {
        let parse = |flags: &[&str]| Flags::try_parse_from(std::iter::once(&"x").chain(flags));
        let all = parse(&[]).expect("no flag is required");
        assert_eq!(all.admission.plugins(), Plugin::ALL);
        let names = "--disable-admission-plugins=ResourceQuota,MutatingAdmissionWebhook";
        let some = parse(&[names]).expect("known names");
        let left = [Plugin::ValidatingAdmissionPolicy, Plugin::ValidatingAdmissionWebhook];
        assert_eq!(some.admission.plugins(), left);
        assert!(parse(&["--disable-admission-plugins=PodSecurity"]).is_err());
    }
}
