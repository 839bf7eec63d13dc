//! The flags for cluster, namespace and user, as kubectl has them.

mod answering;
mod diagnosis;
mod failure;
mod outages;
mod overrides;
mod warnings;

use std::{sync::Arc, time::Duration};

use anyhow::Context;
use clap::Args;
use http::{HeaderValue, header::USER_AGENT};
use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use kube::{
    Api, Client, Config,
    api::PostParams,
    config::{KubeConfigOptions, Kubeconfig},
};

use self::{
    answering::{Answering, FOREVER},
    overrides::Overrides,
};
pub(crate) use self::{
    diagnosis::{CHECK_FIRST, api_service, unavailable},
    outages::Outages,
    overrides::bearer,
    warnings::warnings,
};
use crate::{duration::timeout, verbosity};

/// Time in which a server must answer, unless `--request-timeout` says another.
const PATIENCE: Duration = Duration::from_secs(30);

/// Minimum time by which the timers of a connection outlast the limit of a request.
const MARGIN: Duration = Duration::from_secs(1);

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
    #[command(flatten)]
    overrides: Overrides,
    /// Maximum time that a reply of the server may take, repeated attempts included; 30s by default, 0 means
    /// no limit.
    #[arg(long, value_name = "DURATION", value_parser = request_timeout)]
    request_timeout: Option<Duration>,
    /// Log level, as in kubectl: from 6 on each request is logged on standard error.
    #[arg(short = 'v', long = "v", value_name = "LEVEL", default_value_t = 0, hide_default_value = true)]
    verbosity: u8,
    /// Outages of servers, as the client meets them.
    #[arg(skip)]
    outages: Arc<Outages>,
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
        self.connection.client_of(self.config().await?)
    }

    /// Makes a client with another configuration than [`Self::config`].
    pub(crate) fn client_of(&self, config: Config) -> anyhow::Result<Client> {
        self.connection.client_of(config)
    }

    /// Makes a client for a command that ends after `patience`, unless `--request-timeout` says another time,
    /// and a client that sends each request once. Returns that time, too.
    ///
    /// A request of the first client ends a fifth of the time sooner, which leaves time for its diagnosis.
    pub(crate) async fn patient_clients(
        &self,
        patience: Duration,
    ) -> anyhow::Result<(Client, Client, Duration)> {
        let mut config = self.config().await?;
        config.default_retry = false;
        let limit = self.connection.request_timeout.unwrap_or(patience).min(FOREVER);
        let once = Client::try_from(config.clone())?;
        Ok((self.connection.client_within(config, limit.mul_f64(0.8))?, once, limit))
    }

    /// Returns the outages that the clients of this connection meet.
    pub(crate) fn outages(&self) -> Arc<Outages> {
        self.connection.outages()
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
        self.client_of(self.config().await?)
    }

    /// Returns the outages that the clients of this connection meet.
    pub(crate) fn outages(&self) -> Arc<Outages> {
        self.outages.clone()
    }

    fn client_of(&self, config: Config) -> anyhow::Result<Client> {
        self.client_within(config, self.request_timeout.unwrap_or(PATIENCE))
    }

    fn client_within(&self, mut config: Config, limit: Duration) -> anyhow::Result<Client> {
        let cluster = config.cluster_url.to_string();
        let namespace = config.default_namespace.clone();
        // Retries are the business of the layer around it, and so is the end of a request at its limit. A
        // timer of the connection that ran out in that moment would end it with an error that tells less.
        config.default_retry = false;
        let outlast =
            |time: Duration| if time < limit { time } else { time.max(limit.saturating_add(MARGIN)) };
        config.connect_timeout = config.connect_timeout.map(outlast);
        config.read_timeout = config.read_timeout.map(outlast);
        config.write_timeout = config.write_timeout.map(outlast);
        let client = Client::try_from(config)?;
        let cluster = cluster.trim_end_matches('/');
        Ok(Client::new(Answering::new(client, limit, self.outages.clone(), cluster), namespace))
    }

    async fn config(&self) -> anyhow::Result<Config> {
        verbosity::set(self.verbosity);
        // The credentials of a pod are for the server of its own cluster.
        let server = self.overrides.server.is_some();
        let chosen =
            self.context.is_some() || self.cluster.is_some() || self.overrides.user.is_some() || server;
        let options = KubeConfigOptions {
            context: self.context.clone(),
            cluster: self.cluster.clone(),
            user: self.overrides.user.clone(),
        };
        let mut config = match &self.kubeconfig {
            Some(file) => {
                let kubeconfig = Kubeconfig::read_from(file)
                    .with_context(|| format!("the kubeconfig {} cannot be read", file.display()))?;
                Config::from_custom_kubeconfig(kubeconfig, &options).await?
            }
            None if chosen => Config::from_kubeconfig(&options).await?,
            None => Config::infer().await.context("no cluster is configured")?,
        };
        self.overrides.apply(&mut config)?;
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
    use std::net::TcpListener;

    use evacuation_api::NodeEvacuation;
    use futures::future::join_all;
    use kube::api::ListParams;

    use super::*;

    #[tokio::test]
    async fn a_server_that_takes_connections_and_says_nothing_gives_no_reply_within_the_limit() {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("https://{}", server.local_addr().unwrap());
        let limit = Duration::from_secs(1);
        let mut config = Config::new(url.parse().unwrap());
        for timer in [&mut config.connect_timeout, &mut config.read_timeout, &mut config.write_timeout] {
            *timer = Some(limit);
        }
        // One of a few would meet the other timer.
        let requests = (0..16).map(|_| {
            let client = Connection::default().client_within(config.clone(), limit).unwrap();
            async move { Api::<NodeEvacuation>::all(client).list(&ListParams::default()).await }
        });
        for reply in join_all(requests).await {
            let error = reply.unwrap_err().to_string();
            assert!(error.contains("does not answer (no reply within 1s)"), "{error}");
        }
    }

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
