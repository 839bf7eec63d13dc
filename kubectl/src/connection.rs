//! The flags for cluster, namespace and user, as kubectl has them.

use std::time::Duration;

use anyhow::Context;
use clap::Args;
use http::{HeaderValue, header::USER_AGENT};
use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use kube::{
    Api, Client, Config,
    api::PostParams,
    config::{KubeConfigOptions, Kubeconfig},
};

use crate::{duration::timeout, verbosity};

/// Name of the plugins in audit logs and in the `metadata.managedFields` of what they write.
const AGENT: &str = concat!("kubectl-evacuate/", env!("CARGO_PKG_VERSION"));

/// Cluster and user of the command.
#[derive(Args, Debug, Default)]
pub(crate) struct Connection {
    /// The kubeconfig file; KUBECONFIG or ~/.kube/config by default.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<std::path::PathBuf>,
    /// The context of the kubeconfig.
    #[arg(long)]
    context: Option<String>,
    /// The cluster of the kubeconfig; the context's by default.
    #[arg(long)]
    cluster: Option<String>,
    /// The user to act as.
    #[arg(long = "as", value_name = "USER")]
    impersonate: Option<String>,
    /// A group to act as; can be repeated.
    #[arg(long = "as-group", value_name = "GROUP", requires = "impersonate")]
    impersonate_groups: Vec<String>,
    /// Maximum time that a reply of the server may take, such as 30s; 0 means no limit.
    #[arg(long, value_name = "DURATION", value_parser = request_timeout)]
    request_timeout: Option<Duration>,
    /// Log level, as in kubectl: from 6 on each request is logged on standard error.
    #[arg(short = 'v', long = "v", value_name = "LEVEL", default_value_t = 0, hide_default_value = true)]
    verbosity: u8,
}

/// Cluster, user and namespace of a command whose objects live in namespaces.
#[derive(Args, Debug, Default)]
pub(crate) struct NamespacedConnection {
    #[command(flatten)]
    connection: Connection,
    /// The namespace; the context's by default.
    #[arg(short, long)]
    namespace: Option<String>,
}

impl NamespacedConnection {
    /// Makes a client, whose default namespace is the chosen one.
    pub(crate) async fn client(&self) -> anyhow::Result<Client> {
        Ok(Client::try_from(self.config().await?)?)
    }

    /// Returns the configuration of such a client.
    pub(crate) async fn config(&self) -> anyhow::Result<Config> {
        let mut config = self.connection.config().await?;
        if let Some(namespace) = &self.namespace {
            config.default_namespace.clone_from(namespace);
        }
        Ok(config)
    }
}

impl Connection {
    /// Makes a client.
    pub(crate) async fn client(&self) -> anyhow::Result<Client> {
        Ok(Client::try_from(self.config().await?)?)
    }

    async fn config(&self) -> anyhow::Result<Config> {
        verbosity::set(self.verbosity);
        let options = KubeConfigOptions {
            context: self.context.clone(),
            cluster: self.cluster.clone(),
            ..KubeConfigOptions::default()
        };
        let mut config = match &self.kubeconfig {
            Some(file) => {
                let kubeconfig = Kubeconfig::read_from(file)
                    .with_context(|| format!("the kubeconfig {} cannot be read", file.display()))?;
                Config::from_custom_kubeconfig(kubeconfig, &options).await?
            }
            None if self.context.is_some() || self.cluster.is_some() => {
                Config::from_kubeconfig(&options).await?
            }
            None => Config::infer().await.context("no cluster is configured")?,
        };
        config.headers.push((USER_AGENT, HeaderValue::from_static(AGENT)));
        if self.impersonate.is_some() {
            config.auth_info.impersonate.clone_from(&self.impersonate);
        }
        if !self.impersonate_groups.is_empty() {
            config.auth_info.impersonate_groups = Some(self.impersonate_groups.clone());
        }
        if let Some(limit) = self.request_timeout {
            let limit = (limit != Duration::MAX).then_some(limit);
            config.connect_timeout = limit;
            config.read_timeout = limit;
            config.write_timeout = limit;
            // A connection that rested in the pool has not used up the time of the next request.
            config.reset_reader_on_write = true;
        }
        Ok(config)
    }
}

/// Reads `--request-timeout`, in which a bare number means seconds, as in kubectl.
fn request_timeout(text: &str) -> Result<Duration, String> {
    match text.parse::<u32>() {
        Ok(0) | Err(_) => timeout(text),
        Ok(seconds) => Ok(Duration::from_secs(u64::from(seconds))),
    }
}

/// The caller's user name, as the server knows it.
pub(crate) async fn user_name(client: &Client) -> anyhow::Result<String> {
    let api: Api<SelfSubjectReview> = Api::all(client.clone());
    let review = api.create(&PostParams::default(), &SelfSubjectReview::default()).await;
    let review = review.context("the server did not tell your user name")?;
    let user = review.status.and_then(|status| status.user_info).and_then(|user| user.username);
    user.context("the server did not tell your user name")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_timeout_is_a_duration_or_a_number_of_seconds() {
        for (text, expected) in [
            ("30s", Some(Duration::from_secs(30))),
            ("5", Some(Duration::from_secs(5))),
            ("0", Some(Duration::MAX)),
            ("soon", None),
        ] {
            assert_eq!(request_timeout(text).ok(), expected, "{text}");
        }
    }
}
